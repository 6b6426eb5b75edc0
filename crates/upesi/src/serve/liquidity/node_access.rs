//! Queries of this node's state, and records in the name of the switch.

use ledger::{Administer, Change, ChangeReply, State};
use operations::{AdminBackend, Unavailable};
use tokio::sync::oneshot;

use crate::serve::admin_backend::NodeBackend;

/// Author of the records.
const ACTOR: &str = "upesi";

/// Runs a query on this node's state. `None` if the node has no room for it or has stopped.
pub(super) async fn read<R: Send + 'static>(
    backend: &NodeBackend,
    query: impl FnOnce(&State) -> R + Send + 'static,
) -> Option<R> {
    let (answer, answered) = oneshot::channel();
    // The thread may have stopped waiting.
    let ask = move |state: &State| drop(answer.send(query(state)));
    backend.handle.ask_local(ask).ok()?;
    answered.await.ok()
}

/// Records a change in the name of the switch.
pub(super) async fn record(
    backend: &NodeBackend,
    change: impl Into<Change>,
    reason: &str,
) -> Result<ChangeReply, Unavailable> {
    let (actor, reason) = (ACTOR.to_owned(), reason.to_owned());
    backend.administer(Administer { actor, reason, change: change.into() }).await
}
