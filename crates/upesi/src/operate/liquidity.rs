//! `upesi liquidity`: positions, caps and headroom of a running switch, through its admin API.

use std::io::{IsTerminal, stdout};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_get::{admin_get, query_value};
use crate::cli::table::{Align, Table};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi liquidity
  upesi liquidity --currency XOF --watch
  upesi liquidity --participant greenbank --json";

/// Interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Characters of a full bar.
const BAR: usize = 20;
/// Clears the screen of a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Arguments of `liquidity`.
#[derive(clap::Args)]
pub(crate) struct LiquidityArguments {
    /// Only this participant.
    #[arg(long, value_name = "NAME")]
    participant: Option<String>,
    /// Only this currency.
    #[arg(long, value_name = "CODE")]
    currency: Option<String>,
    /// Maximum number of rows.
    #[arg(long, value_name = "COUNT", default_value_t = 100,
        value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Show the table again every 2 s until interrupted.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    switch: AdminAddress,
    /// Print the answer of the switch as JSON.
    #[arg(long)]
    json: bool,
}

/// A row of the answer; amounts keep their digits.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    participant: String,
    currency: String,
    position: Box<RawValue>,
    reserved: Option<Box<RawValue>>,
    liquidity_cover: Box<RawValue>,
    net_debit_cap: Box<RawValue>,
    headroom: Box<RawValue>,
    limited_by: String,
    percent_used: Box<RawValue>,
    alarm_percentage: Box<RawValue>,
    alarm_since: Option<String>,
    trend_per_hour: Option<Box<RawValue>>,
    cap_reached_at: Option<String>,
}

impl Row {
    pub(super) fn is_of(&self, participant: &str, currency: &str) -> bool {
        (&*self.participant, &*self.currency) == (participant, currency)
    }

    /// Position, cover, cap and headroom.
    pub(super) fn amounts(&self) -> [String; 4] {
        [&self.position, &self.liquidity_cover, &self.net_debit_cap, &self.headroom]
            .map(ToString::to_string)
    }
}

pub(crate) fn liquidity(arguments: &LiquidityArguments) -> Result<(), CliError> {
    let LiquidityArguments { watch, switch, json, .. } = arguments;
    let path = path(arguments);
    loop {
        let text = admin_get(switch, &path)?;
        if *watch && stdout().is_terminal() {
            print!("{CLEAR}");
        }
        match json {
            true => println!("{text}"),
            false => print_rows(&rows(&text)?),
        }
        if !watch {
            return Ok(());
        }
        thread::sleep(WATCH_INTERVAL);
    }
}

fn path(arguments: &LiquidityArguments) -> String {
    let mut path = format!("/liquidity?limit={}", arguments.limit);
    let filters = [("participant", &arguments.participant), ("currency", &arguments.currency)];
    for (name, value) in filters {
        if let Some(value) = value {
            path += &format!("&{name}={}", query_value(value));
        }
    }
    path
}

pub(super) fn rows(text: &str) -> Result<Vec<Row>, CliError> {
    serde_json::from_str(text)
        .map_err(|error| CliError::new(format!("/liquidity: invalid answer {text}: {error}")))
}

fn print_rows(rows: &[Row]) {
    match rows {
        [] => println!("no participant has a net debit cap"),
        rows => table(rows, now_ms()).print(),
    }
}

fn table(rows: &[Row], now_ms: u64) -> Table<14> {
    let mut table = Table::new([
        ("participant", Align::Left),
        ("currency", Align::Left),
        ("position", Align::Right),
        ("reserved", Align::Right),
        ("cover", Align::Right),
        ("cap", Align::Right),
        ("headroom", Align::Right),
        ("limited by", Align::Left),
        ("used", Align::Right),
        ("", Align::Left),
        ("alarm at", Align::Right),
        ("alarm since", Align::Left),
        ("per hour", Align::Right),
        ("cap reached", Align::Left),
    ]);
    for row in rows {
        let trend = row.trend_per_hour.as_ref();
        table.add([
            row.participant.clone(),
            row.currency.clone(),
            row.position.to_string(),
            row.reserved.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string),
            row.liquidity_cover.to_string(),
            row.net_debit_cap.to_string(),
            row.headroom.to_string(),
            row.limited_by.clone(),
            format!("{} %", row.percent_used),
            bar(row.percent_used.get().parse().unwrap_or_default()),
            format!("{} %", row.alarm_percentage),
            row.alarm_since.clone().unwrap_or_default(),
            trend.map_or_else(|| "unknown".to_owned(), ToString::to_string),
            row.cap_reached_at.as_deref().map(|at| forecast(at, now_ms)).unwrap_or_default(),
        ]);
    }
    table
}

/// A time with the duration until then: `2026-01-01T12:10:00.000Z, in 2 h 10 min`.
fn forecast(at: &str, now_ms: u64) -> String {
    let minutes = fspiop::time::parse_date_time(at).unwrap_or(0).saturating_sub(now_ms) / 60_000;
    let (days, hours, minutes) = (minutes / 1_440, minutes / 60 % 24, minutes % 60);
    let ahead = match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        (1, _) => format!("1 day {hours} h"),
        _ => format!("{days} days {hours} h"),
    };
    format!("{at}, in {ahead}")
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A bar for a share in percent; full from 100 % on.
fn bar(percent: f64) -> String {
    let full = (percent / 100.0 * BAR as f64).clamp(0.0, BAR as f64) as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn rows_become_a_table() {
        let text = r#"[{"participant":"dfsp1","currency":"USD","position":950.25,"reserved":30.25,
            "liquidityCover":5000,"netDebitCap":1000,"effectiveCap":1000,"headroom":49.75,"limitedBy":"cap",
            "percentUsed":95.02,"alarmPercentage":80,"alarmSince":"2026-01-01T10:00:00.011Z",
            "trendPerHour":22.96,"capReachedAt":"2026-01-01T12:10:00.000Z"},
            {"participant":"dfsp2","currency":"XOF","position":-123456789012345678.9999,
            "liquidityCover":100,"netDebitCap":1000,"effectiveCap":100,"headroom":100,"limitedBy":"cover",
            "percentUsed":0,"alarmPercentage":10}]"#;
        expect![[r#"
            .
              participant  currency                  position  reserved  cover   cap  headroom  limited by     used                          alarm at  alarm since               per hour  cap reached
              dfsp1        USD                         950.25     30.25   5000  1000     49.75  cap         95.02 %  [###################.]      80 %  2026-01-01T10:00:00.011Z     22.96  2026-01-01T12:10:00.000Z, in 2 h 10 min
              dfsp2        XOF       -123456789012345678.9999   unknown    100  1000       100  cover           0 %  [....................]      10 %                             unknown
        "#]]
        .assert_eq(&with_margin(&table(&rows(text).expect("rows"), 1_767_261_600_000)));
    }

    /// A line without indent before the table, because `expect!` removes the common indent.
    fn with_margin(table: &Table<14>) -> String {
        format!(".\n{table}")
    }

    #[test]
    fn forecasts_have_a_time_and_a_duration() {
        let at = "2026-01-01T12:10:00.000Z";
        let minute = 60_000;
        let at_ms = 1_767_261_600_000 + 130 * minute;
        for (minutes, expected) in [
            (0, "0 min"),
            (59, "59 min"),
            (130, "2 h 10 min"),
            (1_440, "1 day 0 h"),
            (10_079, "6 days 23 h"),
        ] {
            assert_eq!(forecast(at, at_ms - minutes * minute), format!("{at}, in {expected}"));
        }
        assert_eq!(forecast(at, at_ms + minute), format!("{at}, in 0 min"));
    }

    #[test]
    fn bars_show_shares() {
        for (percent, full) in [(-5.0, 0), (0.0, 0), (4.9, 0), (50.0, 10), (99.9, 19), (1e9, 20)] {
            assert_eq!(bar(percent).matches('#').count(), full, "{percent}");
            assert_eq!(bar(percent).len(), BAR + 2);
        }
    }
}
