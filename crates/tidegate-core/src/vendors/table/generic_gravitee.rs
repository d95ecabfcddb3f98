//! Gravitee.

use super::generic::GENERIC;
use crate::vendors::reset::ResetForm;
use crate::vendors::rule::sign;
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};

pub(super) static VENDOR: Vendor = Vendor {
    name: "generic-gravitee",
    aliases: &["gravitee"],
    signs: &[sign("x-gravitee-*")],
    reset: ResetForm::EpochMillis,
    dialect: Dialect { error_shape: ErrorShape::Plain, ..Dialect::COMMON },
    source: "Gravitee rate-limit policy replies, 2023-03-23",
    ..GENERIC
};
