//! The summary of a run in the form of the published one, which is k6's, with the published
//! thresholds.

use std::fmt;

use harness::proc_stats::Origin;
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::load::Measurements;
use super::scheme::{PROCESSES, Usage, shares};
use super::{Flow, PublishedOptions};

/// Part of the iterations and requests that must succeed.
const SUCCESS_MIN: f64 = 0.99;
/// Longest 99th percentiles in milliseconds, by metric.
const LONGEST: [(&str, f64); 5] = [
    ("http_req_duration", 5_000.0),
    ("e2e_time", 15_000.0),
    ("discovery_time", 3_000.0),
    ("quote_time", 3_000.0),
    ("transfer_time", 3_000.0),
];

/// The results of a run.
#[derive(Serialize)]
pub(crate) struct PublishedReport {
    /// As in the published summary.
    test_config: Value,
    results: Value,
    status: &'static str,
    /// As in k6's own summary, with the thresholds.
    metrics: Map<String, Value>,
    /// Resources of each process.
    processes: Map<String, Value>,
    /// Transfers that the hub has committed, with those of the warm-up.
    commits: u64,
    /// Reasons of the first failures.
    failures: Vec<String>,
    /// Whether the run counts.
    pub(crate) valid: bool,
    /// The failed checks.
    pub(crate) invalid_because: Vec<String>,
    /// Thresholds that were missed.
    pub(crate) missed: Vec<String>,
    #[serde(flatten)]
    origin: Origin,
    configuration: PublishedOptions,
}

impl PublishedReport {
    pub(super) fn new(
        options: &PublishedOptions,
        measured: Measurements,
        (usage, commits): (Usage, u64),
        (invalid_because, origin): (Vec<String>, Origin),
    ) -> Self {
        let target = options.target();
        let Measurements { completed, .. } = measured;
        let metrics = metrics(options.flow, target, &measured);
        let duration = (target as f64 / f64::from(options.tps)).ceil();
        let quantile = |metric: &str, name: &str| metrics[metric]["values"][name].clone();
        let (whole, http) = ("e2e_time", "http_req_duration");
        let results = json!({
            "completed_transactions": completed,
            "success_rate": 100.0 * rate(completed, completed + measured.failed),
            "actual_tps": completed as f64 / duration,
            "e2e_time_p95": quantile(whole, "p(95)"), "e2e_time_p99": quantile(whole, "p(99)"),
            "http_req_duration_p95": quantile(http, "p(95)"),
            "http_req_duration_p99": quantile(http, "p(99)"),
        });
        let test_config = json!({
            "target_transactions": target, "target_tps": options.tps, "duration": duration,
            "fsp_pairs": shares(),
        });
        let is_enough = SUCCESS_MIN * target as f64 <= completed as f64;
        Self {
            test_config,
            results,
            status: if is_enough { "PASSED" } else { "FAILED" },
            missed: missed(&metrics),
            metrics,
            processes: processes(&usage, completed),
            commits,
            failures: measured.reasons,
            valid: invalid_because.is_empty(),
            invalid_because,
            origin,
            configuration: options.clone(),
        }
    }
}

fn rate(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// The members of k6's summary.
fn metrics(flow: Flow, target: u64, measured: &Measurements) -> Map<String, Value> {
    let requests = &measured.requests;
    let answered = requests.succeeded + requests.failed;
    let ended = measured.completed + measured.failed;
    let per_second = |count: u64| count as f64 / measured.seconds;
    let counter = |count: u64| {
        let values = json!({ "count": count, "rate": per_second(count) });
        json!({ "type": "counter", "contains": "default", "values": values })
    };
    let ratio = |good: u64, all: u64| {
        let values = json!({ "rate": rate(good, all), "passes": good, "fails": all - good });
        json!({ "type": "rate", "contains": "default", "values": values })
    };
    let mut metrics = Map::new();
    let mut put = |name: &str, metric: Value| drop(metrics.insert(name.to_owned(), metric));
    put("completed_transactions", counter(measured.completed));
    put("failed_transactions", counter(measured.failed));
    put("dropped_iterations", counter(measured.dropped));
    put("iterations", counter(ended));
    put("http_reqs", counter(answered));
    put("success_rate", ratio(measured.completed, ended));
    put("checks", ratio(requests.succeeded, answered));
    put("http_req_failed", ratio(requests.failed, answered));
    put("http_req_duration", trend(&requests.duration));
    put("e2e_time", trend(&measured.whole));
    let legs = [
        ("discovery_time", flow.has_discovery(), &measured.discovery),
        ("quote_time", flow.has_quote() && flow != Flow::Transfers, &measured.quote),
        ("transfer_time", flow.has_transfer(), &measured.transfer),
    ];
    for (name, is_played, times) in legs {
        if is_played {
            put(name, trend(times));
        }
    }
    add_thresholds(&mut metrics, target);
    metrics
}

/// A distribution in milliseconds.
fn trend(micros: &Histogram<u64>) -> Value {
    let at = |quantile| micros.value_at_quantile(quantile) as f64 / 1e3;
    let min = if micros.is_empty() { 0.0 } else { micros.min() as f64 / 1e3 };
    let values = json!({
        "avg": micros.mean() / 1e3, "min": min, "med": at(0.5), "max": micros.max() as f64 / 1e3,
        "p(90)": at(0.9), "p(95)": at(0.95), "p(99)": at(0.99),
    });
    json!({ "type": "trend", "contains": "time", "values": values })
}

/// Adds the published thresholds, and whether each was kept.
fn add_thresholds(metrics: &mut Map<String, Value>, target: u64) {
    let mut put = |name: &str, threshold: String, is_kept: &dyn Fn(&Value) -> bool| {
        let Some(metric) = metrics.get_mut(name) else { return };
        let is_kept = is_kept(&metric["values"]);
        metric["thresholds"] = json!({ threshold: { "ok": is_kept } });
    };
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let least = SUCCESS_MIN * target as f64;
    put("completed_transactions", format!("count>={least}"), &|values| {
        least <= number(&values["count"])
    });
    for name in ["success_rate", "checks"] {
        put(name, format!("rate>{SUCCESS_MIN}"), &|values| SUCCESS_MIN < number(&values["rate"]));
    }
    for (name, longest) in LONGEST {
        put(name, format!("p(99)<{longest}"), &|values| number(&values["p(99)"]) < longest);
    }
}

fn missed(metrics: &Map<String, Value>) -> Vec<String> {
    let thresholds = metrics.iter().flat_map(|(name, metric)| {
        let thresholds = metric["thresholds"].as_object().into_iter().flatten();
        thresholds.map(move |(threshold, result)| (name, threshold, &result["ok"]))
    });
    let missed = thresholds.filter(|(_, _, is_kept)| **is_kept == false);
    missed.map(|(name, threshold, _)| format!("{name}: {threshold}")).collect()
}

/// CPU time per completed iteration, and memory.
fn processes(usage: &Usage, completed: u64) -> Map<String, Value> {
    let shown = PROCESSES.iter().zip(usage).map(|(name, figures)| {
        let cpu = figures.cpu.as_secs_f64() * 1e3 / completed.max(1) as f64;
        let megabytes = figures.resident_bytes_max as f64 / 1e6;
        ((*name).to_owned(), json!({ "cpu_ms_per_tx": cpu, "resident_mb": megabytes }))
    });
    shown.collect()
}

impl fmt::Display for PublishedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, metric) in &self.metrics {
            let values = metric["values"].as_object().into_iter().flatten();
            let values = values.map(|(name, value)| format!("{name}={}", rounded(value)));
            writeln!(f, "{name:<24} {}", values.collect::<Vec<_>>().join("  "))?;
            for (threshold, result) in metric["thresholds"].as_object().into_iter().flatten() {
                let verdict = if result["ok"] == true { "kept" } else { "MISSED" };
                writeln!(f, "{:24} {threshold}: {verdict}", "")?;
            }
        }
        for (name, process) in &self.processes {
            let (cpu, memory) = (&process["cpu_ms_per_tx"], &process["resident_mb"]);
            writeln!(
                f,
                "{name:<24} {} ms CPU per transaction, {} MB resident at most",
                rounded(cpu),
                rounded(memory)
            )?;
        }
        for failure in &self.failures {
            writeln!(f, "FAILED                   {failure}")?;
        }
        for why in &self.invalid_because {
            writeln!(f, "VOID                     {why}")?;
        }
        let summary = json!({
            "test_config": self.test_config, "results": self.results, "status": self.status });
        writeln!(f, "\n=== SUMMARY ===")?;
        write!(f, "{summary:#}")
    }
}

/// Three decimals at most.
fn rounded(value: &Value) -> String {
    match (value.as_u64(), value.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(number)) => format!("{number:.3}"),
        (None, None) => value.to_string(),
    }
}
