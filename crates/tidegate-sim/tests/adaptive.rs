//! A concurrency that adapts, against an upstream whose replies take longer the more it has to do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate_core::engine::{Engine, Fate, Grant};
use tidegate_core::{Call, Config, Cost, Nanos};
use tidegate_sim::upstream::{Answer, Held, Upstream};
use tidegate_sim::{Dice, UpstreamSpec};

const KNEE: u64 = 20;
const USUAL: Duration = Duration::from_millis(100);

/// Calls that always want to go, through a bound that adapts, to an upstream that works on so many at once.
struct World {
    engine: Engine,
    upstream: Upstream,
    dice: Dice,
    running: BinaryHeap<Reverse<(Nanos, usize)>>,
    calls: Vec<Option<(Grant, Held)>>,
    now: Nanos,
    done: u64,
}

impl World {
    fn new(adaptive: &str, knee: u64, seed: u64) -> World {
        let config = format!("[services.api]\nconcurrency = {{ adaptive = {adaptive}, max = 400 }}");
        let config = Config::parse(&config, "test.toml").expect("the config is right");
        let engine = Engine::new(&config, Nanos::ZERO, Duration::ZERO).expect("the config can be");
        let mut world = World {
            engine,
            upstream: Upstream::new(&UpstreamSpec::default(), seed, Nanos::ZERO),
            dice: Dice::part(seed, "adaptive", 0),
            running: BinaryHeap::new(),
            calls: Vec::new(),
            now: Nanos::ZERO,
            done: 0,
        };
        world.becomes(knee, seed);
        world
    }

    /// The upstream works on so many at once from now on; it ends what it has to do before that.
    fn becomes(&mut self, knee: u64, seed: u64) {
        while self.end_one() {}
        let spec = UpstreamSpec { knee: Some(knee), ..UpstreamSpec::default() };
        self.upstream = Upstream::new(&spec, seed, self.now);
    }

    /// The next call ends, if one runs.
    fn end_one(&mut self) -> bool {
        let Some(Reverse((now, call))) = self.running.pop() else { return false };
        self.now = now;
        let (grant, held) = self.calls[call].take().expect("it ends once");
        self.upstream.end(held, &Cost::new(), now);
        self.engine.end_call(grant, &Fate::Answered.into(), now);
        self.done += 1;
        true
    }

    fn bound(&mut self) -> u64 {
        self.engine.limit("api/concurrency", self.now).expect("it is there").capacity
    }

    /// Plays for so long; the mean of the bound, and how many calls were done in a second.
    fn play(&mut self, seconds: u64) -> (f64, f64) {
        let (end, before) = (self.now.after(Duration::from_secs(seconds)), self.done);
        let (mut sum, mut looks) = (0, 0);
        while self.now < end {
            while let Ok(grant) = self.engine.try_admit(&Call::to("api"), self.now) {
                let Answer::Accepted(held) = self.upstream.receive(&Cost::new(), self.now) else {
                    panic!("no limit")
                };
                // A tenth more or less.
                let differs = 0.9 + self.dice.below(201) as f64 / 1_000.0;
                let takes = USUAL.mul_f64(differs * self.upstream.slowness());
                self.running.push(Reverse((self.now.after(takes), self.calls.len())));
                self.calls.push(Some((grant, held)));
            }
            assert!(self.end_one(), "somebody always goes");
            (sum, looks) = (sum + self.bound(), looks + 1);
        }
        (sum as f64 / f64::from(looks), (self.done - before) as f64 / seconds as f64)
    }
}

#[test]
fn a_gradient_settles_near_the_knee_and_loses_nothing_by_it() {
    for seed in 0..10 {
        let mut world = World::new("\"gradient\"", KNEE, seed);
        world.play(30);
        let (bound, done) = world.play(120);
        assert!((KNEE as f64..=KNEE as f64 * 1.5).contains(&bound), "seed {seed}: {bound} at a time");
        let most = KNEE as f64 / USUAL.as_secs_f64();
        assert!(done >= most * 0.96, "seed {seed}: {done} of {most} a second");
    }
}

#[test]
fn a_gradient_follows_an_upstream_that_grows_and_shrinks() {
    for seed in 0..5 {
        let mut world = World::new("\"gradient\"", KNEE, seed);
        world.play(30);
        for knee in [100, 10] {
            world.becomes(knee, seed);
            world.play(60);
            let (bound, _) = world.play(60);
            let knee = knee as f64;
            assert!((knee * 0.9..=knee * 1.6).contains(&bound), "seed {seed}: {bound} at a knee of {knee}");
        }
    }
}

#[test]
fn aimd_keeps_replies_within_a_stated_time() {
    let mut world = World::new("\"aimd\", latency = \"200ms\"", KNEE, 1);
    world.play(60);
    let (bound, done) = world.play(120);
    assert!(
        (KNEE as f64..=KNEE as f64 * 2.2).contains(&bound),
        "twice the usual time is twice the knee: {bound}"
    );
    assert!(done >= KNEE as f64 / USUAL.as_secs_f64() * 0.96, "{done}");
}
