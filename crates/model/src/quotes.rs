//! The model of recorded quotes, as `docs/quotes.md` has them.

use std::collections::HashMap;

use ledger::{
    Digest, FspName, Outcome, Prepare, QuoteContent, RecordQuote, RecordQuoteAnswer, State,
    TransferId,
};

use super::Model;

/// A request for a quote, and its answer with the record of it.
#[derive(Clone, Debug)]
struct KnownQuote {
    id: TransferId,
    source: FspName,
    destination: FspName,
    hash: Digest,
    record: u64,
    expiration_ms: Option<u64>,
    keep_until_ms: u64,
    answer: Option<(u64, Digest, QuoteContent)>,
    transaction: TransferId,
}

/// Number of old quotes that one request can remove.
const REMOVED_AT_ONCE: usize = 16;

/// The quotes that the hub has, oldest first. Those before `first` are removed.
#[derive(Clone, Debug, Default)]
pub(super) struct Quotes {
    all: Vec<KnownQuote>,
    first: usize,
    by_id: HashMap<TransferId, usize>,
}

impl Quotes {
    pub(super) fn compare(&self, state: &State) {
        let known = &self.all[self.first..];
        assert_eq!(state.quote_count(), known.len(), "number of quotes");
        for (actual, known) in state.quotes().zip(known) {
            let answer = actual.answer.map(|it| (it.record.0, it.hash, it.content));
            assert_eq!((actual.id, actual.request.0), (known.id, known.record));
            assert_eq!((actual.hash, answer), (known.hash, known.answer), "{}", known.id);
            assert_eq!(state.quote(&known.id), Some(actual), "the quote is found by its id");
        }
    }

    fn find(&mut self, id: &TransferId) -> Option<&mut KnownQuote> {
        self.by_id.get(id).map(|at| &mut self.all[*at])
    }
}

impl Model {
    /// Why a transfer does not fit the quotes of its transaction.
    pub(super) fn quote_fault(&self, prepare: &Prepare) -> Option<Outcome> {
        let terms = prepare.quote_terms?;
        let Quotes { all, first, .. } = &self.quotes;
        let of_transaction = all[*first..].iter().filter(|it| it.transaction == prepare.id);
        let offers = of_transaction.filter_map(|it| match it.answer? {
            (_, _, QuoteContent::Offer(offer)) => Some((it, offer)),
            (_, _, QuoteContent::Error) => None,
        });
        let offers: Vec<_> = offers.collect();
        let parties = (prepare.payer, prepare.payee);
        let mut agreeing = offers
            .iter()
            .filter(|(it, offer)| offer.terms == terms && (it.source, it.destination) == parties);
        let ends: Vec<_> = agreeing.by_ref().map(|(_, offer)| offer.expiration_ms).collect();
        match ends.iter().max() {
            Some(end) if *end > self.stamp.millis() => None,
            Some(_) => Some(Outcome::QuoteExpired),
            None if offers.is_empty() => Some(Outcome::QuoteNotFound),
            None => Some(Outcome::PrepareDiffersFromQuote),
        }
    }

    pub(super) fn record_quote(&mut self, quote: &RecordQuote) -> Outcome {
        let parties = [quote.source, quote.destination].map(|name| self.scheme.sender(&name));
        let [Some(source), Some(destination)] = parties else { return Outcome::SenderNotFound };
        if let Some(known) = self.quotes.find(&quote.quote) {
            let same = (known.source, known.destination, known.hash);
            return match same == (source, destination, quote.hash) {
                true => Outcome::Accepted,
                false => Outcome::QuoteModified,
            };
        }
        let now_ms = self.stamp.millis();
        if quote.expiration_ms.is_some_and(|end| end <= now_ms) {
            return Outcome::QuoteExpired;
        }
        let Quotes { all, first, by_id } = &mut self.quotes;
        let old = all[*first..].iter().take(REMOVED_AT_ONCE);
        let old = old.take_while(|known| known.keep_until_ms <= now_ms);
        let old: Vec<_> = old.map(|known| known.id).collect();
        *first += old.len();
        old.iter().for_each(|id| {
            by_id.remove(id);
        });
        by_id.insert(quote.quote, all.len());
        all.push(KnownQuote {
            id: quote.quote,
            source,
            destination,
            hash: quote.hash,
            record: self.log_index,
            expiration_ms: quote.expiration_ms,
            keep_until_ms: quote.keep_until_ms,
            answer: None,
            transaction: quote.transaction,
        });
        Outcome::Accepted
    }

    pub(super) fn record_quote_answer(&mut self, answer: &RecordQuoteAnswer) -> Outcome {
        let source = self.scheme.sender(&answer.source);
        let (now_ms, record) = (self.stamp.millis(), self.log_index);
        let known = self.quotes.find(&answer.quote);
        let Some(known) = known.filter(|known| Some(known.destination) == source) else {
            return Outcome::QuoteNotFound;
        };
        if let Some((_, hash, content)) = known.answer {
            return match (hash, content) == (answer.hash, answer.content) {
                true => Outcome::Accepted,
                false => Outcome::QuoteModified,
            };
        }
        if known.expiration_ms.is_some_and(|end| end <= now_ms) {
            return Outcome::QuoteExpired;
        }
        known.answer = Some((record, answer.hash, answer.content));
        Outcome::Accepted
    }
}
