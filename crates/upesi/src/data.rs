//! Commands that copy, move or restore a data directory, and the names of the files in one.

pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod chain_heads;
pub(crate) mod encryption;
pub(crate) mod keys;
pub(crate) mod layout;
pub(crate) mod migrate;
pub(crate) mod restore;
pub(crate) mod snapshot;
