//! `upesi what-if`: which refusals for want of liquidity would have appeared or vanished in a
//! period under other caps or other cover. See [`crate::counterfactual`] for how it is decided.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use ledger::{Amount, Currency, FspName, Position, State};
use serde::Serialize;

use crate::Failure;
use crate::counterfactual::{
    Assumed, Assumption, Counterfactual, Course, Differing, Edge, Mark, Row, Tally,
};
use crate::explanation::Decimal;
use crate::offline::{Go, OfflineLog, moment, print_json};
use crate::replay::Until;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi what-if --data /var/lib/upesi --limit dfsp1:USD:50000 \\
      --from 2026-05-01T00:00:00Z --to 2026-05-02T00:00:00Z
  upesi what-if --data /var/lib/upesi --cover dfsp1:USD:+10000 --from 48211
  upesi what-if --data /var/lib/upesi --limit dfsp1:USD:50000 --from 48211 --list --json
A cap that the log itself changes in the period stays the assumed one. Transfers that would not have
been refused have no recorded end: the columns show all of them committed at once; none, each coming
back at its deadline; and none, each given back by its payee at once.";

/// Arguments of `what-if`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub(crate) struct WhatIfArguments {
    /// Directory of the log, only read; a switch may be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// A net debit cap, as dfsp1:USD:50000. Can be given more than once.
    #[arg(long, value_name = "DFSP:CURRENCY:AMOUNT", group = "change")]
    limit: Vec<Said>,
    /// More cover, or less, as dfsp1:USD:+10000 or dfsp1:USD:-500. Can be given more than once.
    #[arg(long, value_name = "DFSP:CURRENCY:CHANGE", group = "change")]
    cover: Vec<Said>,
    /// Where the change takes force: before this record, or before the first one stamped then or
    /// later, as 2026-05-01T17:00:00Z.
    #[arg(long, value_name = "POSITION|TIME")]
    from: Until,
    /// The last record looked at, or whatever has a stamp up to then; without it, all of the log.
    #[arg(long, value_name = "POSITION|TIME")]
    to: Option<Until>,
    /// Name every transfer that would have been decided otherwise.
    #[arg(long)]
    list: bool,
    /// Print JSON; amounts are strings.
    #[arg(long)]
    json: bool,
}

/// A participant, a currency and an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    name: FspName,
    currency: Currency,
    amount: Amount,
}

impl FromStr for Said {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.rsplitn(3, ':');
        let amount = parts.next().map(|text| text.strip_prefix('+').unwrap_or(text));
        let amount = amount.and_then(Amount::parse_decimal);
        let currency = parts.next().and_then(Currency::parse);
        let name = parts.next().and_then(FspName::new);
        let said = name.zip(currency).zip(amount);
        said.map(|((name, currency), amount)| Self { name, currency, amount }).ok_or_else(|| {
            "not of the form dfsp1:USD:50000, with at most 18 digits, four of them behind the \
                 point"
                .to_owned()
        })
    }
}

pub(crate) fn what_if(arguments: &WhatIfArguments) -> Result<(), Failure> {
    let started = Instant::now();
    if let Some(said) = arguments.limit.iter().find(|said| said.amount < Amount::ZERO) {
        let name = said.name.as_str();
        return Err(Failure::new(format!("--limit of {name}: a cap cannot be below zero")));
    }
    said_once(&arguments.limit, "--limit")?;
    said_once(&arguments.cover, "--cover")?;
    let from = edge(arguments.from, "--from")?;
    let to = arguments.to.map(|to| edge(to, "--to")).transpose()?;
    if to.is_some_and(|to| is_before(to, from)) {
        return Err(Failure::new("--to lies before --from"));
    }
    let log = OfflineLog::open_beside(&arguments.data)?;
    if from == Edge::Record(Position(1)) {
        return Err(Failure::new(
            "--from: nobody has a cap before the first record; begin behind the one that gave it",
        ));
    }
    let mut period = Counterfactual::new(assumptions(arguments), from, to);
    let (replay, _) = log.replay(&mut |replay, placed| {
        replay.apply(placed.frame, &mut |moment, state, effects| {
            period.watch(moment, state, effects);
        })?;
        Ok(if period.is_over() { Go::Stop } else { Go::On })
    })?;
    if let Some(fault) = &period.fault {
        return Err(log.failure(fault));
    }
    if period.first.is_none() || period.last.is_none() {
        let state = replay.state();
        let (position, at) = (state.position().0, moment(state.stamp()));
        let beside = match period.is_over() {
            true => format!("the first ones behind it are of {at}"),
            false => format!("the log ends with record {position}, at {at}"),
        };
        return Err(log.failure(format!("no record is within the period; {beside}")));
    }
    let shown = Shown::of(&period, replay.state(), arguments, started);
    match arguments.json {
        true => print_json(&shown)?,
        false => println!("{shown}"),
    }
    Ok(())
}

/// Of two changes of one account, which one is meant is not known.
fn said_once(all: &[Said], option: &str) -> Result<(), Failure> {
    let account = |said: &Said| (said.name, said.currency);
    for (at, said) in all.iter().enumerate() {
        if all[..at].iter().any(|other| account(other) == account(said)) {
            let (name, currency) = (said.name.as_str(), said.currency);
            return Err(Failure::new(format!("{option} of {name}:{currency} is given twice")));
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

fn edge(until: Until, option: &str) -> Result<Edge, Failure> {
    match until {
        Until::Record(position) => Ok(Edge::Record(position)),
        Until::Moment(stamp) => Ok(Edge::Moment(stamp)),
        Until::End => Err(Failure::new(format!("{option} is the number of a record, or a time"))),
    }
}

fn assumptions(arguments: &WhatIfArguments) -> Vec<Assumption> {
    let assume = |said: &Said, what: fn(Amount) -> Assumed| {
        let Said { name, currency, amount } = *said;
        Assumption { name, currency, what: what(amount) }
    };
    let caps = arguments.limit.iter().map(|said| assume(said, Assumed::Cap));
    caps.chain(arguments.cover.iter().map(|said| assume(said, Assumed::Cover))).collect()
}

/// The answer as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    from: Moment,
    to: Moment,
    assumed: Vec<String>,
    participants: Vec<ShownRow>,
    /// Changes of a cap in the log that the assumed one took the place of.
    caps_overridden: u64,
    /// Movements of funds that would have ended otherwise.
    funds_differing: u64,
    transfers_differing: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfers: Option<Vec<ShownTransfer>>,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Moment {
    position: u64,
    time: String,
}

#[derive(Debug, Serialize)]
struct ShownRow {
    participant: String,
    currency: String,
    log: ShownCourse,
    all_commit: ShownCourse,
    none_commit: ShownCourse,
    given_back: ShownCourse,
}

#[derive(Debug, Serialize)]
struct ShownCourse {
    refused: ShownTally,
    refusals_that_appear: ShownTally,
    refusals_that_vanish: ShownTally,
    highest_position: Decimal,
    least_headroom: Decimal,
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
    position: u64,
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
    log: String,
    all_commit: String,
    none_commit: String,
    given_back: String,
}

impl Shown {
    fn of(
        period: &Counterfactual,
        state: &State,
        arguments: &WhatIfArguments,
        started: Instant,
    ) -> Self {
        let at = |edge: Option<(Position, ledger::Stamp)>| {
            let (position, stamp) = edge.expect("the period has a record");
            Moment { position: position.0, time: moment(stamp) }
        };
        let named = |name: &FspName, currency: &Currency| {
            let said = arguments.limit.iter().chain(&arguments.cover);
            said.into_iter().any(|said| (&said.name, &said.currency) == (name, currency))
        };
        let rows = period.rows.iter().filter_map(|((index, currency), row)| {
            let name = state.register().get(*index).name;
            let touched = [&row.log, &row.all_commit, &row.none_commit, &row.given_back]
                .iter()
                .any(|course| 0 < course.refused.count + course.vanish.count + course.appear.count);
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
            assumed: cap.chain(cover).collect(),
            participants: rows.collect(),
            caps_overridden: period.overridden,
            funds_differing: period.funds_differing,
            transfers_differing: period.differing.len(),
            transfers: arguments.list.then(transfers),
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

fn words(said: &Said, what: &str, sign: &str) -> String {
    let Said { name, currency, amount } = said;
    format!("{what} of {} {sign}{amount} {currency}", name.as_str())
}

impl ShownRow {
    fn of(name: &FspName, currency: Currency, row: &Row) -> Self {
        Self {
            participant: name.as_str().to_owned(),
            currency: currency.to_string(),
            log: ShownCourse::of(&row.log),
            all_commit: ShownCourse::of(&row.all_commit),
            none_commit: ShownCourse::of(&row.none_commit),
            given_back: ShownCourse::of(&row.given_back),
        }
    }
}

impl ShownCourse {
    fn of(course: &Course) -> Self {
        Self {
            refused: ShownTally::of(&course.refused),
            refusals_that_appear: ShownTally::of(&course.appear),
            refusals_that_vanish: ShownTally::of(&course.vanish),
            highest_position: Decimal(course.highest.unwrap_or(Amount::ZERO)),
            least_headroom: Decimal(course.headroom.unwrap_or(Amount::ZERO)),
        }
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
        let Mark { position, stamp, transfer } = *mark;
        Self { position: position.0, time: moment(stamp), transfer: transfer.to_string() }
    }
}

impl ShownTransfer {
    fn of(one: &Differing) -> Self {
        Self {
            mark: ShownMark::of(&one.mark),
            payer: one.payer.as_str().to_owned(),
            payee: one.payee.as_str().to_owned(),
            amount: Decimal(one.amount),
            currency: one.currency.to_string(),
            log: format!("{:?}", one.log),
            all_commit: format!("{:?}", one.all_commit),
            none_commit: format!("{:?}", one.none_commit),
            given_back: format!("{:?}", one.given_back),
        }
    }
}

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { from, to, assumed, .. } = self;
        writeln!(f, "records {} to {}, {} to {}", from.position, to.position, from.time, to.time)?;
        writeln!(f, "assumed: {}", assumed.join(", "))?;
        for row in &self.participants {
            write!(f, "\n{row}")?;
        }
        if 0 < self.caps_overridden {
            let count = self.caps_overridden;
            writeln!(f, "\n{count} changes of a cap in the log were passed over")?;
        }
        if 0 < self.funds_differing {
            let count = self.funds_differing;
            writeln!(f, "\n{count} movements of funds would have ended otherwise")?;
        }
        for transfer in self.transfers.iter().flatten() {
            let ShownTransfer { mark, payer, payee, amount, currency, .. } = transfer;
            let (position, id) = (mark.position, &mark.transfer);
            write!(f, "\nrecord {position}: {id}, {amount} {currency} from {payer} to {payee}: ")?;
            let ShownTransfer { log, all_commit, none_commit, given_back, .. } = transfer;
            write!(f, "{log}; all commit: {all_commit}; none commits: {none_commit}; ")?;
            write!(f, "given back: {given_back}")?;
        }
        write!(f, "\n{} transfers decided otherwise; ", self.transfers_differing)?;
        write!(f, "found in {:.1} s", self.seconds)
    }
}

impl Display for ShownRow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let title = format!("{}, {}", self.participant, self.currency);
        let [log, all, none, back] = ["in the log", "all commit", "none commits", "given back"];
        writeln!(f, "{title:<24} {log:>19} {all:>19} {none:>19} {back:>19}")?;
        let courses = [&self.log, &self.all_commit, &self.none_commit, &self.given_back];
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
        line("least headroom", &|course| course.least_headroom.to_string())
    }
}

fn first_of(mark: &Option<ShownMark>) -> String {
    mark.as_ref().map_or_else(|| "-".to_owned(), |mark| format!("record {}", mark.position))
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
            let said: Option<Said> = text.parse().ok();
            let said = said.map(|said| (said.name, said.amount.units()));
            let expected =
                expected.map(|(name, whole)| (FspName::new(name).expect("a name"), whole * 10_000));
            assert_eq!(said, expected, "{text}");
        }
    }
}
