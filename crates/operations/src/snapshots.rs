//! `/snapshots`: the states stored beside the log, and one more on demand. An addition to the
//! reference's API.

use http::StatusCode;

use crate::answer::{Answer, Reply};
use crate::call::Call;

/// `GET /snapshots`.
pub(crate) fn list(call: &Call<'_>) -> Reply {
    Ok(Answer::ok(&call.hub.snapshots()))
}

/// `POST /snapshots`: 202 at once; it is taken on a thread of its own. Not recorded in the log: it
/// changes nothing about money.
pub(crate) fn take(call: &Call<'_>) -> Reply {
    call.hub.take_snapshot();
    Ok(Answer::json(StatusCode::ACCEPTED, &call.hub.snapshots()))
}
