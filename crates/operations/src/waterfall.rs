//! `/waterfall`: whether stages of transfers are noted, and those of one transfer. An addition to
//! the reference's API, for finding out where a transfer's time went.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::TransferId;
use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::form::{Form, refuse};
use crate::hub::Hub;

#[derive(Serialize)]
struct Watching {
    enabled: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Waterfall<'a> {
    transfer_id: &'a str,
    /// Of `start` and `end`, which count from an unnamed moment.
    unit: &'static str,
    events: Vec<EventShape>,
}

#[derive(Serialize)]
struct EventShape {
    start: u64,
    end: u64,
    label: String,
}

/// `GET /waterfall`.
pub(crate) fn show<H: Hub>(call: &Call<'_, H>) -> Reply {
    Ok(Answer::ok(&Watching { enabled: call.hub.is_watching() }))
}

/// `PUT /waterfall` with `{"enabled": true}`: the memory of some seconds of transfers; off again
/// forgets them. Not recorded in the log: it changes nothing about money.
pub(crate) fn switch<H: Hub>(call: &Call<'_, H>) -> Reply {
    let mut form = call.form()?;
    let enabled = form.required("enabled", Form::flag)?;
    form.finish()?;
    call.hub.watch(enabled);
    Ok(Answer::json(StatusCode::OK, &Watching { enabled }))
}

/// `GET /waterfall/{transferId}`: 404 when nothing of the transfer is kept (any more).
pub(crate) fn of_transfer<H: Hub>(call: &Call<'_, H>, name: &str) -> Reply {
    let transfer = TransferId::parse(name).ok_or_else(|| {
        refuse(ErrorCode::MALFORMED_SYNTAX, "transferId", "must be a UUID or a ULID")
    })?;
    let events: Vec<EventShape> = call
        .hub
        .stages(&transfer)
        .into_iter()
        .map(|stage| EventShape { start: stage.start_ns, end: stage.end_ns, label: stage.label })
        .collect();
    if events.is_empty() {
        let detail = match call.hub.is_watching() {
            true => "no stage of this transfer is kept: it is unknown or too long ago",
            false => "stages are noted only after PUT /waterfall {\"enabled\": true}",
        };
        let refusal = Refusal::new(ErrorCode::TRANSFER_NOT_FOUND, detail);
        return Err(Refusal { status: StatusCode::NOT_FOUND, ..refusal });
    }
    Ok(Answer::ok(&Waterfall { transfer_id: name, unit: "ns", events }))
}
