use alloc::format;
use alloc::string::String;

use expect_test::expect_file;
use proptest::prelude::*;

use super::*;
use crate::party_names::PartyKey;
use alloc::vec;

use ledger::{
    AccountId, AccountKind, AccountSums, Amount, ContentId, Digest, PairSums, ParticipantIndex,
    RecordedResponse, ResponseKind, Settlement, SettlementAccount, SettlementId, SettlementState,
    SettlementWithAccounts, Stamp, Window, WindowContent, WindowId, WindowState, WindowWithSums,
};

fn id() -> TransferId {
    TransferId::parse("b51ec534-ee48-4575-b6a9-ead2955b8069").expect("an id")
}

fn row(changed: u64) -> FinalTransfer {
    FinalTransfer {
        id: id(),
        payer: Some(ParticipantIndex(2)),
        payee: Some(ParticipantIndex(3)),
        amount: Amount::from_units(1_250_000),
        currency: Currency::parse("KES").expect("a currency"),
        hash: Digest([0x11; 32]),
        prepare: LogIndex(7),
        response: None,
        outcome: Outcome::Expired,
        completed: Stamp(1_700_000_000_000_000),
        changed: LogIndex(changed),
    }
}

fn response(kind: ResponseKind) -> Option<RecordedResponse> {
    Some(RecordedResponse { kind, hash: Digest([0x22; 32]), log_index: LogIndex(9) })
}

fn window() -> ArchivedSettlement {
    let content = WindowContent {
        id: ContentId(4),
        kind: AccountKind::Position,
        currency: Currency::parse("KES").expect("a currency"),
        state: WindowState::Settled,
        settlement: Some(SettlementId(2)),
        created: Stamp(10),
        changed: Stamp(30),
    };
    let window = Window {
        id: WindowId(3),
        state: WindowState::Settled,
        reason: "end of day".into(),
        created: Stamp(5),
        changed: Stamp(30),
        opened: LogIndex(100),
        closed: LogIndex(200),
        contents: vec![content],
    };
    let sums = |account, paid, received| AccountSums {
        account: AccountId(account),
        paid: Amount::from_units(paid),
        received: Amount::from_units(received),
        paid_count: u64::from(paid != 0),
        received_count: u64::from(received != 0),
    };
    let (payer, payee) = (AccountId(6), AccountId(8));
    let pair = PairSums { payer, payee, amount: Amount::from_units(70_000), count: 1 };
    let accounts = vec![sums(6, 70_000, 0), sums(8, 0, 70_000)].into();
    ArchivedSettlement::Window(WindowWithSums { window, accounts, pairs: vec![pair].into() })
}

fn settlement() -> ArchivedSettlement {
    let account = |account, net, reference: &str| SettlementAccount {
        account: AccountId(account),
        net: Amount::from_units(net),
        state: SettlementState::Settled,
        reason: "paid".into(),
        external_reference: reference.into(),
        changed: Stamp(29),
        cap_raise: Amount::ZERO,
    };
    let settlement = Settlement {
        id: SettlementId(2),
        model: "DEFERREDNET".into(),
        state: SettlementState::Settled,
        reason: "All settlement accounts are SETTLED".into(),
        created: Stamp(20),
        changed: Stamp(30),
        record: LogIndex(210),
        contents: vec![(WindowId(3), ContentId(4))],
    };
    let accounts = vec![account(6, 70_000, "bank 1"), account(8, -70_000, "")];
    ArchivedSettlement::Settlement(SettlementWithAccounts { settlement, accounts })
}

/// One value of each kind, with a name.
fn known() -> Vec<(&'static str, Vec<u8>)> {
    let committed = FinalTransfer {
        response: response(ResponseKind::Fulfil),
        outcome: Outcome::Committed,
        ..row(9)
    };
    let aborted = FinalTransfer {
        response: response(ResponseKind::Abort),
        outcome: Outcome::Aborted,
        ..row(9)
    };
    let unknown = FinalTransfer {
        payer: None,
        payee: None,
        outcome: Outcome::PreparePayerNotFound,
        ..row(7)
    };
    let late = FinalTransfer { response: response(ResponseKind::Fulfil), ..row(9) };
    let value = |rows: &[&FinalTransfer]| {
        let mut value = Vec::new();
        for row in rows {
            let stored = core::mem::take(&mut value);
            add_version(&stored, row, &mut value).expect("it was just written");
        }
        value
    };
    let fsp = FspName::new("bluebank").expect("a name");
    let kes = Currency::parse("KES");
    // As version 1 wrote it: one entry, without the number of a record.
    let party = |currency: Option<Currency>| {
        let mut value = Vec::from([VALUE_VERSION]);
        match currency {
            None => value.push(0),
            Some(currency) => currency.write(&mut value),
        }
        fsp.write(&mut value);
        value
    };
    let parties = |at, currencies: &[Option<Currency>]| {
        let mut value = Vec::new();
        write_party(LogIndex(at), currencies.iter().map(|it| (*it, &fsp)), &mut value);
        value
    };
    let archived = |row: &ArchivedSettlement| {
        let mut value = Vec::new();
        write_archived(row, &mut value);
        value
    };
    let key = PartyKey::of_seed(&[7; 16]);
    Vec::from([
        ("committed", value(&[&committed])),
        ("aborted", value(&[&aborted])),
        ("refused", value(&[&unknown])),
        ("expired", value(&[&row(8)])),
        ("expired and answered", value(&[&row(8), &late])),
        ("party", party(None)),
        ("party in a currency", party(Currency::parse("KES"))),
        ("key of a party", party_key("MSISDN", "+254700000001", None)),
        ("key of a sub-identifier", party_key("BUSINESS", "shop", Some("till 4"))),
        ("window", archived(&window())),
        ("settlement", archived(&settlement())),
        ("party with a record", parties(9, &[None])),
        ("parties in two currencies", parties(1_234_567, &[kes, Currency::parse("USD")])),
        ("party that was released", parties(300, &[])),
        ("key of a window", archive_key(ArchiveKind::Window, 3).into()),
        ("key of a hashed party", key.row_key("MSISDN", "+254700000001", None)),
        ("key of a hashed sub-identifier", key.row_key("BUSINESS", "shop", Some("till 4"))),
    ])
}

#[test]
fn stored_forms_match_the_fixture() {
    let mut text = String::from("# Version 1. Lines are added, never changed.\n");
    for (name, value) in known() {
        let hexadecimal: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("{name}: {hexadecimal}\n"));
    }
    expect_file!["../../tests/fixtures/cold-v1.txt"].assert_eq(&text);
}

#[test]
fn truncated_values_and_other_versions_are_refused() {
    for (name, value) in known() {
        let is_refused = |value: &[u8]| match name {
            "window" => read_archived(ArchiveKind::Window, value) != Ok(window()),
            "settlement" => read_archived(ArchiveKind::Settlement, value) != Ok(settlement()),
            name if name.starts_with("part") => read_party(value).is_err(),
            _ => version_at(&id(), value, LogIndex(u64::MAX)).is_err(),
        };
        if name.starts_with("key") {
            continue;
        }
        assert!(!is_refused(&value), "{name}");
        // Cut between two versions, or before the first, it is a valid row with fewer versions.
        let is_between = |cut| match name {
            "expired and answered" => cut == 1 || cut == 77,
            "party with a record" => cut == 2,
            "parties in two currencies" => cut == 4 || cut == 16,
            name if name.starts_with("part") => false,
            _ => cut == 1,
        };
        for cut in (1..value.len()).filter(|cut| !is_between(*cut)) {
            assert!(is_refused(&value[..cut]), "{name} cut at {cut}");
        }
        let is_of_parties = name.starts_with("part") && value[0] == PARTY_VERSION;
        for version in [0, if is_of_parties { 3 } else { 2 }, 255] {
            let mut other = value.clone();
            other[0] = version;
            assert!(is_refused(&other), "{name} of version {version}");
        }
        let mut longer = value.clone();
        longer.push(0);
        assert!(is_refused(&longer), "{name} with a byte behind it");
    }
}

#[test]
fn only_an_expired_transfer_that_was_answered_has_changed_before() {
    let responded = FinalTransfer { response: response(ResponseKind::Fulfil), ..row(9) };
    assert!(is_first(&row(8)));
    assert!(!is_first(&responded));
    assert!(is_first(&FinalTransfer { outcome: Outcome::Committed, ..responded }));
    assert!(is_first(&FinalTransfer { outcome: Outcome::Aborted, ..row(9) }));
}

#[test]
fn a_version_takes_the_place_of_one_that_the_same_record_made() {
    let mut before = Vec::new();
    add_version(&[], &row(8), &mut before).expect("it was just written");
    let mended = FinalTransfer { hash: Digest([0x33; 32]), ..row(8) };
    let mut value = Vec::new();
    add_version(&before, &mended, &mut value).expect("it was just written");
    assert_eq!(value.len(), before.len());
    assert_eq!(version_at(&id(), &value, LogIndex(8)), Ok(Some(mended)));
}

#[test]
fn a_number_is_one_party_with_and_without_its_plus() {
    let key = |id_type, id| party_key(id_type, id, Some("+1"));
    assert_eq!(key("MSISDN", "+254700000001"), key("MSISDN", "254700000001"));
    assert_ne!(key("ALIAS", "+254700000001"), key("ALIAS", "254700000001"));
    assert_ne!(party_key("MSISDN", "1", Some("+1")), party_key("MSISDN", "1", Some("1")));
}

#[test]
fn no_two_parties_share_a_key() {
    let texts = ["", "a", "ab", "b", "a\0", "\u{1}a"];
    let subs = texts.iter().map(|text| Some(*text)).chain([None]);
    let mut keys = Vec::new();
    for sub_id in subs {
        for id_type in texts {
            keys.extend(texts.iter().map(|id| party_key(id_type, id, sub_id)));
        }
    }
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
}

proptest! {
    /// Each version is found from its record up to the next one, whatever the order in which
    /// versions are added, and however often.
    #[test]
    fn versions_are_found_by_record(order in prop::collection::vec(0..6u64, 1..12), at in 0..8u64) {
        let mut value = Vec::new();
        for changed in &order {
            let stored = core::mem::take(&mut value);
            add_version(&stored, &row(*changed), &mut value).expect("it was just written");
        }
        let newest = order.iter().filter(|changed| **changed <= at).max();
        let expected = newest.map(|changed| row(*changed));
        prop_assert_eq!(version_at(&id(), &value, LogIndex(at)), Ok(expected));
    }
}
