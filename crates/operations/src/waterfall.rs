//! `/waterfall`: whether stages of transfers are noted, and those of one transfer. An addition to
//! the reference's API, for finding out where a transfer's time went.

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
        read GET showWatching = show, "Whether stages of transfers are noted" {
            answers: [200: Watching = "Whether they are."],
        }
        order PUT switchWatching = switch(Watch), "Note stages of transfers, or no longer" {
            text: "In memory, those of the last seconds; off again forgets them.",
            example: {"enabled": true},
            answers: [200: Watching = "As it is now."],
        }
    }
    "/waterfall/{transferId}" [TRANSFER] {
        read GET showStages = of_transfer, "The stages of one transfer" {
            text: "\
                `events`: where somebody worked on it. `waits`: where it waited for a batch, or \
                to be sent on. While it is `underWay`, what is open ends now. 404 unless all \
                that was noted of it is still kept; the description then says how far back that \
                reaches.",
            answers: [200: Waterfall = "Stages by their start."],
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
        /// Of `start` and `end`, which count from an unnamed moment.
        unit: &'static str = schema::one_of(&["ns"]),
        /// Not all of it has come to its end: what is open ends now.
        under_way: bool,
        /// Where somebody worked on it.
        events: Vec<Span>,
        /// Where it waited for the batch, or to be sent on: no work, and not counted as such.
        waits: Vec<Span>,
    }
}

/// `GET /waterfall`.
async fn show(call: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&Watching { enabled: call.hub.is_watching() }))
}

/// `PUT /waterfall` with `{"enabled": true}`: the memory of some seconds of transfers; off again
/// forgets them. Not recorded in the log: it changes nothing about money.
async fn switch(call: &AdminRequest<'_>, Watch { enabled }: Watch) -> HandlerResult {
    call.hub.watch(enabled);
    Ok(AdminResponse::json(StatusCode::OK, &Watching { enabled }))
}

/// `GET /waterfall/{transferId}`: 404 when not all that was noted of it is kept (any more).
async fn of_transfer(call: &AdminRequest<'_>) -> HandlerResult {
    let transfer = call.path(&TRANSFER)?;
    let TransferTrace { stages, waits, reach, under_way } = call.hub.stages(&transfer);
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
    Ok(AdminResponse::ok(&Waterfall {
        transfer_id: transfer.to_string(),
        unit: "ns",
        under_way,
        events: stages,
        waits,
    }))
}
