//! `GET /cluster`: the nodes that share the log, as the node that is asked sees them. An addition
//! to the reference's API.

use crate::answer::{Answer, Reply};
use crate::reports::Cluster;

/// `GET /cluster`.
pub(crate) fn show(cluster: &Cluster) -> Reply {
    Ok(Answer::ok(cluster))
}
