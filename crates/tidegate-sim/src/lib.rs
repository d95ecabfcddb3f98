//! The real engine in virtual time.
//!
//! A [`Scenario`] says what is simulated: a config, the [upstreams](upstream) behind it, who calls, and what goes
//! wrong. [`simulate`] plays it through [`tidegate_core::Engine`], the same that runs in the library, event by
//! event, and checks at every event that the engine keeps its promises; [`prove`] plays it a second time as well,
//! to see that the same seed gives the same run. An hour takes as long as its events do.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_sim::{Options, Scenario, prove};
//!
//! let file = r#"
//!     [services.api]
//!     requests = "60/min"
//!
//!     [simulation]
//!     duration = "10m"
//!
//!     [[simulation.workload]]
//!     name = "agents"
//!     arrivals = { closed = 10, think = "1s" }
//! "#;
//! let scenario = Scenario::parse(file, "example", &|_| None, std::path::Path::new("."))?;
//! let report = prove(&scenario, 1, &Options::default())?;
//! assert_eq!(report.violation, None);
//! assert!(report.services[0].limits[0].share() > 0.99);
//! assert!(report.workloads[0].wait.max < Duration::from_secs(12));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod check;
pub mod crash;
mod dice;
mod file;
mod random;
mod report;
mod routes;
mod scenario;
pub mod show;
mod spread;
pub mod upstream;
mod world;

pub use dice::Dice;
pub use file::{ScenarioError, ScenarioFile};
pub use report::*;
pub use scenario::{
    Arrivals, ClockStep, Crash, Faults, HeaderStyle, LenderSpec, LiveChange, Model, Neighbour, NewLimit,
    Outage, Scenario, TracedCall, UpstreamChange, UpstreamLimit, UpstreamSpec, WindowByHand, Workload,
};
pub use spread::Spread;
pub use world::{Options, prove, simulate};
