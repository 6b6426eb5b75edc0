//! Results of a sweep: its runs, each with the published figures for the same question.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use waterfall::text;

use crate::bench_report::{BenchReport, Window};
use crate::sweep::tables::{self, Goal, Table};
use harness::report::{DemoReport, Latency, Machine};

/// Results of a sweep.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SweepReport {
    /// Name on the command line.
    pub sweep: &'static str,
    /// The question that it answers.
    pub question: String,
    /// Whether it counts: every run was made and is valid.
    pub valid: bool,
    /// Runs that are void or missing, with the reason.
    pub invalid_because: Vec<String>,
    /// Sources of the published figures, and their omissions; may be empty.
    pub published: Vec<Source>,
    /// Figures over all runs, by name; the name ends in the unit.
    pub facts: BTreeMap<&'static str, f64>,
    /// Figures over all runs, as tables.
    pub tables: Vec<Table>,
    /// Goals with their measured values. A missed goal does not make the sweep void.
    pub goals: Vec<Goal>,
    /// The runs, in order.
    pub steps: Vec<Step>,
}

/// A publication.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Source {
    /// Its title.
    pub title: String,
    /// The work that was measured.
    pub work: String,
    /// The hardware of the measurement.
    pub hardware: String,
    /// Durability of an acknowledgement.
    pub durability: String,
    /// Relevant facts that the publication omits.
    pub left_out: String,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    /// The varied parameter.
    pub name: String,
    /// Group of runs that form one line of a chart.
    pub group: String,
    /// Its place on that line.
    pub at: f64,
    /// PublishedRow figures for the same parameter.
    pub published: Vec<PublishedRow>,
    /// Our result.
    pub result: BenchReport,
}

/// One row of a published table; `null` for a figure that it does not contain.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct PublishedRow {
    /// Name of the row in the publication.
    pub name: String,
    /// Units per second.
    pub rate_per_s: Option<f64>,
    /// Mean latency.
    pub avg_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    /// Maximum latency.
    pub max_ms: Option<f64>,
}

impl Step {
    /// Name and problem if the run is void.
    pub(crate) fn problem(&self) -> Option<String> {
        let why = self.result.invalid_because.first().map_or("see its checks", |why| why);
        (!self.result.valid).then(|| format!("{}: {why}", self.name))
    }

    /// The run and its published rows: the first on the same line, the others below.
    fn rows(&self) -> Vec<Vec<String>> {
        let Window { rate_per_s, latency_ms, .. } = self.result.whole_run;
        let Latency { avg, p50, p99, max, .. } = latency_ms;
        let DemoReport { switch_cpu_ms_per_tx, syncs_per_tx, .. } = self.result.summary;
        let ours = [rate_per_s, avg, p50, p99, max, switch_cpu_ms_per_tx].map(Some);
        let ours = ours.into_iter().chain([syncs_per_tx]).map(text::cell);
        let valid = if self.result.valid { "yes" } else { "VOID" };
        let ours: Vec<_> =
            ours.chain([self.result.dropped.to_string(), valid.to_owned()]).collect();
        let none = [PublishedRow { name: "-".to_owned(), ..PublishedRow::default() }];
        let published = if self.published.is_empty() { &none[..] } else { &self.published };
        let row = |(index, row): (usize, &PublishedRow)| {
            let name = if index == 0 { &*self.name } else { "" };
            let theirs = [row.rate_per_s, row.avg_ms, row.p99_ms, row.max_ms].map(text::cell);
            let ours = if index == 0 { &ours[..] } else { &[] };
            [&[name.to_owned(), row.name.clone()], &theirs[..], ours].concat()
        };
        published.iter().enumerate().map(row).collect()
    }
}

/// Columns of the runs: the published row, then ours. CPU is milliseconds of the switch per unit;
/// syncs are per unit.
const RUN_COLUMNS: [&str; 15] = [
    "run",
    "published",
    "rate/s",
    "avg",
    "p99",
    "max",
    "our rate/s",
    "avg",
    "p50",
    "p99",
    "max",
    "CPU",
    "syncs",
    "dropped",
    "valid",
];

impl fmt::Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sweep           {}: {}", self.sweep, self.question)?;
        let rows: Vec<_> = self.steps.iter().flat_map(Step::rows).collect();
        f.write_str(&text::table(&RUN_COLUMNS, &rows))?;
        f.write_str(&text::fields(&self.facts, &[]))?;
        self.tables.iter().try_for_each(|table| write!(f, "{table}"))?;
        if !self.goals.is_empty() {
            f.write_str(&tables::goals(&self.goals))?;
        }
        self.sources(f)?;
        for problem in &self.invalid_because {
            writeln!(f, "VOID            {problem}")?;
        }
        match self.valid {
            true => writeln!(f, "valid           yes"),
            false => writeln!(f, "VOID            this sweep is not a valid result"),
        }
    }
}

impl SweepReport {
    fn sources(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.published.is_empty() {
            writeln!(f, "published       no published figure is known for this")?;
        }
        for source in &self.published {
            f.write_str(&text::fields(source, &[]))?;
        }
        self.ours().into_iter().try_for_each(|line| writeln!(f, "ours            {line}"))
    }

    /// The environment of our figures.
    pub(crate) fn ours(&self) -> Option<String> {
        let result = &self.steps.first()?.result;
        let (Machine { cores, processor, kernel, profile }, place) =
            (&result.summary.machine, &result.environment);
        Some(format!(
            "{cores} cores ({processor}) shared by switch, DFSPs and load, {:.1} GB, Linux \
             {kernel}{}; {}; FSPIOP {}, no TLS, no JWS; load {:.2} before; profile \
             {profile}, commit {}",
            place.memory_bytes as f64 / 1e9,
            place.filesystem.as_ref().map_or(String::new(), |kind| format!(", {kind}")),
            result.summary.durability,
            result.summary.fspiop_version,
            place.load_average_before,
            if result.commit.is_empty() { "?" } else { result.commit },
        ))
    }
}
