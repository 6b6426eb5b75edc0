//! The payer: each transaction is a table row that callbacks advance.
//!
//! Look-up, quote, transfer. A look-up's callback is matched by the trace id, the other ones by the
//! id in the path. Deadlines are in order of start, so finding expired ones has no cost per
//! transaction.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use ledger::{Amount, FspName, TransferId};
use tokio::sync::oneshot;

use crate::behaviour::Leg;
use crate::ids::{Ids, TransactionId, sequence_of};

/// The part of a transaction that a payment runs. The other parts have no cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaymentFlow {
    /// Look-up, quote and transfer, each based on the previous response.
    #[default]
    Whole,
    /// The look-up alone: `GET /parties` to the party's callback.
    Lookup,
    /// The quote alone, from this FSP: `POST /quotes` to the quote's callback.
    Quote(FspName),
    /// The transfer alone, to this FSP: `POST /transfers` to the commit notice.
    Transfer(FspName),
    /// The prepare alone, to this FSP: `POST /transfers` until the payee has received it.
    Prepare(FspName),
    /// A bulk of this many transfers, to this FSP: `POST /bulkTransfers` to the result.
    Bulk(FspName, u16),
    /// The fulfilment alone, from this FSP: a transfer that the payee has received and holds, from
    /// [`Simulator::resume`](crate::Simulator::resume) to the commit notice.
    Fulfil(FspName),
}

/// One payment that an FSP makes.
#[derive(Clone, Copy, Debug)]
pub struct Payment {
    /// The part of a transaction that is run.
    pub flow: PaymentFlow,
    /// The paying subscriber's number.
    pub payer_msisdn: u64,
    /// The number to look up and pay to.
    pub payee_msisdn: u64,
    /// The amount sent.
    pub amount: Amount,
    /// The intended start. The total time counts from here.
    pub intended: Instant,
}

/// The result of a transaction, as observed by the payer.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The transfer's id, from which the trace id follows.
    pub transfer: TransferId,
    /// The requested payment.
    pub payment: Payment,
    /// The actual start.
    pub started: Instant,
    /// From the actual start to the 202 response to the first message.
    pub accepted: Option<Duration>,
    /// From the start to the party's callback.
    pub lookup: Option<Duration>,
    /// From there to the quote's callback.
    pub quote: Option<Duration>,
    /// From the actual start until the payee's call, for a bulk.
    pub payee_called: Option<Duration>,
    /// From there to the commit notice.
    pub transfer_time: Option<Duration>,
    /// From the intended start to the end.
    pub whole: Duration,
    /// Its end.
    pub end: End,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The hub committed the transfer with a correct fulfilment.
    Committed,
    /// A flow without a commit was completed.
    Reached,
    /// It failed in this leg.
    Failed(Leg, Cause),
}

/// The cause of a failed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The hub refused the request with this HTTP status.
    Refused(u16),
    /// The hub sent no successful response to any attempt, or the queue to it is full.
    Unsent,
    /// Connections to the hub could not be opened.
    Unreachable,
    /// An error callback with this FSPIOP code (0 when unreadable).
    Error(u16),
    /// The hub reported ABORTED.
    Aborted,
    /// No callback in time.
    TimedOut,
    /// The callback cannot be read.
    Malformed,
    /// The response or callback does not match the request: another party, amount or status; see
    /// [`Observations::wrong`](crate::Observations::wrong).
    WrongAnswer,
    /// The transfer is committed with a fulfilment that does not meet the condition.
    WrongFulfilment,
}

/// The receiver of the outcome.
pub(crate) enum Completion {
    Observer,
    Caller(oneshot::Sender<Outcome>),
}

/// A transaction in flight.
pub(crate) struct Transaction {
    pub(crate) id: TransactionId,
    pub(crate) payment: Payment,
    pub(crate) leg: Leg,
    pub(crate) payee: FspName,
    pub(crate) condition: [u8; 32],
    /// The leg in which the hub accepted a message with a wrong status. The transaction can only
    /// fail.
    pub(crate) wrong: Option<Leg>,
    started: Instant,
    leg_started: Instant,
    /// `None` while the payee holds the transfer and no deadline applies.
    deadline: Option<Instant>,
    accepted: Option<Duration>,
    lookup: Option<Duration>,
    quote: Option<Duration>,
    payee_called: Option<Duration>,
    completion: Completion,
}

/// All transactions in flight of one FSP.
pub(crate) struct Payer {
    ids: Ids,
    transactions: HashMap<u64, Transaction>,
    deadlines: VecDeque<(Instant, u64)>,
    patience: Duration,
    /// Look-ups and quotes in the order of their requests; `None` if requests are not repeated.
    asked: Option<VecDeque<(Instant, u64, Leg)>>,
}

impl Payer {
    pub(crate) fn new(seed: u64, patience: Duration, asks_again: bool) -> Self {
        Self {
            asked: asks_again.then(VecDeque::new),
            ids: Ids::new(seed),
            transactions: HashMap::new(),
            deadlines: VecDeque::new(),
            patience,
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.transactions.len()
    }

    /// Opens a row for a payment that starts now.
    pub(crate) fn begin(
        &mut self,
        payment: Payment,
        completion: Completion,
        now_millis: u64,
    ) -> TransactionId {
        let now = Instant::now();
        let id = self.ids.next(now_millis);
        self.ids.issue_items(payment.flow.items());
        let transaction = Transaction {
            id,
            payment,
            leg: payment.flow.first_leg(),
            payee: payment.flow.payee(),
            condition: [0; 32],
            wrong: None,
            started: now,
            leg_started: now,
            deadline: Some(now + self.patience),
            accepted: None,
            lookup: None,
            quote: None,
            payee_called: None,
            completion,
        };
        self.transactions.insert(id.sequence(), transaction);
        self.deadlines.push_back((now + self.patience, id.sequence()));
        self.note_asked(id.sequence(), payment.flow.first_leg());
        id
    }

    fn note_asked(&mut self, sequence: u64, leg: Leg) {
        if let Some(asked) = self.asked.as_mut().filter(|_| leg != Leg::Transfer) {
            asked.push_back((Instant::now(), sequence, leg));
        }
    }

    /// Continues with the quote of a transaction, at the FSP that the look-up named.
    pub(crate) fn found(&mut self, sequence: u64, payee: FspName) {
        self.numbered(sequence).into_iter().for_each(|transaction| transaction.found(payee));
        self.note_asked(sequence, Leg::Quote);
    }

    /// Returns a look-up or quote that was requested before `until` and is still open, and counts
    /// it as requested again now.
    pub(crate) fn next_overdue(&mut self, until: Instant) -> Option<(TransactionId, Leg)> {
        loop {
            let asked = self.asked.as_mut()?;
            let (_, sequence, leg) = asked.pop_front_if(|(at, ..)| *at <= until)?;
            let transaction = self.transactions.get(&sequence);
            if let Some(transaction) = transaction.filter(|waiting| waiting.leg == leg) {
                let id = transaction.id;
                self.note_asked(sequence, leg);
                return Some((id, leg));
            }
        }
    }

    /// The transaction that waits in `leg` for this id.
    pub(crate) fn waiting(&mut self, id: TransferId, leg: Leg) -> Option<&mut Transaction> {
        let transaction = self.transactions.get_mut(&(sequence_of(id) & 0xff_ffff_ffff))?;
        let expected = match leg {
            Leg::Quote => transaction.id.quote(),
            Leg::Lookup | Leg::Transfer => transaction.id.transfer(),
        };
        (transaction.leg == leg && expected == id).then_some(transaction)
    }

    /// Whether this payer began a transaction with this id, even if it has ended.
    pub(crate) fn knew(&self, id: TransferId) -> bool {
        self.ids.issued(id)
    }

    /// The transaction with this sequence number, in any leg.
    pub(crate) fn numbered(&mut self, sequence: u64) -> Option<&mut Transaction> {
        self.transactions.get_mut(&sequence)
    }

    /// The oldest transaction that looks up this number. Only for hubs that drop the trace: it
    /// scans all rows.
    pub(crate) fn looking_up(&mut self, msisdn: u64) -> Option<&mut Transaction> {
        let candidates = self.transactions.values_mut().filter(|transaction| {
            transaction.leg == Leg::Lookup && transaction.payment.payee_msisdn == msisdn
        });
        candidates.min_by_key(|transaction| transaction.id.sequence())
    }

    /// Ends a transaction.
    pub(crate) fn end(&mut self, sequence: u64, end: End) -> Option<(Outcome, Completion)> {
        let transaction = self.transactions.remove(&sequence)?;
        let now = Instant::now();
        let committed = end == End::Committed;
        let end = match transaction.wrong {
            Some(leg) if end.is_good() => End::Failed(leg, Cause::WrongAnswer),
            _ => end,
        };
        let outcome = Outcome {
            transfer: transaction.id.transfer(),
            payment: transaction.payment,
            started: transaction.started,
            accepted: transaction.accepted,
            lookup: transaction.lookup,
            quote: transaction.quote,
            payee_called: transaction.payee_called,
            transfer_time: committed.then(|| now - transaction.leg_started),
            whole: now.saturating_duration_since(transaction.payment.intended),
            end,
        };
        Some((outcome, transaction.completion))
    }

    /// Ends the next transaction whose deadline has passed, if any.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<(Outcome, Completion)> {
        while self.deadlines.front().is_some_and(|&(deadline, _)| deadline <= now) {
            let (_, sequence) = self.deadlines.pop_front()?;
            let Some(transaction) = self.transactions.get(&sequence) else { continue };
            // A held transaction that was resumed has a later entry.
            if transaction.deadline.is_some_and(|deadline| deadline <= now) {
                let leg = transaction.leg;
                return self.end(sequence, End::Failed(leg, Cause::TimedOut));
            }
        }
        None
    }

    /// The payee has received this transfer or bulk: a prepare ends, a fulfilment is held from now
    /// on.
    pub(crate) fn received(
        &mut self,
        id: TransferId,
        at: Instant,
    ) -> Option<(Outcome, Completion)> {
        let transaction = self.waiting(id, Leg::Transfer)?;
        match transaction.payment.flow {
            PaymentFlow::Prepare(_) => {
                let sequence = transaction.id.sequence();
                self.end(sequence, End::Reached)
            }
            PaymentFlow::Fulfil(_) => {
                transaction.deadline = None;
                None
            }
            PaymentFlow::Bulk(..) => {
                let called = at.saturating_duration_since(transaction.started);
                transaction.payee_called.get_or_insert(called);
                None
            }
            PaymentFlow::Whole
            | PaymentFlow::Lookup
            | PaymentFlow::Quote(_)
            | PaymentFlow::Transfer(_) => None,
        }
    }

    /// The payee answers a held transfer now. Returns whether it was held.
    pub(crate) fn resume(&mut self, id: TransferId, intended: Instant) -> bool {
        let now = Instant::now();
        let deadline = now + self.patience;
        let held = self.waiting(id, Leg::Transfer).filter(|held| held.deadline.is_none());
        let Some(transaction) = held else { return false };
        transaction.deadline = Some(deadline);
        transaction.payment.intended = intended;
        transaction.started = now;
        transaction.leg_started = now;
        transaction.accepted = None;
        let sequence = transaction.id.sequence();
        self.deadlines.push_back((deadline, sequence));
        true
    }
}

impl PaymentFlow {
    /// The leg that it starts with.
    #[must_use]
    pub const fn first_leg(self) -> Leg {
        match self {
            Self::Whole | Self::Lookup => Leg::Lookup,
            Self::Quote(_) => Leg::Quote,
            Self::Transfer(_) | Self::Prepare(_) | Self::Fulfil(_) | Self::Bulk(..) => {
                Leg::Transfer
            }
        }
    }

    /// The items of a bulk; none for other flows.
    pub(crate) const fn items(self) -> u16 {
        match self {
            Self::Bulk(_, items) => items,
            _ => 0,
        }
    }

    /// The payee's FSP, if known before the look-up.
    fn payee(self) -> FspName {
        match self {
            Self::Quote(payee)
            | Self::Transfer(payee)
            | Self::Prepare(payee)
            | Self::Fulfil(payee)
            | Self::Bulk(payee, _) => payee,
            Self::Whole | Self::Lookup => FspName::new("?").expect("one byte is a name"),
        }
    }
}

impl End {
    /// Whether it ended successfully.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Committed | Self::Reached)
    }
}

impl Transaction {
    fn found(&mut self, payee: FspName) {
        self.payee = payee;
        self.leg = Leg::Quote;
        self.lookup = Some(self.lap());
    }

    /// Continues with the transfer under the quote's condition.
    pub(crate) fn quoted(&mut self, condition: [u8; 32]) {
        self.condition = condition;
        self.leg = Leg::Transfer;
        self.quote = Some(self.lap());
    }

    /// Starts now: its message is written, and is sent next.
    pub(crate) fn restart(&mut self) {
        let now = Instant::now();
        (self.started, self.leg_started) = (now, now);
    }

    /// The transfers that it consists of.
    pub(crate) fn transfers(&self) -> impl Iterator<Item = TransferId> + use<> {
        let (id, items) = (self.id, self.payment.flow.items());
        let single = (items == 0).then(|| id.transfer());
        single.into_iter().chain((1..=items).map(move |number| id.item(number)))
    }

    /// The hub has accepted a message. Only the first time counts.
    pub(crate) fn accepted(&mut self) {
        if self.accepted.is_none() {
            self.accepted = Some(self.started.elapsed());
        }
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now - self.leg_started;
        self.leg_started = now;
        lap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payment() -> Payment {
        Payment {
            flow: PaymentFlow::Whole,
            payer_msisdn: 1,
            payee_msisdn: 2,
            amount: Amount::from_units(10_000),
            intended: Instant::now(),
        }
    }

    #[test]
    fn callback_advances_only_the_waiting_transaction() {
        let mut payer = Payer::new(7, Duration::from_secs(30), true);
        let id = payer.begin(payment(), Completion::Observer, 1_000);
        let other = payer.begin(payment(), Completion::Observer, 1_000);
        assert!(payer.waiting(id.quote(), Leg::Quote).is_none(), "still looking up");
        let looking_up = payer.looking_up(2).expect("two wait").id.sequence();
        payer.found(looking_up, FspName::new("b").expect("a name"));
        assert!(payer.waiting(id.quote(), Leg::Quote).is_some());
        assert!(payer.waiting(other.quote(), Leg::Quote).is_none());
        assert!(payer.waiting(id.transfer(), Leg::Quote).is_none());
        let (outcome, _) = payer.end(id.sequence(), End::Committed).expect("in flight");
        assert_eq!(outcome.transfer, id.transfer());
        assert!(payer.end(id.sequence(), End::Committed).is_none());
        assert_eq!(payer.in_flight(), 1);
    }

    #[test]
    fn unanswered_request_is_repeated_until_its_callback() {
        let mut payer = Payer::new(7, Duration::from_secs(30), true);
        let id = payer.begin(payment(), Completion::Observer, 1_000);
        assert_eq!(payer.next_overdue(Instant::now()), Some((id, Leg::Lookup)));
        payer.found(id.sequence(), FspName::new("b").expect("a name"));
        let now = Instant::now();
        assert_eq!(payer.next_overdue(now), Some((id, Leg::Quote)), "and not the look-up");
        assert_eq!(payer.next_overdue(now), None, "just requested");
        payer.numbered(id.sequence()).expect("in flight").quoted([0; 32]);
        assert_eq!(payer.next_overdue(Instant::now()), None, "a transfer is never repeated");
    }

    #[test]
    fn deadline_ends_a_waiting_transaction_in_its_leg() {
        let mut payer = Payer::new(7, Duration::from_secs(30), true);
        let ended = payer.begin(payment(), Completion::Observer, 1_000);
        let hung = payer.begin(payment(), Completion::Observer, 1_000);
        payer.end(ended.sequence(), End::Committed);
        let now = Instant::now();
        assert!(payer.expire(now).is_none());
        let (outcome, _) = payer.expire(now + Duration::from_secs(31)).expect("one hangs");
        assert_eq!(outcome.transfer, hung.transfer());
        assert_eq!(outcome.end, End::Failed(Leg::Lookup, Cause::TimedOut));
        assert!(payer.expire(now + Duration::from_secs(31)).is_none());
    }
}
