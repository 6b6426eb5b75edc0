//! Results of a demonstration: as JSON and as a table.

use std::fmt;

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use crate::histograms::Latencies;
use crate::outage::NodesReport;
pub use crate::proc_stats::Machine;
use crate::run::Measured;

/// Serializes a figure as `null` if the switch's process is not known.
fn counted<S: Serializer>(figure: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    (0.0 < *figure).then_some(figure).serialize(serializer)
}

/// Results of a demonstration. Times are in milliseconds, sizes in megabytes of 1,000,000 bytes.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// Committed whole transactions per second, in the measured part.
    pub rate_per_s: f64,
    /// Transactions that did not commit, in the whole run.
    pub failed: u64,
    /// Whether all checks of ledger, notices and log passed.
    pub verified: bool,
    /// Latency of committed transactions, from the (intended) start to the payer's notice.
    pub latency_ms: Latency,
    /// The same by leg.
    pub legs_ms: Legs,
    /// CPU time of the switch per committed transaction; `null` in JSON if it was not counted.
    #[serde(serialize_with = "counted")]
    pub switch_cpu_ms_per_tx: f64,
    /// Maximum resident size of the switch; `null` in JSON if it was not measured.
    #[serde(serialize_with = "counted")]
    pub switch_rss_mb: f64,
    /// Syncs of the log per committed transaction, if the switch counts them.
    pub syncs_per_tx: Option<f64>,
    /// Bytes of log per committed transaction, if the switch counts them.
    pub log_bytes_per_tx: Option<f64>,
    /// Resources of the switch for a million committed transactions.
    pub cost_per_million: Cost,
    /// The machine of the run.
    pub machine: Machine,
    /// The durability of an acknowledgement.
    pub durability: String,
    /// Whether payees that fulfil with COMMITTED get a confirmation.
    pub confirm_to_payee: bool,
    /// CPU time of simulators and load driver per committed transaction.
    pub simulators_cpu_ms_per_tx: f64,
    /// The share of the measured part in which the processors of the machine had no work, 0 to 1;
    /// `null` in JSON if it is not known.
    pub idle_share: Option<f64>,
    /// Length of the measured part in seconds.
    pub seconds: f64,
    /// Transactions committed in the measured part.
    pub committed: u64,
    /// Transactions committed in the whole run, warm-up included.
    pub committed_in_all: u64,
    /// Transactions in flight (closed loop).
    pub concurrency: Option<usize>,
    /// Transactions offered per second (open loop).
    pub offered_rate_per_s: Option<f64>,
    /// Number of FSPs.
    pub fsps: usize,
    /// Transfer state with which payees fulfilled.
    pub style: String,
    /// FSPIOP version of the FSPs.
    pub fspiop_version: String,
    /// Messages that the FSPs sent again because the switch did not accept them at first.
    pub resent: u64,
    /// Notices the FSPs received more than once.
    pub repeated_notices: u64,
    /// Failures by leg and cause, with an example.
    pub failures: Vec<String>,
    /// Failed checks; empty when verified.
    pub differences: Vec<String>,
    /// Results of several nodes that share a log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesReport>,
}

/// Resources of the switch for a number of transactions. A figure that was not counted is `None`,
/// as are all but the CPU time for several nodes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    /// CPU time, user and system, in seconds.
    pub cpu_s: Option<f64>,
    /// Bytes of log.
    pub log_mb: Option<f64>,
    /// Bytes sent to the disk: log, store and snapshots.
    pub disk_written_mb: Option<f64>,
    /// Bytes received from participants and sent to them.
    pub network_mb: Option<f64>,
}

/// A distribution in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "named by their unit")]
pub struct Latency {
    pub min: f64,
    pub avg: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// A short distribution in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "named by their unit")]
pub struct Percentiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// The legs of a whole transaction.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "named by their unit")]
pub struct Legs {
    pub lookup: Percentiles,
    pub quote: Percentiles,
    pub transfer: Percentiles,
}

impl DemoReport {
    /// Whether nothing failed and all checks passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failed == 0 && self.verified
    }
}

impl Cost {
    /// The cost of a million transactions, from the figures of the measured part.
    pub(crate) fn per_million(measured: &Measured, committed: f64) -> Self {
        let of_one_node = |figure: Option<f64>| figure.filter(|_| measured.nodes.is_none());
        let megabytes = |bytes: f64| bytes / committed;
        let risen = |name| measured.risen(name);
        let read = risen("upesi_socket_read_bytes_total");
        let network = read.zip(risen("upesi_socket_written_bytes_total"));
        let written = measured.hub.map(|figures| figures.disk_written_bytes as f64);
        Self {
            cpu_s: measured.hub.map(|figures| figures.cpu.as_secs_f64() * 1e6 / committed),
            log_mb: of_one_node(risen("upesi_log_bytes_total")).map(megabytes),
            disk_written_mb: of_one_node(written).map(megabytes),
            network_mb: of_one_node(network.map(|(read, sent)| read + sent)).map(megabytes),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.cpu_s, "CPU s"),
            (self.log_mb, "MB of log"),
            (self.disk_written_mb, "MB written to disk"),
            (self.network_mb, "MB of network"),
        ];
        let known = parts.into_iter().filter_map(|(figure, unit)| Some((figure?, unit)));
        let known: Vec<_> = known.map(|(figure, unit)| format!("{figure:.0} {unit}")).collect();
        match known.is_empty() {
            true => f.write_str("not counted"),
            false => write!(f, "{} per million transactions", known.join(", ")),
        }
    }
}

impl Latency {
    pub fn of(micros: &Histogram<u64>) -> Self {
        let at = |quantile| micros.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            min: if micros.is_empty() { 0.0 } else { micros.min() as f64 / 1e3 },
            avg: micros.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: micros.max() as f64 / 1e3,
        }
    }
}

impl Percentiles {
    fn of(micros: &Histogram<u64>) -> Self {
        let Latency { p50, p95, p99, .. } = Latency::of(micros);
        Self { p50, p95, p99 }
    }
}

impl Legs {
    pub fn of(latencies: &Latencies) -> Self {
        Self {
            lookup: Percentiles::of(&latencies.lookup),
            quote: Percentiles::of(&latencies.quote),
            transfer: Percentiles::of(&latencies.transfer),
        }
    }
}

impl fmt::Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency { min, avg, p50, p90, p95, p99, p999, max } = self.latency_ms;
        let load = match (self.offered_rate_per_s, self.concurrency) {
            (Some(rate), _) => format!("open loop, {rate}/s offered"),
            (None, Some(concurrency)) => format!("closed loop, {concurrency} in flight"),
            (None, None) => "none".to_owned(),
        };
        writeln!(f, "load            {load}, {} FSPs, {:.1} s", self.fsps, self.seconds)?;
        writeln!(f, "rate            {:.0} whole transactions/s", self.rate_per_s)?;
        writeln!(f, "committed       {} ({} in all)", self.committed, self.committed_in_all)?;
        writeln!(f, "failed          {}", self.failed)?;
        writeln!(
            f,
            "latency ms      min {min:.2}  avg {avg:.2}  p50 {p50:.2}  p90 {p90:.2}  p95 {p95:.2}  \
             p99 {p99:.2}  p99.9 {p999:.2}  max {max:.2}"
        )?;
        for (name, leg) in [
            ("look-up", self.legs_ms.lookup),
            ("quote", self.legs_ms.quote),
            ("transfer", self.legs_ms.transfer),
        ] {
            let Percentiles { p50, p95, p99 } = leg;
            writeln!(f, "  {name:<13} p50 {p50:.2}  p95 {p95:.2}  p99 {p99:.2}")?;
        }
        writeln!(
            f,
            "switch          {:.3} ms CPU per transaction, {:.0} MB resident at most",
            self.switch_cpu_ms_per_tx, self.switch_rss_mb
        )?;
        if let (Some(syncs), Some(bytes)) = (self.syncs_per_tx, self.log_bytes_per_tx) {
            writeln!(f, "log             {syncs:.3} syncs, {bytes:.0} bytes per transaction")?;
        }
        writeln!(f, "cost            {}", self.cost_per_million)?;
        writeln!(
            f,
            "simulators      {:.3} ms CPU per transaction, {} messages resent, {} notices repeated",
            self.simulators_cpu_ms_per_tx, self.resent, self.repeated_notices
        )?;
        writeln!(
            f,
            "profile         {}; FSPIOP {}, {} style, confirmation to payee {}; no TLS, no JWS",
            self.durability,
            self.fspiop_version,
            self.style,
            if self.confirm_to_payee { "on" } else { "off" }
        )?;
        let Machine { cores, processor, kernel, profile } = &self.machine;
        write!(f, "machine         {cores} cores ({processor}), Linux {kernel}")?;
        match self.idle_share {
            Some(share) => writeln!(f, "; {:.1} % of their time idle", share * 100.0)?,
            None => writeln!(f)?,
        }
        writeln!(f, "build           profile {profile}")?;
        if let Some(nodes) = &self.nodes {
            writeln!(f, "{nodes}")?;
        }
        for failure in &self.failures {
            writeln!(f, "FAILED          {failure}")?;
        }
        for difference in &self.differences {
            writeln!(f, "DIFFERS         {difference}")?;
        }
        writeln!(f, "verified        {}", if self.verified { "yes" } else { "NO" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncounted_figure_is_null() {
        #[derive(Serialize)]
        struct Figure(#[serde(serialize_with = "counted")] f64);
        let json = |figure| serde_json::to_string(&Figure(figure)).expect("a number");
        assert_eq!((json(0.0), json(0.25)), ("null".to_owned(), "0.25".to_owned()));
    }
}
