//! The account apart is told something else than what the kernel decided, and must find it.

use ledger::{
    Batch, DeliveryResult, Digest as Hash, FspName, FulfilState, Genesis, Stamp, TransferId,
};
use record::frame::{BatchHeader, Frame, FrameBuilder, LogIdentity, NewRecord, Tail};

use super::*;

const FULFILMENT: [u8; 32] = [7; 32];

/// What the account is told of a decision.
type Told = fn(Command, Outcome) -> (Command, Outcome);
type Message = (Vec<u8>, Hash);

struct Bench {
    state: State,
    audit: Audit,
}

impl Bench {
    fn decide(&mut self, command: &Command, told: Told, message: Option<&Message>) -> Outcome {
        let payload = message.map(|(payload, digest)| (&**payload, *digest));
        let record = NewRecord { kind: 1, version: 1, fields: &[], payload };
        let mut builder = FrameBuilder::new();
        builder.push(&record.encode().expect("it is short")).expect("there is room");
        let tail = Tail::genesis(LogIdentity([1; 16]));
        let sealed = builder.seal(&tail, &BatchHeader::default());
        let mut records = Frame::parse(sealed.bytes).expect("it was just sealed").records();

        let number = self.state.position().0 + 1;
        let (first, stamp) = (Position(number), Stamp(1_000_000 * number));
        let batch = Batch { first, stamp, node: 0, epoch: 1, sequence: number };
        let mut effects = Effects::default();
        let Self { state, audit } = self;
        state.apply_watched(&batch, [command], &mut effects, &mut |moment, state, effects| {
            let (command, outcome) = match moment {
                Moment::After(_, command, outcome) => told(command.clone(), outcome),
                _ => return audit.watch(moment, &mut records, state, effects),
            };
            audit.watch(Moment::After(first, &command, outcome), &mut records, state, effects);
        });
        self.audit.close_batch(&self.state);
        effects.outcomes[0]
    }
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

fn id() -> TransferId {
    TransferId::parse("b51ec534-ee48-4575-b6a9-000000000001").expect("an id")
}

fn units(whole: i128) -> Amount {
    Amount::from_units(whole * 10_000)
}

fn change(change: Change) -> Command {
    let (actor, reason) = ("tester".to_owned(), String::new());
    Command::Administer(Box::new(Administer { actor, reason, change }))
}

/// A transfer of 5 from `payer` to `payee`, with everything before it, and sent again at the end.
fn commands() -> Vec<Command> {
    let currency = Currency::parse("USD").expect("a currency");
    let mut commands = vec![Command::Genesis(Genesis { seed: [1; 16], hub: name("Hub") })];
    for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
        commands.push(change(Change::CreateHubAccount { currency, kind }));
    }
    for (at, fsp) in ["payer", "payee"].into_iter().enumerate() {
        let name = name(fsp);
        commands.push(change(Change::CreateParticipant { name, currency }));
        let (limit, position) = (units(100), units(0));
        commands.push(change(Change::SetInitialPositionAndLimits {
            name,
            currency,
            limit,
            position,
        }));
        let mut transfer = id().to_bytes();
        transfer[16] = 0xf0 + at as u8;
        commands.push(change(Change::MoveFunds(MoveFunds {
            id: TransferId::from_bytes(transfer).expect("an id"),
            name,
            // Five accounts of the hub come first, then two of each participant.
            account: AccountId(if at == 0 { 7 } else { 9 }),
            direction: FundsDirection::In,
            currency,
            amount: units(200),
            hash: None,
        })));
    }
    commands.push(Command::Prepare(Box::new(Prepare {
        id: id(),
        source: name("payer"),
        payer: name("payer"),
        payee: name("payee"),
        currency,
        amount: units(5),
        condition: Sha256::digest(FULFILMENT).into(),
        expiration_ms: 1_000_000,
        hash: Hash::default(),
        trace: [0; 16],
    })));
    let fulfil = Command::Fulfil(Box::new(Fulfil {
        id: id(),
        source: name("payee"),
        destination: None,
        state: FulfilState::Committed,
        fulfilment: Fulfilment::Present(FULFILMENT),
        hash: Hash::default(),
        trace: [0; 16],
    }));
    commands.push(fulfil.clone());
    let end = |number| FinishedDelivery {
        notice: NoticeId(number),
        result: DeliveryResult::Delivered,
        attempts: 1,
        status: 200,
        finished_ms: 1,
    };
    commands.push(Command::FinishDeliveries(vec![end(1), end(2)]));
    commands.push(fulfil);
    commands
}

fn honest(command: Command, outcome: Outcome) -> (Command, Outcome) {
    (command, outcome)
}

#[track_caller]
fn check(told: Told, message: Option<&Message>, expected: Option<&str>) {
    let mut bench = Bench { state: State::new(), audit: Audit::default() };
    let outcomes: Vec<_> = commands()
        .iter()
        .map(|command| {
            let message = message.filter(|_| matches!(command, Command::Prepare(_)));
            bench.decide(command, told, message)
        })
        .collect();
    assert!(outcomes.ends_with(&[Outcome::Committed, Outcome::Accepted, Outcome::AnswerResent]));
    bench.audit.close(&bench.state).expect("it needs no file");
    match (bench.audit.finding(), expected) {
        (None, None) => assert_eq!(bench.audit.figures().fulfilments_hashed, 1),
        (Some(Finding { transfer, what, position }), Some(expected)) => {
            assert!(what.contains(expected), "{what}");
            let commands = commands();
            let decided = &commands[position.0 as usize - 1];
            assert_eq!(*transfer, decided.transfer().copied(), "{what}");
        }
        (found, expected) => panic!("found {found:?}, expected {expected:?}"),
    }
}

#[test]
fn an_honest_log_is_proved() {
    check(honest, None, None);
}

#[test]
fn what_differs_from_the_kernel_is_found() {
    let cases: [(Told, &str); 7] = [
        (
            |command, outcome| match command {
                Command::Fulfil(fulfil) => {
                    let fulfilment = Fulfilment::Present([8; 32]);
                    (Command::Fulfil(Box::new(Fulfil { fulfilment, ..*fulfil })), outcome)
                }
                other => (other, outcome),
            },
            "whose SHA-256 is not the condition",
        ),
        (
            |command, outcome| match outcome {
                Outcome::AnswerResent => (command, Outcome::Committed),
                other => (command, other),
            },
            "has two ends",
        ),
        (
            |command, outcome| match outcome {
                Outcome::PrepareReserved => (command, Outcome::PrepareCapExceeded),
                other => (command, other),
            },
            "0 transfers are in flight by this account, 1 by the kernel's",
        ),
        (
            |command, outcome| match command {
                Command::Prepare(prepare) => {
                    let amount = units(6);
                    (Command::Prepare(Box::new(Prepare { amount, ..*prepare })), outcome)
                }
                other => (other, outcome),
            },
            "its postings add up to",
        ),
        (
            |command, outcome| match command {
                Command::Prepare(prepare) => {
                    let amount = units(150);
                    (Command::Prepare(Box::new(Prepare { amount, ..*prepare })), outcome)
                }
                other => (other, outcome),
            },
            "reserved although the position of payer then is 150, with cover 200 and cap 100",
        ),
        (
            |command, outcome| match command {
                Command::FinishDeliveries(_) => (Command::Tick, outcome),
                other => (other, outcome),
            },
            "notices are owed by this account",
        ),
        (
            |command, outcome| match outcome {
                Outcome::Committed => (command, Outcome::FulfilmentInvalid),
                other => (command, other),
            },
            "its postings add up to",
        ),
    ];
    for (told, expected) in cases {
        check(told, None, Some(expected));
    }
}

#[test]
fn a_message_that_is_not_the_one_decided_on_is_found() {
    let stored = |body: &[u8]| {
        let mut payload = Vec::new();
        fspiop::payload::encode(&http::HeaderMap::new(), body, &mut payload);
        let digest = record::frame::payload_digest(&payload);
        (payload, digest)
    };
    let (payload, _) = stored(b"{}");
    check(honest, Some(&(payload, Hash([1; 32]))), Some("the one that its digest was taken of"));
    check(honest, Some(&stored(b"{}")), Some("the hash of the record was taken of"));
    let unreadable = b"\xff".to_vec();
    let digest = record::frame::payload_digest(&unreadable);
    check(honest, Some(&(unreadable, digest)), Some("cannot be read"));
}
