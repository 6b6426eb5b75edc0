//! Dead letters, transactions, the state, health, figures and documents.

use fspiop::ErrorCode;
use ledger::AdminOutcome;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::json;

use super::{Describe, change, list, order, question};
use crate::dead_letters::PAGE_MAX;

const TAG: &str = "hub";

pub(super) fn operations() -> Vec<Operation> {
    let letters = "/deadletters";
    let any = json!({"type": "object"});
    let text = json!({"type": "string"});
    let page = Answer {
        content: Some(("text/html".to_owned(), text.clone())),
        ..Answer::empty(200, "One page.")
    };
    let figures = Answer {
        content: Some(("text/plain".to_owned(), text)),
        ..Answer::empty(200, "Counters and gauges in the text form of Prometheus.")
    };
    vec![
        question(letters, "listDeadLetters", "delivery", "Notices that were given up")
            .says("The newest first; `before` with the last id of a page gives the next.")
            .asks(
                "limit",
                "How many.",
                json!({"type": "integer", "minimum": 1, "maximum": PAGE_MAX}),
                Some(json!(100)),
            )
            .asks("before", "Only older ones.", json!({"type": "integer", "minimum": 0}), None)
            .answers(Answer::json(200, "Dead letters.", list("DeadLetter")))
            .refuses(400, &[ErrorCode::VALIDATION, ErrorCode::MALFORMED_SYNTAX]),
        change("post", "/deadletters/{id}/resend", "resend", "delivery", "Send a notice again")
            .says("With a fresh set of attempts. Needs no body.")
            .answers(Answer::empty(202, "Owed again."))
            .ends(&[AdminOutcome::DeadLetterNotFound]),
        undeliverable(),
        question(
            "/transactions/{id}",
            "showTransaction",
            TAG,
            "What a transfer's ILP packet holds",
        )
        .guarded()
        .says(
            "The transaction object, digit for digit. It names people, so that reading it \
                 needs the token. A packet without an object is 500 with 2001.",
        )
        .answers(Answer::json(200, "The object.", any.clone()))
        .refuses(400, &[ErrorCode::ID_NOT_FOUND]),
        explanation(),
        question("/state", "showState", TAG, "Hashes of the state")
            .guarded()
            .says(
                "To be compared with another node's, or with what `upesi verify` prints for the \
                 same position. Not free, about a microsecond for each transfer kept, so that it \
                 needs the token.",
            )
            .answers(Answer::json(200, "As of the position.", reference("State"))),
        order("delete", "/endpointcache", "dropEndpointCache", TAG, "Forget cached endpoints")
            .says("There is no such cache: a changed endpoint is in force with the next message.")
            .answers(Answer::empty(202, "There is nothing to do.")),
        question("/health", "health", TAG, "Whether the hub works")
            .answers(Answer::json(200, "Every part works.", reference("Health")))
            .answers(Answer::json(502, "A part has stopped, or is stuck.", reference("Health"))),
        question("/metrics", "metrics", TAG, "Figures of the hub").answers(figures),
        storage(),
        cluster(),
        rules(),
        activation(),
        question("/openapi/fspiop.json", "fspiopDocument", TAG, "The FSPIOP API as OpenAPI")
            .answers(Answer::json(200, "The document.", any.clone())),
        question("/openapi/admin.json", "adminDocument", TAG, "This API as OpenAPI")
            .answers(Answer::json(200, "The document.", any)),
        question("/documents", "documents", TAG, "Both APIs to read").answers(page),
    ]
}

fn undeliverable() -> Operation {
    question("/undeliverable", "listUndeliverable", "delivery", "Notices without an address")
        .says(
            "The hub sends them when their recipient registers an endpoint for them. The oldest \
             first, at most 1,000; `upesi_notices_without_address` counts all.",
        )
        .answers(Answer::json(200, "Notices.", list("Undeliverable")))
}

fn storage() -> Operation {
    question("/storage", "storage", TAG, "Room for the log: used, free, until when")
        .says(
            "`status` is LOW below a tenth of the disk or three days at the growth of the last \
             day, CRITICAL below a twentieth or one day, FULL while commands are refused with 503 \
             for want of room, and FAILING while log or store cannot be written or read; `failing` \
             gives the reason, here and for an archive or a copy. `/health` shows the same status.",
        )
        .answers(Answer::json(200, "As of the last ten seconds.", reference("Storage")))
}

fn cluster() -> Operation {
    question("/cluster", "cluster", TAG, "The nodes that share the log")
        .says(
            "As the node that is asked sees them: who is there, up to where each has applied the \
             log, which node sends to which participant, and when one was last found to be gone. \
             Nobody where the log is not shared.",
        )
        .answers(Answer::json(200, "As of a fraction of a second ago.", reference("Cluster")))
}

fn rules() -> Operation {
    question("/rules", "showRules", TAG, "By which rules the ledger decides")
        .says("And the newest that the hub knows which is asked.")
        .answers(Answer::json(200, "As it stands.", reference("Rules")))
}

fn activation() -> Operation {
    change("put", "/rules", "activateRules", TAG, "Have later rules decide from now on")
        .says(
            "Once every node runs a program that knows them: refused as long as one that is there \
             does not. It cannot be taken back: an older program does not read the log any more.",
        )
        .takes("RulesVersion", json!({"rulesVersion": 1}))
        .answers(Answer::json(200, "They decide.", reference("Rules")))
        .refuses(400, &[ErrorCode::VALIDATION])
        .ends(&[AdminOutcome::RulesVersionRefused])
}

fn explanation() -> Operation {
    question(
        "/transfers/{transferId}/explanation",
        "explainTransfer",
        TAG,
        "What became of a transfer",
    )
    .guarded()
    .says(
        "Its whole life, whatever its age: its messages, resends and refused ones among them; what \
         was decided on each, with position, cover and cap before and after; its postings; the \
         notices that it made owed and how they were delivered. The same as `upesi explain`. Few \
         are answered at a time; 503 means to ask again.",
    )
    .answers(Answer::json(200, "What is known.", reference("Explanation")))
    .refuses(400, &[ErrorCode::MALFORMED_SYNTAX])
    .refuses(404, &[ErrorCode::TRANSFER_NOT_FOUND])
}
