//! `/snapshots`: the states stored beside the log, and one more on demand. An addition to the
//! reference's API.

use http::StatusCode;
use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::hub::Snapshots;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    /// Newest first.
    snapshots: Vec<FileShape>,
    busy: bool,
    taken: u64,
    failed: u64,
    last_bytes: u64,
    last_milliseconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct FileShape {
    position: u64,
    file: String,
}

impl From<Snapshots> for Shape {
    fn from(now: Snapshots) -> Self {
        let file = |(position, file)| FileShape { position, file };
        Self {
            snapshots: now.files.into_iter().map(file).collect(),
            busy: now.busy,
            taken: now.taken,
            failed: now.failed,
            last_bytes: now.last_bytes,
            last_milliseconds: now.last_millis,
            error: now.error,
        }
    }
}

/// `GET /snapshots`.
pub(crate) fn list(call: &Call<'_>) -> Reply {
    Ok(Answer::ok(&Shape::from(call.hub.snapshots())))
}

/// `POST /snapshots`: 202 at once; it is taken on a thread of its own. Not recorded in the log: it
/// changes nothing about money.
pub(crate) fn take(call: &Call<'_>) -> Reply {
    call.hub.take_snapshot();
    Ok(Answer::json(StatusCode::ACCEPTED, &Shape::from(call.hub.snapshots())))
}
