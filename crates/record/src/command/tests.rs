//! The codec: what is written is read back, what is read was written by somebody, and what was
//! written by version 1 is understood forever.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString as _};
use alloc::vec;
use std::format;

use ledger::{ALL_OUTCOMES, Batch, Effects, Outcome, Position, Stamp, State};
use proptest::prelude::*;

use super::*;

/// One command of every kind and every change, as version 1 wrote them: a line each, with name,
/// number of the kind and fields in hexadecimal. Lines are added, never changed.
const FIXTURE: &str = include_str!("../../tests/fixtures/commands-v1.txt");

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_written_is_read_back(command in command()) {
        let mut fields = Vec::new();
        write_fields(&command, &mut fields);
        prop_assert_eq!(read_fields(kind_of(&command), FIELDS_VERSION, &fields), Ok(command));
    }

    #[test]
    fn a_record_cut_short_or_with_something_behind_it_is_refused(
        command in command(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut fields = Vec::new();
        write_fields(&command, &mut fields);
        if !fields.is_empty() {
            let short = &fields[..cut.index(fields.len())];
            prop_assert!(read_fields(kind_of(&command), FIELDS_VERSION, short).is_err());
        }
        fields.push(0);
        let long = read_fields(kind_of(&command), FIELDS_VERSION, &fields);
        prop_assert_eq!(long, Err(FieldError::Long));
    }

    /// Two byte strings never mean the same command: what is read would be written so again.
    #[test]
    fn any_bytes_are_refused_or_are_what_would_be_written(
        kind in 0..10u16,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        check_canonical(kind, &bytes)?;
    }

    #[test]
    fn a_damaged_record_is_refused_or_is_what_would_be_written(
        command in command(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let mut fields = Vec::new();
        write_fields(&command, &mut fields);
        if !fields.is_empty() {
            let at = at.index(fields.len());
            fields[at] ^= flip;
            check_canonical(kind_of(&command), &fields)?;
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The kernel decides whatever the log can hold: it never panics, and money adds up.
    #[test]
    fn whatever_can_be_stored_can_be_decided(
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
                prop_assert!(ALL_OUTCOMES.contains(&outcome));
            }
        }
        for (_, sum) in state.books().sums() {
            prop_assert_eq!(sum, Amount::ZERO);
        }
    }
}

#[test]
fn version_1_is_understood_forever() {
    let known = known_commands();
    let lines: Vec<&str> = FIXTURE.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), known.len(), "every line has its command");
    for (line, (name, command)) in lines.iter().zip(known) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], name);
        let kind = words[1].parse().expect("a number");
        assert_eq!(read_fields(kind, 1, &bytes_of(words[2])), Ok(command), "{name}");
    }
}

#[test]
fn this_version_writes_what_the_fixture_holds() {
    let mut text = String::from("# Version 1. Lines are added, never changed.\n");
    for (name, command) in known_commands() {
        let mut fields = Vec::new();
        write_fields(&command, &mut fields);
        text.push_str(&format!("{name} {} {}\n", kind_of(&command), hexadecimal(&fields)));
    }
    assert_eq!(text, FIXTURE);
}

#[test]
fn unknown_kinds_and_versions_are_refused() {
    for (kind, version) in [(0, 1), (9, 1), (u16::MAX, 1), (kind::TICK, 0), (kind::TICK, 2)] {
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
        let read = read_fields(kind::FINISH_DELIVERIES, 1, &count.to_le_bytes());
        assert_eq!(read, Err(error), "{count}");
    }
}

#[test]
fn a_fault_says_what_is_wrong() {
    let said = |fields: &[u8]| read_fields(kind::FINISH_DELIVERIES, 1, fields).unwrap_err();
    for (fields, words) in [
        (&[1, 0, 0, 0][..], "end too early"),
        (&[0, 0, 0, 0, 0][..], "follow the record's last field"),
        (&[255; 4][..], "never writes"),
    ] {
        let error = said(fields).to_string();
        assert!(error.contains(words), "{fields:?}: {error}");
    }
}

#[test]
fn as_many_entries_as_allowed_are_read_back() {
    let command = Command::FinishDeliveries(vec![finished(1); ENTRIES_MAX]);
    let mut fields = Vec::new();
    write_fields(&command, &mut fields);
    assert_eq!(read_fields(kind::FINISH_DELIVERIES, 1, &fields), Ok(command));
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
        assert_eq!(read_fields(kind::PREPARE, 1, &fields), expected, "{units}");
    }
}

#[test]
fn amounts_below_their_bound_are_refused() {
    let read = |units: i128| super::amount(&mut Reader(&units.to_le_bytes()));
    for units in [1 - UNITS_END, -1, 0, UNITS_END - 1] {
        assert_eq!(read(units), Ok(Amount::from_units(units)));
    }
    for units in [i128::MIN, -UNITS_END, UNITS_END, i128::MAX] {
        assert_eq!(read(units), Err(FieldError::Value), "{units}");
    }
}

#[test]
fn keys_beyond_their_bound_are_refused() {
    let read = |length: usize| {
        let mut fields = Vec::new();
        let mut writer = Writer(&mut fields);
        writer.short("bluebank");
        writer.bytes(&[7; 32]);
        writer.u16(length as u16);
        writer.bytes(&vec![1; length]);
        read_key(&mut Reader(&fields))
    };
    assert!(read(4).is_ok());
    assert!(read(KEY_BYTES_MAX).is_ok());
    for length in [KEY_BYTES_MAX + 1, usize::from(u16::MAX)] {
        assert_eq!(read(length), Err(FieldError::Value), "{length}");
    }
}

#[test]
#[should_panic = "what is moved is never negative"]
fn a_negative_amount_is_not_written() {
    let prepare = Prepare { amount: Amount::from_units(-1), ..known_prepare() };
    write_fields(&Command::Prepare(Box::new(prepare)), &mut Vec::new());
}

fn check_canonical(kind: u16, bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(command) = read_fields(kind, FIELDS_VERSION, bytes) {
        let mut again = Vec::new();
        write_fields(&command, &mut again);
        prop_assert_eq!(kind_of(&command), kind);
        prop_assert_eq!(again, bytes);
    }
    Ok(())
}

fn apply(state: &mut State, wait: u64, command: &Command) -> Outcome {
    let first = Position(state.position().0 + 1);
    let stamp = Stamp(state.stamp().0 + wait);
    let mut effects = Effects::default();
    let batch = Batch { first, stamp, node: 1, epoch: 1, sequence: first.0 };
    state.apply(&batch, [command], &mut effects);
    effects.outcomes[0]
}

/// Every kind of command, every change, every variant of a field.
fn known_commands() -> Vec<(&'static str, Command)> {
    let mut known = vec![
        ("genesis", Command::Genesis(Genesis { seed: sequence(3), hub: name_of("Hub") })),
        ("tick", Command::Tick),
        ("prepare", Command::Prepare(Box::new(known_prepare()))),
        ("fulfil", Command::Fulfil(Box::new(known_fulfil()))),
        ("fulfil-reserved", {
            let (state, fulfilment) = (FulfilState::Reserved, Fulfilment::Absent);
            let destination = None;
            Command::Fulfil(Box::new(Fulfil { state, fulfilment, destination, ..known_fulfil() }))
        }),
        ("fulfil-reserved-1.0", {
            let state = FulfilState::ReservedUnderVersion10;
            Command::Fulfil(Box::new(Fulfil { state, ..known_fulfil() }))
        }),
        ("fulfil-aborted", {
            let (state, fulfilment) = (FulfilState::Aborted, Fulfilment::Undecodable);
            Command::Fulfil(Box::new(Fulfil { state, fulfilment, ..known_fulfil() }))
        }),
        ("abort", Command::Abort(Box::new(known_abort()))),
        ("abort-unknown-code", {
            let (code_is_known, destination) = (false, None);
            Command::Abort(Box::new(Abort { code_is_known, destination, ..known_abort() }))
        }),
        ("finish-deliveries", Command::FinishDeliveries((1..=3).map(finished).collect())),
        ("finish-no-deliveries", Command::FinishDeliveries(Vec::new())),
        ("change-parties", Command::ChangeParties(Box::new(known_parties()))),
        ("change-parties-batch", {
            let (form, parties) = (PartyChangeForm::Batch, Vec::new());
            Command::ChangeParties(Box::new(ChangeParties { form, parties, ..known_parties() }))
        }),
        ("change-parties-delete", {
            let form = PartyChangeForm::Delete;
            Command::ChangeParties(Box::new(ChangeParties { form, ..known_parties() }))
        }),
    ];
    let changes = known_changes().into_iter().chain(known_later_changes());
    known.extend(changes.map(|(name, change)| (name, administer(change))));
    known.push(("finish-delivery-given-up", Command::FinishDeliveries(vec![finished(4)])));
    known
}

fn known_changes() -> Vec<(&'static str, Change)> {
    let (name, currency) = (name_of("dfsp1"), currency_of("USD"));
    let funds = |direction| {
        Change::MoveFunds(MoveFunds {
            id: id_of("b51ec534-ee48-4575-b6a9-ead2955b8069"),
            name,
            account: AccountId(8),
            direction,
            currency,
            amount: Amount::from_units(100_000_000),
            hash: None,
        })
    };
    let end = |commit| {
        let id = id_of("01HV0000000000000000000000");
        Change::EndFundsOut(EndFundsOut { id, name, account: AccountId(8), commit, hash: None })
    };
    vec![
        ("configure", {
            let (put_aborted_aborts, lane_capacity) = (true, 123_456);
            Change::Configure(Settings { put_aborted_aborts, lane_capacity, ..Settings::default() })
        }),
        ("activate", Change::Activate { rules_version: 2 }),
        ("create-hub-account", {
            Change::CreateHubAccount { currency, kind: AccountKind::HubReconciliation }
        }),
        ("create-settlement-model", Change::CreateSettlementModel(known_model())),
        ("create-settlement-model-default", {
            Change::CreateSettlementModel(SettlementModel { currency: None, ..known_model() })
        }),
        ("set-settlement-model-active", {
            Change::SetSettlementModelActive { name: "CGS".to_owned(), active: false }
        }),
        ("create-participant", Change::CreateParticipant { name, currency }),
        ("set-participant-active", Change::SetParticipantActive { name, active: true }),
        ("set-account-active", {
            Change::SetAccountActive { name, account: AccountId(7), active: false }
        }),
        ("set-initial-position-and-limits", {
            let (limit, position) = (Amount::from_units(50_000_000), Amount::from_units(-15_000));
            Change::SetInitialPositionAndLimits { name, currency, limit, position }
        }),
        ("set-limit", {
            let limit = Amount::from_units(9_999_999_999_999_999_999_999);
            let alarm_percentage = Amount::from_units(125_000);
            Change::SetLimit { name, currency, limit, alarm_percentage }
        }),
        ("set-endpoint", {
            let endpoint = "FSPIOP_CALLBACK_URL_TRANSFER_POST".to_owned();
            Change::SetEndpoint { name, endpoint, value: "http://dfsp1/\u{e9}".to_owned() }
        }),
        ("funds-in", funds(FundsDirection::In)),
        ("funds-out", funds(FundsDirection::Out)),
        ("funds-out-commit", end(true)),
        ("funds-out-abort", end(false)),
        ("redeliver", Change::Redeliver { notice: NoticeId(u64::MAX) }),
        ("add-key", Change::AddKey { name, id: Digest(sequence(1)), key: vec![0x30, 2, 5, 0] }),
        ("remove-key", Change::RemoveKey { name, id: Digest(sequence(1)) }),
    ]
}

/// Changes that came later; their lines follow those of the first ones.
fn known_later_changes() -> Vec<(&'static str, Change)> {
    let (name, account) = (name_of("dfsp1"), AccountId(8));
    let funds = MoveFunds {
        id: id_of("b51ec534-ee48-4575-b6a9-ead2955b8069"),
        name,
        account,
        direction: FundsDirection::Out,
        currency: currency_of("USD"),
        amount: Amount::from_units(100_000_000),
        hash: Some(Digest(sequence(83))),
    };
    let end = EndFundsOut {
        id: id_of("01HV0000000000000000000000"),
        name,
        account,
        commit: true,
        hash: Some(Digest(sequence(84))),
    };
    let oracle = Oracle {
        id_type: "MSISDN".to_owned(),
        endpoint: "http://oracle/\u{e9}".to_owned(),
        currency: Some(currency_of("USD")),
        default: true,
    };
    let whole = OracleUpdate {
        id_type: Some("IBAN".to_owned()),
        endpoint: Some("http://oracle".to_owned()),
        currency: Some(currency_of("KES")),
        default: Some(true),
    };
    vec![
        ("funds-out-hashed", Change::MoveFunds(funds)),
        ("funds-out-commit-hashed", Change::EndFundsOut(end)),
        ("create-oracle", Change::CreateOracle(oracle.clone())),
        ("create-oracle-any-currency", {
            Change::CreateOracle(Oracle { currency: None, default: false, ..oracle })
        }),
        ("update-oracle", Change::UpdateOracle { id: OracleId(7), update: whole }),
        ("update-oracle-nothing", {
            Change::UpdateOracle { id: OracleId(7), update: OracleUpdate::default() }
        }),
        ("delete-oracle", Change::DeleteOracle { id: OracleId(7) }),
        ("create-ledger-account-type", {
            Change::CreateLedgerAccountType(LedgerAccountType {
                name: "FX_FEE".to_owned(),
                description: "Fees of conversions".to_owned(),
                active: true,
                settleable: false,
            })
        }),
    ]
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
    }
}

fn known_fulfil() -> Fulfil {
    Fulfil {
        id: id_of("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
        source: name_of("dfsp2"),
        destination: Some(name_of("dfsp1")),
        state: FulfilState::Committed,
        fulfilment: Fulfilment::Present(sequence(1)),
        hash: Digest(sequence(81)),
        trace: sequence(121),
    }
}

fn known_abort() -> Abort {
    Abort {
        id: id_of("FFFFFFFFFFFFFFFFFFFFFFFFFF"),
        source: name_of("dfsp2"),
        destination: Some(name_of("dfsp1")),
        code_is_known: true,
        hash: Digest(sequence(82)),
        trace: sequence(122),
    }
}

fn finished(number: u64) -> FinishedDelivery {
    FinishedDelivery {
        notice: NoticeId(number),
        result: match number {
            1 => DeliveryResult::Delivered,
            2 => DeliveryResult::Dead,
            3 => DeliveryResult::Withdrawn,
            _ => DeliveryResult::GivenUp,
        },
        attempts: 7,
        status: 503,
        finished_ms: 1_767_225_600_456,
    }
}

fn known_parties() -> ChangeParties {
    let binding = |sub_id: Option<&str>, currency| PartyBinding {
        id_type: "MSISDN".to_owned(),
        id: "25644444444".to_owned(),
        sub_id: sub_id.map(str::to_owned),
        currency,
        fsp: name_of("dfsp1"),
    };
    ChangeParties {
        source: name_of("dfsp1"),
        form: PartyChangeForm::Single,
        parties: vec![
            binding(None, None),
            binding(Some("PERSONAL"), Some(currency_of("TZS"))),
            binding(Some(""), None),
        ],
        trace: sequence(123),
    }
}

fn known_model() -> SettlementModel {
    SettlementModel {
        name: "DEFERREDNETUSD".to_owned(),
        net: true,
        multilateral: false,
        deferred: true,
        currency: Some(currency_of("USD")),
        liquidity_check: false,
        auto_position_reset: true,
        ledger_account: AccountKind::InterchangeFee,
        settlement_account: AccountKind::InterchangeFeeSettlement,
        active: true,
    }
}

fn administer(change: Change) -> Command {
    let (actor, reason) = ("operator".to_owned(), "onboarding".to_owned());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

/// Any command, of few parties, currencies and ids, so that they meet when they are applied.
fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        1 => (any::<[u8; 16]>(), name()).prop_map(|(seed, hub)| {
            Command::Genesis(Genesis { seed, hub })
        }),
        1 => Just(Command::Tick),
        6 => prepare().prop_map(|prepare| Command::Prepare(Box::new(prepare))),
        6 => fulfil().prop_map(|fulfil| Command::Fulfil(Box::new(fulfil))),
        3 => abort().prop_map(|abort| Command::Abort(Box::new(abort))),
        3 => prop::collection::vec(any_finished(), 0..6).prop_map(Command::FinishDeliveries),
        2 => change_parties().prop_map(|change| Command::ChangeParties(Box::new(change))),
        20 => (text(), text(), change()).prop_map(|(actor, reason, change)| {
            Command::Administer(Box::new(Administer { actor, reason, change }))
        }),
    ]
}

fn prepare() -> impl Strategy<Value = Prepare> {
    let parties = (name(), name(), name());
    let rest = (any::<[u8; 32]>(), any::<[u8; 32]>(), any::<[u8; 16]>());
    (id(), parties, currency(), moved(), 0..4_000u64, rest).prop_map(
        |(id, (source, payer, payee), currency, amount, expiration_ms, rest)| {
            let (condition, hash, trace) = (rest.0, Digest(rest.1), rest.2);
            Prepare {
                id,
                source,
                payer,
                payee,
                currency,
                amount,
                condition,
                expiration_ms,
                hash,
                trace,
            }
        },
    )
}

fn fulfil() -> impl Strategy<Value = Fulfil> {
    let state = prop_oneof![
        Just(FulfilState::Committed),
        Just(FulfilState::Reserved),
        Just(FulfilState::ReservedUnderVersion10),
        Just(FulfilState::Aborted),
    ];
    let fulfilment = prop_oneof![
        Just(Fulfilment::Absent),
        Just(Fulfilment::Undecodable),
        any::<[u8; 32]>().prop_map(Fulfilment::Present),
    ];
    let rest = (any::<[u8; 32]>(), any::<[u8; 16]>());
    (id(), name(), prop::option::of(name()), state, fulfilment, rest).prop_map(
        |(id, source, destination, state, fulfilment, (hash, trace))| {
            let hash = Digest(hash);
            Fulfil { id, source, destination, state, fulfilment, hash, trace }
        },
    )
}

fn abort() -> impl Strategy<Value = Abort> {
    let rest = (any::<bool>(), any::<[u8; 32]>(), any::<[u8; 16]>());
    (id(), name(), prop::option::of(name()), rest).prop_map(
        |(id, source, destination, (code_is_known, hash, trace))| {
            let hash = Digest(hash);
            Abort { id, source, destination, code_is_known, hash, trace }
        },
    )
}

fn any_finished() -> impl Strategy<Value = FinishedDelivery> {
    let result = prop_oneof![
        Just(DeliveryResult::Delivered),
        Just(DeliveryResult::Dead),
        Just(DeliveryResult::Withdrawn),
        Just(DeliveryResult::GivenUp),
    ];
    (0..30u64, result, any::<u16>(), any::<u16>(), any::<u64>()).prop_map(
        |(notice, result, attempts, status, finished_ms)| {
            let notice = NoticeId(notice);
            FinishedDelivery { notice, result, attempts, status, finished_ms }
        },
    )
}

fn change_parties() -> impl Strategy<Value = ChangeParties> {
    let form = prop_oneof![
        Just(PartyChangeForm::Single),
        Just(PartyChangeForm::Batch),
        Just(PartyChangeForm::Delete),
    ];
    let texts = (short_text(), text(), prop::option::of(text()));
    let binding = (texts, prop::option::of(currency()), name()).prop_map(
        |((id_type, id, sub_id), currency, fsp)| PartyBinding {
            id_type,
            id,
            sub_id,
            currency,
            fsp,
        },
    );
    let parties = prop::collection::vec(binding, 0..5);
    (name(), form, parties, any::<[u8; 16]>())
        .prop_map(|(source, form, parties, trace)| ChangeParties { source, form, parties, trace })
}

fn change() -> impl Strategy<Value = Change> {
    let hub_kind = prop_oneof![
        Just(AccountKind::HubReconciliation),
        Just(AccountKind::HubMultilateralSettlement),
    ];
    let endpoint = (name(), short_text(), text())
        .prop_map(|(name, endpoint, value)| Change::SetEndpoint { name, endpoint, value });
    let key = (name(), 0..6u8, prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(name, id, key)| Change::AddKey { name, id: Digest([id; 32]), key });
    prop_oneof![
        1 => settings().prop_map(Change::Configure),
        1 => any::<u32>().prop_map(|rules_version| Change::Activate { rules_version }),
        1 => (currency(), account_kind())
            .prop_map(|(currency, kind)| Change::CreateHubAccount { currency, kind }),
        6 => (currency(), hub_kind)
            .prop_map(|(currency, kind)| Change::CreateHubAccount { currency, kind }),
        1 => model().prop_map(Change::CreateSettlementModel),
        1 => (short_text(), any::<bool>())
            .prop_map(|(name, active)| Change::SetSettlementModelActive { name, active }),
        8 => (name(), currency())
            .prop_map(|(name, currency)| Change::CreateParticipant { name, currency }),
        1 => (name(), any::<bool>())
            .prop_map(|(name, active)| Change::SetParticipantActive { name, active }),
        1 => (name(), account(), any::<bool>())
            .prop_map(|(name, account, active)| Change::SetAccountActive { name, account, active }),
        6 => (name(), currency(), amount(), amount()).prop_map(
            |(name, currency, limit, position)| {
                Change::SetInitialPositionAndLimits { name, currency, limit, position }
            }
        ),
        2 => (name(), currency(), amount(), amount()).prop_map(
            |(name, currency, limit, alarm_percentage)| {
                Change::SetLimit { name, currency, limit, alarm_percentage }
            }
        ),
        1 => endpoint,
        6 => funds().prop_map(Change::MoveFunds),
        3 => (id(), name(), account(), any::<bool>(), request_hash()).prop_map(
            |(id, name, account, commit, hash)| {
                Change::EndFundsOut(EndFundsOut { id, name, account, commit, hash })
            }
        ),
        4 => later_change(),
        2 => key,
        1 => (name(), 0..6u8)
            .prop_map(|(name, id)| Change::RemoveKey { name, id: Digest([id; 32]) }),
        1 => (0..30u64).prop_map(|notice| Change::Redeliver { notice: NoticeId(notice) }),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    (any::<[bool; 4]>(), any::<u32>()).prop_map(|(flags, lane_capacity)| Settings {
        confirm_to_payee: flags[0],
        on_us_transfers: flags[1],
        put_aborted_aborts: flags[2],
        funds_out_covers_position: flags[3],
        lane_capacity,
    })
}

fn model() -> impl Strategy<Value = SettlementModel> {
    let kinds = (account_kind(), account_kind());
    (short_text(), any::<[bool; 6]>(), prop::option::of(currency()), kinds).prop_map(
        |(name, flags, currency, (ledger_account, settlement_account))| SettlementModel {
            name,
            net: flags[0],
            multilateral: flags[1],
            deferred: flags[2],
            currency,
            liquidity_check: flags[3],
            auto_position_reset: flags[4],
            ledger_account,
            settlement_account,
            active: flags[5],
        },
    )
}

fn later_change() -> impl Strategy<Value = Change> {
    let oracle = (short_text(), text(), prop::option::of(currency()), any::<bool>());
    let update = (
        prop::option::of(short_text()),
        prop::option::of(text()),
        prop::option::of(currency()),
        prop::option::of(any::<bool>()),
    );
    prop_oneof![
        oracle.prop_map(|(id_type, endpoint, currency, default)| {
            Change::CreateOracle(Oracle { id_type, endpoint, currency, default })
        }),
        (0..9u32, update).prop_map(|(id, (id_type, endpoint, currency, default))| {
            let update = OracleUpdate { id_type, endpoint, currency, default };
            Change::UpdateOracle { id: OracleId(id), update }
        }),
        (0..9u32).prop_map(|id| Change::DeleteOracle { id: OracleId(id) }),
        (short_text(), text(), any::<[bool; 2]>()).prop_map(
            |(name, description, [active, settleable])| {
                let added = LedgerAccountType { name, description, active, settleable };
                Change::CreateLedgerAccountType(added)
            }
        ),
    ]
}

/// No digest, as in records of the first form, or one of few.
fn request_hash() -> impl Strategy<Value = Option<Digest>> {
    prop::option::of((0..3u8).prop_map(|first| Digest(sequence(first))))
}

fn funds() -> impl Strategy<Value = MoveFunds> {
    (id(), name(), account(), any::<bool>(), currency(), moved(), request_hash()).prop_map(
        |(id, name, account, out, currency, amount, hash)| {
            let direction = if out { FundsDirection::Out } else { FundsDirection::In };
            MoveFunds { id, name, account, direction, currency, amount, hash }
        },
    )
}

fn id() -> impl Strategy<Value = TransferId> {
    let known = (0..4u8).prop_map(|number| id_of(&format!("{number:0>26}")));
    let any_form = (prop_oneof![Just(0u8), 4..8u8], any::<[u8; 16]>()).prop_map(|(form, low)| {
        let mut bytes = [form; 17];
        bytes[1..].copy_from_slice(&low);
        TransferId::from_bytes(bytes).expect("a form of an id")
    });
    prop_oneof![5 => known, 1 => any_form]
}

fn name() -> impl Strategy<Value = FspName> {
    let known = prop::sample::select(vec!["alfa", "bravo", "Hub", "ALFA"]);
    prop_oneof![20 => known.prop_map(name_of), 1 => "\\PC{1,8}".prop_map(|text| name_of(&text))]
}

fn currency() -> impl Strategy<Value = Currency> {
    prop_oneof![5 => Just(currency_of("USD")), 1 => "[A-Z]{3}".prop_map(|text| currency_of(&text))]
}

fn account() -> impl Strategy<Value = AccountId> {
    prop_oneof![9 => 0..12u32, 1 => any::<u32>()].prop_map(AccountId)
}

fn account_kind() -> impl Strategy<Value = AccountKind> {
    let known: Vec<_> = (0..=u8::MAX).filter_map(AccountKind::from_number).collect();
    prop::sample::select(known)
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        3 => 0..1_000_000_i128,
        1 => -1_000_000..0_i128,
        1 => 1 - UNITS_END..UNITS_END,
        1 => prop::sample::select(vec![1 - UNITS_END, UNITS_END - 1]),
    ]
    .prop_map(Amount::from_units)
}

fn moved() -> impl Strategy<Value = Amount> {
    amount().prop_map(|amount| if amount < Amount::ZERO { -amount } else { amount })
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,20}"
}

fn short_text() -> impl Strategy<Value = String> {
    "[A-Z]{0,3}"
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

/// A record without fields is written as a dash, so that no line ends in a blank.
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
