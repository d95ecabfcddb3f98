//! `kill -9` on a program that uses the library: whatever it had promised itself, no limit is passed.
//!
//! The test starts itself again as a program that makes calls as fast as its gate lets it, and says of each when it was
//! granted; kills it at a random moment; starts it anew; and so on. All that were granted, by all of these processes, are
//! then held against the limit's definition. Windows of two seconds stand for minutes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tidegate::{Call, Config, Gate, Outcome, StateFile};

const WINDOW: u64 = 2_000_000_000;
/// Debt that a reply told of so shortly before the end may not be on disk.
const UNKNOWN: u64 = 500_000_000;
/// How long a program may be silent before the test gives it up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a limit counts, and what calls do to it.
#[derive(Clone, Copy, Debug)]
struct Case {
    n: u64,
    /// What may go at once, if it is a bucket.
    burst: Option<u64>,
    tokens: u64,
    /// Whether calls cost more than they took.
    debt: bool,
}

const CASES: [Case; 5] = [
    Case { n: 30, burst: None, tokens: 1, debt: false },
    Case { n: 600, burst: Some(600), tokens: 1, debt: false },
    Case { n: 60_000, burst: None, tokens: 1, debt: false },
    Case { n: 20_000, burst: Some(5_000), tokens: 10, debt: true },
    Case { n: 4_000, burst: None, tokens: 7, debt: true },
];

impl Case {
    fn config(self) -> String {
        let n = self.n;
        let how = match self.burst {
            Some(burst) => format!("algorithm = \"token-bucket\", burst = {burst}"),
            None => format!("burst = {n}"),
        };
        format!(
            "[services.api]\ntokens = {{ limit = \"{n}/2s\", {how} }}\nqueue = {{ max_waiting = 1000 }}\n"
        )
    }
}

fn boot_nanos() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The program. It ends by being killed.
#[test]
#[ignore = "started by the test below"]
fn program() {
    let (Ok(folder), Ok(case)) = (std::env::var("KILL_FOLDER"), std::env::var("KILL_CASE")) else { return };
    let case = CASES[case.parse::<usize>().expect("a number")];
    let file = StateFile::open(folder).unwrap_or_else(|error| panic!("{error}"));
    let config = Config::parse(&case.config()).expect("valid");
    let gate = Gate::builder().config(config).state(file).build().expect("valid");
    // The gate's time as that of the system, as nearly as can be told.
    let ahead = (0..100).map(|_| {
        let before = boot_nanos();
        let gates = gate.now().0;
        (boot_nanos() - before, before.wrapping_sub(gates))
    });
    let (_, ahead) = ahead.min().expect("a hundred of them");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let caller = |number: u64| {
            let gate = gate.clone();
            async move {
                for call in 0_u64.. {
                    let permit =
                        gate.acquire(Call::to("api").tokens(case.tokens)).await.expect("its turn comes");
                    let at = permit.granted_at().0.wrapping_add(ahead);
                    let more = if case.debt { (call + number) % 5 } else { 0 };
                    permit.finish(Outcome::done().tokens(case.tokens + more));
                    let settled = gate.now().0.wrapping_add(ahead);
                    // One write for each: what was granted and not said is never known of, as a call that never left.
                    let said = format!("{at} {} {settled} {more}\n", case.tokens);
                    std::io::stdout().lock().write_all(said.as_bytes()).expect("somebody listens");
                    if call % 16 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
        };
        tokio::join!(caller(0), caller(1), caller(2), caller(3));
    });
}

/// When, how much, and whether it was granted rather than told of later.
type Entry = (u64, u64, bool);

/// The program as it runs, and what it says.
struct Life {
    child: Child,
    said: Receiver<[Entry; 2]>,
}

/// What it did until it was killed, and when that was.
struct Ended {
    entries: Vec<Entry>,
    died: u64,
}

impl Life {
    fn start(folder: &Path, case: usize) -> Life {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "program", "--nocapture", "--quiet"])
            .env("KILL_FOLDER", folder)
            .env("KILL_CASE", case.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            while let Some(Ok(line)) = lines.next() {
                let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
                if let [at, units, settled, more] = numbers[..] {
                    let _ = sender.send([(at, units, true), (settled, more, false)]);
                }
            }
        });
        Life { child, said }
    }

    /// Lets it make so many calls, however long it takes, and live on for a while.
    fn end_after(mut self, calls: u64, then: Duration) -> Ended {
        let mut entries = Vec::new();
        for _ in 0..calls {
            entries.extend(self.said.recv_timeout(PATIENCE).expect("it calls"));
        }
        std::thread::sleep(then);
        self.child.kill().expect("it runs");
        let died = boot_nanos();
        self.child.wait().expect("it was killed");
        entries.extend(self.said.iter().flatten());
        Ended { entries, died }
    }
}

/// The first grant that was beyond the limit.
fn overshoot(case: Case, entries: &mut Vec<Entry>) -> Option<String> {
    entries.retain(|(_, units, _)| *units > 0);
    entries.sort_unstable();
    match case.burst {
        None => {
            let (mut first, mut sum) = (0, 0);
            for (at, units, granted) in entries.iter() {
                sum += units;
                while entries[first].0 + WINDOW <= *at {
                    sum -= entries[first].1;
                    first += 1;
                }
                if *granted && sum > case.n {
                    return Some(format!("{sum} of {} in the window before {at}", case.n));
                }
            }
        }
        Some(burst) => {
            let (mut missing, mut last) = (0_i128, 0_u64);
            for (at, units, granted) in entries.iter() {
                missing = (missing - i128::from(at - last) * i128::from(case.n)).max(0);
                missing += i128::from(*units) * i128::from(WINDOW);
                last = *at;
                // A clock's reading may be off by some microseconds from one process to the next.
                let off = 50_000 * i128::from(case.n);
                if *granted && missing > i128::from(burst) * i128::from(WINDOW) + off {
                    return Some(format!("{} of {burst} at {at}", missing / i128::from(WINDOW)));
                }
            }
        }
    }
    None
}

/// What a bucket let go by because it was full.
fn lost(case: Case, begun: u64, entries: &[Entry]) -> u64 {
    let (mut missing, mut last, mut lost) = (0_i128, begun, 0_i128);
    for (at, units, _) in entries {
        missing -= i128::from(at.saturating_sub(last)) * i128::from(case.n);
        lost -= missing.min(0);
        missing = missing.max(0) + i128::from(*units) * i128::from(WINDOW);
        last = last.max(*at);
    }
    u64::try_from(lost / i128::from(WINDOW)).expect("it is small")
}

/// The judge can say no: processes that know nothing of each other pass any limit.
#[test]
fn without_state_the_limit_is_passed() {
    let case = CASES[0];
    let folder =
        |life| std::env::temp_dir().join(format!("tidegate-kill-{}-control-{life}", std::process::id()));
    let mut lives = [0, 1].map(|life| Life::start(&folder(life), 0));
    let mut all = Vec::new();
    let passed = loop {
        for life in &lives {
            all.extend(life.said.recv_timeout(PATIENCE).expect("it calls"));
        }
        // Both spend a whole limit in each window, so that they pass it together as soon as both are awake.
        if let Some(passed) = overshoot(case, &mut all) {
            break passed;
        }
        let calls = all.len() as u64;
        assert!(
            calls < 100 * case.n,
            "{calls} calls of two that know nothing of each other, and none too many"
        );
    };
    eprintln!("{passed}");
    for life in &mut lives {
        life.child.kill().expect("it runs");
        life.child.wait().expect("it was killed");
    }
    for life in 0..2 {
        std::fs::remove_dir_all(folder(life)).expect("it was made");
    }
}

fn kills() -> u64 {
    std::env::var("TIDEGATE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(30)
}

#[test]
fn whenever_it_is_killed_no_limit_is_passed() {
    let mut dice = fastrand::Rng::with_seed(7);
    for (number, case) in CASES.into_iter().enumerate() {
        let folder = std::env::temp_dir().join(format!("tidegate-kill-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut all = Vec::new();
        let begun = boot_nanos();
        let mut died = begun;
        let kills = kills() / CASES.len() as u64;
        for kill in 1..=kills {
            // It dies while it starts, too; but the last one lives to call, however slow the machine.
            let calls = if kill == kills { case.n / case.tokens / 4 } else { 0 };
            let ended =
                Life::start(&folder, number).end_after(calls, Duration::from_millis(dice.u64(30..700)));
            died = ended.died;
            // What calls cost beyond what they took is known once it is on disk.
            let known = |(when, _, granted): &Entry| *granted || when + UNKNOWN < died;
            all.extend(ended.entries.into_iter().filter(known));
        }
        let units: u64 = all.iter().map(|(_, units, _)| units).sum();
        let wrong = overshoot(case, &mut all);
        assert_eq!(wrong, None, "{case:?}");
        assert!(units > 0, "{case:?}: nothing went");
        if let (Some(burst), false) = (case.burst, case.debt) {
            // A bucket that is never full loses nothing but a promise at every death.
            let supply = burst + (died - begun) * case.n / WINDOW - lost(case, begun, &all);
            let promise = (case.n / 100).max(case.n / 8);
            assert!(units + kills * promise >= supply, "{units} of {supply} in {kills} lives");
        }
        std::fs::remove_dir_all(&folder).expect("it was made");
        eprintln!("{case:?}: {units} units in {:.1} s", (died - begun) as f64 / 1e9);
    }
}
