//! Commands for operators of a switch.

pub(crate) mod adapter;
pub(crate) mod apply;
pub(crate) mod callbacks;
pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod conformance;
pub(crate) mod doctor;
pub(crate) mod drill;
pub(crate) mod erasures;
pub(crate) mod funds;
pub(crate) mod health;
pub(crate) mod init;
pub(crate) mod liquidity;
pub(crate) mod login;
pub(crate) mod operators;
pub(crate) mod oracles;
pub(crate) mod participant_names;
pub(crate) mod participants;
pub(crate) mod parties;
pub(crate) mod proposals;
pub(crate) mod quarantine;
pub(crate) mod reconcile;
pub(crate) mod settlement;
pub(crate) mod statement;
pub(crate) mod status;
pub(crate) mod transfers;
