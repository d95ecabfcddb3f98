//! What stands on both sides of a proxy that is measured: programs of others, an upstream and clients of our own.
//!
//! Ours do as little as HTTP/1.1 allows, so that they are not what is measured; a proxy's processor time is its process's
//! alone.

pub mod clients;
pub mod process;
pub mod upstream;

/// How long the first message in these bytes is, head and body, if it is all there.
pub fn message(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let length = bytes[..head].split(|byte| *byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked("content-length:".len())?;
        let value = std::str::from_utf8(value).ok()?;
        name.eq_ignore_ascii_case(b"content-length:").then(|| value.trim().parse::<usize>().ok())?
    });
    Some(head + length.unwrap_or(0)).filter(|whole| *whole <= bytes.len())
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn a_message_ends_where_its_length_says() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1";
        assert_eq!(message(bytes), Some(41));
        assert_eq!(message(&bytes[..40]), None);
        assert_eq!(message(&bytes[..20]), None);
        assert_eq!(message(b"GET / HTTP/1.1\r\n\r\n"), Some(18));
    }
}
