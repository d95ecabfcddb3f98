//! What counts as a use. In most examples `b` uses `a`, and the question is whether `a` uses `b`.

use super::circles;

const ROOT: &str = "mod a; mod b;";
const B: &str = "pub struct B; pub fn g() {} pub fn back() -> crate::a::A { crate::a::A }";

#[track_caller]
fn assert_used(root: &str, a: &str) {
    let a = format!("pub struct A; {a}");
    assert_eq!(circles(&[("lib.rs", root), ("a.rs", &a), ("b.rs", B)]), ["crate: a b"]);
}

#[track_caller]
fn assert_unused(root: &str, a: &str) {
    let a = format!("pub struct A; {a}");
    assert!(circles(&[("lib.rs", root), ("a.rs", &a), ("b.rs", B)]).is_empty());
}

#[test]
fn an_import_is_a_use() {
    assert_used(ROOT, "use crate::b::B;");
    assert_used(ROOT, "use super::b::{self};");
    assert_used(ROOT, "use crate::{b::{g as h, B}};");
    assert_unused(ROOT, "use std::fmt::Write;");
}

#[test]
fn a_path_in_a_body_or_a_type_is_a_use() {
    assert_used(ROOT, "fn f() { crate::b::g() }");
    assert_used(ROOT, "struct S { field: Vec<super::b::B> }");
    assert_used(ROOT, "impl From<crate::b::B> for A { fn from(_: crate::b::B) -> A { A } }");
    assert_used(ROOT, "fn f(x: A) { match x { crate::b::B => {} } }");
    assert_unused(ROOT, "fn f() { std::b::g() } fn g() { ::b::g() }");
}

#[test]
fn an_item_that_the_root_re_exports_belongs_to_the_module_that_defines_it() {
    let root = "mod a; mod b; pub use b::B; pub use self::b::g as renamed;";
    assert_used(root, "use crate::B;");
    assert_used(root, "fn f() { super::renamed() }");
    assert_unused(root, "use crate::a::A as Other;");
}

#[test]
fn an_import_of_the_parent_that_is_not_public_is_followed_too() {
    assert_used("mod a; mod b; use b::B;", "use super::B;");
}

#[test]
fn an_item_of_the_parent_is_no_use_of_its_children() {
    assert_unused("mod a; mod b; pub struct B; pub fn g() {}", "use super::B; fn f() { crate::g() }");
}

#[test]
fn a_re_export_by_another_module_is_a_use_of_both() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub struct A; use crate::c::B;"),
        ("b.rs", "pub struct B; use crate::a::A;"),
        ("c.rs", "pub use crate::b::B; use crate::a::A;"),
    ];
    assert_eq!(circles(&files), ["crate: a b c"]);
}

#[test]
fn super_goes_up_one_module_each() {
    let files = |path: &'static str| {
        [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub mod deep;"),
            ("a/deep.rs", path),
            ("b.rs", "use crate::a::deep::D;"),
        ]
    };
    assert_eq!(circles(&files("pub struct D; use super::super::b::B;")), ["crate: a b"]);
    assert!(circles(&files("pub struct D; use super::b::B; mod b { pub struct B; }")).is_empty());
}

#[test]
fn a_renamed_module_is_followed() {
    assert_used(ROOT, "use crate as all; fn f() { all::b::g() }");
    assert_used("mod a; mod b; pub use b as other;", "use crate::other::B as Renamed;");
    assert_used("mod a; mod b; use b as other;", "fn f() { crate::other::g() }");
}

#[test]
fn a_name_from_a_glob_is_followed() {
    let root = "mod a; mod b; pub use b::*;";
    assert_used(ROOT, "use super::b::*;");
    assert_used(root, "use crate::*; fn f() { g() }");
    assert_used(root, "use crate::B;");
    assert_unused(root, "use crate::*; fn f(g: u8) -> u8 { g }");
    assert_unused(root, "use crate::*; fn g() {} fn f() { g() }");
}

#[test]
fn globs_of_each_other_come_to_an_end() {
    let root = "mod a; mod b; pub use a::*; pub use b::*;";
    assert_unused(root, "pub use crate::*; fn f() { unknown() }");
    assert_used(root, "pub use crate::*; fn f() { g() }");
}

#[test]
fn a_path_in_a_macro_is_a_use() {
    assert_used(ROOT, r#"fn f() { println!("{}", crate::b::g()) }"#);
    assert_used(ROOT, "fn f(x: A) -> bool { matches!(x, crate::b::B | A if true) }");
    assert_used(ROOT, "macro_rules! m { ($x:expr) => { $crate::b::g($x) } }");
    assert_used(ROOT, "pin_project! { struct S { #[pin] field: crate::b::B } }");
    assert_unused(ROOT, "macro_rules! m { ($x:ident) => { ::b::g(x.b) } }");
}

#[test]
fn a_struct_in_a_macro_is_an_item_of_its_module() {
    let b = "pin_project! { pub struct B { #[pin] field: u8 } } use crate::a::A;";
    let files =
        [("lib.rs", "mod a; mod b; pub use b::*;"), ("a.rs", "pub struct A; use crate::B;"), ("b.rs", b)];
    assert_eq!(circles(&files), ["crate: a b"]);
}

#[test]
fn a_name_that_a_macro_makes_belongs_to_the_module_that_the_path_reaches() {
    assert_used(ROOT, "use crate::b::MadeByMacro;");
    assert_used("mod a; mod b; pub use b::MadeByMacro;", "use crate::MadeByMacro;");
}

#[test]
fn a_function_and_a_module_of_one_name_are_reported_apart() {
    assert_unused("mod a; mod b; pub fn b() {}", "fn f() { crate::b() }");
    assert_used("mod a; mod b; pub fn b() {}", "fn f() { crate::b::g() }");
    assert_used("mod a; mod b; use b::g as b;", "use super::b;");
    assert_used("mod a; mod b; pub fn b() {}", "use super::b; fn f() { b::g() }");
    assert_unused("mod a; mod b; pub fn b() {}", "use super::b; fn f() { b() }");
}

#[test]
fn another_crate_of_the_name_of_a_module_is_not_the_module() {
    assert_unused(ROOT, "use b::B; fn f() { b::g() }");
    assert_unused(ROOT, "use crate::*; use ::b::B; macro_rules! m { () => { ::b::g() } }");
    assert_used(ROOT, "use super::b; fn f() { b::g() }");
}

#[test]
fn a_block_has_names_of_its_own() {
    assert_used(ROOT, "fn f() { use super::b; b::g() }");
    assert_unused("mod a; mod b; pub use b::*;", "use crate::*; fn f() { fn g() {} g() }");
    assert_unused(ROOT, "fn f() { use std::fmt as b; b::format() }");
}

#[test]
fn code_for_tests_is_free() {
    assert_unused(ROOT, "#[cfg(test)] mod tests { use crate::b::B; }");
    assert_unused(ROOT, "#[cfg(test)] use crate::b::B;");
    assert_unused(ROOT, "#[cfg(all(test, unix))] fn f() { crate::b::g() }");
    assert_unused(ROOT, "#[test] fn f() { crate::b::g() }");
    assert_unused(ROOT, "impl A { #[cfg(test)] fn f() { crate::b::g() } }");
    assert_unused(ROOT, "fn f() { #[cfg(test)] crate::b::g(); #[cfg(test)] let x = crate::b::B; }");
    assert_unused(ROOT, "struct S { #[cfg(test)] field: crate::b::B }");
    assert_used(ROOT, "#[cfg(not(test))] fn f() { crate::b::g() }");
    assert_used(ROOT, "#[cfg(any(test, unix))] fn f() { crate::b::g() }");
}

#[test]
fn modules_in_a_file_and_in_files_of_their_own_are_alike() {
    let inline = "mod a { pub struct A; use super::b::B; } mod b { pub struct B; use crate::a::A; }";
    assert_eq!(circles(&[("lib.rs", inline)]), ["crate: a b"]);
    let files = [("lib.rs", ROOT), ("a/mod.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")];
    assert_eq!(circles(&files), ["crate: a b"]);
}

#[test]
fn a_circle_in_a_folder_is_one_of_the_folder_only() {
    let files = [
        ("lib.rs", "mod outer; mod other;"),
        ("other.rs", "use crate::outer::Shared;"),
        ("outer/mod.rs", "mod a; mod b; mod c; pub struct Shared;"),
        ("outer/a.rs", "use super::b::B; use super::Shared;"),
        ("outer/b/mod.rs", "mod deep; pub struct B;"),
        ("outer/b/deep.rs", "use super::super::a::A;"),
        ("outer/c.rs", "use super::a::A;"),
    ];
    assert_eq!(circles(&files), ["crate::outer: a b"]);
}

#[test]
fn a_circle_holds_all_modules_on_the_way_round() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::a::A; use crate::d::D;"),
        ("d.rs", "use crate::e::E;"),
        ("e.rs", "pub struct E;"),
    ];
    assert_eq!(circles(&files), ["crate: a b c"]);
}
