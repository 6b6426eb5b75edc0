//! Report of a node about all nodes that share its log.

use operations::{Cluster, Takeover};

use crate::CliError;
use crate::cli::admin_get::admin_get;
use crate::cli::stdout::moment;

/// Arguments of `cluster status`.
#[derive(clap::Args)]
pub(crate) struct StatusArguments {
    /// Address of any node's admin API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001")]
    admin: String,
    /// Print the answer of GET /cluster as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(StatusArguments { admin, json }: &StatusArguments) -> Result<(), CliError> {
    let (text, cluster) = cluster_of(admin)?;
    if *json {
        println!("{text}");
        return Ok(());
    }
    if cluster.node.is_empty() {
        println!("the log is not shared: {admin} has it alone");
        return Ok(());
    }
    show(&cluster);
    Ok(())
}

/// What a node says of all, as it came and as it was read.
pub(super) fn cluster_of(admin: &str) -> Result<(String, Cluster), CliError> {
    let text = admin_get(admin, None, "/cluster")?;
    let cluster = serde_json::from_str(&text)
        .map_err(|error| CliError::new(format!("the switch answered {text}: {error}")))?;
    Ok((text, cluster))
}

/// Each node writes once a second: no message for so long says that none comes.
const UNHEARD_MS: u64 = 3_000;

fn show(cluster: &Cluster) {
    println!(
        "as {} sees it at record {}, {} messages behind the topic:",
        cluster.node, cluster.log_index, cluster.behind
    );
    if UNHEARD_MS <= cluster.unheard_ms {
        println!(
            "NOTHING HAS COME FROM THE BROKERS for {:.0} s: what is shown is of then. They are \
             gone, {} is cut off from them, or the topic was deleted; `upesi health` of each node \
             tells which",
            cluster.unheard_ms as f64 / 1e3,
            cluster.node
        );
    }
    for node in &cluster.nodes {
        let lanes = cluster.lanes.iter().filter(|lane| lane.node == node.name);
        let served: Vec<_> = lanes.map(|lane| lane.participant.as_str()).collect();
        println!(
            "  {:<12} life {:<4} applied {:<12} silent {:>5} ms  rules {:<3} sends to {}",
            node.name,
            node.epoch,
            node.log_index,
            node.silent_ms,
            node.rules,
            if served.is_empty() { "nobody".to_owned() } else { served.join(", ") }
        );
        if let Some(log_index) = node.contradicts_at {
            println!("  {:<12} HAS DECIDED OTHERWISE by record {log_index}", "");
        }
    }
    if let Some(log_index) = cluster.agreed_at {
        println!("another node had the same state after record {log_index}");
    }
    match &cluster.last_takeover {
        None => println!("no node was found to be gone since {} started", cluster.node),
        Some(Takeover { log_index, at, gone }) => {
            let (gone, at) = (gone.join(", "), moment(*at));
            println!("last takeover: of {gone} at {at}, with record {log_index}");
        }
    }
    if 0 < cluster.held_ms {
        println!(
            "TIME IS HELD BACK: the brokers' clock jumped by {} ms and no two nodes have confirmed \
             it",
            cluster.held_ms
        );
    }
    if 0 < cluster.foreign {
        println!(
            "{} messages of somebody else were passed over since {} started",
            cluster.foreign, cluster.node
        );
    }
}
