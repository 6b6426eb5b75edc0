//! `upesi-bench stream`: consumers and producers on a Kafka broker, in the scenarios of the
//! published benchmark of central-services-stream and some more.

mod chart;
mod event_latency;
mod play;
mod reference;
mod samples;
mod scenarios;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use harness::options::require;
use harness::output::{check_json, check_writable, print_results};
use harness::{HarnessError, Origin};
use kafka_testkit::{Cluster, ClusterOptions};
use serde::{Deserialize, Serialize};
use stream::{Properties, create_topic};
use tokio::runtime::Runtime;
use upesi::CliError;

use self::play::{Faults, Played, Side, play};
use self::reference::{Reference, ReferencePlayed};
use self::scenarios::{PublishedRates, SCENARIOS, Scenario};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi-bench stream                                   all scenarios, on a broker of its own
  upesi-bench stream --scenario s00-01 --scenario s01 --seconds 3
  upesi-bench stream --against reference               each scenario with both libraries
  upesi-bench stream --brokers 127.0.0.1:9092 --json stream.json
  upesi-bench stream --json stream.json --resume --svg stream.svg
  upesi-bench stream --brokers 127.0.0.1:9092 --event-latency upesi-events";

/// Options of `stream`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct StreamOptions {
    /// Addresses of brokers to use, HOST:PORT,HOST:PORT [default: starts one].
    #[arg(long, value_name = "ADDRESSES")]
    brokers: Option<String>,
    /// Play only this scenario; can be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Duration of sending in each scenario.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Play each scenario with this library too, on the same broker.
    #[arg(long, value_name = "LIBRARY")]
    against: Option<Against>,
    /// Write the results as JSON, to standard output or to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<Option<PathBuf>>,
    /// Keep the scenarios in the file of --json, and play only the others.
    #[arg(long, requires = "json")]
    resume: bool,
    /// Write the rates as a chart to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Only measure how late a hub's events in this topic reach a consumer.
    #[arg(long, value_name = "TOPIC", requires = "brokers")]
    event_latency: Option<String>,
}

/// A library to compare with.
#[derive(Clone, Copy, Debug, clap::ValueEnum, Serialize)]
enum Against {
    /// central-services-stream of the reference, in Node.js; installed with npm.
    Reference,
}

/// The results of all scenarios.
#[derive(Serialize)]
struct StreamReport<'a> {
    scenarios: Vec<Row>,
    #[serde(flatten)]
    origin: Origin,
    configuration: &'a StreamOptions,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    differs: &'static str,
    #[serde(flatten)]
    played: Played,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<ReferencePlayed>,
    published: PublishedRates,
}

/// Results of an earlier run.
#[derive(Deserialize)]
struct EarlierReport {
    scenarios: Vec<EarlierRow>,
}

#[derive(Deserialize)]
struct EarlierRow {
    name: String,
    #[serde(flatten)]
    played: Played,
    reference: Option<ReferencePlayed>,
}

impl Row {
    fn new(scenario: &Scenario, played: Played, reference: Option<ReferencePlayed>) -> Self {
        let Scenario { name, differs, published, .. } = *scenario;
        Self { name, differs, played, reference, published }
    }
}

/// Plays the scenarios and prints the results.
pub(crate) fn bench(options: &StreamOptions) -> Result<(), CliError> {
    let failed = |error: HarnessError| CliError::new(error.to_string());
    let is_positive = options.seconds.is_finite() && 0.0 < options.seconds;
    require(is_positive, "--seconds must be above 0").map_err(failed)?;
    check_json(options.json.as_ref()).map_err(failed)?;
    if let Some(path) = &options.svg {
        check_writable(path).map_err(failed)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::new(error.to_string()))?;
    let time = Duration::from_secs_f64(options.seconds);
    if let (Some(topic), Some(brokers)) = (&options.event_latency, &options.brokers) {
        let measured = runtime.block_on(event_latency::measure(brokers, topic, time));
        let measured = measured.map_err(|error| CliError::new(error.to_string()))?;
        return print_results(&measured, options.json.as_ref()).map_err(failed);
    }
    let mut scenarios = selected(&options.scenario)?;
    let mut rows = match (&options.json, options.resume) {
        (Some(Some(path)), true) => earlier(path)?,
        _ => Vec::new(),
    };
    scenarios.retain(|scenario| rows.iter().all(|row| row.name != scenario.name));
    rows.extend(play_with(options, &scenarios, time, &runtime)?);
    let place = |row: &Row| SCENARIOS.iter().position(|scenario| scenario.name == row.name);
    rows.sort_by_key(place);
    report(options, rows)
}

/// Prints and writes the results. A run with faults fails.
fn report(options: &StreamOptions, rows: Vec<Row>) -> Result<(), CliError> {
    let failed = |error: HarnessError| CliError::new(error.to_string());
    let faulty = rows.iter().find(|row| row.played.faults != Faults::default());
    let verdict = faulty.map(|row| format!("{}: {:?}", row.name, row.played.faults));
    let report =
        StreamReport { scenarios: rows, origin: Origin::here(None), configuration: options };
    print_results(&report, options.json.as_ref()).map_err(failed)?;
    if let Some(path) = &options.svg {
        let chart = chart::rates(&report.tables());
        std::fs::write(path, chart)
            .map_err(|error| CliError::new(format!("{}: {error}", path.display())))?;
    }
    verdict.map_or(Ok(()), |faults| Err(CliError::new(format!("run: VOID: {faults}"))))
}

/// The scenarios of an earlier run.
fn earlier(path: &Path) -> Result<Vec<Row>, CliError> {
    let failed = |error: String| CliError::new(format!("{}: {error}", path.display()));
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error.to_string())),
    };
    let report: EarlierReport =
        serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
    let row = |EarlierRow { name, played, reference }: EarlierRow| {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
        let unknown = || failed(format!("unknown scenario {name}"));
        Ok(Row::new(scenario.ok_or_else(unknown)?, played, reference))
    };
    report.scenarios.into_iter().map(row).collect()
}

fn play_with(
    options: &StreamOptions,
    scenarios: &[&'static Scenario],
    time: Duration,
    runtime: &Runtime,
) -> Result<Vec<Row>, CliError> {
    if scenarios.is_empty() {
        return Ok(Vec::new());
    }
    let reference = options.against.map(|Against::Reference| Reference::install()).transpose()?;
    let broker = match options.brokers {
        Some(_) => None,
        None => Some(Broker::start()?),
    };
    let brokers = options.brokers.as_deref().or(broker.as_ref().map(Broker::address));
    let brokers = brokers.expect("one of them is given");
    play_all(scenarios, brokers, time, (runtime, reference.as_ref()))
}

/// A broker of this run, and its directory.
struct Broker {
    cluster: Cluster,
    _directory: tempfile::TempDir,
}

impl Broker {
    fn start() -> Result<Self, CliError> {
        let failed = |error: String| CliError::new(error);
        let directory = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
        let options = ClusterOptions::new(1, directory.path());
        let interrupted = directory.path().to_owned();
        // Its processes and files outlive an interrupted run otherwise.
        harness::end_when_interrupted(move || {
            let _stopped = kafka_testkit::stop(&interrupted);
            let _removed = std::fs::remove_dir_all(&interrupted);
        });
        let cluster = Cluster::start(options, &mut |line| eprintln!("kafka: {line}"));
        let cluster = cluster.map_err(|error| failed(error.to_string()))?;
        Ok(Self { cluster, _directory: directory })
    }

    fn address(&self) -> &str {
        self.cluster.bootstrap()
    }
}

fn selected(names: &[String]) -> Result<Vec<&'static Scenario>, CliError> {
    if names.is_empty() {
        return Ok(SCENARIOS.iter().collect());
    }
    let find = |name: &String| SCENARIOS.iter().find(|scenario| scenario.name == *name);
    let known: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    let unknown =
        |name| CliError::new(format!("--scenario {name}: unknown; there are {}", known.join(", ")));
    names.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect()
}

/// Plays each scenario, and directly after it the reference's equivalent, if there is one.
fn play_all(
    scenarios: &[&'static Scenario],
    brokers: &str,
    time: Duration,
    (runtime, reference): (&Runtime, Option<&Reference>),
) -> Result<Vec<Row>, CliError> {
    let failed = |error: stream::StreamError| CliError::new(error.to_string());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut rows = Vec::new();
    for &scenario in scenarios {
        eprintln!("plays {} ({} of {})", scenario.name, rows.len() + 1, scenarios.len());
        let topic = format!("bench-{}-{}", since.as_secs(), scenario.name);
        let played = runtime.block_on(play(scenario, brokers, &topic, time)).map_err(failed)?;
        let topic = format!("{topic}-reference");
        let reference = match reference {
            None => None,
            Some(reference) => {
                let plain = Properties::new();
                let created = create_topic(brokers, &plain, &topic, scenario.partitions, 1);
                runtime.block_on(created).map_err(failed)?;
                reference.play(scenario, (brokers, &topic), time)?
            }
        };
        rows.push(Row::new(scenario, played, reference));
    }
    Ok(rows)
}

/// One side of all scenarios as a table.
struct SideTable<'a> {
    rows: &'a [Row],
    heading: &'static str,
    ours: fn(&Played) -> &Side,
    reference: fn(&ReferencePlayed) -> &Side,
    published: fn(&PublishedRates) -> Option<u32>,
}

impl fmt::Display for SideTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16}{:>9}{:>11}{:>7}{:>11}{:>9}{:>9}{:>9}{:>8}{:>9}  difference from s00-01",
            self.heading,
            "msg/s",
            "reference",
            "ratio",
            "published",
            "p50 us",
            "p99 us",
            "p99.9",
            "CPU us",
            "ref. CPU"
        )?;
        let whole = |figure: Option<f64>| match figure {
            Some(figure) => format!("{figure:.0}"),
            None => "-".to_owned(),
        };
        for row in self.rows {
            let ours = (self.ours)(&row.played);
            let reference = row.reference.as_ref().map(self.reference);
            let ratio = reference.map(|reference| ours.per_s / reference.per_s);
            writeln!(
                f,
                "{:<16}{:>9.0}{:>11}{:>7}{:>11}{:>9.0}{:>9.0}{:>9.0}{:>8.1}{:>9}  {}",
                row.name,
                ours.per_s,
                whole(reference.map(|it| it.per_s)),
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1}")),
                whole((self.published)(&row.published).map(f64::from)),
                ours.p50_us,
                ours.p99_us,
                ours.p999_us,
                ours.cpu_us,
                whole(reference.map(|it| it.cpu_us)),
                row.differs,
            )?;
        }
        Ok(())
    }
}

impl StreamReport<'_> {
    /// The producers and the consumers.
    fn tables(&self) -> [SideTable<'_>; 2] {
        let producers = SideTable {
            rows: &self.scenarios,
            heading: "producer",
            ours: |played| &played.producer,
            reference: |played| &played.producer,
            published: |rates| rates.producer,
        };
        let consumers = SideTable {
            heading: "consumer",
            ours: |played| &played.consumer,
            reference: |played| &played.consumer,
            published: |rates| rates.consumer,
            ..producers
        };
        [producers, consumers]
    }
}

impl fmt::Display for StreamReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [producers, consumers] = self.tables();
        writeln!(f, "{producers}\n{consumers}")?;
        for row in &self.scenarios {
            let Played { dead_letters, handled_again, resident_mb, .. } = row.played;
            if 0 < dead_letters + handled_again {
                writeln!(
                    f,
                    "{}: {dead_letters} dead letters, {handled_again} handled again",
                    row.name
                )?;
            }
            if row.name == "x-slow" {
                writeln!(f, "x-slow: {resident_mb} MB resident at its end")?;
            }
        }
        write!(f, "Every message arrived once and in order, unless the run is VOID.")
    }
}
