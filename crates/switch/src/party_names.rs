//! Destinations of messages about a party.

use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, PartyIdType, PartyPath};
use http::Method;
use ledger::ParticipantIndex;

use crate::destination::{Destination, Variables};

/// Error text for identifiers with braces.
pub(crate) fn braces_error() -> (ErrorCode, String) {
    let code = ErrorCode::MALFORMED_SYNTAX;
    (code, code.describe("an identifier in the path contains braces"))
}

/// An error without details.
pub(crate) fn error_without_details(code: ErrorCode) -> (ErrorCode, String) {
    (code, code.describe(""))
}

/// A party as named in paths and templates, percent-encoded.
pub(crate) struct PartyNames {
    pub(crate) kind: PartyIdType,
    pub(crate) id: String,
    pub(crate) sub_id: Option<String>,
}

/// The kind of callback.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistrationCallback {
    Put,
    Error,
}

impl PartyNames {
    pub(crate) fn of(path: &PartyPath<'_>) -> Self {
        Self {
            kind: path.kind,
            id: path.id.escaped().into(),
            sub_id: path.sub_id.as_ref().map(|sub_id| sub_id.escaped().into()),
        }
    }

    /// A callback about the registration of the party.
    pub(crate) fn registration_callback(
        &self,
        participant: ParticipantIndex,
        kind: RegistrationCallback,
    ) -> Destination {
        let endpoint = match (kind, self.sub_id.is_some()) {
            (RegistrationCallback::Put, false) => EndpointType::ParticipantPut,
            (RegistrationCallback::Put, true) => EndpointType::ParticipantSubIdPut,
            (RegistrationCallback::Error, false) => EndpointType::ParticipantPutError,
            (RegistrationCallback::Error, true) => EndpointType::ParticipantSubIdPutError,
        };
        let suffix = if kind == RegistrationCallback::Error { "/error" } else { "" };
        self.destination(participant, (Method::PUT, endpoint), ("/participants", suffix))
    }

    /// A call about the party, under this collection.
    pub(crate) fn destination(
        &self,
        participant: ParticipantIndex,
        (method, endpoint): (Method, EndpointType),
        (collection, suffix): (&str, &str),
    ) -> Destination {
        let kind = self.kind.as_str();
        let mut path = format!("{collection}/{kind}/{}", self.id);
        let mut variables =
            vec![("partyIdType", kind.to_owned()), ("partyIdentifier", self.id.clone())];
        if let Some(sub_id) = &self.sub_id {
            path = format!("{path}/{sub_id}");
            variables.push(("partySubIdOrType", sub_id.clone()));
        }
        path.push_str(suffix);
        let (path, variables) = (path.into(), Variables::List(variables));
        Destination { participant, endpoint, method, path, variables, subject: None }
    }
}
