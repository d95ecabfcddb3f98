//! Chance that can be repeated, and many seeds of it.

/// Chance that can be repeated (splitmix64).
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1477)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

/// Runs `test` for every seed below `worlds`, on two threads; `TIDEGATE_SEED=n` runs that one alone and
/// `TIDEGATE_WORLDS=n` another number of them. A failure names its seed.
pub fn for_seeds(worlds: u64, test: impl Fn(u64) + Sync) {
    let number = |name| std::env::var(name).ok().map(|n: String| n.parse().expect("a number"));
    if let Some(seed) = number("TIDEGATE_SEED") {
        test(seed);
        return;
    }
    let worlds = number("TIDEGATE_WORLDS").unwrap_or(worlds);
    let one = |seed: u64| {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed)));
        if let Err(cause) = caught {
            eprintln!("failed at seed {seed}: repeat it with TIDEGATE_SEED={seed}");
            std::panic::resume_unwind(cause);
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || (0..worlds).filter(|seed| seed % 2 == thread).for_each(one));
        }
    });
}
