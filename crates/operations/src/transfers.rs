//! `GET /transfers`: transfers by participant, state, time and amount, newest first. An addition
//! to the reference's API.
//!
//! Reserved transfers come from the state, final ones from the index of the cold store, both as of
//! one record. Costs: a walk over the reserved transfers on the sequencer's thread, about 1 ms per
//! 50,000 of them; for final ones some blocks of the index. Bounds: a page has [`PAGE_MAX`]
//! transfers, and a search ends after the blocks that [`ports::BLOCKS_READ_MAX`] allows. The
//! cursor then continues it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use fspiop::{ErrorCode, Refusal};
use ledger::snapshot::ReservedTransfer;
use ledger::{
    Amount, Currency, FspName, LogIndex, ParticipantIndex, Stamp, State, TransferId, TransferState,
};
use openapi::schema::reference;
use ports::{TransferEnd, TransferFilter, TransferPlace, TransferQuery};
use serde_json::json;

use crate::audit_log::parse_audit_time;
use crate::backend::{ListedTransfer, ListedTransfers};
use crate::body_reader::refuse;
use crate::outcome_errors;
use crate::request::{AdminRequest, ONLY_CURRENCY, participant_name};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{JsonNumber, Timestamp};
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};
use crate::settlement_queries::MOMENT_FORM;

/// Maximum number of transfers in one response.
const PAGE_MAX: usize = 1_000;
/// Number of transfers in one response by default.
const PAGE: usize = 50;

const STATES: [(&str, TransferState); 3] = [
    ("RESERVED", TransferState::Reserved),
    ("COMMITTED", TransferState::Committed),
    ("ABORTED", TransferState::Aborted),
];

const CAUSES: [(&str, TransferEnd); 3] = [
    ("REFUSED", TransferEnd::Refused),
    ("ABORTED", TransferEnd::Aborted),
    ("EXPIRED", TransferEnd::Expired),
];

const PARTICIPANT: Parameter<FspName> = Parameter::new(
    "participant",
    "Only transfers with this payer or payee.",
    schema::some_text,
    participant_name,
);

const STATE: Parameter<TransferState> = Parameter::new(
    "state",
    "Only transfers in this state.",
    || schema::one_of(&schema::names(&STATES)),
    |text| choice("state", &STATES, text),
);

const CAUSE: Parameter<TransferEnd> = Parameter::new(
    "cause",
    "\
    Only transfers that were refused (`REFUSED`), aborted by the payee (`ABORTED`), or not \
    answered in time (`EXPIRED`).",
    || schema::one_of(&schema::names(&CAUSES)),
    |text| choice("cause", &CAUSES, text),
);

const FROM: Parameter<Stamp> =
    Parameter::new("from", "Changed at this time or later.", schema::date_time, |text| {
        moment("from", text)
    });

const TO: Parameter<Stamp> =
    Parameter::new("to", "Changed before this time.", schema::date_time, |text| moment("to", text));

const AMOUNT_MIN: Parameter<Amount> =
    Parameter::new("amountMin", "At least this amount.", amount_schema, |text| {
        amount("amountMin", text)
    });

const AMOUNT_MAX: Parameter<Amount> =
    Parameter::new("amountMax", "At most this amount.", amount_schema, |text| {
        amount("amountMax", text)
    });

const LIMIT: Parameter<usize> = Parameter::new(
    "limit",
    "Maximum number of transfers; 50 by default.",
    || json!({"type": "integer", "minimum": 1, "maximum": PAGE_MAX}),
    |text| match text.parse() {
        Ok(limit @ 1..=PAGE_MAX) => Ok(limit),
        Ok(_) => Err(refuse(ErrorCode::VALIDATION, "limit", "is out of range")),
        Err(_) => Err(refuse(ErrorCode::MALFORMED_SYNTAX, "limit", "must be an integer")),
    },
)
.example("50");

const CURSOR: Parameter<TransferPlace> = Parameter::new(
    "cursor",
    "`next` of the page before, with the same filters.",
    schema::some_text,
    |text| {
        let wrong = "must be `next` of a page";
        read_cursor(text).ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, "cursor", wrong))
    },
);

routes! {
    "/transfers" {
        guarded GET listTransfers = list, "List transfers" {
            text: "\
                Payments by payer or payee, state, time of the last change, and amount; newest \
                first. Final transfers of any age, and those in flight. For the next page, set \
                `cursor` to `next`, until there is no `next`: a page may have fewer transfers than \
                `limit` before the end. Transfers of a store that an earlier version wrote are \
                missing up to the record `missingUpTo`. Movements of funds are not listed.",
            query: [
                PARTICIPANT, STATE, CAUSE, FROM, TO, AMOUNT_MIN, AMOUNT_MAX, ONLY_CURRENCY, LIMIT,
                CURSOR
            ],
            responses: [200: TransferPageResponse = "A page of transfers."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND],
        }
    }
}

response_type! {
    /// A page of transfers.
    struct TransferPageResponse as "TransferPage" {
        transfers: Vec<TransferResponse>,
        /// The cursor of the next page; absent on the last one.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<String>,
        /// Transfers that ended up to this record may be missing.
        #[serde(skip_serializing_if = "Option::is_none")]
        missing_up_to: Option<u64>,
    }
}

response_type! {
    /// A transfer in a list.
    struct TransferResponse as "ListedTransfer" {
        transfer_id: String = reference("TransferId"),
        /// Absent if it is not a participant.
        #[serde(skip_serializing_if = "Option::is_none")]
        payer: Option<String>,
        /// Absent if it is not a participant.
        #[serde(skip_serializing_if = "Option::is_none")]
        payee: Option<String>,
        amount: JsonNumber,
        currency: String = schema::currency(),
        transfer_state: &'static str = schema::one_of(&schema::names(&STATES)),
        /// How an aborted transfer ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<&'static str>,
        /// Error code that the payer got from the hub. Absent if the payer got that of the payee,
        /// which is in the message.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_code: Option<u16>,
        /// Why it ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'static str>,
        /// When it last changed its state.
        changed_date: Timestamp,
        log_index: u64,
    }
}

/// The transfers that a request selects.
#[derive(Debug)]
struct Selection {
    filter: TransferFilter,
    with_reserved: bool,
    before: Option<TransferPlace>,
    limit: usize,
}

/// A transfer of a page.
#[derive(Clone, Copy, Debug)]
struct Row {
    place: TransferPlace,
    payer: Option<ParticipantIndex>,
    payee: Option<ParticipantIndex>,
    amount: Amount,
    currency: Currency,
    /// How it ended; `None` for a reserved transfer.
    ended: Option<ListedTransfer>,
}

impl Selection {
    async fn of(request: &AdminRequest<'_>) -> Result<Self, Refusal> {
        let (state, cause) = (request.query(&STATE)?, request.query(&CAUSE)?);
        let (with_reserved, ends) = ends_of(state, cause);
        let (from, to) = (request.query(&FROM)?, request.query(&TO)?);
        let amounts = (request.query(&AMOUNT_MIN)?, request.query(&AMOUNT_MAX)?);
        let currency = request.query(&ONLY_CURRENCY)?;
        let (limit, before) = (request.query(&LIMIT)?.unwrap_or(PAGE), request.query(&CURSOR)?);
        let participant = request.query_party(&PARTICIPANT).await?;
        let (amount_min, amount_max) = amounts;
        let filter =
            TransferFilter { participant, ends, from, to, amount_min, amount_max, currency };
        Ok(Self { filter, with_reserved, before, limit })
    }

    /// The newest selected reserved transfers, at most `limit`, newest first; and whether there may
    /// be others.
    fn reserved(&self, state: &State) -> (Vec<Row>, bool) {
        let mut newest = BinaryHeap::new();
        let mut is_cut = false;
        for transfer in state.in_flight().filter(|_| self.with_reserved) {
            let place = place_of(transfer);
            if self.before.is_some_and(|before| before <= place) || !self.has(state, transfer) {
                continue;
            }
            newest.push(Reverse(place));
            if self.limit < newest.len() {
                newest.pop();
                is_cut = true;
            }
        }
        let lowest = newest.peek().map(|Reverse(place)| *place);
        let kept = state.in_flight().filter(|transfer| {
            lowest.is_some_and(|lowest| lowest <= place_of(transfer)) && {
                let is_before = self.before.is_none_or(|before| place_of(transfer) < before);
                is_before && self.has(state, transfer)
            }
        });
        let mut rows: Vec<_> = kept.map(|transfer| Row::reserved(state, transfer)).collect();
        rows.sort_unstable_by_key(|row| Reverse(row.place));
        (rows, is_cut)
    }

    fn has(&self, state: &State, transfer: &ReservedTransfer) -> bool {
        let parties = [transfer.payer, transfer.payee];
        self.filter.selects_time(transfer.reserved_at)
            && self.filter.participant.is_none_or(|wanted| parties.contains(&wanted))
            && self.filter.selects_amount(transfer.amount, currency_of(state, transfer))
    }
}

impl Row {
    fn reserved(state: &State, transfer: &ReservedTransfer) -> Self {
        Self {
            place: place_of(transfer),
            payer: Some(transfer.payer),
            payee: Some(transfer.payee),
            amount: transfer.amount,
            currency: currency_of(state, transfer),
            ended: None,
        }
    }

    fn ended(listed: ListedTransfer) -> Self {
        let entry = listed.entry;
        Self {
            place: entry.place,
            payer: entry.payer,
            payee: entry.payee,
            amount: entry.amount,
            currency: entry.currency,
            ended: Some(listed),
        }
    }

    fn response(&self, names: &HashMap<ParticipantIndex, String>) -> TransferResponse {
        let name = |index: Option<ParticipantIndex>| names.get(&index?).cloned();
        let end = self.ended.map(|listed| listed.entry.end());
        let cause = CAUSES.iter().find(|(_, cause)| Some(*cause) == end).map(|(name, _)| *name);
        let state = match end {
            None => TransferState::Reserved,
            Some(TransferEnd::Committed) => TransferState::Committed,
            Some(_) => TransferState::Aborted,
        };
        let (named, _) = STATES[state as usize];
        TransferResponse {
            transfer_id: self.place.id.to_string(),
            payer: name(self.payer),
            payee: name(self.payee),
            amount: JsonNumber(self.amount),
            currency: self.currency.to_string(),
            transfer_state: named,
            cause,
            error_code: self.ended.and_then(|listed| listed.error_code),
            reason: self.ended.filter(|_| cause.is_some()).map(|listed| listed.reason),
            changed_date: Timestamp(self.place.at),
            log_index: self.place.record.0,
        }
    }
}

/// `GET /transfers`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let selection = Selection::of(request).await?;
    let Selection { filter, before, limit, .. } = &selection;
    let mut query = TransferQuery {
        filter: filter.clone(),
        up_to: LogIndex(0),
        before: *before,
        limit: *limit,
    };
    let limit = *limit;
    let reserved = move |state: &State| (selection.reserved(state), state.log_index());
    let ((reserved, is_cut), up_to) = request.query_state(reserved).await?;
    query.up_to = up_to;
    let ended = match query.filter.ends.is_empty() {
        true => ListedTransfers::default(),
        false => {
            let found = request.backend.final_transfers(query).await;
            found.map_err(outcome_errors::from_unavailable)?
        }
    };
    let (rows, next) = merge((reserved, is_cut), &ended, limit);
    let parties: Vec<_> = rows.iter().flat_map(|row| [row.payer, row.payee]).flatten().collect();
    let names = request.query_state(move |state| {
        let name = |index| (index, state.registry().get(index).name.to_string());
        parties.into_iter().map(name).collect::<HashMap<_, _>>()
    });
    let names = names.await?;
    let missing = ended.missing_up_to.0;
    Ok(AdminResponse::ok(&TransferPageResponse {
        transfers: rows.iter().map(|row| row.response(&names)).collect(),
        next: next.map(write_cursor),
        missing_up_to: (missing != 0).then_some(missing),
    }))
}

/// The newest rows of both lists, and the place after which the next page begins.
fn merge(
    (reserved, is_cut): (Vec<Row>, bool),
    ended: &ListedTransfers,
    limit: usize,
) -> (Vec<Row>, Option<TransferPlace>) {
    let final_rows = ended.transfers.iter().copied().map(Row::ended);
    let mut rows: Vec<_> = reserved.into_iter().chain(final_rows).collect();
    // Below this place, final transfers are unknown.
    if let Some(end) = ended.next {
        rows.retain(|row| end <= row.place);
    }
    rows.sort_unstable_by_key(|row| Reverse(row.place));
    let is_longer = limit < rows.len();
    rows.truncate(limit);
    let last = rows.last().map(|row| row.place);
    match is_longer || is_cut && rows.len() == limit {
        true => (rows, last),
        false => (rows, ended.next),
    }
}

fn ends_of(state: Option<TransferState>, cause: Option<TransferEnd>) -> (bool, Vec<TransferEnd>) {
    let of_state = |end: &TransferEnd| match state {
        None => true,
        Some(TransferState::Reserved) => false,
        Some(TransferState::Committed) => *end == TransferEnd::Committed,
        Some(TransferState::Aborted) => *end != TransferEnd::Committed,
    };
    let ends = TransferEnd::ALL.iter().copied().filter(of_state);
    let ends = ends.filter(|end| cause.is_none_or(|cause| cause == *end)).collect();
    (cause.is_none() && matches!(state, None | Some(TransferState::Reserved)), ends)
}

fn place_of(transfer: &ReservedTransfer) -> TransferPlace {
    TransferPlace { at: transfer.reserved_at, record: transfer.prepare, id: transfer.id }
}

fn currency_of(state: &State, transfer: &ReservedTransfer) -> Currency {
    state.accounts().get(transfer.payer_account).expect("it was reserved there").currency
}

/// A place as a cursor: time and record in hexadecimal, and the id.
fn write_cursor(place: TransferPlace) -> String {
    format!("{:x}.{:x}.{}", place.at.0, place.record.0, place.id)
}

fn read_cursor(text: &str) -> Option<TransferPlace> {
    let (at, rest) = text.split_once('.')?;
    let (record, id) = rest.split_once('.')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let place = TransferPlace {
        at: Stamp(number(at)?),
        record: LogIndex(number(record)?),
        id: TransferId::parse(id)?,
    };
    (write_cursor(place) == text).then_some(place)
}

fn choice<T: Copy>(name: &str, all: &[(&str, T)], text: &str) -> Result<T, Refusal> {
    let found = all.iter().find(|(known, _)| *known == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|(known, _)| *known).collect();
        let detail = format!("must be one of {}", known.join(", "));
        refuse(ErrorCode::MALFORMED_SYNTAX, name, &detail)
    })
}

fn moment(name: &str, text: &str) -> Result<Stamp, Refusal> {
    parse_audit_time(text).ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, name, MOMENT_FORM))
}

fn amount(name: &str, text: &str) -> Result<Amount, Refusal> {
    let wrong = "must be a decimal number with at most four decimals";
    let amount = Amount::parse_decimal(text).filter(|_| !text.starts_with('-'));
    amount.ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, name, wrong))
}

fn amount_schema() -> serde_json::Value {
    json!({"type": "string", "pattern": r"^[0-9]{1,18}([.][0-9]{1,4})?$"})
}

#[cfg(test)]
mod tests {
    use ledger::Outcome;

    use super::*;

    fn place(at: u64) -> TransferPlace {
        let id = TransferId::parse("01HV0000000000000000000009").expect("an id");
        TransferPlace { at: Stamp(at), record: LogIndex(at), id }
    }

    fn row(at: u64) -> Row {
        Row {
            place: place(at),
            payer: None,
            payee: None,
            amount: Amount::ZERO,
            currency: Currency::parse("USD").expect("a currency"),
            ended: None,
        }
    }

    fn ended(all: &[u64], next: Option<u64>) -> ListedTransfers {
        let transfer = |at: &u64| ListedTransfer {
            entry: ports::TransferEntry {
                place: place(*at),
                payer: None,
                payee: None,
                amount: Amount::ZERO,
                currency: Currency::parse("USD").expect("a currency"),
                outcome: Outcome::Committed,
            },
            error_code: None,
            reason: "",
        };
        let transfers = all.iter().map(transfer).collect();
        ListedTransfers { transfers, next: next.map(place), missing_up_to: LogIndex(0) }
    }

    #[test]
    fn pages_continue_where_both_lists_are_known() {
        for (reserved, is_cut, all, unread, expected, next) in [
            (&[9, 3][..], false, &[8, 7][..], None, &[9, 8, 7][..], Some(7)),
            (&[9], false, &[8], None, &[9, 8], None),
            (&[9, 8, 7], true, &[], None, &[9, 8, 7], Some(7)),
            (&[9, 8, 7], false, &[], None, &[9, 8, 7], None),
            (&[9, 3], false, &[8], Some(5), &[9, 8], Some(5)),
            (&[3], false, &[], Some(5), &[], Some(5)),
            (&[1], false, &[9, 8, 7], Some(7), &[9, 8, 7], Some(7)),
        ] {
            let reserved = reserved.iter().map(|at| row(*at)).collect();
            let (rows, found) = merge((reserved, is_cut), &ended(all, unread), 3);
            let places: Vec<_> = rows.iter().map(|row| row.place.at.0).collect();
            assert_eq!((&places[..], found.map(|it| it.at.0)), (expected, next));
        }
    }

    #[test]
    fn cursors_are_read_as_written() {
        let place = place(1_777_000_000_000_000);
        assert_eq!(read_cursor(&write_cursor(place)), Some(place));
        for wrong in ["", "1", "1.2", "1.2.x", "01.2.01HV0000000000000000000009", "+1.2.3"] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn states_and_causes_select_ends() {
        use TransferEnd::{Aborted, Committed, Expired, Refused};
        for (state, cause, expected) in [
            (None, None, (true, vec![Committed, Refused, Aborted, Expired])),
            (Some(TransferState::Reserved), None, (true, vec![])),
            (Some(TransferState::Committed), None, (false, vec![Committed])),
            (Some(TransferState::Aborted), Some(Expired), (false, vec![Expired])),
            (None, Some(Refused), (false, vec![Refused])),
            (Some(TransferState::Committed), Some(Refused), (false, vec![])),
        ] {
            assert_eq!(ends_of(state, cause), expected);
        }
    }
}
