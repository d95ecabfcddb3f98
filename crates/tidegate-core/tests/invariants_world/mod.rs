//! Large random worlds, run against the engine while a plain ledger of every grant, refund and debt is kept
//! beside it. The ledger knows the definitions of the limits and nothing of how the engine counts.

mod ledger;
mod plan;
mod run;

pub use plan::{Kind, Plan};
pub use run::{Entry, run};
