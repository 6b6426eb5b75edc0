//! `upesi waterfall`: the duration of each stage of a transfer.
//!
//! Three sources: new transfers through a switch started for this (one, several with a pause, or
//! several at once), a recent transfer of a running switch, or a file. The output is a table on the
//! terminal, and a page or a file of events.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use ledger::TransferId;
use serde::Deserialize;
use waterfall::page::{Waterfalls, median_run, page, rows};
use waterfall::{Span, SpanKind, Unit, figures, spans, summary};

use crate::admin::{Admin, resolve};
use crate::error::HarnessError;
use crate::eta::Progress;
use crate::hub::HubChoice;
use crate::interrupt::Interrupt;
use crate::load::Load;
use crate::onboarding::onboard;
use crate::options::{FspOptions, require};
use crate::output::check_writable;
use crate::pairs::Pairs;
use crate::scenario::Scenario;
use crate::simulators::{SimulatorPlan, Simulators, plan};
use crate::status_line::StatusLine;
use crate::switch_process::{Confirm, SwitchCommand};

const COUNT_MAX: usize = 1_000;
/// Transfers before the measured ones, to open connections and warm caches.
const WARMING: usize = 20;
/// Longest sleep during a pause between two transfers; progress and interrupts are checked in
/// between.
const PAUSED_AT_ONCE: Duration = Duration::from_millis(100);
/// Longest wait until the hub has recorded all deliveries, and the polling interval.
const WHOLE_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Options of `waterfall`.
#[derive(Args, Clone, Debug)]
pub struct WaterfallOptions {
    /// Draw the events of this file instead of a transfer.
    ///
    /// One JSON object per line, or one array of objects, with start, end and label.
    #[arg(value_name = "FILE", conflicts_with_all = ["count", "at_once", "transfer"])]
    pub file: Option<PathBuf>,
    /// Unit of start and end in the file: ms, us or ns.
    #[arg(long, default_value = "ms", value_parser = unit, requires = "file")]
    pub unit: Unit,
    /// Send this number of transfers, one after the other.
    #[arg(long, default_value_t = 1, conflicts_with = "transfer")]
    pub count: usize,
    /// Pause between two transfers, in seconds.
    #[arg(long, default_value_t = 1.0, conflicts_with_all = ["file", "at_once", "transfer"])]
    pub apart: f64,
    /// Send this number of transfers at the same time instead.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["count", "transfer"])]
    pub at_once: Option<usize>,
    /// Draw this transfer of a running switch that records stages (PUT /waterfall).
    #[arg(long, value_name = "ID", requires = "admin")]
    pub transfer: Option<String>,
    /// Admin address of that switch, such as http://127.0.0.1:3001.
    #[arg(long, value_name = "URL", requires = "transfer")]
    pub admin: Option<String>,
    /// Exclude events with this label prefix from count and sum (repeatable).
    ///
    /// They stay in the picture and in the total. Case is ignored, and punctuation matches spaces.
    #[arg(long, alias = "EXCLUDE", value_name = "PREFIX")]
    pub exclude: Vec<String>,
    /// Colour of all bars, or of those with a label prefix (repeatable).
    #[arg(long, alias = "BAR-COLOR", value_name = "[PREFIX:]HEX", value_parser = bar_colour)]
    pub bar_color: Vec<(String, String)>,
    /// Write to this file: a page (.html) or all events (.json, .ndjson).
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

fn unit(text: &str) -> Result<Unit, String> {
    Unit::parse(text).ok_or_else(|| "expected ms, us or ns".to_owned())
}

fn bar_colour(text: &str) -> Result<(String, String), String> {
    let (prefix, hex) = text.rsplit_once(':').unwrap_or(("", text));
    let digits = hex.strip_prefix('#').unwrap_or(hex);
    let good = matches!(digits.len(), 3 | 6) && digits.bytes().all(|it| it.is_ascii_hexdigit());
    good.then(|| (prefix.to_owned(), format!("#{digits}"))).ok_or_else(|| {
        "invalid colour: expected 3 or 6 hexadecimal digits, such as 0072b2".to_owned()
    })
}

/// Draws waterfalls and prints their figures.
///
/// # Errors
///
/// The options are invalid, a file is unreadable, the switch cannot be started or does not answer,
/// or a transfer did not commit.
pub fn waterfall(options: &WaterfallOptions, command: &SwitchCommand) -> Result<(), HarnessError> {
    let many = options.at_once.unwrap_or(options.count);
    require((1..=COUNT_MAX).contains(&many), "--count and --at-once: expected 1 to 1000")?;
    require((0.0..=60.0).contains(&options.apart), "--apart: expected 0 to 60 seconds")?;
    let form = options.out.as_deref().map(Form::of).transpose()?;
    if let Some(path) = &options.out {
        check_writable(path)?;
    }
    let (title, unit, mut runs) = collect(options, command)?;
    for event in runs.iter_mut().flatten().filter(|event| event.kind == SpanKind::Work) {
        if options.exclude.iter().any(|prefix| event.begins_with(prefix)) {
            event.kind = SpanKind::LeftOut;
        }
    }
    print!("{}", describe(&runs, unit));
    if let (Some(path), Some(form)) = (&options.out, form) {
        let notes = notes(options);
        let colours = &options.bar_color;
        let text = match form {
            Form::Page => {
                page(&Waterfalls { title: &title, notes: &notes, runs: &runs, unit, colours })
            }
            Form::Events => runs.iter().map(|run| spans::write(run)).collect(),
        };
        std::fs::write(path, text).map_err(HarnessError::file(path))?;
        println!("written         {}", path.display());
    }
    Ok(())
}

/// The format of a result file.
#[derive(Clone, Copy)]
enum Form {
    Page,
    Events,
}

impl Form {
    fn of(path: &Path) -> Result<Self, HarnessError> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("html") => Ok(Self::Page),
            Some("json" | "ndjson") => Ok(Self::Events),
            _ => Err(HarnessError::Options(
                "--out: expected a name that ends in .html, .json or .ndjson".into(),
            )),
        }
    }
}

type Collected = (String, Unit, Vec<Vec<Span>>);

fn collect(options: &WaterfallOptions, command: &SwitchCommand) -> Result<Collected, HarnessError> {
    if let Some(path) = &options.file {
        let text = std::fs::read_to_string(path).map_err(HarnessError::file(path))?;
        let events = spans::parse(&text)
            .map_err(|error| HarnessError::Options(format!("{}: {error}", path.display())))?;
        return Ok((path.display().to_string(), options.unit, vec![events]));
    }
    if let (Some(transfer), Some(address)) = (&options.transfer, &options.admin) {
        let mut admin = Admin::new(resolve(address)?, None);
        let noted = stages_of(&mut admin, transfer)?;
        let mut title = format!("Transfer {transfer}");
        if noted.under_way {
            println!("in progress     some stages are open; they are shown until now");
            title += ", in progress: open stages are shown until now";
        }
        return Ok((title, Unit::Nanoseconds, vec![noted.run()]));
    }
    let runs = send(options, command)?;
    Ok(("Stages of a transfer".to_owned(), Unit::Nanoseconds, runs))
}

fn notes(options: &WaterfallOptions) -> Vec<String> {
    if options.file.is_some() || options.transfer.is_some() {
        return Vec::new();
    }
    let how = match options.at_once {
        Some(count) => format!("{count} transfers sent at the same moment"),
        None if options.count == 1 => "One transfer".to_owned(),
        None => format!("{} transfers, {} s apart", options.count, options.apart),
    };
    vec![
        format!(
            "{how}, through a switch of this build on this machine, synced before the response."
        ),
        "Payer and payee are simulators in one process. A stage is active work on a message; \
         several messages may be in progress at the same time. The wait for a batch of the log, \
         for a lane or for a thread is not a stage; if no stage is active, it is part of the gap."
            .to_owned(),
    ]
}

/// Formats the figures of all runs, and the median of each stage.
fn describe(runs: &[Vec<Span>], unit: Unit) -> String {
    let mut text = String::new();
    let median = median_run(runs).map_or(&[][..], |at| &runs[at]);
    let name = if runs.len() == 1 { "waterfall" } else { "median" };
    let _written = writeln!(text, "{name:<15} {}", summary(&figures(median), unit));
    for stage in rows(runs) {
        let _written = writeln!(
            text,
            "  {:<44} p50 {:>12}  p99 {:>12}  longest {:>12}",
            stage.label,
            unit.show(stage.p50),
            unit.show(stage.p99),
            unit.show(stage.max)
        );
    }
    text
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Noted {
    events: Vec<StageRow>,
    /// Absent in older switches.
    #[serde(default)]
    waits: Vec<StageRow>,
    #[serde(default)]
    under_way: bool,
}

#[derive(Deserialize)]
struct StageRow {
    start: u64,
    end: u64,
    label: String,
}

impl Noted {
    fn run(self) -> Vec<Span> {
        let of = |kind| move |StageRow { start, end, label }| Span { start, end, label, kind };
        let events = self.events.into_iter().map(of(SpanKind::Work));
        let mut run: Vec<_> =
            events.chain(self.waits.into_iter().map(of(SpanKind::Wait))).collect();
        spans::sort(&mut run);
        run
    }
}

fn stages_of(admin: &mut Admin, transfer: &str) -> Result<Noted, HarnessError> {
    let path = format!("/waterfall/{transfer}");
    let answered = admin.must("GET", &path, None, &[200])?;
    serde_json::from_slice(&answered.body)
        .map_err(|error| HarnessError::Hub(format!("GET {path} answered {error}")))
}

/// The stages of a transfer whose commit the payer knows, once the hub has delivered all its
/// notices.
fn whole(
    admin: &mut Admin,
    transfer: &TransferId,
    interrupt: &Interrupt,
) -> Result<Vec<Span>, HarnessError> {
    let asked = Instant::now();
    loop {
        let noted = stages_of(admin, &transfer.to_string())?;
        if !noted.under_way {
            return Ok(noted.run());
        }
        if WHOLE_WITHIN < asked.elapsed() {
            return Err(HarnessError::Hub(format!(
                "has not delivered all notices of transfer {transfer} within {WHOLE_WITHIN:?}"
            )));
        }
        interrupt.pause(LOOK)?;
    }
}

/// Sends transfers through a new switch and reads their stages.
fn send(
    options: &WaterfallOptions,
    command: &SwitchCommand,
) -> Result<Vec<Vec<Span>>, HarnessError> {
    let interrupt = Interrupt::listen();
    let mut live = StatusLine::on_stderr();
    live.step("starting the switch");
    let command = command.clone().confirming(Confirm::Off);
    let mut hub = HubChoice::Spawn { command: &command, data: None }.start(&mut |_| {})?;
    let mut admin = hub.admin()?.expect("a switch of ours has an admin API");
    let fsps = FspOptions { fsps: 2, subscribers: 1, ..FspOptions::standard() };
    let (scenario, pairs, load) = (Scenario::Transfer, Pairs::Uniform, Load::None);
    let pair = SimulatorPlan { scenario, pairs, load, threads: 1, keeps_ends: false };
    let simulators = Simulators::start(&plan(&fsps, &hub.fspiop()), pair)?;
    onboard(&mut admin, fsps.currency, &simulators.bound(), &interrupt)?;
    admin.must("PUT", "/waterfall", Some(r#"{"enabled":true}"#), &[200])?;
    live.step("sending transfers");
    for _ in 0..WARMING {
        simulators.pay(1, &interrupt)?;
    }
    let sent = match options.at_once {
        Some(count) => simulators.pay(count, &interrupt)?,
        None => send_apart(&simulators, options, &interrupt)?,
    };
    let runs = sent.iter().map(|transfer| whole(&mut admin, transfer, &interrupt));
    let runs = runs.collect::<Result<_, _>>()?;
    hub.stop()?;
    Ok(runs)
}

/// Sends transfers one after the other, with a pause between them.
fn send_apart(
    simulators: &Simulators,
    options: &WaterfallOptions,
    interrupt: &Interrupt,
) -> Result<Vec<TransferId>, HarnessError> {
    let mut progress = Progress::new("transfers", Some(options.count as u64));
    let mut sent = Vec::with_capacity(options.count);
    let mut next = Instant::now();
    while sent.len() < options.count {
        while Instant::now() < next {
            let rest = next.saturating_duration_since(Instant::now());
            interrupt.pause(rest.min(PAUSED_AT_ONCE))?;
            progress.show(sent.len() as u64);
        }
        sent.extend(simulators.pay(1, interrupt)?);
        progress.show(sent.len() as u64);
        next = Instant::now() + Duration::from_secs_f64(options.apart);
    }
    progress.end();
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_may_have_a_prefix() {
        assert_eq!(bar_colour("0072b2"), Ok((String::new(), "#0072b2".into())));
        assert_eq!(bar_colour("fulfil: x:#abc"), Ok(("fulfil: x".into(), "#abc".into())));
        for bad in ["", "red", "12345", "a:b:zzz"] {
            assert!(bar_colour(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn file_name_selects_the_format() {
        for (name, good) in [("a.html", true), ("a.svg", false), ("a.ndjson", true), ("a", false)] {
            assert_eq!(Form::of(Path::new(name)).is_ok(), good, "{name}");
        }
    }
}
