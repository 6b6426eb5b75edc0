//! `/api/dfsps`, `/api/dfsps/jwscerts`, `/api/hub/jwscerts`: participants and the keys of their
//! signatures, with the paths and members of the community's connection manager. The keys are those
//! of `keys`, of which each participant shows the newest one.

use fspiop::{ErrorCode, Refusal};
use jws::{KEY_TEXT_BYTES_MAX, VerificationKey};
use ledger::{FspName, PublicKey, Stamp};

use crate::body::{Described, Text, body};
use crate::enrolments::DFSP;
use crate::keys;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, response_type};

routes! {
    "/api/dfsps" {
        read GET listDfsps = dfsps, "List the participants, as a connection manager does" {
            responses: [200: Vec<DfspResponse> = "Participants without the hub."],
        }
    }
    "/api/dfsps/jwscerts" {
        read GET listJwsKeys = list, "List the newest public key of each participant" {
            text: "The hub is in the list if it signs. A participant without a key is not.",
            responses: [200: Vec<JwsKeyResponse> = "Public keys that verify signatures."],
        }
    }
    "/api/dfsps/{dfspId}/jwscerts" [DFSP] {
        read GET showJwsKey = show, "Show the newest public key of a participant" {
            responses: [200: JwsKeyResponse = "The key."],
            refusals: [400 ID_NOT_FOUND],
        }
        change POST addJwsKey = add(NewJwsKey), "Add a public key, as a connection manager does" {
            permission: Security,
            records: AddKey,
            text: "\
                The same as `POST /participants/{name}/keys`: older keys stay valid until they are \
                removed there, at most 4 in all. `createdAt` is ignored; the hub's own time is \
                shown.",
            example: {"publicKey": concat!(
                "-----BEGIN PUBLIC KEY-----\n",
                "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqw7TMAN6pcA5jhFhUK9O/eEOeUod\n",
                "voJIiIn0GUsAQhOijyMVJb0NahMGw72rZrBIhjU8h4gGfjw+TH7IflGM5w==\n",
                "-----END PUBLIC KEY-----\n",
            )},
            responses: [200: JwsKeyResponse = "The stored key."],
        }
    }
    "/api/hub/jwscerts" {
        read GET showHubJwsKey = hub, "Show the public key of the hub" {
            text: "\
                The key that signs; `GET /participants/{name}/keys` also has the next and the \
                former one. Gets 3200 if the hub does not sign.",
            responses: [200: JwsKeyResponse = "The key."],
            refusals: [400 ID_NOT_FOUND],
        }
    }
}

body! {
    Open NewJwsKey {
        public_key: String = Described(
            Text(KEY_TEXT_BYTES_MAX),
            "PEM public key or certificate: RSA with at least 2048 bits, or P-256.",
        ),
    }
}

response_type! {
    struct DfspResponse as "Dfsp" {
        id: String,
        name: String,
    }
}

response_type! {
    /// A public key of a participant.
    struct JwsKeyResponse as "JwsKey" {
        dfsp_id: String,
        public_key: String,
        /// When it was added, in seconds since 1970; 0 if it comes from a file.
        created_at: u64,
        /// A key is verified before it is stored.
        validation_state: &'static str = schema::one_of(&["VALID"]),
    }
}

impl JwsKeyResponse {
    fn of(name: FspName, key: &VerificationKey, added: Option<Stamp>) -> Self {
        Self {
            dfsp_id: name.to_string(),
            public_key: key.to_pem(),
            created_at: added.map_or(0, |added| added.millis() / 1_000),
            validation_state: "VALID",
        }
    }

    /// The key with which the hub signs.
    fn of_hub(request: &AdminRequest<'_>, name: FspName) -> Option<Self> {
        let own = request.options.keys.hub.as_ref()?.published();
        own.first().map(|key| Self::of(name, key, None))
    }

    /// The newest key of a participant: of the register, or else of the key directory.
    fn newest(request: &AdminRequest<'_>, name: FspName, keys: &[PublicKey]) -> Option<Self> {
        if let Some(key) = keys.last() {
            // Invalid keys were refused before they were recorded.
            let parsed = VerificationKey::from_der(&key.der).ok();
            return parsed.map(|it| Self::of(name, &it, Some(key.added)));
        }
        let ring = request.options.keys.directory.as_ref().map(|keys| keys.ring())?;
        ring.of(&name).last().map(|key| Self::of(name, key, None))
    }
}

/// `GET /api/dfsps`.
async fn dfsps(request: &AdminRequest<'_>) -> HandlerResult {
    let all = request.query_state(|state| {
        let participants = state.registry().iter().skip(1);
        participants.map(|(_, participant)| participant.name.to_string()).collect::<Vec<_>>()
    });
    let all = all.await?.into_iter();
    let all: Vec<_> = all.map(|name| DfspResponse { id: name.clone(), name }).collect();
    Ok(AdminResponse::ok(&all))
}

/// `GET /api/dfsps/jwscerts`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let found = request.query_state(|state| {
        let participants = state.registry().iter().skip(1);
        let keys = participants.map(|(_, it)| (it.name, it.keys.clone())).collect::<Vec<_>>();
        (*state.hub(), keys)
    });
    let (name, participants) = found.await?;
    let own = JwsKeyResponse::of_hub(request, name);
    let newest =
        |(name, keys): (FspName, Vec<PublicKey>)| JwsKeyResponse::newest(request, name, &keys);
    let all: Vec<_> = own.into_iter().chain(participants.into_iter().filter_map(newest)).collect();
    Ok(AdminResponse::ok(&all))
}

/// `GET /api/dfsps/{dfspId}/jwscerts`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&DFSP)?;
    let keys = request.query_participant(name, |_, participant| participant.keys.clone()).await?;
    let newest = JwsKeyResponse::newest(request, name, &keys);
    Ok(AdminResponse::ok(&newest.ok_or_else(keys::not_found)?))
}

/// `POST /api/dfsps/{dfspId}/jwscerts`.
async fn add(request: &AdminRequest<'_>, body: NewJwsKey) -> HandlerResult {
    let name = request.path(&DFSP)?;
    let (key, added) = keys::record(request, name, &body.public_key).await?;
    Ok(AdminResponse::ok(&JwsKeyResponse::of(name, &key, added)))
}

/// `GET /api/hub/jwscerts`.
async fn hub(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.query_state(|state| *state.hub()).await?;
    let own = JwsKeyResponse::of_hub(request, name);
    let unsigned = || Refusal::new(ErrorCode::ID_NOT_FOUND, "the hub does not sign messages");
    Ok(AdminResponse::ok(&own.ok_or_else(unsigned)?))
}
