//! Prints the digests of 1,000 random scenarios and of the examples, in the form of `tests/digests/recorded.txt`.

use std::path::Path;

use tidegate_sim::{Options, Scenario, ScenarioFile, simulate};

const SCENARIOS: u64 = 1_000;

fn main() {
    let options = Options { checks: false, story: 0, ..Options::default() };
    for seed in 0..SCENARIOS {
        let report = simulate(&Scenario::random(seed), seed, &options).expect("a valid scenario");
        println!("{seed} {:016x}", report.digest);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/simulations");
    let entries = std::fs::read_dir(folder).expect("the folder of examples");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    for path in files {
        let ScenarioFile { scenario, seed } = ScenarioFile::load(&path).expect("a valid scenario");
        let report = simulate(&scenario, seed, &options).expect("it can be played");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        println!("{name} {:016x}", report.digest);
    }
}
