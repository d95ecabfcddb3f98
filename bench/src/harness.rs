//! Measuring several contenders in turn, and printing what came out.
//!
//! A run times one contender for a few milliseconds. A round is one run of each; the order turns with every
//! round, so that nobody always goes after the same neighbour. What is reported of the rounds is the median,
//! of the time and of the ratio to the baseline *in the same round*, with the middle half of the ratios: on a
//! shared machine a mean says more about the neighbours.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Long enough to believe.
    Full,
    /// Just to see that everything runs.
    Short,
}

impl Effort {
    fn rounds(self) -> usize {
        match self {
            Effort::Full => 31,
            Effort::Short => 3,
        }
    }

    fn run(self) -> Duration {
        match self {
            Effort::Full => Duration::from_millis(20),
            Effort::Short => Duration::from_millis(1),
        }
    }
}

/// Times so many operations in each of so many threads.
pub type Timed = Box<dyn Fn(u64, usize) -> Duration>;

/// One row of a table.
pub struct Contender {
    name: &'static str,
    timed: Timed,
}

impl Contender {
    /// `operation` is called over and over, from several threads at once; each time it must answer `expected`.
    pub fn new(
        name: &'static str,
        expected: bool,
        operation: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Contender {
        // The loop is inside, so that the operation is compiled into it as in a user's program.
        let timed = move |times: u64, threads: usize| {
            let work = || {
                let yes: u64 = (0..times).map(|_| u64::from(black_box(operation()))).sum();
                assert_eq!(yes, if expected { times } else { 0 }, "{name} did not do what is measured");
            };
            if threads == 1 {
                let start = Instant::now();
                work();
                return start.elapsed();
            }
            let ready = Barrier::new(threads + 1);
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..threads)
                    .map(|_| {
                        scope.spawn(|| {
                            ready.wait();
                            work();
                        })
                    })
                    .collect();
                ready.wait();
                let start = Instant::now();
                for thread in threads {
                    thread.join().expect("the operation does not panic");
                }
                start.elapsed()
            })
        };
        Contender { name, timed: Box::new(timed) }
    }
}

/// Measures, and prints the table. The first contender is what the others are compared with.
pub fn compare(title: &str, contenders: &[Contender], threads: usize, effort: Effort) {
    let times: Vec<u64> = contenders.iter().map(|contender| enough(contender, threads, effort)).collect();
    let mut nanos = vec![Vec::new(); contenders.len()];
    for round in 0..effort.rounds() {
        for turn in 0..contenders.len() {
            let which = (turn + round) % contenders.len();
            let took = (contenders[which].timed)(times[which], threads);
            nanos[which].push(took.as_nanos() as f64 / times[which] as f64);
        }
    }
    println!("### {title}, {threads} thread{}\n", if threads == 1 { "" } else { "s" });
    println!("| | ns per operation and thread | ratio | middle half |");
    println!("|---|--:|--:|--:|");
    for (contender, own) in contenders.iter().zip(&nanos) {
        let ratios: Vec<f64> = own.iter().zip(&nanos[0]).map(|(own, base)| own / base).collect();
        println!(
            "| {} | {:.1} | {:.2} | {:.2} – {:.2} |",
            contender.name,
            quantile(own, 0.5),
            quantile(&ratios, 0.5),
            quantile(&ratios, 0.25),
            quantile(&ratios, 0.75),
        );
    }
    println!();
}

/// How many operations fill a run; warms up on the way.
fn enough(contender: &Contender, threads: usize, effort: Effort) -> u64 {
    let mut times = 1_000;
    loop {
        let took = (contender.timed)(times, threads);
        if took >= effort.run() {
            return times;
        }
        times *= 2;
    }
}

/// The value that a share of the others lie below.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Processor time that this process has used.
pub fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
