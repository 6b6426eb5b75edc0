//! Report of a node about all nodes that share its log.

use operations::{Cluster, Takeover};

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_get::admin_get;
use crate::cli::stdout::moment;
use crate::cli::table::{Align, Table};
use crate::cli::units::{Count, Milliseconds, counted};

/// Arguments of `cluster status`.
#[derive(clap::Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    switch: AdminAddress,
    /// Print the answer of GET /cluster as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(StatusArguments { switch, json }: &StatusArguments) -> Result<(), CliError> {
    let (text, cluster) = cluster_of(switch)?;
    if *json {
        println!("{text}");
        return Ok(());
    }
    if cluster.node.is_empty() {
        println!("{}: this switch does not share its log", switch.admin);
        return Ok(());
    }
    print_report(&cluster);
    Ok(())
}

/// A node's report about the cluster, as text and parsed.
pub(super) fn cluster_of(switch: &AdminAddress) -> Result<(String, Cluster), CliError> {
    let text = admin_get(switch, "/cluster")?;
    let cluster = serde_json::from_str(&text)
        .map_err(|error| CliError::new(format!("/cluster: invalid answer {text}: {error}")))?;
    Ok((text, cluster))
}

/// Silence of the brokers that is reported. Each node writes once a second.
const SILENCE_REPORTED_MS: u64 = 3_000;

fn print_report(cluster: &Cluster) {
    println!(
        "seen by {} at record {}, lag {}\n",
        cluster.node,
        Count(cluster.log_index),
        counted(cluster.behind, "message")
    );
    if SILENCE_REPORTED_MS <= cluster.unheard_ms {
        println!(
            "NO MESSAGE FROM THE BROKERS for {:.0} s; this report is that old. The brokers are \
             down, {} is cut off from them, or the topic was deleted; run `upesi health` for each \
             node\n",
            cluster.unheard_ms as f64 / 1e3,
            cluster.node
        );
    }
    let mut table = Table::new([
        ("node", Align::Left),
        ("epoch", Align::Right),
        ("applied record", Align::Right),
        ("silent", Align::Right),
        ("rules", Align::Right),
        ("lanes served", Align::Left),
    ]);
    for node in &cluster.nodes {
        let lanes = cluster.lanes.iter().filter(|lane| lane.node == node.name);
        let served: Vec<_> = lanes.map(|lane| lane.participant.as_str()).collect();
        table.add([
            node.name.clone(),
            node.epoch.to_string(),
            Count(node.log_index).to_string(),
            Milliseconds(node.silent_ms).to_string(),
            node.rules.to_string(),
            if served.is_empty() { "none".to_owned() } else { served.join(", ") },
        ]);
    }
    table.print();
    for node in &cluster.nodes {
        if let Some(log_index) = node.contradicts_at {
            println!("DIVERGED: node {} has another state by record {log_index}", node.name);
        }
    }
    if let Some(log_index) = cluster.agreed_at {
        println!("state confirmed by another node after record {}", Count(log_index));
    }
    match &cluster.last_takeover {
        None => println!("no takeover since {} started", cluster.node),
        Some(Takeover { log_index, at, gone }) => {
            let (gone, at) = (gone.join(", "), moment(*at));
            println!("last takeover: from {gone} at {at}, with record {}", Count(*log_index));
        }
    }
    if 0 < cluster.held_ms {
        println!(
            "CLOCK HELD: the brokers' clock jumped by {}, not yet confirmed by two nodes",
            Milliseconds(cluster.held_ms)
        );
    }
    if 0 < cluster.foreign {
        println!("{} foreign messages ignored since {} started", cluster.foreign, cluster.node);
    }
}
