//! The cells, group by group: what must be reached, world by world.

use tidegate_sim::{HeaderStyle, Model};

use super::cell::{Cell, Row, Target};
use super::measure::{Measure, Supply};
use super::scene::{Scene, WINDOW, burst, limit, model_name, style_name};

/// Calls a minute.
const RATES: [u64; 6] = [30, 60, 200, 600, 1500, 3000];
/// From here on a limit is large.
const LARGE: u64 = 600;

const MODELS: [Model; 4] = [Model::FixedWindow, Model::SlidingLog, Model::TokenBucket, Model::Gcra];

/// Full headers, `Retry-After` only, a bare 429.
const SAYS: [HeaderStyle; 3] = [HeaderStyle::OpenAi, HeaderStyle::RetryAfter, HeaderStyle::None];

/// All cells, in the order in which they are shown.
pub fn cells() -> Vec<Cell> {
    [alone(), supply(), neighbour(), hidden(), changed(), tokens(), refused_costs()].concat()
}

/// Nobody else, nothing hidden, nothing changes. One rate also in the words of the IETF.
fn alone() -> Vec<Cell> {
    let usual = every(&SAYS, &RATES, |rate, model, says| {
        Cell::of(row("alone", rate, model, says), Scene::alone(rate, model, says))
    });
    let ietf = every(&[HeaderStyle::IetfNew], &[LARGE], |rate, model, says| {
        Cell::of(row("alone", rate, model, says), Scene::alone(rate, model, says))
    });
    [usual, ietf].concat()
}

/// All that there was from the first call on, the initial burst included.
fn supply() -> Vec<Cell> {
    let all_of = |row: Row, scene: Scene, units: f64| {
        let measure = Measure { used: (0, scene.lasts), of: Supply::Exactly(units), ..row.measure };
        Cell::of(Row { measure, target: Target::of(0.98, None), ..row }, scene)
    };
    let told = every(&[HeaderStyle::OpenAi], &large(), |rate, model, says| {
        let (row, scene) = (row("from the first call", rate, model, says), Scene::alone(rate, model, says));
        let units = exact(rate, model, scene.lasts);
        all_of(row, scene, units)
    });
    let configured = every(&SAYS, &RATES, |rate, model, says| {
        let scene = Scene { ours: algorithm(rate, model), ..Scene::alone(rate, model, says) };
        let group = format!("from the first call, algorithm configured, {}", speech(says));
        let units = exact(rate, model, scene.lasts);
        all_of(Row { group, ..row("", rate, model, says) }, scene, units)
    });
    [told, configured].concat()
}

/// Somebody whom we do not see takes three tenths.
fn neighbour() -> Vec<Cell> {
    every(&[HeaderStyle::OpenAi], &large(), |rate, model, says| {
        let upstream = format!("neighbours = [{{ requests = \"{}/min\" }}]\n", rate * 3 / 10);
        let scene = Scene { upstream, ..Scene::alone(rate, model, says) };
        let measure = Measure { of: Supply::LeftByOthers, ..Measure::after_first_window(scene.lasts) };
        let target = Target::of(0.98, Some(0.01));
        Cell::of(Row { measure, target, ..row("a neighbour takes 30 %", rate, model, says) }, scene)
    })
}

/// A limit on every second that no header mentions; in our config, or not.
fn hidden() -> Vec<Cell> {
    let model = Model::FixedWindow;
    let mut cells = Vec::new();
    for declared in [true, false] {
        for says in SAYS {
            for rate in large() {
                let (a_second, mut scene) = (rate / WINDOW, Scene::alone(rate, model, says));
                scene.limits =
                    format!("{}, {{ requests = \"{a_second}/s\", hidden = true }}", limit(rate, model));
                let (group, target) = if declared {
                    scene.ours = format!("requests = [\"{rate}/min\", \"{a_second}/s\"]\n");
                    ("hidden N/60 a second, declared", Target::of(0.94, Some(0.001)))
                } else {
                    ("hidden N/60 a second, undeclared", Target::of(0.90, Some(0.015)))
                };
                cells.push(Cell::of(Row { target, ..row(group, rate, model, says) }, scene));
            }
        }
    }
    cells
}

/// The limit is halved in the middle of a window, and doubled again seven windows later.
fn changed() -> Vec<Cell> {
    let (halved, doubled, lasts) = (270, 270 + 7 * WINDOW, 270 + 14 * WINDOW);
    every(&[HeaderStyle::OpenAi, HeaderStyle::None], &RATES, |rate, model, says| {
        let half = rate / 2;
        let upstream = format!(
            "changes = [{{ at = \"{halved}s\", to = \"{half}/min\" }}, {{ at = \"{doubled}s\", to = \"{rate}/min\" }}]\n"
        );
        let scene = Scene { upstream, lasts, ..Scene::alone(rate, model, says) };
        let told = says != HeaderStyle::None;
        // Whoever is told is back after two windows; whoever is not has until the fifth.
        let settled = if told { 2 } else { 4 } * WINDOW;
        let target = if told { target(rate) } else { Target::of(0.90, Some(0.02)) };
        // A bucket that is empty when it is halved is open again after a whole window.
        let target = Target { stalled: 2 * WINDOW, ..target };
        let rows =
            [("halved", halved, doubled), ("doubled again", doubled, lasts)].map(|(what, from, until)| {
                let measure = Measure {
                    used: (from + settled, until),
                    of: Supply::Rate,
                    rejected: (if told { from } else { from + settled }, until),
                    forgiving: told && what == "halved",
                };
                Row { measure, target, ..row(&format!("limit {what}"), rate, model, says) }
            });
        Cell { scene, rows: rows.into() }
    })
}

/// Tokens, of which nobody knows how many a call will cost; on upstreams that count what came, that reserve the most
/// that may come and give the rest back, and that reserve it for good.
fn tokens() -> Vec<Cell> {
    let says = [
        ("", HeaderStyle::OpenAi),
        ("max_tokens", HeaderStyle::OpenAi),
        ("max_tokens-kept", HeaderStyle::Azure),
    ];
    let kinds =
        says.into_iter().flat_map(|kind| [Model::TokenBucket, Model::FixedWindow].map(|model| (kind, model)));
    let cell = |((reserves, says), model)| {
        let scene = Scene::tokens(model, says, reserves);
        let (group, target) = match reserves {
            "" => ("tokens, output unknown", Target::of(0.985, Some(0.001))),
            "max_tokens" => ("tokens, `max_tokens` reserved and settled", Target::of(0.94, Some(0.001))),
            _ => ("tokens, `max_tokens` reserved and kept", Target::of(0.94, Some(0.001))),
        };
        // What an upstream reserved and could not give back is not used, though it counts.
        let of = if reserves == "max_tokens" { Supply::RateByOurCount } else { Supply::Rate };
        let measure = Measure { of, ..Measure::after_first_window(scene.lasts) };
        let name = format!("200k/min, {}", model_name(model));
        Cell::of(Row { group: group.into(), name, measure, target }, scene)
    };
    kinds.map(cell).collect()
}

/// A rejected call counts like an accepted one.
fn refused_costs() -> Vec<Cell> {
    every(&SAYS, &RATES, |rate, model, says| {
        let mut scene = Scene { upstream: "refused_cost = true\n".into(), ..Scene::alone(rate, model, says) };
        scene.ours += "failures_count = true\n";
        Cell::of(row("refused calls cost", rate, model, says), scene)
    })
}

/// A cell for every style, rate and model.
fn every(says: &[HeaderStyle], rates: &[u64], cell: impl Fn(u64, Model, HeaderStyle) -> Cell) -> Vec<Cell> {
    let mut cells = Vec::new();
    for says in says {
        for rate in rates {
            cells.extend(MODELS.map(|model| cell(*rate, model, *says)));
        }
    }
    cells
}

fn large() -> Vec<u64> {
    RATES.into_iter().filter(|rate| *rate >= LARGE).collect()
}

/// What must be reached by whoever is alone.
fn row(group: &str, rate: u64, model: Model, says: HeaderStyle) -> Row {
    let size = if rate >= LARGE { "≥ 600/min" } else { "< 600/min" };
    Row {
        group: format!("{group}, {size}, {}", speech(says)),
        name: format!("{rate}/min, {}", model_name(model)),
        measure: Measure::after_first_window(10 * WINDOW),
        target: target(rate),
    }
}

fn target(rate: u64) -> Target {
    let (used, rejected) = if rate >= LARGE { (0.99, 0.001) } else { (0.97, 0.01) };
    Target::of(used, Some(rejected))
}

/// All that an upstream gives in so many seconds, to whoever takes it as soon as it is there.
fn exact(rate: u64, model: Model, lasts: u64) -> f64 {
    match model {
        Model::FixedWindow | Model::SlidingLog => (rate * lasts.div_ceil(WINDOW)) as f64,
        _ => (burst(rate, model).unwrap_or(rate) + rate * lasts / WINDOW) as f64,
    }
}

/// Our limit, where we know how the upstream counts.
fn algorithm(rate: u64, model: Model) -> String {
    let algorithm = match model {
        Model::FixedWindow => "fixed-window",
        Model::SlidingLog => "sliding-window",
        _ => "token-bucket",
    };
    let burst = burst(rate, model).map(|burst| format!(", burst = {burst}")).unwrap_or_default();
    format!("requests = {{ limit = \"{rate}/min\", algorithm = \"{algorithm}\"{burst} }}\n")
}

fn speech(says: HeaderStyle) -> &'static str {
    match says {
        HeaderStyle::OpenAi => "full headers",
        HeaderStyle::RetryAfter => "`Retry-After` only",
        HeaderStyle::None => "bare 429",
        other => style_name(other),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_cell_is_a_scenario_and_has_a_name_of_its_own() {
        let mut names = HashSet::new();
        for cell in cells() {
            let scenario = cell.scene.scenario(&cell.phases()).expect("valid");
            assert_eq!(scenario.duration.as_secs(), cell.scene.lasts);
            for row in &cell.rows {
                assert!(row.measure.moments().all(|at| at <= cell.scene.lasts), "{row:?}");
                assert!(names.insert((row.group.clone(), row.name.clone())), "{row:?}");
            }
        }
    }

    #[test]
    fn all_that_an_upstream_gives_includes_the_first_burst() {
        assert_eq!(exact(600, Model::FixedWindow, 600), 6_000.0);
        assert_eq!(exact(600, Model::TokenBucket, 600), 6_600.0);
        assert_eq!(exact(600, Model::Gcra, 600), 6_010.0);
    }
}
