//! `GET /transfers/{transferId}/explanation`: the life of a transfer of any age, from what was
//! noted when it was decided and from its records. An addition to the reference's API.
//!
//! It shows messages of participants, so that reading it needs the token. Costs: a record read from
//! the log for each event, beside the threads that carry traffic; the hub does few at a time and
//! answers the others 503.

use bytes::Bytes;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::TransferId;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::form::refuse;
use crate::refusals;

/// The life of a transfer.
pub(crate) async fn show(call: &Call<'_>, name: &str) -> Reply {
    let transfer = TransferId::parse(name).ok_or_else(|| {
        refuse(ErrorCode::MALFORMED_SYNTAX, "transferId", "must be a UUID or a ULID")
    })?;
    let told: Option<Bytes> =
        call.hub.explanation(transfer).await.map_err(refusals::of_unavailable)?;
    told.map(Answer::document).ok_or_else(|| {
        let refusal =
            Refusal::new(ErrorCode::TRANSFER_NOT_FOUND, "no record is about this transfer");
        Refusal { status: StatusCode::NOT_FOUND, ..refusal }
    })
}
