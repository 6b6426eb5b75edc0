//! `/outbox`: notices that the hub owes. `/undeliverable`: those that wait for an endpoint.
//!
//! Costs: a page walks over the notices owed on the sequencer's thread, some 20 ms per million.
//! Bounds: `delivery` limits their number, and a page has [`PAGE_MAX`] entries.

use fspiop::Refusal;
use ledger::{Notice, NoticeId, ParticipantIndex, Stamp, State};

use crate::backend::NO_ENDPOINT;
use crate::dead_letters::{FROM, LIMIT, PAGE_MAX, PARTICIPANT, TO, number};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::OwedNoticeResponse;
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

const AFTER: Parameter<u64> =
    Parameter::new("after", "Only entries with a higher id.", schema::count, |text| {
        number("after", text)
    });

routes! {
    "/outbox" {
        read GET listOutbox = list, "List notices owed" {
            text: "\
                Messages that the hub owes to participants, oldest first. For the next page, set \
                `after` to `next`, until there is no `next`. The reason is given for notices that \
                this node delivers.",
            query: [LIMIT, AFTER, PARTICIPANT, FROM, TO],
            responses: [200: OutboxPage = "A page of notices."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND],
        }
    }
    "/undeliverable" {
        read GET listUndeliverable = undeliverable, "List notices without an endpoint" {
            text: "\
                The hub sends them when their recipient registers an endpoint. Oldest first, at \
                most 1,000; the metric `upesi_notices_without_address` counts all of them.",
            responses: [200: Vec<OwedNoticeResponse> = "Notices."],
        }
    }
}

response_type! {
    /// A page of notices owed.
    struct OutboxPage as "OutboxPage" {
        notices: Vec<OwedNoticeResponse>,
        /// Continues the list as `after`; absent on the last page.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
        /// Number of all notices owed, whatever the filter selects.
        owed: u64,
    }
}

/// The notices that a query selects.
#[derive(Clone, Copy, Debug)]
struct Selection {
    recipient: Option<ParticipantIndex>,
    from: Option<Stamp>,
    to: Option<Stamp>,
    after: NoticeId,
    limit: usize,
}

impl Selection {
    async fn of(request: &AdminRequest<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            from: request.query(&FROM)?,
            to: request.query(&TO)?,
            after: NoticeId(request.query(&AFTER)?.unwrap_or_default()),
            limit: request.query(&LIMIT)?.unwrap_or(PAGE_MAX) as usize,
            recipient: request.query_party(&PARTICIPANT).await?,
        })
    }

    fn selects(&self, notice: &Notice) -> bool {
        self.after < notice.id
            && self.recipient.is_none_or(|recipient| recipient == notice.recipient)
            && self.from.is_none_or(|from| from <= notice.owed_at)
            && self.to.is_none_or(|to| notice.owed_at < to)
    }

    /// The page without its notices' reasons, and their ids.
    fn page(&self, state: &State) -> (OutboxPage, Vec<NoticeId>) {
        let selected = state.notices_owed().filter(|notice| self.selects(notice));
        let mut page: Vec<_> = selected.take(self.limit + 1).collect();
        let is_cut = self.limit < page.len();
        page.truncate(self.limit);
        let last = page.last().map(|notice| notice.id.0);
        let shown = OutboxPage {
            notices: page.iter().map(|notice| OwedNoticeResponse::of(state, notice)).collect(),
            next: last.filter(|_| is_cut),
            owed: state.notices_owed_count() as u64,
        };
        (shown, page.iter().map(|notice| notice.id).collect())
    }
}

/// `GET /outbox`: oldest first; `after` is `next` of the previous page.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let selection = Selection::of(request).await?;
    let (page, ids) = request.query_state(move |state| selection.page(state)).await?;
    let mut reasons = request.backend.wait_reasons(ids.clone()).await;
    let notices = page.notices.into_iter().zip(ids);
    let notices = notices.map(|(notice, id)| notice.because(reasons.remove(&id))).collect();
    Ok(AdminResponse::ok(&OutboxPage { notices, ..page }))
}

/// `GET /undeliverable`: notices that wait until their recipient registers an endpoint, oldest
/// first, at most [`crate::backend::PARKED_MAX`]. They are sent when it does.
async fn undeliverable(request: &AdminRequest<'_>) -> HandlerResult {
    let parked = request.backend.parked_notices().await;
    let shown = request.query_state(move |state| {
        let owed = parked.iter().filter_map(|id| state.notice(*id));
        let shown = |notice| OwedNoticeResponse::of(state, notice);
        owed.map(|notice| shown(notice).because(Some(NO_ENDPOINT.to_owned()))).collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&shown.await?))
}
