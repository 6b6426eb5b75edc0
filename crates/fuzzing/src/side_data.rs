//! Data stored next to the log, and proposals to a shared log: bundles, rows of final transfers,
//! and recorded decisions.
//!
//! A second reader here reads each field by field and computes its own checksums. Both readers must
//! accept the same bytes with the same values. Accepted values are written and read again.

use ledger::{
    AccountKind, Amount, BalanceChange, Currency, Decision, DecisionInputs, Digest, FeeAccount,
    FinalTransfer, FspName, HubAccount, LogIndex, NoticeId, Outcome, OwedNotice, ParticipantIndex,
    PartyInputs, RecordedResponse, ResponseKind, Stamp, TransferId,
};
use record::attempts::{self, AttemptEnd};
use record::bundle::{
    self, BUNDLE_BYTES_MAX, BUNDLE_MAGIC, BUNDLE_VERSION, BUNDLE_VERSION_FIRST, Bundle, BundleError,
};
use record::cold_rows;
use record::decision;
use record::frame::{FRAME_RECORDS_MAX, RECORD_BYTES_MAX};

/// Bytes of a bundle before its node's name.
const HEAD: usize = 144;
const AT_CRC: usize = 140;
const ID: usize = 17;

/// A bundle: as it is, and with what random bytes never get right put right.
pub fn bundle(data: &[u8]) {
    judge_bundle(data);
    if HEAD <= data.len() {
        let mut sound = data.to_vec();
        let length = sound.len() as u32;
        sound[..4].copy_from_slice(&BUNDLE_MAGIC);
        sound[4..6].copy_from_slice(&BUNDLE_VERSION.to_le_bytes());
        sound[8..12].copy_from_slice(&length.to_le_bytes());
        let crc = bundle_crc(&sound);
        sound[AT_CRC..HEAD].copy_from_slice(&crc.to_le_bytes());
        judge_bundle(&sound);
        let at = data.len().wrapping_mul(31) % sound.len();
        sound[at] ^= 1 << (data[0] % 8);
        assert!(Bundle::parse(&sound).is_err(), "one bit at {at} is noticed");
    }
}

fn judge_bundle(bytes: &[u8]) {
    let found = match Bundle::parse(bytes) {
        Err(BundleError::Version(version)) => {
            let known = [BUNDLE_VERSION, BUNDLE_VERSION_FIRST];
            assert!(bytes.starts_with(&BUNDLE_MAGIC) && !known.contains(&version));
            return;
        }
        Err(BundleError::Foreign(why)) => {
            assert!(!is_bundle(bytes), "it is a bundle, though {why}");
            return;
        }
        Ok(found) => found,
    };
    assert!(is_bundle(bytes), "not a bundle");
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let header = &found.header;
    assert_eq!((header.sequence, header.wall.0), (number(32), number(40)));
    assert_eq!((header.instance, header.claim.log_index.0), (number(48), number(56)));
    assert_eq!(header.identity.0, bytes[16..32]);
    assert_eq!(
        (&header.claim.digest.0[..], &header.claim.chain.0[..]),
        bytes[64..128].split_at(32)
    );
    assert_eq!(u64::from(header.node) | u64::from(header.epoch) << 32, number(128));
    let mut written = Vec::new();
    bundle::write(header, found.count, found.records, &mut written);
    if bytes[4..6] == BUNDLE_VERSION.to_le_bytes() {
        assert_eq!(written, bytes, "a bundle has one stored form");
    }
    let positions = found.records_from(LogIndex(7)).map(|record| record.log_index.0);
    assert!(positions.eq(7..7 + u64::from(found.count)));
}

/// Whether bytes are a bundle of a known version, according to the documented format.
fn is_bundle(bytes: &[u8]) -> bool {
    if bytes.len() < HEAD || BUNDLE_BYTES_MAX < bytes.len() {
        return false;
    }
    let short = |at: usize| usize::from(bytes[at]) + 256 * usize::from(bytes[at + 1]);
    let long = |at: usize| short(at) + 65_536 * short(at + 2);
    let sequence = u64::from_le_bytes(bytes[32..40].try_into().expect("eight"));
    let (flags, count, name) = (short(6), long(12), short(136));
    bytes[..4] == BUNDLE_MAGIC
        && matches!((short(4), short(138)), (1, 0) | (3, 1..))
        && flags <= 1
        && long(8) == bytes.len()
        && (1..=FRAME_RECORDS_MAX as usize).contains(&count)
        && (count as u64) <= (u64::MAX - sequence).saturating_add(1)
        && long(128) != 0
        && name <= 64
        && long(AT_CRC) == bundle_crc(bytes) as usize
        && bytes.get(HEAD..HEAD + name).is_some_and(|name| std::str::from_utf8(name).is_ok())
        && records_in(&bytes[HEAD + name..]) == Some(count)
}

/// Number of records in these bytes; `None` if they contain anything else.
fn records_in(mut bytes: &[u8]) -> Option<usize> {
    let mut count = 0;
    while !bytes.is_empty() {
        let long = |at: usize| -> Option<usize> {
            Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
        };
        let (length, fields, original) = (long(0)?, long(12)?, long(16)?);
        let record = bytes.get(..length).filter(|it| it.len() <= RECORD_BYTES_MAX)?;
        let digest = record.get(20_usize.checked_add(fields)?..)?.get(..32)?;
        let stored = length.checked_sub(52 + fields)?;
        let is_blank = digest.iter().all(|byte| *byte == 0);
        let sound = match record.get(4..8)? {
            [0, 0, 0, 0] => is_blank && stored == 0 && original == 0,
            [1, 0, 0, 0] => !is_blank && stored == original,
            [2, 0, 0, 0] => !is_blank && stored == 0,
            _ => false,
        };
        if !sound {
            return None;
        }
        (count, bytes) = (count + 1, &bytes[length..]);
    }
    Some(count)
}

/// Over everything but itself; bit by bit, where the product has tables or an instruction.
fn bundle_crc(bytes: &[u8]) -> u32 {
    let crc = |bytes: &[u8]| {
        !bytes.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
            })
        })
    };
    crc(&bytes[..AT_CRC]) ^ crc(&bytes[HEAD..]).rotate_left(1)
}

/// The value under a transfer's id: the id, a record up to which is asked, the value.
pub fn row(data: &[u8]) {
    let Some((id, rest)) = data.split_first_chunk::<ID>() else { return };
    let Some((at, stored)) = rest.split_first_chunk::<8>() else { return };
    let Some(id) = TransferId::from_bytes(*id) else { return };
    let at = LogIndex(u64::from_le_bytes(*at));
    let versions = versions(id, stored);
    let named = versions.as_ref().map(|versions| {
        let records = |row: &FinalTransfer| {
            [Some(row.prepare), Some(row.changed), row.response.map(log_index_of)]
        };
        versions.iter().flat_map(records).flatten().collect::<Vec<_>>()
    });
    assert_eq!(cold_rows::records_of(&id, stored).ok(), named);
    let Some(versions) = versions else { return };
    let until = versions.iter().take_while(|row| row.changed <= at).last();
    assert_eq!(cold_rows::version_at(&id, stored, at), Ok(until.cloned()));
    if versions.is_sorted_by(|one, next| one.changed < next.changed) && !versions.is_empty() {
        for order in [versions.clone(), versions.iter().rev().cloned().collect()] {
            let (mut value, mut longer) = (Vec::new(), Vec::new());
            for row in &order {
                cold_rows::add_version(&value, row, &mut longer).expect("it was written");
                std::mem::swap(&mut value, &mut longer);
            }
            assert_eq!(value, stored, "versions have one order and one form");
        }
    }
}

fn log_index_of(response: RecordedResponse) -> LogIndex {
    response.log_index
}

/// All versions of a row, read a second time.
fn versions(id: TransferId, stored: &[u8]) -> Option<Vec<FinalTransfer>> {
    let mut versions = Vec::new();
    let Some((1, mut rest)) = stored.split_first().map(|(version, rest)| (*version, rest)) else {
        return stored.is_empty().then_some(versions);
    };
    while !rest.is_empty() {
        let second = &mut SecondReader(rest);
        let (payer, payee) = (second.party()?, second.party()?);
        let amount = second.balance()?;
        let currency = Currency::parse(std::str::from_utf8(second.take(3)?).ok()?)?;
        let (hash, prepare) = (Digest(second.array()?), LogIndex(second.fixed()?));
        let response = match second.is_there()? {
            false => None,
            true => {
                let kind = match second.byte()? {
                    1 => ResponseKind::Fulfil,
                    2 => ResponseKind::Abort,
                    _ => return None,
                };
                let (hash, log_index) = (Digest(second.array()?), LogIndex(second.fixed()?));
                Some(RecordedResponse { kind, hash, log_index })
            }
        };
        let outcome = Outcome::from_number(u16::from_le_bytes(second.array()?))?;
        let (completed, changed) = (Stamp(second.fixed()?), LogIndex(second.fixed()?));
        rest = second.0;
        versions.push(FinalTransfer {
            id,
            payer,
            payee,
            amount: Amount::from_units(amount),
            currency,
            hash,
            prepare,
            response,
            outcome,
            completed,
            changed,
        });
    }
    Some(versions)
}

/// A value that holds decisions, and one that holds where deliveries ended.
pub fn decision_records(data: &[u8]) {
    decisions(data);
    ends(data);
    attempts(data);
}

/// The attempts stored with the ends of deliveries.
fn attempts(stored: &[u8]) {
    let found = attempts::read(stored).ok();
    if let Some(found) = &found {
        assert_eq!(attempts::write(found), stored, "a stored value has one form");
    }
    let number = |end| match end {
        AttemptEnd::TimedOut => 0,
        AttemptEnd::ConnectFailed => 1,
        AttemptEnd::Broken => 2,
        AttemptEnd::Status(status) => status,
    };
    let plain = found.map(|deliveries| {
        let flat = deliveries.into_iter().flat_map(|(notice, all)| {
            let all = all.into_iter().map(|one| (one.began_ms, one.took_ms, number(one.end)));
            std::iter::once((notice.0, 0, all.len() as u16)).chain(all).collect::<Vec<_>>()
        });
        flat.collect()
    });
    assert_eq!(plain, all_attempts(stored));
}

/// All delivery attempts, read according to the documented format.
fn all_attempts(stored: &[u8]) -> Option<Vec<(u64, u32, u16)>> {
    let (1, mut rest) = stored.split_first().map(|(version, rest)| (*version, rest))? else {
        return None;
    };
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (head, tail) = rest.split_at_checked(9)?;
        let (attempts, tail) = tail.split_at_checked(14 * usize::from(head[8]))?;
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        all.push((number(&head[..8]), 0, u16::from(head[8])));
        for one in attempts.chunks(14) {
            let end = number(&one[12..]) as u16;
            if (3..100).contains(&end) {
                return None;
            }
            all.push((number(&one[..8]), number(&one[8..12]) as u32, end));
        }
        rest = tail;
    }
    Some(all)
}

fn decisions(stored: &[u8]) {
    let found = decision::read_all(stored).ok();
    let second = all_texts(stored);
    assert_eq!(
        found.as_deref().map(|all| all.iter().map(decision_text).collect::<Vec<_>>()),
        second
    );
    let Some(found) = found else { return };
    let mut written = Vec::new();
    decision::begin(&mut written);
    for decided in &found {
        let start = written.len();
        decided.write(&mut written);
        assert_eq!(decision::read_one(&written[start..]).as_ref(), Ok(decided));
    }
    assert!(written.len() <= stored.len(), "the written form is the shortest");
    assert_eq!(decision::read_all(&written).as_ref(), Ok(&found), "a written value reads back");
}

fn ends(data: &[u8]) {
    let Some((base, stored)) = data.split_first_chunk::<8>() else { return };
    let base = u64::from_le_bytes(*base);
    let second = all_ends(base, stored);
    for low in [0, 1, 255, data[0]] {
        let notice = NoticeId(256 * 9 + u64::from(low));
        let own = second.as_ref().map(|all| {
            let of_notice = all.iter().filter(|(lowest, _)| *lowest == low);
            of_notice.map(|(_, log_index)| LogIndex(*log_index)).collect::<Vec<_>>()
        });
        assert_eq!(decision::ends_of(notice, LogIndex(base), stored).ok(), own, "notice {low}");
    }
    let Some(second) = second else { return };
    let all: Vec<_> = second.iter().map(|(low, at)| (NoticeId((*low).into()), *at)).collect();
    let all: Vec<_> = all.into_iter().map(|(notice, at)| (notice, LogIndex(at))).collect();
    let mut written = Vec::new();
    decision::write_ends(LogIndex(base), &all, &mut written);
    assert_eq!(all_ends(base, &written), Some(second), "a written value reads back");
}

fn all_ends(base: u64, stored: &[u8]) -> Option<Vec<(u8, u64)>> {
    let mut second = SecondReader(stored);
    let mut all = Vec::new();
    if second.byte()? != 1 {
        return None;
    }
    while !second.0.is_empty() {
        let (low, more) = (second.byte()?, second.small()?);
        all.push((low, base.checked_add(more)?));
    }
    Some(all)
}

/// A decision as text; [`all_texts`] makes the same text from its bytes.
fn decision_text(decided: &Decision) -> String {
    let Decision { transfer, log_index, outcome, inputs, owed } = decided;
    let inputs = inputs.as_ref().map(inputs_text).unwrap_or_default();
    let owed: Vec<_> = owed
        .iter()
        .map(|OwedNotice { notice, recipient, kind, outcome }| {
            let (kind, outcome) = (*kind as u8, outcome.number());
            format!("{} {kind} {outcome} {}", notice.0, recipient.as_str())
        })
        .collect();
    let id: Vec<u8> = transfer.to_bytes().into();
    format!("{id:?} {} {} [{inputs}] {owed:?}", log_index.0, outcome.number())
}

fn inputs_text(inputs: &DecisionInputs) -> String {
    let DecisionInputs { parties, fees, hub, hub_name, lane_capacity } = inputs;
    let balance = |change: &BalanceChange| {
        format!("{} {} {}", change.account.0, change.before.units(), change.change.units())
    };
    let party = |party: &PartyInputs| {
        let cap = party.net_debit_cap.map(Amount::units);
        let (active, account) = (party.active, party.account_active);
        let (position, settlement) = (balance(&party.position), balance(&party.settlement));
        let (name, currency) = (party.name.as_str(), party.currency);
        format!(
            "{currency} {name} {active} {account} {position} {settlement} {cap:?} {}",
            party.owed
        )
    };
    let hub = hub.iter().map(|HubAccount { kind, currency, balance: change }| {
        format!("{currency} {} {}", kind.number(), balance(change))
    });
    // Without a currency of their own, they follow the parties.
    let last = parties.last().map_or_else(String::new, |party| party.currency.to_string());
    let fees = fees.iter().map(|FeeAccount { party, balance: change }| {
        format!("{last} fee {party} {}", balance(change))
    });
    let all: Vec<_> = parties.iter().map(party).chain(fees).chain(hub).collect();
    format!("{lane_capacity} {} {all:?}", hub_name.as_str())
}

fn all_texts(stored: &[u8]) -> Option<Vec<String>> {
    let mut second = SecondReader(stored);
    let mut all = Vec::new();
    if second.byte()? != 1 {
        return None;
    }
    while !second.0.is_empty() {
        all.push(text(&mut second)?);
    }
    Some(all)
}

fn text(second: &mut SecondReader<'_>) -> Option<String> {
    let id = second.take(ID)?.to_vec();
    TransferId::from_bytes(id.as_slice().try_into().ok()?)?;
    let (log_index, outcome) = (second.small()?, second.outcome()?);
    let mut names = Vec::new();
    let inputs = second.inputs(&mut names)?;
    let mut owed = Vec::new();
    for _ in 0..u32::try_from(second.number()?).ok()? {
        let (notice, kind) = (second.small()?, second.byte()?);
        if !(1..=KINDS_OF_NOTICES).contains(&kind) {
            return None;
        }
        let outcome = second.outcome()?;
        let name = match usize::try_from(u32::try_from(second.number()?).ok()?).ok()? {
            0 => second.name()?,
            at => names.get(at - 1)?.clone(),
        };
        owed.push(format!("{notice} {kind} {outcome} {name}"));
    }
    Some(format!("{id:?} {log_index} {outcome} [{inputs}] {owed:?}"))
}

/// Number of notice kinds; they are numbered from 1.
const KINDS_OF_NOTICES: u8 = 13;

/// A reader of its own.
struct SecondReader<'a>(&'a [u8]);

impl<'a> SecondReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.0.get(..length)?;
        self.0 = &self.0[length..];
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn is_there(&mut self) -> Option<bool> {
        self.byte().filter(|byte| *byte < 2).map(|byte| byte == 1)
    }

    fn party(&mut self) -> Option<Option<ParticipantIndex>> {
        match self.is_there()? {
            false => Some(None),
            true => Some(Some(ParticipantIndex(u32::from_le_bytes(self.array()?)))),
        }
    }

    fn fixed(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Seven bits a byte, the lowest first, in as few bytes as it needs, eighteen at most.
    fn number(&mut self) -> Option<u128> {
        let length = 1 + self.0.iter().position(|byte| *byte < 128)?;
        let groups = self.take(length).filter(|groups| groups.len() <= 18)?;
        let is_shortest = length == 1 || groups[length - 1] != 0;
        is_shortest.then_some(())?;
        Some(groups.iter().rev().fold(0, |sum, byte| sum * 128 + u128::from(byte % 128)))
    }

    fn small(&mut self) -> Option<u64> {
        u64::try_from(self.number()?).ok()
    }

    /// 0, -1, 1, -2 and so on.
    fn signed(&mut self) -> Option<i128> {
        let folded = self.number()?;
        let half = i128::try_from(folded / 2).ok()?;
        Some(if folded.is_multiple_of(2) { half } else { -half - 1 })
    }

    fn outcome(&mut self) -> Option<u16> {
        let number = u16::try_from(self.number()?).ok()?;
        Outcome::from_number(number).map(|_| number)
    }

    fn name(&mut self) -> Option<String> {
        let length = self.byte()?;
        let text = std::str::from_utf8(self.take(length.into())?).ok()?;
        FspName::new(text).map(|name| name.as_str().to_owned())
    }

    /// The inputs of a decision, and the names of the participants among them.
    fn inputs(&mut self, names: &mut Vec<String>) -> Option<String> {
        let count = u32::try_from(self.number()?).ok()?;
        if count == 0 {
            return Some(String::new());
        }
        let (capacity, hub_name) = (u32::try_from(self.number()?).ok()?, self.name()?);
        let (mut all, mut currency) = (Vec::new(), None);
        let (mut fees, mut hubs) = (0, 0);
        for _ in 1..count {
            let before = currency;
            if currency.is_none() || self.0.first() == Some(&8) {
                let _tag = if currency.is_some() { self.byte()? } else { 8 };
                let next = Currency::parse(std::str::from_utf8(self.take(3)?).ok()?)?;
                if currency.replace(next) == Some(next) {
                    return None;
                }
            }
            let (tag, currency) = (self.byte()?, currency?);
            let text = match tag {
                64 if before == Some(currency) && hubs == 0 => {
                    fees += 1;
                    let party = u32::try_from(self.number()?).ok()?;
                    names.get(party as usize)?;
                    format!("fee {party} {}", self.balance_change()?)
                }
                0..8 if fees + hubs == 0 => self.party_inputs(tag, names)?,
                128.. => {
                    hubs += 1;
                    AccountKind::from_number(tag - 128)?;
                    format!("{} {}", tag - 128, self.balance_change()?)
                }
                _ => return None,
            };
            all.push(format!("{currency} {text}"));
        }
        Some(format!("{capacity} {hub_name} {all:?}"))
    }

    fn party_inputs(&mut self, flags: u8, names: &mut Vec<String>) -> Option<String> {
        let name = self.name()?;
        let (active, account) = (flags % 2 == 1, flags / 2 % 2 == 1);
        let (position, settlement) = (self.balance_change()?, self.balance_change()?);
        let cap = if 4 <= flags { Some(self.balance()?) } else { None };
        let owed = u32::try_from(self.number()?).ok()?;
        names.push(name.clone());
        Some(format!("{name} {active} {account} {position} {settlement} {cap:?} {owed}"))
    }

    /// Between the ends of what a balance can be.
    fn balance(&mut self) -> Option<i128> {
        self.signed().filter(|units| units.abs() < 1 << 100)
    }

    fn balance_change(&mut self) -> Option<String> {
        let account = u32::try_from(self.number()?).ok()?;
        Some(format!("{account} {} {}", self.balance()?, self.balance()?))
    }
}
