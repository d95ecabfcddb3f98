//! As much of HTTP/1.1 as the upstreams and clients need. A library would not send what they send.

use std::io;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// The first line of a message, and its headers.
pub struct Head {
    pub first: String,
    pub headers: HeaderMap,
}

/// Reads a head; none if the other side has closed or sends something else.
pub async fn head(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Head> {
    let first = line(stream).await?;
    let mut headers = HeaderMap::new();
    loop {
        let line = line(stream).await?;
        let Some((name, value)) = line.split_once(':') else {
            return line.is_empty().then_some(Head { first, headers });
        };
        let name = HeaderName::try_from(name).ok()?;
        headers.append(name, HeaderValue::try_from(value.trim()).ok()?);
    }
}

async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await.ok()?;
    (read > 0 && line.ends_with('\n')).then(|| line.trim_end().to_owned())
}

/// Reads a body to its end, keeping the first bytes of it.
pub async fn body(stream: &mut (impl AsyncBufRead + Unpin), head: &Head, keep: usize) -> io::Result<Vec<u8>> {
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let mut kept = Vec::new();
    if text("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        loop {
            let size = line(stream).await.ok_or(io::ErrorKind::UnexpectedEof)?;
            let size = size.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
            take(stream, size, &mut kept, keep).await?;
            line(stream).await.ok_or(io::ErrorKind::UnexpectedEof)?;
            if size == 0 {
                return Ok(kept);
            }
        }
    }
    let length = text("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    take(stream, length, &mut kept, keep).await?;
    Ok(kept)
}

async fn take(
    stream: &mut (impl AsyncBufRead + Unpin),
    mut length: usize,
    kept: &mut Vec<u8>,
    keep: usize,
) -> io::Result<()> {
    while length > 0 {
        let there = stream.fill_buf().await?;
        if there.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let taken = there.len().min(length);
        let room = keep.saturating_sub(kept.len());
        kept.extend_from_slice(&there[..taken.min(room)]);
        stream.consume(taken);
        length -= taken;
    }
    Ok(())
}
