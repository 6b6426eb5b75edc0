//! The status of a shared log's nodes, as one of them sees it.

use ledger::{FspName, LogIndex, Stamp};

/// One node's view of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The node that reports.
    pub me: String,
    /// The last record that it has applied.
    pub log_index: LogIndex,
    /// Messages of the topic that it had not applied when it last read the end offset.
    pub behind: u64,
    /// Milliseconds since the last message from the brokers; each node writes once a second.
    pub unheard_ms: u64,
    /// The part of the brokers' time that is not trusted, in microseconds.
    pub held_us: u64,
    /// Number of foreign messages in the topic since the start.
    pub foreign: u64,
    /// The last record after which another node attested the same state.
    pub agreed: Option<LogIndex>,
    /// The live nodes.
    pub nodes: Vec<ClusterNode>,
    /// The lanes.
    pub lanes: Vec<ClusterLane>,
    /// The last time that nodes were found to be gone.
    pub last_takeover: Option<Takeover>,
}

/// A live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Its epoch.
    pub epoch: u32,
    /// The last record that it claims to have applied.
    pub log_index: LogIndex,
    /// Milliseconds of the log's time since it last wrote.
    pub silent_ms: u64,
    /// The newest rules version that it claims to know; 0 before its first claim.
    pub rules: u32,
    /// The record at which its decisions were found to differ.
    pub contradicts: Option<LogIndex>,
}

/// The sender of each participant's callbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLane {
    /// The participant.
    pub participant: FspName,
    /// The node.
    pub node: String,
}

/// Nodes were found to be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// The record with which they were found to be gone.
    pub log_index: LogIndex,
    /// Its stamp.
    pub stamp: Stamp,
    /// Their names.
    pub gone: Vec<String>,
}
