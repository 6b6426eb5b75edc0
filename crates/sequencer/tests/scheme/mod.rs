//! A scheme of two participants, `payer` and `payee`, each with a hundred dollars.

use ledger::{
    AccountId, AccountKind, Administer, Amount, Change, Command, CreateHubAccount,
    CreateParticipant, Currency, Digest, FspName, FundsDirection, Genesis, MoveFunds, Prepare,
    SetInitialPositionAndLimits, TransferId,
};

/// SHA-256 of 32 zero bytes, which are the fulfilment.
const CONDITION: [u8; 32] = [
    0x66, 0x68, 0x7a, 0xad, 0xf8, 0x62, 0xbd, 0x77, 0x6c, 0x8f, 0xc1, 0x8b, 0x8e, 0x9f, 0x8e, 0x20,
    0x08, 0x97, 0x14, 0x85, 0x6e, 0xe2, 0x33, 0xb3, 0x90, 0x2a, 0x59, 0x1d, 0x0d, 0x5f, 0x29, 0x25,
];
pub(crate) fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

pub(crate) fn units(whole: i128) -> Amount {
    Amount::from_units(whole * 10_000)
}

pub(crate) fn usd() -> Currency {
    Currency::parse("USD").expect("a currency")
}

pub(crate) fn id(of: usize) -> TransferId {
    TransferId::parse(&format!("b51ec534-ee48-4575-b6a9-{of:012x}")).expect("an id")
}

/// Everything before the first message, in one batch.
pub(crate) fn beginning() -> Vec<Command> {
    let change = |change| {
        let (actor, reason) = ("tester".to_owned(), String::new());
        Command::Administer(Box::new(Administer { actor, reason, change }))
    };
    let (currency, limit, position) = (usd(), units(100), units(0));
    let mut commands = vec![Command::Genesis(Genesis { seed: [1; 16], hub: name("Hub") })];
    for kind in [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement] {
        commands.push(change(Change::CreateHubAccount(CreateHubAccount { currency, kind })));
    }
    for (at, fsp) in ["payer", "payee"].into_iter().enumerate() {
        let name = name(fsp);
        commands.push(change(Change::CreateParticipant(CreateParticipant { name, currency })));
        let initial = Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
            name,
            currency,
            limit,
            position,
        });
        commands.push(change(initial));
        commands.push(change(Change::MoveFunds(MoveFunds {
            id: id(100 + at),
            name,
            // Five accounts of the hub come first, then two of each participant.
            account: AccountId(7 + 2 * at as u32),
            direction: FundsDirection::In,
            currency,
            amount: units(100),
            hash: Digest([0; 32]),
        })));
    }
    commands
}

/// The payer's message for this transfer; another amount has another hash.
pub(crate) fn prepare(of: usize, amount: Amount, expiration_ms: u64) -> Command {
    Command::Prepare(Box::new(Prepare {
        id: id(of),
        source: name("payer"),
        payer: name("payer"),
        payee: name("payee"),
        currency: usd(),
        amount,
        condition: CONDITION,
        expiration_ms,
        hash: hash(amount.units()),
        trace: [0; 16],
    }))
}

/// A digest that is this number.
pub(crate) fn hash(number: i128) -> Digest {
    let mut hash = Digest::default();
    hash.0[..16].copy_from_slice(&number.to_le_bytes());
    hash
}
