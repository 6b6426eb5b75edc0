//! `upesi what-if`: shows which refusals for insufficient liquidity would have appeared or vanished
//! in a period under other net debit caps or another liquidity cover. [`engine`] has the details.

mod engine;

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use ledger::{Amount, Currency, FspName, FundsDirection, LogIndex, State};
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::{moment, print_json};
use crate::cli::table::{Align, Table};
use crate::cli::units::Count;
use crate::inspect::explain::report::Decimal;
use crate::inspect::offline::{Continue, OfflineLog};
use crate::inspect::replay::Until;
use crate::inspect::what_if::engine::{
    ByCopy, ChangedDecision, ChangedFunds, CountAndValue, FundsStatus, Override, OverrideEffect,
    PeriodBound, Totals, TransferRecord, WhatIf,
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
usually lies between the columns, and sometimes slightly outside. A withdrawal that was accepted
but that a column refuses is listed: its amount still covers transfers in that column.";

/// Maximum number of movements of funds in the text without `--list`.
const FUNDS_MAX: usize = 20;

/// Explanation of a withdrawal that a column refuses.
const REFUSED_WITHDRAWAL: &str = "\
If a column refuses a withdrawal that the log accepted, its amount stays in the cover from that
record on, or until the log cancels it. This also lowers the refusals in that column. \"Transfers so
covered\" were reserved above the cover that the withdrawal would have left.
";
/// Explanation of a withdrawal that only a column accepts.
const ADDED_WITHDRAWAL: &str = "\
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
        let parsed = name.zip(currency).zip(amount);
        parsed.map(|((name, currency), amount)| Self { name, currency, amount }).ok_or_else(|| {
            "expected NAME:CURRENCY:AMOUNT such as dfsp1:USD:50000, with at most 18 digits and 4 \
                 decimals"
                .to_owned()
        })
    }
}

pub(crate) fn what_if(arguments: &WhatIfArguments) -> Result<(), CliError> {
    let started = Instant::now();
    if let Some(limit) = arguments.limit.iter().find(|limit| limit.amount < Amount::ZERO) {
        let name = limit.name.as_str();
        return Err(CliError::new(format!("--limit {name}: a cap cannot be negative")));
    }
    refuse_repeated(&arguments.limit, "--limit")?;
    refuse_repeated(&arguments.cover, "--cover")?;
    let from = bound(arguments.from, "--from")?;
    let to = arguments.to.map(|to| bound(to, "--to")).transpose()?;
    if to.is_some_and(|to| is_before(to, from)) {
        return Err(CliError::new("--to: is before --from"));
    }
    let log = OfflineLog::open_live(&arguments.data)?;
    if from == PeriodBound::Record(LogIndex(1)) {
        return Err(CliError::new(
            "--from: no participant has a cap before record 1; start after the record that set it",
        ));
    }
    let mut period = WhatIf::new(overrides(arguments), from, to);
    let (replay, _) = log.replay(&mut |replay, placed| {
        replay.apply(placed.frame, &mut |step, state, effects| {
            period.watch(step, state, effects);
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
            true => format!("the next records are stamped {at}"),
            false => format!("the log ends with record {log_index}, stamped {at}"),
        };
        return Err(log.failure(format!("no record is within the period; {detail}")));
    }
    if let Some(PeriodBound::Record(LogIndex(to))) = period.unreached() {
        let end = replay.state().log_index().0;
        return Err(log.failure(format!("--to {to}: the log ends with record {end}")));
    }
    let quarantined = log.quarantined_up_to(replay.state().log_index());
    let report = WhatIfReport::new(&period, replay.state(), arguments, started);
    let report = WhatIfReport { quarantined, ..report };
    match arguments.json {
        true => print_json(&report)?,
        false => println!("{report}"),
    }
    Ok(())
}

/// Refuses two changes of one account.
fn refuse_repeated(all: &[AmountArgument], option: &str) -> Result<(), CliError> {
    let account = |argument: &AmountArgument| (argument.name, argument.currency);
    for (at, argument) in all.iter().enumerate() {
        if all[..at].iter().any(|other| account(other) == account(argument)) {
            let (name, currency) = (argument.name.as_str(), argument.currency);
            return Err(CliError::new(format!("{option} of {name}:{currency} is given twice")));
        }
    }
    Ok(())
}

/// Whether the period ends before it begins. A record and a time cannot be compared here.
fn is_before(to: PeriodBound, from: PeriodBound) -> bool {
    match (to, from) {
        (PeriodBound::Record(to), PeriodBound::Record(from)) => to < from,
        (PeriodBound::Time(to), PeriodBound::Time(from)) => to < from,
        _ => false,
    }
}

fn bound(until: Until, option: &str) -> Result<PeriodBound, CliError> {
    match until {
        Until::Record(log_index) => Ok(PeriodBound::Record(log_index)),
        Until::Time(stamp) => Ok(PeriodBound::Time(stamp)),
        Until::End => Err(CliError::new(format!("{option}: expected a log index or a time"))),
    }
}

fn overrides(arguments: &WhatIfArguments) -> Vec<Override> {
    let override_of = |argument: &AmountArgument, effect: fn(Amount) -> OverrideEffect| {
        let AmountArgument { name, currency, amount } = *argument;
        Override { name, currency, effect: effect(amount) }
    };
    let caps = arguments.limit.iter().map(|limit| override_of(limit, OverrideEffect::Cap));
    let covers = arguments.cover.iter().map(|cover| override_of(cover, OverrideEffect::Cover));
    caps.chain(covers).collect()
}

/// The result.
#[derive(Debug, Serialize)]
struct WhatIfReport {
    from: RecordAndTime,
    to: RecordAndTime,
    /// Whether the log ends before the requested end of the period.
    log_ends_before: bool,
    assumed: Vec<String>,
    participants: Vec<ParticipantReport>,
    /// Changes of a cap in the log that the assumed cap replaced.
    caps_overridden: u64,
    /// Movements of funds with another result, in any column and in each.
    funds_differing: usize,
    funds_differing_in: CountByColumn,
    funds: Vec<FundsReport>,
    transfers_differing: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfers: Option<Vec<TransferReport>>,
    /// Quarantined records up to the end of the period. They have no effect in any column.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<Entry>,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct RecordAndTime {
    log_index: u64,
    time: String,
}

#[derive(Debug, Serialize)]
struct ParticipantReport {
    participant: String,
    currency: String,
    #[serde(flatten)]
    columns: ByCopy<ColumnReport>,
}

#[derive(Debug, Serialize)]
struct ColumnReport {
    refused: CountReport,
    refusals_that_appear: CountReport,
    refusals_that_vanish: CountReport,
    highest_position: Decimal,
    least_headroom: Decimal,
    withdrawals_refused: CountReport,
    /// At the end of the period; below zero if more was withdrawn than in the log.
    cover_not_withdrawn: Decimal,
    transfers_so_covered: CountReport,
}

/// A count for each assumed result.
#[derive(Debug, Serialize)]
struct CountByColumn {
    all_commit: usize,
    none_commit: usize,
    given_back: usize,
}

#[derive(Debug, Serialize)]
struct FundsReport {
    #[serde(flatten)]
    record: TransferRecordReport,
    participant: String,
    direction: &'static str,
    amount: Decimal,
    currency: String,
    #[serde(flatten)]
    statuses: ByCopy<&'static str>,
}

#[derive(Debug, Serialize)]
struct CountReport {
    count: u64,
    value: Decimal,
    first: Option<TransferRecordReport>,
    last: Option<TransferRecordReport>,
}

#[derive(Debug, Serialize)]
struct TransferRecordReport {
    log_index: u64,
    time: String,
    transfer: String,
}

#[derive(Debug, Serialize)]
struct TransferReport {
    #[serde(flatten)]
    record: TransferRecordReport,
    payer: String,
    payee: String,
    amount: Decimal,
    currency: String,
    #[serde(flatten)]
    outcomes: ByCopy<String>,
}

impl WhatIfReport {
    fn new(period: &WhatIf, state: &State, arguments: &WhatIfArguments, started: Instant) -> Self {
        let at = |bound: Option<(LogIndex, ledger::Stamp)>| {
            let (log_index, stamp) = bound.expect("the period has a record");
            RecordAndTime { log_index: log_index.0, time: moment(stamp) }
        };
        let is_argument = |name: &FspName, currency: &Currency| {
            let mut all = arguments.limit.iter().chain(&arguments.cover);
            all.any(|argument| (&argument.name, &argument.currency) == (name, currency))
        };
        let participants = period.rows.iter().filter_map(|((index, currency), totals)| {
            let name = state.registry().get(*index).name;
            let is_affected = totals.all().into_iter().any(is_affected);
            (is_affected || is_argument(&name, currency))
                .then(|| ParticipantReport::new(&name, *currency, totals))
        });
        let caps = arguments.limit.iter().map(|limit| describe(limit, "cap", ""));
        let covers = arguments.cover.iter().map(|cover| {
            describe(cover, "cover", if Amount::ZERO <= cover.amount { "+" } else { "" })
        });
        let transfers = || period.differing.iter().map(TransferReport::new).collect();
        Self {
            from: at(period.first),
            to: at(period.last),
            log_ends_before: period.unreached().is_some(),
            assumed: caps.chain(covers).collect(),
            participants: participants.collect(),
            caps_overridden: period.overridden,
            funds_differing: period.funds_differing.len(),
            funds_differing_in: CountByColumn::of_funds(&period.funds_differing),
            funds: period.funds_differing.iter().map(FundsReport::new).collect(),
            transfers_differing: period.differing.len(),
            transfers: arguments.list.then(transfers),
            quarantined: Vec::new(),
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

/// Whether totals contain more than the peak position and the headroom.
fn is_affected(totals: &Totals) -> bool {
    let Totals { refused, appear, vanish, withdrawals_refused, .. } = totals;
    let counts = [refused, appear, vanish, withdrawals_refused];
    counts.iter().any(|one| 0 < one.count) || totals.not_withdrawn != Amount::ZERO
}

fn describe(argument: &AmountArgument, what: &str, sign: &str) -> String {
    let AmountArgument { name, currency, amount } = argument;
    format!("{what} of {} {sign}{amount} {currency}", name.as_str())
}

impl ParticipantReport {
    fn new(name: &FspName, currency: Currency, totals: &ByCopy<Totals>) -> Self {
        Self {
            participant: name.as_str().to_owned(),
            currency: currency.to_string(),
            columns: totals.map(ColumnReport::new),
        }
    }
}

impl ColumnReport {
    fn new(totals: &Totals) -> Self {
        Self {
            refused: CountReport::new(&totals.refused),
            refusals_that_appear: CountReport::new(&totals.appear),
            refusals_that_vanish: CountReport::new(&totals.vanish),
            highest_position: Decimal(totals.highest.unwrap_or(Amount::ZERO)),
            least_headroom: Decimal(totals.headroom.unwrap_or(Amount::ZERO)),
            withdrawals_refused: CountReport::new(&totals.withdrawals_refused),
            cover_not_withdrawn: Decimal(totals.not_withdrawn),
            transfers_so_covered: CountReport::new(&totals.so_covered),
        }
    }
}

impl CountByColumn {
    fn of_funds(funds: &[ChangedFunds]) -> Self {
        let count = |column: usize| funds.iter().filter(|one| one.differs()[column]).count();
        Self { all_commit: count(0), none_commit: count(1), given_back: count(2) }
    }
}

impl FundsReport {
    fn new(funds: &ChangedFunds) -> Self {
        Self {
            record: TransferRecordReport::new(&funds.record),
            participant: funds.participant.as_str().to_owned(),
            direction: match funds.direction {
                FundsDirection::In => "in",
                FundsDirection::Out => "out",
            },
            amount: Decimal(funds.amount),
            currency: funds.currency.to_string(),
            statuses: funds.statuses.map(status_name),
        }
    }

    /// Whether the log accepted the movement and a column refuses it.
    fn is_only_in_log(&self) -> bool {
        self.statuses.log != REFUSED && self.statuses.copies().contains(&&REFUSED)
    }

    /// Whether the log refused the movement and a column accepts it.
    fn is_only_in_copy(&self) -> bool {
        self.statuses.log == REFUSED && self.statuses.copies().iter().any(|one| **one != REFUSED)
    }
}

const REFUSED: &str = "refused";

const fn status_name(status: &FundsStatus) -> &'static str {
    match status {
        FundsStatus::Deposited => "deposited",
        FundsStatus::Refused => REFUSED,
        FundsStatus::Reserved => "reserved",
        FundsStatus::Withdrawn => "withdrawn",
        FundsStatus::CalledOff => "called off",
    }
}

impl CountReport {
    fn new(total: &CountAndValue) -> Self {
        Self {
            count: total.count,
            value: Decimal(total.value),
            first: total.first.as_ref().map(TransferRecordReport::new),
            last: total.last.as_ref().map(TransferRecordReport::new),
        }
    }
}

impl TransferRecordReport {
    fn new(record: &TransferRecord) -> Self {
        let TransferRecord { log_index, stamp, transfer } = *record;
        Self { log_index: log_index.0, time: moment(stamp), transfer: transfer.to_string() }
    }
}

impl TransferReport {
    fn new(decision: &ChangedDecision) -> Self {
        Self {
            record: TransferRecordReport::new(&decision.record),
            payer: decision.payer.as_str().to_owned(),
            payee: decision.payee.as_str().to_owned(),
            amount: Decimal(decision.amount),
            currency: decision.currency.to_string(),
            outcomes: decision.outcomes.map(|outcome| format!("{outcome:?}")),
        }
    }
}

/// Headings of the columns for the log and the three assumed results.
const COLUMNS: [&str; 4] = ["in the log", "all commit", "none commits", "given back"];

impl Display for WhatIfReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { from, to, .. } = self;
        write!(f, "records {} to {}, {} to {}", from.log_index, to.log_index, from.time, to.time)?;
        writeln!(f, "{}", if self.log_ends_before { "; the log ends there" } else { "" })?;
        writeln!(f, "assumed: {}", self.assumed.join(", "))?;
        for participant in &self.participants {
            write!(f, "\n{}", participant.table())?;
        }
        if 0 < self.caps_overridden {
            let count = Count(self.caps_overridden);
            writeln!(f, "\nchanges of a cap in the log that the assumed cap replaces: {count}")?;
        }
        if !self.funds.is_empty() {
            self.write_funds(f)?;
        }
        let differing = Count(self.transfers_differing as u64);
        writeln!(f, "\ntransfers with another decision: {differing}")?;
        if let Some(transfers) = self.transfers.as_ref().filter(|list| !list.is_empty()) {
            write!(f, "\n{}\n", transfers_table(transfers))?;
        }
        self.quarantined.iter().try_for_each(|entry| writeln!(f, "{entry}"))?;
        write!(f, "replayed in {:.1} s", self.seconds)
    }
}

impl WhatIfReport {
    /// Writes the movements of funds with another result, and their effect on the columns.
    fn write_funds(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (count, CountByColumn { all_commit, none_commit, given_back }) =
            (self.funds_differing, &self.funds_differing_in);
        writeln!(
            f,
            "\nmovements of funds with another result: {count} (all commit {all_commit}, none \
             commits {none_commit}, given back {given_back})"
        )?;
        let most = if self.transfers.is_some() { usize::MAX } else { FUNDS_MAX };
        write!(f, "\n{}", funds_table(self.funds.iter().take(most)))?;
        if let omitted @ 1.. = count.saturating_sub(most) {
            writeln!(f, "  and {omitted} more; --list and --json list all")?;
        }
        let (has_refused, has_added) = (
            self.funds.iter().any(FundsReport::is_only_in_log),
            self.funds.iter().any(FundsReport::is_only_in_copy),
        );
        let refused = if has_refused { REFUSED_WITHDRAWAL } else { "" };
        let added = if has_added { ADDED_WITHDRAWAL } else { "" };
        write!(f, "\n{refused}{added}")
    }
}

fn funds_table<'a>(funds: impl Iterator<Item = &'a FundsReport>) -> Table<10> {
    let [log, all, none, back] = COLUMNS;
    let mut table = Table::new([
        ("record", Align::Right),
        ("movement", Align::Left),
        ("participant", Align::Left),
        ("funds", Align::Left),
        ("amount", Align::Right),
        ("currency", Align::Left),
        (log, Align::Left),
        (all, Align::Left),
        (none, Align::Left),
        (back, Align::Left),
    ]);
    for one in funds {
        let [log, all, none, back] = one.statuses.all().map(|status| (*status).to_owned());
        table.add([
            one.record.log_index.to_string(),
            one.record.transfer.clone(),
            one.participant.clone(),
            one.direction.to_owned(),
            one.amount.to_string(),
            one.currency.clone(),
            log,
            all,
            none,
            back,
        ]);
    }
    table
}

fn transfers_table(transfers: &[TransferReport]) -> Table<10> {
    let [log, all, none, back] = COLUMNS;
    let mut table = Table::new([
        ("record", Align::Right),
        ("transfer", Align::Left),
        ("payer", Align::Left),
        ("payee", Align::Left),
        ("amount", Align::Right),
        ("currency", Align::Left),
        (log, Align::Left),
        (all, Align::Left),
        (none, Align::Left),
        (back, Align::Left),
    ]);
    for one in transfers {
        let [log, all, none, back] = one.outcomes.all().map(Clone::clone);
        table.add([
            one.record.log_index.to_string(),
            one.record.transfer.clone(),
            one.payer.clone(),
            one.payee.clone(),
            one.amount.to_string(),
            one.currency.clone(),
            log,
            all,
            none,
            back,
        ]);
    }
    table
}

impl ParticipantReport {
    fn table(&self) -> Table<5> {
        let title = format!("{}, {}", self.participant, self.currency);
        let [log, all, none, back] = COLUMNS.map(|name| (name, Align::Right));
        let mut table = Table::new([(&*title, Align::Left), log, all, none, back]);
        let columns = self.columns.all();
        let mut add = |name: &str, value: &dyn Fn(&ColumnReport) -> String| {
            let [log, all, none, back] = columns.map(value);
            table.add([name.to_owned(), log, all, none, back]);
        };
        add("refused", &|column| count(&column.refused));
        add("  value", &|column| column.refused.value.to_string());
        add("  first", &|column| record_of(&column.refused.first));
        add("  last", &|column| record_of(&column.refused.last));
        add("refusals that appear", &|column| count(&column.refusals_that_appear));
        add("  value", &|column| column.refusals_that_appear.value.to_string());
        add("refusals that vanish", &|column| count(&column.refusals_that_vanish));
        add("  value", &|column| column.refusals_that_vanish.value.to_string());
        add("highest position", &|column| column.highest_position.to_string());
        add("least headroom", &|column| column.least_headroom.to_string());
        if columns.iter().any(|column| 0 < column.withdrawals_refused.count) {
            add("withdrawals refused", &|column| count(&column.withdrawals_refused));
            add("  value", &|column| column.withdrawals_refused.value.to_string());
            add("  transfers so covered", &|column| count(&column.transfers_so_covered));
        }
        if columns.iter().any(|column| column.cover_not_withdrawn != Decimal(Amount::ZERO)) {
            add("cover not withdrawn", &|column| column.cover_not_withdrawn.to_string());
        }
        table
    }
}

fn count(report: &CountReport) -> String {
    Count(report.count).to_string()
}

fn record_of(record: &Option<TransferRecordReport>) -> String {
    record.as_ref().map_or_else(|| "-".to_owned(), |one| format!("record {}", one.log_index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_arguments_are_parsed() {
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
            let parsed: Option<AmountArgument> = text.parse().ok();
            let parsed = parsed.map(|parsed| (parsed.name, parsed.amount.units()));
            let expected =
                expected.map(|(name, whole)| (FspName::new(name).expect("a name"), whole * 10_000));
            assert_eq!(parsed, expected, "{text}");
        }
    }
}
