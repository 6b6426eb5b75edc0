//! The planned transfers of the FSPs and the messages about them, all drawn beforehand.
//!
//! A message is a [`Request`] of a few bytes. Its content follows from the transfer's
//! [`TransferPlan`], so that it can be made as often as it is sent, and recognised when the hub
//! forwards it: the bytes that the hub stores and forwards are the request itself.

use ledger::{
    Abort, Administer, Amount, Change, Command, Currency, Digest, FeeRuleId, FspName, Fulfil,
    FulfilState, Fulfilment, Prepare, TransferId,
};
use sha2::{Digest as _, Sha256};

use crate::parameters::Parameters;
use crate::random::{Random, mix, spread16, spread32};
use crate::workload::currencies;

/// Number of the FSP that does not exist.
pub(crate) const GHOST: u8 = u8::MAX;
/// Number of the first currency of the currency workload.
const CURRENCY_WORKLOAD_FIRST: u8 = 100;
/// Number of the operator among those who send requests.
pub(crate) const OPERATOR: u8 = u8::MAX - 1;

/// A message to the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) from: u8,
    pub(crate) message: MessageVariant,
}

/// The kind of a message. Variant 0 is the message as planned; any other one differs from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageVariant {
    Prepare {
        transfer: u32,
        variant: u8,
    },
    Response {
        transfer: u32,
        variant: u8,
    },
    /// A question about a transfer, which is not logged.
    GetTransfer {
        transfer: u32,
    },
    /// A bulk transfer by its payer.
    PrepareBulk {
        bulk: u32,
        variant: u8,
    },
    /// The payee's answer to a bulk transfer.
    RespondBulk {
        bulk: u32,
        variant: u8,
    },
    /// A question about a bulk transfer, which is not logged.
    GetBulk {
        bulk: u32,
    },
    /// A change by the operator, by number.
    Change(u32),
    /// A command of the outcome workload that is not a change, by number.
    Unplanned(u32),
}

/// Something odd about a prepare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anomaly {
    None,
    ForeignSource,
    Past,
    Precision,
    UnknownPayee,
    UnknownCurrency,
    OwnPayee,
    Large,
    Zero,
}

/// How the payee answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlannedResponse {
    Commit,
    Reserve,
    Abort,
    AbortUnknownCode,
    WrongFulfilment,
    WrongFulfilmentReserve,
    NoFulfilment,
    Version10,
    PutAborted,
    WrongDestination,
    WrongDestinationReserve,
    NoDestination,
    Late,
    Silent,
}

/// One transfer as its parties intend it.
#[derive(Clone, Debug)]
pub(crate) struct TransferPlan {
    pub(crate) number: u32,
    pub(crate) payer: u8,
    pub(crate) payee: u8,
    pub(crate) currency: u8,
    pub(crate) amount: Amount,
    pub(crate) expiration_ms: u64,
    pub(crate) preimage: [u8; 32],
    pub(crate) condition: [u8; 32],
    pub(crate) anomaly: Anomaly,
    pub(crate) response: PlannedResponse,
}

/// Common to all transfer plans of a run.
#[derive(Clone, Debug)]
pub(crate) struct Actors {
    pub(crate) salt: u64,
    pub(crate) fsps: Vec<FspName>,
    pub(crate) currencies: Vec<Currency>,
    /// Prepares name fee rules, most of which exist.
    pub(crate) has_fees: bool,
}

impl Request {
    pub(crate) fn transfer(self) -> Option<u32> {
        match self.message {
            MessageVariant::Prepare { transfer, .. }
            | MessageVariant::Response { transfer, .. }
            | MessageVariant::GetTransfer { transfer } => Some(transfer),
            MessageVariant::PrepareBulk { .. }
            | MessageVariant::RespondBulk { .. }
            | MessageVariant::GetBulk { .. }
            | MessageVariant::Change(_)
            | MessageVariant::Unplanned(_) => None,
        }
    }

    /// The bytes of the message: eight that identify it, then padding, so that records of all sizes
    /// occur.
    pub(crate) fn payload(self) -> Vec<u8> {
        let (tag, transfer, variant) = match self.message {
            MessageVariant::Prepare { transfer, variant } => (1, transfer, variant),
            MessageVariant::Response { transfer, variant } => (2, transfer, variant),
            MessageVariant::GetTransfer { transfer } => (3, transfer, 0),
            MessageVariant::Change(number) => (4, number, 0),
            MessageVariant::Unplanned(number) => (5, number, 0),
            MessageVariant::PrepareBulk { bulk, variant } => (6, bulk, variant),
            MessageVariant::RespondBulk { bulk, variant } => (7, bulk, variant),
            MessageVariant::GetBulk { bulk } => (8, bulk, 0),
        };
        let [a, b, c, d] = transfer.to_le_bytes();
        let drawn = mix(u64::from(transfer) << 8 | tag);
        let length = if drawn.is_multiple_of(200) { 6_000 } else { 40 + drawn as usize % 400 };
        let mut payload = vec![tag as u8; length];
        payload[..8].copy_from_slice(&[tag as u8, self.from, variant, 0, a, b, c, d]);
        payload
    }

    /// The request that these bytes are; `None` when they are not the bytes of any.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let [tag, from, variant, 0, a, b, c, d] = *payload.first_chunk()? else { return None };
        let transfer = u32::from_le_bytes([a, b, c, d]);
        let message = match tag {
            1 => MessageVariant::Prepare { transfer, variant },
            2 => MessageVariant::Response { transfer, variant },
            5 => MessageVariant::Unplanned(transfer),
            6 => MessageVariant::PrepareBulk { bulk: transfer, variant },
            7 => MessageVariant::RespondBulk { bulk: transfer, variant },
            _ => return None,
        };
        let request = Self { from, message };
        (request.payload() == payload).then_some(request)
    }
}

/// The number of the transfer with this id.
pub(crate) fn number_of(id: &TransferId) -> u32 {
    let bytes = id.to_bytes();
    u32::from_le_bytes(*bytes.last_chunk().expect("an id has 17 bytes"))
}

impl Actors {
    pub(crate) fn new(salt: u64, parameters: &Parameters) -> Self {
        let name = |number| FspName::new(&format!("fsp{number}")).expect("a short name");
        let codes = ["KES", "TZS"].into_iter().take(usize::from(parameters.currencies));
        let currencies = codes.map(|code| Currency::parse(code).expect("three letters"));
        Self {
            salt,
            fsps: (1..=parameters.fsps).map(name).collect(),
            currencies: currencies.collect(),
            has_fees: false,
        }
    }

    pub(crate) fn id(&self, number: u32) -> TransferId {
        let mut bytes = [0; 17];
        bytes[1..].copy_from_slice(&spread16(self.salt ^ u64::from(number)));
        bytes[13..].copy_from_slice(&number.to_le_bytes());
        TransferId::from_bytes(bytes).expect("the first byte is that of a UUID")
    }

    pub(crate) fn name(&self, fsp: u8) -> FspName {
        let unknown = || FspName::new("ghost").expect("a short name");
        self.fsps.get(usize::from(fsp)).copied().unwrap_or_else(unknown)
    }

    /// The same in other letters, which some checks of the hub ignore and others do not.
    fn in_upper_case(&self, fsp: u8) -> FspName {
        FspName::new(&self.name(fsp).as_str().to_uppercase()).expect("as long as it was")
    }

    /// One of the two, by what is drawn.
    fn name_in_either_case(&self, fsp: u8, drawn: u64) -> FspName {
        match drawn.is_multiple_of(8) {
            true => self.in_upper_case(fsp),
            false => self.name(fsp),
        }
    }

    pub(crate) fn currency(&self, number: u8) -> Currency {
        let parse = |code| Currency::parse(code).expect("three letters");
        let found = match number.checked_sub(CURRENCY_WORKLOAD_FIRST) {
            None => self.currencies.get(usize::from(number)).copied(),
            Some(at) => currencies::CURRENCIES.get(usize::from(at)).copied().map(parse),
        };
        found.unwrap_or_else(|| parse("XTS"))
    }

    /// The number of a currency of the run, or of the currency workload.
    pub(crate) fn number_of(&self, currency: Currency) -> u8 {
        let own =
            CURRENCY_WORKLOAD_FIRST..CURRENCY_WORKLOAD_FIRST + currencies::CURRENCIES.len() as u8;
        let numbers = (0..self.currencies.len() as u8).chain(own);
        let mut found = numbers.filter(|number| self.currency(*number) == currency);
        found.next().expect("it is one of those")
    }

    /// The digest that the edge would make of a message's body.
    pub(crate) fn hash(&self, request: Request) -> Digest {
        let (tag, transfer, variant) = match request.message {
            MessageVariant::Prepare { transfer, variant } => (0, transfer, variant),
            MessageVariant::Response { transfer, variant } => (1, transfer, variant),
            MessageVariant::GetTransfer { transfer } => (2, transfer, 0),
            MessageVariant::Change(number) | MessageVariant::Unplanned(number) => (3, number, 0),
            MessageVariant::PrepareBulk { bulk, variant } => (4, bulk, variant),
            MessageVariant::RespondBulk { bulk, variant } => (5, bulk, variant),
            MessageVariant::GetBulk { bulk } => (6, bulk, 0),
        };
        let number = u64::from(transfer) << 16 | u64::from(variant) << 8 | tag;
        Digest(spread32(self.salt.rotate_left(7) ^ number))
    }

    pub(crate) fn trace(&self, request: Request) -> [u8; 16] {
        spread16(u64::from(request.from) << 32 | u64::from(request.transfer().unwrap_or(0)))
    }

    /// The command that the hub's edge makes of a prepare.
    pub(crate) fn prepare(&self, plan: &TransferPlan, request: Request) -> Command {
        let MessageVariant::Prepare { variant, .. } = request.message else {
            panic!("not a prepare")
        };
        let next = plan.payer.wrapping_add(1) % self.fsps.len() as u8;
        let in_upper_case = plan.number.is_multiple_of(3);
        let source = match plan.anomaly {
            Anomaly::ForeignSource if in_upper_case => self.in_upper_case(plan.payer),
            Anomaly::ForeignSource => self.name(next),
            _ => self.name(request.from),
        };
        let payee = match plan.anomaly {
            Anomaly::UnknownPayee if in_upper_case => self.in_upper_case(next),
            Anomaly::OwnPayee if in_upper_case => self.in_upper_case(plan.payer),
            _ => self.name(plan.payee),
        };
        let more = Amount::from_units(i128::from(variant));
        Command::Prepare(Box::new(Prepare {
            id: self.id(plan.number),
            source,
            payer: self.name(plan.payer),
            payee,
            currency: self.currency(plan.currency),
            amount: plan.amount.checked_add(more).expect("amounts of plans are small"),
            condition: plan.condition,
            expiration_ms: plan.expiration_ms,
            hash: self.hash(request),
            trace: self.trace(request),
            fee_rule: self.fee_rule(plan.number),
            quote_terms: None,
        }))
    }

    /// The rule that the edge found for a transfer: one of the first few, or none.
    pub(crate) fn fee_rule(&self, number: u32) -> Option<FeeRuleId> {
        (self.has_fees && !number.is_multiple_of(4)).then_some(FeeRuleId(number % 4))
    }

    /// The command that the hub's edge makes of an answer. Changed answers of every other
    /// transfer are refusals, the others the same with another body.
    pub(crate) fn respond(&self, plan: &TransferPlan, request: Request) -> Command {
        let MessageVariant::Response { variant, .. } = request.message else {
            panic!("not an answer")
        };
        let drawn = mix(self.salt ^ u64::from(plan.number) << 8 ^ u64::from(variant));
        let refuses =
            matches!(plan.response, PlannedResponse::Abort | PlannedResponse::AbortUnknownCode);
        let changed = variant != 0 && plan.number.is_multiple_of(2);
        let is_misaddressed = matches!(
            plan.response,
            PlannedResponse::WrongDestination | PlannedResponse::WrongDestinationReserve
        );
        let destination = match plan.response {
            PlannedResponse::NoDestination => None,
            _ if is_misaddressed && variant == 0 => Some(self.name(GHOST)),
            _ => Some(self.name_in_either_case(plan.payer, drawn >> 32)),
        };
        let (id, source) = (self.id(plan.number), self.name_in_either_case(request.from, drawn));
        let (hash, trace) = (self.hash(request), self.trace(request));
        if refuses != changed {
            let code_is_known = plan.response != PlannedResponse::AbortUnknownCode;
            let abort = Abort { id, source, destination, code_is_known, hash, trace };
            return Command::Abort(Box::new(abort));
        }
        let state = match plan.response {
            PlannedResponse::Reserve
            | PlannedResponse::WrongFulfilmentReserve
            | PlannedResponse::WrongDestinationReserve => FulfilState::Reserved,
            PlannedResponse::Version10 => FulfilState::ReservedUnderVersion10,
            PlannedResponse::PutAborted => FulfilState::Aborted,
            _ => FulfilState::Committed,
        };
        let fulfilment = match plan.response {
            PlannedResponse::WrongFulfilment | PlannedResponse::WrongFulfilmentReserve => {
                Fulfilment::Present([0; 32])
            }
            PlannedResponse::NoFulfilment => Fulfilment::Absent,
            _ => Fulfilment::Present(plan.preimage),
        };
        let fulfil = Fulfil { id, source, destination, state, fulfilment, hash, trace };
        Command::Fulfil(Box::new(fulfil))
    }
}

/// The command of an operator's change.
pub(crate) fn administer(change: &Change) -> Command {
    let administer =
        Administer { actor: "operator".into(), reason: String::new(), change: change.clone() };
    Command::Administer(Box::new(administer))
}

/// The inputs of drawing a transfer.
pub(crate) struct TransferDraw {
    pub(crate) number: u32,
    pub(crate) now_ms: u64,
    pub(crate) lifetime_ms: (u64, u64),
    pub(crate) amount: (u64, u64),
    pub(crate) odd_per_mille: u32,
}

impl TransferPlan {
    pub(crate) fn draw(random: &mut Random, actors: &Actors, draw: &TransferDraw) -> Self {
        let fsps = actors.fsps.len() as u64;
        let payer = random.below(fsps) as u8;
        let payee = ((u64::from(payer) + 1 + random.below(fsps - 1)) % fsps) as u8;
        let preimage = spread32(actors.salt ^ u64::from(draw.number).rotate_left(40));
        let odd = random.chance(draw.odd_per_mille);
        let mut plan = Self {
            number: draw.number,
            payer,
            payee,
            currency: random.below(actors.currencies.len() as u64) as u8,
            amount: Amount::from_units(i128::from(random.between(draw.amount))),
            expiration_ms: draw.now_ms + random.between(draw.lifetime_ms),
            preimage,
            condition: Sha256::digest(preimage).into(),
            anomaly: if odd { draw_anomaly(random) } else { Anomaly::None },
            response: if odd {
                draw_response(random)
            } else {
                random.pick(&[PlannedResponse::Commit, PlannedResponse::Reserve])
            },
        };
        plan.apply_anomaly(draw.now_ms);
        plan
    }

    fn apply_anomaly(&mut self, now_ms: u64) {
        match self.anomaly {
            Anomaly::None | Anomaly::ForeignSource => {}
            Anomaly::Past => self.expiration_ms = now_ms.saturating_sub(5),
            Anomaly::Precision => self.amount = amount_of_many_digits(self.number),
            Anomaly::UnknownPayee => self.payee = GHOST,
            Anomaly::UnknownCurrency => self.currency = u8::MAX,
            Anomaly::OwnPayee => self.payee = self.payer,
            Anomaly::Large => self.amount = Amount::from_units(3_000_000_000),
            Anomaly::Zero => self.amount = Amount::ZERO,
        }
    }
}

/// One of eighteen digits, which may be sent, or of more; in two ways each.
fn amount_of_many_digits(number: u32) -> Amount {
    let ten_thousandths = [
        1_000_000_000_000_000_001,
        999_999_999_999_999_999,
        1_000_000_000_000_000_000_000,
        1_000_000_000_000_000_000_001,
    ];
    Amount::from_units(ten_thousandths[number as usize % 4])
}

fn draw_anomaly(random: &mut Random) -> Anomaly {
    if random.chance(600) {
        return Anomaly::None;
    }
    random.pick(&[
        Anomaly::ForeignSource,
        Anomaly::Past,
        Anomaly::Precision,
        Anomaly::UnknownPayee,
        Anomaly::UnknownCurrency,
        Anomaly::OwnPayee,
        Anomaly::Large,
        Anomaly::Zero,
    ])
}

fn draw_response(random: &mut Random) -> PlannedResponse {
    random.pick(&[
        PlannedResponse::Commit,
        PlannedResponse::Reserve,
        PlannedResponse::Abort,
        PlannedResponse::AbortUnknownCode,
        PlannedResponse::WrongFulfilment,
        PlannedResponse::WrongFulfilmentReserve,
        PlannedResponse::NoFulfilment,
        PlannedResponse::Version10,
        PlannedResponse::PutAborted,
        PlannedResponse::WrongDestination,
        PlannedResponse::WrongDestinationReserve,
        PlannedResponse::NoDestination,
        PlannedResponse::Late,
        PlannedResponse::Silent,
    ])
}
