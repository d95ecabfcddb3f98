//! How commands find the sidecar: by the config that it was started with, whatever the file says now.

use std::fs::{remove_file, write};

use serde_json::Value;

use super::outcome;
use super::served::{Folder, Process, served};
use super::stand_in::StandIn;

/// Where the sidecar that `status` finds is.
fn found(folder: &Folder, more: &[&str]) -> Result<String, String> {
    let (code, said, error) = outcome(folder.tidegate(&["status", "--json"]).args(more));
    let url = || Some(serde_json::from_str::<Value>(&said).ok()?["url"].as_str()?.to_owned());
    if code == Some(0) { Ok(url().expect("a URL")) } else { Err(error) }
}

#[test]
fn a_sidecar_is_found_while_its_file_is_wrong_emptied_or_gone() {
    let (folder, _api, sidecar) = served("0", "requests = \"60/min\"\n");
    let (file, url) = (folder.0.join("tidegate.toml"), Ok(format!("http://{}", sidecar.address)));
    assert_eq!(found(&folder, &[]), url, "its port is nowhere in the file");
    write(&file, "listen = \"127.0.0.1:1\"\n[services.api]\nrequets = 1\n").expect("written");
    assert_eq!(found(&folder, &[]), url, "wrong, and to be moved");
    write(&file, "[services.\nlisten = ").expect("written");
    assert_eq!(found(&folder, &[]), url, "broken");
    write(&file, "").expect("written");
    assert_eq!(found(&folder, &[]), url, "emptied");
    remove_file(&file).expect("removed");
    assert_eq!(found(&folder, &[]), url, "gone");
    assert_eq!(found(&folder, &["--config", "tidegate.toml"]), url, "gone, and named");
    for arguments in [&["limit", "set", "api/requests/1m", "50/min"][..], &["backoff", "clear", "api"]] {
        let (code, _, error) = outcome(&mut folder.tidegate(arguments));
        assert_eq!(code, Some(0), "{error}");
    }

    // Killed: its record is left, and is no reason to believe that it runs.
    drop(sidecar);
    write(&file, "listen = \"127.0.0.1:1\"\n").expect("written");
    let error = found(&folder, &[]).expect_err("killed");
    assert!(error.contains("no sidecar listens on 127.0.0.1:1: start one"), "{error}");
    assert!(!error.contains("other configs"), "{error}");
}

#[test]
fn a_sidecar_without_a_record_is_found_where_a_wrong_file_says() {
    let sidecar = StandIn::start(200, "{}", &[]);
    let folder = Folder::with(&format!("listen = \"{}\"\n[services.api]\nrequets = 1\n", sidecar.address));
    assert_eq!(found(&folder, &[]), Ok(format!("http://{}", sidecar.address)));
}

#[test]
fn sidecars_with_other_configs_are_named_and_not_used() {
    let folder = Folder::with("listen = \"127.0.0.1:1\"\n");
    write(folder.0.join("other.toml"), "[services.api]\n").expect("written");
    let other =
        Process::start(folder.tidegate(&["serve", "--listen", "127.0.0.1:0", "--config", "other.toml"]));
    let error = found(&folder, &[]).expect_err("none with this config");
    assert!(error.contains(&other.address) && error.contains("other.toml"), "{error}");
    assert_eq!(found(&folder, &["--config", "other.toml"]), Ok(format!("http://{}", other.address)));
}
