//! What an attempt came to, by its reply.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use http_body::Body;
use tidegate_core::reply::StreamReader;
use tokio::time::{Instant, timeout_at};

use super::cost::{Meaning, Seen};
use super::decode::{Coding, Decoder, MAX_DECODER};
use super::memory::{Memory, Owners};
use super::reply::{Opening, ReplyBody, Watch, next_data};
use crate::execute::Attempt;
use crate::outcome::Outcome;

/// As much of a body as is looked at before the reply goes on.
const MOST: usize = 64 << 10;
/// How long an error's body is waited for. The head has said that the call failed: whoever waits must not wait for
/// more words.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reports to the gate what a reply says, and passes it on whole. A reply that is no error keeps the attempt's
/// permit until its body has ended; one that is comes back as `Err`, for [`Gate::execute`](crate::Gate::execute) to
/// decide whether another attempt follows.
///
/// # Errors
/// The reply itself, if it says that the call was refused or failed.
pub async fn judge<B>(
    reply: Response<B>,
    attempt: &Attempt,
    meaning: &Meaning,
) -> Result<Response<ReplyBody<B>>, Response<ReplyBody<B>>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (parts, mut body) = reply.into_parts();
    attempt.report(Outcome::reply(parts.status, &parts.headers));
    if parts.status.is_client_error() || parts.status.is_server_error() {
        let until = Some(Instant::now() + PATIENCE);
        let opening = look_into(&mut body, until, |_| false).await;
        let said = decoded(&parts.headers, opening.first());
        attempt.report(Outcome::reply(parts.status, &parts.headers).body(&said));
        return Err(Response::from_parts(parts, ReplyBody::resumed(opening, body, None)));
    }
    // Nobody reads a body that is not there, so it would never end.
    if body.is_end_stream() {
        return Ok(Response::from_parts(parts, ReplyBody::resumed(Opening::default(), body, None)));
    }
    let mut seen = Seen::of(&parts.headers, meaning);
    let opening = match first_event(&mut seen, &parts.headers, &mut body, meaning).await {
        Ok(opening) => opening,
        Err((opening, refused)) => {
            attempt.report(refused);
            return Err(Response::from_parts(parts, ReplyBody::resumed(opening, body, None)));
        }
    };
    let watch = Watch { permit: attempt.keep_permit(), seen, meaning: meaning.clone() };
    Ok(Response::from_parts(parts, ReplyBody::resumed(opening, body, Some(watch))))
}

/// The beginning of a stream up to its first event, if that may be a refusal; with what it says if it is one.
async fn first_event<B>(
    seen: &mut Seen,
    headers: &HeaderMap,
    body: &mut B,
    meaning: &Meaning,
) -> Result<Opening<B::Error>, (Opening<B::Error>, Outcome)>
where
    B: Body<Data = Bytes> + Unpin,
{
    if seen.events().is_none() || !meaning.may_refuse(headers) {
        return Ok(Opening::default());
    }
    let opening = look_into(body, None, |bytes| {
        seen.push(bytes);
        seen.events().is_none_or(StreamReader::has_begun)
    })
    .await;
    match seen.events().and_then(|events| meaning.refusal(events, headers)) {
        Some(refused) => Err((opening, refused)),
        None => Ok(opening),
    }
}

/// Decodes the beginning of an error's body, if it is compressed.
///
/// Errors decide about windows, so they are read with memory of their own when waiting requests have taken all of the shared
/// budget. That is bounded without it: this function awaits nothing, so a thread decodes one error at a time.
fn decoded<'b>(headers: &HeaderMap, bytes: &'b [u8]) -> Cow<'b, [u8]> {
    let coding = Coding::of(headers);
    if coding == Coding::Plain {
        return Cow::Borrowed(bytes);
    }
    let mut plain = Vec::new();
    let own = Arc::new(Memory::new(MAX_DECODER));
    let mut decoder = Decoder::new(coding, own.share(Owners::default()), MOST as u64);
    decoder.push(bytes, &mut |bytes| plain.extend_from_slice(bytes));
    Cow::Owned(plain)
}

/// Reads the beginning of a body, until it is enough.
async fn look_into<B>(
    body: &mut B,
    until: Option<Instant>,
    mut enough: impl FnMut(&[u8]) -> bool,
) -> Opening<B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut seen = BytesMut::new();
    let mut broken = None;
    while seen.len() < MOST && broken.is_none() {
        let next = match until {
            Some(until) => timeout_at(until, next_data(body)).await.unwrap_or(None),
            None => next_data(body).await,
        };
        match next {
            Some(Ok(bytes)) => {
                seen.extend_from_slice(&bytes);
                if enough(&bytes) {
                    break;
                }
            }
            Some(Err(error)) => broken = Some(error),
            None => break,
        }
    }
    Opening::new(seen.freeze(), broken)
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::super::decode::tests::{br, gzip, zstd};
    use super::*;
    use crate::config::Config;
    use crate::{Call, Gate};

    #[tokio::test(start_paused = true)]
    async fn a_compressed_error_opens_its_window_though_the_memory_for_bodies_is_used_up() {
        const SAID: &[u8] = br#"{"message": "You have exceeded a secondary rate limit."}"#;
        for (coding, body) in [("gzip", gzip(SAID)), ("br", br(SAID)), ("zstd", zstd(SAID))] {
            let config = Config::parse("[services.github]\nretry = { max_retries = 0 }\n").expect("valid");
            let gate = Gate::builder().config(config).build().expect("valid");
            let call = Call::to("github").endpoint("GET /user").timeout(Duration::ZERO);
            let full = Arc::new(Memory::new(0));
            let meaning = Meaning::of(&gate, &call).within(&full, Owners::default());
            let (body, meaning) = (&body, &meaning);
            let sent = gate.execute(call, |attempt| async move {
                let reply = Response::builder().status(403).header("content-encoding", coding);
                let reply = reply.body(Full::new(Bytes::copy_from_slice(body))).expect("a reply");
                judge(reply, &attempt, meaning).await.map_err(|_| "refused")
            });
            assert!(sent.await.is_err());
            assert_eq!(gate.backoffs().len(), 1, "{coding}");
        }
    }
}
