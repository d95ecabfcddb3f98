//! The comparison with `allowed.toml`, the list of the violations that the sources still have.
//!
//! A violation that is not on the list, or is worse than there, is a problem. So is an entry for a violation that is
//! gone or has become smaller: the list shrinks in the commit that fixes the code. Each problem is a text with what to
//! do and the entry to paste.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::rules::{Findings, Rules};
use crate::violations::{AgainstOrder, Circle, SpreadType, Subject, Violations, WideStruct};

/// The most lines about the sources in the text of one problem.
const SHOWN: usize = 20;

/// Returns a problem for each difference between what was found and the list.
pub fn problems(findings: &Findings, listed: &Violations, rules: &Rules) -> Vec<String> {
    let found = &findings.violations;
    let mut all = findings.unused_rules.clone();
    all.extend(compare(&Circles(findings), &found.circles(), &listed.circles()));
    all.extend(compare(&Ordered(findings), &found.against_order(), &listed.against_order()));
    all.extend(compare(&Spread(findings, rules), &found.spread_types(), &listed.spread_types()));
    all.extend(compare(&Wide(rules), &found.wide_structs(), &listed.wide_structs()));
    all
}

/// How violations of one rule are compared and described.
trait Kind {
    type Value: PartialEq;

    /// Returns whether what was found is not worse than what is listed.
    fn fits(found: &Self::Value, listed: &Self::Value) -> bool;
    /// Returns a clause that says what is wrong.
    fn fact(&self, name: &str, value: &Self::Value) -> String;
    /// Returns a sentence that says what to do.
    fn advice(&self) -> String;
    /// Returns the places in the sources that are not as listed.
    fn lines(&self, subject: &Subject, found: &Self::Value, listed: Option<&Self::Value>) -> Vec<String>;
    /// Returns the violation as `allowed.toml` lists it.
    fn entries(package: String, name: String, value: &Self::Value) -> Violations;
}

fn compare<K: Kind>(
    kind: &K,
    found: &BTreeMap<Subject, K::Value>,
    listed: &BTreeMap<Subject, K::Value>,
) -> Vec<String> {
    let subjects: BTreeSet<&Subject> = found.keys().chain(listed.keys()).collect();
    let pairs = subjects.into_iter().map(|subject| (subject, found.get(subject), listed.get(subject)));
    pairs.filter_map(|(subject, found, listed)| problem(kind, subject, found, listed)).collect()
}

fn problem<K: Kind>(
    kind: &K,
    subject: &Subject,
    found: Option<&K::Value>,
    listed: Option<&K::Value>,
) -> Option<String> {
    let (package, name) = subject;
    let entry = |value| {
        let entries = K::entries(package.clone(), name.clone(), value);
        toml::to_string_pretty(&entries).expect("TOML")
    };
    if found == listed {
        return None;
    }
    let Some(found) = found else {
        let listed = listed?;
        let fact = kind.fact(name, listed);
        return Some(format!(
            "In {package}, it is no longer true that {fact}. Delete from allowed.toml:\n\n{}",
            entry(listed)
        ));
    };
    let fact = kind.fact(name, found);
    let than_listed = match listed {
        Some(listed) if K::fits(found, listed) => {
            return Some(format!(
                "In {package}, {fact}, and allowed.toml allows more than that. Replace what it lists by:\n\n{}",
                entry(found)
            ));
        }
        Some(_) => "this is worse than allowed.toml allows",
        None => "allowed.toml has no entry for it",
    };
    let mut text = format!("In {package}, {fact}, and {than_listed}. {}\n", kind.advice());
    let lines = kind.lines(subject, found, listed);
    for line in lines.iter().take(SHOWN) {
        let _ = writeln!(text, "  {line}");
    }
    if lines.len() > SHOWN {
        let _ = writeln!(text, "  and {} more", lines.len() - SHOWN);
    }
    let _ = write!(text, "If that has to wait, allowed.toml must list this:\n\n{}", entry(found));
    Some(text)
}

/// Circles, by folder.
struct Circles<'a>(&'a Findings);

impl Kind for Circles<'_> {
    type Value = BTreeSet<BTreeSet<String>>;

    fn fits(found: &Self::Value, listed: &Self::Value) -> bool {
        found.iter().all(|circle| listed.iter().any(|wider| circle.is_subset(wider)))
    }

    fn fact(&self, name: &str, _: &Self::Value) -> String {
        format!("modules of `{name}` use each other in a circle")
    }

    fn advice(&self) -> String {
        "Remove one of these uses, so that the modules depend in one direction:".into()
    }

    /// Returns the uses of which each makes the difference alone. If there is none, returns all that join a module to a
    /// listed circle or make a new one.
    fn lines(&self, subject: &Subject, found: &Self::Value, listed: Option<&Self::Value>) -> Vec<String> {
        let nothing = BTreeSet::new();
        let listed = listed.unwrap_or(&nothing);
        let folder = &self.0.folders[subject];
        let mut suspects = Vec::new();
        for circle in found {
            let common = |other: &&BTreeSet<String>| other.intersection(circle).count();
            let old = listed.iter().max_by_key(common).cloned().unwrap_or_default();
            suspects.extend(folder.uses.keys().filter(|(user, target)| {
                let is_new = !old.contains(user) || !old.contains(target);
                is_new && circle.contains(user) && circle.contains(target)
            }));
        }
        let makes_the_difference = |suspect: &&&(String, String)| {
            let mut rest = folder.clone();
            rest.uses.remove(**suspect);
            Self::fits(&rest.circles(), listed)
        };
        let guilty: Vec<_> = suspects.iter().filter(makes_the_difference).copied().collect();
        let shown = if guilty.is_empty() { suspects } else { guilty };
        shown.iter().flat_map(|(user, target)| folder.lines(user, target)).collect()
    }

    fn entries(package: String, folder: String, circles: &Self::Value) -> Violations {
        let circle = circles.iter().cloned().map(|modules| Circle {
            package: package.clone(),
            folder: folder.clone(),
            modules,
        });
        Violations { circle: circle.collect(), ..Violations::default() }
    }
}

/// Uses against the order, by module.
struct Ordered<'a>(&'a Findings);

impl Kind for Ordered<'_> {
    type Value = BTreeSet<String>;

    fn fits(found: &Self::Value, listed: &Self::Value) -> bool {
        found.is_subset(listed)
    }

    fn fact(&self, name: &str, _: &Self::Value) -> String {
        format!("`{name}` uses modules that the order in rules.toml puts after it")
    }

    fn advice(&self) -> String {
        "Move what it needs to a module before it, or return an effect in place of the call:".into()
    }

    fn lines(&self, subject: &Subject, found: &Self::Value, listed: Option<&Self::Value>) -> Vec<String> {
        let (package, module) = subject;
        let (folder, user) = module.rsplit_once("::").expect("a module in a folder");
        let folder = &self.0.folders[&(package.clone(), folder.to_owned())];
        let new = found.iter().filter(|target| !listed.is_some_and(|listed| listed.contains(*target)));
        new.flat_map(|target| folder.lines(user, target)).collect()
    }

    fn entries(package: String, module: String, uses: &Self::Value) -> Violations {
        let entry = AgainstOrder { package, module, uses: uses.clone() };
        Violations { against_order: vec![entry], ..Violations::default() }
    }
}

/// Types whose `impl` blocks stand in many files.
struct Spread<'a>(&'a Findings, &'a Rules);

impl Kind for Spread<'_> {
    type Value = usize;

    fn fits(found: &usize, listed: &usize) -> bool {
        found <= listed
    }

    fn fact(&self, name: &str, files: &usize) -> String {
        format!("the `impl` blocks of `{name}` stand in {files} files")
    }

    fn advice(&self) -> String {
        format!("Put them into at most {} of these files, or split the type:", self.1.max_files)
    }

    fn lines(&self, subject: &Subject, _: &usize, _: Option<&usize>) -> Vec<String> {
        self.0.files[subject].iter().map(|file| file.display().to_string()).collect()
    }

    fn entries(package: String, name: String, files: &usize) -> Violations {
        let entry = SpreadType { package, name, files: *files };
        Violations { spread_type: vec![entry], ..Violations::default() }
    }
}

/// Structs of many fields.
struct Wide<'a>(&'a Rules);

impl Kind for Wide<'_> {
    type Value = usize;

    fn fits(found: &usize, listed: &usize) -> bool {
        found <= listed
    }

    fn fact(&self, name: &str, fields: &usize) -> String {
        format!("`{name}` has {fields} fields")
    }

    fn advice(&self) -> String {
        format!(
            "Group them into structs of at most {} fields. A config model or a wire format may be an exception in \
             rules.toml.",
            self.0.max_fields
        )
    }

    fn lines(&self, _: &Subject, _: &usize, _: Option<&usize>) -> Vec<String> {
        Vec::new()
    }

    fn entries(package: String, name: String, fields: &usize) -> Violations {
        let entry = WideStruct { package, name, fields: *fields };
        Violations { wide_struct: vec![entry], ..Violations::default() }
    }
}
