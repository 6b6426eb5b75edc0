//! `/waterfall`: whether stages of transfers are noted, and those of one transfer. An addition to
//! the reference's API, for finding out where a transfer's time went.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::TransferId;
use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::form::{Form, refuse};
use crate::reports::{Noted, Stage};

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
    /// Not all of it has come to its end: what is open ends now.
    under_way: bool,
    /// Where somebody worked on it.
    events: Vec<Stage>,
    /// Where it waited for the batch, or to be sent on: no work, and not counted as such.
    waits: Vec<Stage>,
}

/// `GET /waterfall`.
pub(crate) fn show(call: &Call<'_>) -> Reply {
    Ok(Answer::ok(&Watching { enabled: call.hub.is_watching() }))
}

/// `PUT /waterfall` with `{"enabled": true}`: the memory of some seconds of transfers; off again
/// forgets them. Not recorded in the log: it changes nothing about money.
pub(crate) fn switch(call: &Call<'_>) -> Reply {
    let mut form = call.form()?;
    let enabled = form.required("enabled", Form::flag)?;
    form.finish()?;
    call.hub.watch(enabled);
    Ok(Answer::json(StatusCode::OK, &Watching { enabled }))
}

/// `GET /waterfall/{transferId}`: 404 when not all that was noted of it is kept (any more).
pub(crate) fn of_transfer(call: &Call<'_>, name: &str) -> Reply {
    let transfer = TransferId::parse(name).ok_or_else(|| {
        refuse(ErrorCode::MALFORMED_SYNTAX, "transferId", "must be a UUID or a ULID")
    })?;
    let Noted { stages, waits, reach, under_way } = call.hub.stages(&transfer);
    if stages.is_empty() {
        let detail: String = match (call.hub.is_watching(), reach) {
            (false, _) => "stages are noted only after PUT /waterfall {\"enabled\": true}".into(),
            (true, None) => "no stage of this transfer has been noted: it is unknown, or began \
                             before PUT /waterfall"
                .into(),
            (true, Some(reach)) => format!(
                "too long ago for what is kept, which reaches back {:.1} s, or unknown",
                reach.as_secs_f64()
            ),
        };
        let refusal = Refusal::new(ErrorCode::TRANSFER_NOT_FOUND, &detail);
        return Err(Refusal { status: StatusCode::NOT_FOUND, ..refusal });
    }
    Ok(Answer::ok(&Waterfall { transfer_id: name, unit: "ns", under_way, events: stages, waits }))
}
