//! The comparison with the list: equal passes; worse, new, better and gone do not.

use super::{check, rules, tree};
use crate::allowed::problems;
use crate::violations::Violations;

const RULES: &str = r#"
max_files = 1
max_fields = 1
[[order]]
crate = "example"
folder = "crate"
modules = ["a", "b", "c"]
"#;

const LIST: &str = r#"
[[circle]]
crate = "example"
folder = "crate"
modules = ["a", "b"]

[[against_order]]
crate = "example"
module = "crate::a"
uses = ["b"]

[[spread_type]]
crate = "example"
type = "crate::a::A"
files = 2

[[wide_struct]]
crate = "example"
struct = "crate::a::A"
fields = 2
"#;

const AS_LISTED: [(&str, &str); 4] = [
    ("lib.rs", "mod a; mod b; mod c;"),
    ("a.rs", "pub struct A { x: u8, y: u8 } impl A {} use crate::b::B;"),
    ("b.rs", "pub struct B; impl crate::a::A { fn b() {} }"),
    ("c.rs", "pub struct C;"),
];

fn with(changed: &'static str, text: &'static str) -> [(&'static str, &'static str); 4] {
    AS_LISTED.map(|(name, old)| if name == changed { (name, text) } else { (name, old) })
}

fn problems_of(files: &[(&str, &str)], list: &str) -> Vec<String> {
    let rules = rules(RULES);
    problems(&check(&[tree(files)], &rules), &toml::from_str(list).expect("a list"), &rules)
}

/// Returns the entry that a problem gives to paste.
fn entry(problem: &str) -> &str {
    problem.split_once("\n\n").expect("a sentence and an entry").1
}

#[test]
fn violations_as_listed_pass() {
    assert_eq!(problems_of(&AS_LISTED, LIST), [""; 0]);
}

#[test]
fn each_violation_that_is_not_listed_is_reported_with_the_entry_that_allows_it() {
    let found = problems_of(&AS_LISTED, "");
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|problem| problem.contains("has no entry")), "{found:?}");
    let pasted: String = found.iter().map(|problem| entry(problem).to_owned() + "\n").collect();
    assert_eq!(problems_of(&AS_LISTED, &pasted), [""; 0]);
    let (pasted, list): (Violations, Violations) =
        (toml::from_str(&pasted).expect("TOML"), toml::from_str(LIST).expect("TOML"));
    assert_eq!(toml::to_string(&pasted), toml::to_string(&list));
}

#[test]
fn a_module_that_joins_a_circle_is_reported_with_its_uses() {
    let mut files = with("b.rs", "pub struct B; impl crate::a::A { fn b() {} } fn f() { super::c::g() }");
    assert_eq!(problems_of(&files, LIST).len(), 1, "against the order, but c is in no circle yet");
    files[3].1 = "pub fn g() {} use crate::b::B;";
    let found = problems_of(&files, LIST);
    assert_eq!(found.len(), 2);
    assert!(found[0].contains("worse than allowed.toml allows"), "{}", found[0]);
    assert!(found[0].contains("b -> c: b.rs has `super::c::g`"), "{}", found[0]);
    assert!(found[0].contains("c -> b: c.rs has `crate::b::B`"), "{}", found[0]);
    assert!(!found[0].contains("a -> b"), "what is listed is not to blame: {}", found[0]);
    assert!(found[1].contains("`crate::b` uses modules that the order"), "{}", found[1]);
}

#[test]
fn the_one_use_that_closes_a_circle_is_reported_alone() {
    let files = [
        ("lib.rs", "mod a; mod time; mod user; mod clock;"),
        ("a.rs", ""),
        ("clock.rs", "use crate::time::Nanos;"),
        ("time.rs", "fn f() { crate::user::now() }"),
        ("user.rs", "use crate::time::Nanos; use crate::clock::Clock;"),
    ];
    let found = problems_of(&files, "");
    assert!(found[0].contains("time -> user: time.rs has `crate::user::now`"), "{}", found[0]);
    assert_eq!(found[0].matches(" -> ").count(), 1, "{}", found[0]);
}

#[test]
fn a_use_of_one_more_later_module_is_reported() {
    let text = "pub struct A { x: u8, y: u8 } impl A {} use crate::b::B; use crate::c::C;";
    let found = problems_of(&with("a.rs", text), LIST);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("a -> c: a.rs has `crate::c::C`"), "{}", found[0]);
    assert!(!found[0].contains("a -> b"), "{}", found[0]);
}

#[test]
fn one_more_file_and_one_more_field_are_reported() {
    let found = problems_of(&with("c.rs", "impl crate::a::A { fn c() {} }"), LIST);
    assert!(found[0].contains("worse") && found[0].contains("files = 3"), "{found:?}");
    let text = "pub struct A { x: u8, y: u8, z: u8 } impl A {} use crate::b::B;";
    let found = problems_of(&with("a.rs", text), LIST);
    assert!(found[0].contains("worse") && found[0].contains("fields = 3"), "{found:?}");
}

#[test]
fn a_list_that_allows_too_much_is_reported_with_the_smaller_entry() {
    let list = LIST.replace(r#"["a", "b"]"#, r#"["a", "b", "c"]"#);
    let list = list.replace(r#"["b"]"#, r#"["b", "c"]"#).replace("= 2", "= 3");
    let found = problems_of(&AS_LISTED, &list);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|problem| problem.contains("Replace")), "{found:?}");
    let pasted: String = found.iter().map(|problem| entry(problem).to_owned() + "\n").collect();
    assert_eq!(problems_of(&AS_LISTED, &pasted), [""; 0]);
}

#[test]
fn an_entry_for_what_is_fixed_is_reported() {
    let fixed = [("lib.rs", "mod a; mod b; mod c;"), ("a.rs", ""), ("b.rs", ""), ("c.rs", "")];
    let found = problems_of(&fixed, LIST);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|problem| problem.contains("Delete from allowed.toml")), "{found:?}");
}

#[test]
fn a_circle_that_falls_into_two_is_better_and_two_that_become_one_are_worse() {
    let four = |c: &'static str| {
        [
            ("lib.rs", "mod p; mod q; mod r; mod s; mod a;"),
            ("a.rs", ""),
            ("p.rs", "use crate::q::Q;"),
            ("q.rs", c),
            ("r.rs", "use crate::s::S;"),
            ("s.rs", "use crate::r::R; use crate::p::P;"),
        ]
    };
    let circle =
        |modules: &str| format!("[[circle]]\ncrate = \"example\"\nfolder = \"crate\"\nmodules = {modules}\n");
    let one = circle(r#"["p", "q", "r", "s"]"#);
    let two = circle(r#"["p", "q"]"#) + &circle(r#"["r", "s"]"#);
    let (apart, together) = (four("use crate::p::P;"), four("use crate::p::P; use crate::r::R;"));
    assert_eq!(problems_of(&apart, &two), [""; 0]);
    assert_eq!(problems_of(&together, &one), [""; 0]);
    assert!(problems_of(&apart, &one)[0].contains("Replace"));
    assert!(problems_of(&together, &two)[0].contains("worse"));
}

#[test]
#[should_panic(expected = "two entries for `crate::a::A`")]
fn two_entries_for_one_type_are_an_error() {
    let twice = format!("{LIST}[[wide_struct]]\ncrate = \"example\"\nstruct = \"crate::a::A\"\nfields = 3\n");
    problems_of(&AS_LISTED, &twice);
}
