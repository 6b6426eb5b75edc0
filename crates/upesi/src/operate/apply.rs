//! `upesi apply` and `upesi export`: a scheme from a file, and the file of a scheme, through the
//! admin API of a running switch.
//!
//! Everything is compared before anything is changed. If a part differs and the admin API cannot
//! change it, nothing is changed. A second run changes nothing.
//!
//! A change that needs a second operator is proposed: once, because the hub answers a repeated
//! request with the same open proposal. The parts that depend on it wait, the others are carried
//! out, and the same command continues after the approval.

mod document;
pub(crate) mod export;
mod fields;
mod hub;
pub(super) mod scheme;
mod steps;
mod waiting;

use std::fs;
use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};

use document::FileFault;
use harness::Admin;
use hub::KnownHub;
use scheme::Scheme;
use serde_json::json;
use steps::{SchemeStep, Verdict};
use waiting::{Proposals, listed};

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::table::{Align, Table};
use crate::cli::terminal;
use crate::cli::units::counted;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi apply docs/tutorial/scheme.toml --dry-run
  upesi apply scheme.toml --token data/admin-token
  upesi apply scheme.toml --prune --yes
  upesi apply scheme.json --admin http://10.0.0.5:3001 --token token --json
On a terminal the command shows the difference and asks. Elsewhere it does not ask.";

/// Largest scheme file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Arguments of `apply`.
#[derive(clap::Args)]
pub(crate) struct ApplyArguments {
    /// Scheme file: TOML, or JSON if its name ends in .json.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    switch: AdminAddress,
    /// Compare and show what would be done; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before the changes.
    #[arg(long)]
    yes: bool,
    /// Take away what the file does not have.
    ///
    /// Participants and settlement models that the file does not name are deactivated, and public
    /// keys of its participants that it does not have are removed. Endpoints stay, because the
    /// admin API cannot remove them. Needs --yes where nothing can be asked.
    #[arg(long)]
    prune: bool,
    /// Print the steps as JSON.
    #[arg(long)]
    json: bool,
}

/// A step and its result.
struct Row {
    object: String,
    wanted: String,
    done: &'static str,
    /// The value that the hub had, if it was another one.
    found: Option<String>,
    /// The proposal of a change that waits for a second operator.
    proposal: Option<u64>,
}

/// How steps are carried out and shown.
#[derive(Clone, Copy)]
pub(super) struct StepOutput {
    pub(super) dry_run: bool,
    pub(super) json: bool,
    /// Whether a person on a terminal is asked first.
    pub(super) asks: bool,
}

/// Whether parts of the hub that the scheme does not have are taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prune {
    Nothing,
    All,
}

/// The comparison of a scheme with a hub, and the changes that follow.
pub(super) struct Provisioning<'a> {
    pub(super) scheme: &'a Scheme,
    /// The source of the scheme, for errors.
    pub(super) subject: String,
    pub(super) shown: StepOutput,
    pub(super) prune: Prune,
}

pub(crate) fn apply(arguments: &ApplyArguments) -> Result<(), CliError> {
    let ApplyArguments { file, switch, dry_run, yes, prune, json } = arguments;
    let is_terminal = stdin().is_terminal();
    if *prune && !yes && !dry_run && !is_terminal {
        return Err(CliError::new("--prune: nothing was changed; confirm the changes with --yes"));
    }
    let scheme = &read(file)?;
    let shown = StepOutput { dry_run: *dry_run, json: *json, asks: !yes && is_terminal };
    let prune = if *prune { Prune::All } else { Prune::Nothing };
    let subject = file.display().to_string();
    Provisioning { scheme, subject, shown, prune }.carry_out(switch.client()?)
}

impl Provisioning<'_> {
    /// Compares, changes what differs, and prints the steps. Nothing is changed if a part differs
    /// that the API cannot change.
    pub(super) fn carry_out(&self, admin: Admin) -> Result<(), CliError> {
        let mut hub = KnownHub::read(admin)?;
        let mut steps = steps::all(self.scheme, &mut hub)?;
        if self.prune == Prune::All {
            steps.extend(steps::prune(self.scheme, &mut hub)?);
        }
        let differing = steps.iter().filter(|step| matches!(step.verdict, Verdict::Differs { .. }));
        let differing = differing.count();
        let mut rows = Vec::new();
        let result = if self.shown.dry_run || 0 < differing {
            rows.extend(steps.iter().map(Row::planned));
            Ok(())
        } else {
            self.ask(&steps)?;
            self.carry_out_steps(steps, &mut hub, &mut rows)
        };
        print(&rows, self.shown.json);
        result?;
        let mut open: Vec<_> = rows.iter().filter_map(|row| row.proposal).collect();
        open.dedup();
        if !open.is_empty() {
            return Err(CliError::proposed(format!(
                "{}: not done yet: another operator must approve {} (`upesi proposal approve \
                 ID`); then run the same command again",
                self.subject,
                listed(&open)
            )));
        }
        match differing {
            0 => Ok(()),
            count => Err(CliError::new(format!(
                "{}: nothing was changed: the API of the hub cannot change {} in which it differs",
                self.subject,
                counted(count as u64, "part")
            ))),
        }
    }
}

impl Provisioning<'_> {
    /// Shows the changes on a terminal, and asks for them.
    fn ask(&self, steps: &[SchemeStep]) -> Result<(), CliError> {
        let changes = steps.iter().filter(|step| !matches!(step.verdict, Verdict::Equal));
        let changes: Vec<_> = changes.map(Row::planned).collect();
        if !self.shown.asks || changes.is_empty() {
            return Ok(());
        }
        eprint!("{}", table(&changes));
        let count = counted(changes.len() as u64, "change");
        terminal::confirm(&format!("{}: make {count}", self.subject))
    }

    /// Carries out the steps; those after a failed one are left out.
    fn carry_out_steps(
        &self,
        steps: Vec<SchemeStep>,
        hub: &mut KnownHub,
        rows: &mut Vec<Row>,
    ) -> Result<(), CliError> {
        let is_equal = |step: &SchemeStep| matches!(step.verdict, Verdict::Equal);
        let mut proposals = Proposals::default();
        if !steps.iter().all(is_equal) {
            proposals = Proposals::read(hub)?;
            let made = steps.iter().filter(|step| is_equal(step));
            let approved = proposals.approved(made);
            if !approved.is_empty() {
                let approved = listed(&approved);
                eprintln!("upesi: {}: continues; approved: {approved}", self.subject);
            }
        }
        for step in steps {
            rows.push(carry_out(step, hub, &mut proposals)?);
        }
        Ok(())
    }
}

/// Carries out a step, unless it waits for a proposal.
fn carry_out(
    step: SchemeStep,
    hub: &mut KnownHub,
    proposals: &mut Proposals,
) -> Result<Row, CliError> {
    let SchemeStep { object, wanted, verdict } = step;
    let (done, found, change) = match verdict {
        Verdict::Equal => ("equal", None, None),
        Verdict::Create(change) => ("created", None, Some(change)),
        Verdict::Update { found, change } => ("updated", Some(found), Some(change)),
        Verdict::Prune(change) => ("pruned", None, Some(change)),
        Verdict::Differs { found } => ("differs", Some(found), None),
    };
    let mut row = Row { object, wanted, done, found, proposal: None };
    let Some(change) = change else { return Ok(row) };
    if proposals.must_wait(&row.object, &row.wanted) {
        proposals.waits(&row.object, &row.wanted);
        return Ok(Row { done: "waits", ..row });
    }
    row.proposal = change.send(hub)?;
    if row.proposal.is_some() {
        proposals.waits(&row.object, &row.wanted);
        row.done = "proposed";
    }
    Ok(row)
}

impl Row {
    fn planned(step: &SchemeStep) -> Self {
        let (done, found) = match &step.verdict {
            Verdict::Equal => ("equal", None),
            Verdict::Create(_) => ("would create", None),
            Verdict::Update { found, .. } => ("would update", Some(found.clone())),
            Verdict::Prune(_) => ("would prune", None),
            Verdict::Differs { found } => ("differs", Some(found.clone())),
        };
        let (object, wanted) = (step.object.clone(), step.wanted.clone());
        Self { object, wanted, done, found, proposal: None }
    }

    /// Whether the table shows both in one line: endpoints of one participant with one result.
    fn is_like(&self, other: &Self) -> bool {
        let is_endpoint = |row: &Self| row.wanted.starts_with("FSPIOP_") && row.found.is_none();
        let place = |row: &Self| (row.object.clone(), row.done, row.proposal);
        let is_same = place(self) == place(other);
        is_same && is_endpoint(self) && is_endpoint(other)
    }
}

fn read(file: &Path) -> Result<Scheme, CliError> {
    let shown = file.display();
    let wrong = |error: std::io::Error| CliError::new(format!("{shown}: {error}"));
    if FILE_BYTES_MAX < fs::metadata(file).map_err(wrong)?.len() {
        return Err(CliError::new(format!("{shown}: longer than {FILE_BYTES_MAX} bytes")));
    }
    let text = fs::read_to_string(file).map_err(wrong)?;
    let is_json = file.extension().is_some_and(|extension| extension == "json");
    let document = if is_json { document::from_json(&text) } else { document::from_toml(&text) };
    let directory = file.parent().unwrap_or(Path::new(""));
    let scheme = document.map_err(|fault| vec![fault]);
    let scheme = scheme.and_then(|document| Scheme::read(&document, directory));
    scheme.map_err(|faults| {
        let lines = faults.iter().map(|FileFault { line, text }| format!("{shown}:{line}: {text}"));
        CliError::new(lines.collect::<Vec<_>>().join("\n"))
    })
}

fn print(rows: &[Row], json: bool) {
    if json {
        let rows = rows.iter().map(|row| {
            json!({
                "object": row.object,
                "wanted": row.wanted,
                "done": row.done,
                "found": row.found,
                "proposal": row.proposal,
            })
        });
        println!("{}", serde_json::Value::from_iter(rows));
        return;
    }
    table(rows).print();
}

fn table(rows: &[Row]) -> Table<3> {
    let columns = [("object", Align::Left), ("done", Align::Left), ("wanted", Align::Left)];
    let mut table = Table::new(columns);
    let alike = |a: &Row, b: &Row| a.is_like(b);
    for chunk in rows.chunk_by(alike) {
        let row = &chunk[0];
        let found =
            row.found.as_ref().map_or_else(String::new, |it| format!(" (the hub has: {it})"));
        let wanted = match chunk.len() {
            1 => format!("{}{found}", row.wanted),
            count => format!("{count} endpoints"),
        };
        let number = row.proposal.map(|id| format!(" as {id}")).unwrap_or_default();
        table.add([row.object.clone(), format!("{}{number}", row.done), wanted]);
    }
    table
}
