//! Results of a sweep: its runs, each beside the published figures for the same question.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bench_report::{BenchReport, Window};
use crate::report::Machine;
use crate::sweep_tables::{self, Goal, Table};

/// Results of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepReport {
    /// Its word on the command line.
    pub sweep: &'static str,
    /// What it asks.
    pub question: String,
    /// Whether it counts: every run was made and is valid.
    pub valid: bool,
    /// Runs that are void or missing, and why.
    pub invalid_because: Vec<String>,
    /// Where the published figures are from, and what they leave out; empty when there are none.
    pub published: Vec<Source>,
    /// What the runs say together, by name; the name ends in the unit.
    pub facts: BTreeMap<&'static str, f64>,
    /// What they say together as tables.
    pub tables: Vec<Table>,
    /// Figures that were set as goals, and what they came to. A goal that is missed makes nothing
    /// void.
    pub goals: Vec<Goal>,
    /// The runs, in order.
    pub steps: Vec<Step>,
}

/// A publication.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Source {
    /// What it is.
    pub title: String,
    /// The work that was measured.
    pub work: String,
    /// What carried it.
    pub hardware: String,
    /// What an answer survived.
    pub durability: String,
    /// What a reader would need beside it and is not told.
    pub left_out: String,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// What is special about it.
    pub name: String,
    /// Runs that make one line of a chart.
    pub group: String,
    /// Its place along that line.
    pub at: f64,
    /// Published figures for the same.
    pub published: Vec<Published>,
    /// Ours.
    pub result: BenchReport,
}

/// One row of a published table; `null` for what it does not say.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Published {
    /// What the row is called there.
    pub name: String,
    /// Units a second.
    pub rate_per_s: Option<f64>,
    /// Mean latency.
    pub avg_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    /// Longest.
    pub max_ms: Option<f64>,
}

impl Step {
    /// Name and problem, when the run is void.
    pub(crate) fn problem(&self) -> Option<String> {
        let why = self.result.invalid_because.first().map_or("see its checks", |why| why);
        (!self.result.valid).then(|| format!("{}: {why}", self.name))
    }

    /// Syncs per unit, where the switch counts them.
    pub(crate) fn syncs(&self) -> String {
        self.result.summary.syncs_per_tx.map_or("-".to_owned(), |syncs| format!("{syncs:.3}"))
    }
}

impl Published {
    /// Rate, mean, 99th percentile and longest, `-` for what is not said.
    pub(crate) fn cells(&self) -> [String; 4] {
        [self.rate_per_s, self.avg_ms, self.p99_ms, self.max_ms].map(|value| match value {
            None => "-".to_owned(),
            Some(value) if value < 10.0 => format!("{value:.1}"),
            Some(value) => format!("{value:.0}"),
        })
    }
}

impl fmt::Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sweep           {}: {}", self.sweep, self.question)?;
        let width = self.steps.iter().map(|step| step.name.len()).max().unwrap_or(0).max(8);
        writeln!(
            f,
            "{:width$} | {:^43} | {:^66}",
            "", "published", "ours: whole measured part; ms CPU of the switch and syncs per unit"
        )?;
        writeln!(
            f,
            "{:width$} | {:>14} {:>7} {:>6} {:>6} {:>6} | {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} \
             {:>7} {:>7}",
            "run",
            "row",
            "rate/s",
            "avg",
            "p99",
            "max",
            "rate/s",
            "avg",
            "p50",
            "p99",
            "max",
            "CPU",
            "syncs",
            "dropped"
        )?;
        for step in &self.steps {
            rows(f, width, step)?;
        }
        for (name, value) in &self.facts {
            writeln!(f, "fact            {name} {value:.3}")?;
        }
        self.tables.iter().try_for_each(|table| write!(f, "{table}"))?;
        sweep_tables::goals(f, &self.goals)?;
        self.sources(f)?;
        for problem in &self.invalid_because {
            writeln!(f, "VOID            {problem}")?;
        }
        match self.valid {
            true => writeln!(f, "valid           yes"),
            false => writeln!(f, "VOID            this sweep is no result"),
        }
    }
}

/// A run and the published rows for it: the first beside it, the others below.
fn rows(f: &mut fmt::Formatter<'_>, width: usize, step: &Step) -> fmt::Result {
    let Window { rate_per_s, latency_ms, .. } = step.result.whole_run;
    let none = [Published { name: "-".to_owned(), ..Published::default() }];
    let published = if step.published.is_empty() { &none[..] } else { &step.published };
    for (index, row) in published.iter().enumerate() {
        let name = if index == 0 { &*step.name } else { "" };
        let [rate, avg, p99, max] = row.cells();
        write!(f, "{name:width$} | {:>14} {rate:>7} {avg:>6} {p99:>6} {max:>6} |", row.name)?;
        if index > 0 {
            writeln!(f)?;
            continue;
        }
        write!(f, " {rate_per_s:>7.0}")?;
        for value in [latency_ms.avg, latency_ms.p50, latency_ms.p99, latency_ms.max] {
            write!(f, " {value:>7.2}")?;
        }
        let cpu = step.result.summary.switch_cpu_ms_per_tx;
        let void = if step.result.valid { "" } else { "  VOID" };
        writeln!(f, " {cpu:>7.3} {:>7} {:>7}{void}", step.syncs(), step.result.dropped)?;
    }
    Ok(())
}

impl SweepReport {
    fn sources(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.published.is_empty() {
            writeln!(f, "published       we know of no published figure for this")?;
        }
        for Source { title, work, hardware, durability, left_out } in &self.published {
            writeln!(f, "published       {title}")?;
            writeln!(f, "                work: {work}")?;
            writeln!(f, "                hardware: {hardware}; durability: {durability}")?;
            writeln!(f, "                leaves out: {left_out}")?;
        }
        self.ours().into_iter().try_for_each(|line| writeln!(f, "ours            {line}"))
    }

    /// What our figures were measured on.
    pub(crate) fn ours(&self) -> Option<String> {
        let result = &self.steps.first()?.result;
        let (Machine { cores, processor, kernel }, place) =
            (&result.summary.machine, &result.environment);
        Some(format!(
            "{cores} cores ({processor}) for switch, DFSPs and load together, {:.1} GB, Linux \
             {kernel}{}; {}; FSPIOP {}, no TLS, no JWS; load {:.2} before; commit {}",
            place.memory_bytes as f64 / 1e9,
            place.filesystem.as_ref().map_or(String::new(), |kind| format!(", {kind}")),
            result.summary.durability,
            result.summary.fspiop_version,
            place.load_average_before,
            if result.commit.is_empty() { "?" } else { result.commit },
        ))
    }
}
