//! The workload of recorded quotes and requests to pay: participants request quotes and payments,
//! answer them, and make transfers that are bound to a quote.
//!
//! Messages are repeated, changed, late, or by an FSP that is not a party. Transfers have the terms
//! of the offer or others, in time or not. The model predicts the outcome of each.
//!
//! The workload exists in some runs only, and has its own RNG stream. A run without it is the same,
//! event for event, as before the workload existed.

use ledger::{
    Command, Digest, Fulfil, FulfilState, Fulfilment, QuoteContent, QuoteOffer, RecordQuote,
    RecordQuoteAnswer, RecordRequestToPay, RequestState, RequestStatus, RequestStep, RequestTerms,
    TransferId,
};
use sha2::{Digest as _, Sha256};

use crate::event::Event;
use crate::random::{Arrivals, Random, mix, spread16, spread32};
use crate::simulation::SimulationRun;

/// Separates the RNG stream of this workload from that of the run. With this number, no seed that
/// had found a bug before gets the workload, so those seeds still find it.
const STREAM: u64 = 0x7175_6f74_6577;
/// Runs with this workload, in a thousand.
const PER_MILLE: u32 = 300;
/// Only the newest quotes and requests are continued.
const NEWEST: usize = 4;

/// A quote or a request to pay that was sent.
#[derive(Clone, Copy, Debug)]
struct Correspondence {
    id: TransferId,
    /// The transaction of a quote.
    transaction: TransferId,
    from: u8,
    to: u8,
    expiration_ms: Option<u64>,
    keep_until_ms: u64,
}

/// The quotes and the requests to pay of a run.
#[derive(Debug)]
pub(crate) struct QuoteWorkload {
    random: Random,
    pub(crate) arrivals: Arrivals,
    quotes: Vec<Correspondence>,
    requests: Vec<Correspondence>,
}

impl QuoteWorkload {
    pub(crate) fn new(seed: u64, chaos_us: u64) -> Self {
        let mut random = Random::new(mix(seed ^ STREAM));
        let arrivals = Arrivals::draw(&mut random, PER_MILLE, (40, 160), chaos_us);
        Self { random, arrivals, quotes: Vec::new(), requests: Vec::new() }
    }

    /// One of the newest.
    fn pick(random: &mut Random, all: &[Correspondence]) -> Option<Correspondence> {
        let newest = &all[all.len().saturating_sub(NEWEST)..];
        newest.get(random.below(NEWEST as u64) as usize).copied()
    }

    /// The digest of a message's body: one of two for each id and kind of message.
    fn hash(&mut self, id: TransferId, kind: u8) -> Digest {
        let variant = u8::from(self.random.chance(150));
        let mut digest = Digest([kind; 32]);
        digest.0[..17].copy_from_slice(&id.to_bytes());
        digest.0[31] = variant;
        digest
    }
}

impl SimulationRun {
    /// Schedules the next act, if the run has this workload.
    pub(crate) fn schedule_quotes(&mut self) {
        if let Some(wait) = self.quote_workload.arrivals.next(&mut self.quote_workload.random) {
            self.env.after(wait, Event::Quotes);
        }
    }

    /// The next message about a quote or a request to pay.
    pub(crate) fn run_quote_step(&mut self) {
        if self.env.calm {
            return;
        }
        let QuoteWorkload { random, quotes, requests, .. } = &mut self.quote_workload;
        let step = random.below(12);
        let quote = QuoteWorkload::pick(random, quotes);
        let request = QuoteWorkload::pick(random, requests);
        let sent = match (step, quote, request) {
            (0..2, ..) => Some(self.new_quote()),
            (2, Some(quote), _) => Some(self.request_quote(quote)),
            (3..6, Some(quote), _) => Some(self.answer_quote(quote)),
            (6 | 7, Some(quote), _) => Some(self.pay_quote(quote)),
            (8, Some(quote), _) => Some(self.fulfil_quote(quote)),
            (9, ..) => Some(self.new_request()),
            (10, _, Some(request)) => Some(self.request_payment(request)),
            (11, _, Some(request)) => Some(self.answer_request(request)),
            _ => None,
        };
        if let Some((from, command)) = sent {
            self.send_unplanned(from, command);
        }
        self.schedule_quotes();
    }

    fn new_correspondence(&mut self) -> Correspondence {
        let (id, transaction) =
            (self.outcome_workload.fresh_id(), self.outcome_workload.fresh_id());
        let (fsps, now_ms) = (u64::from(self.env.parameters.fsps), self.env.true_ms());
        let random = &mut self.quote_workload.random;
        let from = random.below(fsps) as u8;
        let to = ((u64::from(from) + 1 + random.below(fsps - 1)) % fsps) as u8;
        let expiration_ms = random.chance(600).then(|| now_ms + random.between((1, 3_000)));
        let keep_until_ms = now_ms + random.between((1, 30_000));
        Correspondence { id, transaction, from, to, expiration_ms, keep_until_ms }
    }

    fn new_quote(&mut self) -> (u8, Command) {
        let quote = self.new_correspondence();
        self.quote_workload.quotes.push(quote);
        self.request_quote(quote)
    }

    fn request_quote(&mut self, quote: Correspondence) -> (u8, Command) {
        let command = RecordQuote {
            quote: quote.id,
            transaction: quote.transaction,
            source: self.actors.name(quote.from),
            destination: self.actors.name(quote.to),
            expiration_ms: quote.expiration_ms,
            keep_until_ms: quote.keep_until_ms,
            hash: self.quote_workload.hash(quote.id, 1),
            trace: spread16(self.quote_workload.random.next()),
            request: None,
        };
        (quote.from, Command::RecordQuote(Box::new(command)))
    }

    /// The asked FSP answers, or another one does.
    fn answer_quote(&mut self, quote: Correspondence) -> (u8, Command) {
        let now_ms = self.env.true_ms();
        let random = &mut self.quote_workload.random;
        let from = if random.chance(100) { quote.from } else { quote.to };
        let offer =
            QuoteOffer { terms: terms_of(quote), expiration_ms: now_ms + random.below(2_000) };
        let content = match random.chance(100) {
            true => QuoteContent::Error,
            false => QuoteContent::Offer(offer),
        };
        let command = RecordQuoteAnswer {
            quote: quote.id,
            source: self.actors.name(from),
            content,
            hash: self.quote_workload.hash(quote.id, 2),
            trace: spread16(self.quote_workload.random.next()),
        };
        (from, Command::RecordQuoteAnswer(Box::new(command)))
    }

    /// The transfer of the quote's transaction, by its terms or by others.
    fn pay_quote(&mut self, quote: Correspondence) -> (u8, Command) {
        let parties = (self.actors.name(quote.from), self.actors.name(quote.to));
        let mut command = self.unplanned_prepare(parties, self.actors.currency(0));
        let random = &mut self.quote_workload.random;
        if let Command::Prepare(prepare) = &mut command {
            prepare.id = quote.transaction;
            prepare.condition = Sha256::digest(preimage_of(quote)).into();
            prepare.hash = Digest([3; 32]);
            let is_other = random.chance(150);
            let other = Digest(spread32(random.next()));
            prepare.quote_terms = Some(if is_other { other } else { terms_of(quote) });
        }
        (quote.from, command)
    }

    fn fulfil_quote(&mut self, quote: Correspondence) -> (u8, Command) {
        let fulfil = Fulfil {
            id: quote.transaction,
            source: self.actors.name(quote.to),
            destination: Some(self.actors.name(quote.from)),
            state: FulfilState::Committed,
            fulfilment: Fulfilment::Present(preimage_of(quote)),
            hash: Digest([4; 32]),
            trace: spread16(self.quote_workload.random.next()),
        };
        (quote.to, Command::Fulfil(Box::new(fulfil)))
    }

    fn new_request(&mut self) -> (u8, Command) {
        let request = self.new_correspondence();
        self.quote_workload.requests.push(request);
        self.request_payment(request)
    }

    fn request_payment(&mut self, request: Correspondence) -> (u8, Command) {
        let terms = RequestTerms {
            destination: self.actors.name(request.to),
            expiration_ms: request.expiration_ms,
            keep_until_ms: request.keep_until_ms,
        };
        (request.from, self.request_step(request, (request.from, 1), RequestStep::Requested(terms)))
    }

    /// The asked FSP answers, or another one does.
    fn answer_request(&mut self, request: Correspondence) -> (u8, Command) {
        use RequestState::*;
        let random = &mut self.quote_workload.random;
        let from = if random.chance(100) { request.from } else { request.to };
        let state = random.pick(&[Received, Pending, Accepted, Rejected]);
        let transaction = random.chance(500).then_some(request.transaction);
        let (step, kind) = match random.chance(100) {
            true => (RequestStep::Failed, 2),
            false => {
                let status = RequestStatus { state, transaction };
                (RequestStep::Answered(status), 3 + state as u8)
            }
        };
        (from, self.request_step(request, (from, kind), step))
    }

    fn request_step(
        &mut self,
        request: Correspondence,
        (from, kind): (u8, u8),
        step: RequestStep,
    ) -> Command {
        let source = self.actors.name(from);
        let hash = self.quote_workload.hash(request.id, kind);
        let trace = spread16(self.quote_workload.random.next());
        let command = RecordRequestToPay { request: request.id, source, step, hash, trace };
        Command::RecordRequestToPay(Box::new(command))
    }
}

/// The digest of the terms that the payee offers.
fn terms_of(quote: Correspondence) -> Digest {
    Digest(spread32(mix(u64::from(quote.from) ^ quote.keep_until_ms)))
}

fn preimage_of(quote: Correspondence) -> [u8; 32] {
    spread32(mix(quote.keep_until_ms))
}
