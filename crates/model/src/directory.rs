//! The model of the party directory, as the decisions on owners of identifiers have it.

use std::collections::BTreeMap;

use ledger::{Currency, FspName, PartyBinding, PartyOwnership};

use super::Model;

/// The currency of an entry, if it has one, and its FSP.
pub type DirectoryEntry = (Option<Currency>, FspName);
/// Type, identifier and sub-identifier.
pub type Identifier = (String, String, Option<String>);

/// Maximum number of entries of an identifier.
const ENTRIES_MAX: usize = 16;

/// The entries of each identifier, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory(BTreeMap<Identifier, Vec<DirectoryEntry>>);

impl Model {
    /// The identifiers that were ever registered or released, with their entries.
    pub fn directory(&self) -> impl Iterator<Item = (&Identifier, &[DirectoryEntry])> {
        self.directory.0.iter().map(|(identifier, entries)| (identifier, entries.as_slice()))
    }
}

impl Directory {
    /// An accepted registration. Without a rule it replaces all entries.
    pub(super) fn register(
        &mut self,
        party: &PartyBinding,
        rule: Option<PartyOwnership>,
        sender: Option<FspName>,
    ) {
        let entries = self.entries(party);
        let entry = (party.currency, party.fsp);
        let is_foreign = |it: &DirectoryEntry| Some(it.1) != sender;
        let is_taken = match rule {
            None => return *entries = vec![entry],
            Some(PartyOwnership::LatestWins) => false,
            Some(PartyOwnership::OwnerOnly) => entries.iter().any(is_foreign),
            Some(PartyOwnership::OwnerPerCurrency) => {
                entries.iter().any(|it| overlaps(it, party) && is_foreign(it))
            }
        };
        if is_taken {
            return;
        }
        // Another FSP serves none of the new entry's currencies, and each currency is there once.
        entries.retain(|it| it.0 != party.currency && (it.1 == party.fsp || !overlaps(it, party)));
        if entries.len() < ENTRIES_MAX {
            entries.push(entry);
        }
    }

    /// An accepted release of the entries of one FSP, or of all.
    pub(super) fn release(&mut self, party: &PartyBinding, of: Option<FspName>) {
        let is_meant = |it: &DirectoryEntry| of.is_none_or(|of| of == it.1);
        self.entries(party).retain(|it| !is_meant(it) || !overlaps(it, party));
    }

    fn entries(&mut self, party: &PartyBinding) -> &mut Vec<DirectoryEntry> {
        let PartyBinding { id_type, id, sub_id, .. } = party.clone();
        self.0.entry((id_type, id, sub_id)).or_default()
    }
}

/// Whether an entry serves a currency of the party. An entry without a currency serves all.
fn overlaps(entry: &DirectoryEntry, party: &PartyBinding) -> bool {
    entry.0.is_none() || party.currency.is_none() || entry.0 == party.currency
}
