//! `/waterfall`: the latency trace of a transfer, and the switch that turns tracing on. An addition
//! to the reference's API.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;

use crate::body::{FLAG, body};
use crate::reports::{Span, TransferTrace};
use crate::request::{AdminRequest, TRANSFER};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, shape};

routes! {
    "/waterfall" {
        read GET showWatching = show, "Show whether transfers are traced" {
            answers: [200: Watching = "The current setting."],
        }
        order PUT switchWatching = switch(Watch), "Turn tracing of transfers on or off" {
            text: "Keeps traces of the last seconds in memory. Turning it off deletes them.",
            example: {"enabled": true},
            answers: [200: Watching = "The setting after the change."],
        }
    }
    "/waterfall/{transferId}" [TRANSFER] {
        read GET showStages = of_transfer, "Show the trace of a transfer" {
            text: "\
                `events` are stages of work on the transfer. In `waits` it waited for a batch or \
                to be sent. While it is `underWay`, open stages end now. Gets 404 unless the \
                complete trace is in memory; the error description reports how far back traces \
                reach.",
            answers: [200: Waterfall = "Stages in order of their start."],
            refusals: [400 MALFORMED_SYNTAX, 404 TRANSFER_NOT_FOUND],
        }
    }
}

body! {
    Closed Watch {
        enabled: bool = FLAG,
    }
}

shape! {
    struct Watching as "Watching" {
        enabled: bool,
    }
}

shape! {
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
async fn show(call: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&Watching { enabled: call.hub.is_watching() }))
}

/// `PUT /waterfall` with `{"enabled": true}`: keeps traces of the last seconds in memory; turning
/// it off deletes them. Not recorded in the log, because it does not affect money.
async fn switch(call: &AdminRequest<'_>, Watch { enabled }: Watch) -> HandlerResult {
    call.hub.watch(enabled);
    Ok(AdminResponse::json(StatusCode::OK, &Watching { enabled }))
}

/// `GET /waterfall/{transferId}`: 404 unless the complete trace is in memory.
async fn of_transfer(call: &AdminRequest<'_>) -> HandlerResult {
    let transfer = call.path(&TRANSFER)?;
    let TransferTrace { stages, waits, reach, under_way } = call.hub.stages(&transfer);
    if stages.is_empty() {
        let detail: String = match (call.hub.is_watching(), reach) {
            (false, _) => {
                "tracing is off: turn it on with PUT /waterfall {\"enabled\": true}".into()
            }
            (true, None) => "no trace of this transfer: it is unknown, or began before PUT \
                             /waterfall"
                .into(),
            (true, Some(reach)) => format!(
                "no trace of this transfer: it is unknown, or older than {:.1} s",
                reach.as_secs_f64()
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
