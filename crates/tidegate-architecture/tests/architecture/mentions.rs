//! The paths in an item: in its types, its bodies, its patterns and what it gives to macros. Names that a block
//! imports are replaced by what they stand for; names that it defines, and its variables, are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Item, Stmt, Token, Type};

use crate::syntax::{imports_of, is_test, name_of, text_of};
use crate::tree::{Mention, Module};

/// Reads the items of one module in one file.
pub struct Mentions<'m> {
    module: &'m mut Module,
    file: &'m Path,
    /// For each block around the code, the names that it imports (with their path) and defines (without one).
    blocks: Vec<BTreeMap<String, Vec<String>>>,
    /// The variables of the function so far. They hide what a `*` imports.
    variables: BTreeSet<String>,
}

impl<'m> Mentions<'m> {
    pub fn of(module: &'m mut Module, file: &'m Path) -> Self {
        Mentions { module, file, blocks: Vec::new(), variables: BTreeSet::new() }
    }

    /// Adds to the module what the item mentions, implements, and has as fields.
    pub fn read(&mut self, item: &Item) {
        self.visit_item(item);
    }

    fn mention(&mut self, path: Vec<String>) {
        if let Some(mention) = self.outside_of_blocks(path) {
            self.module.mentions.insert(mention);
        }
    }

    /// Returns the path as it would be written outside of all blocks, or nothing if a block defines its first name.
    fn outside_of_blocks(&self, mut path: Vec<String>) -> Option<Mention> {
        for block in self.blocks.iter().rev() {
            match block.get(&path[0]) {
                Some(imported) if imported.is_empty() => return None,
                Some(imported) => drop(path.splice(0..1, imported.iter().cloned())),
                None => {}
            }
        }
        Some(Mention { path, file: self.file.to_owned() })
    }

    /// Reads a function, which has its own variables.
    fn function(&mut self, read: impl FnOnce(&mut Self)) {
        let outer = mem::take(&mut self.variables);
        read(self);
        self.variables = outer;
    }

    /// Reads what is given to a macro: as expressions, as statements, or else as bare tokens.
    fn tokens(&mut self, tokens: &TokenStream) {
        if let Ok(all) = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens.clone()) {
            all.iter().for_each(|expression| self.visit_expr(expression));
        } else if let Ok(all) = Block::parse_within.parse2(tokens.clone()) {
            all.iter().for_each(|statement| self.visit_stmt(statement));
        } else {
            self.bare_tokens(tokens);
        }
    }

    /// Mentions each run of names with `::` between them. A single name may be anything, a field for example.
    fn bare_tokens(&mut self, tokens: &TokenStream) {
        let mut run: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens.clone() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_of_run(&mut run);
                    }
                    // A `::` without a name before it starts a path into another crate.
                    if colons != 2 || !run.is_empty() {
                        run.push(text_of(&ident));
                    }
                }
                TokenTree::Group(group) => {
                    self.end_of_run(&mut run);
                    self.bare_tokens(&group.stream());
                }
                _ => self.end_of_run(&mut run),
            }
            colons = 0;
        }
        self.end_of_run(&mut run);
    }

    fn end_of_run(&mut self, run: &mut Vec<String>) {
        let run = mem::take(run);
        if run.len() > 1 && run[0] != "Self" {
            self.mention(run);
        }
    }
}

/// Visits a piece of syntax unless its attributes say that it is for tests only.
macro_rules! outside_tests {
    ($($visit:ident: $node:ident,)*) => {
        $(fn $visit(&mut self, node: &'ast syn::$node) {
            if !is_test(&node.attrs) {
                visit::$visit(self, node);
            }
        })*
    };
}

impl<'ast> Visit<'ast> for Mentions<'_> {
    outside_tests! {
        visit_item_const: ItemConst, visit_item_enum: ItemEnum, visit_item_static: ItemStatic,
        visit_item_trait: ItemTrait, visit_item_type: ItemType, visit_impl_item_const: ImplItemConst,
        visit_impl_item_type: ImplItemType, visit_trait_item_const: TraitItemConst,
        visit_trait_item_type: TraitItemType, visit_field: Field, visit_variant: Variant, visit_arm: Arm,
        visit_field_value: FieldValue, visit_local: Local, visit_stmt_macro: StmtMacro,
        visit_expr_block: ExprBlock, visit_expr_call: ExprCall, visit_expr_method_call: ExprMethodCall,
        visit_expr_macro: ExprMacro,
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        if !is_test(&node.attrs) {
            self.function(|reader| visit::visit_item_fn(reader, node));
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        if !is_test(&node.attrs) {
            self.function(|reader| visit::visit_impl_item_fn(reader, node));
        }
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if !is_test(&node.attrs) {
            self.function(|reader| visit::visit_trait_item_fn(reader, node));
        }
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        if is_test(&node.attrs) {
            return;
        }
        let implementor = named_type(&node.self_ty).and_then(|path| self.outside_of_blocks(path));
        self.module.impls.extend(implementor);
        visit::visit_item_impl(self, node);
    }

    fn visit_item_struct(&mut self, node: &'ast syn::ItemStruct) {
        if !is_test(&node.attrs) {
            let fields = node.fields.iter().filter(|field| !is_test(&field.attrs)).count();
            let known = self.module.structs.entry(text_of(&node.ident)).or_default();
            *known = fields.max(*known);
            visit::visit_item_struct(self, node);
        }
    }

    fn visit_item_use(&mut self, node: &'ast syn::ItemUse) {
        if !is_test(&node.attrs) {
            imports_of(node).into_iter().for_each(|import| self.mention(import.path));
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let mut names = BTreeMap::new();
        for statement in &block.stmts {
            match statement {
                Stmt::Item(Item::Use(item)) => names.extend(
                    imports_of(item).into_iter().filter_map(|import| Some((import.name?, import.path))),
                ),
                Stmt::Item(item) => names.extend(name_of(item).map(|name| (name, Vec::new()))),
                _ => {}
            }
        }
        self.blocks.push(names);
        visit::visit_block(self, block);
        self.blocks.pop();
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = text_of(&pattern.ident);
        // A pattern of one name is a variable, or a constant or variant by its capital.
        if name.starts_with(char::is_uppercase) {
            self.mention(vec![name]);
        } else {
            self.variables.insert(name);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| text_of(&segment.ident)).collect();
        let is_variable = names.len() == 1 && self.variables.contains(&names[0]);
        if path.leading_colon.is_none() && names[0] != "Self" && !is_variable {
            self.mention(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_item_macro(&mut self, node: &'ast syn::ItemMacro) {
        if is_test(&node.attrs) {
            return;
        }
        match &node.ident {
            // The body of `macro_rules!` is no syntax until it is expanded.
            Some(_) => self.bare_tokens(&node.mac.tokens),
            None => self.visit_macro(&node.mac),
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(&call.tokens);
    }

    /// Leaves attributes out: derives and lints are no uses of modules.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// Returns the path of a type that has one, also behind references.
fn named_type(of: &Type) -> Option<Vec<String>> {
    match of {
        Type::Path(of) if of.qself.is_none() && of.path.leading_colon.is_none() => {
            Some(of.path.segments.iter().map(|segment| text_of(&segment.ident)).collect())
        }
        Type::Reference(of) => named_type(&of.elem),
        Type::Paren(of) => named_type(&of.elem),
        Type::Group(of) => named_type(&of.elem),
        _ => None,
    }
}
