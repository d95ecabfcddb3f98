//! Chance that can be repeated: the same seed draws the same numbers on every machine.
//!
//! The generator is SplitMix64: a counter and a mixing function. It is not for secrets. Every part of a
//! simulation draws from dice of its own ([`Dice::part`]), so that a change in one leaves the others alone.

/// A seeded source of chance.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    /// Dice that begin with `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice { state: seed }
    }

    /// Dice for a part of what `seed` stands for, told apart by a name and a number.
    #[must_use]
    pub fn part(seed: u64, name: &str, number: u64) -> Dice {
        let mut dice = Dice::new(seed);
        for byte in name.bytes() {
            dice.state = dice.draw() ^ u64::from(byte);
        }
        dice.state = dice.draw() ^ number;
        Dice::new(dice.draw())
    }

    /// Any 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A whole number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to, but not, 1.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether something happens that happens in this share of cases.
    pub fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }

    /// One of several.
    ///
    /// # Panics
    /// If there is nothing to pick from.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_parts_differ() {
        let draws = |mut dice: Dice| (0..4).map(|_| dice.draw()).collect::<Vec<_>>();
        assert_eq!(draws(Dice::new(7)), draws(Dice::new(7)));
        assert_ne!(draws(Dice::part(7, "latency", 0)), draws(Dice::part(7, "latency", 1)));
        assert_ne!(draws(Dice::part(7, "latency", 0)), draws(Dice::part(7, "arrivals", 0)));
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_its_ends() {
        let mut dice = Dice::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| dice.below(3)).collect();
        assert!((0..3).all(|value| drawn.contains(&value)) && drawn.iter().all(|value| *value < 3));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&dice.unit())));
        assert_eq!(dice.below(0), 0);
    }
}
