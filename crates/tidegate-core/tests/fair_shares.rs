//! Shares, age and starvation where one limit decides.

mod common;

use std::collections::BTreeMap;

use common::World;
use common::dice::{Dice, for_seeds};
use tidegate_core::{Call, Nanos, Priority};

const WEIGHTS: [f64; 4] = [1.0, 3.0, 0.5, 2.0];

/// One limit of random kind, and loop types of several weights.
fn config(dice: &mut Dice, most: u64) -> (String, bool) {
    let slots = dice.one_in(4);
    let limit = match slots {
        true => format!("concurrency = {}", 1 + dice.below(4)),
        false => {
            let burst = most + dice.below(20);
            format!("requests = {{ limit = \"100/s\", algorithm = \"token-bucket\", burst = {burst} }}")
        }
    };
    let mut text = format!("[services.api]\n{limit}\nqueue = {{ max_waiting = 100000 }}\n");
    for (index, weight) in WEIGHTS.iter().enumerate() {
        text += &format!("[loop_types.t{index}]\nweight = {weight}\n");
    }
    (text, slots)
}

/// What each loop was served, and how far the pairs that are backlogged have drifted apart.
struct Shares {
    world: World,
    slots: bool,
    largest: f64,
    weights: Vec<f64>,
    service: Vec<f64>,
    waiting: Vec<usize>,
    owner: BTreeMap<usize, (usize, u64)>,
    /// For each pair the least and the greatest lead since both are backlogged.
    leads: BTreeMap<(usize, usize), (f64, f64)>,
    seen: usize,
}

impl Shares {
    fn read(&mut self) {
        while let Some((number, _)) = self.world.went.get(self.seen).copied() {
            self.seen += 1;
            let (index, cost) = self.owner[&number];
            self.waiting[index] -= 1;
            self.service[index] += cost as f64 / self.weights[index];
            let loops = self.weights.len();
            for (a, b) in (0..loops).flat_map(|a| (a + 1..loops).map(move |b| (a, b))) {
                if self.waiting[a] == 0 || self.waiting[b] == 0 {
                    self.leads.remove(&(a, b));
                    continue;
                }
                let lead = self.service[a] - self.service[b];
                let (least, greatest) = self.leads.entry((a, b)).or_insert((lead, lead));
                *least = least.min(lead);
                *greatest = greatest.max(lead);
                let allowed = self.largest / self.weights[a] + self.largest / self.weights[b];
                let found = *greatest - *least;
                assert!(found <= allowed + 1e-6, "{a} and {b} differ by {found}, not {allowed}");
            }
        }
    }
}

#[test]
fn backlogged_loops_are_served_by_weight_within_one_largest_call_each() {
    for_seeds(60, |seed| {
        let mut dice = Dice::new(seed);
        let most = 1 + dice.below(9);
        let (text, slots) = config(&mut dice, most);
        let loops = 2 + dice.below(5) as usize;
        let types: Vec<usize> = (0..loops).map(|_| dice.below(4) as usize).collect();
        let mut shares = Shares {
            world: World::new(&text),
            slots,
            largest: if slots { 1.0 } else { most as f64 },
            weights: types.iter().map(|t| WEIGHTS[*t]).collect(),
            service: vec![0.0; loops],
            waiting: vec![0; loops],
            owner: BTreeMap::new(),
            leads: BTreeMap::new(),
            seen: 0,
        };
        for step in 0..400 {
            for (index, kind) in types.iter().enumerate() {
                // Loops pause now and then, and then come back.
                while (step / 50 + index) % 4 != 3 && shares.waiting[index] < 4 {
                    let cost = if shares.slots { 1 } else { 1 + dice.below(most) };
                    let call = Call::to("api").loop_id(&format!("l{index}")).requests(cost);
                    let number = shares.world.call(call.loop_type(&format!("t{kind}")));
                    shares.owner.insert(number, (index, cost));
                    shares.waiting[index] += 1;
                    shares.read();
                }
            }
            let held: Vec<usize> = shares.world.held.keys().copied().collect();
            if !shares.slots {
                let until = Nanos(shares.world.now.0 + 1 + dice.below(60_000_000));
                shares.world.run_to_nanos(until);
            } else if !held.is_empty() {
                shares.world.finish(dice.pick(&held));
            }
            shares.read();
        }
        assert!(shares.seen > 100, "only {} went", shares.seen);
    });
}

/// An endless stream of urgent calls, and old background calls behind it.
struct Stream {
    world: World,
    /// Those that wait.
    urgent: BTreeMap<usize, u64>,
    low: BTreeMap<usize, u64>,
    seen: usize,
    /// Units granted while somebody waits, and of these the ones that passed an urgent call.
    granted: u64,
    passed: u64,
}

impl Stream {
    /// Reads what went since.
    fn read(&mut self, share: f64) {
        let went: Vec<usize> = self.world.went[self.seen..].iter().map(|(number, _)| *number).collect();
        self.seen += went.len();
        for number in went {
            let cost = self.urgent.remove(&number).or(self.low.get(&number).copied()).unwrap_or(0);
            self.granted += cost;
            if self.low.contains_key(&number) && !self.urgent.is_empty() {
                self.passed += cost;
                let most = share * self.granted as f64 + 1e-6 + cost as f64;
                let passed = self.passed as f64;
                assert!(passed <= most, "{passed} units passed by age of {} granted", self.granted);
            }
        }
        if self.world.engine.waiting() == 0 {
            (self.granted, self.passed) = (0, 0);
        }
    }
}

#[test]
fn the_old_are_served_in_the_end_but_take_no_more_than_their_share() {
    for_seeds(16, |seed| {
        let mut dice = Dice::new(seed);
        let burst = 5 + dice.below(15);
        let share = dice.pick(&[0.05, 0.1, 0.4]);
        let text = format!(
            "[services.api]\nrequests = {{ limit = \"100/s\", algorithm = \"token-bucket\", burst = {burst} }}\nqueue = {{ aging = \"1s\", aging_share = {share}, max_waiting = 100000 }}\n"
        );
        let mut world = World::new(&text);
        world.call(Call::to("api").requests(burst));
        let mut stream =
            Stream { world, urgent: BTreeMap::new(), low: BTreeMap::new(), seen: 1, granted: 0, passed: 0 };
        for _ in 0..3 {
            let cost = 1 + dice.below(burst);
            let number = stream.world.call(Call::to("api").priority(Priority::Low).requests(cost));
            stream.low.insert(number, cost);
        }
        // Somewhat more or somewhat less than flows: either way every urgent call could have all there is.
        let load = dice.pick(&[90, 99, 100, 120]);
        let mut debt = 0;
        for step in 0..6_000 {
            stream.world.run_to(step as f64 * 10.0);
            stream.read(share);
            debt += load;
            while debt >= 100 {
                debt -= 100;
                let number = stream.world.call(Call::to("api").priority(Priority::High));
                stream.urgent.insert(number, 1);
            }
        }
        for number in stream.low.keys() {
            assert!(stream.world.went_at(*number).is_some(), "{number} starves at {load} %");
        }
    });
}

#[test]
fn a_large_old_call_is_not_starved_by_urgent_ones_that_never_wait() {
    let text = "[services.api]\nrequests = { limit = \"10/s\", algorithm = \"token-bucket\", burst = 10 }\nqueue = { aging = \"1s\", aging_share = 0.1 }\n";
    let mut world = World::new(text);
    world.call(Call::to("api").requests(9));
    let old = world.call(Call::to("api").priority(Priority::Low).requests(10));
    for step in 0..1_200 {
        world.run_to(f64::from(step) * 100.0);
        world.call(Call::to("api").priority(Priority::Critical));
    }
    assert!(world.went_at(old).is_some(), "it starves");
}
