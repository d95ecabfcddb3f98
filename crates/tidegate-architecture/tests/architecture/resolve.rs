//! What a path leads to. A path is followed through imports and re-exports to the module that defines its item.
//!
//! Two rules of the language keep this short. A name in the middle of a path is a module or a type, so a function of
//! the same name is passed over; and behind a type only its own items come, so the walk ends at the type. A name that
//! no module defines was made by a macro; it counts as an item of the module that the path has reached.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::tree::{Import, ModuleId, Tree};

/// A use of one module by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    pub from: ModuleId,
    pub to: ModuleId,
    pub file: PathBuf,
    /// The path as it is written.
    pub path: String,
}

/// What stands at the end of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Module(ModuleId),
    Item(ModuleId, String),
}

#[derive(Clone)]
struct Found {
    place: Place,
    /// The modules whose imports and re-exports the path goes through.
    through: BTreeSet<ModuleId>,
}

/// The imports that are being followed, as their module and their index. None is followed twice.
type Trail = Vec<(ModuleId, usize)>;

impl Tree {
    /// Returns every use of a module by another: of the one that defines the item, and of each that re-exports it.
    pub fn uses(&self) -> BTreeSet<Use> {
        let mut uses = BTreeSet::new();
        for (from, module) in self.modules.iter().enumerate() {
            for mention in &module.mentions {
                if self.is_imported_item(from, &mention.path[0]) {
                    continue; // The `use` of that name counts already.
                }
                for found in end(self.follow(from, &mention.path, &mut Trail::new())) {
                    let (Place::Module(owner) | Place::Item(owner, _)) = found.place;
                    let targets = found.through.into_iter().chain([owner]).filter(|&to| to != from);
                    uses.extend(targets.map(|to| Use {
                        from,
                        to,
                        file: mention.file.clone(),
                        path: mention.path.join("::").trim_end_matches("::self").to_owned(),
                    }));
                }
            }
        }
        uses
    }

    /// Returns the module and the name of the type of this crate that a path in `at` names.
    pub fn type_at(&self, at: ModuleId, path: &[String]) -> Option<(ModuleId, String)> {
        self.follow(at, path, &mut Trail::new()).into_iter().find_map(|found| match found.place {
            Place::Item(owner, name) => Some((owner, name)),
            Place::Module(_) => None,
        })
    }

    /// Returns whether a `use` in `module` gives it the name, and for an item only.
    fn is_imported_item(&self, module: ModuleId, name: &str) -> bool {
        let is_imported =
            self.modules[module].imports.iter().any(|import| import.name.as_deref() == Some(name));
        let found = || self.look_up(module, name, module, &mut Trail::new());
        is_imported && found().iter().all(|found| matches!(found.place, Place::Item(..)))
    }

    /// Returns whether `module` is `ancestor` or lies below it.
    fn is_within(&self, module: ModuleId, ancestor: ModuleId) -> bool {
        self.modules[module].path.starts_with(&self.modules[ancestor].path)
    }

    /// Returns all that a path stands for that is written in `at`, or nothing if it leads out of the crate.
    fn follow(&self, at: ModuleId, path: &[String], trail: &mut Trail) -> Vec<Found> {
        let start = |module| Some(Found { place: Place::Module(module), through: BTreeSet::new() });
        let mut reached = match path[0].as_str() {
            "crate" => start(0),
            "self" => start(at),
            "super" => self.modules[at].parent.and_then(start),
            name => {
                let found = self.look_up(at, name, at, trail);
                if path.len() == 1 {
                    return found;
                }
                middle(found)
            }
        };
        for (index, name) in path.iter().enumerate().skip(1) {
            let Some(Found { place: Place::Module(module), through }) = &reached else { break };
            let (module, through) = (*module, through.clone());
            if name == "self" || name == "*" {
                break;
            }
            if name == "super" {
                reached = self.modules[module].parent.and_then(start);
                continue;
            }
            let mut found = self.look_up(module, name, at, trail);
            if found.is_empty() {
                found.push(Found { place: Place::Item(module, name.clone()), through: BTreeSet::new() });
            }
            found.iter_mut().for_each(|found| found.through.extend(&through));
            if index + 1 == path.len() {
                return found;
            }
            reached = middle(found);
        }
        reached.into_iter().collect()
    }

    /// Returns all that `name` stands for in `module`, as `viewer` sees it.
    fn look_up(&self, module: ModuleId, name: &str, viewer: ModuleId, trail: &mut Trail) -> Vec<Found> {
        let here = &self.modules[module];
        let child = here.children.get(name).map(|&child| Place::Module(child));
        let item = here.items.contains(name).then(|| Place::Item(module, name.to_owned()));
        let mut found: Vec<Found> =
            child.into_iter().chain(item).map(|place| Found { place, through: BTreeSet::new() }).collect();
        for (index, import) in self.imports_seen(module, viewer) {
            if import.name.as_deref() == Some(name) && !trail.contains(&(module, index)) {
                trail.push((module, index));
                found.extend(through(module, self.follow(module, &import.path, trail)));
                trail.pop();
            }
        }
        // What a module names itself hides what a `*` brings.
        if found.is_empty() {
            for (index, import) in self.imports_seen(module, viewer) {
                if import.name.is_none() && !trail.contains(&(module, index)) {
                    trail.push((module, index));
                    for source in self.follow(module, &import.path, trail) {
                        if let Place::Module(source) = source.place {
                            found.extend(through(module, self.look_up(source, name, module, trail)));
                        }
                    }
                    trail.pop();
                }
            }
        }
        found
    }

    fn imports_seen(&self, module: ModuleId, viewer: ModuleId) -> impl Iterator<Item = (usize, &Import)> {
        let is_inside = self.is_within(viewer, module);
        let imports = self.modules[module].imports.iter().enumerate();
        imports.filter(move |(_, import)| is_inside || !import.private)
    }
}

fn through(module: ModuleId, mut found: Vec<Found>) -> Vec<Found> {
    found.iter_mut().for_each(|found| found.through.extend([module]));
    found
}

/// Chooses what a name in the middle of a path stands for: a module if there is one.
fn middle(found: Vec<Found>) -> Option<Found> {
    let module = found.iter().find(|found| matches!(found.place, Place::Module(_))).cloned();
    module.or_else(|| found.into_iter().next())
}

/// Chooses what the last name of a path stands for: items if there are any.
fn end(found: Vec<Found>) -> Vec<Found> {
    let (items, modules): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| matches!(found.place, Place::Item(..)));
    if items.is_empty() { modules } else { items }
}
