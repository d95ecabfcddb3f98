//! What a window is kept under.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The name of a shared window: a string or a whole number.
///
/// The number 7 and the string `"7"` are different keys; 7 is the same in every integer type.
///
/// ```
/// use tidegate::Key;
///
/// assert_eq!(Key::from(7_u8), Key::from(7_i64));
/// assert_ne!(Key::from(7), Key::from("7"));
/// assert_eq!(Key::from(String::from("openai")).to_string(), "openai");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Kind);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Number(i128),
    Text(Arc<str>),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Number(number) => number.fmt(f),
            Kind::Text(text) => text.fmt(f),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Number(number) => number.fmt(f),
            Kind::Text(text) => fmt::Debug::fmt(text, f),
        }
    }
}

impl From<&Key> for Key {
    fn from(key: &Key) -> Key {
        key.clone()
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        Key(Kind::Text(text.into()))
    }
}

impl From<String> for Key {
    fn from(text: String) -> Key {
        Key(Kind::Text(text.into()))
    }
}

impl From<&String> for Key {
    fn from(text: &String) -> Key {
        Key(Kind::Text(text.as_str().into()))
    }
}

impl From<Cow<'_, str>> for Key {
    fn from(text: Cow<'_, str>) -> Key {
        Key(Kind::Text(text.into()))
    }
}

impl From<Arc<str>> for Key {
    fn from(text: Arc<str>) -> Key {
        Key(Kind::Text(text))
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Key {
            fn from(number: $number) -> Key {
                // Every one of these types fits.
                Key(Kind::Number(number as i128))
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 i128 isize);
