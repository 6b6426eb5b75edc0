//! Queries about bulk transfers.

use crate::bulks::OpenBulk;
use crate::ids::{FspName, LogIndex, ParticipantIndex, Stamp, TransferId};
use crate::outcome::Outcome;
use crate::state::State;
use crate::transfers::{FinalTransfer, TransferLocation};

/// The state of a bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkState {
    /// The payee has not answered.
    Accepted,
    /// The payee has answered some items.
    Processing,
    /// All items are final, or the bulk was refused.
    Final(Outcome),
}

/// A bulk transfer as its parties may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkView {
    /// Its state.
    pub state: BulkState,
    /// The payer; `None` if it is not registered.
    pub payer: Option<ParticipantIndex>,
    /// The payee; `None` if it is not registered.
    pub payee: Option<ParticipantIndex>,
    /// When it last changed.
    pub changed: Stamp,
    /// The record of its POST.
    pub prepare: LogIndex,
    /// The payee's response, if one was taken.
    pub response: Option<LogIndex>,
}

/// Result of a look-up of a bulk transfer by an FSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkLookup {
    /// The requester is not a participant and gets no response.
    RequesterUnknown,
    /// No such bulk transfer.
    NotFound,
    /// The requester is neither payer nor payee.
    NotAParty,
    /// The bulk transfer as its parties may see it.
    Found(BulkView),
}

impl State {
    /// Looks a bulk transfer up for an FSP. `id` is one of [`TransferId::as_bulk`].
    #[must_use]
    pub fn look_up_bulk(&self, asker: &FspName, id: &TransferId) -> BulkLookup {
        let Some(asker) = self.registry.sender(asker) else {
            return BulkLookup::RequesterUnknown;
        };
        match self.bulk_view(id) {
            None => BulkLookup::NotFound,
            Some(view) if [view.payer, view.payee].contains(&Some(asker)) => {
                BulkLookup::Found(view)
            }
            Some(_) => BulkLookup::NotAParty,
        }
    }

    /// The bulk transfers with items in flight.
    pub fn open_bulks(&self) -> impl Iterator<Item = &OpenBulk> {
        self.bulks.iter()
    }

    /// Number of bulk transfers with items in flight.
    #[must_use]
    pub fn open_bulk_count(&self) -> usize {
        self.bulks.len()
    }

    /// A bulk transfer, without a check of the requester.
    #[must_use]
    pub fn bulk_view(&self, id: &TransferId) -> Option<BulkView> {
        if let Some(open) = self.bulks.find(id) {
            return Some(BulkView {
                state: match open.response {
                    None => BulkState::Accepted,
                    Some(_) => BulkState::Processing,
                },
                payer: Some(open.payer),
                payee: Some(open.payee),
                changed: open.reserved_at,
                prepare: open.prepare,
                response: open.response.map(|response| response.log_index),
            });
        }
        let TransferLocation::Final(at) = self.transfers.find(id) else { return None };
        let ended: &FinalTransfer = self.transfers.final_transfer(at);
        Some(BulkView {
            state: BulkState::Final(ended.outcome),
            payer: ended.payer,
            payee: ended.payee,
            changed: ended.completed,
            prepare: ended.prepare,
            response: ended.response.map(|response| response.log_index),
        })
    }
}
