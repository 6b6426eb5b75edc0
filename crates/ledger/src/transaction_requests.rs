//! Recorded transaction requests: a payee asks a payer for a payment, and the payer's FSP answers.
//!
//! A row is kept until the time that its request names, and at most [`TRANSACTION_REQUESTS_MAX`]
//! rows are. Rows are in the order of their requests; the oldest ones are removed when requests
//! arrive. Messages stay in the log.
//!
//! Costs: a keyed hash and a probe per message, about 250 bytes per row. A snapshot shares the
//! pages of rows.

use crate::field::stored;
use crate::hashing::KeyedHashing;
use crate::ids::{Digest, LogIndex, ParticipantIndex, TransferId};
use crate::request_content::RequestStatus;
use crate::transfers::{Pages, Shards};

/// Maximum number of transaction requests in memory. The oldest one makes room.
pub const TRANSACTION_REQUESTS_MAX: usize = 1_000_000;

/// Number of rows that one request removes at most: more than it adds.
const REMOVED_MAX: usize = 16;

stored! {
    /// A recorded transaction request.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TransactionRequestRow {
        /// `transactionRequestId`.
        pub id: TransferId,
        /// The FSP of the payee, which asked.
        pub source: ParticipantIndex,
        /// The FSP of the payer, which answers.
        pub destination: ParticipantIndex,
        /// Digest of the body of the request.
        pub hash: Digest,
        /// The record of the request.
        pub request: LogIndex,
        /// Until when an answer is taken, in milliseconds since the epoch.
        pub expiration_ms: Option<u64>,
        /// Until when the row is kept, in milliseconds since the epoch.
        pub keep_until_ms: u64,
        /// The last answer taken.
        pub answer: Option<TransactionRequestAnswer>,
    }
}

stored! {
    /// An answer to a transaction request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TransactionRequestAnswer {
        /// Its record.
        pub record: LogIndex,
        /// Digest of its body.
        pub hash: Digest,
        /// Its state; `None` for an error.
        pub status: Option<RequestStatus>,
    }
}

impl TransactionRequestAnswer {
    /// Whether no other answer is taken after it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.status.is_none_or(|status| status.state.is_final())
    }
}

impl TransactionRequestRow {
    /// Whether the time for an answer is over.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        self.expiration_ms.is_some_and(|expiration_ms| expiration_ms <= now_ms)
    }
}

/// The transaction requests in memory.
#[derive(Clone, Debug)]
pub(crate) struct TransactionRequests {
    keyed: KeyedHashing,
    rows: Pages<TransactionRequestRow>,
    by_id: Shards,
}

impl TransactionRequests {
    pub(crate) fn new(keyed: KeyedHashing) -> Self {
        Self { keyed, rows: Pages::default(), by_id: Shards::default() }
    }

    /// A copy of the rows without an index. The pages are shared.
    pub(crate) fn snapshot(&self) -> Self {
        Self { rows: self.rows.clone(), ..Self::new(self.keyed) }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The requests, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TransactionRequestRow> {
        self.rows.iter()
    }

    pub(crate) fn find(&self, id: &TransferId) -> Option<&TransactionRequestRow> {
        self.number_of(id).map(|number| self.rows.get(number))
    }

    /// Sets the answer of a known request.
    pub(crate) fn answer(&mut self, id: &TransferId, answer: TransactionRequestAnswer) {
        let number = self.number_of(id).expect("a request that is answered is known");
        self.rows.get_mut(number).answer = Some(answer);
    }

    /// Adds a request that is not known.
    pub(crate) fn insert(&mut self, row: TransactionRequestRow) {
        let hash = self.keyed.of(&row.id);
        let number = self.rows.push(row);
        let Self { keyed, rows, by_id } = self;
        by_id.insert(hash, number, |row| keyed.of(&rows.get(row).id));
    }

    /// Removes the oldest rows whose time is over, and one if there is no room for one more.
    pub(crate) fn make_room(&mut self, now_ms: u64) {
        for removed in 0..REMOVED_MAX {
            let Some(oldest) = self.rows.first() else { return };
            let is_full = removed == 0 && TRANSACTION_REQUESTS_MAX <= self.rows.len();
            if !is_full && now_ms < oldest.keep_until_ms {
                return;
            }
            self.by_id.remove(self.keyed.of(&oldest.id), self.rows.first_number());
            self.rows.pop_first();
        }
    }

    fn number_of(&self, id: &TransferId) -> Option<u32> {
        self.by_id.find(self.keyed.of(id), |number| self.rows.get(number).id == *id)
    }
}
