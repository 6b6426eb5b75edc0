//! The party directory: which FSP serves a party identifier. A read model beside the kernel,
//! made of the accepted [`ChangeParties`] commands in the log's order, hence rebuilt by replay.

use std::collections::HashMap;

use ledger::{ChangeParties, Currency, FspName, PartyBinding, PartyChangeForm};

/// One FSP that serves an identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Sub-identifier, when the binding is for one.
    pub sub_id: Option<Box<str>>,
    /// Currency, when the binding names one.
    pub currency: Option<Currency>,
    /// The FSP.
    pub fsp: FspName,
}

/// Identifier type and identifier, joined.
type Key = Box<str>;

/// Bindings by identifier. Per identifier and sub-identifier the latest registration wins.
#[derive(Debug, Default)]
pub struct Directory {
    bindings: HashMap<Key, Vec<Binding>>,
}

impl Directory {
    /// Applies an accepted change.
    pub fn apply(&mut self, change: &ChangeParties) {
        for party in &change.parties {
            match change.form {
                PartyChangeForm::Delete => self.release(party),
                PartyChangeForm::Single | PartyChangeForm::Batch => self.bind(party),
            }
        }
    }

    /// Takes an entry as [`Directory::each`] gave it, or a new one.
    pub fn insert(&mut self, party: &PartyBinding) {
        self.bind(party);
    }

    /// Shows all entries: identifiers in order, those of one in order of their registration. Sorts
    /// all of them first: not for a thread that anybody waits for.
    pub fn each(&self, show: &mut dyn FnMut(&PartyBinding)) {
        let mut keys: Vec<&Key> = self.bindings.keys().collect();
        keys.sort_unstable();
        for key in keys {
            let (id_type, id) = key.split_once(' ').expect("both parts are joined by a blank");
            for binding in &self.bindings[key] {
                show(&PartyBinding {
                    id_type: id_type.into(),
                    id: id.into(),
                    sub_id: binding.sub_id.as_deref().map(Into::into),
                    currency: binding.currency,
                    fsp: binding.fsp,
                });
            }
        }
    }

    /// The bindings of exactly this identifier and sub-identifier (none matches none).
    #[must_use]
    pub fn find(&self, id_type: &str, id: &str, sub_id: Option<&str>) -> Vec<Binding> {
        let known = self.bindings.get(key(id_type, id).as_ref());
        let matching = |binding: &&Binding| binding.sub_id.as_deref() == sub_id;
        known.into_iter().flatten().filter(matching).cloned().collect()
    }

    /// Identifiers with at least one binding.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bindings.len()
    }

    /// Whether nobody is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    fn bind(&mut self, party: &PartyBinding) {
        let known = self.bindings.entry(key(&party.id_type, &party.id)).or_default();
        known.retain(|binding| binding.sub_id.as_deref() != party.sub_id.as_deref());
        known.push(Binding {
            sub_id: party.sub_id.as_deref().map(Into::into),
            currency: party.currency,
            fsp: party.fsp,
        });
    }

    fn release(&mut self, party: &PartyBinding) {
        let key = key(&party.id_type, &party.id);
        let Some(known) = self.bindings.get_mut(&key) else { return };
        known.retain(|binding| binding.sub_id.as_deref() != party.sub_id.as_deref());
        if known.is_empty() {
            self.bindings.remove(&key);
        }
    }
}

/// Identifier types have no blanks, so that the joined text is unambiguous.
fn key(id_type: &str, id: &str) -> Key {
    [id_type, " ", id].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(form: PartyChangeForm, sub_id: Option<&str>, fsp: &str) -> ChangeParties {
        let fsp = FspName::new(fsp).expect("a name");
        let party = PartyBinding {
            id_type: "MSISDN".into(),
            id: "123".into(),
            sub_id: sub_id.map(Into::into),
            currency: None,
            fsp,
        };
        ChangeParties { source: fsp, notify: fsp, form, parties: vec![party], trace: [0; 16] }
    }

    fn served_by(directory: &Directory, sub_id: Option<&str>) -> Vec<String> {
        let found = directory.find("MSISDN", "123", sub_id);
        found.iter().map(|binding| binding.fsp.to_string()).collect()
    }

    #[test]
    fn the_latest_registration_wins_and_sub_ids_are_apart() {
        let mut directory = Directory::default();
        directory.apply(&change(PartyChangeForm::Single, None, "dfsp1"));
        directory.apply(&change(PartyChangeForm::Single, Some("shop"), "dfsp3"));
        directory.apply(&change(PartyChangeForm::Batch, None, "dfsp2"));
        assert_eq!(served_by(&directory, None), ["dfsp2"]);
        assert_eq!(served_by(&directory, Some("shop")), ["dfsp3"]);
        directory.apply(&change(PartyChangeForm::Delete, None, "dfsp2"));
        assert_eq!(served_by(&directory, None), [""; 0]);
        assert_eq!(served_by(&directory, Some("shop")), ["dfsp3"]);
        directory.apply(&change(PartyChangeForm::Delete, Some("shop"), "dfsp3"));
        assert!(directory.is_empty());
    }

    #[test]
    fn what_it_shows_makes_the_same_directory() {
        let mut directory = Directory::default();
        directory.apply(&change(PartyChangeForm::Single, Some("shop"), "dfsp3"));
        directory.apply(&change(PartyChangeForm::Single, None, "dfsp1"));
        let entries = |directory: &Directory| {
            let mut entries = Vec::new();
            directory.each(&mut |party| entries.push(party.clone()));
            entries
        };
        let mut again = Directory::default();
        entries(&directory).iter().for_each(|party| again.insert(party));
        assert_eq!(entries(&again).len(), 2);
        assert_eq!(entries(&again), entries(&directory));
        assert_eq!(served_by(&again, Some("shop")), ["dfsp3"]);
    }
}
