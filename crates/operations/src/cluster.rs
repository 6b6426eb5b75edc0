//! `GET /cluster`: the nodes that share the log, as the node that is asked sees them. An addition
//! to the reference's API.

use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::hub::Cluster;
use crate::shapes::Moment;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterShape<'a> {
    node: &'a str,
    position: u64,
    behind: u64,
    unheard_milliseconds: u64,
    held_milliseconds: u64,
    foreign_messages: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    same_state_at: Option<u64>,
    nodes: Vec<NodeShape<'a>>,
    lanes: Vec<LaneShape<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_takeover: Option<TakeoverShape<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeShape<'a> {
    name: &'a str,
    epoch: u32,
    position: u64,
    silent_milliseconds: u64,
    rules_known: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    contradicts_at: Option<u64>,
}

#[derive(Serialize)]
struct LaneShape<'a> {
    participant: &'a str,
    node: &'a str,
}

#[derive(Serialize)]
struct TakeoverShape<'a> {
    position: u64,
    time: Moment,
    gone: &'a [String],
}

/// `GET /cluster`.
pub(crate) fn show(cluster: &Cluster) -> Reply {
    let nodes = cluster.nodes.iter().map(|node| NodeShape {
        name: &node.name,
        epoch: node.epoch,
        position: node.position,
        silent_milliseconds: node.silent_ms,
        rules_known: node.rules,
        contradicts_at: node.contradicts_at,
    });
    let lanes = cluster.lanes.iter();
    Ok(Answer::ok(&ClusterShape {
        node: &cluster.node,
        position: cluster.position,
        behind: cluster.behind,
        unheard_milliseconds: cluster.unheard_ms,
        held_milliseconds: cluster.held_ms,
        foreign_messages: cluster.foreign,
        same_state_at: cluster.agreed_at,
        nodes: nodes.collect(),
        lanes: lanes.map(|(participant, node)| LaneShape { participant, node }).collect(),
        last_takeover: cluster.last_takeover.as_ref().map(|last| TakeoverShape {
            position: last.position,
            time: Moment(last.at),
            gone: &last.gone,
        }),
    }))
}
