//! The board that answers whether the scheme is well.
//!
//! Nodes of one log count the same transfers, so the highest count is that of the scheme.

use super::Unit::{Bytes, Count, PerSecond, RequestsPerSecond, Seconds, Share};
use super::Width::Third;
use super::{Board, Panel, Section, Variable, percentile, percentiles, query};

const NODES: (&str, &str) = ("sum by (le)", "@node");

pub(super) fn board() -> Board {
    Board {
        name: "overview",
        title: "Upesi: overview",
        help: "Is the scheme well? Payments, times, refusals, and the stages of the nodes.",
        variables: &[Variable::Node],
        sections: vec![
            Section { title: "Now", panels: now() },
            Section { title: "Transfers", panels: transfers() },
            Section { title: "Requests", panels: requests() },
            Section { title: "Nodes", panels: nodes() },
        ],
    }
}

/// Transfers of a kind per second.
fn rate(kind: &str) -> String {
    format!("max(rate(upesi_transfers_{kind}_total{{@job}}[@rate]))")
}

fn now() -> Vec<Panel> {
    vec![
        Panel::number("Committed", PerSecond, rate("committed"))
            .help("Transfers committed per second, counted once for all nodes."),
        Panel::number("Refused", PerSecond, rate("refused"))
            .help("Prepares per second that the ledger refused, mostly for lack of liquidity."),
        Panel::number("Expired", Share, "max(upesi:expired:share5m{@job})")
            .help(
                "Reserved transfers that expired in the last 5 min: payees do not answer in time.",
            )
            .yellow_and_red(0.01, 0.05),
        Panel::number("Nodes", Count, "count(up{@job} == 1)").help("Nodes that answer Prometheus."),
        Panel::number("Unhealthy parts", Count, "sum(upesi_parts_down{@job})")
            .help("Parts that GET /health lists as DOWN, of all nodes.")
            .yellow_and_red(1.0, 2.0),
        Panel::number("Dead letters", Count, "max(upesi_dead_letters{@job})")
            .help("Callbacks that were given up. GET /deadletters lists them.")
            .yellow_and_red(1.0, 100.0),
    ]
}

fn transfers() -> Vec<Panel> {
    let kinds = ["reserved", "committed", "refused", "aborted", "expired"];
    vec![
        Panel::lines("Transfers", PerSecond, kinds.map(|kind| query(rate(kind), kind)))
            .help("Decisions of the ledger per second, counted once for all nodes."),
        Panel::lines(
            "Time to commit",
            Seconds,
            percentiles("upesi_transfer_commit_seconds", ("max by (le)", "@job")),
        )
        .help(
            "From the reservation to the commit, which includes the payee: half of the transfers \
               need less than the first line, 99 % less than the last one.",
        )
        .exemplars(),
    ]
}

fn requests() -> Vec<Panel> {
    let by_route = ("sum by (method, route, le)", "@node");
    let requests = "sum by (method, route) (rate(upesi_request_seconds_count{@node}[@rate]))";
    let refusals = "sum by (code, status) (rate(upesi_refusals_total{@node}[@rate]))";
    let by_resource = ("sum by (resource, le)", "@node");
    vec![
        Panel::lines("Requests", RequestsPerSecond, [query(requests, "{{method}} {{route}}")])
            .help("Accepted FSPIOP requests by route."),
        Panel::lines(
            "Time to answer",
            Seconds,
            [query(percentile(99, "upesi_request_seconds", by_route), "{{method}} {{route}}")],
        )
        .help("99 % of the requests get their synchronous answer, 200 or 202, within this time.")
        .exemplars(),
        Panel::lines(
            "Refused requests",
            RequestsPerSecond,
            [query(refusals, "{{code}} ({{status}})")],
        )
        .help("Requests refused with an error code of FSPIOP and a status of HTTP."),
        Panel::lines(
            "Look-ups and quotes",
            Seconds,
            [query(percentile(99, "upesi_forward_seconds", by_resource), "{{resource}}")],
        )
        .help("99 % of the forwarded messages are answered by the participant within this time."),
    ]
}

fn stages() -> Panel {
    let stage = |histogram, legend| query(percentile(99, histogram, NODES), legend);
    let queries = [
        stage("upesi_inbox_wait_seconds", "wait in the inbox"),
        stage("upesi_log_append_seconds", "append"),
        stage("upesi_log_sync_seconds", "sync"),
        stage("upesi_batch_apply_seconds", "decide"),
    ];
    Panel::lines("Stages of a command", Seconds, queries).help(
        "99 % of the commands and batches spend less time in each stage. Look at the longest one.",
    )
}

fn nodes() -> Vec<Panel> {
    let owed = [
        query("max(upesi_notices_owed{@job})", "owed"),
        query("sum(upesi_lanes_stalled_notices{@job})", "in stalled lanes"),
        query("max(upesi_notices_without_address{@job})", "without an address"),
    ];
    let oldest = [query("max(upesi_oldest_notice_seconds{@job})", "oldest notice")];
    let admin = percentile(99, "upesi_admin_request_seconds", NODES);
    let open = [query("upesi_connections_open{@node}", "{{instance}}")];
    let overload = [
        query("sum(rate(upesi_inbox_refused_total{@node}[@rate]))", "commands"),
        query("sum(rate(upesi_connections_refused_total{@node}[@rate]))", "connections"),
        query("sum(rate(upesi_log_messages_dropped_total{@node}[@rate]))", "log messages"),
    ];
    let processor = "rate(process_cpu_seconds_total{@node}[@rate])";
    let memory = "process_resident_memory_bytes{@node}";
    vec![
        stages(),
        Panel::lines("Callbacks owed", Count, owed).help(
            "Notices that the hub owes to participants. If it rises, a participant is away \
                   or slow, or the hub sends too slowly.",
        ),
        Panel::lines("Age of the oldest callback", Seconds, oldest)
            .help("Age of the oldest owed notice. With participants that answer it is near zero.")
            .width(Third),
        Panel::lines("Open connections", Count, open)
            .help("Open FSPIOP connections of each node.")
            .width(Third),
        Panel::lines("Time of admin requests", Seconds, [query(admin, "99 %")])
            .help("99 % of the requests to the admin API are answered within this time.")
            .width(Third),
        Panel::lines("Refused for load", PerSecond, overload)
            .help(
                "Commands and connections refused and log messages dropped per second. All are \
                   zero unless a node has more work than it can do.",
            )
            .width(Third),
        Panel::lines("Processor", Count, [query(processor, "{{instance}}")])
            .help("Processor seconds per second: the number of cores that a node uses.")
            .width(Third),
        Panel::lines("Memory", Bytes, [query(memory, "{{instance}}")])
            .help("Resident memory of each node. The tables in memory are bounded.")
            .width(Third),
    ]
}
