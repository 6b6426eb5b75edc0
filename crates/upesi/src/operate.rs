//! Commands for operators: health, parties, cluster and quarantine.

pub(crate) mod cluster;
pub(crate) mod health;
pub(crate) mod parties;
pub(crate) mod quarantine;
