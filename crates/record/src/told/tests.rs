use alloc::vec;

use ledger::NoticeKind;

use super::*;

/// Beyond any balance.
const UNITS_END: i128 = 1 << 100;

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn held(account: u32, before: i128, after: i128) -> Held {
    let (before, after) = (Amount::from_units(before), Amount::from_units(after));
    Held { account: AccountId(account), before, after }
}

/// Decisions with everything, with nothing, and with what is at the ends of its range.
fn samples() -> Vec<Told> {
    let side = Side {
        name: name("payerfsp"),
        active: true,
        account_active: false,
        position: held(7, -3, UNITS_END - 1),
        settlement: held(8, 1 - UNITS_END, 1 - UNITS_END),
        cap: Some(Amount::from_units(10_000_000)),
        owed: u32::MAX,
    };
    let other = Side { name: name("p"), active: false, account_active: true, cap: None, ..side };
    let owed = |notice, recipient| Owed {
        notice: NoticeId(notice),
        recipient: name(recipient),
        kind: NoticeKind::PatchAborted,
        outcome: Outcome::PrepareCapExceeded,
    };
    let numbers = Numbers {
        currency: Currency::parse("USD").expect("a currency"),
        sides: [Some(side), Some(other)],
        hub: [Some((AccountKind::InFlight, held(1, 0, -5))), None],
        hub_name: name("Hub"),
        lane_capacity: 50_000,
    };
    let decided = Decided {
        transfer: TransferId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").expect("an id"),
        position: Position(u64::MAX),
        outcome: Outcome::PrepareReserved,
        numbers: Some(numbers.clone()),
    };
    let lone = Numbers {
        sides: [None, Some(side)],
        hub: [None, Some((AccountKind::HubReconciliation, held(4, 9, 2)))],
        ..numbers
    };
    vec![
        Told { decided: decided.clone(), owed: vec![owed(1, "p"), owed(2, "stranger")] },
        Told { decided: Decided { numbers: Some(lone), ..decided.clone() }, owed: vec![] },
        Told {
            decided: Decided { numbers: None, position: Position(1), ..decided },
            owed: vec![owed(u64::MAX, "payerfsp")],
        },
    ]
}

fn stored(all: &[Told]) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin(&mut bytes);
    all.iter().for_each(|told| write(&told.decided, told.owed.iter().copied(), &mut bytes));
    bytes
}

#[test]
fn what_is_told_is_read_back() {
    let all = samples();
    assert_eq!(read_all(&stored(&all)), Ok(all));
    assert_eq!(read_all(&stored(&[])), Ok(vec![]));
}

/// What is gathered of a decision has room for the longest fields.
#[test]
fn the_longest_decision_is_read_back() {
    let mut told = samples().remove(0);
    let longest = name(&"n".repeat(32));
    let ends = || held(u32::MAX, -UNITS_END, UNITS_END - 1);
    let side = Side {
        name: longest,
        position: ends(),
        settlement: ends(),
        cap: Some(Amount::from_units(-UNITS_END)),
        ..told.decided.numbers.as_ref().and_then(|numbers| numbers.sides[0]).expect("a side")
    };
    told.decided.numbers = Some(Numbers {
        sides: [Some(side), Some(side)],
        hub: [Some((AccountKind::InFlight, ends())), Some((AccountKind::Outflow, ends()))],
        hub_name: longest,
        lane_capacity: u32::MAX,
        ..told.decided.numbers.expect("it has numbers")
    });
    let stranger = name(&"s".repeat(32));
    told.owed = vec![Owed { notice: NoticeId(u64::MAX), recipient: stranger, ..told.owed[0] }; 255];
    let all = [told];
    assert_eq!(read_all(&stored(&all)).as_deref(), Ok(&all[..]));
}

/// An account of the hub that was not moved is not told of.
#[test]
fn what_did_not_move_takes_no_room() {
    let mut told = samples().remove(0);
    let numbers = told.decided.numbers.as_mut().expect("it has numbers");
    numbers.hub[1] = Some((AccountKind::Outflow, held(3, 6, 6)));
    let read = read_all(&stored(&[told])).expect("it is read");
    assert_eq!(read[0].decided.numbers.as_ref().expect("it has numbers").hub[1], None);
}

#[test]
fn what_is_cut_short_or_of_another_version_is_refused() {
    let bytes = stored(&samples()[..1]);
    for end in 2..bytes.len() {
        assert!(read_all(&bytes[..end]).is_err(), "cut at {end}");
    }
    let mut other = bytes;
    other[0] = 2;
    assert_eq!(read_all(&other), Err(FieldError::Value));
    assert_eq!(ends_of(NoticeId(1), Position(0), &[2]), Err(FieldError::Value));
    assert_eq!(read_all(&[]), Err(FieldError::Short));
}

/// Values that this version never writes: each flag, kind, outcome and number out of its range.
#[test]
fn values_that_are_never_written_are_refused() {
    let told = Told { owed: vec![], ..samples().remove(0) };
    let good = stored(&[told]);
    let flags_at = 1 + 17 + 10 + 1;
    assert_eq!(good[flags_at], HAS_NUMBERS + SIDES[0] + SIDES[1] + HUB[0]);
    for (at, bad) in [(1, 99), (flags_at, 0x20), (flags_at, SIDES[0]), (flags_at + 1, b'1')] {
        let mut bytes = good.clone();
        bytes[at] = bad;
        assert_eq!(read_all(&bytes), Err(FieldError::Value), "{bad} at {at}");
    }
    let endless = [&[VALUE_VERSION][..], &[0; 17], &[0xff; 20]].concat();
    assert_eq!(read_all(&endless), Err(FieldError::Value));
}

#[test]
fn ends_of_deliveries_are_found_by_their_notice() {
    let base = Position(500);
    let ends = [(256, 500), (258, 501), (511, 70_000), (256, 70_001)]
        .map(|(n, p)| (NoticeId(n), Position(p)));
    let mut bytes = Vec::new();
    write_ends(base, &ends, &mut bytes);
    for (notice, expected) in [(256, vec![500, 70_001]), (257, vec![]), (511, vec![70_000])] {
        let expected: Vec<_> = expected.into_iter().map(Position).collect();
        assert_eq!(ends_of(NoticeId(notice), base, &bytes), Ok(expected), "{notice}");
    }
    assert_eq!([255, 256, 511, 512].map(|n| group_of(NoticeId(n))), [0, 1, 1, 2]);
    assert_eq!(ends_of(NoticeId(0), Position(u64::MAX), &[1, 0, 1]), Err(FieldError::Value));
}

#[test]
fn portions_are_put_together_in_order() {
    let (mut one, mut next) = (Telling::default(), Telling::default());
    assert!(one.is_empty());
    let all = samples();
    one.decided(&all[0].decided, all[0].owed.iter().copied());
    for told in &all[1..] {
        next.decided(&told.decided, told.owed.iter().copied());
    }
    next.delivered(NoticeId(3), Position(4));
    one.append(&mut next);
    assert!(next.is_empty());
    assert_eq!((one.len(), &*one.ends), (3, &[(NoticeId(3), Position(4))][..]));
    for ((transfer, position, bytes), told) in one.decisions().zip(&all) {
        let told = core::slice::from_ref(told);
        assert_eq!(*bytes, stored(told)[1..]);
        assert_eq!((transfer, position), (told[0].decided.transfer, told[0].decided.position));
    }
    one.clear();
    assert!(one.is_empty() && one.decisions().next().is_none());
}

#[test]
fn what_is_told_of_deliveries_alone_is_something() {
    let mut telling = Telling::default();
    assert!(telling.is_empty());
    telling.delivered(NoticeId(3), Position(9));
    assert!(!telling.is_empty());
    telling.clear();
    assert!(telling.is_empty());
    let Told { decided, .. } = samples().swap_remove(2);
    telling.decided(&decided, core::iter::empty());
    assert!(!telling.is_empty());
    // What its buffer held before is not told.
    let mut again = Telling::default();
    again.decided(&decided, core::iter::empty());
    assert_eq!(again, telling);
    telling.clear();
    assert_eq!(telling, Telling::default());
}

#[test]
fn what_is_gathered_counts_and_not_what_stood_there_before() {
    let gathered = |bytes: &[u8]| {
        let mut gathered = Gathered::default();
        gathered.bytes(bytes);
        gathered
    };
    let used = Gathered { length: 1, ..gathered(&[1, 2]) };
    assert!(used == gathered(&[1]));
    assert!(used != gathered(&[2]));
    assert!(used != gathered(&[1, 2]));
}

#[test]
fn flags_that_mean_nothing_are_refused() {
    let side = |flags: u8| {
        let mut bytes = Vec::from([1, b'a', flags]);
        bytes.resize(30, 0);
        read_side(&mut Reader(&bytes)).map(|side| (side.active, side.account_active, side.cap))
    };
    assert_eq!(side(0), Ok((false, false, None)));
    assert_eq!(side(ACTIVE + ACCOUNT_ACTIVE + HAS_CAP), Ok((true, true, Some(Amount::ZERO))));
    for flags in [8, 9, 128] {
        assert_eq!(side(flags), Err(FieldError::Value), "{flags}");
    }
    let numbers = |flags: u8| {
        let bytes = [&b"USD\0\x01H"[..], &[0; 9]].concat();
        read_numbers(flags, &mut Reader(&bytes)).map(|numbers| numbers.hub_name)
    };
    assert_eq!(numbers(HAS_NUMBERS), Ok(name("H")));
    for flags in [0, HAS_NUMBERS + 32, HAS_NUMBERS + 64, 255] {
        assert_eq!(numbers(flags), Err(FieldError::Value), "{flags}");
    }
}

#[test]
fn all_that_a_decision_can_be_made_on_is_read_back() {
    let Told { decided, owed } = samples().swap_remove(0);
    let numbers = decided.numbers.clone().expect("it has them");
    let kind = AccountKind::HubReconciliation;
    let all = Numbers { hub: [numbers.hub[0], Some((kind, held(4, 9, 2)))], ..numbers };
    let told = Told { decided: Decided { numbers: Some(all), ..decided }, owed };
    assert_eq!(read_all(&stored(core::slice::from_ref(&told))), Ok(vec![told]));
}
