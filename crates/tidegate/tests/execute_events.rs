//! Each attempt as a `tracing` event. Alone in its process: whether an event is wanted is remembered for all
//! threads, and other tests want none.

use std::fmt;
use std::sync::{Arc, Mutex};

use tidegate::{Call, Config, Failed, Gate, Outcome};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the events of one target as texts.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<(Level, String)>>>);

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tidegate"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().expect("no panic").push((*event.metadata().level(), fields.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "message" {
            self.0 += &format!("{}={value:?} ", field.name());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_an_event_with_service_attempt_outcome_and_delay() {
    let notes = Notes::default();
    let _here = tracing::subscriber::set_default(notes.clone());
    let config = Config::parse("[services.api]\nretry = { jitter = 0.0, max_retries = 1 }\n").expect("valid");
    let gate = Gate::builder().config(config).build().expect("valid");
    let call = gate.execute(Call::to("api"), |attempt| async move {
        if attempt.is_retry() { Ok(()) } else { Err(Outcome::refused().because("too fast")) }
    });
    call.await.expect("done");
    let call = gate
        .execute(Call::to("api"), |_| async { Err::<(), _>(Outcome::unreached().because("nobody there")) });
    call.await.expect_err("never done");
    gate.execute(Call::to("other"), |_| async { Ok::<_, Failed>(()) }).await.expect_err("unknown");
    let simple = Gate::simple(tidegate::RateLimitConfig::default()).expect("valid");
    simple.execute(Call::default(), |_| async { Ok::<_, Failed>(()) }).await.expect("done");
    let notes = notes.0.lock().expect("no panic").clone();
    let expected = [
        (Level::INFO, "service=\"api\" attempt=1 outcome=\"refused\" delay=1.0 "),
        (Level::DEBUG, "service=\"api\" attempt=2 outcome=\"done\" "),
        (Level::INFO, "service=\"api\" attempt=1 outcome=\"unreached\" delay=1.0 "),
        (Level::WARN, "service=\"api\" attempt=2 outcome=\"unreached\" why=RetriesSpent "),
        (
            Level::WARN,
            "service=\"other\" attempt=1 outcome=\"held back\" why=no service named `other` in the config ",
        ),
        (Level::DEBUG, "service=\"simple\" attempt=1 outcome=\"done\" "),
    ];
    assert_eq!(notes, expected.map(|(level, text)| (level, text.to_owned())));
}
