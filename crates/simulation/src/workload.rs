//! Workloads: what participants and operators ask of the simulated hub.

pub(crate) mod bulks;
pub(crate) mod currencies;
pub(crate) mod fsp;
pub(crate) mod operator;
pub(crate) mod outcomes;
pub(crate) mod parties;
pub(crate) mod quotes;
pub(crate) mod registry;
pub(crate) mod settlement;
