//! Commands for an operator of a switch: its health, its parties, its cluster, and records that
//! are set aside.

pub(crate) mod cluster;
pub(crate) mod health;
pub(crate) mod parties;
pub(crate) mod quarantine;
