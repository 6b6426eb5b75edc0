//! The window and the settlement of a transfer. Both follow from the record that committed it: a
//! window has the commits of the records after the one that opened it and before the one that
//! closed it.
//!
//! Costs: with a store, two reads per power of two of the number of windows.

use std::collections::BTreeMap;

use ledger::{
    AccountKind, Amount, ArchiveKind, ArchivedSettlement, Currency, Decision, LogIndex,
    ResponseEnd, Settlement, SettlementBook, SettlementId, Window, WindowId,
};
use ports::{ColdStore, StoreError};

use crate::inspect::explain::history::TransferDecisions;
use crate::inspect::explain::report::{SettlementOfWindow, SettlementReport, TransferSettlement};

/// Windows and settlements by number.
pub(crate) trait WindowSource {
    /// The newest window that was opened before a record.
    ///
    /// # Errors
    /// [`StoreError`].
    fn opened_before(&self, record: LogIndex) -> Result<Option<Window>, StoreError>;

    /// A settlement.
    ///
    /// # Errors
    /// [`StoreError`].
    fn settlement(&self, id: SettlementId) -> Result<Option<Settlement>, StoreError>;
}

/// How a transfer and its interchange fee are settled. A fee is settled with its window, also if
/// its transfer is settled gross.
///
/// # Errors
/// Those of the source.
pub(crate) fn settlement_of(
    decisions: &TransferDecisions,
    source: &dyn WindowSource,
) -> Result<TransferSettlement, StoreError> {
    let commits =
        |decided: &&Decision| ResponseEnd::of(decided.outcome).is_some_and(|end| end.commits());
    let mut found = TransferSettlement::default();
    let Some(commit) = decisions.decisions.iter().find(commits) else { return Ok(found) };
    let payer = commit.inputs.as_ref().and_then(|inputs| inputs.parties.first());
    // A commit moves the payer's position only if it settles the transfer too.
    let is_gross = payer.is_some_and(|payer| payer.position.change != Amount::ZERO);
    let has_fee = commit.inputs.as_ref().is_some_and(|inputs| !inputs.fees.is_empty());
    if is_gross {
        found.transfer = Some(SettlementReport::Gross);
        if !has_fee {
            return Ok(found);
        }
    }
    let window = source.opened_before(commit.log_index)?;
    let has_it = |window: &Window| window.closed == LogIndex(0) || commit.log_index < window.closed;
    let Some(window) = window.filter(has_it) else { return Ok(found) };
    let currency = payer.map(|payer| payer.currency);
    if !is_gross {
        found.transfer = Some(report_of(&window, (AccountKind::Position, currency), source)?);
    }
    if has_fee {
        found.fee = Some(report_of(&window, (AccountKind::InterchangeFee, currency), source)?);
    }
    Ok(found)
}

/// The content of a window, and its settlement. Without a currency it is the first of its kind.
fn report_of(
    window: &Window,
    (kind, currency): (AccountKind, Option<Currency>),
    source: &dyn WindowSource,
) -> Result<SettlementReport, StoreError> {
    let content = window.contents.iter().find(|content| {
        content.kind == kind && currency.is_none_or(|currency| currency == content.currency)
    });
    let settlement = match content.and_then(|content| content.settlement) {
        Some(id) => source.settlement(id)?,
        None => None,
    };
    Ok(SettlementReport::Window {
        window: window.id.0,
        state: content.map_or(window.state, |content| content.state).name(),
        settlement: settlement.map(|settlement| SettlementOfWindow {
            id: settlement.id.0,
            state: settlement.state.name(),
            model: settlement.model,
        }),
    })
}

/// Those of a cold store, which has a row of each window.
pub(crate) struct StoredWindows<'a>(pub(crate) &'a dyn ColdStore);

impl StoredWindows<'_> {
    fn window(&self, number: u32) -> Result<Option<Window>, StoreError> {
        let found = self.0.settlements(ArchiveKind::Window, number..=number, 1)?;
        Ok(found.into_iter().find_map(|row| match row {
            ArchivedSettlement::Window(entry) => Some(entry.window),
            ArchivedSettlement::Settlement(_) => None,
        }))
    }
}

impl WindowSource for StoredWindows<'_> {
    fn opened_before(&self, record: LogIndex) -> Result<Option<Window>, StoreError> {
        let window = |number| {
            let found = self.window(number)?;
            Ok::<_, StoreError>(found.filter(|window| window.opened < record))
        };
        let (mut newest, mut step) = (None, 1_u32);
        let number = |newest: &Option<Window>| newest.as_ref().map_or(0, |window| window.id.0);
        // Doubles the step as long as there are windows, and then halves it.
        while let Some(found) = window(number(&newest).saturating_add(step))? {
            newest = Some(found);
            step = step.saturating_mul(2);
        }
        while 1 < step {
            step /= 2;
            newest = window(number(&newest).saturating_add(step))?.or(newest);
        }
        Ok(newest)
    }

    fn settlement(&self, id: SettlementId) -> Result<Option<Settlement>, StoreError> {
        let found = self.0.settlements(ArchiveKind::Settlement, id.0..=id.0, 1)?;
        Ok(found.into_iter().find_map(|row| match row {
            ArchivedSettlement::Settlement(entry) => Some(entry.settlement),
            ArchivedSettlement::Window(_) => None,
        }))
    }
}

/// Those of a replay, without their sums.
#[derive(Debug, Default)]
pub(crate) struct KnownWindows {
    windows: BTreeMap<WindowId, Window>,
    settlements: BTreeMap<SettlementId, Settlement>,
}

impl KnownWindows {
    /// Adds one that has left the state.
    pub(crate) fn add(&mut self, row: &ArchivedSettlement) {
        match row {
            ArchivedSettlement::Window(entry) => {
                self.windows.insert(entry.window.id, entry.window.clone());
            }
            ArchivedSettlement::Settlement(entry) => {
                self.settlements.insert(entry.settlement.id, entry.settlement.clone());
            }
        }
    }

    /// Adds those of the last state.
    pub(crate) fn add_all(&mut self, book: &SettlementBook) {
        let windows = book.windows().map(|entry| (entry.window.id, entry.window.clone()));
        self.windows.extend(windows);
        let settlements = book.settlements().map(|entry| entry.settlement.clone());
        self.settlements.extend(settlements.map(|settlement| (settlement.id, settlement)));
    }
}

impl WindowSource for KnownWindows {
    fn opened_before(&self, record: LogIndex) -> Result<Option<Window>, StoreError> {
        let mut newest_first = self.windows.values().rev();
        Ok(newest_first.find(|window| window.opened < record).cloned())
    }

    fn settlement(&self, id: SettlementId) -> Result<Option<Settlement>, StoreError> {
        Ok(self.settlements.get(&id).cloned())
    }
}

#[cfg(test)]
mod tests {
    use ledger::{
        AccountId, BalanceChange, ContentId, DecisionInputs, FeeAccount, FspName, Outcome,
        PartyInputs, SettlementState, SettlementWithAccounts, Stamp, TransferId, WindowContent,
        WindowState, WindowWithSums,
    };
    use ports::{StoreMark, WriteBatch};
    use store::Memory;

    use super::*;

    fn usd() -> Currency {
        Currency::parse("USD").expect("a currency")
    }

    /// Windows of ten records each, of which all but the last two are settled.
    fn windows(count: u32) -> Vec<ArchivedSettlement> {
        let window = |number: u32| {
            let (is_open, is_settled) = (number == count, number + 1 < count);
            let state = match (is_open, is_settled) {
                (true, _) => WindowState::Open,
                (false, true) => WindowState::Settled,
                (false, false) => WindowState::Closed,
            };
            let content = WindowContent {
                id: ContentId(2 * number),
                kind: AccountKind::Position,
                currency: usd(),
                state,
                settlement: is_settled.then_some(SettlementId(1)),
                created: Stamp(1),
                changed: Stamp(1),
            };
            let of_fees = WindowContent {
                id: ContentId(2 * number + 1),
                kind: AccountKind::InterchangeFee,
                state: WindowState::Closed,
                settlement: None,
                ..content
            };
            let opened = LogIndex(10 * u64::from(number));
            let window = Window {
                id: WindowId(number),
                state,
                reason: String::new(),
                created: Stamp(1),
                changed: Stamp(1),
                opened,
                closed: if is_open { LogIndex(0) } else { LogIndex(opened.0 + 10) },
                contents: if is_open { Vec::new() } else { vec![content, of_fees] },
            };
            let (accounts, pairs) = Default::default();
            ArchivedSettlement::Window(WindowWithSums { window, accounts, pairs })
        };
        let settlement = Settlement {
            id: SettlementId(1),
            model: "NET".into(),
            state: SettlementState::Settled,
            reason: String::new(),
            created: Stamp(1),
            changed: Stamp(1),
            record: LogIndex(1),
            contents: Vec::new(),
        };
        let settlement = SettlementWithAccounts { settlement, accounts: Vec::new() };
        let settlement = ArchivedSettlement::Settlement(settlement);
        (1..=count).map(window).chain([settlement]).collect()
    }

    /// A commit by this record, which moves the payer's position and its fees so far.
    fn committed(record: u64, moved: i128, fee: i128) -> TransferDecisions {
        let held = |change| BalanceChange {
            account: AccountId(6),
            before: Amount::ZERO,
            change: Amount::from_units(change),
        };
        let payer = PartyInputs {
            name: FspName::new("payer").expect("a name"),
            currency: usd(),
            active: true,
            account_active: true,
            position: held(moved),
            settlement: held(0),
            net_debit_cap: None,
            owed: 0,
        };
        let hub_name = FspName::new("Hub").expect("a name");
        let inputs = DecisionInputs {
            hub_name,
            lane_capacity: 1,
            parties: vec![payer],
            fees: (fee != 0)
                .then_some(FeeAccount { party: 0, balance: held(fee) })
                .into_iter()
                .collect(),
            hub: Vec::new(),
        };
        let decided = Decision {
            transfer: TransferId::parse("00000000000000000000000001").expect("an id"),
            log_index: LogIndex(record),
            outcome: Outcome::Committed,
            inputs: Some(inputs),
            owed: Vec::new(),
        };
        TransferDecisions { decisions: vec![decided], ..TransferDecisions::default() }
    }

    #[test]
    fn window_and_settlement_are_found_by_the_record_of_the_commit() {
        for count in [1, 2, 3, 8, 9, 100] {
            let (store, mut known) = (Memory::default(), KnownWindows::default());
            let rows = windows(count);
            rows.iter().for_each(|row| known.add(row));
            let mark = StoreMark::default();
            let batch = WriteBatch { settlements: rows, mark, ..WriteBatch::default() };
            store.write(&batch).expect("memory takes everything");
            // A record that closes a window commits no transfer.
            let is_commit = |record: &u64| !record.is_multiple_of(10);
            for record in (1..10 * u64::from(count) + 15).filter(is_commit) {
                let window = u32::try_from(record / 10).expect("it is small").min(count);
                let found = [&StoredWindows(&store) as &dyn WindowSource, &known]
                    .map(|source| settlement_of(&committed(record, 0, 0), source));
                assert_eq!(found[0], found[1], "{count} windows, record {record}");
                let expected = (window != 0).then_some(window);
                let found = match &found[0] {
                    Ok(TransferSettlement {
                        transfer: Some(SettlementReport::Window { window, .. }),
                        fee: None,
                    }) => Some(*window),
                    _ => None,
                };
                assert_eq!(found, expected, "{count} windows, record {record}");
            }
        }
    }

    #[test]
    fn settlement_is_worded() {
        let mut known = KnownWindows::default();
        windows(3).iter().for_each(|row| known.add(row));
        for (record, moved, expected) in [
            (5, 0, None),
            (15, 0, Some("settlement window 1: SETTLED; settlement 1 by model NET: SETTLED")),
            (25, 0, Some("settlement window 2: CLOSED")),
            (35, 0, Some("settlement window 3: OPEN")),
            (35, -5, Some("settled at once by a gross model, with its commit")),
        ] {
            let found = settlement_of(&committed(record, moved, 0), &known).expect("it is known");
            assert_eq!(found.fee, None);
            let found = found.transfer;
            assert_eq!(found.map(|found| found.to_string()).as_deref(), expected, "{record}");
        }
        let json = settlement_of(&committed(15, 0, 0), &known).expect("it is known");
        assert_eq!(
            serde_json::to_string(&json.transfer).expect("it is written"),
            "{\"kind\":\"window\",\"window\":1,\"state\":\"SETTLED\",\
             \"settlement\":{\"id\":1,\"model\":\"NET\",\"state\":\"SETTLED\"}}"
        );
    }

    #[test]
    fn fee_is_settled_with_its_window() {
        let mut known = KnownWindows::default();
        windows(3).iter().for_each(|row| known.add(row));
        let text = |found: Option<SettlementReport>| found.map(|found| found.to_string());
        let gross = "settled at once by a gross model, with its commit";
        for (record, moved, transfer, fee) in [
            (5, 0, None, None),
            (
                15,
                0,
                Some("settlement window 1: SETTLED; settlement 1 by model NET: SETTLED"),
                Some("settlement window 1: CLOSED"),
            ),
            (35, 0, Some("settlement window 3: OPEN"), Some("settlement window 3: OPEN")),
            (5, -5, Some(gross), None),
            (25, -5, Some(gross), Some("settlement window 2: CLOSED")),
        ] {
            let found = settlement_of(&committed(record, moved, 1), &known).expect("it is known");
            assert_eq!(text(found.transfer).as_deref(), transfer, "{record}");
            assert_eq!(text(found.fee).as_deref(), fee, "{record}");
        }
    }
}
