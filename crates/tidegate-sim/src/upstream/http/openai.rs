//! Answers in OpenAI's shapes.

use serde_json::{Value, json};

use super::asked::Asked;
use super::events::{named, pieces, unnamed};

pub(super) fn chat(asked: &Asked, number: u64, unix: u64) -> Value {
    json!({
        "id": format!("chatcmpl-{number}"),
        "object": "chat.completion",
        "created": unix,
        "model": asked.model,
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": pieces(asked.output).concat(), "refusal": null },
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": chat_usage(asked),
    })
}

pub(super) fn chat_events(asked: &Asked, number: u64, unix: u64) -> Vec<String> {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": format!("chatcmpl-{number}"),
            "object": "chat.completion.chunk",
            "created": unix,
            "model": asked.model,
            "choices": choices,
        });
        if asked.include_usage {
            chunk["usage"] = usage;
        }
        unnamed(&chunk)
    };
    let delta = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
        chunk(json!([choice]), Value::Null)
    };
    let mut events = vec![delta(json!({ "role": "assistant", "content": "" }), Value::Null)];
    events
        .extend(pieces(asked.output).into_iter().map(|text| delta(json!({ "content": text }), Value::Null)));
    events.push(delta(json!({}), json!("stop")));
    if asked.include_usage {
        events.push(chunk(json!([]), chat_usage(asked)));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn chat_usage(asked: &Asked) -> Value {
    json!({
        "prompt_tokens": asked.input,
        "completion_tokens": asked.output,
        "total_tokens": asked.input.saturating_add(asked.output),
        "prompt_tokens_details": { "cached_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0 },
    })
}

pub(super) fn response(asked: &Asked, number: u64, unix: u64) -> Value {
    let mut response = begun(asked, number, unix);
    response["status"] = json!("completed");
    response["output"] = json!([item(number, "completed", json!([part(&pieces(asked.output).concat())]))]);
    response["usage"] = json!({
        "input_tokens": asked.input,
        "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": asked.output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": asked.input.saturating_add(asked.output),
    });
    response
}

pub(super) fn response_events(asked: &Asked, number: u64, unix: u64) -> Vec<String> {
    let pieces = pieces(asked.output);
    let text = pieces.concat();
    let id = format!("msg_{number}");
    let place = json!({ "item_id": id, "output_index": 0, "content_index": 0 });
    let here = |more: Value| merged(&place, &more);
    let mut events = vec![
        json!({ "type": "response.created", "response": begun(asked, number, unix) }),
        json!({ "type": "response.in_progress", "response": begun(asked, number, unix) }),
        json!({ "type": "response.output_item.added", "output_index": 0,
                "item": item(number, "in_progress", json!([])) }),
        here(json!({ "type": "response.content_part.added", "part": part("") })),
    ];
    events.extend(
        pieces.iter().map(|piece| {
            here(json!({ "type": "response.output_text.delta", "delta": piece, "logprobs": [] }))
        }),
    );
    events.extend([
        here(json!({ "type": "response.output_text.done", "text": text, "logprobs": [] })),
        here(json!({ "type": "response.content_part.done", "part": part(&text) })),
        json!({ "type": "response.output_item.done", "output_index": 0,
                "item": item(number, "completed", json!([part(&text)])) }),
        json!({ "type": "response.completed", "response": response(asked, number, unix) }),
    ]);
    let numbered =
        |(number, event): (usize, Value)| named(&merged(&event, &json!({ "sequence_number": number })));
    events.into_iter().enumerate().map(numbered).collect()
}

fn begun(asked: &Asked, number: u64, unix: u64) -> Value {
    json!({
        "id": format!("resp_{number}"),
        "object": "response",
        "created_at": unix,
        "status": "in_progress",
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": asked.max_output,
        "metadata": {},
        "model": asked.model,
        "output": [],
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": null,
    })
}

fn item(number: u64, status: &str, content: Value) -> Value {
    json!({ "type": "message", "id": format!("msg_{number}"), "status": status, "role": "assistant", "content": content })
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn merged(base: &Value, more: &Value) -> Value {
    let mut all = base.clone();
    for (name, value) in more.as_object().into_iter().flatten() {
        all[name] = value.clone();
    }
    all
}

/// Vectors of eight zeros: there is nothing to learn from them but their number.
pub(super) fn embeddings(asked: &Asked) -> Value {
    // Eight floats of four zero bytes each.
    let zeros = format!("{}=", "A".repeat(43));
    let vector = if asked.base64 { json!(zeros) } else { json!(vec![0.0; 8]) };
    let data: Vec<Value> = (0..asked.inputs)
        .map(|index| json!({ "object": "embedding", "index": index, "embedding": vector }))
        .collect();
    json!({
        "object": "list",
        "data": data,
        "model": asked.model,
        "usage": { "prompt_tokens": asked.input, "total_tokens": asked.input },
    })
}
