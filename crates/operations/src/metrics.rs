//! `GET /metrics` (hub-semantics 8.3), in the format that the client prefers ([`Exposition`]).
//!
//! [`TABLE`] has the metrics of this crate; those of the node come from
//! [`AdminBackend::metrics`](crate::AdminBackend::metrics). The manual page is generated from the
//! rows.

use std::time::Duration;

use http::header::ACCEPT;
use metrics::{Exposition, Labels, Metric, MetricFamily, Number, metrics};

use crate::admin_requests::AdminRequests;
use crate::audit_trail::AuditCounts;
use crate::process_status::ProcessStatus;
use crate::reports::{Cluster, ClusterNode, DiskStatus, Health, Snapshots};
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
    pub(crate) permissions_missing: u64,
    pub(crate) break_glass_uses: u64,
    pub(crate) audit: AuditCounts,
    pub(crate) addresses_refused: u64,
}

/// Sources of the metrics of this crate.
struct MetricSources {
    snapshots: Snapshots,
    admin: AdminCounters,
    requests: AdminRequests,
    storage: DiskStatus,
    health: Health,
    /// `None` on an embedded log.
    cluster: Option<Cluster>,
    process: ProcessStatus,
}

impl MetricSources {
    fn build_info(&self) -> Vec<(Labels, Number)> {
        let labels = vec![
            ("version", self.health.version.into()),
            ("rules", ledger::RULES_VERSION.to_string().into()),
        ];
        vec![(labels, Number::Integer(1))]
    }

    fn cluster<T>(&self, value: fn(&Cluster) -> T) -> Option<T> {
        self.cluster.as_ref().map(value)
    }

    /// A value of each live node.
    fn nodes(&self, value: fn(&ClusterNode) -> Number) -> Vec<(Labels, Number)> {
        let nodes = self.cluster.iter().flat_map(|cluster| &cluster.nodes);
        nodes.map(|node| (vec![("node", node.name.clone().into())], value(node))).collect()
    }
}

fn milliseconds(value: u64) -> Number {
    Number::Seconds(Duration::from_millis(value))
}

/// The metrics of this crate.
static TABLE: &[Metric<MetricSources>] = metrics! { now: MetricSources;
    Gauge "upesi_snapshot_log_index" "Log index of the newest snapshot."
        now.snapshots.files.first().map_or(0, |file| file.log_index);
    Gauge "upesi_snapshot_bytes" "Size of the last snapshot taken." now.snapshots.last_bytes;
    Gauge "upesi_snapshot_seconds" "Duration of the last snapshot."
        Duration::from_millis(now.snapshots.last_millis);
    Counter "upesi_snapshots_taken_total" "Snapshots taken." now.snapshots.taken;
    Counter "upesi_snapshots_failed_total" "Failed snapshots." now.snapshots.failed;

    Counter "upesi_admin_connections_evicted_total"
        "Silent connections to the admin API that were evicted for a new one."
        now.admin.connections_evicted;
    Counter "upesi_admin_connections_refused_total" "Refused connections to the admin API."
        now.admin.connections_refused;
    Counter "upesi_admin_tokens_refused_total" "Requests to the admin API without a valid token."
        now.admin.tokens_refused;
    Counter "upesi_admin_permissions_missing_total"
        "Requests to the admin API whose sender lacks the permission."
        now.admin.permissions_missing;
    Counter "upesi_admin_break_glass_total"
        "Uses of the shared token of the admin API where operators have roles."
        now.admin.break_glass_uses;
    Counter "upesi_admin_audit_records_total"
        "Records of requests to the admin API that made no change."
        now.admin.audit.records;
    Counter "upesi_admin_audit_summarized_total"
        "Refused requests to the admin API that share a record with others."
        now.admin.audit.summarized;
    Counter "upesi_admin_audit_unrecorded_total"
        "Requests to the admin API that are in the audit stream only, because the log had no room."
        now.admin.audit.unrecorded;
    Counter "upesi_admin_address_refused_total"
        "Requests to the admin API beyond the rate or the concurrency of their address."
        now.admin.addresses_refused;
    Histogram "upesi_admin_request_seconds"
        "Requests to the admin API, from the end of their head to the response."
        now.requests.times;
    Counter "upesi_admin_requests_total" "Requests to the admin API, by status."
        now.requests.counts;

    Gauge "upesi_log_stored_bytes" "Bytes of the log on its disk." now.storage.log_bytes;
    Gauge "upesi_log_archived_bytes" "Bytes of the log in the archive only."
        now.storage.archived_bytes;
    Gauge "upesi_disk_bytes" "Size of the disk of the log." now.storage.disk_bytes;
    Gauge "upesi_disk_free_bytes" "Free bytes on the disk of the log." now.storage.free_bytes;
    Gauge "upesi_disk_status" "Status of the disk of the log: 0 ok, 1 low, 2 critical, 3 full."
        now.storage.fullness as u64;
    Gauge "upesi_storage_failing" "Whether log or store cannot be written or read: 0 or 1."
        now.storage.failing.is_some();
    Gauge "upesi_disk_full_in_seconds" "Time until the disk is full at the last day's growth."
        now.storage.hours_until_full.map(|hours| hours.saturating_mul(3_600));
    Gauge "upesi_archive_failing" "Whether archiving fails: 0 or 1."
        now.storage.archive.as_ref().map(|task| task.failing.is_some());
    Gauge "upesi_backup_failing" "Whether the backup fails: 0 or 1."
        now.storage.backup.as_ref().map(|task| task.failing.is_some());
    Gauge "upesi_backup_log_index" "Log index of the last record in the backup."
        now.storage.backup.as_ref().map(|task| task.log_index);
    Gauge "upesi_encryption_failing" "Whether no new data key can be made: 0 or 1."
        now.storage.encryption.as_ref().map(|task| task.failing.is_some());
    Gauge "upesi_chain_heads_failing" "Whether no signed chain head can be published: 0 or 1."
        now.storage.chain_heads.as_ref().map(|task| task.failing.is_some());
    Gauge "upesi_chain_head_log_index" "Log index of the last published chain head."
        now.storage.chain_heads.as_ref().map(|task| task.log_index);

    Gauge "upesi_cluster_nodes" "Live nodes of the cluster."
        now.cluster(|cluster| cluster.nodes.len() as u64);
    Gauge "upesi_cluster_behind_records"
        "Messages of the topic that this node has not applied, as of its last poll."
        now.cluster(|cluster| cluster.behind);
    Gauge "upesi_cluster_broker_silence_seconds" "Time since the brokers delivered a message."
        now.cluster(|cluster| Duration::from_millis(cluster.unheard_ms));
    Gauge "upesi_cluster_foreign_messages" "Foreign messages read in the topic since the start."
        now.cluster(|cluster| cluster.foreign);
    Gauge "upesi_node_log_index" "Log index of the last record that a node has applied."
        now.nodes(|node| Number::Integer(node.log_index.into()));
    Gauge "upesi_node_silence_seconds" "Time since the last write of a node."
        now.nodes(|node| milliseconds(node.silent_ms));
    Gauge "upesi_node_contradicts" "Whether the state of a node differs from this one: 0 or 1."
        now.nodes(|node| Number::Integer(node.contradicts_at.is_some().into()));

    Gauge "upesi_parts_down" "Unhealthy parts, as listed by /health."
        now.health.parts_down();
    Gauge "upesi_build_info" "Version of the program and of the rules that it writes; always 1."
        now.build_info();
    Gauge "process_start_time_seconds" "When the process started, in seconds since 1970."
        Duration::from_micros(now.health.started.0);
    Counter "process_cpu_seconds_total" "Processor time used, in seconds."
        now.process.processor_time;
    Gauge "process_resident_memory_bytes" "Resident memory, in bytes."
        now.process.resident_bytes;
    Gauge "process_virtual_memory_bytes" "Virtual memory, in bytes." now.process.virtual_bytes;
    Gauge "process_open_fds" "Open file descriptors." now.process.open_descriptors;
    Gauge "process_max_fds" "Maximum number of open file descriptors."
        now.process.descriptors_max;
    Gauge "process_threads" "Threads of the process." now.process.threads;
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
        requests: request.times.values(),
        storage: backend.storage(),
        health: backend.health(),
        cluster: Some(backend.cluster()).filter(|cluster| !cluster.nodes.is_empty()),
        process: ProcessStatus::read(),
    };
    metrics::collect(TABLE, &now, &mut families);
    let accept = request.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Exposition::negotiate(accept.unwrap_or_default());
    Ok(AdminResponse::metrics(format.content_type(), format.encode(&families)))
}
