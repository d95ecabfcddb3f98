//! Nous.

use super::generic::GENERIC;
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};

pub(super) static VENDOR: Vendor = Vendor {
    name: "nous",
    dialect: Dialect { error_shape: ErrorShape::OpenAi, ..Dialect::COMMON },
    source: "captured replies, 2026",
    ..GENERIC
};
