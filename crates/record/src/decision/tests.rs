use alloc::format;
use alloc::vec;

use ledger::{
    AccountId, AccountKind, Amount, BalanceChange, Currency, DecisionInputs, FeeAccount, FspName,
    HubAccount, NoticeKind, Outcome, OwedNotice, PartyInputs,
};

use super::*;

/// Larger than any balance.
const UNITS_END: i128 = 1 << 100;

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn balance(account: u32, before: i128, change: i128) -> BalanceChange {
    let [before, change] = [before, change].map(Amount::from_units);
    BalanceChange { account: AccountId(account), before, change }
}

fn currency(code: &str) -> Currency {
    Currency::parse(code).expect("a currency")
}

fn owed(notice: u64, recipient: &str) -> OwedNotice {
    OwedNotice {
        notice: NoticeId(notice),
        recipient: name(recipient),
        kind: NoticeKind::PatchAborted,
        outcome: Outcome::PrepareCapExceeded,
    }
}

/// Decisions with all fields, with none, and with extreme values.
fn samples() -> Vec<Decision> {
    let party = PartyInputs {
        name: name("payerfsp"),
        currency: currency("USD"),
        active: true,
        account_active: false,
        position: balance(7, -3, UNITS_END - 1),
        settlement: balance(8, 1 - UNITS_END, 0),
        net_debit_cap: Some(Amount::from_units(10_000_000)),
        owed: u32::MAX,
    };
    let other = PartyInputs {
        name: name("p"),
        active: false,
        account_active: true,
        net_debit_cap: None,
        ..party
    };
    let hub = |kind, code, balance| HubAccount { kind, currency: currency(code), balance };
    let ordinary = DecisionInputs {
        parties: vec![party, other],
        fees: vec![],
        hub: vec![hub(AccountKind::InFlight, "USD", balance(1, 0, -5))],
        hub_name: name("Hub"),
        lane_capacity: 50_000,
    };
    let lone = DecisionInputs {
        parties: vec![],
        hub: vec![hub(AccountKind::HubReconciliation, "USD", balance(4, 9, 2))],
        ..ordinary.clone()
    };
    // A conversion: two currencies, and four accounts of three participants.
    let of_kes = |name| PartyInputs { name, currency: currency("KES"), ..other };
    let of_both = DecisionInputs {
        parties: vec![
            party,
            PartyInputs { name: name("fxp"), ..party },
            of_kes(name("fxp")),
            of_kes(name("p")),
        ],
        hub: vec![
            hub(AccountKind::InFlight, "KES", balance(1, 0, -5)),
            hub(AccountKind::InFlight, "USD", balance(2, 0, -5)),
        ],
        ..ordinary.clone()
    };
    let fee = |party, balance| FeeAccount { party, balance };
    let with_fees = DecisionInputs {
        fees: vec![fee(1, balance(9, 7, 3)), fee(0, balance(11, -7, -3))],
        ..ordinary.clone()
    };
    let empty = DecisionInputs { parties: vec![], hub: vec![], ..ordinary.clone() };
    let decided = Decision {
        transfer: TransferId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").expect("an id"),
        log_index: LogIndex(u64::MAX),
        outcome: Outcome::PrepareReserved,
        inputs: None,
        owed: vec![owed(1, "p"), owed(2, "stranger"), owed(u64::MAX, "payerfsp")],
    };
    let on = |inputs| Decision { inputs, ..decided.clone() };
    vec![
        on(Some(ordinary)),
        Decision { owed: vec![], ..on(Some(lone)) },
        Decision { log_index: LogIndex(1), ..on(None) },
        on(Some(of_both)),
        on(Some(empty)),
        on(Some(with_fees)),
    ]
}

fn stored(all: &[Decision]) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin(&mut bytes);
    all.iter().for_each(|decided| decided.write(&mut bytes));
    bytes
}

#[test]
fn decisions_round_trip() {
    let all = samples();
    assert_eq!(read_all(&stored(&all)), Ok(all));
    assert_eq!(read_all(&stored(&[])), Ok(vec![]));
}

/// A bulk transfer, with an account and a notice for each item.
#[test]
fn a_decision_about_a_thousand_accounts_is_read_back() {
    let mut decided = samples().remove(0);
    let inputs = decided.inputs.as_mut().expect("it has inputs");
    let (longest, party) = (name(&"n".repeat(32)), inputs.parties[0]);
    let ends = || balance(u32::MAX, 1 - UNITS_END, UNITS_END - 1);
    let net_debit_cap = Some(Amount::from_units(1 - UNITS_END));
    let party =
        PartyInputs { name: longest, position: ends(), settlement: ends(), net_debit_cap, ..party };
    let named = |number: u32| PartyInputs { name: name(&format!("{number:0>32}")), ..party };
    inputs.parties = (0..1_000).map(named).collect();
    (inputs.hub_name, inputs.lane_capacity) = (longest, u32::MAX);
    let recipients = (0..1_000).map(|number| owed(u64::MAX, &format!("{number:0>32}")));
    decided.owed = recipients.collect();
    let all = [decided];
    assert_eq!(read_all(&stored(&all)).as_deref(), Ok(&all[..]));
}

/// The size of a decision determines the size of the cold store and the work of the hot path.
#[test]
fn an_ordinary_decision_takes_few_bytes() {
    let mut decided = samples().remove(0);
    let inputs = decided.inputs.as_mut().expect("it has inputs");
    for (party, before) in inputs.parties.iter_mut().zip([1_250_000, -1_250_000]) {
        party.position = balance(7, before, 100_000);
        party.settlement = balance(8, -50_000_000, 0);
        party.owed = 1;
    }
    (decided.log_index, decided.owed) = (LogIndex(1_000_000), vec![owed(1_000_000, "p")]);
    assert_eq!(stored(&[decided]).len(), 91);
}

#[test]
fn truncated_values_and_other_versions_are_refused() {
    for decided in samples() {
        let bytes = stored(&[decided]);
        for end in 2..bytes.len() {
            assert!(read_all(&bytes[..end]).is_err(), "cut at {end}");
        }
        let other = [&[2], &bytes[1..]].concat();
        assert_eq!(read_all(&other), Err(FieldError::Value));
    }
    assert_eq!(ends_of(NoticeId(1), LogIndex(0), &[2]), Err(FieldError::Value));
    assert_eq!(read_all(&[]), Err(FieldError::Short));
}

/// Values that this version never writes: tags, kinds, outcomes and numbers out of range.
#[test]
fn values_that_are_never_written_are_refused() {
    let good = stored(&samples()[..1]);
    // The version, the id, the record and the outcome come first.
    let count_at = 1 + 17 + 10 + 1;
    let first_at = count_at + 1 + 3 + 4 + 3;
    assert_eq!((good[count_at], good[first_at]), (4, 1 + 4));
    let (outcome_at, currency_at) = (count_at - 1, first_at - 3);
    for (at, bad) in [
        (1, 99),
        (outcome_at, 0),
        (currency_at, b'1'),
        (first_at, 9),
        (first_at, 0x7f),
        (first_at, 0x80),
        (first_at, 0x80 + 101),
    ] {
        let mut bytes = good.clone();
        bytes[at] = bad;
        assert_eq!(read_all(&bytes), Err(FieldError::Value), "{bad} at {at}");
    }
    // The currency is repeated, or is longer than needed.
    let same = [&good[..first_at], b"\x08USD", &good[first_at..]].concat();
    assert_eq!(read_all(&same), Err(FieldError::Value));
    let endless = [&[VALUE_VERSION][..], &[0; 17], &[0xff; 20]].concat();
    let longer = [&[VALUE_VERSION][..], &[0; 17], &[0x81, 0]].concat();
    for bytes in [endless, longer] {
        assert_eq!(read_all(&bytes), Err(FieldError::Value));
    }
}

#[test]
fn ends_of_deliveries_are_found_by_their_notice() {
    let base = LogIndex(500);
    let ends = [(256, 500), (258, 501), (511, 70_000), (256, 70_001)]
        .map(|(n, p)| (NoticeId(n), LogIndex(p)));
    let mut bytes = Vec::new();
    write_ends(base, &ends, &mut bytes);
    for (notice, expected) in [(256, vec![500, 70_001]), (257, vec![]), (511, vec![70_000])] {
        let expected: Vec<_> = expected.into_iter().map(LogIndex).collect();
        assert_eq!(ends_of(NoticeId(notice), base, &bytes), Ok(expected), "{notice}");
    }
    assert_eq!([255, 256, 511, 512].map(|n| group_of(NoticeId(n))), [0, 1, 1, 2]);
    assert_eq!(ends_of(NoticeId(0), LogIndex(u64::MAX), &[1, 0, 1]), Err(FieldError::Value));
}

#[test]
fn portions_are_put_together_in_order() {
    let (mut one, mut next) = (DecisionWriter::default(), DecisionWriter::default());
    assert!(one.is_empty());
    let all = samples();
    one.record_decision(&all[0]);
    all[1..].iter().for_each(|decided| next.record_decision(decided));
    next.record_delivery(NoticeId(3), LogIndex(4));
    one.append(&mut next);
    assert!(next.is_empty());
    assert_eq!((one.len(), &*one.ends), (all.len(), &[(NoticeId(3), LogIndex(4))][..]));
    for ((transfer, log_index, bytes), decided) in one.decisions().zip(&all) {
        assert_eq!(read_one(bytes).as_ref(), Ok(decided));
        assert_eq!((transfer, log_index), (decided.transfer, decided.log_index));
    }
    one.clear();
    assert!(one.is_empty() && one.decisions().next().is_none());
}

#[test]
fn writer_with_deliveries_only_is_not_empty() {
    let mut writer = DecisionWriter::default();
    writer.record_delivery(NoticeId(3), LogIndex(9));
    assert!(!writer.is_empty());
    writer.clear();
    assert_eq!(writer, DecisionWriter::default());
    writer.record_decision(&samples()[2]);
    assert!(!writer.is_empty());
}
