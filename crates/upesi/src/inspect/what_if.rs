//! `upesi what-if`: which refusals for want of liquidity would have appeared or vanished in a
//! period under other caps or other cover. [`engine`] has the details.

mod engine;

use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use ledger::{Amount, Currency, FspName, FundsDirection, LogIndex, State};
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::{moment, print_json};
use crate::inspect::explain::report::Decimal;
use crate::inspect::offline::{Continue, OfflineLog};
use crate::inspect::replay::Until;
use crate::inspect::what_if::engine::{
    ChangedDecision, ChangedFunds, Edge, FundsStatus, Mark, Override, OverrideEffect, Row, Tally,
    Totals, TotalsByCopy, WhatIf,
};
use crate::operate::quarantine::Entry;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi what-if --data /var/lib/upesi --limit dfsp1:USD:50000 \\
      --from 2026-05-01T00:00:00Z --to 2026-05-02T00:00:00Z
  upesi what-if --data /var/lib/upesi --cover dfsp1:USD:+10000 --from 48211
  upesi what-if --data /var/lib/upesi --limit dfsp1:USD:50000 --from 48211 --list --json
The assumed cap also replaces caps that the log changes in the period. Transfers that would no
longer be refused have no recorded result. The three columns assume that all of them commit at once,
that all expire at their deadline, and that all are aborted by the payee at once. A mix of results
lies between the columns as a rule, and sometimes slightly outside. A withdrawal that was accepted
but that a column refuses is listed: its amount still covers transfers in that column.";

/// Movements of funds that are named without `--list`.
const FUNDS_SHOWN: usize = 20;

/// Explanation of a withdrawal that a column refuses.
const KEPT: &str = "\
If a column refuses a withdrawal that the log accepted, its amount stays in the cover from that
record on, or until the log cancels it. This also lowers the refusals in that column. \"Transfers so
covered\" were reserved above the cover that the withdrawal would have left.
";
/// Explanation of a withdrawal that only a column accepts.
const GONE: &str = "\
If a column accepts a withdrawal that the log refused, the cover is lower by its amount from that
record on. This also raises the refusals in that column. The withdrawal stays reserved.
";

/// Arguments of `what-if`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub(crate) struct WhatIfArguments {
    /// Directory of the log; read only. A switch may be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Net debit cap to assume, such as dfsp1:USD:50000 (repeatable).
    #[arg(long, value_name = "DFSP:CURRENCY:AMOUNT", group = "change")]
    limit: Vec<AmountArgument>,
    /// Change of the cover, such as dfsp1:USD:+10000 or dfsp1:USD:-500 (repeatable).
    #[arg(long, value_name = "DFSP:CURRENCY:CHANGE", group = "change")]
    cover: Vec<AmountArgument>,
    /// Record or time before which the change takes effect.
    ///
    /// A time, such as 2026-05-01T17:00:00Z, means the first record stamped then or later.
    #[arg(long, value_name = "LOG_INDEX|TIME")]
    from: Until,
    /// Last record or time of the period [default: the end of the log].
    ///
    /// A record must exist in the log. A time includes all records stamped up to then.
    #[arg(long, value_name = "LOG_INDEX|TIME")]
    to: Option<Until>,
    /// List every transfer with another decision.
    ///
    /// Movements of funds are always listed: up to 20 of them, and all with --json.
    #[arg(long)]
    list: bool,
    /// Print the result as JSON, with amounts as strings.
    #[arg(long)]
    json: bool,
}

/// A participant, a currency and an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AmountArgument {
    name: FspName,
    currency: Currency,
    amount: Amount,
}

impl FromStr for AmountArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.rsplitn(3, ':');
        let amount = parts.next().map(|text| text.strip_prefix('+').unwrap_or(text));
        let amount = amount.and_then(Amount::parse_decimal);
        let currency = parts.next().and_then(Currency::parse);
        let name = parts.next().and_then(FspName::new);
        let said = name.zip(currency).zip(amount);
        said.map(|((name, currency), amount)| Self { name, currency, amount }).ok_or_else(|| {
            "expected NAME:CURRENCY:AMOUNT such as dfsp1:USD:50000, with at most 18 digits and 4 \
                 decimals"
                .to_owned()
        })
    }
}

pub(crate) fn what_if(arguments: &WhatIfArguments) -> Result<(), CliError> {
    let started = Instant::now();
    if let Some(said) = arguments.limit.iter().find(|said| said.amount < Amount::ZERO) {
        let name = said.name.as_str();
        return Err(CliError::new(format!("--limit {name}: a cap cannot be negative")));
    }
    refuse_repeated(&arguments.limit, "--limit")?;
    refuse_repeated(&arguments.cover, "--cover")?;
    let from = edge(arguments.from, "--from")?;
    let to = arguments.to.map(|to| edge(to, "--to")).transpose()?;
    if to.is_some_and(|to| is_before(to, from)) {
        return Err(CliError::new("--to: is before --from"));
    }
    let log = OfflineLog::open_live(&arguments.data)?;
    if from == Edge::Record(LogIndex(1)) {
        return Err(CliError::new(
            "--from: no participant has a cap before record 1; start after the record that set it",
        ));
    }
    let mut period = WhatIf::new(assumptions(arguments), from, to);
    let (replay, _) = log.replay(&mut |replay, placed| {
        replay.apply(placed.frame, &mut |moment, state, effects| {
            period.watch(moment, state, effects);
        })?;
        Ok(if period.is_over() { Continue::Stop } else { Continue::On })
    })?;
    if let Some(fault) = &period.fault {
        return Err(log.failure(fault));
    }
    if period.first.is_none() || period.last.is_none() {
        let state = replay.state();
        let (log_index, at) = (state.log_index().0, moment(state.stamp()));
        let detail = match period.is_over() {
            true => format!("the next records after it are of {at}"),
            false => format!("the log ends with record {log_index}, at {at}"),
        };
        return Err(log.failure(format!("no record is within the period; {detail}")));
    }
    if let Some(Edge::Record(LogIndex(to))) = period.unreached() {
        let end = replay.state().log_index().0;
        return Err(log.failure(format!("--to {to}: the log ends with record {end}")));
    }
    let quarantined = log.quarantined_up_to(replay.state().log_index());
    let shown = Shown::of(&period, replay.state(), arguments, started);
    let shown = Shown { quarantined, ..shown };
    match arguments.json {
        true => print_json(&shown)?,
        false => println!("{shown}"),
    }
    Ok(())
}

/// Of two changes of one account, which one is meant is not known.
fn refuse_repeated(all: &[AmountArgument], option: &str) -> Result<(), CliError> {
    let account = |said: &AmountArgument| (said.name, said.currency);
    for (at, said) in all.iter().enumerate() {
        if all[..at].iter().any(|other| account(other) == account(said)) {
            let (name, currency) = (said.name.as_str(), said.currency);
            return Err(CliError::new(format!("{option} of {name}:{currency} is given twice")));
        }
    }
    Ok(())
}

/// Whether that is so by what is said alone: a record and a time are not held against each other.
fn is_before(to: Edge, from: Edge) -> bool {
    match (to, from) {
        (Edge::Record(to), Edge::Record(from)) => to < from,
        (Edge::Moment(to), Edge::Moment(from)) => to < from,
        _ => false,
    }
}

fn edge(until: Until, option: &str) -> Result<Edge, CliError> {
    match until {
        Until::Record(log_index) => Ok(Edge::Record(log_index)),
        Until::Moment(stamp) => Ok(Edge::Moment(stamp)),
        Until::End => Err(CliError::new(format!("{option} is the number of a record, or a time"))),
    }
}

fn assumptions(arguments: &WhatIfArguments) -> Vec<Override> {
    let assume = |said: &AmountArgument, what: fn(Amount) -> OverrideEffect| {
        let AmountArgument { name, currency, amount } = *said;
        Override { name, currency, what: what(amount) }
    };
    let caps = arguments.limit.iter().map(|said| assume(said, OverrideEffect::Cap));
    caps.chain(arguments.cover.iter().map(|said| assume(said, OverrideEffect::Cover))).collect()
}

/// The answer as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    from: Moment,
    to: Moment,
    /// Whether `to` is the log's last record, and the moment that was asked for a later one.
    log_ends_before: bool,
    assumed: Vec<String>,
    participants: Vec<ShownRow>,
    /// Changes of a cap in the log that the assumed one took the place of.
    caps_overridden: u64,
    /// Movements of funds that would have ended otherwise, in any column and in each.
    funds_differing: usize,
    funds_differing_in: Columns,
    funds: Vec<ShownFunds>,
    transfers_differing: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfers: Option<Vec<ShownTransfer>>,
    /// Records up to the end of the period that decide nothing, in any column.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<Entry>,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Moment {
    log_index: u64,
    time: String,
}

#[derive(Debug, Serialize)]
struct ShownRow {
    participant: String,
    currency: String,
    #[serde(flatten)]
    courses: TotalsByCopy<ShownCourse>,
}

#[derive(Debug, Serialize)]
struct ShownCourse {
    refused: ShownTally,
    refusals_that_appear: ShownTally,
    refusals_that_vanish: ShownTally,
    highest_position: Decimal,
    least_headroom: Decimal,
    withdrawals_refused: ShownTally,
    /// At the end of the period; below zero if more was withdrawn than in the log.
    cover_not_withdrawn: Decimal,
    transfers_so_covered: ShownTally,
}

/// A count for each of the copies.
#[derive(Debug, Serialize)]
struct Columns {
    all_commit: usize,
    none_commit: usize,
    given_back: usize,
}

#[derive(Debug, Serialize)]
struct ShownFunds {
    #[serde(flatten)]
    mark: ShownMark,
    participant: String,
    direction: &'static str,
    amount: Decimal,
    currency: String,
    #[serde(flatten)]
    standings: TotalsByCopy<&'static str>,
}

#[derive(Debug, Serialize)]
struct ShownTally {
    count: u64,
    value: Decimal,
    first: Option<ShownMark>,
    last: Option<ShownMark>,
}

#[derive(Debug, Serialize)]
struct ShownMark {
    log_index: u64,
    time: String,
    transfer: String,
}

#[derive(Debug, Serialize)]
struct ShownTransfer {
    #[serde(flatten)]
    mark: ShownMark,
    payer: String,
    payee: String,
    amount: Decimal,
    currency: String,
    #[serde(flatten)]
    outcomes: TotalsByCopy<String>,
}

impl Shown {
    fn of(period: &WhatIf, state: &State, arguments: &WhatIfArguments, started: Instant) -> Self {
        let at = |edge: Option<(LogIndex, ledger::Stamp)>| {
            let (log_index, stamp) = edge.expect("the period has a record");
            Moment { log_index: log_index.0, time: moment(stamp) }
        };
        let named = |name: &FspName, currency: &Currency| {
            let said = arguments.limit.iter().chain(&arguments.cover);
            said.into_iter().any(|said| (&said.name, &said.currency) == (name, currency))
        };
        let rows = period.rows.iter().filter_map(|((index, currency), row)| {
            let name = state.register().get(*index).name;
            let touched = row.all().into_iter().any(is_touched);
            (touched || named(&name, currency)).then(|| ShownRow::of(&name, *currency, row))
        });
        let cap = arguments.limit.iter().map(|said| words(said, "cap", ""));
        let cover = arguments
            .cover
            .iter()
            .map(|said| words(said, "cover", if Amount::ZERO <= said.amount { "+" } else { "" }));
        let transfers = || period.differing.iter().map(ShownTransfer::of).collect();
        Self {
            from: at(period.first),
            to: at(period.last),
            log_ends_before: period.unreached().is_some(),
            assumed: cap.chain(cover).collect(),
            participants: rows.collect(),
            caps_overridden: period.overridden,
            funds_differing: period.funds_differing.len(),
            funds_differing_in: Columns::of(&period.funds_differing),
            funds: period.funds_differing.iter().map(ShownFunds::of).collect(),
            transfers_differing: period.differing.len(),
            transfers: arguments.list.then(transfers),
            quarantined: Vec::new(),
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

/// Whether there is more to say of somebody than how high the position went.
fn is_touched(course: &Totals) -> bool {
    let Totals { refused, appear, vanish, withdrawals_refused, .. } = course;
    let tallies = [refused, appear, vanish, withdrawals_refused];
    tallies.iter().any(|tally| 0 < tally.count) || course.not_withdrawn != Amount::ZERO
}

fn words(said: &AmountArgument, what: &str, sign: &str) -> String {
    let AmountArgument { name, currency, amount } = said;
    format!("{what} of {} {sign}{amount} {currency}", name.as_str())
}

impl ShownRow {
    fn of(name: &FspName, currency: Currency, row: &Row) -> Self {
        Self {
            participant: name.as_str().to_owned(),
            currency: currency.to_string(),
            courses: row.map(ShownCourse::of),
        }
    }
}

impl ShownCourse {
    fn of(course: &Totals) -> Self {
        Self {
            refused: ShownTally::of(&course.refused),
            refusals_that_appear: ShownTally::of(&course.appear),
            refusals_that_vanish: ShownTally::of(&course.vanish),
            highest_position: Decimal(course.highest.unwrap_or(Amount::ZERO)),
            least_headroom: Decimal(course.headroom.unwrap_or(Amount::ZERO)),
            withdrawals_refused: ShownTally::of(&course.withdrawals_refused),
            cover_not_withdrawn: Decimal(course.not_withdrawn),
            transfers_so_covered: ShownTally::of(&course.so_covered),
        }
    }
}

impl Columns {
    fn of(funds: &[ChangedFunds]) -> Self {
        let count = |column: usize| funds.iter().filter(|one| one.differs()[column]).count();
        Self { all_commit: count(0), none_commit: count(1), given_back: count(2) }
    }
}

impl ShownFunds {
    fn of(one: &ChangedFunds) -> Self {
        Self {
            mark: ShownMark::of(&one.mark),
            participant: one.participant.as_str().to_owned(),
            direction: match one.direction {
                FundsDirection::In => "in",
                FundsDirection::Out => "out",
            },
            amount: Decimal(one.amount),
            currency: one.currency.to_string(),
            standings: one.standings.map(standing),
        }
    }

    /// Whether a column refuses what the log took.
    fn is_kept(&self) -> bool {
        self.standings.log != REFUSED && self.standings.copies().contains(&&REFUSED)
    }

    /// Whether a column took what the log refused.
    fn is_gone(&self) -> bool {
        self.standings.log == REFUSED && self.standings.copies().iter().any(|one| **one != REFUSED)
    }
}

const REFUSED: &str = "refused";

const fn standing(standing: &FundsStatus) -> &'static str {
    match standing {
        FundsStatus::Deposited => "deposited",
        FundsStatus::Refused => REFUSED,
        FundsStatus::Reserved => "reserved",
        FundsStatus::Withdrawn => "withdrawn",
        FundsStatus::CalledOff => "called off",
    }
}

impl ShownTally {
    fn of(tally: &Tally) -> Self {
        Self {
            count: tally.count,
            value: Decimal(tally.value),
            first: tally.first.as_ref().map(ShownMark::of),
            last: tally.last.as_ref().map(ShownMark::of),
        }
    }
}

impl ShownMark {
    fn of(mark: &Mark) -> Self {
        let Mark { log_index, stamp, transfer } = *mark;
        Self { log_index: log_index.0, time: moment(stamp), transfer: transfer.to_string() }
    }
}

impl ShownTransfer {
    fn of(one: &ChangedDecision) -> Self {
        Self {
            mark: ShownMark::of(&one.mark),
            payer: one.payer.as_str().to_owned(),
            payee: one.payee.as_str().to_owned(),
            amount: Decimal(one.amount),
            currency: one.currency.to_string(),
            outcomes: one.outcomes.map(|outcome| format!("{outcome:?}")),
        }
    }
}

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { from, to, assumed, .. } = self;
        write!(f, "records {} to {}, {} to {}", from.log_index, to.log_index, from.time, to.time)?;
        writeln!(f, "{}", if self.log_ends_before { "; there the log ends" } else { "" })?;
        writeln!(f, "assumed: {}", assumed.join(", "))?;
        for row in &self.participants {
            write!(f, "\n{row}")?;
        }
        if 0 < self.caps_overridden {
            let count = self.caps_overridden;
            writeln!(f, "\n{count} changes of a cap in the log were passed over")?;
        }
        if !self.funds.is_empty() {
            self.write_funds(f)?;
        }
        for transfer in self.transfers.iter().flatten() {
            let ShownTransfer { mark, payer, payee, amount, currency, .. } = transfer;
            let (log_index, id) = (mark.log_index, &mark.transfer);
            write!(f, "\nrecord {log_index}: {id}, {amount} {currency} from {payer} to {payee}: ")?;
            let TotalsByCopy { log, all_commit, none_commit, given_back } = &transfer.outcomes;
            write!(f, "{log}; all commit: {all_commit}; none commits: {none_commit}; ")?;
            write!(f, "given back: {given_back}")?;
        }
        self.quarantined.iter().try_for_each(|entry| write!(f, "\n{entry}"))?;
        let transfers = if self.transfers_differing == 1 { "transfer" } else { "transfers" };
        write!(f, "\n{} {transfers} decided otherwise; ", self.transfers_differing)?;
        write!(f, "found in {:.1} s", self.seconds)
    }
}

impl Shown {
    /// Movements of funds that end otherwise, and what that means for the rest.
    fn write_funds(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (count, Columns { all_commit, none_commit, given_back }) =
            (self.funds_differing, &self.funds_differing_in);
        write!(f, "\nmovements of funds that would have ended otherwise: {count} (all commit ")?;
        writeln!(f, "{all_commit}, none commits {none_commit}, given back {given_back})")?;
        let most = if self.transfers.is_some() { usize::MAX } else { FUNDS_SHOWN };
        for one in self.funds.iter().take(most) {
            writeln!(f, "{one}")?;
        }
        if let more @ 1.. = count.saturating_sub(most) {
            writeln!(f, "and {more} more; --list and --json have them all")?;
        }
        for row in &self.participants {
            row.write_cover(f)?;
        }
        let kept = if self.funds.iter().any(ShownFunds::is_kept) { KEPT } else { "" };
        let gone = if self.funds.iter().any(ShownFunds::is_gone) { GONE } else { "" };
        write!(f, "{kept}{gone}")
    }
}

impl Display for ShownFunds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { mark, participant, direction, amount, currency, standings } = self;
        let (log_index, id) = (mark.log_index, &mark.transfer);
        let way = if *direction == "in" { "into" } else { "out of" };
        write!(f, "record {log_index}: {id}, {amount} {currency} {way} {participant}: ")?;
        let [log, all, none, back] = standings.all();
        write!(f, "in the log {log}; all commit: {all}; none commits: {none}; given back: {back}")
    }
}

impl ShownRow {
    /// How much the cover differs in the end for what was not withdrawn, or was.
    fn write_cover(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let columns = [
            ("all commit", &self.courses.all_commit),
            ("none commits", &self.courses.none_commit),
            ("given back", &self.courses.given_back),
        ];
        let differing = columns.into_iter().filter_map(|(name, course)| {
            let Decimal(more) = course.cover_not_withdrawn;
            match more.cmp(&Amount::ZERO) {
                Ordering::Less => Some(format!("{name} {} lower", -more)),
                Ordering::Equal => None,
                Ordering::Greater => Some(format!("{name} {more} higher")),
            }
        });
        let differing: Vec<_> = differing.collect();
        if differing.is_empty() {
            return Ok(());
        }
        let (participant, currency) = (&self.participant, &self.currency);
        let differing = differing.join(", ");
        writeln!(f, "cover of {participant} in {currency} at the end for that: {differing}")
    }
}

impl Display for ShownRow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let title = format!("{}, {}", self.participant, self.currency);
        let [log, all, none, back] = ["in the log", "all commit", "none commits", "given back"];
        writeln!(f, "{title:<24} {log:>19} {all:>19} {none:>19} {back:>19}")?;
        let courses = self.courses.all();
        let mut line = |what: &str, of: &dyn Fn(&ShownCourse) -> String| {
            let [log, all, none, back] = courses.map(of);
            writeln!(f, "  {what:<22} {log:>19} {all:>19} {none:>19} {back:>19}")
        };
        line("refused", &|course| course.refused.count.to_string())?;
        line("  their value", &|course| course.refused.value.to_string())?;
        line("  the first", &|course| first_of(&course.refused.first))?;
        line("  the last", &|course| first_of(&course.refused.last))?;
        line("refusals that appear", &|course| course.refusals_that_appear.count.to_string())?;
        line("  their value", &|course| course.refusals_that_appear.value.to_string())?;
        line("refusals that vanish", &|course| course.refusals_that_vanish.count.to_string())?;
        line("  their value", &|course| course.refusals_that_vanish.value.to_string())?;
        line("highest position", &|course| course.highest_position.to_string())?;
        line("least headroom", &|course| course.least_headroom.to_string())?;
        if courses.iter().all(|course| course.withdrawals_refused.count == 0) {
            return Ok(());
        }
        line("withdrawals refused", &|course| course.withdrawals_refused.count.to_string())?;
        line("  their value", &|course| course.withdrawals_refused.value.to_string())?;
        line("  transfers so covered", &|course| course.transfers_so_covered.count.to_string())
    }
}

fn first_of(mark: &Option<ShownMark>) -> String {
    mark.as_ref().map_or_else(|| "-".to_owned(), |mark| format!("record {}", mark.log_index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_assumed() {
        for (text, expected) in [
            ("dfsp1:USD:50000", Some(("dfsp1", 50_000))),
            ("dfsp1:USD:+10", Some(("dfsp1", 10))),
            ("dfsp1:USD:-10", Some(("dfsp1", -10))),
            ("a:b:USD:1", Some(("a:b", 1))),
            ("dfsp1:USD", None),
            ("dfsp1:usd:1", None),
            ("dfsp1:USD:1.23456", None),
            ("dfsp1:USD:", None),
            (":USD:1", None),
        ] {
            let said: Option<AmountArgument> = text.parse().ok();
            let said = said.map(|said| (said.name, said.amount.units()));
            let expected =
                expected.map(|(name, whole)| (FspName::new(name).expect("a name"), whole * 10_000));
            assert_eq!(said, expected, "{text}");
        }
    }
}
