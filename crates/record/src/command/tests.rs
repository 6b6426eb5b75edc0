//! The codec of commands: values round-trip, invalid bytes are rejected, and version 1 stays
//! readable.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use alloc::vec;
use std::collections::BTreeSet;
use std::{format, panic};

use ledger::field::{Chooser, Field};
use ledger::{
    Amount, Batch, Change, ChangeParties, Currency, DeliveryResult, Digest, ENTRIES_MAX, Effects,
    FinishedDelivery, FspName, Genesis, LogIndex, NoticeId, Outcome, Prepare, RecordQuote, Stamp,
    State, TransferId,
};
use proptest::prelude::*;

use super::*;

const TICK: u16 = 2;
const PREPARE: u16 = 3;
const FINISH_DELIVERIES: u16 = 6;
/// Bound of amounts in commands, in ten-thousandths.
const UNITS_END: i128 = 10_i128.pow(22);

/// One command of every kind and every change, as written by version 1. Each line has the name, the
/// number of the kind and the fields in hexadecimal. Lines are added, never changed.
const FIXTURE: &str = include_str!("../../tests/fixtures/commands-v1.txt");

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn values_round_trip(command in command()) {
        let mut fields = Vec::new();
        write_fields(&command, &mut fields);
        prop_assert_eq!(read_fields(command.number(), FIELDS_VERSION, &fields), Ok(command));
    }

    #[test]
    fn a_record_cut_short_or_with_something_behind_it_is_refused(
        command in command(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut fields = Vec::new();
        write_fields(&command, &mut fields);
        // The length of a prepare with terms decides which of its last fields it has.
        let has_terms = matches!(&command, Command::Prepare(it) if it.quote_terms.is_some());
        if !fields.is_empty() && !has_terms {
            let short = &fields[..cut.index(fields.len())];
            let read_short = read_fields(command.number(), FIELDS_VERSION, short);
            match without_last_field(&command) {
                Some(without) if read_short.is_ok() => prop_assert_eq!(read_short, Ok(without)),
                _ => prop_assert!(read_short.is_err()),
            }
        }
        fields.push(0);
        let long = read_fields(command.number(), FIELDS_VERSION, &fields);
        // A byte in place of a field that is absent is read as its beginning.
        let lacks_field = matches!(
            &command,
            Command::Prepare(it) if it.fee_rule.is_none() || it.quote_terms.is_none()
        );
        let lacks_request = matches!(&command, Command::RecordQuote(it) if it.request.is_none());
        let lacks_rule =
            matches!(&command, Command::ChangeParties(change) if change.rule.is_none());
        let expected = match (lacks_field || lacks_request, lacks_rule) {
            (true, _) => FieldError::Short,
            (_, true) => FieldError::Value,
            (false, false) => FieldError::Long,
        };
        prop_assert_eq!(long, Err(expected));
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The kernel decides every storable command: it never panics, and accounts sum to zero.
    #[test]
    fn every_storable_command_is_decided(
        commands in prop::collection::vec(command(), 1..60),
        stamps in prop::collection::vec(0..2_000_000u64, 60),
    ) {
        let mut state = State::new();
        let hub = FspName::new("Hub").expect("a name");
        let genesis = Command::Genesis(Genesis { seed: [1; 16], hub });
        apply(&mut state, 0, &genesis);
        for (command, wait) in commands.iter().zip(stamps) {
            if !matches!(command, Command::Genesis(_)) {
                let outcome = apply(&mut state, wait, command);
                prop_assert!(Outcome::ALL.contains(&outcome));
            }
        }
        for (_, sum) in state.accounts().sums() {
            prop_assert_eq!(sum, Amount::ZERO);
        }
    }
}

#[test]
fn version_1_stays_readable() {
    let mut kinds = BTreeSet::new();
    for line in FIXTURE.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let (kind, fields) = (words[1].parse().expect("a number"), bytes_of(words[2]));
        let command = read_fields(kind, 1, &fields).unwrap_or_else(|e| panic!("{line}: {e}"));
        let mut again = Vec::new();
        write_fields(&command, &mut again);
        assert_eq!((command.number(), again), (kind, fields), "{line}");
        assert_eq!(name_of_kind(&command), words[0], "{line}");
        kinds.insert(words[0].to_owned());
    }
    let is_missing = |line: &String| !kinds.contains(line.split(' ').next().unwrap_or_default());
    let missing: Vec<_> = every_kind().filter(is_missing).collect();
    assert!(missing.is_empty(), "add to tests/fixtures/commands-v1.txt:\n{}", missing.join("\n"));
}

/// A line of the fixture for each kind of command and each kind of change.
fn every_kind() -> impl Iterator<Item = String> {
    let changes = Change::TABLE.iter().map(|(name, _)| *name);
    let names = Command::TABLE.iter().map(|(name, _)| *name).chain(changes);
    names.filter(|name| *name != "Administer").map(|name| {
        let mut made_up = (0..).map(|seed| made_up(&mut Seeded(seed)));
        let command = made_up.find(|command| name_of_kind(command) == name);
        let command = command.expect("every kind is made up in the end");
        let mut fields = Vec::new();
        write_fields(&command, &mut fields);
        format!("{name} {} {}", command.number(), hexadecimal(&fields))
    })
}

/// The name of the change, if the command is one.
fn name_of_kind(command: &Command) -> &'static str {
    let name = |found: Option<&'static str>| found.expect("every number is in the table");
    if let Command::Administer(administer) = command {
        let number = administer.change.number();
        return name(Change::TABLE.iter().find(|(_, it)| *it == number).map(|(name, _)| *name));
    }
    let number = command.number();
    name(Command::TABLE.iter().find(|(_, it)| *it == number).map(|(name, _)| *name))
}

#[test]
fn unknown_kinds_and_versions_are_refused() {
    for (kind, version) in [(0, 1), (14, 1), (u16::MAX, 1), (TICK, 0), (TICK, 2)] {
        assert_eq!(read_fields(kind, version, &[]), Err(FieldError::Value), "{kind} {version}");
    }
}

#[test]
fn a_count_is_not_believed() {
    for (count, error) in [
        (1, FieldError::Short),
        (ENTRIES_MAX as u32, FieldError::Short),
        (ENTRIES_MAX as u32 + 1, FieldError::Value),
        (u32::MAX, FieldError::Value),
    ] {
        let read = read_fields(FINISH_DELIVERIES, 1, &count.to_le_bytes());
        assert_eq!(read, Err(error), "{count}");
    }
}

#[test]
fn field_errors_display_their_cause() {
    let error_of = |fields: &[u8]| read_fields(FINISH_DELIVERIES, 1, fields).unwrap_err();
    for (fields, words) in [
        (&[1, 0, 0, 0][..], "end too early"),
        (&[0, 0, 0, 0, 0][..], "follow the record's last field"),
        (&[255; 4][..], "never writes"),
    ] {
        let error = error_of(fields).to_string();
        assert!(error.contains(words), "{fields:?}: {error}");
    }
}

#[test]
fn as_many_entries_as_allowed_are_read_back() {
    let command = Command::FinishDeliveries(vec![finished(1); ENTRIES_MAX]);
    let mut fields = Vec::new();
    write_fields(&command, &mut fields);
    assert_eq!(read_fields(FINISH_DELIVERIES, 1, &fields), Ok(command));
}

#[test]
fn amounts_beyond_their_bounds_are_refused() {
    let prepare = |units| Prepare { amount: Amount::from_units(units), ..known_prepare() };
    let mut fields = Vec::new();
    write_fields(&Command::Prepare(Box::new(prepare(0x0123_4567_89AB_CDEF))), &mut fields);
    let stored = 0x0123_4567_89AB_CDEF_i128.to_le_bytes();
    let at = fields.windows(16).position(|bytes| bytes == stored).expect("the amount");
    for (units, accepted) in
        [(0, true), (UNITS_END - 1, true), (UNITS_END, false), (-1, false), (i128::MIN, false)]
    {
        fields[at..at + 16].copy_from_slice(&units.to_le_bytes());
        let expected = if accepted {
            Ok(Command::Prepare(Box::new(prepare(units))))
        } else {
            Err(FieldError::Value)
        };
        assert_eq!(read_fields(PREPARE, 1, &fields), expected, "{units}");
    }
}

#[test]
#[should_panic = "an amount that is moved is never negative"]
fn a_negative_amount_is_not_written() {
    let prepare = Prepare { amount: Amount::from_units(-1), ..known_prepare() };
    write_fields(&Command::Prepare(Box::new(prepare)), &mut Vec::new());
}

fn apply(state: &mut State, wait: u64, command: &Command) -> Outcome {
    let first = LogIndex(state.log_index().0 + 1);
    let stamp = Stamp(state.stamp().0 + wait);
    let mut effects = Effects::default();
    let batch = Batch { first, stamp, node: 1, epoch: 1, sequence: first.0 };
    state.apply(&batch, [command], &mut effects);
    effects.outcomes[0]
}

/// A command of any kind. Every second one is a change by an operator.
fn command() -> impl Strategy<Value = Command> {
    any::<u64>().prop_map(|seed| made_up(&mut Seeded(seed)))
}

fn made_up(chooser: &mut Seeded) -> Command {
    match chooser.choose(1) {
        0 => Command::generate(chooser),
        _ => Command::Administer(Field::generate(chooser)),
    }
}

/// SplitMix64.
struct Seeded(u64);

impl Chooser for Seeded {
    fn choose(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * (u128::from(most) + 1)) >> 64) as u64
    }
}

/// A command as a version without its last field wrote it.
fn without_last_field(command: &Command) -> Option<Command> {
    if let Command::ChangeParties(change) = command {
        let change = ChangeParties { rule: None, ..(**change).clone() };
        return Some(Command::ChangeParties(Box::new(change)));
    }
    if let Command::RecordQuote(quote) = command {
        let quote = RecordQuote { request: None, ..(**quote).clone() };
        return Some(Command::RecordQuote(Box::new(quote)));
    }
    let Command::Prepare(prepare) = command else { return None };
    Some(Command::Prepare(Box::new(Prepare { fee_rule: None, ..(**prepare).clone() })))
}

fn known_prepare() -> Prepare {
    Prepare {
        id: id_of("b51ec534-ee48-4575-b6a9-ead2955b8069"),
        source: name_of("dfsp1"),
        payer: name_of("dfsp1"),
        payee: name_of("dfsp-\u{fc}"),
        currency: currency_of("USD"),
        amount: Amount::from_units(105_000),
        condition: sequence(40),
        expiration_ms: 1_767_225_600_123,
        hash: Digest(sequence(80)),
        trace: sequence(120),
        fee_rule: None,
        quote_terms: None,
    }
}

fn finished(number: u64) -> FinishedDelivery {
    FinishedDelivery {
        notice: NoticeId(number),
        result: DeliveryResult::Delivered,
        attempts: 7,
        status: 503,
        finished_ms: 1_767_225_600_456,
    }
}

fn id_of(text: &str) -> TransferId {
    TransferId::parse(text).expect("an id")
}

fn name_of(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn currency_of(text: &str) -> Currency {
    Currency::parse(text).expect("a currency")
}

/// Bytes that differ from their neighbours, so that a swapped field shows.
fn sequence<const N: usize>(first: u8) -> [u8; N] {
    core::array::from_fn(|at| first + at as u8)
}

/// Prints hexadecimal, or a dash for a record without fields, so that no line ends in a blank.
fn hexadecimal(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).expect("a digit") as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
