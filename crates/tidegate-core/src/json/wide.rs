//! JSON in UTF-16 or UTF-32. RFC 8259 asks for UTF-8, and some parsers accept more: Python's `json.loads` tells the encoding
//! by a byte order mark or by the zeros among the first four bytes. This module tells it in the same way.

/// Decodes the beginning of a JSON object or list that is in UTF-16 or UTF-32. Returns none for all other input. No more
/// than `most` bytes are decoded.
pub(crate) fn narrow(input: &[u8], most: usize) -> Option<String> {
    let (width, big_endian, mark) = match input {
        [0xff, 0xfe, 0, 0, ..] => (4, false, 4),
        [0, 0, 0xfe, 0xff, ..] => (4, true, 4),
        [0xff, 0xfe, ..] => (2, false, 2),
        [0xfe, 0xff, ..] => (2, true, 2),
        [0, 0, 0, _, ..] => (4, true, 0),
        [_, 0, 0, 0, ..] => (4, false, 0),
        [0, _, ..] => (2, true, 0),
        [_, 0, ..] => (2, false, 0),
        _ => return None,
    };
    let units = input[mark..input.len().min(most).max(mark)].chunks_exact(width).map(|unit| {
        let join = |unit: u32, byte: &u8| unit << 8 | u32::from(*byte);
        if big_endian { unit.iter().fold(0, join) } else { unit.iter().rev().fold(0, join) }
    });
    let text: String = match width {
        2 => char::decode_utf16(units.map(|unit| unit as u16))
            .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect(),
        _ => units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect(),
    };
    text.trim_start().starts_with(['{', '[']).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_and_order_is_read_with_and_without_a_mark() {
        let text = " {\"a\": \"sea \u{1f30a}\"}";
        for mark in ["", "\u{feff}"] {
            let marked = format!("{mark}{text}");
            let two = |bytes: fn(u16) -> [u8; 2]| marked.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
            let four = |bytes: fn(u32) -> [u8; 4]| {
                marked.chars().flat_map(|it| bytes(it.into())).collect::<Vec<u8>>()
            };
            let all = [
                two(u16::to_le_bytes),
                two(u16::to_be_bytes),
                four(u32::to_le_bytes),
                four(u32::to_be_bytes),
            ];
            for wide in all {
                assert_eq!(narrow(&wide, 1 << 10).as_deref(), Some(text), "{wide:x?}");
                assert!(narrow(&wide, 16).expect("a beginning").len() <= 16);
            }
        }
    }

    #[test]
    fn all_other_input_is_left_as_it_is() {
        for input in [
            &b""[..],
            b"{",
            b"{}",
            b"\0",
            b"\0\0",
            b"\0\0\0\0\x05hello",
            b"\xff\xfe",
            b"s\0e\0a\0",
            b"\xff\xfe\0",
        ] {
            assert_eq!(narrow(input, 64), None, "{input:x?}");
        }
    }
}
