//! Descriptions of the FSPIOP operations: text, status on success, and error codes of the handler.

use ::fspiop::ErrorCode;
use ::fspiop::route_table::Operation;
use http::StatusCode;

/// The description of an operation.
pub(super) struct Description {
    pub(super) summary: &'static str,
    pub(super) text: &'static str,
    /// Status of an accepted message.
    pub(super) accepted: StatusCode,
    /// Description of that status.
    pub(super) accepted_text: &'static str,
    /// Codes, all with status 400, that the handler adds to those of headers, path and body.
    pub(super) errors: &'static [ErrorCode],
}

const FORWARDED: &str = "Accepted and forwarded once. Nothing is recorded.";
const RECORDED: &str = "Recorded, synced and decided.";
const UNKNOWN_SOURCE: &[ErrorCode] = &[ErrorCode::ID_NOT_FOUND];

/// Describes an operation. The matches are exhaustive, so a new operation needs a description.
pub(super) fn describe(operation: Operation) -> Description {
    use Operation::*;
    let (summary, text) = summary_and_text(operation);
    let (accepted, accepted_text, errors) = match operation {
        Health => (StatusCode::OK, "", &[][..]),
        EndpointCache => (StatusCode::ACCEPTED, "", &[][..]),
        ParticipantsBatchPut | ParticipantsBatchError | TransfersPatch => {
            (StatusCode::NOT_IMPLEMENTED, "", &[][..])
        }
        ParticipantsBatch | ParticipantsPut => (StatusCode::OK, RECORDED, UNKNOWN_SOURCE),
        ParticipantsPost | ParticipantsDelete => (StatusCode::ACCEPTED, RECORDED, UNKNOWN_SOURCE),
        ParticipantsGet | ServicesGet => {
            (StatusCode::ACCEPTED, "Accepted; the callback follows.", UNKNOWN_SOURCE)
        }
        ParticipantsError => (StatusCode::OK, FORWARDED, &[][..]),
        PartiesGet => (StatusCode::ACCEPTED, FORWARDED, &[ErrorCode::MALFORMED_SYNTAX][..]),
        PartiesPut | PartiesError => (StatusCode::OK, FORWARDED, UNKNOWN_SOURCE),
        QuotesPost
        | QuotesGet
        | BulkQuotesPost
        | BulkQuotesGet
        | TransactionRequestsPost
        | TransactionRequestsGet
        | AuthorizationsGet
        | TransactionsGet => (StatusCode::ACCEPTED, FORWARDED, &[][..]),
        QuotesPut
        | QuotesError
        | BulkQuotesPut
        | BulkQuotesError
        | TransactionRequestsPut
        | TransactionRequestsError
        | AuthorizationsPut
        | AuthorizationsError
        | TransactionsPut
        | TransactionsError => (StatusCode::OK, FORWARDED, &[][..]),
        TransfersPost | BulkTransfersPost => (StatusCode::ACCEPTED, RECORDED, &[][..]),
        TransfersGet | BulkTransfersGet => {
            (StatusCode::ACCEPTED, "Accepted; the callback follows.", &[][..])
        }
        TransfersPut | TransfersError | BulkTransfersPut | BulkTransfersError => {
            (StatusCode::OK, RECORDED, &[][..])
        }
    };
    Description { summary, text, accepted, accepted_text, errors }
}

const CLEAR_CACHE: &str = "\
    The hub has no such cache: a changed endpoint applies from the next message. The route exists \
    for operators' scripts. Needs no header.";
const LOOK_UP: &str = "\
    Forwarded to `FSPIOP-Destination`. Without a destination, forwarded to the FSPs that the \
    directory names, at most 16. If the directory has no entry, the sender gets a callback with \
    3204.";
const REQUEST_QUOTE: &str = "\
    Forwarded to the destination, unless the sender is unknown. If the destination is unknown, \
    or unusable in the currency, the sender gets a callback with 3201 or 3202.";
const TO_DESTINATION: &str = "Forwarded to the destination.";
const REQUEST_BULK_QUOTE: &str = "\
    Forwarded to the destination, unless the sender is unknown. If the source or the destination \
    is unusable in the currency of the first quote, the sender gets a callback with 3202 or 3201.";
const REQUEST_PAYMENT: &str = "\
    Sent by the payee's FSP, and forwarded to the destination, the payer's FSP. If the \
    destination is unknown, the sender gets a callback with 3201. The hub keeps no link to the \
    quote and the transfer that follow.";
const PROVIDERS: &str = "\
    Answered by callback from `services.fxp` of the configuration, with the active participants; \
    an empty list if no participant converts. The callback goes to the sender's endpoint for \
    quotes of conversions.";
const TRANSACTIONS: &str = "\
    Forwarded to the destination, at the address of its transaction requests. The admin API has \
    the transaction object of a transfer.";
const PREPARE: &str = "\
    The hub raises the payer's position by the amount, within its cover and cap, and forwards \
    the message to the payee byte for byte. If the transfer is refused, the payer gets an error \
    callback; an `expiration` beyond the limit is refused at once with 3100. A message from an \
    unknown sender has no effect. The callback for an identical resend carries the transfer's \
    state; for a changed resend it carries 3106.";
const QUERY_TRANSFER: &str = "\
    The callback to the sender carries the state and, if committed, the fulfilment. Only the two \
    FSPs of the transfer get it; any other sender gets a callback with 3000.";
const PREPARE_BULK: &str = "\
    Each item is a transfer. The hub decides the items in the order of the list, and sends the \
    accepted ones to the payee. If none is accepted, the payer gets the result with the error of \
    each item. The number of items is limited by `transfers.bulk_items_max`. An identical resend \
    of a final bulk is answered with its result; a changed resend with 3106.";
const CONFIRM: &str = "\
    The hub sends this callback to a payee that answered `RESERVED`, and does not accept it.";
const QUERY_BULK: &str = "\
    The callback to the sender carries the state and, once the bulk is final, the result of each \
    item. The payee gets the items that it was sent.";
const FULFIL_BULK: &str = "\
    Sent by the payee. An item with a valid fulfilment is committed; one with `errorInformation`, \
    or with a missing or wrong fulfilment, is aborted. Items that are not named stay in flight \
    until the deadline. An item that is not in flight in the bulk refuses the message with 3100.";
const FULFIL: &str = "\
    Sent by the payee with `COMMITTED` or, from version 1.1, with `RESERVED`; the hub then \
    confirms by `PATCH`. A valid fulfilment commits the transfer, an invalid one aborts it. \
    `completedTimestamp` may be at most 200 ms later and 300 s earlier than the hub's clock.";

fn summary_and_text(operation: Operation) -> (&'static str, &'static str) {
    use Operation::*;
    match operation {
        Health => ("Check the health of the hub", "Needs no header."),
        EndpointCache => ("Clear the endpoint cache", CLEAR_CACHE),
        ParticipantsBatch => (
            "Register many parties",
            "Entries are independent of each other: the callback lists the error of each rejected \
             entry. An entry's `fspId` must be the sender.",
        ),
        ParticipantsBatchPut | ParticipantsBatchError => {
            ("Not served", "The hub sends this callback after a batch and does not accept it.")
        }
        ParticipantsGet => (
            "Find the FSP that serves a party",
            "Answered from the hub's directory, by callback to the sender.",
        ),
        ParticipantsPost => (
            "Register a party",
            "The callback goes to `FSPIOP-Destination` if present, otherwise to `fspId`.",
        ),
        ParticipantsPut => {
            ("Register a party again", "Like `POST`; without `fspId` the sender is registered.")
        }
        ParticipantsError => ("Report a failed look-up", "Forwarded to the destination."),
        ParticipantsDelete => (
            "Remove a party from the directory",
            "Only by the FSP that serves the party, unless `parties.ownership` is `latest-wins`. \
             The result follows by callback to the sender.",
        ),
        PartiesGet => ("Look up a party", LOOK_UP),
        PartiesPut => (
            "Answer a party look-up",
            "Forwarded to the destination. The hub only checks that the body is a JSON object.",
        ),
        PartiesError => ("Report an unknown party", "Forwarded to the destination."),
        QuotesPost
        | QuotesGet
        | QuotesPut
        | QuotesError
        | BulkQuotesPost
        | BulkQuotesGet
        | BulkQuotesPut
        | BulkQuotesError
        | TransactionRequestsPost
        | TransactionRequestsGet
        | TransactionRequestsPut
        | TransactionRequestsError
        | AuthorizationsGet
        | AuthorizationsPut
        | AuthorizationsError
        | TransactionsGet
        | TransactionsPut
        | TransactionsError => exchange(operation),
        BulkTransfersPost | BulkTransfersGet | BulkTransfersPut | BulkTransfersError => {
            bulk(operation)
        }
        ServicesGet => ("Find participants that convert currencies", PROVIDERS),
        TransfersPost => ("Prepare a transfer", PREPARE),
        TransfersGet => ("Request the state of a transfer", QUERY_TRANSFER),
        TransfersPut => ("Fulfil a transfer", FULFIL),
        TransfersError => (
            "Abort a transfer",
            "Sent by the payee. The hub lowers the payer's position by the amount again.",
        ),
        TransfersPatch => ("Not served", CONFIRM),
    }
}

/// Summary and text of a message about a bulk transfer.
fn bulk(operation: Operation) -> (&'static str, &'static str) {
    use Operation::*;
    match operation {
        BulkTransfersPost => ("Prepare a bulk transfer", PREPARE_BULK),
        BulkTransfersGet => ("Request the state of a bulk transfer", QUERY_BULK),
        BulkTransfersPut => ("Answer a bulk transfer", FULFIL_BULK),
        _ => (
            "Abort a bulk transfer",
            "Sent by the payee. All items in flight are aborted with the error.",
        ),
    }
}

/// Summary and text of a message that is only forwarded.
fn exchange(operation: Operation) -> (&'static str, &'static str) {
    use Operation::*;
    match operation {
        QuotesPost => ("Request a quote", REQUEST_QUOTE),
        QuotesGet => ("Request a quote again", "Forwarded to the destination, which may answer."),
        QuotesPut => {
            ("Answer a quote request", "Forwarded to the destination, which requested the quote.")
        }
        QuotesError => ("Reject a quote request", TO_DESTINATION),
        BulkQuotesPost => ("Request a bulk quote", REQUEST_BULK_QUOTE),
        BulkQuotesGet => ("Request a bulk quote again", TO_DESTINATION),
        BulkQuotesPut => ("Answer a bulk quote request", TO_DESTINATION),
        BulkQuotesError => ("Reject a bulk quote request", TO_DESTINATION),
        TransactionRequestsPost => ("Request a payment", REQUEST_PAYMENT),
        TransactionRequestsGet => ("Request the state of a request to pay", TO_DESTINATION),
        TransactionRequestsPut => ("Answer a request to pay", TO_DESTINATION),
        TransactionRequestsError => ("Reject a request to pay", TO_DESTINATION),
        AuthorizationsGet => {
            ("Ask for the payer's authorization", "Forwarded to the destination with its query.")
        }
        AuthorizationsPut => ("Answer with the payer's authorization", TO_DESTINATION),
        AuthorizationsError => ("Report a failed authorization", TO_DESTINATION),
        TransactionsGet => ("Request the state of a transaction", TRANSACTIONS),
        TransactionsPut => ("Answer with the state of a transaction", TRANSACTIONS),
        TransactionsError => ("Report an unknown transaction", TRANSACTIONS),
        _ => unreachable!("{operation:?} is not only forwarded"),
    }
}
