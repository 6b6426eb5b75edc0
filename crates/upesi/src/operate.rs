//! Commands for operators: health, parties, cluster, quarantine and settlement.

pub(crate) mod cluster;
pub(crate) mod health;
pub(crate) mod parties;
pub(crate) mod quarantine;
pub(crate) mod settlement;
