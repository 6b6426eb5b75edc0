//! The tests that every [`ColdStore`] must pass.
//!
//! A store takes part with a [`Subject`]: how to create one, and how to restart it.

use ledger::Outcome::{
    Committed, Expired, PrepareModified, PrepareResentCommitted, PrepareReserved,
    ResponseAfterExpiry,
};
use ledger::{
    AccountId, AccountKind, AccountSums, Amount, ArchiveKind, ArchivedSettlement, ContentId,
    Currency, Decision, DecisionSink, Digest, FinalTransfer, FspName, LogIndex, NoticeId,
    NoticeKind, Outcome, OwedNotice, ParticipantIndex, RecordedResponse, ResponseKind, Settlement,
    SettlementAccount, SettlementId, SettlementState, SettlementWithAccounts, Stamp, TransferId,
    Window, WindowContent, WindowId, WindowState, WindowWithSums,
};
use ports::{
    ColdStore, PartyChange, PartyEffect, PartyEntry, PartyRow, StoreMark, TransferFilter,
    TransferQuery, WriteBatch,
};
use record::cold_rows::party_key;
use record::transfer_index::{TransferEnd, TransferEntry};

/// A store under test.
pub trait Subject {
    /// The store.
    type Store: ColdStore;

    /// An empty store.
    fn make(&mut self) -> Self::Store;

    /// The store as it is after its process ended and another one opened it.
    fn reopen(&mut self, store: Self::Store) -> Self::Store;
}

/// Runs the whole contract.
///
/// # Panics
/// Panics if the store breaks the contract.
pub fn check(subject: &mut impl Subject) {
    check_empty(subject);
    check_versions(subject);
    check_repeats(subject);
    check_directory(subject);
    check_decisions(subject);
    check_settlements(subject);
    check_transfers(subject);
    check_many(subject);
}

/// A row derived from its number, in its first version. Every number gives a different row.
#[must_use]
pub fn sample_row(number: u32, changed: u64) -> FinalTransfer {
    let is = |bit: u32| number >> bit & 1 == 1;
    let (kind, outcome) = match is(0) {
        true => (ResponseKind::Abort, Outcome::Aborted),
        false => (ResponseKind::Fulfil, Outcome::Committed),
    };
    let response = RecordedResponse { kind, hash: hash(changed), log_index: LogIndex(changed) };
    FinalTransfer {
        id: sample_id(number),
        payer: (!is(1)).then_some(ParticipantIndex(number)),
        payee: (!is(2)).then_some(ParticipantIndex(u32::MAX - number)),
        amount: Amount::from_units(1 << (number % 70)),
        currency: Currency::parse("KES").expect("a currency"),
        hash: hash(u64::from(number)),
        prepare: LogIndex(changed - 1),
        response: is(3).then_some(response),
        outcome: if is(3) { outcome } else { Outcome::Expired },
        completed: Stamp(changed * 1_000),
        changed: LogIndex(changed),
    }
}

/// The second version of a row that expired: its answer came too late.
fn answered(row: &FinalTransfer, changed: u64) -> FinalTransfer {
    let (hash, log_index) = (hash(changed), LogIndex(changed));
    let response = Some(RecordedResponse { kind: ResponseKind::Fulfil, hash, log_index });
    FinalTransfer { response, outcome: Outcome::Expired, changed: log_index, ..row.clone() }
}

/// The id of the row with this number.
///
/// # Panics
/// Never: every number is an id.
#[must_use]
pub fn sample_id(number: u32) -> TransferId {
    TransferId::parse(&format!("{number:0>26}")).expect("digits are an id")
}

/// A batch that makes a store complete up to `log_index`.
#[must_use]
pub fn write_batch(rows: Vec<FinalTransfer>, log_index: u64) -> WriteBatch {
    WriteBatch { rows, mark: mark(log_index), ..WriteBatch::default() }
}

fn mark(log_index: u64) -> StoreMark {
    StoreMark { log_index: LogIndex(log_index), chain: hash(log_index) }
}

fn hash(number: u64) -> Digest {
    let mut bytes = [0x5a; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Digest(bytes)
}

fn check_empty(subject: &mut impl Subject) {
    let store = subject.make();
    for _ in 0..2 {
        assert_eq!(store.mark(), StoreMark::default());
        assert_eq!(store.read(&sample_id(1), LogIndex(u64::MAX)), Ok(None));
        assert_eq!(store.party(&party_key("MSISDN", "1", None)), Ok(None));
    }
    let store = subject.reopen(store);
    assert_eq!(store.mark(), StoreMark::default());
}

/// A read sees the newest version that is not above its log index.
fn check_versions(subject: &mut impl Subject) {
    let mut store = subject.make();
    let first = sample_row(7, 20);
    let second = answered(&first, 30);
    store.write(&write_batch(vec![first.clone()], 20)).expect("it takes the first");
    store.write(&write_batch(vec![second.clone(), sample_row(8, 30)], 31)).expect("and the second");
    for _ in 0..2 {
        assert_eq!(store.mark(), mark(31));
        for (at, expected) in [
            (0, None),
            (19, None),
            (20, Some(&first)),
            (29, Some(&first)),
            (30, Some(&second)),
            (u64::MAX, Some(&second)),
        ] {
            let found = store.read(&sample_id(7), LogIndex(at)).expect("it reads");
            assert_eq!(found.as_ref(), expected, "at {at}");
        }
        assert_eq!(store.read(&sample_id(6), LogIndex(u64::MAX)), Ok(None));
        store = subject.reopen(store);
    }
}

/// Writing is idempotent: twice, with both versions in one batch, or any suffix of the batches.
fn check_repeats(subject: &mut impl Subject) {
    let store = subject.make();
    let first = sample_row(7, 20);
    let second = answered(&first, 21);
    let (all, other) = (vec![first.clone(), sample_row(8, 20), second.clone()], sample_row(9, 22));
    for rows in [&all[..], &all[..], &all[..2], &all[2..], &all[2..], &[other]] {
        store.write(&write_batch(rows.to_vec(), 40)).expect("it takes them");
    }
    for (at, expected) in [(19, None), (20, Some(&first)), (21, Some(&second))] {
        let found = store.read(&sample_id(7), LogIndex(at)).expect("it reads");
        assert_eq!(found.as_ref(), expected, "at {at}");
    }
    // If one record decides twice, such as an expiry and a response, the second version wins.
    let at_once = answered(&sample_row(7, 21), 21);
    store.write(&write_batch(vec![sample_row(7, 21), at_once.clone()], 41)).expect("it takes them");
    assert_eq!(store.read(&sample_id(7), LogIndex(21)), Ok(Some(at_once)));
}

/// Rows follow from the changes of all batches, also if some of them are written again.
fn check_directory(subject: &mut impl Subject) {
    use PartyEffect::{Bind, Release, Replace};
    let mut store = subject.make();
    let entry = |text: &str| {
        let (fsp, currency) = text.split_once(' ').unwrap_or((text, ""));
        PartyEntry { currency: Currency::parse(currency), fsp: FspName::new(fsp).expect("a name") }
    };
    let take = |text| Bind { entry: entry(text), by: None, is_alone: false };
    let by = |text| (entry(text), Some(entry(text).fsp));
    let claim = |text| Bind { entry: by(text).0, by: by(text).1, is_alone: false };
    let claim_alone = |text| Bind { entry: by(text).0, by: by(text).1, is_alone: true };
    let free = |text| Release { of: Some(entry(text).fsp), currency: entry(text).currency };
    let free_all = |currency| Release { of: None, currency: Currency::parse(currency) };
    let (plain, shop) = (party_key("MSISDN", "1", None), party_key("MSISDN", "1", Some("shop")));
    let batches = [
        (vec![(&plain, Replace(entry("dfsp1")))], ["dfsp1", "-"]),
        (
            vec![(&shop, Replace(entry("dfsp2 USD"))), (&plain, take("dfsp3"))],
            ["dfsp3", "dfsp2 USD"],
        ),
        (
            vec![(&shop, claim("dfsp1 KES")), (&shop, claim("dfsp1 USD"))],
            ["dfsp3", "dfsp2 USD, dfsp1 KES"],
        ),
        (
            vec![(&plain, claim("dfsp1 KES")), (&shop, claim("dfsp2"))],
            ["dfsp3", "dfsp2 USD, dfsp1 KES"],
        ),
        (vec![(&shop, take("dfsp2")), (&plain, free_all("EUR"))], ["", "dfsp2 USD, dfsp2"]),
        (vec![(&shop, free("dfsp1")), (&shop, free("dfsp2 USD"))], ["", ""]),
        (vec![(&plain, claim("dfsp1 EUR")), (&plain, claim("dfsp2 EUR"))], ["dfsp1 EUR", ""]),
        (vec![(&plain, free("dfsp1 EUR")), (&plain, claim("dfsp2 EUR"))], ["dfsp2 EUR", ""]),
        (
            vec![(&plain, claim_alone("dfsp1 KES")), (&plain, claim_alone("dfsp2 KES"))],
            ["dfsp2 EUR, dfsp2 KES", ""],
        ),
        (vec![(&plain, Replace(entry("dfsp1"))), (&plain, free_all(""))], ["", ""]),
    ];
    let mut written: Vec<WriteBatch> = Vec::new();
    for (number, (changes, expected)) in (1..).zip(batches) {
        let at = LogIndex(number);
        let change = |(key, effect): (&Vec<u8>, _)| PartyChange { key: key.clone(), at, effect };
        let parties = changes.into_iter().map(change).collect();
        written.push(WriteBatch { parties, mark: mark(number), ..WriteBatch::default() });
        // The last batches, written again, have no further effect.
        for again in 0..written.len() {
            for batch in &written[written.len() - 1 - again..] {
                store.write(batch).expect("it takes changes of the directory");
            }
            let found = [&plain, &shop].map(|key| row_text(store.party(key).expect("it reads")));
            assert_eq!(found, expected, "batch {number}, with {again} written again");
        }
        store = subject.reopen(store);
        assert_eq!(store.mark(), mark(number));
    }
}

/// The entries of a row; `-` without a row.
fn row_text(row: Option<PartyRow>) -> String {
    let Some(row) = row else { return "-".into() };
    let entries = row.entries.iter().map(|entry| match entry.currency {
        None => entry.fsp.to_string(),
        Some(currency) => format!("{} {currency}", entry.fsp),
    });
    entries.collect::<Vec<_>>().join(", ")
}

/// The decisions of a transfer are found by its row, in the same batch or a later one, or by a
/// trace. Writing them twice has no further effect.
fn check_decisions(subject: &mut impl Subject) {
    let mut store = subject.make();
    let decision = |number, log_index, outcome| decision(sample_id(number), log_index, outcome);
    let row = FinalTransfer { prepare: LogIndex(10), ..sample_row(1, 14) };
    let late = answered(&FinalTransfer { prepare: LogIndex(12), ..sample_row(2, 13) }, 16);
    let mut batches = [
        // Transfer 1 is reserved when its prepare is written. Transfer 2 expires and gets a
        // response in one record.
        (vec![], vec![decision(1, 10, PrepareReserved), decision(2, 12, PrepareReserved)], 12),
        (
            vec![late],
            vec![
                decision(2, 13, Expired),
                decision(1, 14, Committed),
                decision(2, 16, ResponseAfterExpiry),
            ],
            16,
        ),
        // A resend after the row was written, and many decisions of one record.
        (vec![row], vec![decision(1, 17, PrepareResentCommitted)], 18),
        (vec![], (0..400).map(|number| decision(number + 50, 19, Expired)).collect(), 19),
        (vec![], vec![decision(1, 20, PrepareModified), decision(3, 20, PrepareReserved)], 20),
    ]
    .map(|(rows, all, log_index)| {
        let mut batch = write_batch(rows, log_index);
        all.iter().for_each(|decision| batch.decisions.record_decision(decision));
        batch.decisions.record_delivery(NoticeId(255), LogIndex(log_index));
        batch.decisions.record_delivery(NoticeId(256 + log_index), LogIndex(log_index));
        batch
    });
    batches[1].decisions.record_delivery(NoticeId(255), LogIndex(3));
    for batch in batches.iter().chain(&batches[3..]) {
        store.write(batch).expect("decisions are written");
    }
    for _ in 0..2 {
        for (number, expected) in [
            (
                1,
                vec![
                    (10, PrepareReserved),
                    (14, Committed),
                    (17, PrepareResentCommitted),
                    (20, PrepareModified),
                ],
            ),
            (2, vec![(12, PrepareReserved), (13, Expired), (16, ResponseAfterExpiry)]),
            (3, vec![(20, PrepareReserved)]),
            (449, vec![(19, Expired)]),
            (4, vec![]),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(at, outcome)| decision(number, at, outcome)).collect();
            assert_eq!(store.decisions(&sample_id(number)), Ok(expected), "{number}");
        }
        for (notice, expected) in
            [(255, vec![3, 12, 16, 18, 19, 20]), (256 + 16, vec![16]), (256, vec![])]
        {
            let expected = expected.into_iter().map(LogIndex).collect();
            assert_eq!(store.delivery_records(NoticeId(notice)), Ok(expected), "{notice}");
        }
        store = subject.reopen(store);
    }
}

/// The newest row of a window or settlement is found by its number, and in ranges of numbers.
fn check_settlements(subject: &mut impl Subject) {
    let mut store = subject.make();
    let pending = WindowState::PendingSettlement;
    let newest = [
        sample_window(1, WindowState::Settled),
        sample_window(2, pending),
        sample_window(300, WindowState::Closed),
    ];
    let settlement = sample_settlement(2);
    for (log_index, settlements) in [
        (10, vec![sample_window(1, WindowState::Closed), sample_window(2, pending)]),
        (11, vec![sample_window(1, pending), settlement.clone(), newest[2].clone()]),
        (12, vec![newest[0].clone()]),
        (12, vec![newest[0].clone()]),
    ] {
        let mark = mark(log_index);
        let batch = WriteBatch { settlements, mark, ..WriteBatch::default() };
        store.write(&batch).expect("it takes windows and settlements");
    }
    let [first, second, third] = newest;
    for _ in 0..2 {
        for (kind, numbers, limit, expected) in [
            (ArchiveKind::Window, 1..=1, 1, vec![&first]),
            (ArchiveKind::Window, 3..=299, 9, vec![]),
            (ArchiveKind::Window, 0..=u32::MAX, 9, vec![&first, &second, &third]),
            (ArchiveKind::Window, 1..=u32::MAX, 2, vec![&first, &second]),
            (ArchiveKind::Window, 3..=u32::MAX, 1, vec![&third]),
            (ArchiveKind::Settlement, 1..=1, 1, vec![]),
            (ArchiveKind::Settlement, 0..=u32::MAX, 9, vec![&settlement]),
        ] {
            let found = store.settlements(kind, numbers.clone(), limit).expect("it reads");
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{kind:?} {numbers:?} {limit}");
        }
        store = subject.reopen(store);
    }
}

/// Every page of every query has exactly the transfers that it selects, newest first.
fn check_transfers(subject: &mut impl Subject) {
    let mut store = subject.make();
    let mut expected = Vec::new();
    let mut log_index = 10;
    for round in 0..40_u32 {
        let begin = round * 50;
        let rows: Vec<_> = (begin..begin + 10 * (round % 5) + 1)
            .map(|number| {
                // Several transfers end by one record.
                log_index += u64::from(number % 3);
                listed_row(number, log_index)
            })
            .collect();
        expected.extend(rows.iter().filter_map(TransferEntry::of));
        let late = rows.iter().find(|row| row.outcome == Outcome::Expired);
        let late = late.map(|row| answered(row, log_index + 1));
        let all = [rows, late.into_iter().collect()].concat();
        log_index += 1;
        for _ in 0..=round % 2 {
            store.write(&write_batch(all.clone(), log_index)).expect("it takes them");
        }
        if round % 8 == 7 {
            store = subject.reopen(store);
        }
    }
    expected.sort_by_key(|entry| std::cmp::Reverse(entry.place));
    for filter in filters(&expected) {
        for (up_to, limit) in [(u64::MAX, 1_000), (u64::MAX, 7), (log_index / 2, 50), (0, 3)] {
            let mut query = TransferQuery {
                filter: filter.clone(),
                up_to: LogIndex(up_to),
                before: None,
                limit,
            };
            let wanted: Vec<_> = expected.iter().filter(|it| query.selects(it)).copied().collect();
            let mut found = Vec::new();
            loop {
                let page = store.transfers(&query).expect("it reads");
                assert!(page.entries.len() <= limit && page.missing_up_to == LogIndex(0));
                found.extend(page.entries);
                match page.next {
                    Some(next) => query.before = Some(next),
                    None => break,
                }
            }
            assert_eq!(found, wanted, "{query:?}");
        }
    }
}

/// A row with one of a few participants, ends and amounts.
fn listed_row(number: u32, changed: u64) -> FinalTransfer {
    let outcomes = [
        Committed,
        Committed,
        Expired,
        Outcome::PrepareCapExceeded,
        Outcome::Aborted,
        Committed,
        Outcome::PreparePayerNotFound,
    ];
    let party = |number: u32| ParticipantIndex(1 + number % 5);
    let currency = if number.is_multiple_of(11) { "USD" } else { "KES" };
    let outcome = outcomes[number as usize % outcomes.len()];
    let answer = RecordedResponse {
        kind: ResponseKind::Fulfil,
        hash: hash(changed),
        log_index: LogIndex(changed),
    };
    FinalTransfer {
        payer: (outcome != Outcome::PreparePayerNotFound).then_some(party(number)),
        payee: if number % 29 == 28 {
            Some(ParticipantIndex::HUB)
        } else {
            Some(party(number / 5))
        },
        amount: Amount::from_units(i128::from(number % 97) * 10_000),
        currency: Currency::parse(currency).expect("a currency"),
        outcome,
        response: (outcome == Committed).then_some(answer),
        ..sample_row(number, changed)
    }
}

/// Filters by each member, and some by several.
fn filters(entries: &[TransferEntry]) -> Vec<TransferFilter> {
    let all = TransferFilter::default;
    let (newest, oldest) = (entries[0].place.at, entries[entries.len() - 1].place.at);
    let half = Stamp(u64::midpoint(newest.0, oldest.0));
    let units = |amount: i128| Some(Amount::from_units(amount * 10_000));
    let participant = Some(ParticipantIndex(3));
    vec![
        all(),
        TransferFilter { participant, ..all() },
        TransferFilter { participant: Some(ParticipantIndex(77)), ..all() },
        TransferFilter { ends: vec![TransferEnd::Refused], ..all() },
        TransferFilter { ends: vec![TransferEnd::Expired, TransferEnd::Aborted], ..all() },
        TransferFilter { ends: Vec::new(), ..all() },
        TransferFilter { from: Some(half), ..all() },
        TransferFilter { to: Some(half), ..all() },
        TransferFilter { from: Some(half), to: Some(half), ..all() },
        TransferFilter { from: Some(oldest), to: Some(newest), participant, ..all() },
        TransferFilter { amount_min: units(90), ..all() },
        TransferFilter { amount_max: units(0), participant, ..all() },
        TransferFilter { amount_min: units(50), amount_max: units(50), ..all() },
        TransferFilter { currency: Currency::parse("USD"), amount_min: units(10), ..all() },
        TransferFilter { currency: Currency::parse("EUR"), ..all() },
    ]
}

/// A window with one content and the sums of one account.
fn sample_window(number: u32, state: WindowState) -> ArchivedSettlement {
    let content = WindowContent {
        id: ContentId(number),
        kind: AccountKind::Position,
        currency: Currency::parse("KES").expect("a currency"),
        state,
        settlement: Some(SettlementId(number)),
        created: Stamp(u64::from(number)),
        changed: Stamp(u64::from(number)),
    };
    let window = Window {
        id: WindowId(number),
        state,
        reason: "a reason".into(),
        created: Stamp(1),
        changed: Stamp(u64::from(number)),
        opened: LogIndex(u64::from(number)),
        closed: LogIndex(u64::from(number) + 1),
        contents: vec![content],
    };
    let sums = AccountSums {
        account: AccountId(number),
        paid: Amount::from_units(i128::from(number)),
        received: Amount::ZERO,
        paid_count: 1,
        received_count: 0,
    };
    let (accounts, pairs) = (vec![sums].into(), Vec::new().into());
    ArchivedSettlement::Window(WindowWithSums { window, accounts, pairs })
}

fn sample_settlement(number: u32) -> ArchivedSettlement {
    let (state, reason) = (SettlementState::Settled, String::from("a reason"));
    let account = SettlementAccount {
        account: AccountId(number),
        net: Amount::from_units(-i128::from(number)),
        state,
        reason: reason.clone(),
        external_reference: "a reference".into(),
        changed: Stamp(3),
        cap_raise: Amount::ZERO,
    };
    let settlement = Settlement {
        id: SettlementId(number),
        model: "DEFERREDNET".into(),
        state,
        reason,
        created: Stamp(2),
        changed: Stamp(3),
        record: LogIndex(5),
        contents: vec![(WindowId(number), ContentId(number))],
    };
    let accounts = vec![account];
    ArchivedSettlement::Settlement(SettlementWithAccounts { settlement, accounts })
}

/// A decision without numbers, which made a notice owed.
fn decision(transfer: TransferId, log_index: u64, outcome: Outcome) -> Decision {
    let recipient = FspName::new("dfsp1").expect("a name");
    let owed =
        OwedNotice { notice: NoticeId(log_index), recipient, kind: NoticeKind::Error, outcome };
    let log_index = LogIndex(log_index);
    Decision { transfer, log_index, outcome, inputs: None, owed: vec![owed] }
}

/// Several batches, read by another thread while they are written.
fn check_many(subject: &mut impl Subject) {
    const BATCH: u32 = 500;
    let mut store = subject.make();
    for begin in (0..4_000).step_by(BATCH as usize) {
        let rows: Vec<_> = (begin..begin + BATCH)
            .map(|number| sample_row(number, u64::from(number) + 10))
            .collect();
        let end = u64::from(begin + BATCH) + 9;
        std::thread::scope(|scope| {
            let (store, rows) = (&store, &rows);
            scope.spawn(move || {
                let known = store.mark().log_index;
                let shown: Vec<_> = (0..begin).map(sample_id).collect();
                let mut left = shown.clone();
                store.drop_absent(&mut left).expect("it looks");
                left.sort_unstable();
                assert_eq!(left, shown, "written rows are not absent");
                for row in rows.iter().chain(&[sample_row(begin / 2, u64::from(begin / 2) + 10)]) {
                    let found = store.read(&row.id, LogIndex(u64::MAX)).expect("it reads");
                    assert!(found.is_some() || known < row.changed, "a written row is found");
                    assert!(found.is_none_or(|found| found == *row), "a row is whole");
                }
            });
            scope.spawn(move || store.write(&write_batch(rows.clone(), end)).expect("it writes"));
        });
    }
    for _ in 0..2 {
        for number in 0..4_000 {
            let row = sample_row(number, u64::from(number) + 10);
            assert_eq!(store.read(&row.id, row.changed), Ok(Some(row)));
        }
        store = subject.reopen(store);
    }
}
