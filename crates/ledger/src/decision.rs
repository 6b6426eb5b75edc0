//! The stored form of a decision: its inputs, its postings and the notices it created.
//!
//! In order: the transfer, the record and the outcome; the inputs; the number of new notices, and
//! each of them. The inputs begin with their number plus one, or 0 for a decision without inputs.
//! The lane capacity and the hub's name follow, then each input after a byte with its kind. A
//! currency is stored if it differs from that of the previous input. Integers and amounts are
//! [`VarInt`].
//!
//! Costs: about 120 bytes for a decision about payer and payee.

use alloc::vec::Vec;

use crate::accounts::AccountKind;
use crate::field::{ByteSink, Field, FieldError, Form, Reader, VarInt, stored};
use crate::ids::{AccountId, FspName, LogIndex, NoticeId, TransferId};
use crate::money::{Amount, Currency};
use crate::notice::NoticeKind;
use crate::outcome::Outcome;

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its subject: a transfer or a movement of funds.
    pub transfer: TransferId,
    /// The record decision on. For an expiry: the first record of the batch that met the deadline.
    pub log_index: LogIndex,
    /// The outcome.
    pub outcome: Outcome,
    /// Its inputs; `None` if the decision needs none.
    pub inputs: Option<DecisionInputs>,
    /// Notices that it created.
    pub owed: Vec<OwedNotice>,
}

/// The inputs of a decision, and their change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionInputs {
    /// The hub's name.
    pub hub_name: FspName,
    /// Maximum number of notices owed to one participant before prepares for it are refused.
    pub lane_capacity: u32,
    /// The participants' accounts concerned; of a transfer, the payer's first.
    pub parties: Vec<PartyInputs>,
    /// The parties' INTERCHANGE_FEE accounts that changed.
    pub fees: Vec<FeeAccount>,
    /// The hub's accounts that changed.
    pub hub: Vec<HubAccount>,
}

/// One participant's inputs, in one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartyInputs {
    /// Its name.
    pub name: FspName,
    /// Currency of all amounts.
    pub currency: Currency,
    /// Whether it may send and receive.
    pub active: bool,
    /// Whether its POSITION account may be used.
    pub account_active: bool,
    /// Its POSITION.
    pub position: BalanceChange,
    /// Its SETTLEMENT: the negated liquidity cover.
    pub settlement: BalanceChange,
    /// Its net debit cap, once set.
    pub net_debit_cap: Option<Amount>,
    /// Notices owed to it before the decision.
    pub owed: u32,
}

/// An INTERCHANGE_FEE account around a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeeAccount {
    /// Index of its owner among the parties.
    pub party: u32,
    /// The balance, in the currency of the party.
    pub balance: BalanceChange,
}

/// An account of the hub around a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubAccount {
    /// The kind of account.
    pub kind: AccountKind,
    /// Currency of the balance.
    pub currency: Currency,
    /// The balance.
    pub balance: BalanceChange,
}

stored! {
    /// A balance around a decision.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BalanceChange {
        /// The account.
        pub account: AccountId as VarInt,
        /// Before the decision.
        pub before: Amount as VarInt,
        /// The change by the decision.
        pub change: Amount as VarInt,
    }
}

impl BalanceChange {
    /// The balance after the decision.
    #[must_use]
    pub fn after(&self) -> Amount {
        self.before.checked_add(self.change).expect("balances are far from the ledger's range")
    }
}

/// A notice created by a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwedNotice {
    /// The notice.
    pub notice: NoticeId,
    /// The recipient.
    pub recipient: FspName,
    /// The kind of notice.
    pub kind: NoticeKind,
    /// The outcome that it reports.
    pub outcome: Outcome,
}

/// The byte before an input: these flags for a participant's, [`FEE`] for an account of fees,
/// [`HUB`] and the account kind for one of the hub. [`CURRENCY`] and a currency come first if the
/// currency changes.
const ACTIVE: u8 = 1;
const ACCOUNT_ACTIVE: u8 = 2;
const HAS_CAP: u8 = 4;
const CURRENCY: u8 = 8;
const FEE: u8 = 0x40;
const HUB: u8 = 0x80;

impl Decision {
    /// The participants' accounts among the inputs.
    fn parties(&self) -> &[PartyInputs] {
        self.inputs.as_ref().map_or(&[], |inputs| &inputs.parties)
    }

    /// Appends the stored form.
    pub fn write(&self, to: &mut impl ByteSink) {
        self.transfer.write(to);
        VarInt::write(&self.log_index, to);
        write_outcome(self.outcome, to);
        match &self.inputs {
            None => to.byte(0),
            Some(inputs) => inputs.write(to),
        }
        VarInt::write(&(self.owed.len() as u32), to);
        self.owed.iter().for_each(|owed| owed.write(self.parties(), to));
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`FieldError`] if the bytes were not written by [`Decision::write`].
    pub fn read(from: &mut Reader<'_>) -> Result<Self, FieldError> {
        let transfer = from.value()?;
        let (log_index, outcome) = (VarInt::read(from)?, read_outcome(from)?);
        let inputs = DecisionInputs::read(from)?;
        let mut decision = Self { transfer, log_index, outcome, inputs, owed: Vec::new() };
        let count: u32 = VarInt::read(from)?;
        for _ in 0..count {
            let owed = OwedNotice::read(decision.parties(), from)?;
            decision.owed.push(owed);
        }
        Ok(decision)
    }
}

impl DecisionInputs {
    fn write(&self, to: &mut impl ByteSink) {
        let Self { hub_name, lane_capacity, parties, fees, hub } = self;
        VarInt::write(&((1 + parties.len() + fees.len() + hub.len()) as u32), to);
        VarInt::write(lane_capacity, to);
        hub_name.write(to);
        let mut last = None;
        for party in parties {
            write_currency(party.currency, &mut last, to);
            party.write(to);
        }
        for account in fees {
            to.byte(FEE);
            VarInt::write(&account.party, to);
            account.balance.write(to);
        }
        for account in hub {
            write_currency(account.currency, &mut last, to);
            to.byte(HUB | account.kind.number());
            account.balance.write(to);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Option<Self>, FieldError> {
        let count: u32 = VarInt::read(from)?;
        if count == 0 {
            return Ok(None);
        }
        let (lane_capacity, hub_name) = (VarInt::read(from)?, from.value()?);
        let (parties, fees, hub) = Default::default();
        let mut inputs = Self { hub_name, lane_capacity, parties, fees, hub };
        let mut last = None;
        for _ in 1..count {
            let (currency, tag) = read_currency(last, from)?;
            let is_same = last.replace(currency) == Some(currency);
            match tag {
                0..CURRENCY if inputs.hub.is_empty() && inputs.fees.is_empty() => {
                    inputs.parties.push(PartyInputs::read(tag, currency, from)?);
                }
                FEE if is_same && inputs.hub.is_empty() => {
                    let account = FeeAccount { party: VarInt::read(from)?, balance: from.value()? };
                    if inputs.parties.len() <= account.party as usize {
                        return Err(FieldError::Value);
                    }
                    inputs.fees.push(account);
                }
                HUB.. => {
                    let kind = AccountKind::from_number(tag - HUB).ok_or(FieldError::Value)?;
                    inputs.hub.push(HubAccount { kind, currency, balance: from.value()? });
                }
                _ => return Err(FieldError::Value),
            }
        }
        Ok(Some(inputs))
    }
}

/// Writes the currency of the next input if it is the first one or differs from the last.
fn write_currency(currency: Currency, last: &mut Option<Currency>, to: &mut impl ByteSink) {
    if *last == Some(currency) {
        return;
    }
    if last.is_some() {
        to.byte(CURRENCY);
    }
    currency.write(to);
    *last = Some(currency);
}

/// The currency of the next input, and the byte before it.
fn read_currency(
    last: Option<Currency>,
    from: &mut Reader<'_>,
) -> Result<(Currency, u8), FieldError> {
    let Some(last) = last else { return Ok((from.value()?, from.value()?)) };
    match from.value()? {
        CURRENCY => match from.value()? {
            same if same == last => Err(FieldError::Value),
            next => Ok((next, from.value()?)),
        },
        tag => Ok((last, tag)),
    }
}

impl PartyInputs {
    fn write(&self, to: &mut impl ByteSink) {
        let flags = [
            (self.active, ACTIVE),
            (self.account_active, ACCOUNT_ACTIVE),
            (self.net_debit_cap.is_some(), HAS_CAP),
        ];
        to.byte(flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum());
        self.name.write(to);
        self.position.write(to);
        self.settlement.write(to);
        self.net_debit_cap.iter().for_each(|cap| VarInt::write(cap, to));
        VarInt::write(&self.owed, to);
    }

    fn read(flags: u8, currency: Currency, from: &mut Reader<'_>) -> Result<Self, FieldError> {
        let has = |flag| flags & flag != 0;
        Ok(Self {
            currency,
            active: has(ACTIVE),
            account_active: has(ACCOUNT_ACTIVE),
            name: from.value()?,
            position: from.value()?,
            settlement: from.value()?,
            net_debit_cap: has(HAS_CAP).then(|| VarInt::read(from)).transpose()?,
            owed: VarInt::read(from)?,
        })
    }
}

impl OwedNotice {
    /// The recipient is stored as its index among the inputs, or as 0 and its name.
    fn write(&self, parties: &[PartyInputs], to: &mut impl ByteSink) {
        VarInt::write(&self.notice, to);
        self.kind.write(to);
        write_outcome(self.outcome, to);
        let place = parties.iter().position(|party| party.name == self.recipient);
        VarInt::write(&place.map_or(0, |at| at as u32 + 1), to);
        if place.is_none() {
            self.recipient.write(to);
        }
    }

    fn read(parties: &[PartyInputs], from: &mut Reader<'_>) -> Result<Self, FieldError> {
        let (notice, kind) = (VarInt::read(from)?, from.value()?);
        let outcome = read_outcome(from)?;
        let place: u32 = VarInt::read(from)?;
        let recipient = match (place as usize).checked_sub(1) {
            None => from.value()?,
            Some(at) => parties.get(at).ok_or(FieldError::Value)?.name,
        };
        Ok(Self { notice, recipient, kind, outcome })
    }
}

fn write_outcome(outcome: Outcome, to: &mut impl ByteSink) {
    VarInt::write(&u32::from(outcome.number()), to);
}

fn read_outcome(from: &mut Reader<'_>) -> Result<Outcome, FieldError> {
    let number: u32 = VarInt::read(from)?;
    let number = u16::try_from(number).map_err(|_| FieldError::Value)?;
    Outcome::from_number(number).ok_or(FieldError::Value)
}
