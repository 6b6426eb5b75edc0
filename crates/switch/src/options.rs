//! Options of the I/O threads.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fspiop::egress_policy::{EgressPolicy, Network};
use fspiop::quote_rules::QuoteRules;
use ledger::PartyOwnership;
use tls::ClientTls;
use traces::SpanQueue;

use crate::connections::ConnectionLimits;
use crate::driver::InjectedStall;
use crate::handshakes::ListenerSecurity;
use crate::lent_calls::HelperThreads;
use crate::oracles::OracleOptions;
use crate::participant_limits::ParticipantUsage;
use crate::passthrough::TransferMode;
use crate::pool::PoolLimits;
use crate::services::Conversion;
use crate::signatures::Signatures;

/// Options and limits of the edge; limits on per-thread resources apply per thread.
#[derive(Clone, Debug)]
pub struct IoThreadOptions {
    /// Threads that help busy ones.
    pub helper_threads: HelperThreads,
    /// Delivery policy of notices.
    pub policy: delivery::Policy,
    /// Bounds of the connections to participants.
    pub pool: PoolLimits,
    /// Which addresses of participants may be called.
    pub egress_policy: Arc<EgressPolicy>,
    /// TLS of calls to participants; `None` in a program without TLS.
    pub calls_tls: Option<Arc<ClientTls>>,
    /// Bounds of the connections from clients.
    pub connections: ConnectionLimits,
    /// Counts of requests, if participants have bounds; shared by the threads.
    pub participant_usage: Option<Arc<ParticipantUsage>>,
    /// Refused requests of one address per second that are answered at once; `None` for no limit.
    pub refusals_per_address: Option<NonZeroU32>,
    /// Networks of gateways: `X-Client-Id` is ignored from any other address. If empty, it is
    /// accepted from all.
    pub gateways: Arc<[Network]>,
    /// TLS of the listener and identification of senders.
    pub security: ListenerSecurity,
    /// Maximum number of look-ups, quotes and answers in flight.
    pub forwards_max: usize,
    /// Maximum time until a transfer expires; `None` for no limit.
    pub expiration_max: Option<Duration>,
    /// Maximum number of items of a bulk transfer.
    pub bulk_items_max: usize,
    /// How quotes are recorded; `None` if they are only forwarded.
    pub quotes: Option<QuoteOptions>,
    /// Rules that refuse quotes or send them to another FSP.
    pub quote_rules: Option<Arc<QuoteRules>>,
    /// The participants that convert currencies.
    pub conversions: Arc<[Conversion]>,
    /// The FSPs that may register an identifier.
    pub ownership: PartyOwnership,
    /// Limits of the calls to oracles.
    pub oracles: OracleOptions,
    /// Whether transfers are recorded and decided.
    pub transfer_mode: TransferMode,
    /// Required and created signatures.
    pub signatures: Signatures,
    /// Time without progress after which a lane with work is stuck.
    pub patience: Duration,
    /// Whether each request is logged.
    pub logs_requests: bool,
    /// Whether durations of requests, callbacks and forwards are recorded.
    pub histograms: bool,
    /// The queue into which the threads write spans; `None` if none are exported.
    pub spans: Option<SpanQueue>,
    /// An injected stall, for tests.
    pub injected_stall: Option<InjectedStall>,
}

/// How quotes are recorded.
#[derive(Clone, Copy, Debug)]
pub struct QuoteOptions {
    /// Time for which a quote is kept in memory.
    pub keep: Duration,
    /// Whether a transfer must agree with a quote of its transaction.
    pub binds_transfers: bool,
}

impl Default for IoThreadOptions {
    fn default() -> Self {
        Self {
            helper_threads: HelperThreads { count: 0, busy_percent: 97 },
            policy: delivery::Policy::default(),
            pool: PoolLimits::default(),
            egress_policy: Arc::default(),
            calls_tls: None,
            connections: ConnectionLimits::default(),
            participant_usage: None,
            refusals_per_address: None,
            gateways: Arc::default(),
            security: ListenerSecurity::default(),
            forwards_max: 8_192,
            expiration_max: None,
            bulk_items_max: 1_000,
            quotes: None,
            quote_rules: None,
            conversions: Arc::new([]),
            ownership: PartyOwnership::OwnerOnly,
            oracles: OracleOptions::default(),
            transfer_mode: TransferMode::ChangeReply,
            signatures: Signatures::default(),
            patience: Duration::from_secs(10),
            logs_requests: false,
            histograms: true,
            spans: None,
            injected_stall: None,
        }
    }
}
