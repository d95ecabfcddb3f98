//! `tidegate simulate`: runs a workload against limits and upstreams in virtual time.

mod sweep;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use tidegate_core::config::Document;
use tidegate_sim::show::{self, Subject};
use tidegate_sim::{Options, Report, Scenario, ScenarioFile, prove};

use crate::check::counted;
use crate::{Misuse, config_text, environment, print};
use sweep::{Seeds, Sweep};

/// The most events of a story.
const STORY: usize = 1_000;
/// The most runs that are shown side by side. More of them are listed.
const SIDE_BY_SIDE: usize = 8;

/// Play a workload against limits and upstreams, in virtual time.
///
/// The file is a config with a `[simulation]` in it: who calls, what really limits, what goes wrong. Says how much
/// of each limit was used, what was rejected, and how long whom waited. The same seed gives the same run.
#[derive(Args)]
pub struct Simulate {
    /// The config file with its `[simulation]`.
    file: PathBuf,
    /// What chance begins with, instead of the file's seed.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A run for each seed from A to B.
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    seeds: Option<Seeds>,
    /// JSON instead of tables; an object on each line if there are several runs.
    #[arg(long)]
    json: bool,
    /// Draw the run into an SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Compare values of a key, such as services.openai.queue.aging=10s,30s,60s. Several of these give all
    /// combinations; numbers in a key are items: simulation.workload.0.loops=10,50.
    #[arg(long, value_name = "KEY=A,B,C")]
    sweep: Vec<Sweep>,
    /// Stop after event N and tell the story up to it.
    #[arg(long, value_name = "N")]
    events: Option<u64>,
    /// Do not check the engine's promises at every event.
    #[arg(long)]
    no_checks: bool,
}

/// The input of one run.
struct Planned {
    subject: Subject,
    scenario: Scenario,
    seed: u64,
}

impl Simulate {
    pub fn run(self) -> anyhow::Result<()> {
        let planned = self.plan()?;
        let options = Options { checks: !self.no_checks, until_event: self.events, story: STORY };
        match planned.as_slice() {
            [one] => self.run_one(one, &options),
            many => self.run_many(many, &options),
        }
    }

    /// Returns every combination of the sweeps with every seed. All are parsed before the first run, so a mistake in the
    /// last one does not cost the time of the others.
    fn plan(&self) -> anyhow::Result<Vec<Planned>> {
        let file = self.file.display().to_string();
        let text = config_text(&self.file)?;
        let dir = self.file.parent().unwrap_or(Path::new(""));
        let mut planned = Vec::new();
        for settings in sweep::combinations(&self.sweep) {
            let mut document = Document::new(&text, &file, &environment);
            for (key, value) in &settings {
                document = document.set(key, value);
            }
            let read = ScenarioFile::read(&document, dir);
            let ScenarioFile { scenario, seed } = read.map_err(|errors| {
                eprintln!("{errors}");
                Misuse(format!("{} in {file}", counted(errors.len(), "mistake")))
            })?;
            let subject = Subject { file: file.clone(), settings };
            let seeds = match (&self.seeds, self.seed) {
                (Some(seeds), _) => seeds.clone(),
                (None, named) => Seeds::one(named.unwrap_or(seed)),
            };
            for seed in seeds.all() {
                planned.push(Planned { subject: subject.clone(), scenario: scenario.clone(), seed });
            }
        }
        if self.plot.is_some() && planned.len() > 1 {
            let message = format!(
                "a picture shows one run, and these are {}: name one seed and one value",
                planned.len()
            );
            return Err(Misuse(message).into());
        }
        Ok(planned)
    }

    fn run_one(&self, planned: &Planned, options: &Options) -> anyhow::Result<()> {
        let report = play(planned, options)?;
        let Planned { subject, scenario, .. } = planned;
        if let Some(path) = &self.plot {
            std::fs::write(path, show::svg(subject, scenario, &report))
                .with_context(|| format!("cannot write the picture {}", path.display()))?;
        }
        print(&match (self.json, self.events) {
            (true, _) => format!("{}\n", self.json(subject, &report)),
            (false, None) => show::table(subject, &report),
            (false, Some(_)) => show::broken(subject, &report).unwrap_or_else(|| {
                format!("the last events up to {}:\n{}", report.events, show::story(&report.story))
            }),
        })?;
        verdict([&report])
    }

    fn run_many(&self, planned: &[Planned], options: &Options) -> anyhow::Result<()> {
        let mut runs: Vec<(Subject, Report)> = Vec::new();
        for one in planned {
            let mut report = play(one, options)?;
            if self.json {
                print(&format!("{}\n", self.json(&one.subject, &report)))?;
            }
            // Of thousands of runs only the numbers are kept.
            report.series = Default::default();
            runs.push((one.subject.clone(), report));
        }
        if !self.json {
            print(&if runs.len() <= SIDE_BY_SIDE { show::compare(&runs) } else { show::list(&runs) })?;
            // One story is printed. The others are a command away.
            let mut broken = runs.iter().filter(|(_, report)| report.violation.is_some());
            if let Some((subject, report)) = broken.next() {
                print(&format!("\n{}", show::broken(subject, report).unwrap_or_default()))?;
            }
            for (subject, report) in broken {
                let violation = report.violation.iter();
                print(
                    &violation
                        .map(|found| format!("also: {}\n", subject.replay(report, found)))
                        .collect::<String>(),
                )?;
            }
        }
        verdict(runs.iter().map(|(_, report)| report))
    }

    fn json(&self, subject: &Subject, report: &Report) -> serde_json::Value {
        let mut json = show::json(subject, report);
        if self.events.is_some() {
            json["story"] = report.story.clone().into();
        }
        json
    }
}

fn play(planned: &Planned, options: &Options) -> anyhow::Result<Report> {
    Ok(prove(&planned.scenario, planned.seed, options).map_err(|error| Misuse(error.to_string()))?)
}

/// Returns whether every promise was kept.
fn verdict<'r>(reports: impl IntoIterator<Item = &'r Report>) -> anyhow::Result<()> {
    let broken = reports.into_iter().filter(|report| report.violation.is_some()).count();
    anyhow::ensure!(broken == 0, "a promise was not kept in {}", counted(broken, "run"));
    Ok(())
}
