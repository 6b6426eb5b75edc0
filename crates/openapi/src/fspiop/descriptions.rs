//! What an operation means, how it is answered when it is taken, and what its handler refuses.

use ::fspiop::ErrorCode;
use ::fspiop::routes::Operation as Asked;
use http::StatusCode;

/// What is said about an operation.
pub(super) struct Description {
    pub(super) summary: &'static str,
    pub(super) text: &'static str,
    /// Status when the message is taken.
    pub(super) accepted: StatusCode,
    /// What that status says.
    pub(super) taken: &'static str,
    /// Codes, all of them with 400, that the handler adds to those of headers, path and body.
    pub(super) faults: &'static [ErrorCode],
}

const FORWARDED: &str = "Taken, to be forwarded once. Nothing is recorded.";
const RECORDED: &str = "Recorded, synced and decided.";
const UNKNOWN_SOURCE: &[ErrorCode] = &[ErrorCode::ID_NOT_FOUND];

/// One arm for each operation, so that a new one needs its words.
pub(super) fn words(asked: Asked) -> Description {
    use Asked::*;
    let (summary, text) = said(asked);
    let (accepted, taken, faults) = match asked {
        Health => (StatusCode::OK, "", &[][..]),
        EndpointCache => (StatusCode::ACCEPTED, "", &[][..]),
        ParticipantsBatchPut | ParticipantsBatchError | TransfersPatch => {
            (StatusCode::NOT_IMPLEMENTED, "", &[][..])
        }
        ParticipantsBatch | ParticipantsPut => (StatusCode::OK, RECORDED, UNKNOWN_SOURCE),
        ParticipantsPost | ParticipantsDelete => (StatusCode::ACCEPTED, RECORDED, UNKNOWN_SOURCE),
        ParticipantsGet => (StatusCode::ACCEPTED, "Taken; the answer follows.", UNKNOWN_SOURCE),
        ParticipantsError => (StatusCode::OK, FORWARDED, &[][..]),
        PartiesGet => (StatusCode::ACCEPTED, FORWARDED, &[ErrorCode::MALFORMED_SYNTAX][..]),
        PartiesPut | PartiesError => (StatusCode::OK, FORWARDED, UNKNOWN_SOURCE),
        QuotesPost | QuotesGet => (StatusCode::ACCEPTED, FORWARDED, &[][..]),
        QuotesPut | QuotesError => (StatusCode::OK, FORWARDED, &[][..]),
        TransfersPost => (StatusCode::ACCEPTED, RECORDED, &[][..]),
        TransfersGet => (StatusCode::ACCEPTED, "Taken; the answer follows.", &[][..]),
        TransfersPut | TransfersError => (StatusCode::OK, RECORDED, &[][..]),
    };
    Description { summary, text, accepted, taken, faults }
}

fn said(asked: Asked) -> (&'static str, &'static str) {
    use Asked::*;
    match asked {
        Health => ("Whether the hub works", "Needs no header."),
        EndpointCache => (
            "Forget cached endpoints",
            "There is no such cache: a changed endpoint is in force with the next message. The \
             route is there for operators' scripts. Needs no header.",
        ),
        ParticipantsBatch => (
            "Register many parties",
            "Each entry stands for itself: what is wrong with one is told in the callback. An \
             entry's `fspId` must be the sender.",
        ),
        ParticipantsBatchPut | ParticipantsBatchError => {
            ("Not served", "Sent by the hub as the answer to a batch, and not understood by it.")
        }
        ParticipantsGet => (
            "Which FSP serves a party",
            "Answered from the hub's directory, by callback to the sender.",
        ),
        ParticipantsPost => (
            "Register a party",
            "The callback goes to `FSPIOP-Destination` if there is one, else to `fspId`.",
        ),
        ParticipantsPut => {
            ("Register a party again", "As `POST`; without `fspId` the sender is registered.")
        }
        ParticipantsError => ("Say that a look-up failed", "Passed on to the destination."),
        ParticipantsDelete => (
            "Take a party out of the directory",
            "Any DFSP may release any entry; the answer follows by callback to the sender.",
        ),
        PartiesGet => (
            "Who a party is",
            "Goes to `FSPIOP-Destination`, or without one to the FSPs that the directory names, \
             at most 16. When nobody is found the sender hears 3204 by callback.",
        ),
        PartiesPut => (
            "Say who a party is",
            "The answer to a look-up; goes to the destination. The hub looks at nothing in the \
             body but that it is an object.",
        ),
        PartiesError => ("Say that a party is not known", "Goes to the destination."),
        QuotesPost => (
            "Ask for a quote",
            "Goes to the destination, unless the sender is unknown. For an FSP that is unknown or \
             unusable in the currency the sender gets 3201 or 3202.",
        ),
        QuotesGet => ("Ask for a quote again", "Goes to the destination, which may answer."),
        QuotesPut => ("Give a quote", "Goes to the destination, which asked for it."),
        QuotesError => ("Refuse a quote", "Goes to the destination."),
        TransfersPost => (
            "Prepare a transfer",
            "The payer's position rises by the amount, within cover and cap, and the payee gets \
             the message byte for byte. What is refused is told to the payer by callback; an \
             `expiration` beyond the limit gets 3100 at once. An unknown sender changes nothing. \
             A resend is answered by a callback with the state, a changed one with 3106.",
        ),
        TransfersGet => (
            "Ask for the state of a transfer",
            "Answered by callback to the sender: state and, when committed, fulfilment. Only the \
             two FSPs of the transfer are told; others hear 3000.",
        ),
        TransfersPut => (
            "Fulfil a transfer",
            "From the payee, with `COMMITTED`, or from version 1.1 with `RESERVED`, after which \
             the hub confirms by `PATCH`. A good fulfilment commits; a bad one aborts. \
             `completedTimestamp` may lie 200 ms ahead and 300 s behind.",
        ),
        TransfersError => ("Abort a transfer", "From the payee: the payer's position falls back."),
        TransfersPatch => (
            "Not served",
            "Sent by the hub to a payee that answered `RESERVED`, and not understood by it.",
        ),
    }
}
