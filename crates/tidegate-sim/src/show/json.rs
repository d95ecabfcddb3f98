//! A run for programs. The names here are documented in `docs/simulate.md` and stay.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_core::Priority;

use super::Subject;
use super::words::{ms, share};
use crate::report::{GroupReport, LimitReport, Phase, Report, ServiceReport, ServiceSeries, Violation};

/// A run as JSON: times in milliseconds, shares between 0 and 1.
#[must_use]
pub fn json(subject: &Subject, report: &Report) -> Value {
    let settings: Map<String, Value> =
        subject.settings.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    json!({
        "file": subject.file,
        "settings": settings,
        "seed": report.seed,
        "duration_ms": ms(report.duration),
        "events": report.events,
        "peak_waiting": report.peak_waiting,
        "digest": format!("{:016x}", report.digest),
        "services": report.services.iter().map(service).collect::<Vec<_>>(),
        "priorities": report.priorities.iter().map(group).collect::<Vec<_>>(),
        "workloads": report.workloads.iter().map(group).collect::<Vec<_>>(),
        "loop_count": report.loop_count,
        "loops": report.loops.iter().map(|found| json!({
            "name": found.name,
            "workload": found.workload,
            "went": found.went,
            "share": found.share,
        })).collect::<Vec<_>>(),
        "series": json!({
            "step_ms": ms(report.series.step),
            "down_ms": spans(&report.series.down),
            "services": report.services.iter().zip(&report.series.services).map(|(service, series)| {
                over_time(&service.name, series)
            }).collect::<Vec<_>>(),
        }),
        "violation": report.violation.as_ref().map(|violation| broken(subject, report, violation)),
    })
}

fn service(service: &ServiceReport) -> Value {
    json!({
        "name": service.name,
        "limits": service.limits.iter().map(limit).collect::<Vec<_>>(),
        "upstream": service.upstream.iter().map(upstream_limit).collect::<Vec<_>>(),
        "sent": service.sent,
        "accepted": service.accepted,
        "rejected": service.rejected,
        "rejected_share": share(service.rejected, service.sent),
        "failed": service.failed,
        "lost": service.lost,
        "retries": service.retries,
        "windows": service.windows,
        "windows_ms": ms(service.in_windows),
        "breaker_openings": service.breaker_openings,
        "phases": service.phases.iter().map(phase).collect::<Vec<_>>(),
    })
}

fn limit(limit: &LimitReport) -> Value {
    json!({ "name": limit.name, "supply": limit.supply, "used": limit.used, "used_share": limit.share() })
}

fn upstream_limit(shared: &LimitReport) -> Value {
    let mut value = limit(shared);
    value["neighbours"] = json!(shared.neighbours);
    value
}

fn phase(phase: &Phase) -> Value {
    json!({
        "from_ms": ms(phase.from),
        "until_ms": ms(phase.until),
        "sent": phase.sent,
        "accepted": phase.accepted,
        "rejected": phase.rejected,
        "rejected_late": phase.rejected_late,
        "upstream": phase.upstream.iter().map(upstream_limit).collect::<Vec<_>>(),
    })
}

fn group(group: &GroupReport) -> Value {
    json!({
        "name": group.name,
        "calls": group.calls,
        "went": group.went,
        "succeeded": group.succeeded,
        "refused": group.refused,
        "timed_out": group.timed_out,
        "shed": group.shed,
        "cancelled": group.cancelled,
        "given_up": group.given_up,
        "crashed": group.crashed,
        "unfinished": group.unfinished,
        "wait_ms": { "p50": ms(group.wait.p50), "p99": ms(group.wait.p99), "max": ms(group.wait.max) },
    })
}

fn over_time(name: &str, series: &ServiceSeries) -> Value {
    let granted: Map<String, Value> = Priority::ALL
        .iter()
        .map(|priority| {
            let by_step: Vec<u64> =
                series.granted.iter().map(|granted| granted[*priority as usize]).collect();
            (priority.name().to_owned(), json!(by_step))
        })
        .collect();
    json!({
        "name": name,
        "granted": granted,
        "rejected": series.rejected,
        "failed": series.failed,
        "waiting": series.waiting,
        "allowed": series.allowed,
        "backoff_ms": spans(&series.backoff),
    })
}

fn broken(subject: &Subject, report: &Report, violation: &Violation) -> Value {
    json!({
        "invariant": violation.invariant.name(),
        "message": violation.message,
        "event": violation.event,
        "at_ms": ms(violation.at),
        "story": violation.story,
        "replay": subject.replay(report, violation),
    })
}

fn spans(spans: &[(Duration, Duration)]) -> Vec<[f64; 2]> {
    spans.iter().map(|(from, until)| [ms(*from), ms(*until)]).collect()
}
