//! Routing: which limits a call passes.

pub(crate) mod adopt;
pub(crate) mod build;
pub(crate) mod define;
pub(crate) mod find;
pub(crate) mod layout;
pub(crate) mod loop_index;
pub(crate) mod loop_name;
pub(crate) mod loop_table;
pub(crate) mod loops;
pub(crate) mod names;
pub(crate) mod overlay;
pub(crate) mod retire;
pub(crate) mod route;
pub(crate) mod scope;
pub(crate) mod service;
pub(crate) mod state;
