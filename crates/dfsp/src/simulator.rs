//! One simulated FSP: its listener, its connections to the hub, and its reactions to messages.
//!
//! A request is handled inside the task of its connection: parse, decide, write the HTTP response,
//! then send the resulting message. The decision ([`Inner::handle`]) is synchronous and returns a
//! [`Reaction`]; nothing is sent while the state is borrowed.

mod bulks;
mod flows;
mod response_checks;

use std::cell::{Ref, RefCell};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fspiop::ilp::{Secret, condition, read_digest};
use ledger::{Amount, Currency, FspName, TransferId};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, spawn_local};

use crate::behaviour::{Behaviour, Leg};
use crate::clock::millis_now;
use crate::connections::{
    ConnectionCounts, ConnectionOptions, FirstErrors, HubConnections, SendResult, TICK,
};
use crate::http1::{self, Request};
use crate::ids::{TransactionId, trace_of, traced_id};
use crate::message::{
    Bodies, Envelope, MessageKind, Party, QuoteAnswer, QuoteRequest, TransferRequest, Writer,
};
use crate::observations::{Counts, Observations, Role, Verdict};
use crate::payer::{Cause, Completion, End, Outcome, Payer, Payment, PaymentFlow};
use crate::quote_terms::TermsBook;
use crate::received_bodies::{
    PartyFound, QuoteAnswered, QuotePosted, Scratch, TransferAnswered, TransferPosted, error_code,
    make_terms,
};
use crate::security::{self, FspTls, Signatures};
use crate::socket_options::tune;
use crate::wire::Wire;

const READ_BYTES: usize = 4 * 1024;
const CONNECTIONS_IN_MAX: usize = 1_024;
const WRONG_FULFILMENT: [u8; 32] = [0x55; 32];

/// Protocol version in the headers of an FSP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// FSPIOP 1.1.
    #[default]
    V1_1,
    /// FSPIOP 2.0.
    V2_0,
}

/// The transfer state with which an FSP fulfils (hub-semantics 3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// PUT with COMMITTED: final for the payee as soon as it is sent.
    #[default]
    Committed,
    /// PUT with RESERVED: final for the payee with the hub's PATCH.
    Reserved,
}

/// An interval over which the transfers of an FSP expire, evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Its start, in milliseconds since the epoch.
    pub from_millis: u64,
    /// Its length in milliseconds; 0 and 1 are a single point in time.
    pub millis: u64,
}

impl Expiry {
    /// The expiration of the transfer with this number. Steps of the golden ratio fill the interval
    /// evenly for any number of transfers.
    pub(crate) const fn of(self, number: u64) -> u64 {
        let part = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.from_millis + ((part as u128 * self.millis as u128) >> 64) as u64
    }
}

/// Options of one simulated FSP.
#[derive(Clone, Debug)]
pub struct SimulatorOptions {
    /// Name in the scheme: 2 to 30 letters, digits, `-` or `_`.
    pub name: String,
    /// The currency of all its transfers.
    pub currency: Currency,
    /// The hub's FSPIOP address.
    pub hub: SocketAddr,
    /// Additional nodes of the same hub, which are used if the first one does not respond.
    pub other_nodes: Vec<SocketAddr>,
    /// The address to listen on; port 0 selects a free one.
    pub listen: SocketAddr,
    /// Protocol version of its messages.
    pub version: Version,
    /// The transfer state with which it fulfils.
    pub style: Style,
    /// Its behaviour as payee.
    pub behaviour: Behaviour,
    /// The numbers of its subscribers.
    pub subscribers: Range<u64>,
    /// Subscribers of FSPs in ascending order, as far as known. A look-up must find a number at its
    /// own FSP.
    pub known: Arc<[Subscribers]>,
    /// Lifetime of its quotes and transfers.
    pub expiration_ahead: Duration,
    /// Expirations of its transfers as payer, instead of a lifetime.
    pub expiry: Option<Expiry>,
    /// Timeout of a transaction as payer.
    pub patience: Duration,
    /// As payee: whether transfers are held until [`Simulator::fulfil`], instead of answered.
    pub holds: bool,
    /// Whether a party's callback without a trace is matched by its number. Required for hubs that
    /// drop the trace; not allowed in measurements, since two look-ups of a number cannot be
    /// distinguished.
    pub match_by_number: bool,
    /// Maximum number of transactions in flight as payer.
    pub in_flight_max: usize,
    /// As payer: time after which a look-up or quote without a callback is requested again, with
    /// the same id. A hub only forwards these, and may lose them when it stops.
    pub ask_again: Option<Duration>,
    /// Whether it records the messages about transfers that the hub accepted
    /// ([`Simulator::take_acknowledged`]), up to [`ACKNOWLEDGED_MAX`].
    pub keeps_acknowledged: bool,
    /// Its certificate and the trusted authorities, if it speaks TLS.
    pub tls: Option<FspTls>,
    /// Its key and those of the others, if messages are signed.
    pub signatures: Option<Signatures>,
    /// Bounds of its connections to the hub.
    pub connections: ConnectionOptions,
}

/// The subscribers of one FSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribers {
    /// Their numbers.
    pub numbers: Range<u64>,
    /// Their FSP.
    pub fsp: FspName,
}

/// Maximum number of accepted messages that an FSP records.
pub const ACKNOWLEDGED_MAX: usize = 4_000_000;

/// A message about a transfer that the hub answered 2xx.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acknowledged {
    /// The transfer.
    pub transfer: TransferId,
    /// The kind of message.
    pub message: PaymentMessage,
}

/// The kind of message that an FSP sends about a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PaymentMessage {
    /// `POST /transfers`.
    Prepare,
    /// `PUT /transfers/{id}`.
    Fulfil,
    /// `PUT /transfers/{id}/error`.
    Abort,
}

/// A transaction could not be started. Nothing was sent.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum StartError {
    /// The limit of transactions in flight is reached.
    #[error("too many transactions in flight")]
    InFlight,
    /// The queue to the hub is full or closed.
    #[error("the queue to the hub is full")]
    Queue,
}

/// Subscribers could not be registered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RegistrationError {
    /// The hub refused requests or sent error callbacks.
    #[error("{refused} of {total} registrations were refused")]
    Refused {
        /// Refused registrations.
        refused: u64,
        /// All registrations.
        total: u64,
    },
    /// The hub accepted requests and sent no callbacks for them.
    #[error(
        "{missing} of {total} registrations have no callback; none arrived within {patience:?}"
    )]
    Missing {
        /// Registrations without a callback.
        missing: u64,
        /// All registrations.
        total: u64,
        /// The time without a callback.
        patience: Duration,
    },
}

/// One simulated FSP. Clones share it. It must be used on one thread, inside a `LocalRuntime`.
#[derive(Clone)]
pub struct Simulator(Rc<Inner>);

struct Inner {
    options: SimulatorOptions,
    address: SocketAddr,
    connections: HubConnections<Token>,
    state: RefCell<State>,
    observer: RefCell<Option<Observer>>,
    receipts: RefCell<Option<Receipts>>,
    tasks: RefCell<Tasks>,
    registered: Notify,
}

type Observer = Rc<dyn Fn(Outcome)>;
type Receipts = Rc<dyn Fn(TransferId, FspName, Instant)>;

struct State {
    writer: Writer,
    payer: Payer,
    observations: Observations,
    behaviour: Behaviour,
    secret: Secret,
    scratch: Scratch,
    terms: TermsBook,
    held: HashMap<TransferId, flows::UnansweredTransfer>,
    registration: Registration,
    acknowledged: Vec<Acknowledged>,
}

#[derive(Default)]
struct Tasks {
    listener: Option<AbortHandle>,
    connections: Vec<AbortHandle>,
    upkeep: Option<AbortHandle>,
}

#[derive(Default)]
struct Registration {
    all: u64,
    rest: Range<u64>,
    unconfirmed: HashSet<u64>,
    refused: u64,
}

/// The message that a response belongs to.
#[derive(Clone, Copy)]
enum Token {
    /// A leg of this FSP's own transaction.
    Leg(Leg, TransactionId),
    /// A callback of this payee to a look-up or a quote.
    Callback,
    /// A message of this payee about a transfer.
    TransferMessage(PaymentMessage, TransferId),
    /// The registration of a subscriber.
    Registration(u64),
}

/// The reaction to a request.
struct Reaction {
    status: Status,
    message: Option<(Vec<u8>, Token)>,
    ended: Option<(Outcome, Completion)>,
    /// A held transfer or a bulk, its payer, and the time of its receipt.
    received: Option<(TransferId, FspName, Instant)>,
}

#[derive(Clone, Copy)]
enum Status {
    Accepted,
    Ok,
    Refused,
    NotFound,
    Failed,
}

impl Simulator {
    /// Starts to listen. Call it inside a `LocalRuntime`.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub fn bind(options: SimulatorOptions) -> io::Result<Self> {
        let listener = listen(options.listen)?;
        let address = listener.local_addr()?;
        let seed = seed();
        let behaviour = options.behaviour;
        let inner = Rc::new_cyclic(|weak: &Weak<Inner>| {
            let owner = weak.clone();
            let answered = move |token, answer| {
                if let Some(inner) = owner.upgrade() {
                    inner.answered(token, answer);
                }
            };
            Inner {
                address,
                connections: HubConnections::over(
                    options.tls.clone(),
                    &addresses(&options),
                    options.connections,
                    answered,
                ),
                state: RefCell::new(State::new(&options, seed)),
                observer: RefCell::new(None),
                receipts: RefCell::new(None),
                tasks: RefCell::new(Tasks::default()),
                registered: Notify::new(),
                options,
            }
        });
        if behaviour != Behaviour::Dead {
            inner.serve(Some(listener));
        }
        let upkeep = spawn_local(maintain(Rc::clone(&inner)));
        inner.tasks.borrow_mut().upkeep = Some(upkeep.abort_handle());
        Ok(Self(inner))
    }

    /// The FSP's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.options.name
    }

    /// The numbers of its subscribers.
    #[must_use]
    pub fn subscribers(&self) -> Range<u64> {
        self.0.options.subscribers.clone()
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The callback addresses to give to the hub: endpoint type and value (hub-semantics 2.1).
    #[must_use]
    pub fn endpoints(&self) -> Vec<(String, String)> {
        let scheme = if self.0.options.tls.is_some() { "https" } else { "http" };
        endpoints(&format!("{scheme}://{}", self.0.address))
    }

    /// Sets the observer of the outcomes of transactions that [`Simulator::start`] began.
    pub fn observe(&self, observer: impl Fn(Outcome) + 'static) {
        *self.0.observer.borrow_mut() = Some(Rc::new(observer));
    }

    /// Sets the observer of transfers that this payee holds, and of bulks that it receives: the
    /// transfer or bulk, its payer, and the time of its receipt.
    pub fn observe_receipts(&self, receipts: impl Fn(TransferId, FspName, Instant) + 'static) {
        *self.0.receipts.borrow_mut() = Some(Rc::new(receipts));
    }

    /// As payer: the payee has received this transfer or bulk. This ends [`PaymentFlow::Prepare`]
    /// and suspends the deadline of [`PaymentFlow::Fulfil`].
    pub fn received_by_payee(&self, id: TransferId, at: Instant) {
        self.0.received_by_payee(id, at);
    }

    /// As payer: the payee is about to answer this held transfer, and `intended` is its intended
    /// start. Returns whether the transfer was held.
    pub fn resume(&self, id: TransferId, intended: Instant) -> bool {
        self.0.resume(id, intended)
    }

    /// As payee: answers a held transfer. Returns whether it was held.
    pub fn fulfil(&self, id: TransferId) -> bool {
        self.0.fulfil_held(id)
    }

    /// Bodies that it has written.
    #[must_use]
    pub fn bodies(&self) -> Bodies {
        self.0.state.borrow().writer.bodies()
    }

    /// Starts a transaction, or the part that its flow names. The observer is called at its end.
    ///
    /// # Errors
    ///
    /// A limit is reached. Nothing was sent, and the observer is not called.
    pub fn start(&self, payment: Payment) -> Result<(), StartError> {
        self.0.start(payment, Completion::Observer)
    }

    /// Runs a transaction to its end.
    ///
    /// # Errors
    ///
    /// A limit is reached. Nothing was sent.
    pub async fn run_transaction(&self, payment: Payment) -> Result<Outcome, StartError> {
        let (sender, outcome) = oneshot::channel();
        self.0.start(payment, Completion::Caller(sender))?;
        Ok(outcome.await.expect("every transaction ends, by its deadline at the latest"))
    }

    /// Registers all subscribers at the hub, with `at_once` requests in flight, and waits for all
    /// callbacks.
    ///
    /// # Errors
    ///
    /// The hub refused some registrations, or confirmed none for `patience`.
    pub async fn register_subscribers(
        &self,
        at_once: usize,
        patience: Duration,
    ) -> Result<(), RegistrationError> {
        let subscribers = self.subscribers();
        let total = subscribers.end - subscribers.start;
        {
            let registration = &mut self.0.state.borrow_mut().registration;
            registration.unconfirmed = subscribers.clone().collect();
            registration.all = total;
            registration.rest = subscribers;
            registration.refused = 0;
        }
        for _ in 0..at_once {
            self.0.register_next();
        }
        let missing = self.confirmed(patience).await;
        match self.0.state.borrow().registration.refused {
            0 if missing == 0 => Ok(()),
            0 => Err(RegistrationError::Missing { missing, total, patience }),
            refused => Err(RegistrationError::Refused { refused, total }),
        }
    }

    /// Waits until all registrations have a callback, or none arrived for `patience`. Returns the
    /// number of those without.
    async fn confirmed(&self, patience: Duration) -> u64 {
        let missing = || self.0.state.borrow().registration.unconfirmed.len();
        loop {
            let before = missing();
            let all = async {
                while missing() > 0 {
                    self.0.registered.notified().await;
                }
            };
            if tokio::time::timeout(patience, all).await.is_ok() || missing() == before {
                return missing() as u64;
            }
        }
    }

    /// Registrations with a callback so far.
    #[must_use]
    pub fn registered(&self) -> u64 {
        let registration = &self.0.state.borrow().registration;
        registration.all - registration.unconfirmed.len() as u64
    }

    /// Changes its behaviour. A dead FSP listens again on its old port as soon as that is free.
    pub fn set_behaviour(&self, behaviour: Behaviour) {
        let before = std::mem::replace(&mut self.0.state.borrow_mut().behaviour, behaviour);
        match (before == Behaviour::Dead, behaviour == Behaviour::Dead) {
            (false, true) => self.0.tasks.borrow_mut().hang_up(),
            (true, false) => self.0.serve(None),
            _ => {}
        }
    }

    /// Transactions in flight as payer.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.state.borrow().payer.in_flight()
    }

    /// Messages to the hub without a final response.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.0.connections.unanswered()
    }

    /// Its observations so far.
    #[must_use]
    pub fn observations(&self) -> Ref<'_, Observations> {
        Ref::map(self.0.state.borrow(), |state| &state.observations)
    }

    /// Messages counted by kind.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.observations().counts
    }

    /// Takes the messages about transfers that the hub has accepted since the last call, including
    /// repeats.
    #[must_use]
    pub fn take_acknowledged(&self) -> Vec<Acknowledged> {
        std::mem::take(&mut self.0.state.borrow_mut().acknowledged)
    }

    /// The expected change of its position.
    #[must_use]
    pub fn position(&self) -> Amount {
        self.observations().position()
    }

    /// Counts of its connections to the hub.
    #[must_use]
    pub fn connection_counts(&self) -> ConnectionCounts {
        self.0.connections.counts()
    }

    /// The first errors of its connections to the hub.
    #[must_use]
    pub fn first_errors(&self) -> FirstErrors {
        self.0.connections.first_errors()
    }

    /// Ends all its tasks and connections.
    pub fn stop(&self) {
        let mut tasks = self.0.tasks.borrow_mut();
        tasks.hang_up();
        tasks.upkeep.take().inspect(AbortHandle::abort);
        self.0.connections.close();
    }
}

impl Inner {
    fn serve(self: &Rc<Self>, listener: Option<TcpListener>) {
        let task = spawn_local(accept(Rc::clone(self), listener));
        self.tasks.borrow_mut().listener = Some(task.abort_handle());
    }

    fn register_next(&self) {
        let mut state = self.state.borrow_mut();
        let Some(msisdn) = state.registration.rest.next() else { return };
        let mut message = self.connections.buffer();
        let now_millis = millis_now();
        let envelope = Envelope { destination: None, trace: None, tracestate: None, now_millis };
        let mut digits = itoa::Buffer::new();
        state.writer.post_participant(&mut message, digits.format(msisdn), &envelope);
        drop(state);
        if self.connections.send(message, Token::Registration(msisdn)).is_err() {
            self.registered(msisdn, Registered::Refused);
        }
    }

    fn registered(&self, msisdn: u64, how: Registered) {
        let mut state = self.state.borrow_mut();
        if !state.registration.unconfirmed.remove(&msisdn) {
            return;
        }
        state.registration.refused += u64::from(how == Registered::Refused);
        if state.registration.unconfirmed.is_empty() {
            self.registered.notify_one();
        }
    }

    /// Handles the hub's response to one of this FSP's messages.
    fn answered(&self, token: Token, answer: SendResult) {
        let good = matches!(answer, SendResult::Status(200..=299));
        if good {
            self.note_wrong_status(token, answer);
        }
        match token {
            Token::Registration(msisdn) => {
                if !good {
                    self.registered(msisdn, Registered::Refused);
                }
                self.register_next();
            }
            Token::Leg(leg, id) if good => {
                let mut state = self.state.borrow_mut();
                if leg == Leg::Transfer {
                    state.acknowledge(&self.options, PaymentMessage::Prepare, id.transfer());
                }
                let waiting = state.payer.numbered(id.sequence());
                if let Some(transaction) = waiting.filter(|waiting| waiting.leg == leg) {
                    transaction.accepted();
                }
            }
            Token::TransferMessage(message_kind, id) if good => {
                self.state.borrow_mut().acknowledge(&self.options, message_kind, id);
            }
            Token::Callback if good => {}
            Token::Callback | Token::TransferMessage(..) => {
                self.state.borrow_mut().observations.counts.refused += 1;
            }
            Token::Leg(leg, id) => {
                let mut ended = self.state.borrow_mut().leg_refused(leg, id.sequence(), answer);
                self.name_unreachable(&mut ended);
                self.ended(ended);
            }
        }
    }

    /// Sets the cause of a unit that ended while the hub cannot be reached.
    fn name_unreachable(&self, ended: &mut Option<(Outcome, Completion)>) {
        if let Some((outcome, _)) = ended
            && let End::Failed(leg, Cause::TimedOut | Cause::Unsent) = outcome.end
            && self.connections.is_unreachable()
        {
            outcome.end = End::Failed(leg, Cause::Unreachable);
        }
    }

    /// Repeats the requests whose callbacks are overdue.
    fn ask_again(&self, now: Instant) {
        let Some(pause) = self.options.ask_again else { return };
        loop {
            let mut message = self.connections.buffer();
            let asked = self.state.borrow_mut().ask_next_again(
                &mut message,
                &self.options,
                now.checked_sub(pause),
            );
            let Some(token) = asked else { return };
            if self.connections.send(message, token).is_err() {
                return;
            }
        }
    }

    fn ended(&self, ended: Option<(Outcome, Completion)>) {
        let Some((outcome, completion)) = ended else { return };
        match completion {
            // The caller may have stopped waiting. The outcome is then not needed.
            Completion::Caller(sender) => drop(sender.send(outcome)),
            Completion::Observer => {
                let observer = self.observer.borrow().clone();
                if let Some(observer) = observer {
                    observer(outcome);
                }
            }
        }
    }

    fn react(&self, reaction: Reaction) {
        if let Some((message, token)) = reaction.message
            && self.connections.send(message, token).is_err()
        {
            self.answered(token, SendResult::Lost);
        }
        if let Some((id, payer, at)) = reaction.received {
            let receipts = self.receipts.borrow().clone();
            if let Some(receipts) = receipts {
                receipts(id, payer, at);
            }
        }
        self.ended(reaction.ended);
    }

    fn handle(&self, request: &Request<'_>) -> Reaction {
        let mut state = self.state.borrow_mut();
        state.observations.counts.requests += 1;
        if let Behaviour::Refusing(times) = state.behaviour {
            state.behaviour = match times {
                0 | 1 => Behaviour::Normal,
                more => Behaviour::Refusing(more - 1),
            };
            if times > 0 {
                return Reaction::only(Status::Failed);
            }
        }
        let name = &*self.options.name;
        let signatures = self.options.signatures.as_ref();
        if let Some(Err(fault)) = signatures.map(|signatures| signatures.verify(request)) {
            let (method, path) = (request.method, request.path);
            let what = format_args!("{method} {path} came to {name}: {fault}");
            state.observations.note_wrong(what);
            return Reaction::only(Status::Refused);
        }
        if let Some(other) = request.fields.destination.filter(|to| *to != name) {
            let what = format_args!("{} came to {name} for {other}", request.method);
            state.observations.note_wrong(what);
        }
        let path = request.path.split_once('?').map_or(request.path, |(path, _)| path);
        let (path, failed) = match path.strip_suffix("/error") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let (resource, rest) =
            path[1.min(path.len())..].split_once('/').unwrap_or((&path[1..], ""));
        let resent = self.connections.counts().resent;
        let options = &self.options;
        let mut context = Context { state: &mut state, options, request, resent };
        match (request.method, resource, failed) {
            ("GET", "parties", false) => context.party_asked(path, rest, self.connections.buffer()),
            ("PUT", "parties", false) => context.party_found(rest, self.connections.buffer()),
            ("PUT", "parties", true) => context.party_failed(rest),
            ("POST", "quotes", false) => context.quote_posted(self.connections.buffer()),
            ("PUT", "quotes", false) => context.quote_answered(rest, self.connections.buffer()),
            ("PUT", "quotes", true) => context.quote_failed(rest),
            ("POST", "transfers", false) => context.transfer_posted(self.connections.buffer()),
            ("PUT" | "PATCH", "transfers", false) => context.transfer_answered(rest),
            ("PUT", "transfers", true) => context.transfer_failed(rest),
            ("POST", "bulkTransfers", false) => context.bulk_posted(self.connections.buffer()),
            ("PUT", "bulkTransfers", false) => context.bulk_answered(rest),
            ("PUT", "bulkTransfers", true) => context.bulk_failed(rest),
            ("PUT", "participants", failed) => {
                let msisdn = rest.rsplit('/').next().and_then(|digits| digits.parse().ok());
                drop(state);
                let how = if failed { Registered::Refused } else { Registered::Confirmed };
                if let Some(msisdn) = msisdn {
                    self.registered(msisdn, how);
                }
                Reaction::only(Status::Ok)
            }
            _ => context.unknown(Status::NotFound),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Registered {
    Confirmed,
    Refused,
}

impl State {
    fn new(options: &SimulatorOptions, seed: u64) -> Self {
        Self {
            writer: Writer::new(options, seed),
            payer: Payer::new(seed, options.patience, options.ask_again.is_some()),
            observations: Observations::default(),
            behaviour: options.behaviour,
            secret: Secret::of(&options.name),
            scratch: Scratch::default(),
            terms: TermsBook::default(),
            held: HashMap::new(),
            registration: Registration::default(),
            acknowledged: Vec::new(),
        }
    }

    fn acknowledge(
        &mut self,
        options: &SimulatorOptions,
        message_kind: PaymentMessage,
        transfer: TransferId,
    ) {
        if options.keeps_acknowledged && self.acknowledged.len() < ACKNOWLEDGED_MAX {
            self.acknowledged.push(Acknowledged { transfer, message: message_kind });
        }
    }

    /// The hub did not accept the message of this leg.
    fn leg_refused(
        &mut self,
        leg: Leg,
        sequence: u64,
        answer: SendResult,
    ) -> Option<(Outcome, Completion)> {
        self.payer.numbered(sequence).filter(|waiting| waiting.leg == leg)?;
        let cause = match answer {
            SendResult::Status(status) => Cause::Refused(status),
            SendResult::Lost => Cause::Unsent,
        };
        // The hub refuses before it stores anything. A missing response proves nothing.
        if leg == Leg::Transfer && matches!(answer, SendResult::Status(400..=499)) {
            self.reject(sequence);
        }
        self.payer.end(sequence, End::Failed(leg, cause))
    }

    /// The transfers of this transaction have not reached the hub's ledger.
    fn reject(&mut self, sequence: u64) {
        let transfers = self.payer.numbered(sequence).map(|transaction| transaction.transfers());
        for id in transfers.into_iter().flatten() {
            self.observations.conclude(id, Verdict::Aborted);
            self.observations.counts.rejected += 1;
        }
    }

    /// Returns the time of a fulfilment, and records the commit if the payee may assume it.
    fn completed(
        &mut self,
        options: &SimulatorOptions,
        id: TransferId,
        now_millis: u64,
        first: bool,
    ) -> u64 {
        let Self { observations, behaviour, .. } = self;
        let Some(record) = observations.record(id) else { return now_millis };
        if !first && record.completed_millis > 0 {
            return record.completed_millis;
        }
        record.completed_millis = now_millis;
        if *behaviour == Behaviour::WrongFulfilment {
            observations.conclude(id, Verdict::Aborted);
        } else if options.style == Style::Committed {
            observations.conclude(id, Verdict::Committed);
        }
        now_millis
    }
}

/// One request being handled.
struct Context<'a> {
    state: &'a mut State,
    options: &'a SimulatorOptions,
    request: &'a Request<'a>,
    /// Number of resent messages.
    resent: u64,
}

impl<'a> Context<'a> {
    /// GET /parties: a look-up of a subscriber.
    fn party_asked(&mut self, path: &str, rest: &str, mut message: Vec<u8>) -> Reaction {
        self.state.observations.counts.lookups += 1;
        let msisdn = rest.split('/').nth(1).unwrap_or("");
        let known = msisdn.parse().is_ok_and(|number| self.options.subscribers.contains(&number));
        let envelope = self.back();
        let writer = &mut self.state.writer;
        match self.state.behaviour {
            Behaviour::Silent(Leg::Lookup) => return Reaction::only(Status::Accepted),
            Behaviour::Erroring(Leg::Lookup, code) => {
                writer.put_error(
                    &mut message,
                    MessageKind::PutParties,
                    &[path, ""],
                    code,
                    &envelope,
                );
            }
            _ if known => writer.put_party(&mut message, path, msisdn, &envelope),
            _ => writer.put_error(
                &mut message,
                MessageKind::PutParties,
                &[path, ""],
                3204,
                &envelope,
            ),
        }
        Reaction::callback(message)
    }

    /// PUT /parties: continues with the quote.
    fn party_found(&mut self, rest: &str, mut message: Vec<u8>) -> Reaction {
        let found = serde_json::from_slice::<PartyFound<'_>>(&self.request.body).ok();
        let Some(sequence) = self.looked_up(rest) else { return self.stray(self.traced()) };
        let Some((found, fsp)) = found.and_then(|found| found.fsp().map(|fsp| (found, fsp))) else {
            return self.malformed(Leg::Lookup, sequence);
        };
        if self.is_wrong_party(sequence, rest, &found, fsp) {
            return self.wrong(Leg::Lookup, sequence);
        }
        self.state.payer.found(sequence, fsp);
        let transaction = self.state.payer.numbered(sequence).expect("it was just found");
        let (id, payment) = (transaction.id, transaction.payment);
        if payment.flow == PaymentFlow::Lookup {
            return Reaction::ending(self.state.payer.end(sequence, End::Reached));
        }
        let (mut payer, mut payee) = (itoa::Buffer::new(), itoa::Buffer::new());
        let quote = QuoteRequest {
            quote: id.quote(),
            transfer: id.transfer(),
            payer: Party { msisdn: payer.format(payment.payer_msisdn), fsp: &self.options.name },
            payee: Party { msisdn: payee.format(payment.payee_msisdn), fsp: fsp.as_str() },
            amount: payment.amount,
        };
        let trace = id.trace();
        let envelope = self.on(fsp.as_str(), &trace);
        self.state.writer.post_quote(&mut message, &quote, &envelope);
        Reaction::leg(message, Leg::Quote, id)
    }

    /// PUT /parties/…/error: the transaction ends.
    fn party_failed(&mut self, rest: &str) -> Reaction {
        match self.looked_up(rest) {
            Some(sequence) => self.error(Leg::Lookup, sequence),
            None => self.stray_error(self.traced()),
        }
    }

    /// POST /quotes: terms for a subscriber.
    fn quote_posted(&mut self, mut message: Vec<u8>) -> Reaction {
        self.state.observations.counts.quotes += 1;
        let Ok(quote) = serde_json::from_slice::<QuotePosted<'_>>(&self.request.body) else {
            return self.unknown(Status::Accepted);
        };
        let envelope = self.back();
        let State { writer, secret, scratch, behaviour, observations, .. } = &mut *self.state;
        let id: &str = &quote.quote_id;
        let code = match *behaviour {
            Behaviour::Silent(Leg::Quote) => return Reaction::only(Status::Accepted),
            Behaviour::Erroring(Leg::Quote, code) => Some(code),
            _ => None,
        };
        let terms = make_terms(&quote, &self.options.name, secret, scratch);
        let terms = terms
            .filter(|terms| !response_checks::is_strange_quote(self.options, terms, observations));
        match (code, terms) {
            (None, Some(terms)) => {
                let answer = QuoteAnswer {
                    path: id,
                    amount: &quote.amount.amount,
                    packet: &scratch.packet,
                    condition: &terms.condition,
                };
                writer.put_quote(&mut message, &answer, &envelope);
            }
            (code, _) => {
                let path = ["/quotes/", id];
                let code = code.unwrap_or(3100);
                writer.put_error(&mut message, MessageKind::PutQuotes, &path, code, &envelope);
            }
        }
        Reaction::callback(message)
    }

    /// PUT /quotes/{id}: continues with the transfer.
    fn quote_answered(&mut self, rest: &str, mut message: Vec<u8>) -> Reaction {
        let Some(sequence) = self.waiting(rest, Leg::Quote) else {
            return self.stray(TransferId::parse(rest));
        };
        let Ok(answer) = serde_json::from_slice::<QuoteAnswered<'_>>(&self.request.body) else {
            return self.malformed(Leg::Quote, sequence);
        };
        let amount = Amount::parse(&answer.transfer_amount.amount);
        let (Some(amount), Some(condition)) = (amount, read_digest(&answer.condition)) else {
            return self.malformed(Leg::Quote, sequence);
        };
        if self.is_wrong_amount(sequence, amount, &answer.transfer_amount)
            || self.are_other_terms(sequence, &answer, &condition)
        {
            return self.wrong(Leg::Quote, sequence);
        }
        let transaction = self.state.payer.numbered(sequence).expect("it was just found");
        transaction.quoted(condition);
        let (id, payee) = (transaction.id, transaction.payee);
        if matches!(transaction.payment.flow, PaymentFlow::Quote(_)) {
            return Reaction::ending(self.state.payer.end(sequence, End::Reached));
        }
        self.state.observations.begin_paying(id.transfer(), payee, amount, &condition);
        let transfer = TransferRequest {
            transfer: id.transfer(),
            payee_fsp: payee.as_str(),
            amount: &answer.transfer_amount.amount,
            packet: &answer.ilp_packet,
            condition: &answer.condition,
        };
        let trace = id.trace();
        let envelope = self.on(payee.as_str(), &trace);
        self.state.writer.post_transfer(&mut message, &transfer, &envelope);
        Reaction::leg(message, Leg::Transfer, id)
    }

    /// PUT /quotes/{id}/error: the transaction ends.
    fn quote_failed(&mut self, rest: &str) -> Reaction {
        match self.waiting(rest, Leg::Quote) {
            Some(sequence) => self.error(Leg::Quote, sequence),
            None => self.stray_error(TransferId::parse(rest)),
        }
    }

    /// POST /transfers: fulfils, with the same response to a repeat.
    fn transfer_posted(&mut self, mut message: Vec<u8>) -> Reaction {
        let posted = serde_json::from_slice::<TransferPosted<'_>>(&self.request.body).ok();
        let Some((posted, (id, payer, amount))) =
            posted.and_then(|posted| posted.terms().map(|terms| (posted, terms)))
        else {
            return self.unknown(Status::Accepted);
        };
        let fulfilment = self.state.secret.fulfilment(posted.ilp_packet.as_bytes());
        let strange = self.is_strange_transfer(&posted, &fulfilment);
        let first = self.state.observations.begin(id, Role::Payee, payer, amount);
        let counts = &mut self.state.observations.counts;
        *(if first { &mut counts.prepares } else { &mut counts.repeated }) += 1;
        let envelope = self.back();
        let fulfilment = match self.state.behaviour {
            Behaviour::Silent(Leg::Transfer) => return Reaction::only(Status::Accepted),
            Behaviour::Erroring(Leg::Transfer, code) => {
                self.refuse(&mut message, id, code, &envelope);
                return Reaction::transfer_message(message, PaymentMessage::Abort, id);
            }
            _ if strange => {
                self.refuse(&mut message, id, response_checks::NOT_OURS, &envelope);
                return Reaction::transfer_message(message, PaymentMessage::Abort, id);
            }
            Behaviour::WrongFulfilment => WRONG_FULFILMENT,
            _ => fulfilment,
        };
        if self.options.holds && first && self.state.held.len() < flows::HELD_MAX {
            return self.hold(id, payer, fulfilment);
        }
        if self.state.held.contains_key(&id) {
            return Reaction::only(Status::Accepted);
        }
        let completed_millis = self.state.completed(self.options, id, envelope.now_millis, first);
        let writer = &mut self.state.writer;
        writer.put_transfer(&mut message, id, &fulfilment, completed_millis, &envelope);
        Reaction::transfer_message(message, PaymentMessage::Fulfil, id)
    }

    /// PUT or PATCH /transfers/{id}: a notice of the hub about a transfer.
    fn transfer_answered(&mut self, rest: &str) -> Reaction {
        let Some(id) = TransferId::parse(rest) else { return self.unknown(Status::Ok) };
        let answer = serde_json::from_slice::<TransferAnswered<'_>>(&self.request.body).ok();
        if answer.as_ref().is_some_and(TransferAnswered::is_reserved) && 0 < self.resent {
            // A notice about a resent message whose first response was lost. The payer keeps
            // waiting.
            return Reaction::only(Status::Ok);
        }
        let Some((answer, verdict)) = answer.and_then(|it| it.verdict().map(|end| (it, end)))
        else {
            return self.no_notice(id);
        };
        self.state.observations.notice(id, verdict);
        let fulfilment = answer.fulfilment.and_then(|text| read_digest(&text));
        let met = fulfilment.map(|it| condition(&it));
        if verdict == Verdict::Committed {
            self.state.observations.fulfilled(id, met.as_ref());
        }
        let Some(transaction) = self.state.payer.waiting(id, Leg::Transfer) else {
            return Reaction::only(Status::Ok);
        };
        let (sequence, wanted) = (transaction.id.sequence(), transaction.condition);
        let end = match verdict {
            Verdict::Aborted => End::Failed(Leg::Transfer, Cause::Aborted),
            Verdict::Committed if met == Some(wanted) => End::Committed,
            Verdict::Committed => End::Failed(Leg::Transfer, Cause::WrongFulfilment),
        };
        Reaction::ending(self.state.payer.end(sequence, end))
    }

    /// PUT /transfers/{id}/error: the transfer was aborted.
    fn transfer_failed(&mut self, rest: &str) -> Reaction {
        let Some(id) = TransferId::parse(rest) else { return self.unknown(Status::Ok) };
        self.state.observations.notice(id, Verdict::Aborted);
        match self.waiting(rest, Leg::Transfer) {
            Some(sequence) => self.error(Leg::Transfer, sequence),
            None => Reaction::only(Status::Ok),
        }
    }

    fn refuse(
        &mut self,
        message: &mut Vec<u8>,
        id: TransferId,
        code: u16,
        envelope: &Envelope<'_>,
    ) {
        self.state.observations.conclude(id, Verdict::Aborted);
        let path = flows::id_text(id);
        let path = ["/transfers/", &*path];
        self.state.writer.put_error(message, MessageKind::PutTransfers, &path, code, envelope);
    }

    /// The sequence number of the transaction that waits for this look-up: by its trace, or, for a
    /// hub that drops the trace, the oldest look-up of the number.
    fn looked_up(&mut self, rest: &str) -> Option<u64> {
        let traced = self.traced();
        let payer = &mut self.state.payer;
        if let Some(id) = traced.filter(|id| payer.knew(*id)) {
            return payer.waiting(id, Leg::Lookup).map(|transaction| transaction.id.sequence());
        }
        if !self.options.match_by_number {
            return None;
        }
        let msisdn: u64 = rest.split('/').nth(1)?.parse().ok()?;
        payer.looking_up(msisdn).map(|transaction| transaction.id.sequence())
    }

    /// The transfer id in the trace of the request.
    fn traced(&self) -> Option<TransferId> {
        self.request.fields.traceparent.and_then(traced_id)
    }

    /// An unexpected error: about an old transaction of this FSP, or about one of its responses as
    /// payee, since the hub reports an error to the sender of the failed message (hub-semantics
    /// 2.4).
    fn stray_error(&mut self, id: Option<TransferId>) -> Reaction {
        if id.is_some_and(|id| self.state.payer.knew(id)) {
            return self.stray(id);
        }
        self.state.observations.counts.undelivered += 1;
        Reaction::only(Status::Ok)
    }

    /// An unexpected callback.
    fn stray(&mut self, id: Option<TransferId>) -> Reaction {
        if !id.is_some_and(|id| self.state.payer.knew(id)) {
            return self.unknown(Status::Ok);
        }
        self.state.observations.counts.late += 1;
        Reaction::only(Status::Ok)
    }

    fn waiting(&mut self, text: &str, leg: Leg) -> Option<u64> {
        let id = TransferId::parse(text)?;
        self.state.payer.waiting(id, leg).map(|transaction| transaction.id.sequence())
    }

    fn error(&mut self, leg: Leg, sequence: u64) -> Reaction {
        let cause = Cause::Error(error_code(&self.request.body));
        Reaction::ending(self.state.payer.end(sequence, End::Failed(leg, cause)))
    }

    fn malformed(&mut self, leg: Leg, sequence: u64) -> Reaction {
        let end = End::Failed(leg, Cause::Malformed);
        Reaction::ending(self.state.payer.end(sequence, end))
    }

    fn unknown(&mut self, status: Status) -> Reaction {
        self.state.observations.counts.unknown += 1;
        Reaction::only(status)
    }

    /// The envelope of a response: to the source, with the same trace.
    fn back(&self) -> Envelope<'a> {
        let fields = &self.request.fields;
        Envelope {
            destination: fields.source,
            trace: fields.traceparent.and_then(trace_of).map(str::as_bytes),
            tracestate: fields.tracestate,
            now_millis: millis_now(),
        }
    }

    /// The envelope of the next leg.
    fn on<'b>(&self, destination: &'b str, trace: &'b [u8]) -> Envelope<'b> {
        let now_millis = millis_now();
        Envelope {
            destination: Some(destination),
            trace: Some(trace),
            tracestate: None,
            now_millis,
        }
    }
}

impl Reaction {
    fn only(status: Status) -> Self {
        Self { status, message: None, ended: None, received: None }
    }

    fn callback(message: Vec<u8>) -> Self {
        let message = Some((message, Token::Callback));
        Self { message, ..Self::only(Status::Accepted) }
    }

    fn transfer_message(
        message: Vec<u8>,
        message_kind: PaymentMessage,
        transfer: TransferId,
    ) -> Self {
        let message = Some((message, Token::TransferMessage(message_kind, transfer)));
        Self { message, ..Self::only(Status::Accepted) }
    }

    fn leg(message: Vec<u8>, leg: Leg, id: TransactionId) -> Self {
        let message = Some((message, Token::Leg(leg, id)));
        Self { message, ..Self::only(Status::Ok) }
    }

    fn ending(ended: Option<(Outcome, Completion)>) -> Self {
        Self { ended, ..Self::only(Status::Ok) }
    }
}

impl Status {
    fn text(self) -> &'static [u8] {
        match self {
            Self::Accepted => b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
            Self::Ok => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            Self::Refused => b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
            Self::NotFound => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            Self::Failed => b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
        }
    }
}

impl Tasks {
    fn hang_up(&mut self) {
        self.listener.take().inspect(AbortHandle::abort);
        self.connections.drain(..).for_each(|task| task.abort());
    }
}

impl Version {
    /// The version in headers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_1 => "1.1",
            Self::V2_0 => "2.0",
        }
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1.1" => Ok(Self::V1_1),
            "2.0" => Ok(Self::V2_0),
            _ => Err(format!("invalid version '{text}': expected 1.1 or 2.0")),
        }
    }
}

impl Style {
    /// The `transferState` of the FSP's fulfilments.
    #[must_use]
    pub const fn state(self) -> &'static str {
        match self {
            Self::Committed => "COMMITTED",
            Self::Reserved => "RESERVED",
        }
    }
}

impl FromStr for Style {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "committed" => Ok(Self::Committed),
            "reserved" => Ok(Self::Reserved),
            _ => Err(format!("invalid style '{text}': expected committed or reserved")),
        }
    }
}

impl SimulatorOptions {
    /// A standard FSP on a free local port, without subscribers.
    ///
    /// # Panics
    ///
    /// The name is not 2 to 30 letters, digits, `-` or `_`. It is written into JSON unescaped.
    #[must_use]
    pub fn new(name: &str, currency: Currency, hub: SocketAddr) -> Self {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let usable = plain && (2..=30).contains(&name.len()) && FspName::new(name).is_some();
        assert!(usable, "an FSP's name is 2 to 30 letters, digits, '-' or '_'");
        Self {
            name: name.to_owned(),
            currency,
            hub,
            other_nodes: Vec::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            version: Version::default(),
            style: Style::default(),
            behaviour: Behaviour::default(),
            subscribers: 0..0,
            known: Arc::new([]),
            expiration_ahead: Duration::from_secs(60),
            expiry: None,
            patience: Duration::from_secs(30),
            holds: false,
            match_by_number: true,
            in_flight_max: 100_000,
            ask_again: None,
            keeps_acknowledged: false,
            tls: None,
            signatures: None,
            connections: ConnectionOptions::default(),
        }
    }
}

/// A number that is unique per simulator, from the randomly keyed hasher of the standard library.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(millis_now())
}

/// Every node of the hub, home first.
fn addresses(options: &SimulatorOptions) -> Vec<SocketAddr> {
    [&[options.hub], &*options.other_nodes].concat()
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// The callback addresses of an FSP whose server has a base URL.
#[must_use]
pub fn endpoints(base: &str) -> Vec<(String, String)> {
    let party = "/{{partyIdType}}/{{partyIdentifier}}";
    let sub = "/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}";
    let values = [
        ("PARTICIPANT_PUT", format!("/participants{party}")),
        ("PARTICIPANT_PUT_ERROR", format!("/participants{party}/error")),
        ("PARTICIPANT_SUB_ID_PUT", format!("/participants{sub}")),
        ("PARTICIPANT_SUB_ID_PUT_ERROR", format!("/participants{sub}/error")),
        ("PARTICIPANT_BATCH_PUT", "/participants/{{requestId}}".to_owned()),
        ("PARTICIPANT_BATCH_PUT_ERROR", "/participants/{{requestId}}/error".to_owned()),
        ("PARTIES_GET", format!("/parties{party}")),
        ("PARTIES_PUT", format!("/parties{party}")),
        ("PARTIES_PUT_ERROR", format!("/parties{party}/error")),
        ("PARTIES_SUB_ID_GET", format!("/parties{sub}")),
        ("PARTIES_SUB_ID_PUT", format!("/parties{sub}")),
        ("PARTIES_SUB_ID_PUT_ERROR", format!("/parties{sub}/error")),
        ("QUOTES", String::new()),
        ("TRANSFER_POST", "/transfers".to_owned()),
        ("TRANSFER_PUT", "/transfers/{{transferId}}".to_owned()),
        ("TRANSFER_ERROR", "/transfers/{{transferId}}/error".to_owned()),
        ("BULK_TRANSFER_POST", "/bulkTransfers".to_owned()),
        ("BULK_TRANSFER_PUT", "/bulkTransfers/{{id}}".to_owned()),
        ("BULK_TRANSFER_ERROR", "/bulkTransfers/{{id}}/error".to_owned()),
    ];
    let full = |(kind, path)| (format!("FSPIOP_CALLBACK_URL_{kind}"), format!("{base}{path}"));
    values.map(full).into_iter().collect()
}

async fn maintain(inner: Rc<Inner>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        inner.connections.maintain();
        let now = Instant::now();
        inner.ask_again(now);
        loop {
            let mut expired = inner.state.borrow_mut().payer.expire(now);
            if expired.is_none() {
                break;
            }
            inner.name_unreachable(&mut expired);
            inner.ended(expired);
        }
    }
}

async fn accept(inner: Rc<Inner>, listener: Option<TcpListener>) {
    let listener = match listener {
        Some(listener) => listener,
        None => listen_again(inner.address).await,
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: wait for connections to end instead of spinning.
            tokio::time::sleep(TICK).await;
            continue;
        };
        let mut tasks = inner.tasks.borrow_mut();
        tasks.connections.retain(|task| !task.is_finished());
        if tasks.connections.len() >= CONNECTIONS_IN_MAX {
            continue;
        }
        tune(&stream);
        let task = spawn_local(serve_connection(Rc::clone(&inner), stream));
        tasks.connections.push(task.abort_handle());
    }
}

async fn listen_again(address: SocketAddr) -> TcpListener {
    loop {
        match listen(address) {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(TICK).await,
        }
    }
}

async fn serve_connection(inner: Rc<Inner>, stream: TcpStream) {
    let server = inner.options.tls.as_ref().map(|tls| &*tls.server);
    let Some(mut stream) = security::accept(stream, server).await else { return };
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        match http1::request(&buffer) {
            Ok(Some(request)) => {
                let reaction = inner.handle(&request);
                let (length, keep_alive) = (request.length, request.keep_alive);
                if let Some(delay) = inner.delay() {
                    tokio::time::sleep(delay).await;
                }
                if answer(&mut stream, reaction.status).await.is_err() {
                    // The hub sees no answer and repeats the message; its content is still true.
                    inner.react(reaction);
                    return;
                }
                inner.react(reaction);
                if !keep_alive {
                    return;
                }
                buffer.drain(..length);
            }
            Ok(None) => {
                buffer.reserve(READ_BYTES);
                match stream.read_buf(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
            Err(_) => return,
        }
    }
}

/// One write, without waiting when the socket takes it all, as it nearly always does.
async fn answer(stream: &mut Wire, status: Status) -> io::Result<()> {
    let text = status.text();
    if let Wire::Plain(stream) = stream
        && stream.try_write(text).is_ok_and(|written| written == text.len())
    {
        return Ok(());
    }
    stream.write_all(text).await?;
    stream.flush().await
}

impl Inner {
    fn delay(&self) -> Option<Duration> {
        match self.state.borrow().behaviour {
            Behaviour::Slow(delay) => Some(delay),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expirations_fill_their_stretch_evenly() {
        let expiry = Expiry { from_millis: 5_000, millis: 1_000 };
        for count in [10, 250, 12_345] {
            let late = (0..count).filter(|number| expiry.of(*number) >= 5_500).count() as u64;
            assert!((0..count).all(|number| (5_000..6_000).contains(&expiry.of(number))));
            assert!(late.abs_diff(count / 2) <= 2, "{late} of {count} in the second half");
        }
        assert_eq!(Expiry { millis: 0, ..expiry }.of(77), 5_000);
    }
}
