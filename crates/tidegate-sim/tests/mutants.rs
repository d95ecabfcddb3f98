//! Does the simulator notice? The engine is broken on purpose, in one way at a time, and random scenarios must
//! show it.
//!
//! A copy of the core gets all the mistakes at once, each behind a switch that is read from the environment, so
//! that it is built only once; then the campaign is played with each of them, and once with none. A mistake whose
//! place in the source is not found any more fails the test: it has to be moved along.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Mutant {
    name: &'static str,
    file: &'static str,
    /// Right, as it stands.
    right: &'static str,
    /// Wrong where `WRONG` is true.
    wrong: &'static str,
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "what earlier limits gave is not put back when a later one refuses",
        file: "admission/fast_path.rs",
        right: "    if taken == 0 {\n        return;",
        wrong: "    if taken == 0 || WRONG {\n        return;",
    },
    Mutant {
        name: "a slot is released twice",
        file: "limits/meters/in_flight.rs",
        right: "        self.held = self.held.saturating_sub(cost);",
        wrong: "        self.held = self.held.saturating_sub(if WRONG { 2 * cost } else { cost });",
    },
    Mutant {
        name: "a refund lands in the present slot of the window",
        file: "limits/meters/sliding_window.rs",
        right: "    pub fn refund(&mut self, units: u64, taken: Nanos, now: Nanos) {",
        wrong: "    pub fn refund(&mut self, units: u64, taken: Nanos, now: Nanos) {\n        let taken = if WRONG { now } else { taken };",
    },
    Mutant {
        name: "a refund lands in a later fixed window",
        file: "limits/meters/fixed_window.rs",
        right: "        if taken >= self.opened {",
        wrong: "        if taken >= self.opened || WRONG {",
    },
    Mutant {
        name: "waiting raises nobody's rank",
        file: "scheduler/rank.rs",
        right: "    held.class as u64 + waited / aging",
        wrong: "    held.class as u64 + if WRONG { 0 } else { waited / aging }",
    },
    Mutant {
        name: "age may pass a higher priority without end",
        file: "scheduler/rank.rs",
        right: "    credit >= i128::from(cost.min(cap)) * MILLION",
        wrong: "    WRONG || credit >= i128::from(cost.min(cap)) * MILLION",
    },
    Mutant {
        name: "what a call costs above its reservation is not charged",
        file: "admission/settle.rs",
        right: "i128::from(bounds::charge_debt(&mut res.upstream, &mut res.base, limit, cost - reserved, now))",
        wrong: "i128::from(if WRONG { 0 } else { bounds::charge_debt(&mut res.upstream, &mut res.base, limit, cost - reserved, now) })",
    },
    Mutant {
        name: "loops are not charged for what they are served",
        file: "scheduler/bind.rs",
        right: "    let inverse = i128::from(base.routing.routes[route_id].terms.inverse);\n    let Some(queue)",
        wrong: "    let inverse = if WRONG { 0 } else { i128::from(base.routing.routes[route_id].terms.inverse) };\n    let Some(queue)",
    },
    Mutant {
        name: "what is reserved for a higher priority is given to all who wait",
        file: "scheduler/eligibility.rs",
        right: "    if withheld[class] == 0 {",
        wrong: "    if withheld[class] == 0 || WRONG {",
    },
    Mutant {
        name: "calls wait beyond their timeout",
        file: "engine/mod.rs",
        right: "            if deadline > now {\n                break;",
        wrong: "            if deadline > now || WRONG {\n                break;",
    },
    Mutant {
        name: "when a caller goes away those behind it do not advance",
        file: "engine/mod.rs",
        right: "        placement::pull_waiter(&mut self.scheduler, &mut self.res.base, ticket.index);\n        self.advance(now);\n        self.apply(now);",
        wrong: "        placement::pull_waiter(&mut self.scheduler, &mut self.res.base, ticket.index);\n        if WRONG {\n            return true;\n        }\n        self.advance(now);\n        self.apply(now);",
    },
    Mutant {
        name: "backfill moves bookings",
        file: "scheduler/eligibility.rs",
        right: "            if cost > spare {",
        wrong: "            if cost > spare && !WRONG {",
    },
    Mutant {
        name: "a lower priority goes first",
        file: "scheduler/rank.rs",
        right: "            Some(higher) if !passes_by_age(s, base, limit, lane, higher, now) => Some(higher),",
        wrong: "            Some(higher) if !WRONG && !passes_by_age(s, base, limit, lane, higher, now) => Some(higher),",
    },
    Mutant {
        name: "a window holds one more than it says",
        file: "limits/meters/sliding_window.rs",
        right: "        self.used.saturating_add(cost).saturating_add(withheld) <= self.units",
        wrong: "        self.used.saturating_add(cost).saturating_add(withheld) <= self.units + u64::from(WRONG)",
    },
    Mutant {
        name: "a bucket refills a little too fast",
        file: "limits/limit.rs",
        right: "                Meter::Bucket(Bucket::full(*rate, burst.unwrap_or(rate.units()), now))",
        wrong: "                let rate = &Rate::new(rate.units() + u64::from(WRONG), rate.window()).unwrap_or(*rate);\n                Meter::Bucket(Bucket::full(*rate, burst.unwrap_or(rate.units()), now))",
    },
    Mutant {
        name: "a loop that is limited is forgotten, and begins anew",
        file: "routing/loops.rs",
        right: "        if !base.limits[at].is_idle(now) {",
        wrong: "        if !base.limits[at].is_idle(now) && !WRONG {",
    },
    Mutant {
        name: "a full queue sheds the highest rank",
        file: "engine/mod.rs",
        right: "shed_orders.iter_mut().find_map(ShedOrder::largest)",
        wrong: "(if WRONG { shed_orders.iter_mut().rev().find_map(ShedOrder::largest) } else { shed_orders.iter_mut().find_map(ShedOrder::largest) })",
    },
    Mutant {
        name: "a window holds nobody",
        file: "limits/meters/hold.rs",
        right: "        now >= self.opens()\n",
        wrong: "        WRONG || now >= self.opens()\n",
    },
    Mutant {
        name: "after a window all go at once",
        file: "limits/meters/hold.rs",
        right: "            self.next = stamp.max(self.until).after(self.pace);",
        wrong: "            self.next = stamp.max(self.until).after(if WRONG { Duration::ZERO } else { self.pace });",
    },
    Mutant {
        name: "a window that is ended holds calls all the same",
        file: "engine/configure.rs",
        right: "                hold.open(now);",
        wrong: "                if !WRONG {\n                    hold.open(now);\n                }",
    },
    Mutant {
        name: "a shorter window shortens a longer one",
        file: "upstream/backoff.rs",
        right: "    window.until = window.until.max(now.after(span));",
        wrong: "    window.until = if WRONG { now.after(span) } else { window.until.max(now.after(span)) };",
    },
    Mutant {
        name: "a 429 of one model holds the whole service",
        file: "upstream/attribution.rs",
        right: "    pattern.or_else(other)",
        wrong: "    pattern.filter(|_| !WRONG).or_else(other)",
    },
    Mutant {
        name: "calls go throttled for ever",
        file: "routing/build.rs",
        right: "        throttled |= window.tail > now;",
        wrong: "        throttled |= window.tail > now || WRONG;",
    },
    Mutant {
        name: "throttled calls pass no limit of their own",
        file: "routing/build.rs",
        right: "    if throttled {\n        route_id.uses.extend(&throttles);",
        wrong: "    if throttled && !WRONG {\n        route_id.uses.extend(&throttles);",
    },
    Mutant {
        name: "a throttled call keeps its slot",
        file: "admission/settle.rs",
        right: "    if grant.penalty == 0 {\n        return false;",
        wrong: "    if grant.penalty == 0 || WRONG {\n        return false;",
    },
    Mutant {
        name: "the penalty on bytes is not given back",
        file: "admission/settle.rs",
        right: "held.meter.dearer(reserved, grant.penalty);",
        wrong: "held.meter.dearer(reserved, if WRONG { 0 } else { grant.penalty });",
    },
    Mutant {
        name: "a call that was turned away is not refunded",
        file: "engine/mod.rs",
        right: "            _ if counted => self.finish(grant, ended.cost.as_ref(), now),",
        wrong: "            _ if counted || WRONG => self.finish(grant, ended.cost.as_ref(), now),",
    },
    Mutant {
        name: "a refused call gets its request back",
        file: "engine/mod.rs",
        right: "            _ => {\n                self.lose_probe(&grant, now);",
        wrong: "            _ if WRONG => self.cancel(grant, now),\n            _ => {\n                self.lose_probe(&grant, now);",
    },
    Mutant {
        name: "a call that is tried again loses its arrival",
        file: "engine/mod.rs",
        right: "arrived.unwrap_or_else(|| placement::arrived(&mut self.scheduler, now));",
        wrong: "arrived.filter(|_| !WRONG).unwrap_or_else(|| placement::arrived(&mut self.scheduler, now));",
    },
    Mutant {
        name: "a breaker that is half-open admits everybody",
        file: "limits/meters/circuit.rs",
        right: "            Status::HalfOpen { probes } => probes.into(),",
        wrong: "            Status::HalfOpen { probes } => if WRONG { UNBOUNDED } else { probes.into() },",
    },
    Mutant {
        name: "a breaker hears of calls from before it opened",
        file: "limits/breaker/mod.rs",
        right: "        if pass.epoch != self.epoch {",
        wrong: "        if pass.epoch != self.epoch && !WRONG {",
    },
    Mutant {
        name: "a probe that was turned away does not give its place back",
        file: "limits/breaker/mod.rs",
        right: "        probes.out = probes.out.saturating_sub(1);\n        match outcome {",
        wrong: "        if !(WRONG && outcome == Outcome::Ignored) {\n            probes.out = probes.out.saturating_sub(1);\n        }\n        match outcome {",
    },
];

/// Scenarios played with each mistake, until one shows it; and with none.
const SCENARIOS: &str = "1000";

#[test]
fn every_mistake_is_noticed_and_no_mistake_is_not() {
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("in a workspace");
    prepare(workspace, &home);
    let build = cargo(&home).args(["build", "--offline", "--example", "campaign"]).output();
    let build = build.expect("cargo runs");
    assert!(
        build.status.success(),
        "the broken core does not build:\n{}",
        String::from_utf8_lossy(&build.stderr)
    );

    let right = play(&home, 0);
    assert!(right.status.success(), "nothing is wrong, and yet:\n{}", String::from_utf8_lossy(&right.stdout));
    let mut unseen = Vec::new();
    for (number, mutant) in (1..).zip(MUTANTS) {
        let played = play(&home, number);
        let said = String::from_utf8_lossy(&played.stdout);
        println!("{}: {}", mutant.name, said.lines().next().unwrap_or("not noticed"));
        if played.status.code() != Some(1) || !said.contains("broken at event") {
            unseen.push(mutant.name);
        }
    }
    assert!(unseen.is_empty(), "not noticed: {unseen:?}");
}

fn play(home: &Path, mutant: u32) -> Output {
    let campaign = home.join("target/debug/examples/campaign");
    let mut command = Command::new(campaign);
    command.args(["0", SCENARIOS]).env("TIDEGATE_MUTANT", mutant.to_string());
    command.output().expect("the campaign runs")
}

fn cargo(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(home.join("crates/tidegate-sim")).env("CARGO_TARGET_DIR", home.join("target"));
    command
}

/// A workspace of its own with the core, the simulator, and all mistakes.
fn prepare(workspace: &Path, home: &Path) {
    for crate_ in ["tidegate-core", "tidegate-sim"] {
        let (from, to) = (workspace.join("crates").join(crate_), home.join("crates").join(crate_));
        for part in ["src", "examples"] {
            let _ = std::fs::remove_dir_all(to.join(part));
            copy_all(&from.join(part), &to.join(part));
        }
        let manifest = std::fs::read_to_string(from.join("Cargo.toml")).expect("a manifest");
        // What is only there for tests is not needed.
        let manifest = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        std::fs::write(to.join("Cargo.toml"), manifest).expect("writable");
    }
    let manifest = std::fs::read_to_string(workspace.join("Cargo.toml")).expect("a manifest");
    let members = manifest.lines().find(|line| line.starts_with("members")).expect("members");
    std::fs::write(home.join("Cargo.toml"), manifest.replace(members, "members = [\"crates/*\"]"))
        .expect("writable");
    std::fs::copy(workspace.join("Cargo.lock"), home.join("Cargo.lock")).expect("a lock file");

    let core = home.join("crates/tidegate-core/src");
    for (number, mutant) in (1..).zip(MUTANTS) {
        let path = core.join(mutant.file);
        let source = std::fs::read_to_string(&path).expect("a source file");
        assert_eq!(
            source.matches(mutant.right).count(),
            1,
            "{}: its place is not in {}",
            mutant.name,
            mutant.file
        );
        let wrong = mutant.wrong.replace("WRONG", &format!("crate::wrong({number})"));
        std::fs::write(&path, source.replace(mutant.right, &wrong)).expect("writable");
    }
    let path = core.join("lib.rs");
    let mut source = std::fs::read_to_string(&path).expect("a source file");
    source.push_str(
        "\npub(crate) fn wrong(number: u32) -> bool {\n    \
         static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();\n    \
         let chosen = || std::env::var(\"TIDEGATE_MUTANT\").ok().and_then(|text| text.parse().ok()).unwrap_or(0);\n    \
         *CHOSEN.get_or_init(chosen) == number\n}\n",
    );
    std::fs::write(&path, source).expect("writable");
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("writable");
    let Ok(entries) = std::fs::read_dir(from) else { return };
    for entry in entries {
        let entry = entry.expect("readable");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_all(&from, &to);
        } else {
            std::fs::copy(from, to).expect("writable");
        }
    }
}
