//! A JSON body as a small tree, whatever its size and depth.
//!
//! Bodies come from outside and may be long, deep, cut off or not JSON at all. What we look for is always near
//! the top, so the tree keeps the first few members of every list, the beginning of every string and nothing
//! below a certain depth; the rest is passed over without being stored. A body that breaks off keeps what
//! was read before the break.

use std::borrow::Cow;

use crate::json::{Scanner, Token};

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
        tree.fill(&mut Scanner::new(text.as_bytes()));
        (!tree.nodes.is_empty()).then_some(tree)
    }

    /// Takes in the values of a document, to its end or to where it breaks off.
    fn fill(&mut self, scanner: &mut Scanner<'a>) {
        // The objects and lists that are open, with how many elements a list has.
        let mut open: Vec<(usize, usize)> = Vec::with_capacity(MAX_DEPTH + 1);
        let mut key = Cow::Borrowed("");
        while let Some(token) = scanner.next() {
            let value = match token {
                Token::Key(name) => {
                    let name = if name.len() <= 6 * MAX_KEY { name.decoded() } else { Cow::Borrowed("") };
                    if open.len() == 1 && !self.keeps(&name) {
                        scanner.skip_value();
                        continue;
                    }
                    key = if name.len() <= MAX_KEY { name } else { Cow::Borrowed("") };
                    continue;
                }
                Token::Close => {
                    open.pop();
                    if open.is_empty() {
                        return;
                    }
                    continue;
                }
                Token::OpenObject => Value::Object,
                Token::OpenList => Value::List,
                Token::Text(text) => Value::Text(text.beginning(MAX_TEXT)),
                // `NaN` and the like say nothing.
                Token::Number(number) => {
                    let whole = number.parse::<u64>().map(|number| number as f64);
                    let number =
                        whole.ok().or_else(|| number.parse().ok()).filter(|number| number.is_finite());
                    number.map_or(Value::Null, Value::Number)
                }
                Token::Bool(value) => Value::Bool(value),
                Token::Null => Value::Null,
            };
            let opens = matches!(value, Value::Object | Value::List);
            let (parent, elements) = open.last().copied().unwrap_or_default();
            let in_list = matches!(self.nodes.get(parent), Some(Node { value: Value::List, .. }));
            let full = open.len() > MAX_DEPTH || self.nodes.len() >= MAX_NODES;
            if full || (in_list && elements >= MAX_ELEMENTS) {
                key = Cow::Borrowed("");
                if opens {
                    scanner.skip_rest();
                }
                continue;
            }
            if let Some((_, elements)) = open.last_mut() {
                *elements += 1;
            }
            if opens {
                open.push((self.nodes.len(), 0));
            }
            self.nodes.push(Node { parent, key: std::mem::take(&mut key), value });
            if open.is_empty() {
                return;
            }
        }
    }

    /// Whether a member of the body is kept.
    fn keeps(&self, name: &str) -> bool {
        let listed = matches!(self.nodes.first(), Some(Node { value: Value::List, .. }));
        listed || self.only.is_empty() || self.only.contains(&name)
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
    fn what_is_odd_hides_nothing_behind_it() {
        for odd in [r#""\ud83d""#, "NaN", "-Infinity", &format!("{}{}", "[".repeat(200), "]".repeat(200))] {
            let text = format!(r#"{{"odd":{odd},"list":[{odd},{{"n":1}}],"n":2}}"#);
            let tree = Tree::parse(&text).unwrap();
            assert_eq!((tree.number("list[].n"), tree.number("n")), (Some(1.0), Some(2.0)), "{odd}");
        }
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
