//! Answers in Anthropic's shape.

use serde_json::{Value, json};

use super::asked::Asked;
use super::events::{named, pieces};

pub(super) fn message(asked: &Asked, number: u64) -> Value {
    let mut message = begun(asked, number);
    message["content"] = json!([{ "type": "text", "text": pieces(asked.output).concat() }]);
    message["stop_reason"] = json!("end_turn");
    message["usage"]["output_tokens"] = json!(asked.output);
    message
}

pub(super) fn message_events(asked: &Asked, number: u64) -> Vec<String> {
    let block = |text: &str| json!({ "type": "text", "text": text });
    let mut events = vec![
        json!({ "type": "message_start", "message": begun(asked, number) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block("") }),
        json!({ "type": "ping" }),
    ];
    events.extend(pieces(asked.output).into_iter().map(|text| {
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } })
    }));
    events.extend([
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn", "stop_sequence": null },
                "usage": { "output_tokens": asked.output } }),
        json!({ "type": "message_stop" }),
    ]);
    events.iter().map(named).collect()
}

fn begun(asked: &Asked, number: u64) -> Value {
    json!({
        "id": format!("msg_{number}"),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": asked.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": asked.output.min(1),
            "service_tier": "standard",
        },
    })
}
