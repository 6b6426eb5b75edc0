//! `GET /metrics` (hub-semantics 8.3): tables of metrics, and the text that Prometheus reads.
//!
//! A metric is declared once, as a row of a [`metrics!`](crate::metrics!) table: its kind, its
//! name, its help, and the expression that reads its value. The exposition text and the manual page
//! are generated from the rows. [`TABLE`] has the metrics of this crate; those of the node come
//! from [`AdminBackend::metrics`](crate::AdminBackend::metrics).
//!
//! Each value writes its own samples ([`MetricValue`]). A value without a sample leaves its
//! metric out. A value with labels, or a histogram, writes several samples in the same way.

use std::fmt::{self, Display, Write};
use std::fs;
use std::time::Duration;

use ledger::Stamp;
use rustix::time::{ClockId, clock_gettime};

use crate::reports::{DiskStatus, Health, Snapshots};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, unnamed_response};

routes! {
    "/metrics" {
        read GET metrics = show, "Show metrics" {
            responses: [200: MetricsText = "Counters and gauges in the Prometheus text format."],
        }
    }
}

unnamed_response! {
    /// The Prometheus text format.
    struct MetricsText = "text/plain", schema::any_text()
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only increases.
    Counter,
    /// Current value.
    Gauge,
}

impl Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        })
    }
}

/// The description of a metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricFamily {
    /// Its type.
    pub kind: MetricKind,
    /// Its name.
    pub name: &'static str,
    /// Its meaning, in one sentence.
    pub help: &'static str,
}

impl MetricFamily {
    /// The unit that its name ends in, before `_total`; a count has none.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let words = || self.name.split('_');
        let units = ["bytes", "seconds", "milliseconds", "hours"];
        units.into_iter().find(|unit| words().any(|word| word == *unit)).unwrap_or_default()
    }
}

/// A row of a table: a metric, and the function that reads its value from `N`.
pub struct Metric<N> {
    /// The metric.
    pub family: MetricFamily,
    /// Writes its samples.
    pub sample: fn(&N, &mut SampleWriter<'_>),
}

/// Makes a table of metrics. The name before `:` is bound to the source of the values.
///
/// ```
/// struct Now {
///     requests: u64,
/// }
/// static TABLE: &[operations::Metric<Now>] = operations::metrics! { now: Now;
///     Counter "requests_total" "Requests." now.requests;
/// };
/// let mut text = String::new();
/// operations::write_metrics(TABLE, &Now { requests: 3 }, &mut text);
/// let expected = "# HELP requests_total Requests.\n# TYPE requests_total counter\n";
/// assert_eq!(text, format!("{expected}requests_total 3\n"));
/// ```
#[macro_export]
macro_rules! metrics {
    ($now:ident: $source:ty; $($kind:ident $name:literal $help:literal $value:expr;)*) => {
        &[$($crate::Metric {
            family: $crate::MetricFamily {
                kind: $crate::MetricKind::$kind,
                name: $name,
                help: $help,
            },
            sample: |$now: &$source, samples| $crate::MetricValue::write(&$value, samples),
        }),*]
    };
}

/// Writes the samples of a table.
pub fn write_metrics<N>(table: &[Metric<N>], now: &N, text: &mut String) {
    for Metric { family, sample } in table {
        sample(now, &mut SampleWriter { family, text, has_begun: false });
    }
}

/// Writes the samples of one metric.
pub struct SampleWriter<'a> {
    family: &'a MetricFamily,
    text: &'a mut String,
    has_begun: bool,
}

impl SampleWriter<'_> {
    /// Writes a sample; before the first one, the metric's help and type.
    pub fn add(&mut self, value: impl Display) {
        let MetricFamily { kind, name, help } = self.family;
        let written = match self.has_begun {
            true => Ok(()),
            false => writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}"),
        };
        self.has_begun = true;
        written
            .and_then(|()| writeln!(self.text, "{name} {value}"))
            .expect("writing to memory cannot fail");
    }
}

/// A value of a metric.
pub trait MetricValue {
    /// Writes its samples.
    fn write(&self, samples: &mut SampleWriter<'_>);
}

impl MetricValue for u64 {
    fn write(&self, samples: &mut SampleWriter<'_>) {
        samples.add(self);
    }
}

/// 0 or 1.
impl MetricValue for bool {
    fn write(&self, samples: &mut SampleWriter<'_>) {
        samples.add(u8::from(*self));
    }
}

/// Seconds.
impl MetricValue for Duration {
    fn write(&self, samples: &mut SampleWriter<'_>) {
        samples.add(format_args!("{}.{:09}", self.as_secs(), self.subsec_nanos()));
    }
}

/// Seconds since 1970.
impl MetricValue for Stamp {
    fn write(&self, samples: &mut SampleWriter<'_>) {
        samples.add(format_args!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000));
    }
}

/// `None` has no sample.
impl<T: MetricValue> MetricValue for Option<T> {
    fn write(&self, samples: &mut SampleWriter<'_>) {
        self.iter().for_each(|value| value.write(samples));
    }
}

/// Counters of the admin API's own connections and tokens, since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdminCounters {
    pub(crate) connections_evicted: u64,
    pub(crate) connections_refused: u64,
    pub(crate) tokens_refused: u64,
}

/// Sources of the metrics of this crate.
struct MetricSources {
    snapshots: Snapshots,
    admin: AdminCounters,
    storage: DiskStatus,
    health: Health,
    processor_time: Duration,
    resident_bytes: Option<u64>,
}

/// The metrics of this crate.
static TABLE: &[Metric<MetricSources>] = metrics! { now: MetricSources;
    Gauge "upesi_snapshot_log_index" "Log index of the newest snapshot."
        now.snapshots.files.first().map_or(0, |file| file.log_index);
    Gauge "upesi_snapshot_bytes" "Size of the last snapshot taken." now.snapshots.last_bytes;
    Gauge "upesi_snapshot_milliseconds" "Duration of the last snapshot." now.snapshots.last_millis;
    Counter "upesi_snapshots_taken_total" "Snapshots taken." now.snapshots.taken;
    Counter "upesi_snapshots_failed_total" "Failed snapshots." now.snapshots.failed;

    Counter "upesi_admin_connections_evicted_total"
        "Silent connections to the admin API that were evicted for a new one."
        now.admin.connections_evicted;
    Counter "upesi_admin_connections_refused_total" "Refused connections to the admin API."
        now.admin.connections_refused;
    Counter "upesi_admin_tokens_refused_total" "Requests to the admin API without a valid token."
        now.admin.tokens_refused;

    Gauge "upesi_log_stored_bytes" "Bytes of the log on its disk." now.storage.log_bytes;
    Gauge "upesi_log_archived_bytes" "Bytes of the log in the archive only."
        now.storage.archived_bytes;
    Gauge "upesi_disk_bytes" "Size of the disk of the log." now.storage.disk_bytes;
    Gauge "upesi_disk_free_bytes" "Free bytes on the disk of the log." now.storage.free_bytes;
    Gauge "upesi_disk_status" "Status of the disk of the log: 0 ok, 1 low, 2 critical, 3 full."
        now.storage.fullness as u64;
    Gauge "upesi_storage_failing" "Whether log or store cannot be written or read: 0 or 1."
        now.storage.failing.is_some();
    Gauge "upesi_disk_hours_until_full" "Hours until the disk is full at the last day's growth."
        now.storage.hours_until_full;
    Gauge "upesi_archive_failing" "Whether archiving fails: 0 or 1."
        now.storage.archive.as_ref().map(|task| task.failing.is_some());
    Gauge "upesi_backup_failing" "Whether the backup fails: 0 or 1."
        now.storage.backup.as_ref().map(|task| task.failing.is_some());
    Gauge "upesi_backup_log_index" "Log index of the last record in the backup."
        now.storage.backup.as_ref().map(|task| task.log_index);

    Gauge "upesi_parts_down" "Unhealthy parts, as listed by /health."
        now.health.parts_down();
    Gauge "process_start_time_seconds" "When the process started, in seconds since 1970."
        now.health.started;
    Counter "process_cpu_seconds_total" "Processor time used, in seconds."
        now.processor_time;
    Gauge "process_resident_memory_bytes" "Resident memory, in bytes."
        now.resident_bytes;
};

/// The metrics of this crate, without their values.
pub fn families() -> impl Iterator<Item = MetricFamily> {
    TABLE.iter().map(|metric| metric.family)
}

/// All metrics: those of the node first.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let backend = request.backend;
    let mut text = String::with_capacity(8_192);
    backend.metrics(&mut text);
    let now = MetricSources {
        snapshots: backend.snapshots(),
        admin: request.counters,
        storage: backend.storage(),
        health: backend.health(),
        processor_time: processor_time(),
        resident_bytes: resident_bytes(),
    };
    write_metrics(TABLE, &now, &mut text);
    Ok(AdminResponse::metrics(text))
}

fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// Resident memory as the kernel counts it; `None` if it is not available.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kilobytes * 1_024)
}
