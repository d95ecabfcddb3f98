//! The name of a loop. Short ones lie in place: with a million loops each is memory that a decision waits for.

/// What a short name has room for.
const SHORT: usize = 14;

#[derive(Clone, Debug)]
pub(crate) enum LoopName {
    /// How long it is, and its text.
    Short(u8, [u8; SHORT]),
    // Twice behind a pointer: as large as a short one, and no larger in all than shared text would be.
    Long(Box<Box<str>>),
}

impl LoopName {
    pub fn new(name: &str) -> LoopName {
        let mut text = [0; SHORT];
        match text.get_mut(..name.len()) {
            Some(place) => {
                place.copy_from_slice(name.as_bytes());
                LoopName::Short(name.len() as u8, text)
            }
            None => LoopName::Long(Box::new(name.into())),
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            LoopName::Short(len, text) => &text[..usize::from(*len)],
            LoopName::Long(name) => name.as_bytes(),
        }
    }

    #[inline]
    pub fn is(&self, name: &str) -> bool {
        self.bytes() == name.as_bytes()
    }

    pub fn as_str(&self) -> &str {
        // It was made from a string.
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_sixteen_bytes_and_a_free_place_no_more() {
        assert_eq!(size_of::<Option<LoopName>>(), 16);
    }

    #[test]
    fn names_of_all_lengths_are_told_apart() {
        let name = "agent-7/ünïcödé-and-more";
        for end in (0..=name.len()).filter(|end| name.is_char_boundary(*end)) {
            let held = LoopName::new(&name[..end]);
            assert_eq!(held.as_str(), &name[..end]);
            assert_eq!(matches!(held, LoopName::Short(..)), end <= SHORT);
            for other in (0..=name.len()).filter(|other| name.is_char_boundary(*other)) {
                assert_eq!(held.is(&name[..other]), other == end, "{end} and {other}");
            }
            assert!(!held.is(&name[..end].replace('a', "b")) || !name[..end].contains('a'));
        }
    }
}
