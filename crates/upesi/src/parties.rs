//! The party directory, as snapshots hold it.

use ledger::{ChangeParties, PartyBinding};
use node::Directory;
use snapshots::Parties;

/// The directory of the node.
#[derive(Debug, Default)]
pub(crate) struct Known(pub(crate) Directory);

impl Parties for Known {
    fn apply(&mut self, change: &ChangeParties) {
        self.0.apply(change);
    }

    fn insert(&mut self, party: PartyBinding) {
        self.0.insert(&party);
    }

    fn each(&self, show: &mut dyn FnMut(&PartyBinding)) {
        self.0.each(show);
    }
}
