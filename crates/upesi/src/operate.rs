//! Commands for operators: health, parties, cluster, quarantine, settlement and liquidity.

pub(crate) mod cluster;
pub(crate) mod health;
pub(crate) mod liquidity;
pub(crate) mod parties;
pub(crate) mod quarantine;
pub(crate) mod settlement;
