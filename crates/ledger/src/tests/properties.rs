//! Properties of every history.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::history::{
    Action, CASES, IDS, PrepareAction, START_MS, Step, TestKernel, administer, history, id, name,
    usd,
};
use crate::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn same_batches_give_the_same_state(steps in history()) {
        let (mut one, mut other) = (TestKernel::new(), TestKernel::new());
        for step in &steps {
            let effects = play(&mut one, step);
            let again = play(&mut other, step);
            prop_assert_eq!(&effects.outcomes, &again.outcomes);
            prop_assert_eq!(&effects.notices, &again.notices);
            prop_assert_eq!(&effects.withdrawn, &again.withdrawn);
            prop_assert_eq!(one.state.digest(), other.state.digest());
        }
        prop_assert_eq!(one.state.hash(), other.state.hash());
    }

    #[test]
    fn batching_does_not_change_decisions(steps in history()) {
        let (mut together, mut apart) = (TestKernel::new(), TestKernel::new());
        for step in &steps {
            together.wait(step.wait_ms);
            apart.wait(step.wait_ms);
            let actions = step.actions.iter();
            let commands: Vec<_> = actions.map(|action| together.command(action)).collect();
            let effects = together.apply(&commands);
            let (mut outcomes, mut notices) = (Vec::new(), Vec::new());
            for command in commands {
                let one = apart.apply(&[command]);
                outcomes.extend(one.outcomes);
                notices.extend(one.notices);
            }
            prop_assert_eq!(effects.outcomes, outcomes);
            prop_assert_eq!(effects.notices, notices);
            for party in 0..3 {
                prop_assert_eq!(balances(&together, party), balances(&apart, party));
            }
            for number in 0..IDS {
                prop_assert_eq!(together.state.view(&id(number)), apart.state.view(&id(number)));
            }
        }
        prop_assert_eq!(together.state.counters(), apart.state.counters());
    }

    #[test]
    fn repeated_batch_is_ignored(steps in history()) {
        let (mut once, mut twice) = (TestKernel::new(), TestKernel::new());
        for step in &steps {
            play(&mut once, step);
            twice.wait(step.wait_ms);
            let commands: Vec<_> = step.actions.iter().map(|action| twice.command(action)).collect();
            let sequence = twice.sequence;
            twice.apply(&commands);
            let repeated = twice.apply_from(sequence, &commands);
            prop_assert!(repeated.outcomes.iter().all(|outcome| *outcome == Outcome::Repeated));
            prop_assert!(repeated.notices.is_empty());
        }
        for party in 0..3 {
            prop_assert_eq!(balances(&once, party), balances(&twice, party));
        }
        let owed = |kernel: &TestKernel| -> BTreeSet<_> {
            kernel.state.notices_owed().map(|notice| notice.id).collect()
        };
        prop_assert_eq!(owed(&once), owed(&twice));
    }
}

#[test]
fn full_tables_refuse() {
    let mut kernel = TestKernel::new();
    let fill = |kernel: &mut TestKernel, room: usize, change: &dyn Fn(usize) -> Change| {
        let commands: Vec<_> = (0..=room).map(|number| administer(change(number))).collect();
        let outcomes = kernel.apply(&commands).outcomes;
        let (last, others) = outcomes.split_last().expect("there is one command at least");
        assert_eq!(*last, Outcome::RegistryFull);
        assert!(others.iter().all(|outcome| *outcome == Outcome::Accepted));
    };
    // The hub and three participants exist already.
    fill(&mut kernel, PARTICIPANTS_MAX - 4, &|number| {
        Change::CreateParticipant(CreateParticipant {
            name: FspName::new(&format!("fsp{number}")).expect("a name"),
            currency: usd(),
        })
    });
    fill(&mut kernel, ENDPOINTS_MAX, &|number| {
        Change::SetEndpoint(SetEndpoint {
            name: name(0),
            endpoint: format!("TYPE_{number}"),
            value: "http://127.0.0.1".into(),
        })
    });
    fill(&mut kernel, SETTLEMENT_MODELS_MAX - 1, &|number| {
        Change::CreateSettlementModel(CreateSettlementModel {
            model: SettlementModel {
                name: format!("MODEL{number}"),
                net: true,
                multilateral: true,
                deferred: true,
                currency: Currency::parse("EUR"),
                liquidity_check: true,
                auto_position_reset: true,
                ledger_account: AccountKind::Position,
                settlement_account: AccountKind::Settlement,
                active: true,
            },
        })
    });
    fill(&mut kernel, ROLES_MAX, &|number| {
        let (name, permissions) = (format!("role{number}"), Vec::new());
        SetRole { role: OperatorRole { name, permissions } }.into()
    });
    let operator = |number| format!("operator{number}");
    fill(&mut kernel, OPERATORS_MAX, &|number| {
        SetOperator { name: operator(number), roles: Vec::new(), active: true }.into()
    });
    let token = |id, expires| CreateToken {
        id: OperatorTokenId(id),
        operator: operator(0),
        roles: Vec::new(),
        hash: Digest([7; 32]),
        description: "".into(),
        expires: Stamp::from_millis(START_MS + expires),
    };
    fill(&mut kernel, TOKENS_MAX, &|number| {
        token(number as u64, if number < 10 { 1_000 } else { 9_000 }).into()
    });
    // The expired ones make room.
    kernel.wait(1_000);
    kernel.administer(token(TOKENS_MAX as u64, 9_000).into());
    assert_eq!(kernel.state.operators().tokens().count(), TOKENS_MAX - 9);
    // A known role and a known operator can still be changed.
    let role = OperatorRole { name: "role0".into(), permissions: Vec::from(["read".into()]) };
    kernel.administer(SetRole { role }.into());
    let change = SetOperator { name: operator(0), roles: Vec::new(), active: false };
    kernel.administer(change.into());
    let changes = Vec::from([SetAccountActive::DECLARATION.number]);
    kernel.administer(SetFourEyes { changes }.into());
    fill(&mut kernel, PROPOSALS_OPEN_MAX, &|number| {
        let (name, account) = (name(0), AccountId(number as u32));
        Propose {
            by: "amina".into(),
            reason: "audit".into(),
            request: "PUT /x".into(),
            seconds: 60,
            change: Arc::new(SetAccountActive { name, account, active: true }.into()),
        }
        .into()
    });
    // A registered participant can still add a currency.
    for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
        let currency = Currency::parse("EUR").expect("a currency");
        kernel.administer(CreateHubAccount { currency, kind }.into());
    }
    let currency = Currency::parse("EUR").expect("a currency");
    kernel.administer(CreateParticipant { name: name(0), currency }.into());
}

#[test]
fn state_hash_depends_on_every_row() {
    let base = TestKernel::new();
    let changed = |action: Action| {
        let mut kernel = base.clone();
        let command = kernel.command(&action);
        kernel.apply(&[command]);
        kernel.state.hash()
    };
    let actions = [
        Action::Tick,
        Action::Cap { party: 0, units: 1 },
        Action::Cap { party: 0, units: 2 },
        Action::Participant { party: 0, active: false },
        Action::Account { party: 0, active: false },
        Action::FundsIn { id: 1, party: 0, units: 1 },
        Action::FundsOut { id: 1, party: 0, units: 1 },
        Action::Settings { on_us: true, put_aborted: false, covers_position: true },
    ];
    let keyed = |id: u8| {
        let mut kernel = base.clone();
        kernel.administer(AddKey { name: name(0), id: Digest([id; 32]), key: [1].into() }.into());
        kernel.state.hash()
    };
    let count = actions.len() + 2;
    let hashes = actions.into_iter().map(changed).chain([keyed(1), keyed(2)]);
    let hashes: BTreeSet<_> = hashes.map(|hash| hash.0).collect();
    assert_eq!(hashes.len(), count);
}

#[test]
#[should_panic = "a log begins with its genesis"]
fn log_without_genesis_panics() {
    let first = LogIndex(1);
    let batch = Batch { first, stamp: Stamp(0), node: 1, epoch: 1, sequence: 1 };
    State::new().apply(&batch, &[Command::Tick], &mut Effects::default());
}

#[test]
#[should_panic = "a log begins with its genesis"]
fn second_genesis_panics() {
    let hub = FspName::new("Hub").expect("a name");
    TestKernel::new().apply(&[Command::Genesis(Genesis { seed: [5; 16], hub })]);
}

#[test]
#[should_panic = "the amount of a prepare is never negative"]
fn a_negative_amount_stops_the_kernel() {
    let mut kernel = TestKernel::new();
    let action = PrepareAction {
        id: 1,
        source: 0,
        payer: 0,
        payee: 1,
        units: -1,
        expires_ms: 1_000,
        fee_rule: None,
        offer: None,
    };
    let command = kernel.command(&Action::Prepare(action));
    kernel.apply(&[command]);
}

#[test]
fn transfers_take_the_memory_that_their_module_states() {
    assert_eq!(size_of::<Option<crate::transfers::ReservedTransfer>>(), 192);
    assert_eq!(size_of::<crate::transfers::FinalTransfer>(), 160);
}

/// The view of the edge is rebuilt after changes it can see, but not after movements of money.
#[test]
fn only_what_the_edge_sees_is_told_to_it() {
    let mut kernel = TestKernel::new();
    for (action, expected) in [
        (Action::FundsIn { id: 1, party: 0, units: 1 }, false),
        (Action::FundsOut { id: 2, party: 0, units: 1 }, false),
        (Action::EndFundsOut { id: 2, party: 0, commit: true }, false),
        (Action::Cap { party: 0, units: 1 }, false),
        (Action::Participant { party: 0, active: false }, true),
        (Action::Account { party: 0, active: false }, true),
        (Action::Settings { on_us: true, put_aborted: false, covers_position: true }, true),
        (Action::Participant { party: 3, active: false }, false),
    ] {
        let command = kernel.command(&action);
        assert_eq!(kernel.apply(&[command]).registry_changed, expected, "{action:?}");
    }
    let (name, currency) = (name(0), Currency::parse("EUR").expect("a currency"));
    let (net_debit_cap, position) = (Amount::ZERO, Amount::ZERO);
    let (id, endpoint, value) = (Digest([1; 32]), "TYPE".into(), "http://127.0.0.1".into());
    for change in [
        Change::from(SetEndpoint { name, endpoint, value }),
        AddKey { name, id, key: [1].into() }.into(),
        RemoveKey { name, id }.into(),
        CreateHubAccount { currency, kind: AccountKind::HubReconciliation }.into(),
        CreateHubAccount { currency, kind: AccountKind::HubMultilateralSettlement }.into(),
        CreateParticipant { name, currency }.into(),
        SetInitialPositionAndLimits { name, currency, net_debit_cap, position }.into(),
    ] {
        let effects = kernel.apply(&[administer(change.clone())]);
        assert_eq!(effects.outcomes, [Outcome::Accepted], "{change:?}");
        assert!(effects.registry_changed, "{change:?}");
    }
}

#[test]
#[should_panic = "batches follow each other without a gap"]
fn a_gap_in_the_log_stops_the_kernel() {
    let first = LogIndex(2);
    let batch = Batch { first, stamp: Stamp(0), node: 1, epoch: 1, sequence: 1 };
    State::new().apply(&batch, &[Command::Tick], &mut Effects::default());
}

#[test]
#[should_panic = "time never runs backwards in the log"]
fn time_running_backwards_stops_the_kernel() {
    let mut kernel = TestKernel::new();
    kernel.now_ms -= 1;
    kernel.apply(&[Command::Tick]);
}

fn play(kernel: &mut TestKernel, step: &Step) -> Effects {
    kernel.wait(step.wait_ms);
    let commands: Vec<_> = step.actions.iter().map(|action| kernel.command(action)).collect();
    kernel.apply(&commands)
}

/// POSITION and SETTLEMENT of a party in ten-thousandths.
fn balances(kernel: &TestKernel, party: usize) -> (i128, i128) {
    let (position, settlement) = kernel.accounts(party);
    let value = |id| kernel.state.accounts().get(id).expect("an account").value.units();
    (value(position), value(settlement))
}
