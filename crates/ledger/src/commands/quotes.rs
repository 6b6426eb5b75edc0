//! `POST /quotes`, `PUT /quotes/{id}` and `PUT /quotes/{id}/error`, in schemes that record them.

use crate::command::{RecordQuote, RecordQuoteAnswer};
use crate::context::{Context, Decide};
use crate::outcome::QuoteOutcome;
use crate::quotes::{QuoteAnswer, QuoteRow};

/// A resend is accepted at any time, so that it is forwarded again.
impl Decide for RecordQuote {
    type Outcome = QuoteOutcome;

    fn decide(&self, context: &mut Context<'_>) -> QuoteOutcome {
        let (request, state) = (context.log_index, &mut *context.state);
        let now_ms = state.stamp.millis();
        // The edge forwards messages between known participants only.
        let [source, destination] =
            [self.source, self.destination].map(|name| state.registry.sender(&name));
        let (Some(source), Some(destination)) = (source, destination) else {
            return QuoteOutcome::SenderNotFound;
        };
        if let Some(known) = state.quotes.find(&self.quote) {
            let parties = (known.source, known.destination);
            return match known.hash == self.hash && parties == (source, destination) {
                true => QuoteOutcome::Accepted,
                false => QuoteOutcome::QuoteModified,
            };
        }
        let row = QuoteRow {
            id: self.quote,
            transaction: self.transaction,
            source,
            destination,
            hash: self.hash,
            request,
            expiration_ms: self.expiration_ms,
            keep_until_ms: self.keep_until_ms,
            answer: None,
        };
        if row.has_expired(now_ms) {
            return QuoteOutcome::QuoteExpired;
        }
        state.quotes.make_room(now_ms);
        state.quotes.insert(row);
        QuoteOutcome::Accepted
    }
}

impl Decide for RecordQuoteAnswer {
    type Outcome = QuoteOutcome;

    fn decide(&self, context: &mut Context<'_>) -> QuoteOutcome {
        let (record, state) = (context.log_index, &mut *context.state);
        let source = state.registry.sender(&self.source);
        let known = state.quotes.find(&self.quote);
        let Some(known) = known.filter(|row| Some(row.destination) == source) else {
            return QuoteOutcome::QuoteNotFound;
        };
        let answer = QuoteAnswer { record, hash: self.hash, content: self.content };
        if let Some(taken) = known.answer {
            let is_same = QuoteAnswer { record, ..taken } == answer;
            return if is_same { QuoteOutcome::Accepted } else { QuoteOutcome::QuoteModified };
        }
        if known.has_expired(state.stamp.millis()) {
            return QuoteOutcome::QuoteExpired;
        }
        state.quotes.answer(&self.quote, answer);
        QuoteOutcome::Accepted
    }
}
