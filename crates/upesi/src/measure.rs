//! Commands that measure.

pub(crate) mod bench;
pub(crate) mod generate;
