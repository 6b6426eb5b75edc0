//! `/deadletters`: notices that could not be delivered, and sending them again (DESIGN 2); and
//! `/undeliverable`: those that wait for an address.

use std::collections::VecDeque;

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{Change, DeadLetter, NoticeId, Redeliver, State};

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::form::refuse;
use crate::shapes::{DeadLetterShape, UndeliverableShape};

/// Dead letters shown at once.
pub(crate) const PAGE_MAX: u64 = 1_000;

/// `GET /deadletters[?limit=1..1000][&before=id]`: the newest first; `before` the last id of
/// one page gives the next.
pub(crate) async fn list(call: &Call<'_>) -> Reply {
    let limit = number(call, "limit", 1..=PAGE_MAX)?.unwrap_or(PAGE_MAX);
    let before = number(call, "before", 0..=u64::MAX)?.unwrap_or(u64::MAX);
    let page = call.ask(move |state| {
        newest_before(state, before, limit as usize)
            .iter()
            .rev()
            .map(|letter| DeadLetterShape::of(state, letter))
            .collect::<Vec<_>>()
    });
    Ok(Answer::ok(&page.await?))
}

/// `GET /undeliverable`: notices that wait until their recipient registers an address, the oldest
/// first, at most [`crate::hub::PARKED_MAX`]. They are sent by themselves when it does.
pub(crate) async fn undeliverable(call: &Call<'_>) -> Reply {
    let parked = call.hub.parked().await;
    let shown = call.ask(move |state| {
        let owed = parked.iter().filter_map(|id| state.notice(*id));
        owed.map(|notice| UndeliverableShape::of(state, notice)).collect::<Vec<_>>()
    });
    Ok(Answer::ok(&shown.await?))
}

/// `POST /deadletters/{id}/resend`: owed again, with a fresh set of attempts.
pub(crate) async fn resend(call: &Call<'_>, id: &str) -> Reply {
    let notice = match id.parse() {
        Ok(id) => NoticeId(id),
        Err(_) => return Err(refuse(ErrorCode::MALFORMED_SYNTAX, "id", "must be an integer")),
    };
    call.change(Change::Redeliver(Redeliver { notice })).await?;
    Ok(Answer::empty(StatusCode::ACCEPTED))
}

/// The last `limit` letters below an id, oldest first; walks over all dead letters up to it.
fn newest_before(state: &State, before: u64, limit: usize) -> VecDeque<&DeadLetter> {
    let mut page = VecDeque::with_capacity(limit);
    for letter in state.dead_letters().take_while(|letter| letter.notice.id.0 < before) {
        if page.len() == limit {
            page.pop_front();
        }
        page.push_back(letter);
    }
    page
}

fn number(
    call: &Call<'_>,
    name: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, Refusal> {
    let Some(text) = call.parameter(name) else { return Ok(None) };
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        Ok(_) => Err(refuse(ErrorCode::VALIDATION, name, "is out of range")),
        Err(_) => Err(refuse(ErrorCode::MALFORMED_SYNTAX, name, "must be an integer")),
    }
}
