//! Results as one self-contained HTML page: tables, charts, checks, settings.

use serde::Serialize;
use waterfall::viewer;

use crate::bench_report::BenchReport;
use crate::sweep::report::SweepReport;

/// The data of a page.
#[derive(Serialize)]
struct Page<'a, R> {
    report: &'a R,
    /// Each run as the terminal shows it.
    texts: Vec<String>,
    /// The environment of a sweep.
    ours: Option<String>,
}

/// Renders the page of a run.
pub(crate) fn run_page(report: &BenchReport) -> String {
    viewer::page("bench", &Page { report, texts: vec![report.to_string()], ours: None })
}

/// Renders the page of a sweep.
pub(crate) fn sweep_page(report: &SweepReport) -> String {
    let texts = report.steps.iter().map(|step| step.result.to_string()).collect();
    viewer::page("sweep", &Page { report, texts, ours: report.ours() })
}
