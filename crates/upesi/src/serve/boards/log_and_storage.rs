//! The board of the log, the cold store, snapshots, backups and the disk of each node.

use super::Unit::{Bytes, BytesPerSecond, Count, PerSecond, Seconds, Share};
use super::Width::Third;
use super::{Board, Panel, Section, Variable, percentile, query};

pub(super) fn board() -> Board {
    Board {
        name: "log-and-storage",
        title: "Upesi: log and storage",
        help: "The log, the cold store, snapshots, backups and the disk of each node.",
        variables: &[Variable::Node],
        sections: vec![
            Section { title: "Now", panels: now() },
            Section { title: "Log", panels: log() },
            Section { title: "Disk", panels: disk() },
            Section { title: "Store, snapshots and backups", panels: copies() },
        ],
    }
}

fn now() -> Vec<Panel> {
    vec![
        Panel::number("Disk status", Count, "max(upesi_disk_status{@node})")
            .help("The worst disk: 0 ok, 1 low, 2 critical, 3 full.")
            .yellow_and_red(1.0, 2.0),
        Panel::number(
            "Disk used",
            Share,
            "max(1 - upesi_disk_free_bytes{@node} / upesi_disk_bytes{@node})",
        )
        .help("The fullest disk. When it is full, commands are refused with 503.")
        .yellow_and_red(0.9, 0.95),
        Panel::number("Storage failing", Count, "sum(upesi_storage_failing{@node})")
            .help(
                "Nodes whose log or store cannot be read or written. GET /storage has the reason.",
            )
            .yellow_and_red(1.0, 1.0),
        Panel::number(
            "Failed snapshots",
            Count,
            "sum(increase(upesi_snapshots_failed_total{@node}[1h]))",
        )
        .help("Snapshots that failed in the last hour. GET /snapshots has the reason.")
        .yellow_and_red(1.0, 2.0),
        Panel::number(
            "Since the snapshot",
            Count,
            "max(upesi_log_index{@node} - upesi_snapshot_log_index{@node})",
        )
        .help("Records that a start would replay, of the node with the oldest snapshot.")
        .yellow_and_red(5e6, 2e7),
        Panel::number(
            "Not in the store",
            Count,
            "max(upesi_log_index{@node} - upesi_store_log_index{@node})",
        )
        .help("Records whose rows the cold store does not have yet, of the slowest node.")
        .yellow_and_red(1e6, 5e6),
    ]
}

fn log() -> Vec<Panel> {
    let by_node = ("sum by (instance, le)", "@node");
    let lines = |histogram| [query(percentile(99, histogram, by_node), "{{instance}}")];
    let per_second =
        |counter: &str| [query(format!("rate({counter}{{@node}}[@rate])"), "{{instance}}")];
    let records = "rate(upesi_records_total{@node}[@rate]) \
                   / rate(upesi_batches_total{@node}[@rate])";
    vec![
        Panel::lines("Time of a sync", Seconds, lines("upesi_log_sync_seconds"))
            .help("99 % of the syncs of the log need less. Every request waits for one."),
        Panel::lines("Time of an append", Seconds, lines("upesi_log_append_seconds")).help(
            "99 % of the batches are written to the log in less. Over Kafka, nodes propose \
                   batches instead.",
        ),
        Panel::lines("Syncs", PerSecond, per_second("upesi_log_syncs_total"))
            .help("Syncs of the log per second. A disk has a highest number.")
            .width(Third),
        Panel::lines("Records per batch", Count, [query(records, "{{instance}}")])
            .help("Records that share a sync. The number rises with the load and with slow syncs.")
            .width(Third),
        Panel::lines("Written to the log", BytesPerSecond, per_second("upesi_log_bytes_total"))
            .help("Bytes appended to the log per second.")
            .width(Third),
    ]
}

fn disk() -> Vec<Panel> {
    let parts = [
        query("upesi_log_stored_bytes{@node}", "log {{instance}}"),
        query("upesi_store_bytes{@node}", "store {{instance}}"),
        query("upesi_log_archived_bytes{@node}", "archive {{instance}}"),
        query("upesi_snapshot_bytes{@node}", "last snapshot {{instance}}"),
    ];
    let free = [
        query("upesi_disk_free_bytes{@node}", "free {{instance}}"),
        query("upesi_disk_bytes{@node}", "size {{instance}}"),
    ];
    let left = [query("upesi_disk_full_in_seconds{@node}", "{{instance}}")];
    vec![
        Panel::lines("Disk", Bytes, free)
            .help("Free space and size of the disk of the log.")
            .width(Third),
        Panel::lines("Use of the disk", Bytes, parts)
            .help(
                "Bytes of the log, of the cold store, of the last snapshot, and of the segments \
                   that are in the archive only.",
            )
            .width(Third),
        Panel::lines("Time until the disk is full", Seconds, left)
            .help(
                "At the growth of the last day. No data means that the disk does not fill up, or \
                   that the node has run for less than a day.",
            )
            .width(Third),
    ]
}

fn copies() -> Vec<Panel> {
    let store = [
        query("rate(upesi_store_reads_total{@node}[@rate])", "reads {{instance}}"),
        query("rate(upesi_store_reads_found_total{@node}[@rate])", "found {{instance}}"),
        query("rate(upesi_store_waits_total{@node}[@rate])", "waits {{instance}}"),
    ];
    let snapshots = [
        query("upesi_log_index{@node} - upesi_snapshot_log_index{@node}", "snapshot {{instance}}"),
        query("upesi_log_index{@node} - upesi_store_log_index{@node}", "store {{instance}}"),
        query("upesi_log_index{@node} - upesi_backup_log_index{@node}", "backup {{instance}}"),
    ];
    let rows = [
        query("upesi_transfers_ended_in_memory{@node}", "final {{instance}}"),
        query("upesi_transfers_in_flight{@node}", "reserved {{instance}}"),
    ];
    vec![
        Panel::lines("Reads of the store", PerSecond, store)
            .help(
                "Reads for transfers that are not in memory, those that found one, and waits of \
                   decisions for the store. Waits mean that the store is slower than the log.",
            )
            .width(Third),
        Panel::lines("Records missing in copies", Count, snapshots)
            .help("Records that snapshot, store and backup do not have yet.")
            .width(Third),
        Panel::lines("Transfers in memory", Count, rows)
            .help("Final transfers whose rows were not evicted yet, and reserved ones.")
            .width(Third),
    ]
}
