//! `tidegate status`: prints the state of the running sidecar.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tidegate_sim::show::Grid;
use tidegate_sim::show::words::{count, percent, share, span};

use crate::check::counted;
use crate::print;
use crate::sidecar::Which;

/// Show what the sidecar that runs is doing: its calls, its limits, who is held back.
#[derive(Args)]
pub struct Status {
    /// JSON instead of text: `status` and `limits`, as the sidecar's routes of these names give them.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Status {
    pub fn run(self) -> anyhow::Result<()> {
        let sidecar = self.which.sidecar()?;
        let status = sidecar.get("/v1/status")?;
        let limits = sidecar.get("/v1/limits")?["limits"].take();
        if self.json {
            let all = json!({ "url": sidecar.url(), "status": status, "limits": limits });
            return print(&format!("{all}\n"));
        }
        let parts = [
            heading(&sidecar.url(), &status),
            refused_config(&status["config"]),
            services(&status["services"]),
            limits_table(&limits),
            backoffs(&status["backoffs"]),
            breakers(&status["breakers"]),
            learned(&status["learned"]),
            advice(&status["outputs"]),
        ];
        print(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n"))
    }
}

fn heading(url: &str, status: &Value) -> String {
    let number = |name: &str| usize::try_from(number(&status[name])).unwrap_or(usize::MAX);
    format!(
        "tidegate {} on {url}, up for {}: {}, {} waiting, {}\n",
        status["version"].as_str().unwrap_or("?"),
        millis(&status["uptime_ms"]),
        counted(number("calls"), "call"),
        number("waiting"),
        counted(number("connections"), "connection"),
    )
}

/// Returns why the config file is not in force, if it is not.
fn refused_config(config: &Value) -> String {
    match config["error"].as_str() {
        Some(error) => {
            format!(
                "the config file is refused, and the one before it is in force:\n  {}\n",
                error.replace('\n', "\n  ")
            )
        }
        None => String::new(),
    }
}

/// Returns the counts of every service that had a call.
fn services(services: &Value) -> String {
    const COLUMNS: [&str; 5] = ["granted", "refused", "timed_out", "shed", "would_wait"];
    let mut grid = Grid::default();
    grid.row(["service"].into_iter().chain(COLUMNS).map(|column| column.replace('_', " ")));
    let (mut called, mut idle) = (0, 0);
    for (name, service) in services.as_object().into_iter().flatten() {
        let numbers = COLUMNS.map(|column| number(&service[column]));
        if numbers.iter().all(|number| *number == 0) {
            idle += 1;
            continue;
        }
        called += 1;
        grid.row([name.clone()].into_iter().chain(numbers.map(count)));
    }
    match (called, idle) {
        (0, _) => "no service has been called\n".into(),
        (_, 0) => grid.text(),
        (_, idle) => format!("{}and {} that nobody has called\n", grid.text(), counted(idle, "service")),
    }
}

/// Returns the limits that are used or waited for.
fn limits_table(limits: &Value) -> String {
    let limits = limits.as_array().map_or(&[][..], Vec::as_slice);
    let busy = |limit: &&Value| number(&limit["used"]) > 0 || number(&limit["waiting"]) > 0;
    let mut grid = Grid::default();
    grid.row(["limit", "used", "", "of", "waiting", "all back in"]);
    let shown: Vec<&Value> = limits.iter().filter(busy).collect();
    for limit in &shown {
        let (used, capacity) = (number(&limit["used"]), number(&limit["capacity"]));
        let reset = if limit["reset_ms"].is_null() { String::new() } else { millis(&limit["reset_ms"]) };
        grid.row([
            limit["name"].as_str().unwrap_or_default().to_owned(),
            percent(share(used, capacity)),
            count(used),
            allowed(limit),
            count(number(&limit["waiting"])),
            reset,
        ]);
    }
    match (shown.len(), limits.len() - shown.len()) {
        (0, 0) => "there are no limits\n".into(),
        (0, _) => "nothing is used of any limit\n".into(),
        (_, 0) => grid.text(),
        (_, unused) => format!("{}and {} of which nothing is used\n", grid.text(), counted(unused, "limit")),
    }
}

/// Returns the size of a limit, and the written size if learning has lowered it.
fn allowed(limit: &Value) -> String {
    let capacity = number(&limit["capacity"]);
    let of_bucket = limit["burst"].as_u64().filter(|_| limit["algorithm"] == "token-bucket");
    match of_bucket.or(limit["units"].as_u64()) {
        Some(written) if capacity < written => format!("{} ({} written)", count(capacity), count(written)),
        _ => count(capacity),
    }
}

fn backoffs(windows: &Value) -> String {
    let line = |window: &Value| {
        let key = window["key"].as_str().unwrap_or_default();
        let waiting = number(&window["waiting"]);
        if number(&window["open_for_ms"]) > 0 {
            format!("{key} is held back for {} more, {waiting} waiting\n", millis(&window["open_for_ms"]))
        } else {
            format!("{key} is throttled for {} more\n", millis(&window["throttled_for_ms"]))
        }
    };
    windows.as_array().into_iter().flatten().map(line).collect()
}

fn breakers(breakers: &Value) -> String {
    let open = |breaker: &&Value| breaker["state"] != "closed";
    let line = |breaker: &Value| {
        let name = breaker["name"].as_str().unwrap_or_default();
        match breaker["probe_in_ms"].as_u64() {
            Some(_) => format!("{name} is left alone, tried again in {}\n", millis(&breaker["probe_in_ms"])),
            None => format!("{name} is being tried again\n"),
        }
    };
    breakers.as_array().into_iter().flatten().filter(open).map(line).collect()
}

/// Returns what was learned about each limit, one line each.
fn learned(limits: &Value) -> String {
    let line = |limit: &Value| {
        let mut words =
            vec![format!("{} by {}", count(number(&limit["in_force"])), text(&limit["algorithm"]))];
        let mut say = |name: &str, say: &dyn Fn(f64) -> String| {
            words.extend(limit[name].as_f64().map(say));
        };
        say("told", &|told| format!("replies tell of {}", count(told as u64)));
        say("bucket", &|size| format!("it counts as a bucket of {} does", count(size as u64)));
        say("ceiling", &|share| format!("only {} goes through", percent(share)));
        say("others_per_second", &|rate| format!("others take {rate:.1} a second"));
        say("jitter_ms", &|ms| {
            format!("calls overtake each other by {}", span(Duration::from_secs_f64(ms / 1e3)))
        });
        say("burst", &|units| format!("{} go at once, since calls give much back", count(units as u64)));
        format!("{} was learned: {}\n", text(&limit["limit"]), words.join("; "))
    };
    limits.as_array().into_iter().flatten().map(line).collect()
}

/// Returns which calls ask for much more output than they have.
fn advice(outputs: &Value) -> String {
    let line = |seen: &Value| {
        let advice = seen["advice"].as_object()?;
        let tokens = |name: &str| count(advice.get(name).map(number).unwrap_or_default());
        let of = [&seen["service"], &seen["model"]].into_iter().filter_map(Value::as_str);
        Some(format!(
            "{}: calls ask for {} tokens at most, and {} would do\n",
            of.collect::<Vec<_>>().join(" "),
            tokens("asked"),
            tokens("max_tokens")
        ))
    };
    outputs.as_array().into_iter().flatten().filter_map(line).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn millis(value: &Value) -> String {
    span(Duration::from_millis(number(value)))
}
