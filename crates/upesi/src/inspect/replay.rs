//! `upesi replay`: shows the state at a record or a time, replayed from the log. Reads nothing
//! after that point and changes nothing in the data directory.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use journal::LocatedFrame;
use ledger::{Account, LogIndex, Notice, ParticipantIndex, Stamp, State};
use sequencer::{Replay, ReplayError};
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::{moment, print_json};
use crate::cli::table::{Align, Table};
use crate::inspect::explain::history::name_of;
use crate::inspect::explain::report::{Decimal, request_of};
use crate::inspect::offline::{Continue, OfflineLog};
use crate::operate::quarantine::Entry;

/// Maximum number of transfers and of notices in the text; the JSON has all of them.
const ROWS_MAX: usize = 20;

/// End of a replay or of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// This record, inclusive.
    Record(LogIndex),
    /// The last batch stamped at or before this time.
    Time(Stamp),
    /// The end of the log.
    End,
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = match digits {
            true => text.parse().ok().filter(|number| 0 < *number).map(LogIndex).map(Self::Record),
            false => parse_time(text).map(Self::Time),
        };
        parsed.ok_or_else(|| {
            "expected a log index from 1, or a time such as 2026-05-01T17:00:00Z".into()
        })
    }
}

/// A date and time with up to six decimals.
fn parse_time(text: &str) -> Option<Stamp> {
    let (seconds, rest) = text.split_at_checked(19)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at_checked(rest.find(|c: char| !c.is_ascii_digit())?)?,
        None => ("", rest),
    };
    if 6 < fraction.len() {
        return None;
    }
    let micros = format!("{fraction:0<6}");
    let whole = format!("{seconds}.{}{zone}", &micros[..3]);
    let millis = fspiop::time::parse_date_time(&whole)?;
    Some(Stamp(millis * 1_000 + micros[3..].parse::<u64>().ok()?))
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi replay --data /var/lib/upesi                                at the end of the log
  upesi replay --data /var/lib/upesi --until 2026-05-01T17:00:00Z   at the end of a day
  upesi replay --data /var/lib/upesi --until 41 --json              after record 41
A running switch locks its directory: stop it, or replay a copy of the directory.";

/// Arguments of `replay`.
#[derive(clap::Args)]
pub(crate) struct ReplayArguments {
    /// Directory of the log; read only. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Last record or time to apply [default: the end of the log].
    ///
    /// A time is 2026-05-01T17:00:00Z, with up to six decimals, or an offset such as +03:00
    /// instead of Z. All records stamped up to then are applied.
    #[arg(long, value_name = "LOG_INDEX|TIME")]
    until: Option<Until>,
    /// Print JSON with every transfer and notice, and amounts as strings.
    #[arg(long)]
    json: bool,
}

pub(crate) fn replay(arguments: &ReplayArguments) -> Result<(), CliError> {
    let started = Instant::now();
    let log = OfflineLog::open(&arguments.data)?;
    let until = arguments.until.unwrap_or(Until::End);
    let mut first = None;
    let (replay, walked) = log.replay(&mut |replay, placed| {
        first.get_or_insert(placed.frame.header().batch.stamp);
        step(replay, placed, until)
    })?;
    let end = replay.state().log_index();
    match (until, first) {
        (Until::Record(wanted), _) if end < wanted => {
            return Err(log.failure(format!("the log ends with record {}", end.0)));
        }
        (Until::Time(_), Some(first)) if end.0 == 0 => {
            return Err(log.failure(format!("the log begins later, at {}", moment(first))));
        }
        _ => {}
    }
    if let Some(torn) = walked.torn {
        let (segment, offset) = (torn.segment, torn.offset);
        eprintln!("upesi: {segment} ends within a frame at byte {offset}; replayed up to there");
    }
    let quarantined = log.quarantined_up_to(end);
    let report = StateReport { quarantined, ..StateReport::new(replay.state(), started) };
    if arguments.json {
        return print_json(&report);
    }
    println!("{report}");
    Ok(())
}

fn step(
    replay: &mut Replay,
    placed: &LocatedFrame<'_>,
    until: Until,
) -> Result<Continue, ReplayError> {
    let frame = placed.frame;
    let header = frame.header();
    let last = match until {
        Until::Time(time) if time < header.batch.stamp => return Ok(Continue::Stop),
        Until::Record(wanted) => wanted.min(header.last()),
        Until::Time(_) | Until::End => header.last(),
    };
    replay.apply_until(frame, last, &mut |_, _, _| {})?;
    Ok(if until == Until::Record(last) { Continue::Stop } else { Continue::On })
}

/// The state after a record.
#[derive(Debug, Serialize)]
struct StateReport {
    /// The last record applied.
    log_index: u64,
    /// Its stamp.
    time: String,
    participants: Vec<ParticipantReport>,
    transfers_in_flight: Vec<ReservedReport>,
    transfers_ended: usize,
    notices_owed: Vec<NoticeReport>,
    dead_letters: Vec<NoticeReport>,
    /// Equals that of `GET /state` of a switch whose log ends with this record.
    state_hash: String,
    outcome_digest: String,
    /// Quarantined records up to this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<Entry>,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct ParticipantReport {
    name: String,
    active: bool,
    caps: Vec<CapReport>,
    accounts: Vec<AccountReport>,
}

#[derive(Debug, Serialize)]
struct CapReport {
    currency: String,
    net_debit_cap: Option<Decimal>,
}

#[derive(Debug, Serialize)]
struct AccountReport {
    id: u32,
    kind: String,
    currency: String,
    active: bool,
    value: Decimal,
    changed: String,
}

#[derive(Debug, Serialize)]
struct ReservedReport {
    id: String,
    payer: String,
    payee: String,
    amount: Decimal,
    currency: String,
    expiration: String,
    prepare: u64,
    reserved: String,
}

#[derive(Debug, Serialize)]
struct NoticeReport {
    id: u64,
    recipient: String,
    request: &'static str,
    transfer: Option<String>,
    since: String,
}

impl StateReport {
    fn new(state: &State, started: Instant) -> Self {
        let participants = state.registry().iter().map(|(index, participant)| ParticipantReport {
            name: participant.name.as_str().to_owned(),
            active: participant.active,
            caps: participant
                .by_currency
                .iter()
                .map(|holding| CapReport {
                    currency: holding.currency.to_string(),
                    net_debit_cap: holding.net_debit_cap.map(|limit| Decimal(limit.value)),
                })
                .collect(),
            accounts: accounts_of(state, index),
        });
        let state_hash = state.hash().to_string();
        Self {
            log_index: state.log_index().0,
            time: moment(state.stamp()),
            participants: participants.collect(),
            transfers_in_flight: reserved_transfers(state),
            transfers_ended: state.final_transfer_count(),
            notices_owed: notices(state, state.notices_owed()),
            dead_letters: notices(state, state.dead_letters().map(|letter| &letter.notice)),
            state_hash,
            outcome_digest: state.digest().to_string(),
            quarantined: Vec::new(),
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

fn accounts_of(state: &State, owner: ParticipantIndex) -> Vec<AccountReport> {
    state.accounts().iter().filter(|account| account.owner == owner).map(account_report).collect()
}

fn account_report(account: &Account) -> AccountReport {
    AccountReport {
        id: account.id.0,
        kind: name_of(account.kind),
        currency: account.currency.to_string(),
        active: account.active,
        value: Decimal(account.value),
        changed: moment(account.changed),
    }
}

/// The reserved transfers in the order of their prepares.
fn reserved_transfers(state: &State) -> Vec<ReservedReport> {
    let mut reserved: Vec<_> = state.in_flight().collect();
    reserved.sort_unstable_by_key(|transfer| transfer.prepare);
    let reports = reserved.into_iter().map(|transfer| ReservedReport {
        id: transfer.id.to_string(),
        payer: name(state, transfer.payer),
        payee: name(state, transfer.payee),
        amount: Decimal(transfer.amount),
        currency: state
            .accounts()
            .get(transfer.payer_account)
            .map_or(String::new(), |account| account.currency.to_string()),
        expiration: moment(Stamp::from_millis(transfer.expiration_ms)),
        prepare: transfer.prepare.0,
        reserved: moment(transfer.reserved_at),
    });
    reports.collect()
}

/// Notices in the order of their ids.
fn notices<'a>(state: &State, notices: impl Iterator<Item = &'a Notice>) -> Vec<NoticeReport> {
    let mut notices: Vec<_> = notices.collect();
    notices.sort_unstable_by_key(|notice| notice.id);
    let reports = notices.into_iter().map(|notice| NoticeReport {
        id: notice.id.0,
        recipient: name(state, notice.recipient),
        request: request_of(notice.kind),
        transfer: notice.transfer.map(|transfer| transfer.to_string()),
        since: moment(notice.at),
    });
    reports.collect()
}

fn name(state: &State, index: ParticipantIndex) -> String {
    state.registry().get(index).name.as_str().to_owned()
}

impl Display for StateReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "state after record {}, stamped {}", self.log_index, self.time)?;
        write!(f, "\n{}", caps_table(&self.participants))?;
        write!(f, "\n{}", accounts_table(&self.participants))?;
        let (reserved, ended) = (&self.transfers_in_flight, self.transfers_ended);
        writeln!(
            f,
            "\ntransfers in flight: {}; final: {ended}, movements of funds included",
            reserved.len()
        )?;
        if !reserved.is_empty() {
            write!(f, "\n{}", reserved_table(reserved))?;
            write_omitted(f, reserved.len())?;
        }
        let (owed, dead) = (&self.notices_owed, &self.dead_letters);
        writeln!(f, "\nnotices owed: {}; dead letters: {}", owed.len(), dead.len())?;
        if !owed.is_empty() {
            write!(f, "\n{}", notices_table(owed))?;
            write_omitted(f, owed.len())?;
        }
        writeln!(f)?;
        self.quarantined.iter().try_for_each(|entry| writeln!(f, "{entry}"))?;
        writeln!(f, "state hash {}", self.state_hash)?;
        write!(f, "replayed in {:.1} s", self.seconds)
    }
}

const fn status(active: bool) -> &'static str {
    if active { "active" } else { "inactive" }
}

fn caps_table(participants: &[ParticipantReport]) -> Table<4> {
    let mut table = Table::new([
        ("participant", Align::Left),
        ("status", Align::Left),
        ("currency", Align::Left),
        ("net debit cap", Align::Right),
    ]);
    for ParticipantReport { name, active, caps, .. } in participants {
        let mut add = |currency: &str, cap: Option<Decimal>| {
            let cap = cap.map_or_else(|| "none".to_owned(), |cap| cap.to_string());
            table.add([name.clone(), status(*active).to_owned(), currency.to_owned(), cap]);
        };
        if caps.is_empty() {
            add("-", None);
        }
        caps.iter().for_each(|cap| add(&cap.currency, cap.net_debit_cap));
    }
    table
}

fn accounts_table(participants: &[ParticipantReport]) -> Table<6> {
    let mut table = Table::new([
        ("account", Align::Right),
        ("participant", Align::Left),
        ("kind", Align::Left),
        ("balance", Align::Right),
        ("currency", Align::Left),
        ("status", Align::Left),
    ]);
    for participant in participants {
        for AccountReport { id, kind, currency, active, value, .. } in &participant.accounts {
            table.add([
                id.to_string(),
                participant.name.clone(),
                kind.clone(),
                value.to_string(),
                currency.clone(),
                status(*active).to_owned(),
            ]);
        }
    }
    table
}

fn reserved_table(transfers: &[ReservedReport]) -> Table<7> {
    let mut table = Table::new([
        ("transfer", Align::Left),
        ("payer", Align::Left),
        ("payee", Align::Left),
        ("amount", Align::Right),
        ("currency", Align::Left),
        ("record", Align::Right),
        ("expires", Align::Left),
    ]);
    for transfer in transfers.iter().take(ROWS_MAX) {
        table.add([
            transfer.id.clone(),
            transfer.payer.clone(),
            transfer.payee.clone(),
            transfer.amount.to_string(),
            transfer.currency.clone(),
            transfer.prepare.to_string(),
            transfer.expiration.clone(),
        ]);
    }
    table
}

fn notices_table(notices: &[NoticeReport]) -> Table<5> {
    let mut table = Table::new([
        ("notice", Align::Right),
        ("request", Align::Left),
        ("recipient", Align::Left),
        ("transfer", Align::Left),
        ("since", Align::Left),
    ]);
    for NoticeReport { id, recipient, request, transfer, since } in notices.iter().take(ROWS_MAX) {
        table.add([
            id.to_string(),
            (*request).to_owned(),
            recipient.clone(),
            transfer.clone().unwrap_or_else(|| "-".to_owned()),
            since.clone(),
        ]);
    }
    table
}

fn write_omitted(f: &mut Formatter<'_>, count: usize) -> fmt::Result {
    match count.checked_sub(ROWS_MAX) {
        None | Some(0) => Ok(()),
        Some(omitted) => writeln!(f, "  and {omitted} more; --json lists all"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_is_a_time_or_a_record() {
        let noon = 1_777_636_800_000_000;
        for (text, expected) in [
            ("41", Some(Until::Record(LogIndex(41)))),
            ("2026-05-01T12:00:00Z", Some(Until::Time(Stamp(noon)))),
            ("2026-05-01T12:00:00.5Z", Some(Until::Time(Stamp(noon + 500_000)))),
            ("2026-05-01T12:00:00.000001Z", Some(Until::Time(Stamp(noon + 1)))),
            ("2026-05-01T15:00:00.123+03:00", Some(Until::Time(Stamp(noon + 123_000)))),
            ("0", None),
            ("", None),
            ("yesterday", None),
            ("2026-05-01", None),
            ("2026-05-01T12:00:00", None),
            ("2026-05-01T12:00:00.1234567Z", None),
            ("2026-05-01T12:00:00.é", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }
}
