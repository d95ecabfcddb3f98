//! `tidegate run` as a process: what its program sees, and how long its sidecar lives.

#![cfg(unix)]

mod home;
mod lifetime;
mod notices;
mod program;
