//! `upesi replay`: the state as it was at a moment, computed from the log up to there. Nothing in
//! the data directory is changed, and nothing behind the moment is looked at.

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
use crate::inspect::explain::history::name_of;
use crate::inspect::explain::report::{Decimal, request_of};
use crate::inspect::offline::{Continue, OfflineLog};
use crate::operate::quarantine::Entry;

/// Transfers and notices that are shown to people; scripts get all of them.
const SHOWN: usize = 20;

/// Up to where the log counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// This record, and none after it.
    Record(LogIndex),
    /// Batches with a stamp up to this.
    Moment(Stamp),
    /// All of it.
    End,
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = match digits {
            true => text.parse().ok().filter(|number| 0 < *number).map(LogIndex).map(Self::Record),
            false => parse_moment(text).map(Self::Moment),
        };
        parsed.ok_or_else(|| {
            "expected a log index from 1, or a time such as 2026-05-01T17:00:00Z".into()
        })
    }
}

/// A date and time with up to six decimals.
fn parse_moment(text: &str) -> Option<Stamp> {
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
        (Until::Moment(_), Some(first)) if end.0 == 0 => {
            return Err(log.failure(format!("the log begins later, at {}", moment(first))));
        }
        _ => {}
    }
    if let Some(torn) = walked.torn {
        let (segment, offset) = (torn.segment, torn.offset);
        eprintln!("upesi: {segment} ends within a frame at byte {offset}; replayed up to there");
    }
    let quarantined = log.quarantined_up_to(end);
    let shown = Shown { quarantined, ..Shown::of(replay.state(), started) };
    if arguments.json {
        return print_json(&shown);
    }
    println!("{shown}");
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
        Until::Moment(moment) if moment < header.batch.stamp => return Ok(Continue::Stop),
        Until::Record(wanted) => wanted.min(header.last()),
        Until::Moment(_) | Until::End => header.last(),
    };
    replay.apply_until(frame, last, &mut |_, _, _| {})?;
    Ok(if until == Until::Record(last) { Continue::Stop } else { Continue::On })
}

/// The state as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    /// The last record applied.
    log_index: u64,
    /// Its stamp.
    time: String,
    participants: Vec<Participant>,
    transfers_in_flight: Vec<InFlight>,
    transfers_ended: usize,
    notices_owed: Vec<Owed>,
    dead_letters: Vec<Owed>,
    /// As `GET /state` of a switch whose log ends with this record.
    state_hash: String,
    outcome_digest: String,
    /// Records up to this one that decided nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<Entry>,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Participant {
    name: String,
    active: bool,
    caps: Vec<Cap>,
    accounts: Vec<Held>,
}

#[derive(Debug, Serialize)]
struct Cap {
    currency: String,
    net_debit_cap: Option<Decimal>,
}

#[derive(Debug, Serialize)]
struct Held {
    id: u32,
    kind: String,
    currency: String,
    active: bool,
    value: Decimal,
    changed: String,
}

#[derive(Debug, Serialize)]
struct InFlight {
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
struct Owed {
    id: u64,
    recipient: String,
    request: &'static str,
    transfer: Option<String>,
    since: String,
}

impl Shown {
    fn of(state: &State, started: Instant) -> Self {
        let participants = state.register().iter().map(|(index, participant)| Participant {
            name: participant.name.as_str().to_owned(),
            active: participant.active,
            caps: participant
                .holdings
                .iter()
                .map(|holding| Cap {
                    currency: holding.currency.to_string(),
                    net_debit_cap: holding.limit.map(|limit| Decimal(limit.value)),
                })
                .collect(),
            accounts: state.books().iter().filter(|one| one.owner == index).map(held).collect(),
        });
        let hashed = state.hash().to_string();
        Self {
            log_index: state.log_index().0,
            time: moment(state.stamp()),
            participants: participants.collect(),
            transfers_in_flight: in_flight(state),
            transfers_ended: state.transfers_ended(),
            notices_owed: owed(state, state.notices_owed()),
            dead_letters: owed(state, state.dead_letters().map(|letter| &letter.notice)),
            state_hash: hashed,
            outcome_digest: state.digest().to_string(),
            quarantined: Vec::new(),
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

fn held(account: &Account) -> Held {
    Held {
        id: account.id.0,
        kind: name_of(account.kind),
        currency: account.currency.to_string(),
        active: account.active,
        value: Decimal(account.value),
        changed: moment(account.changed),
    }
}

/// In order of prepare.
fn in_flight(state: &State) -> Vec<InFlight> {
    let mut open: Vec<_> = state.in_flight().collect();
    open.sort_unstable_by_key(|transfer| transfer.prepare);
    let shown = open.into_iter().map(|transfer| InFlight {
        id: transfer.id.to_string(),
        payer: name(state, transfer.payer),
        payee: name(state, transfer.payee),
        amount: Decimal(transfer.amount),
        currency: state
            .books()
            .get(transfer.payer_account)
            .map_or(String::new(), |account| account.currency.to_string()),
        expiration: moment(Stamp::from_millis(transfer.expiration_ms)),
        prepare: transfer.prepare.0,
        reserved: moment(transfer.reserved_at),
    });
    shown.collect()
}

/// In order of number.
fn owed<'a>(state: &State, notices: impl Iterator<Item = &'a Notice>) -> Vec<Owed> {
    let mut notices: Vec<_> = notices.collect();
    notices.sort_unstable_by_key(|notice| notice.id);
    let shown = notices.into_iter().map(|notice| Owed {
        id: notice.id.0,
        recipient: name(state, notice.recipient),
        request: request_of(notice.kind),
        transfer: notice.transfer.map(|transfer| transfer.to_string()),
        since: moment(notice.at),
    });
    shown.collect()
}

fn name(state: &State, index: ParticipantIndex) -> String {
    state.register().get(index).name.as_str().to_owned()
}

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "after record {}, stamped {}:", self.log_index, self.time)?;
        for participant in &self.participants {
            let off = if participant.active { "" } else { ", switched off" };
            writeln!(f, "\n{}{off}", participant.name)?;
            for Cap { currency, net_debit_cap } in &participant.caps {
                match net_debit_cap {
                    Some(cap) => writeln!(f, "  net debit cap {cap} {currency}")?,
                    None => writeln!(f, "  no net debit cap in {currency} yet")?,
                }
            }
            for Held { id, kind, currency, active, value, .. } in &participant.accounts {
                let off = if *active { "" } else { ", switched off" };
                writeln!(f, "  {id:>5}  {kind:<28} {value:>24} {currency}{off}")?;
            }
        }
        let (open, ended) = (self.transfers_in_flight.len(), self.transfers_ended);
        writeln!(f, "\n{open} transfers in flight, {ended} ended, movements of funds included")?;
        for transfer in self.transfers_in_flight.iter().take(SHOWN) {
            let InFlight { id, payer, payee, amount, currency, expiration, prepare, .. } = transfer;
            writeln!(
                f,
                "  {id}  {amount} {currency} from {payer} to {payee}, record {prepare}, until \
                 {expiration}"
            )?;
        }
        more(f, open)?;
        writeln!(
            f,
            "{} notices owed, {} dead letters",
            self.notices_owed.len(),
            self.dead_letters.len()
        )?;
        for notice in self.notices_owed.iter().take(SHOWN) {
            let Owed { id, recipient, request, transfer, since } = notice;
            let about = transfer.as_deref().unwrap_or("the party directory");
            writeln!(f, "  {id:>8}  {request} to {recipient}, about {about}, since {since}")?;
        }
        more(f, self.notices_owed.len())?;
        self.quarantined.iter().try_for_each(|entry| writeln!(f, "{entry}"))?;
        writeln!(f, "state hash {}", self.state_hash)?;
        write!(f, "replayed in {:.1} s", self.seconds)
    }
}

fn more(f: &mut Formatter<'_>, count: usize) -> fmt::Result {
    match count.checked_sub(SHOWN) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(f, "  and {more} more; --json has them all"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_or_a_record() {
        let noon = 1_777_636_800_000_000;
        for (text, expected) in [
            ("41", Some(Until::Record(LogIndex(41)))),
            ("2026-05-01T12:00:00Z", Some(Until::Moment(Stamp(noon)))),
            ("2026-05-01T12:00:00.5Z", Some(Until::Moment(Stamp(noon + 500_000)))),
            ("2026-05-01T12:00:00.000001Z", Some(Until::Moment(Stamp(noon + 1)))),
            ("2026-05-01T15:00:00.123+03:00", Some(Until::Moment(Stamp(noon + 123_000)))),
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
