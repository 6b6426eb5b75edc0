//! Assembles one I/O thread from its parts.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fspiop::egress_policy::EgressPolicy;
use ledger::Stamp;
use node::{Handle, Mailbox, SystemClock};
use tls::ClientTls;
use tokio::sync::Notify;

use crate::breaker::Breakers;
use crate::connections::Connections;
use crate::counters::Counters;
use crate::directory::Directory;
use crate::driver::{self, Driver};
use crate::egress::Egress;
use crate::handshakes::Security;
use crate::incomplete_bodies::IncompleteBodies;
use crate::lane_watch::LaneWatch;
use crate::lent_calls::{LentCalls, LentQueues, LoadMeter};
use crate::measurements::Measurements;
use crate::message::ForwardedMessage;
use crate::notice_messages::Notices;
use crate::options::{IoThreadOptions, QuoteOptions};
use crate::oracles::{OracleOptions, OracleState, Oracles};
use crate::outbox::Outbox;
use crate::passthrough::{Passthrough, TransferMode};
use crate::pool::{PoolLimits, Pools};
use crate::recorded_quotes::QuoteRecorder;
use crate::records::Records;
use crate::refusal_pace::RefusalPace;
use crate::server::Server;
use crate::signatures::ThreadSignatures;
use crate::spans::SpanWriter;
use crate::submitter::Submitter;
use crate::thread::Thread;
use crate::thread_status::ThreadStatus;
use crate::transfers::Transfers;

/// Time for requests in progress to end once the switch stops: 3 s.
const GRACE: Duration = Duration::from_secs(3);
/// Time for callbacks in progress to end after that.
const LAST_CALLBACKS: Duration = Duration::from_millis(500);

/// Parameters of a thread.
pub(crate) struct IoThreadParams {
    pub(crate) number: usize,
    pub(crate) clock: SystemClock,
    pub(crate) started: Stamp,
    pub(crate) mailbox: Arc<Mailbox<ForwardedMessage>>,
    pub(crate) mail: Arc<Notify>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) measurements: Arc<Measurements>,
    pub(crate) shown: Arc<ThreadStatus>,
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) oracles: Arc<OracleState>,
    pub(crate) seed: u64,
    pub(crate) queues: Arc<LentQueues>,
    pub(crate) meter: Arc<LoadMeter>,
}

/// The oracles, with connections of their own.
fn oracles_of(
    (shared, oracles): (Arc<OracleState>, OracleOptions),
    callable: &(Arc<EgressPolicy>, Option<Arc<ClientTls>>),
    (thread, directory): (&Rc<Thread>, &Rc<Directory>),
) -> Rc<Oracles> {
    let limits = PoolLimits {
        connect: oracles.connect,
        answer: oracles.answer,
        connections_max: oracles.connections_max,
        connections_all: oracles.calls_max,
    };
    let parts = (thread, directory);
    let pools = Pools::new(limits, callable.clone(), parts, shared.breakers()).for_oracles();
    Oracles::new(parts, pools, (shared, oracles))
}

/// One I/O thread.
pub(crate) struct IoThread {
    pub(crate) server: Rc<Server>,
    pub(crate) driver: Rc<Driver>,
    /// Maximum time of a lane without progress, and of an attempt.
    patience: (Duration, Duration),
}

impl IoThread {
    pub(crate) fn new(
        params: IoThreadParams,
        handle: Handle<ForwardedMessage>,
        options: IoThreadOptions,
    ) -> Self {
        let recorded = (params.counters, params.measurements);
        let traced = (handle.latency_trace(), SpanWriter::new(options.spans));
        let thread = Thread::new(params.number, recorded, traced, (params.clock, params.seed));
        let outbox = Outbox::new(&thread, &handle, &params.mailbox, (options.policy, params.seed));
        let changed = (options.ownership, Rc::clone(&outbox.retry));
        let directory = Directory::new(handle.clone(), Arc::clone(&thread.counters), changed);
        let signatures = ThreadSignatures::new(options.signatures, &thread, &directory);
        let calls = (Arc::clone(&options.egress_policy), options.calls_tls.clone());
        let oracles = oracles_of((params.oracles, options.oracles), &calls, (&thread, &directory));
        let pools = Pools::new(options.pool, calls, (&thread, &directory), &params.breakers);
        let pools = (pools, oracles, params.breakers);
        let (limit, lent) =
            (options.forwards_max, LentCalls::new(&thread, &params.queues, &params.meter));
        let egress = Egress::new((&thread, &directory, &signatures), pools, limit, lent);
        let passthrough = (options.transfer_mode == TransferMode::Passthrough)
            .then(|| Passthrough::new(params.mailbox));
        let submitter = Rc::new(Submitter::new(&thread, &directory, &outbox, passthrough));
        let connections = Connections::new(options.connections, thread.tracer.clone());
        let records = Records::new(handle.clone());
        let driver = Driver {
            handle: handle.clone(),
            notices: Notices {
                egress: Rc::clone(&egress),
                records: records.clone(),
                outbox: Rc::clone(&outbox),
            },
            outbox,
            submitter: Rc::clone(&submitter),
            connections: Rc::clone(&connections),
            shown: params.shown,
            mail: params.mail,
            injected_stall: options.injected_stall,
        };
        let identifies = options.security.callers.identifies();
        let limits = (options.expiration_max, options.bulk_items_max, options.quotes, identifies);
        let (transfers, quotes) = recorders(limits, (&submitter, &egress), &records, &handle);
        let security =
            Security::new(options.security, options.connections.head, (&thread, &directory));
        let server = Server {
            thread,
            started: params.started,
            handle,
            directory,
            submitter,
            egress,
            transfers,
            quotes,
            quote_rules: options.quote_rules,
            conversions: options.conversions,
            signatures,
            connections,
            limits: options.connections,
            participant_usage: options.participant_usage,
            refusal_pace: RefusalPace::new(options.refusals_per_address),
            gateways: options.gateways,
            logs_requests: options.logs_requests,
            security,
            refused_connections: Cell::new(0),
            room: Rc::default(),
            incomplete_bodies: IncompleteBodies::default(),
        };
        let patience = (options.patience, options.pool.connect + options.pool.answer);
        Self { server: Rc::new(server), driver: Rc::new(driver), patience }
    }

    /// The watch over the lanes of the thread.
    pub(crate) fn lanes(&self) -> LaneWatch {
        let Server { thread, directory, .. } = &*self.server;
        LaneWatch::new(&self.driver.outbox, directory, thread, self.patience)
    }

    /// Waits until pending requests are answered, without starting callbacks. Then waits briefly
    /// for callbacks in progress and records them, so that few callbacks are repeated by this
    /// switch after its next start, or by another node.
    pub(crate) async fn drain(&self) {
        let Server { submitter, egress, .. } = &*self.server;
        let outbox = &self.driver.outbox;
        outbox.state.borrow_mut().stop();
        // A helper thread serves its connections, and makes calls of others, until those end.
        let lending = until(|| !egress.lent.is_needed());
        let _in_time = tokio::time::timeout(GRACE + LAST_CALLBACKS, lending).await;
        let waiting = async {
            until(|| submitter.waiters.len() == 0 && egress.is_idle()).await;
            // Time for the last responses to reach the socket.
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let _in_time = tokio::time::timeout(GRACE, waiting).await;
        let sending = until(|| outbox.state.borrow().attempts() == 0);
        let _in_time = tokio::time::timeout(LAST_CALLBACKS, sending).await;
        driver::record(&self.driver);
        egress.lent.end();
    }
}

/// Waits until the condition holds.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The parts of the thread that record transfers, and quotes if the scheme records them.
fn recorders(
    (expiration_max, bulk_items_max, quote_options, identifies_senders): (
        Option<Duration>,
        usize,
        Option<QuoteOptions>,
        bool,
    ),
    (submitter, egress): (&Rc<Submitter>, &Rc<Egress>),
    records: &Records,
    handle: &Handle<ForwardedMessage>,
) -> (Rc<Transfers>, Option<Rc<QuoteRecorder>>) {
    let quotes = quote_options.map(|options| QuoteRecorder {
        submitter: Rc::clone(submitter),
        egress: Rc::clone(egress),
        records: records.clone(),
        handle: handle.clone(),
        keep: options.keep,
    });
    let transfers = Transfers {
        submitter: Rc::clone(submitter),
        egress: Rc::clone(egress),
        records: records.clone(),
        handle: handle.clone(),
        expiration_max,
        bulk_items_max,
        binds_to_quotes: quote_options.is_some_and(|quotes| quotes.binds_transfers),
        identifies_senders,
    };
    (Rc::new(transfers), quotes.map(Rc::new))
}
