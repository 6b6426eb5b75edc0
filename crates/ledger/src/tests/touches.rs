//! Checks that a change touches only the parts of the state that it declares, for every change of a
//! scenario.

use alloc::vec::Vec;
use core::convert::Infallible;

use super::scenario::play;
use super::scenarios;
use crate::field::{Field, Reader, Row};
use crate::snapshot::{StateHeader, Table, TableVisitor};
use crate::*;

/// A digest of something in the state, and the part that it belongs to.
type PartDigest = (StatePart, blake3::Hash);

/// Parts of a state.
pub(super) struct PartDigests(Vec<PartDigest>);

impl PartDigests {
    pub(super) fn of(state: &State) -> Self {
        let mut digests = Self(Vec::new());
        let StateHeader {
            // The log index and history, which every record changes.
            log_index: _,
            stamp: _,
            digest: _,
            nodes: _,
            batches: _,
            // Fixed by the genesis.
            seed: _,
            hub: _,
            settings,
            rules_version,
            counters,
            last_notice,
            last_oracle,
            evicted,
            settlement,
            alerts,
        } = state.tables().header();
        digests.add(StatePart::Settings, &settings);
        digests.add(StatePart::Rules, &rules_version);
        digests.add(StatePart::Notices, &last_notice);
        digests.add(StatePart::Oracles, &last_oracle);
        digests.add(StatePart::Transfers, &evicted);
        let SettlementNumbers {
            window,
            content,
            settlement,
            archived_windows,
            archived_settlements,
        } = settlement;
        digests.add(StatePart::Alerts, &alerts);
        digests.add(StatePart::Windows, &(window, content));
        digests.add(StatePart::Windows, &archived_windows);
        digests.add(StatePart::Settlements, &(settlement, archived_settlements));
        let Counters { reserved, refused, committed, aborted, expired, delivered, given_up } =
            counters;
        for count in [reserved, refused, committed, aborted, expired] {
            digests.add(StatePart::Transfers, &count);
        }
        for count in [delivered, given_up] {
            digests.add(StatePart::Notices, &count);
        }
        digests.accounts(state);
        digests.participants(state);
        let Ok(()) = state.tables().visit(&mut digests);
        digests
    }

    fn add(&mut self, part: StatePart, value: &impl Field) {
        let mut hasher = blake3::Hasher::new();
        value.write(&mut hasher);
        self.0.push((part, hasher.finalize()));
    }

    /// Accounts by column. A new account has no balance yet.
    fn accounts(&mut self, state: &State) {
        let [mut accounts, mut balances] = [blake3::Hasher::new(), blake3::Hasher::new()];
        for account in state.accounts.iter() {
            let Account { id, owner, kind, currency, active, value, created, changed } = account;
            id.write(&mut accounts);
            owner.write(&mut accounts);
            kind.write(&mut accounts);
            currency.write(&mut accounts);
            active.write(&mut accounts);
            created.write(&mut accounts);
            if *value != Amount::ZERO || changed != created {
                id.write(&mut balances);
                value.write(&mut balances);
                changed.write(&mut balances);
            }
        }
        self.0.push((StatePart::Accounts, accounts.finalize()));
        self.0.push((StatePart::Balances, balances.finalize()));
    }

    /// Participants by column. A new participant has no net debit cap yet.
    fn participants(&mut self, state: &State) {
        let [mut own, mut accounts_of, mut net_debit_caps] =
            [(); 3].map(|()| blake3::Hasher::new());
        for (index, participant) in state.registry.iter() {
            let Participant { name, active, created, by_currency, accounts, endpoints, keys } =
                participant.clone();
            let alone = Participant {
                by_currency: Vec::new(),
                accounts: Vec::new(),
                name,
                active,
                created,
                endpoints,
                keys,
            };
            alone.write(&mut own);
            accounts.iter().for_each(|id| id.write(&mut accounts_of));
            for CurrencyAccounts { currency, position, settlement, net_debit_cap } in by_currency {
                (currency, position).write(&mut accounts_of);
                settlement.write(&mut accounts_of);
                if let Some(net_debit_cap) = net_debit_cap {
                    index.write(&mut net_debit_caps);
                    (currency, net_debit_cap).write(&mut net_debit_caps);
                }
            }
        }
        self.0.push((StatePart::Participants, own.finalize()));
        self.0.push((StatePart::Accounts, accounts_of.finalize()));
        self.0.push((StatePart::Limits, net_debit_caps.finalize()));
    }

    /// The parts that a change touched. Panics if it does not declare one of them. `self` digests
    /// the state before the change, `after` the state after it.
    #[track_caller]
    pub(super) fn touched(&self, after: &Self, change: &Change) -> Vec<StatePart> {
        let declared = [change, change.decided()].map(|it| it.declaration().touches).concat();
        let both = self.0.iter().zip(&after.0);
        let changed: Vec<_> = both.filter(|(before, after)| before != after).collect();
        for ((part, _), _) in &changed {
            assert!(declared.contains(part), "{change:?} touches undeclared {part:?}");
        }
        changed.into_iter().map(|((part, _), _)| *part).collect()
    }
}

#[test]
fn every_change_touches_its_declared_parts() {
    let touched: Vec<_> = scenarios::ALL.iter().flat_map(|text| play(text).touched).collect();
    for declaration in Change::DECLARATIONS {
        for part in declaration.touches {
            let is_seen = touched.contains(&(declaration.number, *part));
            assert!(is_seen, "{} and {part:?}", declaration.name);
        }
    }
}

impl TableVisitor for PartDigests {
    type Error = Infallible;

    fn table<R: Row>(
        &mut self,
        table: Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), Infallible> {
        // Tables of several parts are compared by column.
        if let [part] = table.parts() {
            let mut hasher = blake3::Hasher::new();
            for row in rows {
                let mut bytes = Vec::new();
                row.write_row(&mut bytes);
                let described = table.describe(Reader(&bytes)).expect("a row is readable");
                assert!(matches!(described, Description::Fields(_)), "{table:?}: {described:?}");
                hasher.update(&bytes);
            }
            self.0.push((*part, hasher.finalize()));
        }
        Ok(())
    }
}
