//! `GET /transfers/{transferId}/explanation`: what the hub knows of a transfer of any age, from the
//! state and from the records that it names. An addition to the reference's API.
//!
//! It shows messages of participants, so that reading it needs the token. Costs: two or three
//! records are read from the log, beside the threads that carry traffic; the hub does few at a time
//! and answers the others 503.

use bytes::Bytes;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::TransferId;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::form::refuse;
use crate::hub::Hub;
use crate::refusals;

/// The life of a transfer, as far as it can be known without deciding the log again.
pub(crate) async fn show<H: Hub>(call: &Call<'_, H>, name: &str) -> Reply {
    let transfer = TransferId::parse(name).ok_or_else(|| {
        refuse(ErrorCode::MALFORMED_SYNTAX, "transferId", "must be a UUID or a ULID")
    })?;
    let told: Option<Bytes> =
        call.hub.explanation(transfer).await.map_err(refusals::of_unavailable)?;
    told.map(Answer::document).ok_or_else(|| {
        let refusal = Refusal::new(ErrorCode::TRANSFER_NOT_FOUND, "no record made this transfer");
        Refusal { status: StatusCode::NOT_FOUND, ..refusal }
    })
}
