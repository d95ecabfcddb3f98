//! Every scenario in `examples/simulations` is right, and begins with what it teaches.

mod digests;

use std::path::{Path, PathBuf};

use tidegate_core::config::Document;
use tidegate_sim::{Options, Scenario, ScenarioFile, simulate};

fn examples() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/simulations");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

#[test]
fn every_example_is_a_scenario() {
    assert!(examples().len() >= 10, "{:?}", examples());
    for path in examples() {
        Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_example_plays_and_every_promise_is_kept() {
    for path in examples() {
        let ScenarioFile { scenario, seed } = ScenarioFile::load(&path).expect("valid");
        let report = simulate(&scenario, seed, &Options::default()).expect("it can be played");
        assert_eq!(report.violation, None, "{}", path.display());
        assert!(report.priorities.iter().any(|group| group.went > 0), "{}", path.display());
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert_eq!(digests::recorded(name), Some(report.digest), "{name} goes differently");
    }
}

#[test]
fn every_example_begins_with_what_it_teaches_and_names_a_sweep_that_works() {
    for path in examples() {
        let text = std::fs::read_to_string(&path).expect("readable");
        let comment: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(comment.len() >= 2, "{}", path.display());
        let sweep = comment
            .iter()
            .find_map(|line| line.split_once("--sweep "))
            .map(|(_, sweep)| sweep.trim_matches('\''));
        let (key, values) = sweep.and_then(|sweep| sweep.split_once('=')).expect("a sweep is named");
        assert!(values.contains(','), "{}: one value compares nothing", path.display());
        for value in values.split(',') {
            let document = Document::new(&text, "example", &|_| None).set(key, value);
            let read = ScenarioFile::read(&document, path.parent().expect("a folder"));
            assert!(read.is_ok(), "{}: {}", path.display(), read.expect_err("wrong"));
        }
    }
}

#[test]
fn every_scenario_in_the_guide_is_one() {
    let guide = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulate.md");
    let text = std::fs::read_to_string(guide).expect("readable");
    let blocks: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(block, _)| block)
        .collect();
    assert!(blocks.len() >= 2);
    for block in blocks {
        Scenario::parse(block, "docs/simulate.md", &|_| None, Path::new("."))
            .unwrap_or_else(|error| panic!("{error}\n{block}"));
    }
}
