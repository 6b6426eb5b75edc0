//! What a node says of all nodes that share its log.

use serde::Deserialize;

use crate::Failure;
use crate::ask::ask;

/// Arguments of `cluster status`.
#[derive(clap::Args)]
pub(crate) struct StatusArguments {
    /// The admin API of any node.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001")]
    admin: String,
    /// Print JSON, as GET /cluster answers it.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cluster {
    pub(super) node: String,
    pub(super) position: u64,
    pub(super) behind: u64,
    /// Older nodes do not tell.
    #[serde(default)]
    pub(super) unheard_milliseconds: u64,
    pub(super) held_milliseconds: u64,
    pub(super) foreign_messages: u64,
    pub(super) same_state_at: Option<u64>,
    pub(super) nodes: Vec<Node>,
    pub(super) lanes: Vec<Lane>,
    pub(super) last_takeover: Option<Takeover>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) epoch: u32,
    pub(super) position: u64,
    pub(super) silent_milliseconds: u64,
    pub(super) rules_known: u32,
    pub(super) contradicts_at: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Lane {
    pub(super) participant: String,
    pub(super) node: String,
}

#[derive(Deserialize)]
pub(super) struct Takeover {
    pub(super) position: u64,
    pub(super) time: String,
    pub(super) gone: Vec<String>,
}

pub(crate) fn run(StatusArguments { admin, json }: &StatusArguments) -> Result<(), Failure> {
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
pub(super) fn cluster_of(admin: &str) -> Result<(String, Cluster), Failure> {
    let text = ask(admin, None, "/cluster")?;
    let cluster = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("the switch answered {text}: {error}")))?;
    Ok((text, cluster))
}

/// Each node writes once a second: no message for so long says that none comes.
const UNHEARD_MS: u64 = 3_000;

fn show(cluster: &Cluster) {
    println!(
        "as {} sees it at record {}, {} messages behind the topic:",
        cluster.node, cluster.position, cluster.behind
    );
    if UNHEARD_MS <= cluster.unheard_milliseconds {
        println!(
            "NOTHING HAS COME FROM THE BROKERS for {:.0} s: what is shown is of then. They are \
             gone, {} is cut off from them, or the topic was deleted; `upesi health` of each node \
             tells which",
            cluster.unheard_milliseconds as f64 / 1e3,
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
            node.position,
            node.silent_milliseconds,
            node.rules_known,
            if served.is_empty() { "nobody".to_owned() } else { served.join(", ") }
        );
        if let Some(position) = node.contradicts_at {
            println!("  {:<12} HAS DECIDED OTHERWISE by record {position}", "");
        }
    }
    if let Some(position) = cluster.same_state_at {
        println!("another node had the same state after record {position}");
    }
    match &cluster.last_takeover {
        None => println!("no node was found to be gone since {} started", cluster.node),
        Some(Takeover { position, time, gone }) => {
            println!("last takeover: of {} at {time}, with record {position}", gone.join(", "));
        }
    }
    if 0 < cluster.held_milliseconds {
        println!(
            "TIME IS HELD BACK: the brokers' clock jumped by {} ms and no two nodes have confirmed \
             it",
            cluster.held_milliseconds
        );
    }
    if 0 < cluster.foreign_messages {
        println!(
            "{} messages of somebody else were passed over since {} started",
            cluster.foreign_messages, cluster.node
        );
    }
}
