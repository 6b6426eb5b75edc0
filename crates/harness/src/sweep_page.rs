//! A sweep as one page of HTML that needs nothing else: the table with the published figures, the
//! curve over what was varied, and the charts of its runs.

use std::fmt::Write;

use crate::bench_report::BenchReport;
use crate::chart::{Axis, Bar, Lines, Series, bars, escape, number};
use crate::html::{self, STYLE, section};
use crate::sweep_report::{Published, Source, Step, SweepReport};
use crate::sweep_tables;

/// The page of a sweep.
pub(crate) fn page(report: &SweepReport) -> String {
    let mut page = String::from("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">");
    let title = escape(&format!("Upesi bench sweep {}", report.sweep));
    let _ = write!(page, "<title>{title}</title><style>{STYLE}</style><h1>{title}</h1>");
    let _ = write!(page, "<p>{}</p>", escape(report.question));
    for problem in &report.invalid_because {
        let _ = write!(page, "<p class=\"void\">VOID: {}</p>", escape(problem));
    }
    page += &table(&report.steps);
    sources(&mut page, report);
    facts(&mut page, report);
    page += &sweep_tables::page(&report.tables, &report.goals);
    section(&mut page, "Rate over what was varied", &curve(report, "units a second", rate));
    section(&mut page, "Latency over what was varied", &curve(report, "p99, ms", p99));
    let results: Vec<BenchReport> = report.steps.iter().map(|step| step.result.clone()).collect();
    section(&mut page, "Rate over time", &named(html::rates(&results), &report.steps).svg());
    let percentiles = named(html::percentiles(&results), &report.steps);
    section(&mut page, "Latency by percentile", &percentiles.svg());
    let names = report.steps.iter().map(|step| step.name.clone());
    section(&mut page, "Latency histogram", &html::histograms(&results, names));
    section(&mut page, "CPU time per unit", &cpu(&report.steps));
    for step in &report.steps {
        html::details(&mut page, &step.name, &step.result);
    }
    page + "</html>\n"
}

/// Lines that are called as the runs are.
fn named(mut lines: Lines<'static>, steps: &[Step]) -> Lines<'static> {
    for (series, step) in lines.series.iter_mut().zip(steps) {
        series.name.clone_from(&step.name);
    }
    lines
}

fn cpu(steps: &[Step]) -> String {
    let bar = |step: &Step| Bar {
        name: step.name.clone(),
        parts: vec![
            ("switch", step.result.summary.switch_cpu_ms_per_tx),
            ("harness (DFSPs and driver)", step.result.harness_cpu_ms_per_tx),
        ],
    };
    bars(&steps.iter().map(bar).collect::<Vec<_>>(), "ms")
}

fn table(steps: &[Step]) -> String {
    let mut table = String::from(
        "<table><tr><th>run<th>published row<th>rate/s<th>avg<th>p99<th>max ms<th>our rate/s\
         <th>avg<th>p50<th>p99<th>max ms<th>switch ms CPU<th>syncs<th>valid",
    );
    let none = [Published { name: "-", ..Published::default() }];
    for step in steps {
        let published = if step.published.is_empty() { &none[..] } else { &step.published };
        for (index, row) in published.iter().enumerate() {
            let name = if index == 0 { &*step.name } else { "" };
            let _ = write!(table, "<tr><td>{}<td>{}", escape(name), escape(row.name));
            for cell in row.cells() {
                let _ = write!(table, "<td>{cell}");
            }
            table += &if index == 0 { ours(step) } else { "<td>".repeat(8) };
        }
    }
    table + "</table><p>Ours: the whole measured part of each run; CPU and syncs are per unit.</p>"
}

fn ours(step: &Step) -> String {
    let whole = &step.result.whole_run;
    let latency = &whole.latency_ms;
    let cpu = step.result.summary.switch_cpu_ms_per_tx;
    let values = [whole.rate_per_s, latency.avg, latency.p50, latency.p99, latency.max, cpu];
    let mut cells: String = values.map(|value| format!("<td>{}", number(value))).concat();
    let valid = if step.result.valid { "yes" } else { "<b class=\"bad\">VOID</b>" };
    let _ = write!(cells, "<td>{}<td>{valid}", step.syncs());
    cells
}

fn sources(page: &mut String, report: &SweepReport) {
    for Source { title, work, hardware, durability, left_out } in &report.published {
        let text = format!(
            "{title}. Work: {work}. Hardware: {hardware}. Durability: {durability}. Leaves out: \
             {left_out}."
        );
        let _ = write!(page, "<p>Published: {}</p>", escape(&text));
    }
    if let Some(ours) = report.ours() {
        let _ = write!(page, "<p>Ours: {}</p>", escape(&ours));
    }
}

fn facts(page: &mut String, report: &SweepReport) {
    if report.facts.is_empty() {
        return;
    }
    let rows = report.facts.iter();
    let rows = rows.map(|(name, value)| format!("<tr><td>{name}<td>{}", number(*value)));
    let _ = write!(page, "<table>{}</table>", rows.collect::<String>());
}

/// A line for each group of runs, and one for the best that was published.
fn curve(report: &SweepReport, y_label: &str, of: fn(&Step) -> (f64, Option<f64>)) -> String {
    let mut series: Vec<Series> = Vec::new();
    let mut add = |name: &str, point: (f64, f64)| {
        let known = series.iter_mut().find(|line| line.name == name);
        match known {
            Some(line) => line.points.push(point),
            None => series.push(Series { name: name.to_owned(), points: vec![point] }),
        }
    };
    for step in &report.steps {
        let (ours, published) = of(step);
        add(step.group, (step.at, ours));
        if let Some(published) = published {
            add(&format!("published: {}", step.group), (step.at, published));
        }
    }
    series.retain(|line| line.points.len() > 1);
    for line in &mut series {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Lines { x_label: "what was varied", y_label, x_axis: Axis::Linear, series }.svg()
}

fn rate(step: &Step) -> (f64, Option<f64>) {
    let published = step.published.iter().filter_map(|row| row.rate_per_s);
    (step.result.whole_run.rate_per_s, published.max_by(f64::total_cmp))
}

fn p99(step: &Step) -> (f64, Option<f64>) {
    let published = step.published.iter().filter_map(|row| row.p99_ms);
    (step.result.whole_run.latency_ms.p99, published.min_by(f64::total_cmp))
}
