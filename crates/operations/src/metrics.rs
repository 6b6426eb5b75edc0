//! `GET /metrics` (hub-semantics 8.3), in the format that the client prefers ([`Exposition`]).
//!
//! [`TABLE`] has the metrics of this crate; those of the node come from
//! [`AdminBackend::metrics`](crate::AdminBackend::metrics). The manual page is generated from the
//! rows.

use std::fs;
use std::time::Duration;

use http::header::ACCEPT;
use metrics::{Exposition, Metric, MetricFamily, metrics};
use rustix::time::{ClockId, clock_gettime};

use crate::reports::{DiskStatus, Health, Snapshots};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, unnamed_response};

routes! {
    "/metrics" {
        read GET metrics = show, "Show metrics" {
            text: "\
                `Accept` selects the Prometheus text format, OpenMetrics with exemplars, or \
                protobuf with native histograms.",
            responses: [200: MetricsText = "Metrics in the Prometheus text format, or another."],
        }
    }
}

unnamed_response! {
    /// The Prometheus text format.
    struct MetricsText = "text/plain", schema::any_text()
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
        Duration::from_micros(now.health.started.0);
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
    let mut families = backend.metrics();
    let now = MetricSources {
        snapshots: backend.snapshots(),
        admin: request.counters,
        storage: backend.storage(),
        health: backend.health(),
        processor_time: processor_time(),
        resident_bytes: resident_bytes(),
    };
    metrics::collect(TABLE, &now, &mut families);
    let accept = request.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Exposition::negotiate(accept.unwrap_or_default());
    Ok(AdminResponse::metrics(format.content_type(), format.encode(&families)))
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
