//! The nodes of a shared log, as one of them sees them.

use ledger::{FspName, LogIndex, Stamp};

/// What a node knows of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The node that was asked.
    pub me: String,
    /// The last record that it has applied.
    pub log_index: LogIndex,
    /// Messages of the topic that it has not applied, as of its last look at the end.
    pub behind: u64,
    /// How long ago the brokers handed out a message, in milliseconds: each node writes once a
    /// second.
    pub unheard_ms: u64,
    /// How much of the brokers' time is not believed, in microseconds.
    pub held_us: u64,
    /// Messages of the topic that are no part of any log of this program, as far as it has met
    /// them since it started.
    pub foreign: u64,
    /// The last record after which another node said to have the same state.
    pub agreed: Option<LogIndex>,
    /// The nodes that are there.
    pub nodes: Vec<ClusterNode>,
    /// The lanes.
    pub lanes: Vec<ClusterLane>,
    /// When nodes were last found to be gone.
    pub last_takeover: Option<Takeover>,
}

/// A node that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Its life.
    pub epoch: u32,
    /// Up to where it has applied the log, as it said last.
    pub log_index: LogIndex,
    /// How long ago it wrote last, in milliseconds of the log's time.
    pub silent_ms: u64,
    /// The newest rules that it knows, as it said last; 0 until it has said so.
    pub rules: u32,
    /// Where it was found to have decided otherwise.
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
    /// The record by which they were.
    pub log_index: LogIndex,
    /// Its stamp.
    pub stamp: Stamp,
    /// Their names.
    pub gone: Vec<String>,
}
