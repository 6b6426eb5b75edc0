//! The store receives each window and settlement when its state changes, and when it leaves memory.

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::{
    AccountId, AccountKind, AccountStep, AdvanceSettlement, ArchivedSettlement, Change,
    CloseWindow, Command, CreateSettlement, CreateSettlementModel, LogIndex, SettlementId,
    SettlementModel, SettlementState, WindowId, WindowState,
};

use crate::fixture::{self, SECOND, SettlementRows, at, beginning, change, units, usd};

/// More windows than stay in memory once they are settled.
const WINDOWS: u32 = 103;

fn model() -> Command {
    let model = SettlementModel {
        name: "NET".into(),
        net: true,
        multilateral: true,
        deferred: true,
        currency: Some(usd()),
        liquidity_check: false,
        auto_position_reset: true,
        ledger_account: AccountKind::Position,
        settlement_account: AccountKind::Settlement,
        active: true,
    };
    change(Change::CreateSettlementModel(CreateSettlementModel { model }))
}

/// A transfer, the end of its window, and all steps of the settlement of this window alone.
fn settled_window(number: u32) -> Vec<Command> {
    use SettlementState::*;
    let reason = || String::from("end of day");
    // The deposits have the ids 100 and 101.
    let of = 1_000 + number as usize;
    let close = CloseWindow { window: WindowId(number), reason: reason() };
    let windows = vec![WindowId(number)];
    let create = CreateSettlement { model: "NET".into(), reason: reason(), windows };
    let mut commands = vec![
        fixture::prepare(of, units(5), 900_000_000),
        fixture::fulfil(of),
        change(Change::CloseWindow(close)),
        change(Change::CreateSettlement(create)),
    ];
    for state in [PsTransfersRecorded, PsTransfersReserved, PsTransfersCommitted, Settled] {
        let step = |(participant, account)| AccountStep {
            participant,
            account: AccountId(account),
            state,
            reason: reason(),
            external_reference: String::new(),
        };
        let steps = [(2, 6), (3, 8)].map(step).into();
        let advance = AdvanceSettlement { settlement: SettlementId(number), steps };
        commands.push(change(Change::AdvanceSettlement(advance)));
    }
    commands
}

#[test]
fn store_receives_windows_and_settlements() {
    let store = SettlementRows::default();
    let mut sequencer = fixture::with_store(store.clone(), Duration::MAX, at(100 * SECOND));
    let mut commands = beginning();
    commands.push(model());
    fixture::commit(&mut sequencer, commands, at(100 * SECOND)).expect("it is recorded");
    for number in 1..=WINDOWS {
        let now = at((100 + u64::from(number)) * SECOND);
        // Each step is a batch of its own for the first window.
        let batches: Vec<Vec<Command>> = match number {
            1 => settled_window(1).into_iter().map(|command| vec![command]).collect(),
            _ => vec![settled_window(number)],
        };
        for batch in batches {
            fixture::commit(&mut sequencer, batch, now).expect("it is recorded");
        }
        sequencer.flush(now).expect("the store takes it");
    }
    let book = sequencer.state().settlement();
    assert_eq!((book.windows().count(), book.settlements().count()), (101, 100));
    assert!(book.is_archived_window(WindowId(3)) && !book.is_archived_window(WindowId(4)));

    let (mut windows, mut settlements) = (BTreeMap::new(), BTreeMap::new());
    for row in store.rows() {
        match row {
            ArchivedSettlement::Window(entry) => {
                windows.insert(entry.window.id, entry);
            }
            ArchivedSettlement::Settlement(entry) => {
                settlements.insert(entry.settlement.id, entry);
            }
        }
    }
    for number in 1..=WINDOWS {
        let entry = &windows[&WindowId(number)];
        assert_eq!(entry.window.state, WindowState::Settled, "window {number}");
        assert_eq!(entry.window.contents[0].settlement, Some(SettlementId(number)));
        assert_eq!(entry.accounts.len(), 2, "window {number}");
        let kept = book.window(WindowId(number));
        assert!(kept.is_none_or(|kept| kept == entry), "window {number}");
        let entry = &settlements[&SettlementId(number)];
        assert_eq!(entry.settlement.state, SettlementState::Settled, "settlement {number}");
        let kept = book.settlement(SettlementId(number));
        assert!(kept.is_none_or(|kept| kept == entry), "settlement {number}");
    }
    let open = &windows[&WindowId(WINDOWS + 1)].window;
    assert_eq!((open.state, open.closed), (WindowState::Open, LogIndex(0)));
}
