//! `POST /transactionRequests`, `PUT /transactionRequests/{id}` and
//! `PUT /transactionRequests/{id}/error`, in schemes that record quotes.

use crate::command::RecordRequestToPay;
use crate::context::{Context, Decide};
use crate::outcome::TransactionRequestOutcome;
use crate::request_content::{RequestStatus, RequestStep, RequestTerms};
use crate::transaction_requests::{TransactionRequestAnswer, TransactionRequestRow};

/// A resend is accepted at any time, so that it is forwarded again.
impl Decide for RecordRequestToPay {
    type Outcome = TransactionRequestOutcome;

    fn decide(&self, context: &mut Context<'_>) -> TransactionRequestOutcome {
        match self.step {
            RequestStep::Requested(terms) => self.request(&terms, context),
            RequestStep::Answered(status) => self.answer(Some(status), context),
            RequestStep::Failed => self.answer(None, context),
        }
    }
}

impl RecordRequestToPay {
    fn request(
        &self,
        terms: &RequestTerms,
        context: &mut Context<'_>,
    ) -> TransactionRequestOutcome {
        let (request, state) = (context.log_index, &mut *context.state);
        let now_ms = state.stamp.millis();
        // The edge forwards messages between known participants only.
        let [source, destination] =
            [self.source, terms.destination].map(|name| state.registry.sender(&name));
        let (Some(source), Some(destination)) = (source, destination) else {
            return TransactionRequestOutcome::SenderNotFound;
        };
        if let Some(known) = state.requests.find(&self.request) {
            let parties = (known.source, known.destination);
            return match known.hash == self.hash && parties == (source, destination) {
                true => TransactionRequestOutcome::Accepted,
                false => TransactionRequestOutcome::TransactionRequestModified,
            };
        }
        let row = TransactionRequestRow {
            id: self.request,
            source,
            destination,
            hash: self.hash,
            request,
            expiration_ms: terms.expiration_ms,
            keep_until_ms: terms.keep_until_ms,
            answer: None,
        };
        if row.has_expired(now_ms) {
            return TransactionRequestOutcome::TransactionRequestExpired;
        }
        state.requests.make_room(now_ms);
        state.requests.insert(row);
        TransactionRequestOutcome::Accepted
    }

    /// Takes an answer of the FSP that was asked. A final one is the last.
    fn answer(
        &self,
        status: Option<RequestStatus>,
        context: &mut Context<'_>,
    ) -> TransactionRequestOutcome {
        let (record, state) = (context.log_index, &mut *context.state);
        let source = state.registry.sender(&self.source);
        let known = state.requests.find(&self.request);
        let Some(known) = known.filter(|row| Some(row.destination) == source) else {
            return TransactionRequestOutcome::TransactionRequestNotFound;
        };
        let answer = TransactionRequestAnswer { record, hash: self.hash, status };
        if let Some(taken) = known.answer {
            let is_same = TransactionRequestAnswer { record, ..taken } == answer;
            match (is_same, taken.is_final()) {
                (true, _) => return TransactionRequestOutcome::Accepted,
                (false, true) => return TransactionRequestOutcome::TransactionRequestModified,
                (false, false) => {}
            }
        }
        if known.has_expired(state.stamp.millis()) {
            return TransactionRequestOutcome::TransactionRequestExpired;
        }
        state.requests.answer(&self.request, answer);
        TransactionRequestOutcome::Accepted
    }
}
