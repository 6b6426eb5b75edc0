//! `upesi status` and `upesi top`: a running switch on one screen, through `GET /status`.

use std::io::{self, IsTerminal, Write, stdout};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_client::{entries, member};
use crate::cli::admin_get::admin_get;
use crate::cli::table::{Align, Table};
use crate::cli::terminal::{self, Colour, Keys, coloured, shown_width};
use crate::cli::units::{Bytes, Count, Milliseconds, counted};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi status
  upesi status --json | jq .rate
Exit code 0 if no stage is down, otherwise 1.";

pub(crate) const TOP_EXAMPLES: &str = "\
Examples:
  upesi top
  upesi top --admin https://switch.example:3001 --ca ca.pem
Keys: q or ctrl-c ends.";

/// Interval of `top`.
const INTERVAL: Duration = Duration::from_secs(1);
/// Heights of a sparkline, lowest first.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Rows that a list shows.
const ROWS: usize = 5;
/// Moves the cursor to the first line; clears the rest of a line, or of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";

/// Arguments of `status`.
#[derive(clap::Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    switch: AdminAddress,
    /// Print the answer of GET /status as JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `top`.
#[derive(clap::Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    switch: AdminAddress,
}

pub(crate) fn status(StatusArguments { switch, json }: &StatusArguments) -> Result<(), CliError> {
    let (text, status) = status_of(switch)?;
    match json {
        true => println!("{text}"),
        false => print!("{}", screen(&text, &switch.admin, terminal::table_width())?),
    }
    let is_down = |stage: &&Value| stage["status"] == "DOWN";
    let down: Vec<_> = entries(&status["stages"]).iter().filter(is_down).collect();
    match (&*member(&status, "status"), &*down) {
        ("OK", _) => Ok(()),
        (_, []) => Err(CliError::new(format!("{}: the switch is down", switch.admin))),
        (_, down) => {
            let names: Vec<_> = down.iter().map(|stage| member(stage, "name")).collect();
            Err(CliError::new(format!("{}: DOWN: {}", switch.admin, names.join(", "))))
        }
    }
}

pub(crate) fn top(TopArguments { switch }: &TopArguments) -> Result<(), CliError> {
    if !stdout().is_terminal() {
        return Err(CliError::new(
            "top: standard output is not a terminal; use `upesi status --json`",
        ));
    }
    // The first answer shows whether the address and the token are right.
    let (mut text, _) = status_of(switch)?;
    let keys = Keys::read_for(1);
    print!("{HOME}{CLEAR_REST}");
    loop {
        draw(&screen(&text, &switch.admin, terminal::table_width())?)?;
        if has_ended(keys.as_ref()) {
            println!();
            return Ok(());
        }
        match status_of(switch) {
            Ok((newer, _)) => text = newer,
            Err(error) => draw(&coloured(&error.to_string(), Colour::Red))?,
        }
    }
}

/// Waits for the interval. Whether a key asked for the end.
fn has_ended(keys: Option<&Keys>) -> bool {
    let Some(keys) = keys else {
        thread::sleep(INTERVAL);
        return false;
    };
    let began = Instant::now();
    while began.elapsed() < INTERVAL {
        if keys.asks_for_end() {
            return true;
        }
    }
    false
}

/// Replaces the screen, of which the terminal shows the first lines.
fn draw(text: &str) -> Result<(), CliError> {
    let rows = terminal::size().map_or(24, |(_, rows)| rows);
    let lines: Vec<_> = text.lines().take(rows.saturating_sub(1)).collect();
    let text = lines.join(&format!("{CLEAR_LINE}\n"));
    let mut out = stdout().lock();
    write!(out, "{HOME}{text}{CLEAR_LINE}{CLEAR_REST}")
        .and_then(|()| out.flush())
        .map_err(|error: io::Error| CliError::new(format!("standard output: {error}")))
}

fn status_of(switch: &AdminAddress) -> Result<(String, Value), CliError> {
    let text = admin_get(switch, "/status")?;
    let status = parsed(&text)?;
    Ok((text, status))
}

fn parsed<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, CliError> {
    serde_json::from_str(text)
        .map_err(|error| CliError::new(format!("/status: invalid answer {text}: {error}")))
}

/// One screen of the answer. Lists are fitted to the width.
fn screen(answer: &str, address: &str, width: Option<usize>) -> Result<String, CliError> {
    let status = &parsed::<Value>(answer)?;
    let Caps { near_cap } = parsed(answer)?;
    let mut text = format!("{}\n\n", head(status, address));
    text += &rates(status);
    text += &line("", &sparkline(entries(&status["history"])));
    text += &line("stages", &stages(status));
    text += &line("log", &log(status));
    text += &line("disk", &disk(&status["storage"]));
    for (name, part) in [("snapshot", "snapshot"), ("archive", "archive"), ("backup", "backup")] {
        text += &line(name, &copy(&status[part]));
    }
    text += &line("callbacks", &callbacks(status));
    text += &queues(status, width);
    text += &cap_rows(&near_cap, width);
    text += &nodes(status, width);
    text += &alarms(entries(&status["alarms"]), width);
    Ok(text)
}

fn head(status: &Value, address: &str) -> String {
    let health = member(status, "status");
    let colour = if health == "OK" { Colour::Green } else { Colour::Red };
    let uptime = Milliseconds(number(&status["uptimeSeconds"]) * 1_000);
    let address = coloured(address, Colour::Bold);
    format!(
        "upesi {} at {address}: {}, up {uptime}",
        member(status, "version"),
        coloured(&health, colour)
    )
}

/// A line with a name; empty without a text.
fn line(name: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("  {name:<11}{text}\n") }
}

fn rates(status: &Value) -> String {
    let (rate, transfers) = (&status["rate"], &status["transfers"]);
    let mut table = Table::new([
        ("transfers", Align::Left),
        ("reserved", Align::Right),
        ("committed", Align::Right),
        ("aborted", Align::Right),
        ("refused", Align::Right),
        ("expired", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
    ]);
    let names = ["reserved", "committed", "aborted", "refused", "expired"];
    let [reserved, committed, aborted, refused, expired] =
        names.map(|name| per_second(&rate[name]));
    let [p50, p99] = percentiles(rate, "commit");
    let first = "per second".to_owned();
    table.add([first, reserved, committed, aborted, refused, expired, p50, p99]);
    let [reserved, committed, aborted, refused, expired] =
        names.map(|name| Count(number(&transfers[name])).to_string());
    let in_flight = format!("{} in flight", Count(number(&transfers["inFlight"])));
    table.add([
        "in all".into(),
        reserved,
        committed,
        aborted,
        refused,
        expired,
        String::new(),
        String::new(),
    ]);
    format!("{table}{}", line("", &in_flight))
}

/// Median and 99th percentile of the durations with this name.
fn percentiles(figures: &Value, name: &str) -> [String; 2] {
    ["P50", "P99"].map(|percentile| duration(&figures[format!("{name}{percentile}Milliseconds")]))
}

/// The committed transfers of each second, the highest as a full block.
fn sparkline(history: &[Value]) -> String {
    let rates: Vec<_> = history.iter().map(|it| real(&it["committed"])).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let height = |rate: &f64| {
        let step = (rate / most * (HEIGHTS.len() - 1) as f64).round() as usize;
        HEIGHTS[step.min(HEIGHTS.len() - 1)]
    };
    let bars: String = rates.iter().map(height).collect();
    format!("{bars} committed, highest {} per second", tenths(most))
}

fn stages(status: &Value) -> String {
    let stage = |stage: &Value| {
        let name = member(stage, "name");
        match &*member(stage, "status") {
            "OK" => format!("{name} {}", coloured("ok", Colour::Green)),
            _ => coloured(&format!("{name} DOWN"), Colour::Red),
        }
    };
    entries(&status["stages"]).iter().map(stage).collect::<Vec<_>>().join(", ")
}

fn log(status: &Value) -> String {
    let log = &status["log"];
    let (index, stored) = (number(&log["index"]), number(&log["storeIndex"]));
    let mut text = format!(
        "record {}, {} per second, {}",
        Count(index),
        per_second(&log["records"]),
        Bytes(number(&status["storage"]["logBytes"]))
    );
    if !log["syncP50Milliseconds"].is_null() {
        let [p50, p99] = percentiles(log, "sync");
        text += &format!(", sync p50 {p50}, p99 {p99}");
    }
    let lag = index.saturating_sub(stored);
    text + &format!(", store lags {}", Count(lag))
}

fn disk(storage: &Value) -> String {
    let condition = member(storage, "status");
    let colour = match &*condition {
        "OK" => Colour::Green,
        "LOW" => Colour::Yellow,
        _ => Colour::Red,
    };
    let [free, all] = ["freeBytes", "diskBytes"].map(|name| Bytes(number(&storage[name])));
    let mut text = format!("{}, {free} free of {all}", coloured(&condition, colour));
    if let Some(hours) = storage["hoursUntilFull"].as_u64() {
        text += &format!(", full in {} h", Count(hours));
    }
    text
}

/// A copy of the log, or a snapshot; empty without one.
fn copy(copy: &Value) -> String {
    if copy.is_null() {
        return String::new();
    }
    let mut text = match copy["logIndex"].as_u64().filter(|index| 0 < *index) {
        Some(index) => format!("record {}", Count(index)),
        None => "not yet".to_owned(),
    };
    if let Some(age) = copy["ageSeconds"].as_u64() {
        text += &format!(", {} ago", Milliseconds(age * 1_000));
    }
    text += &format!(", {} after it", counted(number(&copy["recordsAfter"]), "record"));
    if let Some(failing) = copy["failing"].as_str() {
        text += &format!(", {}", coloured(&format!("fails: {failing}"), Colour::Red));
    }
    text
}

fn callbacks(status: &Value) -> String {
    let queues = &status["queues"];
    format!(
        "{} owed, oldest {} s, {} without an endpoint, {} dead letters",
        Count(number(&queues["owed"])),
        Count(number(&queues["oldestSeconds"])),
        Count(number(&queues["withoutEndpoint"])),
        Count(number(&status["deadLetters"]))
    )
}

fn queues(status: &Value, width: Option<usize>) -> String {
    let queues = entries(&status["queues"]["participants"]);
    let mut table = Table::new([
        ("longest queues", Align::Left),
        ("callbacks", Align::Right),
        ("oldest", Align::Right),
    ]);
    for queue in queues.iter().take(ROWS) {
        let oldest = queue["oldestSeconds"].as_u64().map(|age| format!("{age} s"));
        let owed = Count(number(&queue["owed"])).to_string();
        table.add([member(queue, "participant"), owed, oldest.unwrap_or_default()]);
    }
    list(queues, &table, width)
}

/// The part of the answer with amounts, which keep their digits.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Caps {
    near_cap: Vec<CapRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CapRow {
    participant: String,
    currency: String,
    position: Box<RawValue>,
    effective_cap: Box<RawValue>,
    limited_by: String,
    headroom: Box<RawValue>,
    percent_used: u64,
}

fn cap_rows(near: &[CapRow], width: Option<usize>) -> String {
    let mut table = Table::new([
        ("nearest their cap", Align::Left),
        ("currency", Align::Left),
        ("position", Align::Right),
        ("cap or cover", Align::Right),
        ("headroom", Align::Right),
        ("used", Align::Right),
    ]);
    for row in near.iter().take(ROWS) {
        table.add([
            row.participant.clone(),
            row.currency.clone(),
            row.position.to_string(),
            format!("{} {}", row.limited_by, row.effective_cap),
            row.headroom.to_string(),
            format!("{} %", row.percent_used),
        ]);
    }
    list(near, &table, width)
}

fn nodes(status: &Value, width: Option<usize>) -> String {
    let nodes = entries(&status["cluster"]["nodes"]);
    let mut table = Table::new([
        ("nodes", Align::Left),
        ("applied record", Align::Right),
        ("silent", Align::Right),
    ]);
    for node in nodes {
        table.add([
            member(node, "name"),
            Count(number(&node["logIndex"])).to_string(),
            Milliseconds(number(&node["silentMilliseconds"])).to_string(),
        ]);
    }
    list(nodes, &table, width)
}

fn list<const COLUMNS: usize, T>(
    rows: &[T],
    table: &Table<COLUMNS>,
    width: Option<usize>,
) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{}", table.fitted(width)) }
}

/// The command that shows details of an alarm.
const DETAILS: [(&str, &str); 4] = [
    ("callbacks", "upesi callback owed"),
    ("endpoints", "upesi callback owed"),
    ("dead letters", "upesi callback list --group"),
    ("liquidity", "upesi liquidity"),
];

fn alarms(alarms: &[Value], width: Option<usize>) -> String {
    if alarms.is_empty() {
        return String::new();
    }
    let mut text = "\n".to_owned();
    for alarm in alarms {
        let severity = member(alarm, "severity");
        let colour = if severity == "CRITICAL" { Colour::Red } else { Colour::Yellow };
        let (subject, mut detail) = (member(alarm, "subject"), member(alarm, "text"));
        if let Some((_, command)) = DETAILS.iter().find(|(about, _)| *about == subject) {
            detail += &format!("; see {command}");
        }
        let mut line = format!("  {}  {subject}: {detail}", coloured(&severity, colour));
        if width.is_some_and(|width| width < shown_width(&line)) {
            line = format!("  {}  {subject}\n    {detail}", coloured(&severity, colour));
        }
        text += &line;
        text += "\n";
    }
    text
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn real(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn per_second(value: &Value) -> String {
    tenths(real(value))
}

/// With one decimal below 100, and separated thousands above.
fn tenths(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { Count(value.round() as u64).to_string() }
}

fn duration(milliseconds: &Value) -> String {
    match milliseconds.as_f64() {
        None => "-".to_owned(),
        Some(value) if value < 10.0 => format!("{value:.2} ms"),
        Some(value) => Milliseconds(value.round() as u64).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Value {
        json!({"status": "DOWN", "version": "0.1.0", "uptimeSeconds": 7_300,
            "alarms": [{"severity": "CRITICAL", "subject": "stage",
                "text": "expiry is stuck for 12 s: a deadline has passed"}],
            "stages": [{"name": "sequencer", "status": "OK"}, {"name": "expiry", "status": "DOWN"}],
            "storage": {"status": "LOW", "logBytes": 5 << 20, "storeBytes": 1, "freeBytes": 9_u64 << 30,
                "diskBytes": 100_u64 << 30, "hoursUntilFull": 50},
            "snapshot": {"logIndex": 900, "recordsAfter": 334, "ageSeconds": 600},
            "backup": {"logIndex": 0, "recordsAfter": 1_234, "failing": "no route to host"},
            "log": {"index": 1_234, "storeIndex": 1_230, "records": 4_321.5,
                "syncP50Milliseconds": 0.125, "syncP99Milliseconds": 12.5},
            "rate": {"seconds": 10.0, "reserved": 1_500.25, "committed": 1_499.5, "aborted": 0.1,
                "refused": 0.0, "expired": 0.0, "commitP50Milliseconds": 3.25,
                "commitP99Milliseconds": 2_500.0},
            "history": [{"committed": 0.0}, {"committed": 50.0}, {"committed": 100.0}],
            "transfers": {"inFlight": 12, "reserved": 1_012, "committed": 990, "aborted": 10,
                "refused": 3, "expired": 0},
            "queues": {"owed": 7, "oldestSeconds": 3, "withoutEndpoint": 0, "participants":
                [{"participant": "greenbank", "owed": 7, "oldestSeconds": 3}]},
            "deadLetters": 2,
            "nearCap": [{"participant": "greenbank", "currency": "KES", "position": 990,
                "effectiveCap": 1_000, "limitedBy": "cover", "headroom": 10, "percentUsed": 99}],
            "liquidityAlarms": 0})
    }

    #[test]
    fn status_is_one_screen() {
        let text = screen(&sample().to_string(), "http://127.0.0.1:3001", Some(80));
        let text = text.expect("an answer");
        for part in [
            "upesi 0.1.0 at http://127.0.0.1:3001: DOWN, up 2 h\n",
            "  per second     1,500      1,500      0.1      0.0      0.0  3.25 ms  2.5 s\n",
            "▁▅█ committed, highest 100 per second\n",
            "sequencer ok, expiry DOWN\n",
            "record 1,234, 4,322 per second, 5.0 MiB, sync p50 0.12 ms, p99 13 ms",
            "LOW, 9.0 GiB free of 100.0 GiB, full in 50 h\n",
            "record 900, 10 min ago, 334 records after it\n",
            "not yet, 1,234 records after it, fails: no route to host\n",
            "7 owed, oldest 3 s, 0 without an endpoint, 2 dead letters\n",
            "cover 1000",
            "CRITICAL  stage: expiry is stuck for 12 s: a deadline has passed\n",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        assert!(text.lines().count() <= 24, "{text}");
        let wide = text.lines().filter(|line| 100 < line.chars().count()).count();
        assert_eq!(wide, 0, "{text}");
    }

    #[test]
    fn a_switch_without_traffic_has_no_sparkline() {
        assert_eq!(sparkline(&[json!({"committed": 0.0})]), "");
        assert_eq!(sparkline(&[]), "");
    }
}
