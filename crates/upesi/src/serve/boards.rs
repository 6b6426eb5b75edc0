//! The Grafana boards of `deploy/grafana`, generated from declarations.
//!
//! Each board is declared in a module; [`grafana`] writes it as JSON. The tests compare the
//! files with the declarations, and the names in the queries with the tables of metrics and with
//! the recording rules. `UPDATE_EXPECT=1` writes the files.

mod cluster;
mod grafana;
mod liquidity_and_settlement;
mod log_and_storage;
mod overview;
mod participant;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use metrics::MetricKind;

use super::metrics::tests::all;
/// A board.
struct Board {
    /// The name of its file.
    name: &'static str,
    title: &'static str,
    help: &'static str,
    variables: &'static [Variable],
    sections: Vec<Section>,
}

/// A variable that the reader chooses.
enum Variable {
    Node,
    Participant,
    Currency,
}

fn boards() -> [Board; 5] {
    [
        overview::board(),
        participant::board(),
        liquidity_and_settlement::board(),
        log_and_storage::board(),
        cluster::board(),
    ]
}

/// A row of panels under a title.
struct Section {
    title: &'static str,
    panels: Vec<Panel>,
}

/// How a panel shows its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PanelKind {
    /// Lines over time.
    Lines,
    /// The last value of each query.
    Number,
    /// The last values of one query as rows, the largest first.
    Ranking,
}

/// One query.
#[derive(Clone)]
struct Query {
    /// PromQL. `@job` is replaced by the selection of the job, `@node`, `@participant` and
    /// `@currency` by that with nodes, a participant or a currency, `@rate` by the interval for
    /// rates.
    expression: String,
    /// The name of the lines, with `{{label}}`.
    legend: &'static str,
}

/// A panel.
struct Panel {
    kind: PanelKind,
    title: &'static str,
    /// Its description, in one or two sentences.
    help: &'static str,
    unit: Unit,
    queries: Vec<Query>,
    /// Values from which a number is shown in yellow and in red.
    limits: Option<(f64, f64)>,
    exemplars: Exemplars,
    width: Width,
}

/// Whether a panel shows traces of examples.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exemplars {
    Shown,
    None,
}

/// The width of a panel, in 24 columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Narrow = 4,
    Third = 8,
    Half = 12,
    Full = 24,
}

/// Units, as Grafana names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    PerSecond,
    RequestsPerSecond,
    Seconds,
    Share,
    Bytes,
    BytesPerSecond,
    /// An amount of money.
    Amount,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::Count => "short",
            Self::PerSecond => "cps",
            Self::RequestsPerSecond => "reqps",
            Self::Seconds => "s",
            Self::Share => "percentunit",
            Self::Bytes => "decbytes",
            Self::BytesPerSecond => "Bps",
            Self::Amount => "short",
        }
    }
}

fn query(expression: impl Into<String>, legend: &'static str) -> Query {
    Query { expression: expression.into(), legend }
}

/// A percentile of a histogram, from classic buckets, which every Prometheus has. `cells` joins the
/// series, such as `sum by (le)`.
fn percentile(percent: u32, histogram: &str, (cells, of): (&str, &str)) -> String {
    let share = f64::from(percent) / 100.0;
    format!("histogram_quantile({share}, {cells} (rate({histogram}_bucket{{{of}}}[@rate])))")
}

/// The median and two percentiles.
fn percentiles(histogram: &str, of: (&str, &str)) -> [Query; 3] {
    [(50, "half"), (95, "95 %"), (99, "99 %")]
        .map(|(percent, legend)| query(percentile(percent, histogram, of), legend))
}

impl Panel {
    fn new(kind: PanelKind, title: &'static str, unit: Unit, queries: Vec<Query>) -> Self {
        let width = match kind {
            PanelKind::Number => Width::Narrow,
            PanelKind::Lines | PanelKind::Ranking => Width::Half,
        };
        let (limits, exemplars) = (None, Exemplars::None);
        Self { kind, title, help: "", unit, queries, limits, exemplars, width }
    }

    fn lines(title: &'static str, unit: Unit, queries: impl Into<Vec<Query>>) -> Self {
        Self::new(PanelKind::Lines, title, unit, queries.into())
    }

    fn number(title: &'static str, unit: Unit, expression: impl Into<String>) -> Self {
        Self::new(PanelKind::Number, title, unit, vec![query(expression, "")])
    }

    fn ranking(title: &'static str, unit: Unit, found: Query) -> Self {
        Self::new(PanelKind::Ranking, title, unit, vec![found])
    }

    fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    fn yellow_and_red(mut self, yellow: f64, red: f64) -> Self {
        self.limits = Some((yellow, red));
        self
    }

    fn exemplars(mut self) -> Self {
        self.exemplars = Exemplars::Shown;
        self
    }

    fn width(mut self, width: Width) -> Self {
        self.width = width;
        self
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana/dashboards")
}

fn panels(board: &Board) -> impl Iterator<Item = &Panel> {
    board.sections.iter().flat_map(|section| &section.panels)
}

/// UPDATE_EXPECT=1 writes the files.
#[test]
fn files_are_those_of_the_declarations() {
    let mut files = BTreeSet::new();
    for board in boards() {
        let file = format!("{}.json", board.name);
        expect_file![directory().join(&file)].assert_eq(&grafana::json(&board));
        files.insert(file);
    }
    let found = directory().read_dir().unwrap().map(|it| it.unwrap().file_name());
    let found: BTreeSet<_> = found.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(found, files, "no other board");
}

/// The words of an expression that can be names of metrics or of recording rules.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    expression.split(move |c| !is_part(c))
}

#[test]
fn queries_name_metrics_and_rules_that_exist() {
    let rules = std::fs::read_to_string(directory().join("../../prometheus/rules.yaml")).unwrap();
    let rules: BTreeSet<_> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect();
    let mut known: BTreeSet<String> = rules.into_iter().map(str::to_owned).collect();
    for metric in all() {
        match metric.kind {
            MetricKind::Histogram | MetricKind::CoarseHistogram => {
                known.extend(["bucket", "count", "sum"].map(|it| format!("{}_{it}", metric.name)));
            }
            MetricKind::Counter | MetricKind::Gauge => _ = known.insert(metric.name.to_owned()),
        }
    }
    let is_ours = |word: &&str| ["upesi", "process_"].iter().any(|it| word.starts_with(it));
    for board in boards() {
        for (panel, query) in panels(&board).flat_map(|it| it.queries.iter().map(move |q| (it, q)))
        {
            let unknown: Vec<_> = words(&query.expression)
                .filter(is_ours)
                .filter(|it| !known.contains(*it))
                .collect();
            assert!(unknown.is_empty(), "{}, {}: {unknown:?}", board.name, panel.title);
            assert!(
                words(&query.expression).any(|word| known.contains(word) || word == "up"),
                "{}: {}",
                panel.title,
                query.expression
            );
        }
    }
}

#[test]
fn every_panel_has_its_description_and_its_own_title() {
    for board in boards() {
        let mut titles = BTreeSet::new();
        for Panel { title, help, queries, kind, .. } in panels(&board) {
            assert!(titles.insert(title), "{}: {title} twice", board.name);
            assert!(help.ends_with('.') && 20 <= help.len(), "{}, {title}: {help:?}", board.name);
            let named = queries.iter().all(|query| !query.legend.is_empty());
            assert!(named || *kind == PanelKind::Number, "{}, {title}: no legend", board.name);
        }
        assert!(!titles.is_empty(), "{}", board.name);
    }
}
