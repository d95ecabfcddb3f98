//! Questions to single pieces of syntax.

use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Item, ItemUse, Meta, Token, UseTree, Visibility};

use crate::tree::Import;

/// Returns the imports of one `use`, except those from another crate by a leading `::`.
pub fn imports_of(item: &ItemUse) -> Vec<Import> {
    let mut imports = Vec::new();
    if item.leading_colon.is_none() {
        let private = matches!(item.vis, Visibility::Inherited);
        flatten(&item.tree, &mut Vec::new(), private, &mut imports);
    }
    imports
}

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, private: bool, imports: &mut Vec<Import>) {
    let (last, name) = match tree {
        UseTree::Path(path) => {
            prefix.push(text_of(&path.ident));
            flatten(&path.tree, prefix, private, imports);
            prefix.pop();
            return;
        }
        UseTree::Group(group) => {
            return group.items.iter().for_each(|item| flatten(item, prefix, private, imports));
        }
        UseTree::Glob(_) => ("*".to_owned(), None),
        UseTree::Name(name) if name.ident == "self" => ("self".to_owned(), prefix.last().cloned()),
        UseTree::Name(name) => (text_of(&name.ident), Some(text_of(&name.ident))),
        UseTree::Rename(rename) => (text_of(&rename.ident), Some(text_of(&rename.rename))),
    };
    let path = prefix.iter().cloned().chain([last]).collect();
    imports.push(Import { name, path, private });
}

/// Returns the name that an item defines, if it defines one.
pub fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(text_of(ident))
}

/// Returns the attributes of an item.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns whether the code is compiled for tests only: `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, …))]`.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = || attribute.parse_args::<Meta>().is_ok_and(|meta| needs_test(&meta));
        attribute.path().is_ident("test") || attribute.path().is_ident("cfg") && condition()
    })
}

fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|all| all.iter().any(needs_test)),
        _ => false,
    }
}

/// Returns the name without the `r#` of a raw identifier.
pub fn text_of(ident: &Ident) -> String {
    ident.unraw().to_string()
}
