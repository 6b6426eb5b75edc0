//! Commands that read a log and change nothing.

pub(crate) mod audit;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod live_replay;
pub(crate) mod offline;
pub(crate) mod replay;
pub(crate) mod replay_store;
pub(crate) mod statements;
pub(crate) mod trace_search;
pub(crate) mod verify;
pub(crate) mod what_if;
