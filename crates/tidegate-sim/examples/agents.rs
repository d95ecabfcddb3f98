//! One API key, a user at the keyboard, forty agents and a background job: who waits, and for how long?
//!
//! Ten minutes of it, in virtual time, once with everybody equal and once with priorities.
//!
//! ```text
//! cargo run --release -p tidegate-sim --example agents
//! ```

use std::time::{Duration, Instant};

use tidegate_core::{Call, Config, Priority};
use tidegate_sim::{Arrival, Fate, run};

const LIMITS: &str = r#"
[services.llm]
requests = "500/min"
tokens = "200k/min"
concurrency = 60
queue = { max_waiting = 100000 }
"#;

const MINUTES: u64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::parse(LIMITS, "agents")?;
    let start = Instant::now();
    for (title, ranked) in [("everybody equal", false), ("with priorities", true)] {
        let (who, arrivals) = workload(ranked);
        let fates = run(&config, &arrivals)?;
        println!("\n{title}\n{:<12}{:>8}{:>8}{:>12}{:>12}", "who", "calls", "went", "wait p50", "wait p99");
        for name in ["user", "agents", "background"] {
            let of = |index: &usize| who[*index] == name;
            let calls: Vec<usize> = (0..fates.len()).filter(of).collect();
            let mut waits: Vec<Duration> = calls
                .iter()
                .filter_map(|call| match &fates[*call] {
                    Fate::Went { waited } => Some(*waited),
                    Fate::Refused(_) => None,
                })
                .collect();
            waits.sort_unstable();
            let at = |share: f64| waits.get(((waits.len() as f64 - 1.0) * share) as usize).copied();
            let shown =
                |wait: Option<Duration>| wait.map_or("-".into(), |w| format!("{:.2} s", w.as_secs_f64()));
            println!(
                "{name:<12}{:>8}{:>8}{:>12}{:>12}",
                calls.len(),
                waits.len(),
                shown(at(0.5)),
                shown(at(0.99))
            );
        }
        let end = Duration::from_secs(MINUTES * 60);
        let in_time = |(fate, arrival): &(&Fate, &Arrival)| match fate {
            Fate::Went { waited } => arrival.at + *waited < end,
            Fate::Refused(_) => false,
        };
        let went = fates.iter().zip(&arrivals).filter(in_time).count();
        println!("used {:.1} % of the requests", went as f64 / (5.0 * MINUTES as f64));
    }
    println!("\n{} simulated minutes, twice, in {:.2?}", MINUTES, start.elapsed());
    Ok(())
}

/// Agents that could use the quota twice over, a background job with a pile of work, and a user who asks
/// something every few seconds.
fn workload(ranked: bool) -> (Vec<&'static str>, Vec<Arrival>) {
    let mut dice = Dice(7);
    let (mut who, mut arrivals) = (Vec::new(), Vec::new());
    let mut add = |name: &'static str, at: Duration, call: Call, priority: Priority, dice: &mut Dice| {
        let call = if ranked { call.priority(priority) } else { call };
        let runs = Duration::from_millis(400 + dice.below(1_200));
        who.push(name);
        arrivals.push(Arrival { at, call, timeout: Duration::from_secs(600), runs });
    };
    let end = MINUTES * 60_000;
    for agent in 0..40 {
        let id = format!("agent-{agent}");
        let mut at = dice.below(2_000);
        while at < end {
            let call = Call::to("llm").loop_id(&id).tokens(100 + dice.below(400));
            add("agents", Duration::from_millis(at), call, Priority::Normal, &mut dice);
            at += 3_000 + dice.below(4_000);
        }
    }
    for _ in 0..2_000 {
        let call = Call::to("llm").loop_id("nightly").tokens(100 + dice.below(400));
        add("background", Duration::ZERO, call, Priority::Low, &mut dice);
    }
    let mut at = 500;
    while at < end {
        let call = Call::to("llm").loop_id("user").tokens(200 + dice.below(600));
        add("user", Duration::from_millis(at), call, Priority::High, &mut dice);
        at += 2_000 + dice.below(6_000);
    }
    (who, arrivals)
}

/// Chance that can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
