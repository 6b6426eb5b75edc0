//! The stored form of commands: the fields that the kernel reads, never erased.
//!
//! Each kind has a number and a version of its own. A number is never reused; a new version
//! keeps its old reader, and a file of the old form among the tests.

use alloc::boxed::Box;
use alloc::vec::Vec;

use ledger::{
    Abort, AccountId, AccountKind, Administer, Amount, Change, ChangeParties, Command, Currency,
    DeliveryResult, Digest, EndFundsOut, FinishedDelivery, FspName, Fulfil, FulfilState,
    Fulfilment, FundsDirection, Genesis, KEY_BYTES_MAX, LedgerAccountType, MoveFunds, NoticeId,
    Oracle, OracleId, OracleUpdate, PartyBinding, PartyChangeForm, Prepare, Settings,
    SettlementModel, TransferId,
};

use crate::bytes::{FieldError, Reader, Writer};

#[cfg(test)]
mod tests;

/// Version of the fields that this binary writes, for every kind.
pub const FIELDS_VERSION: u16 = 1;

/// Entries of one record: deliveries finished together, parties changed together.
pub const ENTRIES_MAX: usize = 10_000;

/// Amounts lie below this many ten-thousandths: 18 digits before the point and 4 after it
/// (hub-semantics 1.6), so that no number of them leaves the range of the ledger.
const UNITS_END: i128 = 10_i128.pow(22);

/// The numbers of the kinds of record.
pub mod kind {
    /// [`ledger::Command::Genesis`].
    pub const GENESIS: u16 = 1;
    /// [`ledger::Command::Tick`].
    pub const TICK: u16 = 2;
    /// [`ledger::Command::Prepare`].
    pub const PREPARE: u16 = 3;
    /// [`ledger::Command::Fulfil`].
    pub const FULFIL: u16 = 4;
    /// [`ledger::Command::Abort`].
    pub const ABORT: u16 = 5;
    /// [`ledger::Command::FinishDeliveries`].
    pub const FINISH_DELIVERIES: u16 = 6;
    /// [`ledger::Command::ChangeParties`].
    pub const CHANGE_PARTIES: u16 = 7;
    /// [`ledger::Command::Administer`].
    pub const ADMINISTER: u16 = 8;
}

/// The kind under which a command is stored.
#[must_use]
pub const fn kind_of(command: &Command) -> u16 {
    match command {
        Command::Genesis(_) => kind::GENESIS,
        Command::Tick => kind::TICK,
        Command::Prepare(_) => kind::PREPARE,
        Command::Fulfil(_) => kind::FULFIL,
        Command::Abort(_) => kind::ABORT,
        Command::FinishDeliveries(_) => kind::FINISH_DELIVERIES,
        Command::ChangeParties(_) => kind::CHANGE_PARTIES,
        Command::Administer(_) => kind::ADMINISTER,
    }
}

/// Appends the fields of a command to `out`.
///
/// Panics when a field is beyond its bound ([`ENTRIES_MAX`] entries, 65,535 bytes of free text,
/// [`KEY_BYTES_MAX`] of a key, 255 bytes of a name or type, amounts of 18 digits before the
/// point): the edge refuses such a command, and what can not be read back must not reach the log.
/// An amount that is moved (of a prepare, of funds in or out) is never negative.
pub fn write_fields(command: &Command, out: &mut Vec<u8>) {
    let writer = &mut Writer(out);
    match command {
        Command::Genesis(genesis) => {
            writer.bytes(&genesis.seed);
            writer.short(genesis.hub.as_str());
        }
        Command::Tick => {}
        Command::Prepare(prepare) => write_prepare(writer, prepare),
        Command::Fulfil(fulfil) => write_fulfil(writer, fulfil),
        Command::Abort(abort) => write_abort(writer, abort),
        Command::FinishDeliveries(ends) => write_finished(writer, ends),
        Command::ChangeParties(change) => write_parties(writer, change),
        Command::Administer(administer) => {
            writer.long(&administer.actor);
            writer.long(&administer.reason);
            write_change(writer, &administer.change);
        }
    }
}

/// Reads the fields of a record of this kind and version.
///
/// # Errors
/// [`FieldError`] when they are not what a supported version writes.
pub fn read_fields(kind: u16, version: u16, fields: &[u8]) -> Result<Command, FieldError> {
    if version != FIELDS_VERSION {
        return Err(FieldError::Value);
    }
    let mut reader = Reader(fields);
    let command = match kind {
        kind::GENESIS => {
            Command::Genesis(Genesis { seed: reader.array()?, hub: name(&mut reader)? })
        }
        kind::TICK => Command::Tick,
        kind::PREPARE => Command::Prepare(Box::new(read_prepare(&mut reader)?)),
        kind::FULFIL => Command::Fulfil(Box::new(read_fulfil(&mut reader)?)),
        kind::ABORT => Command::Abort(Box::new(read_abort(&mut reader)?)),
        kind::FINISH_DELIVERIES => Command::FinishDeliveries(read_finished(&mut reader)?),
        kind::CHANGE_PARTIES => Command::ChangeParties(Box::new(read_parties(&mut reader)?)),
        kind::ADMINISTER => Command::Administer(Box::new(Administer {
            actor: reader.long()?,
            reason: reader.long()?,
            change: read_change(&mut reader)?,
        })),
        _ => return Err(FieldError::Value),
    };
    reader.end()?;
    Ok(command)
}

fn write_prepare(writer: &mut Writer<'_>, prepare: &Prepare) {
    writer.bytes(&prepare.id.to_bytes());
    writer.short(prepare.source.as_str());
    writer.short(prepare.payer.as_str());
    writer.short(prepare.payee.as_str());
    writer.bytes(&prepare.currency.to_bytes());
    write_amount_moved(writer, prepare.amount);
    writer.bytes(&prepare.condition);
    writer.u64(prepare.expiration_ms);
    writer.bytes(&prepare.hash.0);
    writer.bytes(&prepare.trace);
}

fn read_prepare(reader: &mut Reader<'_>) -> Result<Prepare, FieldError> {
    Ok(Prepare {
        id: transfer_id(reader)?,
        source: name(reader)?,
        payer: name(reader)?,
        payee: name(reader)?,
        currency: currency(reader)?,
        amount: amount_moved(reader)?,
        condition: reader.array()?,
        expiration_ms: reader.u64()?,
        hash: Digest(reader.array()?),
        trace: reader.array()?,
    })
}

fn write_fulfil(writer: &mut Writer<'_>, fulfil: &Fulfil) {
    writer.bytes(&fulfil.id.to_bytes());
    writer.short(fulfil.source.as_str());
    write_optional_name(writer, fulfil.destination.as_ref());
    writer.u8(match fulfil.state {
        FulfilState::Committed => 1,
        FulfilState::Reserved => 2,
        FulfilState::ReservedUnderVersion10 => 3,
        FulfilState::Aborted => 4,
    });
    match fulfil.fulfilment {
        Fulfilment::Absent => writer.u8(0),
        Fulfilment::Undecodable => writer.u8(1),
        Fulfilment::Present(preimage) => {
            writer.u8(2);
            writer.bytes(&preimage);
        }
    }
    writer.bytes(&fulfil.hash.0);
    writer.bytes(&fulfil.trace);
}

fn read_fulfil(reader: &mut Reader<'_>) -> Result<Fulfil, FieldError> {
    Ok(Fulfil {
        id: transfer_id(reader)?,
        source: name(reader)?,
        destination: read_optional_name(reader)?,
        state: match reader.u8()? {
            1 => FulfilState::Committed,
            2 => FulfilState::Reserved,
            3 => FulfilState::ReservedUnderVersion10,
            4 => FulfilState::Aborted,
            _ => return Err(FieldError::Value),
        },
        fulfilment: match reader.u8()? {
            0 => Fulfilment::Absent,
            1 => Fulfilment::Undecodable,
            2 => Fulfilment::Present(reader.array()?),
            _ => return Err(FieldError::Value),
        },
        hash: Digest(reader.array()?),
        trace: reader.array()?,
    })
}

fn write_abort(writer: &mut Writer<'_>, abort: &Abort) {
    writer.bytes(&abort.id.to_bytes());
    writer.short(abort.source.as_str());
    write_optional_name(writer, abort.destination.as_ref());
    writer.flag(abort.code_is_known);
    writer.bytes(&abort.hash.0);
    writer.bytes(&abort.trace);
}

fn read_abort(reader: &mut Reader<'_>) -> Result<Abort, FieldError> {
    Ok(Abort {
        id: transfer_id(reader)?,
        source: name(reader)?,
        destination: read_optional_name(reader)?,
        code_is_known: reader.flag()?,
        hash: Digest(reader.array()?),
        trace: reader.array()?,
    })
}

fn write_finished(writer: &mut Writer<'_>, ends: &[FinishedDelivery]) {
    assert!(ends.len() <= ENTRIES_MAX, "one record holds at most {ENTRIES_MAX} deliveries");
    writer.u32(ends.len() as u32);
    ends.iter().for_each(|end| write_delivery(writer, end));
}

pub(crate) fn write_delivery(writer: &mut Writer<'_>, end: &FinishedDelivery) {
    writer.u64(end.notice.0);
    writer.u8(match end.result {
        DeliveryResult::Delivered => 1,
        DeliveryResult::Dead => 2,
        DeliveryResult::Withdrawn => 3,
        DeliveryResult::GivenUp => 4,
    });
    writer.u16(end.attempts);
    writer.u16(end.status);
    writer.u64(end.finished_ms);
}

fn read_finished(reader: &mut Reader<'_>) -> Result<Vec<FinishedDelivery>, FieldError> {
    entries(reader, read_delivery)
}

pub(crate) fn read_delivery(reader: &mut Reader<'_>) -> Result<FinishedDelivery, FieldError> {
    Ok(FinishedDelivery {
        notice: NoticeId(reader.u64()?),
        result: match reader.u8()? {
            1 => DeliveryResult::Delivered,
            2 => DeliveryResult::Dead,
            3 => DeliveryResult::Withdrawn,
            4 => DeliveryResult::GivenUp,
            _ => return Err(FieldError::Value),
        },
        attempts: reader.u16()?,
        status: reader.u16()?,
        finished_ms: reader.u64()?,
    })
}

fn write_parties(writer: &mut Writer<'_>, change: &ChangeParties) {
    let parties = &change.parties;
    assert!(parties.len() <= ENTRIES_MAX, "one record holds at most {ENTRIES_MAX} parties");
    writer.short(change.source.as_str());
    writer.u8(match change.form {
        PartyChangeForm::Single => 1,
        PartyChangeForm::Batch => 2,
        PartyChangeForm::Delete => 3,
    });
    writer.bytes(&change.trace);
    writer.u32(parties.len() as u32);
    for party in parties {
        write_party(writer, party);
    }
}

pub(crate) fn write_party(writer: &mut Writer<'_>, party: &PartyBinding) {
    writer.short(&party.id_type);
    writer.long(&party.id);
    writer.flag(party.sub_id.is_some());
    if let Some(sub_id) = &party.sub_id {
        writer.long(sub_id);
    }
    write_optional_currency(writer, party.currency);
    writer.short(party.fsp.as_str());
}

fn read_parties(reader: &mut Reader<'_>) -> Result<ChangeParties, FieldError> {
    Ok(ChangeParties {
        source: name(reader)?,
        form: match reader.u8()? {
            1 => PartyChangeForm::Single,
            2 => PartyChangeForm::Batch,
            3 => PartyChangeForm::Delete,
            _ => return Err(FieldError::Value),
        },
        trace: reader.array()?,
        parties: entries(reader, read_party)?,
    })
}

pub(crate) fn read_party(reader: &mut Reader<'_>) -> Result<PartyBinding, FieldError> {
    Ok(PartyBinding {
        id_type: reader.short()?.into(),
        id: reader.long()?,
        sub_id: match reader.flag()? {
            true => Some(reader.long()?),
            false => None,
        },
        currency: read_optional_currency(reader)?,
        fsp: name(reader)?,
    })
}

mod change {
    pub(super) const CONFIGURE: u8 = 1;
    pub(super) const ACTIVATE: u8 = 2;
    pub(super) const CREATE_HUB_ACCOUNT: u8 = 3;
    pub(super) const CREATE_SETTLEMENT_MODEL: u8 = 4;
    pub(super) const SET_SETTLEMENT_MODEL_ACTIVE: u8 = 5;
    pub(super) const CREATE_PARTICIPANT: u8 = 6;
    pub(super) const SET_PARTICIPANT_ACTIVE: u8 = 7;
    pub(super) const SET_ACCOUNT_ACTIVE: u8 = 8;
    pub(super) const SET_INITIAL_POSITION_AND_LIMITS: u8 = 9;
    pub(super) const SET_LIMIT: u8 = 10;
    pub(super) const SET_ENDPOINT: u8 = 11;
    pub(super) const MOVE_FUNDS: u8 = 12;
    pub(super) const END_FUNDS_OUT: u8 = 13;
    pub(super) const REDELIVER: u8 = 14;
    pub(super) const ADD_KEY: u8 = 20;
    pub(super) const REMOVE_KEY: u8 = 21;
    /// [`MOVE_FUNDS`] with the digest of the request.
    pub(super) const MOVE_FUNDS_HASHED: u8 = 40;
    /// [`END_FUNDS_OUT`] with the digest of the request.
    pub(super) const END_FUNDS_OUT_HASHED: u8 = 41;
    pub(super) const CREATE_ORACLE: u8 = 42;
    pub(super) const UPDATE_ORACLE: u8 = 43;
    pub(super) const DELETE_ORACLE: u8 = 44;
    pub(super) const CREATE_LEDGER_ACCOUNT_TYPE: u8 = 45;
}

fn write_change(writer: &mut Writer<'_>, change: &Change) {
    match change {
        Change::Configure(settings) => write_settings(begin(writer, change::CONFIGURE), settings),
        Change::Activate { rules_version } => begin(writer, change::ACTIVATE).u32(*rules_version),
        Change::CreateHubAccount { currency, kind } => {
            writer.u8(change::CREATE_HUB_ACCOUNT);
            writer.bytes(&currency.to_bytes());
            writer.u8(kind.number());
        }
        Change::CreateSettlementModel(model) => {
            write_model(begin(writer, change::CREATE_SETTLEMENT_MODEL), model)
        }
        Change::SetSettlementModelActive { name, active } => {
            writer.u8(change::SET_SETTLEMENT_MODEL_ACTIVE);
            writer.short(name);
            writer.flag(*active);
        }
        Change::CreateParticipant { name, currency } => {
            writer.u8(change::CREATE_PARTICIPANT);
            writer.short(name.as_str());
            writer.bytes(&currency.to_bytes());
        }
        Change::SetParticipantActive { name, active } => {
            writer.u8(change::SET_PARTICIPANT_ACTIVE);
            writer.short(name.as_str());
            writer.flag(*active);
        }
        Change::SetAccountActive { name, account, active } => {
            writer.u8(change::SET_ACCOUNT_ACTIVE);
            writer.short(name.as_str());
            writer.u32(account.0);
            writer.flag(*active);
        }
        Change::SetInitialPositionAndLimits { name, currency, limit, position } => {
            writer.u8(change::SET_INITIAL_POSITION_AND_LIMITS);
            writer.short(name.as_str());
            writer.bytes(&currency.to_bytes());
            write_amount(writer, *limit);
            write_amount(writer, *position);
        }
        Change::SetLimit { name, currency, limit, alarm_percentage } => {
            writer.u8(change::SET_LIMIT);
            writer.short(name.as_str());
            writer.bytes(&currency.to_bytes());
            write_amount(writer, *limit);
            write_amount(writer, *alarm_percentage);
        }
        Change::SetEndpoint { name, endpoint, value } => {
            write_endpoint(writer, name, (endpoint, value));
        }
        Change::AddKey { name, id, key } => write_key(writer, (name, id), Some(key)),
        Change::RemoveKey { name, id } => write_key(writer, (name, id), None),
        Change::MoveFunds(funds) => write_funds(writer, funds),
        Change::EndFundsOut(end) => write_funds_end(writer, end),
        Change::Redeliver { notice } => begin(writer, change::REDELIVER).u64(notice.0),
        Change::CreateOracle(oracle) => write_oracle(begin(writer, change::CREATE_ORACLE), oracle),
        Change::UpdateOracle { id, update } => write_oracle_update(writer, *id, update),
        Change::DeleteOracle { id } => {
            writer.u8(change::DELETE_ORACLE);
            writer.u32(id.0);
        }
        Change::CreateLedgerAccountType(added) => {
            write_account_type(begin(writer, change::CREATE_LEDGER_ACCOUNT_TYPE), added)
        }
    }
}

/// Writes the kind of a change; its members follow.
fn begin<'w, 'a>(writer: &'w mut Writer<'a>, kind: u8) -> &'w mut Writer<'a> {
    writer.u8(kind);
    writer
}

fn write_endpoint(writer: &mut Writer<'_>, name: &FspName, (kind, value): (&str, &str)) {
    writer.u8(change::SET_ENDPOINT);
    writer.short(name.as_str());
    writer.short(kind);
    writer.long(value);
}

/// A key that is added, or removed when there is none of it but its id.
fn write_key(writer: &mut Writer<'_>, (name, id): (&FspName, &Digest), key: Option<&Vec<u8>>) {
    writer.u8(if key.is_some() { change::ADD_KEY } else { change::REMOVE_KEY });
    writer.short(name.as_str());
    writer.bytes(&id.0);
    if let Some(key) = key {
        assert!(key.len() <= KEY_BYTES_MAX, "a key has at most {KEY_BYTES_MAX} bytes");
        writer.u16(key.len() as u16);
        writer.bytes(key);
    }
}

fn read_change(reader: &mut Reader<'_>) -> Result<Change, FieldError> {
    Ok(match reader.u8()? {
        change::CONFIGURE => Change::Configure(read_settings(reader)?),
        change::ACTIVATE => Change::Activate { rules_version: reader.u32()? },
        change::CREATE_HUB_ACCOUNT => {
            Change::CreateHubAccount { currency: currency(reader)?, kind: account_kind(reader)? }
        }
        change::CREATE_SETTLEMENT_MODEL => Change::CreateSettlementModel(read_model(reader)?),
        change::SET_SETTLEMENT_MODEL_ACTIVE => Change::SetSettlementModelActive {
            name: reader.short()?.into(),
            active: reader.flag()?,
        },
        change::CREATE_PARTICIPANT => {
            Change::CreateParticipant { name: name(reader)?, currency: currency(reader)? }
        }
        change::SET_PARTICIPANT_ACTIVE => {
            Change::SetParticipantActive { name: name(reader)?, active: reader.flag()? }
        }
        change::SET_ACCOUNT_ACTIVE => Change::SetAccountActive {
            name: name(reader)?,
            account: AccountId(reader.u32()?),
            active: reader.flag()?,
        },
        change::SET_INITIAL_POSITION_AND_LIMITS => Change::SetInitialPositionAndLimits {
            name: name(reader)?,
            currency: currency(reader)?,
            limit: amount(reader)?,
            position: amount(reader)?,
        },
        change::SET_LIMIT => Change::SetLimit {
            name: name(reader)?,
            currency: currency(reader)?,
            limit: amount(reader)?,
            alarm_percentage: amount(reader)?,
        },
        change::SET_ENDPOINT => Change::SetEndpoint {
            name: name(reader)?,
            endpoint: reader.short()?.into(),
            value: reader.long()?,
        },
        change::ADD_KEY => read_key(reader)?,
        change::REMOVE_KEY => {
            Change::RemoveKey { name: name(reader)?, id: Digest(reader.array()?) }
        }
        change::MOVE_FUNDS => Change::MoveFunds(read_funds(reader)?),
        change::MOVE_FUNDS_HASHED => {
            let funds = read_funds(reader)?;
            Change::MoveFunds(MoveFunds { hash: Some(Digest(reader.array()?)), ..funds })
        }
        change::END_FUNDS_OUT => Change::EndFundsOut(read_funds_end(reader)?),
        change::END_FUNDS_OUT_HASHED => {
            let end = read_funds_end(reader)?;
            Change::EndFundsOut(EndFundsOut { hash: Some(Digest(reader.array()?)), ..end })
        }
        change::REDELIVER => Change::Redeliver { notice: NoticeId(reader.u64()?) },
        change::CREATE_ORACLE => Change::CreateOracle(read_oracle(reader)?),
        change::UPDATE_ORACLE => Change::UpdateOracle {
            id: OracleId(reader.u32()?),
            update: read_oracle_update(reader)?,
        },
        change::DELETE_ORACLE => Change::DeleteOracle { id: OracleId(reader.u32()?) },
        change::CREATE_LEDGER_ACCOUNT_TYPE => {
            Change::CreateLedgerAccountType(read_account_type(reader)?)
        }
        _ => return Err(FieldError::Value),
    })
}

fn read_key(reader: &mut Reader<'_>) -> Result<Change, FieldError> {
    let (name, id) = (name(reader)?, Digest(reader.array()?));
    let length = usize::from(reader.u16()?);
    if KEY_BYTES_MAX < length {
        return Err(FieldError::Value);
    }
    Ok(Change::AddKey { name, id, key: reader.take(length)?.into() })
}

pub(crate) fn write_settings(writer: &mut Writer<'_>, settings: &Settings) {
    writer.flag(settings.confirm_to_payee);
    writer.flag(settings.on_us_transfers);
    writer.flag(settings.put_aborted_aborts);
    writer.flag(settings.funds_out_covers_position);
    writer.u32(settings.lane_capacity);
}

pub(crate) fn read_settings(reader: &mut Reader<'_>) -> Result<Settings, FieldError> {
    Ok(Settings {
        confirm_to_payee: reader.flag()?,
        on_us_transfers: reader.flag()?,
        put_aborted_aborts: reader.flag()?,
        funds_out_covers_position: reader.flag()?,
        lane_capacity: reader.u32()?,
    })
}

pub(crate) fn write_model(writer: &mut Writer<'_>, model: &SettlementModel) {
    writer.short(&model.name);
    writer.flag(model.net);
    writer.flag(model.multilateral);
    writer.flag(model.deferred);
    write_optional_currency(writer, model.currency);
    writer.flag(model.liquidity_check);
    writer.flag(model.auto_position_reset);
    writer.u8(model.ledger_account.number());
    writer.u8(model.settlement_account.number());
    writer.flag(model.active);
}

pub(crate) fn read_model(reader: &mut Reader<'_>) -> Result<SettlementModel, FieldError> {
    Ok(SettlementModel {
        name: reader.short()?.into(),
        net: reader.flag()?,
        multilateral: reader.flag()?,
        deferred: reader.flag()?,
        currency: read_optional_currency(reader)?,
        liquidity_check: reader.flag()?,
        auto_position_reset: reader.flag()?,
        ledger_account: account_kind(reader)?,
        settlement_account: account_kind(reader)?,
        active: reader.flag()?,
    })
}

fn write_funds(writer: &mut Writer<'_>, funds: &MoveFunds) {
    writer.u8(match funds.hash {
        None => change::MOVE_FUNDS,
        Some(_) => change::MOVE_FUNDS_HASHED,
    });
    writer.bytes(&funds.id.to_bytes());
    writer.short(funds.name.as_str());
    writer.u32(funds.account.0);
    writer.flag(funds.direction == FundsDirection::Out);
    writer.bytes(&funds.currency.to_bytes());
    write_amount_moved(writer, funds.amount);
    if let Some(hash) = &funds.hash {
        writer.bytes(&hash.0);
    }
}

fn read_funds(reader: &mut Reader<'_>) -> Result<MoveFunds, FieldError> {
    Ok(MoveFunds {
        id: transfer_id(reader)?,
        name: name(reader)?,
        account: AccountId(reader.u32()?),
        direction: match reader.flag()? {
            true => FundsDirection::Out,
            false => FundsDirection::In,
        },
        currency: currency(reader)?,
        amount: amount_moved(reader)?,
        hash: None,
    })
}

fn write_funds_end(writer: &mut Writer<'_>, end: &EndFundsOut) {
    writer.u8(match end.hash {
        None => change::END_FUNDS_OUT,
        Some(_) => change::END_FUNDS_OUT_HASHED,
    });
    writer.bytes(&end.id.to_bytes());
    writer.short(end.name.as_str());
    writer.u32(end.account.0);
    writer.flag(end.commit);
    if let Some(hash) = &end.hash {
        writer.bytes(&hash.0);
    }
}

fn read_funds_end(reader: &mut Reader<'_>) -> Result<EndFundsOut, FieldError> {
    Ok(EndFundsOut {
        id: transfer_id(reader)?,
        name: name(reader)?,
        account: AccountId(reader.u32()?),
        commit: reader.flag()?,
        hash: None,
    })
}

pub(crate) fn write_oracle(writer: &mut Writer<'_>, oracle: &Oracle) {
    writer.short(&oracle.id_type);
    writer.long(&oracle.endpoint);
    write_optional_currency(writer, oracle.currency);
    writer.flag(oracle.default);
}

pub(crate) fn read_oracle(reader: &mut Reader<'_>) -> Result<Oracle, FieldError> {
    Ok(Oracle {
        id_type: reader.short()?.into(),
        endpoint: reader.long()?,
        currency: read_optional_currency(reader)?,
        default: reader.flag()?,
    })
}

pub(crate) fn write_account_type(writer: &mut Writer<'_>, added: &LedgerAccountType) {
    writer.short(&added.name);
    writer.long(&added.description);
    writer.flag(added.active);
    writer.flag(added.settleable);
}

pub(crate) fn read_account_type(reader: &mut Reader<'_>) -> Result<LedgerAccountType, FieldError> {
    Ok(LedgerAccountType {
        name: reader.short()?.into(),
        description: reader.long()?,
        active: reader.flag()?,
        settleable: reader.flag()?,
    })
}

fn write_oracle_update(writer: &mut Writer<'_>, id: OracleId, update: &OracleUpdate) {
    writer.u8(change::UPDATE_ORACLE);
    writer.u32(id.0);
    writer.flag(update.id_type.is_some());
    if let Some(id_type) = &update.id_type {
        writer.short(id_type);
    }
    writer.flag(update.endpoint.is_some());
    if let Some(endpoint) = &update.endpoint {
        writer.long(endpoint);
    }
    write_optional_currency(writer, update.currency);
    writer.flag(update.default.is_some());
    if let Some(default) = update.default {
        writer.flag(default);
    }
}

fn read_oracle_update(reader: &mut Reader<'_>) -> Result<OracleUpdate, FieldError> {
    let id_type = if reader.flag()? { Some(reader.short()?.into()) } else { None };
    let endpoint = if reader.flag()? { Some(reader.long()?) } else { None };
    let currency = read_optional_currency(reader)?;
    let default = if reader.flag()? { Some(reader.flag()?) } else { None };
    Ok(OracleUpdate { id_type, endpoint, currency, default })
}

fn write_optional_name(writer: &mut Writer<'_>, name: Option<&FspName>) {
    match name {
        None => writer.u8(0),
        Some(name) => writer.short(name.as_str()),
    }
}

fn read_optional_name(reader: &mut Reader<'_>) -> Result<Option<FspName>, FieldError> {
    let text = reader.short()?;
    if text.is_empty() {
        return Ok(None);
    }
    FspName::new(text).map(Some).ok_or(FieldError::Value)
}

fn write_optional_currency(writer: &mut Writer<'_>, currency: Option<Currency>) {
    writer.flag(currency.is_some());
    if let Some(currency) = currency {
        writer.bytes(&currency.to_bytes());
    }
}

fn read_optional_currency(reader: &mut Reader<'_>) -> Result<Option<Currency>, FieldError> {
    match reader.flag()? {
        true => currency(reader).map(Some),
        false => Ok(None),
    }
}

fn write_amount(writer: &mut Writer<'_>, amount: Amount) {
    assert!(amount.units().abs() < UNITS_END, "an amount has at most 18 digits before the point");
    writer.i128(amount.units());
}

fn amount(reader: &mut Reader<'_>) -> Result<Amount, FieldError> {
    reader.amount(UNITS_END)
}

fn write_amount_moved(writer: &mut Writer<'_>, amount: Amount) {
    assert!(Amount::ZERO <= amount, "what is moved is never negative");
    write_amount(writer, amount);
}

fn amount_moved(reader: &mut Reader<'_>) -> Result<Amount, FieldError> {
    let amount = amount(reader)?;
    if amount < Amount::ZERO { Err(FieldError::Value) } else { Ok(amount) }
}

pub(crate) fn name(reader: &mut Reader<'_>) -> Result<FspName, FieldError> {
    FspName::new(reader.short()?).ok_or(FieldError::Value)
}

pub(crate) fn currency(reader: &mut Reader<'_>) -> Result<Currency, FieldError> {
    let text: [u8; 3] = reader.array()?;
    let text = core::str::from_utf8(&text).map_err(|_| FieldError::Value)?;
    Currency::parse(text).ok_or(FieldError::Value)
}

pub(crate) fn account_kind(reader: &mut Reader<'_>) -> Result<AccountKind, FieldError> {
    AccountKind::from_number(reader.u8()?).ok_or(FieldError::Value)
}

pub(crate) fn transfer_id(reader: &mut Reader<'_>) -> Result<TransferId, FieldError> {
    TransferId::from_bytes(reader.array()?).ok_or(FieldError::Value)
}

/// Reads a counted list without trusting the count for the allocation.
fn entries<T>(
    reader: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let count = reader.u32()? as usize;
    if count > ENTRIES_MAX {
        return Err(FieldError::Value);
    }
    let mut entries = Vec::with_capacity(count.min(256));
    for _ in 0..count {
        entries.push(read(reader)?);
    }
    Ok(entries)
}
