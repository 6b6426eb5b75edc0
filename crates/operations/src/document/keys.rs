//! Public keys by which signatures are verified.

use fspiop::ErrorCode;
use ledger::AdminOutcome;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::json;

use super::{Describe, change, list, order, question};

const TAG: &str = "keys";
/// A public key, made for examples: nobody has its other half.
const EXAMPLE_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqw7TMAN6pcA5jhFhUK9O/eEOeUod\n\
    voJIiIn0GUsAQhOijyMVJb0NahMGw72rZrBIhjU8h4gGfjw+TH7IflGM5w==\n\
    -----END PUBLIC KEY-----\n";

pub(super) fn operations() -> Vec<Operation> {
    let unknown = [AdminOutcome::ParticipantNotFound];
    let none = [AdminOutcome::ParticipantNotFound, AdminOutcome::KeyNotFound];
    let all = "/participants/{name}/keys";
    let one = "/participants/{name}/keys/{key}";
    vec![
        question(all, "listKeys", TAG, "The public keys of a participant")
            .says(
                "Those added here, oldest first, then those of the directory of keys. For the \
                 hub its own, if it signs.",
            )
            .answers(Answer::json(200, "Keys.", list("Key")))
            .ends(&unknown),
        change("post", all, "addKey", TAG, "Add a public key")
            .says(
                "In force with the next message, beside the others: at most 4. A key that is \
                 there already stays as it is. The hub's own key is a setting: 3100.",
            )
            .takes("NewKey", json!({"publicKey": EXAMPLE_KEY}))
            .answers(Answer::json(201, "The key as it is kept.", reference("Key")))
            .ends(&unknown)
            .ends(&[AdminOutcome::KeysFull]),
        question(one, "showKey", TAG, "One public key")
            .answers(Answer::json(200, "The key.", reference("Key")))
            .ends(&none),
        change("delete", one, "removeKey", TAG, "Remove a public key")
            .says(
                "Refused from the next message on. A key of the directory goes with its file: \
                 3100.",
            )
            .answers(Answer::empty(204, "Removed."))
            .ends(&none),
        order(
            "post",
            "/keyDirectory/reload",
            "reloadKeys",
            TAG,
            "Read the directory of keys again",
        )
        .says("As SIGHUP does. Without a directory 3100. Needs no body.")
        .answers(Answer::json(200, "What was found there.", reference("Reload")))
        .refuses(400, &[ErrorCode::VALIDATION]),
    ]
}
