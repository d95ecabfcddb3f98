//! A JSON body as a small tree, whatever its size and depth.
//!
//! Bodies come from outside and may be long, deep, cut off or not JSON at all. What we look for is always near
//! the top, so the tree keeps the first few members of every list, the beginning of every string and nothing
//! below a certain depth; the rest is passed over without being stored. A body that breaks off keeps what
//! was read before the break.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// How much of a body is looked at.
pub(super) const MAX_BODY: usize = 16 << 20;
const MAX_DEPTH: usize = 12;
const MAX_NODES: usize = 2048;
const MAX_ELEMENTS: usize = 16;
const MAX_TEXT: usize = 8192;
const MAX_KEY: usize = 128;

/// A value of the tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Cow<'a, str>),
    Object,
    List,
}

#[derive(Clone, Debug)]
struct Node<'a> {
    parent: usize,
    /// Empty if it has none: no path leads through that.
    key: Cow<'a, str>,
    value: Value<'a>,
}

/// The tree; node 0 is the root. It borrows from the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    /// The members of the root that are kept; all, if it is empty.
    only: &'static [&'static str],
}

impl<'a> Tree<'a> {
    /// Reads a body as far as it is JSON. `None` if it does not even begin as an object or a list.
    pub(super) fn parse(text: &'a str) -> Option<Tree<'a>> {
        Tree::parse_only(text, &[])
    }

    /// The same for these members of the body; all others are passed over.
    pub(super) fn parse_only(text: &'a str, only: &'static [&'static str]) -> Option<Tree<'a>> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if !text.starts_with(['{', '[']) {
            return None;
        }
        let mut tree = Tree { nodes: Vec::with_capacity(16), only };
        let mut reader = serde_json::Deserializer::from_str(text);
        // An error only means that nothing more could be read.
        let _ =
            Seed { tree: &mut tree, parent: 0, key: Cow::Borrowed(""), depth: 0 }.deserialize(&mut reader);
        (!tree.nodes.is_empty()).then_some(tree)
    }

    /// The values at a path of keys, such as `errors[].extensions.code`. `[]` stands for every element of a
    /// list. A body that is a list is searched in each of its elements.
    pub(super) fn at<'t>(&'t self, path: &str) -> Vec<&'t Value<'a>> {
        let mut values = Vec::new();
        self.each(path, |id| values.push(&self.nodes[id].value));
        values
    }

    /// The first text at a path.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.find(path, &mut |id| self.nodes[id].value.text())
    }

    /// The first number at a path; a number written as text counts.
    #[cfg(test)]
    pub(super) fn number(&self, path: &str) -> Option<f64> {
        self.find(path, &mut |id| self.nodes[id].value.number())
    }

    /// The objects or lists at a path, each as a place to search on from.
    pub(super) fn places(&self, path: &str) -> Vec<Place<'_>> {
        let mut places = Vec::new();
        self.each_place(path, |place| places.push(place));
        places
    }

    pub(super) fn each_place<'t>(&'t self, path: &str, mut seen: impl FnMut(Place<'t>)) {
        self.each(path, |id| seen(Place { tree: self, id }));
    }

    fn each(&self, path: &str, mut seen: impl FnMut(usize)) {
        let all: Option<()> = self.find(path, &mut |id| {
            seen(id);
            None
        });
        debug_assert!(all.is_none());
    }

    /// What is wanted of the first value at a path that has it.
    fn find<T>(&self, path: &str, wanted: &mut impl FnMut(usize) -> Option<T>) -> Option<T> {
        match self.nodes.first()?.value {
            Value::List => self.children(0).find_map(|root| self.find_from(root, path, wanted)),
            _ => self.find_from(0, path, wanted),
        }
    }

    /// The same from a node on. Nothing is kept on the way, nor is the path taken apart: most lead nowhere, and every
    /// reply is searched for many.
    fn find_from<T>(
        &self,
        start: usize,
        path: &str,
        wanted: &mut impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        if path.is_empty() {
            return wanted(start);
        }
        self.children(start).find_map(|child| {
            let node = &self.nodes[child];
            let rest = rest_of(path, &node.key)?;
            let (rest, each) = match rest.strip_prefix("[]") {
                Some(rest) => (rest, true),
                None => (rest, false),
            };
            let rest = if rest.is_empty() { rest } else { rest.strip_prefix('.')? };
            match node.value {
                Value::List if each => {
                    self.children(child).find_map(|element| self.find_from(element, rest, wanted))
                }
                // What should be a list of one is sometimes the one.
                _ => self.find_from(child, rest, wanted),
            }
        })
    }

    /// A copy that outlives the text.
    pub(super) fn to_owned(&self) -> Tree<'static> {
        let own = |text: &Cow<'_, str>| Cow::Owned(text.clone().into_owned());
        let node = |node: &Node<'_>| {
            let value = match &node.value {
                Value::Null => Value::Null,
                Value::Bool(value) => Value::Bool(*value),
                Value::Number(number) => Value::Number(*number),
                Value::Text(text) => Value::Text(own(text)),
                Value::Object => Value::Object,
                Value::List => Value::List,
            };
            Node { parent: node.parent, key: own(&node.key), value }
        };
        Tree { nodes: self.nodes.iter().map(node).collect(), only: self.only }
    }

    fn children(&self, id: usize) -> impl Iterator<Item = usize> + '_ {
        // Children come after their parent; the root is its own parent, and nobody's child.
        (id + 1..self.nodes.len()).filter(move |child| self.nodes[*child].parent == id)
    }
}

/// What of a path comes after this key, if it begins with it. Most do not, and their first letter shows it.
fn rest_of<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    if path.as_bytes().first() != key.as_bytes().first() {
        return None;
    }
    path.strip_prefix(key)
}

/// A place in a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'t> {
    tree: &'t Tree<'t>,
    id: usize,
}

impl<'t> Place<'t> {
    pub(super) fn text(&self, path: &str) -> Option<&'t str> {
        self.find(path, Value::text)
    }

    pub(super) fn number(&self, path: &str) -> Option<f64> {
        self.find(path, Value::number)
    }

    /// The keys and values right below and one further, each with the key that it is below.
    pub(super) fn each_near(&self, mut seen: impl FnMut(&'t str, &'t str, &'t Value<'t>)) {
        let tree = self.tree;
        for id in tree.children(self.id) {
            let member = &tree.nodes[id];
            seen("", &member.key, &member.value);
            if matches!(member.value, Value::Object) {
                for id in tree.children(id) {
                    seen(&member.key, &tree.nodes[id].key, &tree.nodes[id].value);
                }
            }
        }
    }

    /// The keys and values right below.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'t str, &'t Value<'t>)> {
        let tree = self.tree;
        let members = tree.children(self.id).map(|id| (&*tree.nodes[id].key, &tree.nodes[id].value));
        members.filter(|(key, _)| !key.is_empty())
    }

    fn find<T>(&self, path: &str, wanted: impl Fn(&'t Value<'t>) -> Option<T>) -> Option<T> {
        let tree = self.tree;
        tree.find_from(self.id, path, &mut |id| wanted(&tree.nodes[id].value))
    }
}

impl Value<'_> {
    fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number that this is, or that its text is.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(text) => super::value::amount(text),
            _ => None,
        }
    }
}

/// Decodes a body to text: UTF-8 with what is broken replaced, or UTF-16 with a byte-order mark. No more than
/// [`MAX_BODY`] of it.
pub(super) fn decode(body: &[u8]) -> Cow<'_, str> {
    let body = &body[..body.len().min(MAX_BODY)];
    let wide = |from: fn([u8; 2]) -> u16| {
        let units = body[2..].chunks_exact(2).map(|pair| from([pair[0], pair[1]]));
        Cow::Owned(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
    };
    match body {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        // Most are in order, and that is faster to see than what is to be replaced.
        _ => std::str::from_utf8(body).map_or_else(|_| String::from_utf8_lossy(body), Cow::Borrowed),
    }
}

/// Reads one value into the tree.
struct Seed<'s, 'a> {
    tree: &'s mut Tree<'a>,
    parent: usize,
    key: Cow<'a, str>,
    depth: usize,
}

impl<'a> Seed<'_, 'a> {
    fn add(self, value: Value<'a>) -> usize {
        let id = self.tree.nodes.len();
        self.tree.nodes.push(Node { parent: self.parent, key: self.key, value });
        id
    }
}

/// As much of a text as is kept.
fn beginning(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A text as it stands in the body, or a copy of it where that had to be decoded.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth > MAX_DEPTH || self.tree.nodes.len() >= MAX_NODES {
            // Passing over is done without recursion, so no depth can exhaust the stack.
            return deserializer.deserialize_ignored_any(IgnoredAny).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.add(Value::Null);
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.add(Value::Bool(value));
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)] // an amount beyond 2^53 is told well enough by its first digits
    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.add(Value::Number(value as f64));
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)] // as above
    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.add(Value::Number(value as f64));
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.add(Value::Number(value));
        Ok(())
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<(), E> {
        self.add(Value::Text(Cow::Borrowed(beginning(value))));
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.add(Value::Text(Cow::Owned(beginning(value).to_owned())));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let depth = self.depth + 1;
        let seed = self;
        let tree = seed.tree;
        let parent = Seed { tree: &mut *tree, parent: seed.parent, key: seed.key, depth }.add(Value::List);
        for _ in 0..MAX_ELEMENTS {
            if seq
                .next_element_seed(Seed { tree: &mut *tree, parent, key: Cow::Borrowed(""), depth })?
                .is_none()
            {
                return Ok(());
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let depth = self.depth + 1;
        let seed = self;
        let tree = seed.tree;
        let parent = Seed { tree: &mut *tree, parent: seed.parent, key: seed.key, depth }.add(Value::Object);
        while let Some(key) = map.next_key_seed(Text)? {
            if depth == 1 && !tree.only.is_empty() && !tree.only.contains(&&*key) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let key = if key.len() <= MAX_KEY { key } else { Cow::Borrowed("") };
            map.next_value_seed(Seed { tree: &mut *tree, parent, key, depth })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_path() {
        let tree = Tree::parse(r#" {"a":{"b":[{"c":"x"},{"c":2}]},"n":"12","e":{"c":5}}"#).unwrap();
        assert_eq!(tree.at("a.b[].c"), [&Value::Text("x".into()), &Value::Number(2.0)]);
        assert_eq!(tree.number("n"), Some(12.0));
        assert_eq!(tree.number("e[].c"), Some(5.0));
        assert_eq!(tree.text("a.b[].c"), Some("x"));
        assert!(tree.at("a.x.c").is_empty());
        let listed = Tree::parse(r#"[{"errorCode":"E"}]"#).unwrap();
        assert_eq!(listed.text("errorCode"), Some("E"));
    }

    #[test]
    fn what_breaks_off_keeps_its_beginning() {
        let tree = Tree::parse(r#"{"error":{"code":"slow_down","message":"hel"#).unwrap();
        assert_eq!(tree.text("error.code"), Some("slow_down"));
    }

    #[test]
    fn depth_length_and_number_are_bounded() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(Tree::parse(&deep).unwrap().nodes.len() <= MAX_DEPTH + 2);
        let deep = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
        assert!(Tree::parse(&deep).is_some());
        let wide = format!("[{}0]", "0,".repeat(100_000));
        assert!(Tree::parse(&wide).unwrap().nodes.len() <= MAX_ELEMENTS + 1);
        let long = format!(r#"{{"a":"{}","b":1}}"#, "ä".repeat(100_000));
        let tree = Tree::parse(&long).unwrap();
        assert!(tree.text("a").unwrap().len() <= MAX_TEXT);
        assert_eq!(tree.number("b"), Some(1.0));
        assert!(Tree::parse("<html>").is_none());
    }

    #[test]
    fn other_encodings_are_read_too() {
        let text = r#"{"a":1}"#;
        let wide: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(decode(&wide), text);
        assert_eq!(Tree::parse(&decode(b"\xef\xbb\xbf{\"a\":1}")).unwrap().number("a"), Some(1.0));
        assert!(Tree::parse(&decode(b"{\"a\":\"\xff\",\"b\":2}")).unwrap().number("b").is_some());
    }
}
