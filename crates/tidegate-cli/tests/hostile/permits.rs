//! Clients of the permit API. A permit counts as an arrival when it reaches its client.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use super::limits::LOOPS;
use super::records::{CallEnd, Meant};
use super::scene::Scene;
use super::world::LEASE;

/// Asks for permits and ends them in one of the ways there are; where they are abused, with absurd reports.
pub async fn ask(scene: Arc<Scene>, mut rng: Rng, service: usize, abuse: bool) {
    while !scene.is_over() {
        one(&scene, &mut rng, service, abuse).await;
        scene.rest(&mut rng, if abuse { 100..400 } else { 10..100 }).await;
    }
}

async fn one(scene: &Scene, rng: &mut Rng, service: usize, abuse: bool) -> Option<()> {
    let timeout = Duration::from_millis(rng.choice([0, 300, 1000]).expect("some"));
    let name = scene.world.services[service].name;
    let body =
        format!(r#"{{"service":"{name}","loop":"loop-{LOOPS}","timeout_ms":{}}}"#, timeout.as_millis());
    let stream = scene.connect().await?;
    let meant = Meant { service, loop_id: Some(LOOPS), ..Meant::default() };
    let number = scene.records.call("permit", meant, timeout);
    if rng.u8(..6) == 0 {
        // Hangs up while it waits: what was granted meanwhile goes back.
        let patience = Duration::from_millis(rng.u64(1..200));
        let asked = scene.request_on(stream, "POST", "/v1/acquire", &body);
        let left = tokio::time::timeout(patience, asked).await;
        if left.is_err() {
            scene.records.call_ended(number, CallEnd::Left);
            return None;
        }
        // It was answered after all, and is forgotten: it was granted, or it was not.
        scene.records.call_ended(number, |at| CallEnd::Answered(at, 0));
        return None;
    }
    scene.records.call_sent(number);
    let answer = scene.request_on(stream, "POST", "/v1/acquire", &body).await;
    let Some((status, said)) = answer else {
        scene.records.call_ended(number, CallEnd::Cut);
        return None;
    };
    scene.records.call_ended(number, |at| CallEnd::Answered(at, status));
    if status != 200 {
        return None;
    }
    let open = scene.records.arrival(service, Some(number));
    let mut until = scene.records.now() + LEASE;
    let said: Value = serde_json::from_str(&said).ok()?;
    let permit = said["permit"].as_str()?;
    scene.rest(rng, 0..60).await;
    if abuse {
        let report = rng.choice(ABSURD).expect("some");
        drop(open);
        scene.request("POST", &format!("/v1/permits/{permit}/complete"), report).await;
        return Some(());
    }
    match rng.u8(..5) {
        0 => {
            // Forgotten: its lease ends.
            open.closes_at(until);
        }
        1 => {
            let deleted = scene.request("DELETE", &format!("/v1/permits/{permit}"), "").await;
            if deleted.is_some_and(|(status, _)| status == 200) {
                open.give_back();
            }
        }
        2 => {
            let asked = scene.records.now();
            let renewed = scene.request("POST", &format!("/v1/permits/{permit}/renew"), "").await;
            if renewed.is_some_and(|(status, _)| status == 200) {
                until = asked + LEASE;
            }
            open.closes_at(until);
        }
        _ => {
            drop(open);
            let report = r#"{"outcome":"done"}"#;
            scene.request("POST", &format!("/v1/permits/{permit}/complete"), report).await;
        }
    }
    Some(())
}

const ABSURD: [&str; 8] = [
    r#"{"status":429,"headers":{"retry-after":"31536000"}}"#,
    r#"{"status":429,"headers":{"retry-after":"Fri, 31 Dec 9999 23:59:59 GMT"}}"#,
    r#"{"status":503,"headers":{"retry-after":"18446744073709551615"}}"#,
    r#"{"status":200,"usage":{"tokens":1000000000000000000}}"#,
    r#"{"status":200,"usage":{"requests":1000000000000000000}}"#,
    r#"{"status":200,"usage":{"total_tokens":18446744073709551615,"prompt_tokens":-1}}"#,
    r#"{"status":200,"usage":{"tokens":-5,"usd":1e308}}"#,
    r#"{"outcome":"refused","usage":{"tokens":"many"}}"#,
];
