//! The other rules: order, spread types, wide structs.

use super::{check, findings, rules, tree};

const ORDERED: &str = r#"
max_files = 3
max_fields = 15
[[order]]
crate = "example"
folder = "crate"
modules = ["model", "limits", "engine"]
"#;

fn against_order(files: &[(&str, &str)]) -> Vec<String> {
    let found = check(&[tree(files)], &rules(ORDERED)).violations.against_order.into_iter();
    found.map(|entry| format!("{} uses {}", entry.module, Vec::from_iter(entry.uses).join(" "))).collect()
}

#[test]
fn a_use_of_a_later_module_is_against_the_order() {
    let files = [
        ("lib.rs", "mod model; mod limits; mod engine; pub use engine::Engine;"),
        ("model.rs", "use crate::Engine; use crate::limits::Limit;"),
        ("limits.rs", "use crate::model::Id; fn f() { crate::engine::run() }"),
        ("engine.rs", "pub struct Engine; use crate::limits::Limit; use crate::model::Id;"),
    ];
    assert_eq!(against_order(&files), ["crate::model uses engine limits", "crate::limits uses engine"]);
}

#[test]
fn modules_that_the_order_does_not_name_are_free() {
    let files = [
        ("lib.rs", "mod model; mod engine; mod other;"),
        ("model.rs", "use crate::other::Other;"),
        ("engine.rs", "use crate::other::Other;"),
        ("other.rs", "pub struct Other; use crate::engine::Engine;"),
    ];
    assert!(against_order(&files).is_empty());
}

#[test]
fn an_order_for_a_folder_that_is_not_there_is_reported() {
    let found = check(&[tree(&[("lib.rs", "pub struct Alone;")])], &rules(ORDERED));
    assert_eq!(found.unused_rules.len(), 1, "{:?}", found.unused_rules);
}

fn spread_types(files: &[(&str, &str)]) -> Vec<String> {
    let found = findings(files).violations.spread_type.into_iter();
    found.map(|entry| format!("{} {}", entry.name, entry.files)).collect()
}

#[test]
fn impl_blocks_in_four_files_are_a_spread_type() {
    let mut files = vec![
        ("lib.rs", "mod a; mod b; mod c; mod d; pub use a::A;"),
        ("a.rs", "#[derive(Clone)] pub struct A; impl A {} impl Drop for A { fn drop(&mut self) {} }"),
        ("b.rs", "use crate::A as Renamed; impl Renamed { fn b(&self) {} }"),
        ("c.rs", "impl std::fmt::Display for crate::a::A {}"),
        ("d.rs", "use super::*; impl<'a> From<&'a A> for u8 {}"),
    ];
    assert!(spread_types(&files).is_empty());
    files[4].1 = "use super::*; impl<'a> IntoIterator for &'a A {}";
    assert_eq!(spread_types(&files), ["crate::a::A 4"]);
    files[4].1 = "use super::*; #[cfg(test)] mod tests { impl super::A {} } #[cfg(test)] impl A {}";
    assert!(spread_types(&files).is_empty());
    files[4].1 = "pub struct A; impl A {} fn f() { struct A; impl A {} }";
    assert!(spread_types(&files).is_empty());
}

fn fields(count: usize) -> String {
    (0..count).map(|index| format!("field_{index}: u8,")).collect()
}

#[test]
fn a_struct_of_sixteen_fields_is_wide() {
    let text = format!(
        "pub struct Narrow {{ {} #[cfg(test)] seen: u8 }} mod a {{ struct Wide {{ {} }} }}",
        fields(15),
        fields(16)
    );
    let found = findings(&[("lib.rs", &text)]).violations.wide_struct;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].name.as_str(), found[0].fields), ("crate::a::Wide", 16));
}

#[test]
fn an_excepted_struct_has_as_many_fields_as_it_needs() {
    let excepted = rules(
        r#"
max_files = 3
max_fields = 15
[[exception]]
crate = "example"
struct = "crate::Config"
why = "it mirrors the file"
"#,
    );
    let wide = format!("pub struct Config {{ {} }}", fields(30));
    let found = check(&[tree(&[("lib.rs", &wide)])], &excepted);
    assert!(found.violations.wide_struct.is_empty() && found.unused_rules.is_empty());
    let found = check(&[tree(&[("lib.rs", "pub struct Config;")])], &excepted);
    assert_eq!(found.unused_rules.len(), 1, "an exception without need is reported");
}
