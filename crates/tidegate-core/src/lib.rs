//! The rules of tidegate as pure state machines.
//!
//! Every function that depends on time takes `now`; nothing here reads a clock, touches a socket, spawns a
//! task or draws a random number. Drivers (the async library, the simulator) call in, and are told when to
//! call again.

pub mod config;
pub mod dimension;
pub mod presets;
pub mod priority;
pub mod rate;
pub mod reply;
pub mod time;
pub mod vendor;
