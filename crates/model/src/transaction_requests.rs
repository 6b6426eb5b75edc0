//! The model of recorded transaction requests, as `docs/quotes.md` has them.

use ledger::{
    Digest, FspName, Outcome, RecordRequestToPay, RequestState, RequestStatus, RequestStep, State,
    TransferId,
};

use super::Model;

/// A request, and its last answer with the record of it.
#[derive(Clone, Debug)]
struct KnownRequest {
    id: TransferId,
    parties: (FspName, FspName),
    hash: Digest,
    record: u64,
    expiration_ms: Option<u64>,
    keep_until_ms: u64,
    answer: Option<(u64, Digest, Option<RequestStatus>)>,
}

/// Number of old requests that one request can remove.
const REMOVED_AT_ONCE: usize = 16;

/// The requests that the hub has, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionRequests(Vec<KnownRequest>);

impl TransactionRequests {
    pub(super) fn compare(&self, state: &State) {
        assert_eq!(state.transaction_request_count(), self.0.len(), "number of requests");
        for (actual, known) in state.transaction_requests().zip(&self.0) {
            let answer = actual.answer.map(|it| (it.record.0, it.hash, it.status));
            assert_eq!((actual.id, actual.request.0), (known.id, known.record));
            assert_eq!((actual.hash, answer), (known.hash, known.answer), "{}", known.id);
            assert_eq!(state.transaction_request(&known.id), Some(actual), "found by its id");
        }
    }
}

impl Model {
    pub(super) fn record_request_to_pay(&mut self, message: &RecordRequestToPay) -> Outcome {
        let (now_ms, record) = (self.stamp.millis(), self.log_index);
        let sender = self.scheme.sender(&message.source);
        let mut all = self.requests.0.iter_mut();
        let known = all.find(|known| known.id == message.request);
        let status = match message.step {
            RequestStep::Requested(terms) => {
                let asked = self.scheme.sender(&terms.destination);
                let (Some(source), Some(asked)) = (sender, asked) else {
                    return Outcome::SenderNotFound;
                };
                if let Some(known) = known {
                    let same = (known.hash, known.parties) == (message.hash, (source, asked));
                    return if same { Outcome::Accepted } else { MODIFIED };
                }
                if terms.expiration_ms.is_some_and(|end| end <= now_ms) {
                    return Outcome::TransactionRequestExpired;
                }
                let old = self.requests.0.iter().take(REMOVED_AT_ONCE);
                let old = old.take_while(|known| known.keep_until_ms <= now_ms).count();
                self.requests.0.drain(..old);
                self.requests.0.push(KnownRequest {
                    id: message.request,
                    parties: (source, asked),
                    hash: message.hash,
                    record,
                    expiration_ms: terms.expiration_ms,
                    keep_until_ms: terms.keep_until_ms,
                    answer: None,
                });
                return Outcome::Accepted;
            }
            RequestStep::Answered(status) => Some(status),
            RequestStep::Failed => None,
        };
        let Some(known) = known.filter(|known| Some(known.parties.1) == sender) else {
            return Outcome::TransactionRequestNotFound;
        };
        let open = [RequestState::Received, RequestState::Pending];
        match known.answer {
            Some((_, hash, taken)) if (hash, taken) == (message.hash, status) => {
                return Outcome::Accepted;
            }
            Some((_, _, None)) => return MODIFIED,
            Some((_, _, Some(taken))) if !open.contains(&taken.state) => return MODIFIED,
            _ => {}
        }
        if known.expiration_ms.is_some_and(|end| end <= now_ms) {
            return Outcome::TransactionRequestExpired;
        }
        known.answer = Some((record, message.hash, status));
        Outcome::Accepted
    }
}

const MODIFIED: Outcome = Outcome::TransactionRequestModified;
