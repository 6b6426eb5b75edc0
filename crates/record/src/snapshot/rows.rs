//! The forms of the rows. Settings, settlement models, oracles, account types, parties and ends of
//! deliveries have those that they have in records.

use alloc::string::String;
use alloc::vec::Vec;

use ledger::snapshot::{Active, Answer, AnswerKind, Builder, Ended, Head, NodeTail, Outflow};
use ledger::{
    ACCOUNTS_MAX, Account, AccountId, Amount, Cold, Counters, DeadLetter, Digest, Holding,
    KEY_BYTES_MAX, Key, Limit, Notice, NoticeId, NoticeKind, Oracle, OracleId, Outcome,
    Participant, ParticipantIndex, Position, Stamp, TransferId,
};

use super::{SnapshotError, kind};
use crate::bytes::{FieldError, Reader, Writer};
use crate::command::{
    account_kind, currency, name, read_account_type, read_delivery, read_model, read_oracle,
    read_settings, transfer_id, write_delivery, write_oracle, write_settings,
};

/// Amounts, balances too, lie below this many ten-thousandths: no sum of all of them leaves the
/// range of the ledger.
const UNITS_END: i128 = 1 << 100;

/// Entries of a list within a row.
const LIST_MAX: usize = ACCOUNTS_MAX;

/// Takes one row of a table.
pub(super) fn read_row(
    kind: u16,
    reader: &mut Reader<'_>,
    builder: &mut Builder,
) -> Result<(), SnapshotError> {
    match kind {
        kind::ACCOUNTS => builder.account(read_account(reader)?),
        kind::PARTICIPANTS => builder.participant(read_participant(reader)?),
        kind::MODELS => builder.model(read_model(reader)?),
        kind::ORACLES => builder.oracle(OracleId(reader.u32()?), read_oracle(reader)?),
        kind::ACCOUNT_TYPES => builder.account_type(read_account_type(reader)?),
        kind::ACTIVE => builder.active(read_active(reader)?)?,
        kind::OUTFLOWS => builder.outflow(transfer_id(reader)?, read_outflow(reader)?)?,
        kind::ENDED => builder.ended(read_ended(reader)?)?,
        kind::NOTICES => builder.notice(read_notice(reader)?)?,
        kind::DEAD_LETTERS => builder.dead_letter(read_dead_letter(reader)?)?,
        _ => return Err(SnapshotError::Row(FieldError::Value)),
    }
    Ok(())
}

pub(super) fn write_head(out: &mut Writer<'_>, head: &Head) {
    out.bytes(&head.seed);
    out.short(head.hub.as_str());
    out.u64(head.position.0);
    out.u64(head.stamp.0);
    out.u32(head.rules_version);
    out.bytes(&head.digest.0);
    write_settings(out, &head.settings);
    let counters = &head.counters;
    out.u64(counters.reserved);
    out.u64(counters.refused);
    out.u64(counters.committed);
    out.u64(counters.aborted);
    out.u64(counters.expired);
    out.u64(counters.delivered);
    out.u64(counters.given_up);
    write_list(out, &head.nodes, |out, tail| {
        out.u32(tail.node);
        out.u32(tail.epoch);
        out.u64(tail.sequence);
    });
    out.u64(head.batches);
    out.u64(head.last_notice.0);
    out.u32(head.last_oracle.0);
    out.u64(head.cold.rows);
    head.cold.sum.iter().for_each(|lane| out.u64(*lane));
}

pub(super) fn read_head(reader: &mut Reader<'_>) -> Result<Head, FieldError> {
    Ok(Head {
        seed: reader.array()?,
        hub: name(reader)?,
        position: Position(reader.u64()?),
        stamp: Stamp(reader.u64()?),
        rules_version: reader.u32()?,
        digest: Digest(reader.array()?),
        settings: read_settings(reader)?,
        counters: Counters {
            reserved: reader.u64()?,
            refused: reader.u64()?,
            committed: reader.u64()?,
            aborted: reader.u64()?,
            expired: reader.u64()?,
            delivered: reader.u64()?,
            given_up: reader.u64()?,
        },
        nodes: read_list(reader, |reader| {
            Ok(NodeTail { node: reader.u32()?, epoch: reader.u32()?, sequence: reader.u64()? })
        })?,
        batches: reader.u64()?,
        last_notice: NoticeId(reader.u64()?),
        last_oracle: OracleId(reader.u32()?),
        cold: Cold {
            rows: reader.u64()?,
            sum: [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?],
        },
    })
}

pub(super) fn write_account(out: &mut Writer<'_>, account: &Account) {
    out.u32(account.id.0);
    out.u32(account.owner.0);
    out.u8(account.kind.number());
    out.bytes(&account.currency.to_bytes());
    out.flag(account.active);
    write_amount(out, account.value);
    out.u64(account.created.0);
    out.u64(account.changed.0);
}

fn read_account(reader: &mut Reader<'_>) -> Result<Account, FieldError> {
    Ok(Account {
        id: AccountId(reader.u32()?),
        owner: ParticipantIndex(reader.u32()?),
        kind: account_kind(reader)?,
        currency: currency(reader)?,
        active: reader.flag()?,
        value: amount(reader)?,
        created: Stamp(reader.u64()?),
        changed: Stamp(reader.u64()?),
    })
}

pub(super) fn write_participant(out: &mut Writer<'_>, participant: &Participant) {
    out.short(participant.name.as_str());
    out.flag(participant.active);
    out.u64(participant.created.0);
    write_list(out, &participant.holdings, write_holding);
    write_list(out, &participant.accounts, |out, id| out.u32(id.0));
    write_list(out, &participant.endpoints, |out, (kind, value)| {
        out.short(kind);
        out.long(value);
    });
    write_list(out, &participant.keys, |out, key| {
        out.bytes(&key.id.0);
        out.u16(u16::try_from(key.der.len()).expect("a key has at most 2,048 bytes"));
        out.bytes(&key.der);
        out.u64(key.added.0);
    });
}

fn read_participant(reader: &mut Reader<'_>) -> Result<Participant, FieldError> {
    Ok(Participant {
        name: name(reader)?,
        active: reader.flag()?,
        created: Stamp(reader.u64()?),
        holdings: read_list(reader, read_holding)?,
        accounts: read_list(reader, |reader| Ok(AccountId(reader.u32()?)))?,
        endpoints: read_list(reader, |reader| Ok((String::from(reader.short()?), reader.long()?)))?,
        keys: read_list(reader, read_key)?,
    })
}

fn write_holding(out: &mut Writer<'_>, holding: &Holding) {
    out.bytes(&holding.currency.to_bytes());
    out.u32(holding.position.0);
    out.u32(holding.settlement.0);
    out.flag(holding.limit.is_some());
    if let Some(limit) = &holding.limit {
        write_amount(out, limit.value);
        write_amount(out, limit.alarm_percentage);
    }
}

fn read_holding(reader: &mut Reader<'_>) -> Result<Holding, FieldError> {
    Ok(Holding {
        currency: currency(reader)?,
        position: AccountId(reader.u32()?),
        settlement: AccountId(reader.u32()?),
        limit: match reader.flag()? {
            true => Some(Limit { value: amount(reader)?, alarm_percentage: amount(reader)? }),
            false => None,
        },
    })
}

fn read_key(reader: &mut Reader<'_>) -> Result<Key, FieldError> {
    let id = Digest(reader.array()?);
    let length = usize::from(reader.u16()?);
    if KEY_BYTES_MAX < length {
        return Err(FieldError::Value);
    }
    Ok(Key { id, der: reader.take(length)?.into(), added: Stamp(reader.u64()?) })
}

pub(super) fn write_numbered_oracle(out: &mut Writer<'_>, (id, oracle): &(OracleId, Oracle)) {
    out.u32(id.0);
    write_oracle(out, oracle);
}

pub(super) fn write_active(out: &mut Writer<'_>, transfer: &Active) {
    out.bytes(&transfer.id.to_bytes());
    out.u32(transfer.payer.0);
    out.u32(transfer.payee.0);
    out.u32(transfer.payer_account.0);
    out.u32(transfer.payee_account.0);
    write_amount(out, transfer.amount);
    out.bytes(&transfer.condition);
    out.u64(transfer.expiration_ms);
    out.bytes(&transfer.hash.0);
    out.u64(transfer.prepare.0);
    out.u64(transfer.prepare_notice.0);
    out.u64(transfer.reserved_at.0);
    out.bytes(&transfer.trace);
}

fn read_active(reader: &mut Reader<'_>) -> Result<Active, FieldError> {
    Ok(Active {
        id: transfer_id(reader)?,
        payer: ParticipantIndex(reader.u32()?),
        payee: ParticipantIndex(reader.u32()?),
        payer_account: AccountId(reader.u32()?),
        payee_account: AccountId(reader.u32()?),
        amount: amount(reader)?,
        condition: reader.array()?,
        expiration_ms: reader.u64()?,
        hash: Digest(reader.array()?),
        prepare: Position(reader.u64()?),
        prepare_notice: NoticeId(reader.u64()?),
        reserved_at: Stamp(reader.u64()?),
        trace: reader.array()?,
    })
}

pub(super) fn write_outflow(out: &mut Writer<'_>, (id, outflow): (&TransferId, &Outflow)) {
    out.bytes(&id.to_bytes());
    out.u32(outflow.participant.0);
    out.u32(outflow.settlement.0);
    write_amount(out, outflow.amount);
    out.bytes(&outflow.hash.0);
    out.u64(outflow.record.0);
    out.u64(outflow.reserved_at.0);
}

fn read_outflow(reader: &mut Reader<'_>) -> Result<Outflow, FieldError> {
    Ok(Outflow {
        participant: ParticipantIndex(reader.u32()?),
        settlement: AccountId(reader.u32()?),
        amount: amount(reader)?,
        hash: Digest(reader.array()?),
        record: Position(reader.u64()?),
        reserved_at: Stamp(reader.u64()?),
    })
}

pub(super) fn write_ended(out: &mut Writer<'_>, transfer: &Ended) {
    out.bytes(&transfer.id.to_bytes());
    for party in [transfer.payer, transfer.payee] {
        out.flag(party.is_some());
        party.into_iter().for_each(|index| out.u32(index.0));
    }
    out.bytes(&transfer.hash.0);
    out.u64(transfer.prepare.0);
    match &transfer.answer {
        None => out.u8(0),
        Some(answer) => {
            out.u8(match answer.kind {
                AnswerKind::Fulfil => 1,
                AnswerKind::Abort => 2,
            });
            out.bytes(&answer.hash.0);
            out.u64(answer.position.0);
        }
    }
    out.u16(transfer.outcome.number());
    out.u64(transfer.completed.0);
    out.u64(transfer.changed.0);
}

fn read_ended(reader: &mut Reader<'_>) -> Result<Ended, FieldError> {
    Ok(Ended {
        id: transfer_id(reader)?,
        payer: read_optional_index(reader)?,
        payee: read_optional_index(reader)?,
        hash: Digest(reader.array()?),
        prepare: Position(reader.u64()?),
        answer: read_answer(reader)?,
        outcome: outcome(reader)?,
        completed: Stamp(reader.u64()?),
        changed: Position(reader.u64()?),
    })
}

fn read_optional_index(reader: &mut Reader<'_>) -> Result<Option<ParticipantIndex>, FieldError> {
    match reader.flag()? {
        true => Ok(Some(ParticipantIndex(reader.u32()?))),
        false => Ok(None),
    }
}

fn read_answer(reader: &mut Reader<'_>) -> Result<Option<Answer>, FieldError> {
    let kind = match reader.u8()? {
        0 => return Ok(None),
        1 => AnswerKind::Fulfil,
        2 => AnswerKind::Abort,
        _ => return Err(FieldError::Value),
    };
    let (hash, position) = (Digest(reader.array()?), Position(reader.u64()?));
    Ok(Some(Answer { kind, hash, position }))
}

pub(super) fn write_notice(out: &mut Writer<'_>, notice: &Notice) {
    out.u64(notice.id.0);
    out.u32(notice.recipient.0);
    out.flag(notice.transfer.is_some());
    notice.transfer.iter().for_each(|transfer| out.bytes(&transfer.to_bytes()));
    out.u8(notice.kind as u8);
    out.u64(notice.source.0);
    out.u16(notice.outcome.number());
    out.u64(notice.at.0);
    out.u64(notice.owed_at.0);
    out.bytes(&notice.trace);
}

fn read_notice(reader: &mut Reader<'_>) -> Result<Notice, FieldError> {
    Ok(Notice {
        id: NoticeId(reader.u64()?),
        recipient: ParticipantIndex(reader.u32()?),
        transfer: reader.flag()?.then(|| transfer_id(reader)).transpose()?,
        kind: notice_kind(reader)?,
        source: Position(reader.u64()?),
        outcome: outcome(reader)?,
        at: Stamp(reader.u64()?),
        owed_at: Stamp(reader.u64()?),
        trace: reader.array()?,
    })
}

pub(super) fn write_dead_letter(out: &mut Writer<'_>, letter: &DeadLetter) {
    write_notice(out, &letter.notice);
    write_delivery(out, &letter.end);
}

fn read_dead_letter(reader: &mut Reader<'_>) -> Result<DeadLetter, FieldError> {
    Ok(DeadLetter { notice: read_notice(reader)?, end: read_delivery(reader)? })
}

/// In order of number, from 1.
const NOTICE_KINDS: [NoticeKind; 12] = [
    NoticeKind::Prepare,
    NoticeKind::Fulfil,
    NoticeKind::Abort,
    NoticeKind::FulfilCopy,
    NoticeKind::AbortCopy,
    NoticeKind::Committed,
    NoticeKind::Reserved,
    NoticeKind::AbortedState,
    NoticeKind::Error,
    NoticeKind::PatchCommitted,
    NoticeKind::PatchAborted,
    NoticeKind::PartiesChanged,
];

pub(crate) fn notice_kind(reader: &mut Reader<'_>) -> Result<NoticeKind, FieldError> {
    let at = usize::from(reader.u8()?).checked_sub(1);
    at.and_then(|at| NOTICE_KINDS.get(at).copied()).ok_or(FieldError::Value)
}

fn outcome(reader: &mut Reader<'_>) -> Result<Outcome, FieldError> {
    Outcome::from_number(reader.u16()?).ok_or(FieldError::Value)
}

fn write_amount(out: &mut Writer<'_>, amount: Amount) {
    assert!(amount.units().abs() < UNITS_END, "a balance is a sum of amounts in a log");
    out.i128(amount.units());
}

fn amount(reader: &mut Reader<'_>) -> Result<Amount, FieldError> {
    reader.amount(UNITS_END)
}

fn write_list<T>(out: &mut Writer<'_>, list: &[T], mut write: impl FnMut(&mut Writer<'_>, &T)) {
    assert!(list.len() <= LIST_MAX, "a list within a row has at most {LIST_MAX} entries");
    out.u32(list.len() as u32);
    list.iter().for_each(|entry| write(out, entry));
}

/// Reads a counted list without trusting the count for the allocation.
fn read_list<T>(
    reader: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let count = reader.u32()? as usize;
    if LIST_MAX < count {
        return Err(FieldError::Value);
    }
    (0..count).map(|_| read(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_notice_is_read_back() {
        for (at, kind) in NOTICE_KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, at + 1);
        }
    }

    #[test]
    fn amounts_beyond_their_bounds_are_refused() {
        let read = |units: i128| amount(&mut Reader(&units.to_le_bytes()));
        for units in [1 - UNITS_END, -1, 0, UNITS_END - 1] {
            assert_eq!(read(units), Ok(Amount::from_units(units)));
        }
        for units in [i128::MIN, -UNITS_END, UNITS_END, i128::MAX] {
            assert_eq!(read(units), Err(FieldError::Value), "{units}");
        }
    }

    #[test]
    fn keys_and_lists_beyond_their_bounds_are_refused() {
        let key = |length: usize| {
            let mut bytes = Vec::from([7; 32]);
            bytes.extend_from_slice(&(length as u16).to_le_bytes());
            bytes.resize(bytes.len() + length + 8, 1);
            read_key(&mut Reader(&bytes)).map(|key| key.der.len())
        };
        assert_eq!(key(KEY_BYTES_MAX), Ok(KEY_BYTES_MAX));
        let list = |count: usize| {
            let mut bytes = Vec::from((count as u32).to_le_bytes());
            bytes.resize(bytes.len() + count, 1);
            read_list(&mut Reader(&bytes), |reader| reader.u8()).map(|list| list.len())
        };
        assert_eq!(list(LIST_MAX), Ok(LIST_MAX));
        for beyond in [1, 2] {
            assert_eq!(key(KEY_BYTES_MAX + beyond), Err(FieldError::Value), "{beyond}");
            assert_eq!(list(LIST_MAX + beyond), Err(FieldError::Value), "{beyond}");
        }
    }

    #[test]
    fn each_kind_of_answer_is_read_and_no_other() {
        let read = |number: u8| {
            let mut bytes = [4; 41];
            bytes[0] = number;
            read_answer(&mut Reader(&bytes)).map(|answer| answer.map(|answer| answer.kind))
        };
        assert_eq!(read(0), Ok(None));
        assert_eq!(read(1), Ok(Some(AnswerKind::Fulfil)));
        assert_eq!(read(2), Ok(Some(AnswerKind::Abort)));
        assert_eq!(read(3), Err(FieldError::Value));
    }
}
