//! The admin API (hub-semantics 4), health and metrics (8.3,
//! 8.4) and the dead letters, over HTTP/1.1.
//!
//! A request goes through five phases: `auth` checks `Host`, `Origin` and the bearer token; `route`
//! finds the declared route, whose permission the sender must have; the body is read within its
//! bounds and checked member by member; the backend runs a query or records a change; the response
//! is written. A change is a record of the log with its author, time and reason. The only log lines
//! report requests without a valid token, at a bounded rate, and uses of the break-glass token.
//!
//! Connections need a permit ([`fspiop::admission`]). If none is free, a new connection evicts one
//! that keeps the hub waiting, so that silent clients cannot block the port.
//!
//! Costs: a change waits for one sync of the log. A query runs on a state at least as new as the
//! end of the log, and lists copy their entries. Nothing here is on the path of a transfer. Bounds:
//! the fields of [`Limits`], and the `*_MAX` constant of each accepted text.
#![warn(missing_docs)]

mod accounts;
mod address_limits;
mod admin_requests;
mod audit;
mod audit_log;
mod audit_trail;
mod audit_values;
mod auth;
mod backend;
mod body;
mod body_reader;
mod change_words;
mod client_socket;
mod cluster;
mod configuration;
mod connections;
mod console;
mod contents;
mod credentials;
mod data_keys;
mod dead_letters;
mod dry_runs;
mod endpoint_cache;
mod enrolments;
mod enums;
mod erasures;
mod event_stream;
mod events;
mod explanations;
mod failed_tokens;
mod four_eyes;
mod funds;
mod identity;
mod interchange_fee_rules;
mod jws_certificates;
mod keys;
mod limits;
mod liquidity;
mod logins;
mod metrics;
mod monitoring;
pub mod openapi_document;
mod operator_token;
mod operators;
mod options;
mod oracle_api;
mod oracles;
mod outbox;
mod outcome_errors;
mod participants;
mod parties;
mod permissions;
mod probes;
mod process_status;
mod proposals;
mod provider_logins;
mod provider_tokens;
mod reports;
mod request;
mod response;
mod responses;
mod roles;
mod route;
mod rules;
mod schema;
mod server;
mod settlement_data;
mod settlement_models;
mod settlement_queries;
mod settlement_responses;
mod settlement_windows;
mod settlements;
mod snapshots;
mod statements;
mod status;
mod status_stream;
mod storage;
mod token;
mod tokens;
mod trace_search;
mod transactions;
mod transfers;
mod waterfall;

pub use self::metrics::families;
pub use self::process_status::ProcessStatus;
pub use ::identity::SecretsKey;
pub use address_limits::AddressLimits;
pub use audit_log::{
    AUDIT_ENTRIES_MAX, AUDIT_READ_MAX, AuditEntryData, AuditOutcome, AuditPage, AuditPlace,
    AuditQuery, parse_audit_time,
};
pub use audit_values::{AuditValues, ValuesBefore};
pub use backend::{
    ARCHIVED_MAX, AdminBackend, BoxFuture, ChangeAuthor, ListedTransfer, ListedTransfers,
    NO_ENDPOINT, PARKED_MAX, PositionTrend, PrepareBody, StateQuery, Unavailable,
};
pub use contents::{
    CONTENTS_BYTES_MAX, CONTENTS_MAX, MessageContent, PaymentContents, masked_text,
};
pub use data_keys::RotatedKey;
pub use enrolments::EnrolmentOptions;
pub use erasures::{
    ERASURES_LISTED_MAX, ErasurePlan, ErasureReport, ErasureSelection, PartyFindings, PartyName,
    RetentionOverride, RetentionReport,
};
pub use events::{
    EVENTS_MAX, EVENTS_READ_MAX, EventPage, EventPublishing, EventQuery, PagedEvent,
    PublishingState,
};
pub use explanations::{ExplanationFormat, ExplanationOptions};
pub use options::{AdminKeys, AdminOptions, AuditReads, Auth, Limits};
pub use provider_logins::BrowserLogin;
pub use provider_tokens::ProviderOperators;
pub use reports::{
    BackgroundJob, Cluster, ClusterLane, ClusterNode, DiskStatus, DiskUse, EndpointCall, Health,
    OpenBreaker, OpenBreakers, ServiceStatus, SnapshotFile, Snapshots, Span, StalledLane,
    StalledLanes, StuckStage, Takeover, TransferTrace,
};
pub use server::{respond, serve, serve_oracle_api, serve_probes};
pub use statements::{
    AccountStatement, Balance, Entry, EntryDetail, LogPoint, ParticipantStatementRequest,
    STATEMENT_ENTRIES_MAX, SettlementPart, Statement, StatementError, StatementFormat,
    StatementPeriod, StatementRefusal, StatementSubject, Total,
};
pub use status::{
    Activity, CapUse, HISTORY_MAX, LISTED_MAX, LogActivity, Queue, Queues, Rate, TransferCounts,
};
pub use token::{
    Token, load_or_create_secrets_key, load_or_create_token, load_secrets_key, load_token,
};
pub use trace_search::{
    TRACE_PERIOD_US, TRACE_READ_MAX, TRACED_MAX, TracePage, TraceQuery, TracedMessage,
};
pub use transactions::{transaction_object, transaction_of_packet};
