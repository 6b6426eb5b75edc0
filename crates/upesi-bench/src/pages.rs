//! Results as one page of HTML that needs nothing else: tables, charts, checks, settings.

use serde::Serialize;
use waterfall::viewer;

use crate::bench_report::BenchReport;
use crate::sweep::report::SweepReport;

/// The data of a page.
#[derive(Serialize)]
struct Page<'a, R> {
    report: &'a R,
    /// Each run as a terminal shows it.
    texts: Vec<String>,
    /// What a sweep was measured on.
    ours: Option<String>,
}

/// The page of a run.
pub(crate) fn of_run(report: &BenchReport) -> String {
    viewer::page("bench", &Page { report, texts: vec![report.to_string()], ours: None })
}

/// The page of a sweep.
pub(crate) fn of_sweep(report: &SweepReport) -> String {
    let texts = report.steps.iter().map(|step| step.result.to_string()).collect();
    viewer::page("sweep", &Page { report, texts, ours: report.ours() })
}
