//! The operators' side of the hub: the admin API (hub-semantics 4), health and metrics (8.3,
//! 8.4) and the dead letters, over HTTP/1.1.
//!
//! One request goes through five phases: the guard checks `Host`, `Origin` and, for a change,
//! the bearer token; the router finds the declared route (`route`); the body is read within its
//! bounds and checked member by member; the hub is asked, or told to change something and asked
//! what came of it; the answer is rendered. A change is a record of the log that says who, when
//! and why; nothing else is logged here but requests without a good token, at a bounded rate.
//!
//! Connections have places ([`fspiop::admission`]): where all are taken, a new connection evicts
//! one that keeps the hub waiting, so that silent clients never close the port.
//!
//! Costs: a change waits for one sync of the log; a question is answered from a state at least
//! as new as the log's end, and lists copy what they show. None of it is on the path of a
//! transfer. Bounds: the fields of [`Limits`], and the `*_MAX` of each text that is accepted.
#![warn(missing_docs)]

mod accounts;
mod answer;
mod attempts;
mod body;
mod call;
mod caps;
mod catalogue;
mod cluster;
mod connections;
mod dead_letters;
pub mod document;
mod endpoint_cache;
mod explanations;
mod form;
mod funds;
mod guard;
mod hub;
mod keys;
mod metrics;
mod monitoring;
mod options;
mod oracles;
mod participants;
mod parties;
mod probes;
mod refusals;
mod reports;
mod route;
mod rules;
mod schema;
mod server;
mod settlement_models;
mod shapes;
mod snapshots;
mod storage;
mod token;
mod transactions;
mod waterfall;
mod wire;

pub use hub::{BoxFuture, Hub, PARKED_MAX, Question, Told, Unavailable};
pub use metrics::{Family, Kind, Metric, Samples, Value, families, write_metrics};
pub use options::{AdminKeys, AdminOptions, Auth, Limits};
pub use reports::{
    Cluster, ClusterLane, ClusterNode, Fullness, Health, Noted, OpenBreaker, OpenBreakers,
    ServiceStatus, SnapshotFile, Snapshots, Stage, StalledLane, StalledLanes, Storage, StuckStage,
    Takeover, Task,
};
pub use server::{answer, serve, serve_probes};
pub use token::{Token, load_or_create_token, load_token};
pub use transactions::transaction_object;
