//! The board of the nodes of one log, compared with each other.

use super::Unit::{Count, PerSecond, RequestsPerSecond, Seconds};
use super::Width::{Half, Third};
use super::{Board, Panel, Section, percentile, query};

pub(super) fn board() -> Board {
    Board {
        name: "cluster",
        title: "Upesi: cluster",
        help: "The nodes of one log: which of them are there, how far each is, and their work.",
        variables: &[],
        sections: vec![
            Section { title: "Now", panels: now() },
            Section { title: "Log", panels: log() },
            Section { title: "Topic", panels: topic() },
            Section { title: "Work of each node", panels: work() },
        ],
    }
}

fn now() -> Vec<Panel> {
    vec![
        Panel::number("Nodes", Count, "count(up{@job} == 1)").help("Nodes that answer Prometheus."),
        Panel::number("Silent nodes", Count, "count(up{@job}) - sum(up{@job})")
            .help("Targets that do not answer Prometheus.")
            .yellow_and_red(1.0, 1.0),
        Panel::number("Unhealthy nodes", Count, "sum(upesi_parts_down{@job} > bool 0)")
            .help("Nodes whose GET /health is red.")
            .yellow_and_red(1.0, 1.0),
        Panel::number("Largest lag", Count, "max(upesi:lag:records{@job})")
            .help("Records that the slowest node has not applied yet, compared with the first one.")
            .yellow_and_red(10_000.0, 50_000.0),
        Panel::number("Starts", Count, "sum(changes(process_start_time_seconds{@job}[1h]))")
            .help("Starts of all nodes in the last hour.")
            .yellow_and_red(1.0, 3.0),
        Panel::number(
            "Committed",
            PerSecond,
            "max(rate(upesi_transfers_committed_total{@job}[@rate]))",
        )
        .help("Transfers committed per second, counted once for all nodes."),
    ]
}

fn log() -> Vec<Panel> {
    let answer = percentile(99, "upesi_request_seconds", ("sum by (instance, le)", "@job"));
    let applied = query("rate(upesi_log_index{@job}[@rate])", "{{instance}}");
    vec![
        Panel::lines("Applied records", PerSecond, [applied])
            .help("Records applied per second. All nodes apply the same records."),
        Panel::lines("Lag", Count, [query("upesi:lag:records{@job}", "{{instance}}")]).help(
            "Records that a node has not applied yet, compared with the first one. Nodes are \
                 scraped at different moments, so a second's work is no lag.",
        ),
        Panel::lines("Time to answer by node", Seconds, [query(answer, "{{instance}}")])
            .help("99 % of the requests get their synchronous answer within this time.")
            .width(Third),
        Panel::lines("Unhealthy parts", Count, [query("upesi_parts_down{@job}", "{{instance}}")])
            .help("Parts of a node that GET /health lists as DOWN.")
            .width(Third),
        Panel::lines("Answers", Count, [query("up{@job}", "{{instance}}")])
            .help("1 while the node answers Prometheus, 0 while it does not.")
            .width(Third),
    ]
}

/// Figures of nodes that share a log on Kafka. They have no data with a log in files.
fn topic() -> Vec<Panel> {
    let live = [query("upesi_cluster_nodes{@job}", "seen by {{instance}}")];
    let silence = [query("max by (node) (upesi_node_silence_seconds{@job})", "{{node}}")];
    let brokers = [query("upesi_cluster_broker_silence_seconds{@job}", "{{instance}}")];
    let lag = [query("upesi_cluster_behind_records{@job}", "{{instance}}")];
    vec![
        Panel::lines("Live nodes", Count, live)
            .help("Nodes that have written to the topic lately, as each node sees it."),
        Panel::lines("Silence of a node", Seconds, silence).help(
            "Time since the last write of a node. After a few seconds others take its lanes.",
        ),
        Panel::lines("Silence of the brokers", Seconds, brokers)
            .help("Time since the brokers delivered a message to a node."),
        Panel::lines("Messages not applied", Count, lag)
            .help("Messages of the topic that a node has not applied, as of its last poll."),
    ]
}

/// A rate of each node.
fn rate(counter: &str) -> [super::Query; 1] {
    let expression = format!("sum by (instance) (rate({counter}{{@job}}[@rate]))");
    [query(expression, "{{instance}}")]
}

fn work() -> Vec<Panel> {
    let stalled = [query("upesi_lanes_stalled{@job}", "{{instance}}")];
    let breakers = [query("upesi_forward_breakers_open{@job}", "{{instance}}")];
    vec![
        Panel::lines("Requests by node", RequestsPerSecond, rate("upesi_requests_total"))
            .help(
                "FSPIOP requests accepted. Any node accepts any request: lines that differ show \
                   how the load balancer divides the work.",
            )
            .width(Half),
        Panel::lines("Callbacks by node", RequestsPerSecond, rate("upesi_attempts_total"))
            .help("Attempts to deliver a notice. Each lane belongs to one node.")
            .width(Half),
        Panel::lines("Stalled lanes by node", Count, stalled)
            .help("Participants of a node that accept no callbacks.")
            .width(Third),
        Panel::lines("Open circuit breakers by node", Count, breakers)
            .help("Participants that give a node no HTTP answer to look-ups and quotes.")
            .width(Third),
        Panel::lines("Processor by node", Count, rate("process_cpu_seconds_total"))
            .help("Processor seconds per second: the number of cores that a node uses.")
            .width(Third),
    ]
}
