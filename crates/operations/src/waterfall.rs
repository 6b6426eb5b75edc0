//! `/waterfall`: the latency trace of a transfer, and the switch that turns tracing on. An addition
//! to the reference's API.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;

use crate::body::{FLAG, body};
use crate::reports::{Span, TransferTrace};
use crate::request::{AdminRequest, TRANSFER};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, response_type};

routes! {
    "/waterfall" {
        read GET showWatching = show, "Show whether transfers are traced" {
            responses: [200: TracingStatus = "The current setting."],
        }
        action PUT switchWatching = switch(SetTracing), "Turn tracing of transfers on or off" {
            text: "Keeps traces of the last seconds in memory. Turning it off deletes them.",
            example: {"enabled": true},
            responses: [200: TracingStatus = "The setting after the change."],
        }
    }
    "/waterfall/{transferId}" [TRANSFER] {
        read GET showStages = of_transfer, "Show the trace of a transfer" {
            text: "\
                `events` are stages of work on the transfer. In `waits` it waited for a batch or \
                to be sent. While it is `underWay`, open stages end now. Gets 404 unless the \
                complete trace is in memory; the error description reports how far back traces \
                reach.",
            responses: [200: Waterfall = "Stages in order of their start."],
            refusals: [400 MALFORMED_SYNTAX, 404 TRANSFER_NOT_FOUND],
        }
    }
}

body! {
    Closed SetTracing {
        enabled: bool = FLAG,
    }
}

response_type! {
    struct TracingStatus as "TracingStatus" {
        enabled: bool,
    }
}

response_type! {
    struct Waterfall as "Waterfall" {
        transfer_id: String,
        /// Unit of `start` and `end`, which count from an arbitrary moment.
        unit: &'static str = schema::one_of(&["ns"]),
        /// The transfer is not complete: open stages end now.
        under_way: bool,
        /// Stages of work on the transfer.
        events: Vec<Span>,
        /// Stages in which it waited for a batch or to be sent.
        waits: Vec<Span>,
    }
}

/// `GET /waterfall`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&TracingStatus { enabled: request.backend.is_tracing() }))
}

/// `PUT /waterfall` with `{"enabled": true}`: keeps traces of the last seconds in memory; turning
/// it off deletes them. Not recorded in the log, because it does not affect money.
async fn switch(request: &AdminRequest<'_>, SetTracing { enabled }: SetTracing) -> HandlerResult {
    request.backend.set_tracing(enabled);
    Ok(AdminResponse::json(StatusCode::OK, &TracingStatus { enabled }))
}

/// `GET /waterfall/{transferId}`: 404 unless the complete trace is in memory.
async fn of_transfer(request: &AdminRequest<'_>) -> HandlerResult {
    let transfer = request.path(&TRANSFER)?;
    let TransferTrace { stages, waits, retained, under_way } = request.backend.trace(&transfer);
    if stages.is_empty() {
        let detail: String = match (request.backend.is_tracing(), retained) {
            (false, _) => {
                "tracing is off: turn it on with PUT /waterfall {\"enabled\": true}".into()
            }
            (true, None) => "no trace of this transfer: it is unknown, or began before PUT \
                             /waterfall"
                .into(),
            (true, Some(retained)) => format!(
                "no trace of this transfer: it is unknown, or older than {:.1} s",
                retained.as_secs_f64()
            ),
        };
        let refusal = Refusal::new(ErrorCode::TRANSFER_NOT_FOUND, &detail);
        return Err(Refusal { status: StatusCode::NOT_FOUND, ..refusal });
    }
    Ok(AdminResponse::ok(&Waterfall {
        transfer_id: transfer.to_string(),
        unit: "ns",
        under_way,
        events: stages,
        waits,
    }))
}
