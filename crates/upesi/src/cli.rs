//! Parts that several commands share: errors, output, and requests to a running switch.

pub(crate) mod admin_get;
pub(crate) mod failure;
pub(crate) mod stdout;
