//! `/participants/{name}/keys`: the public keys that verify a participant's signatures, and the
//! hub's own key for partners to fetch. An addition to the reference, which uses files only.
//!
//! Keys that are added here are records of the log, like every change. Keys of the key directory
//! are listed, too; they are changed by its files.

use std::sync::Arc;

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use jws::{Algorithm, KEY_TEXT_BYTES_MAX, KeyKind, KeyRing, VerificationKey};
use ledger::{AddKey, Digest, FspName, RemoveKey, Stamp};

use crate::body::{Described, Text, body};
use crate::participants::NAME;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

/// The key in a path.
const KEY: Parameter<String> = Parameter::some_text("key", "SHA-256 of the key, as in the list.")
    .example(r#""0000000000000000000000000000000000000000000000000000000000000000""#);

routes! {
    "/participants/{name}/keys" [NAME] {
        read GET listKeys = list, "List the public keys of a participant" {
            text: "\
                Keys added with this API, oldest first, then keys of the key directory. For `Hub`: \
                its own keys, if it signs; the first one signs, and the others are the next or \
                the former one.",
            responses: [200: Vec<KeyResponse> = "Keys."],
            refusals: [400 ID_NOT_FOUND],
        }
        change POST addKey = add(NewKey), "Add a public key" {
            permission: Security,
            records: AddKey,
            text: "\
                Applies from the next message, in addition to existing keys, at most 4. Adding an \
                existing key changes nothing. The hub's own key is set in its configuration; \
                adding one gets 3100.",
            example: {"publicKey": concat!(
                "-----BEGIN PUBLIC KEY-----\n",
                "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqw7TMAN6pcA5jhFhUK9O/eEOeUod\n",
                "voJIiIn0GUsAQhOijyMVJb0NahMGw72rZrBIhjU8h4gGfjw+TH7IflGM5w==\n",
                "-----END PUBLIC KEY-----\n",
            )},
            responses: [201: KeyResponse = "The stored key."],
        }
    }
    "/participants/{name}/keys/{key}" [NAME, KEY] {
        read GET showKey = show, "Show a public key" {
            responses: [200: KeyResponse = "The key."],
            refusals: [400 ID_NOT_FOUND],
        }
        change DELETE removeKey = remove, "Remove a public key" {
            permission: Security,
            records: RemoveKey,
            text: "\
                Signatures by this key are refused from the next message. A key of the key \
                directory is removed with its file; removing it here gets 3100.",
            responses: [204: () = "Removed."],
        }
    }
    "/keyDirectory/reload" {
        action POST reloadKeys = reload, "Reload the key directory" {
            permission: Security,
            text: "Same as SIGHUP. Gets 3100 if no key directory is configured. Needs no body.",
            responses: [200: ReloadResponse = "The keys that were read."],
            refusals: [400 VALIDATION],
        }
    }
}

body! {
    Closed NewKey {
        public_key: String = Described(
            Text(KEY_TEXT_BYTES_MAX),
            "PEM public key or certificate: RSA with at least 2048 bits, or P-256.",
        ),
    }
}

response_type! {
    /// A public key in a response.
    struct KeyResponse as "Key" {
        /// SHA-256 of the key (its `SubjectPublicKeyInfo`), in hexadecimal.
        id: String = schema::hash(),
        kind: &'static str = schema::one_of(&["RSA", "P-256", "other"]),
        #[serde(skip_serializing_if = "Option::is_none")]
        bits: Option<usize>,
        algorithms: Vec<&'static str>,
        /// Its source: `register`, `directory`, or `configuration` for the hub's own keys.
        source: &'static str = schema::one_of(&["register", "directory", "configuration"]),
        #[serde(skip_serializing_if = "Option::is_none")]
        created_date: Option<Timestamp>,
        public_key: String,
    }
}

impl KeyResponse {
    fn of(key: &VerificationKey, source: &'static str, created: Option<Stamp>) -> Self {
        let (kind, bits) = match key.kind() {
            KeyKind::Rsa { bits } => ("RSA", Some(bits)),
            KeyKind::P256 => ("P-256", None),
            KeyKind::Other => ("other", None),
        };
        let fits = |algorithm: &Algorithm| key.fits(*algorithm);
        Self {
            id: key.fingerprint().to_string(),
            kind,
            bits,
            algorithms: Algorithm::ALL.iter().filter(|it| fits(it)).map(|it| it.as_str()).collect(),
            source,
            created_date: created.map(Timestamp),
            public_key: key.to_pem(),
        }
    }
}

response_type! {
    struct ReloadResponse as "Reload" {
        participants: usize,
        keys: usize,
        faults: Vec<String>,
    }
}

/// `GET /participants/{name}/keys`: keys of the registry, oldest first, then of the directory.
/// For the hub: its own keys, if it signs.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&all(request, request.path(&NAME)?).await?))
}

/// `GET /participants/{name}/keys/{id}`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let all = all(request, request.path(&NAME)?).await?;
    let id = request.path(&KEY)?;
    match all.iter().find(|key| key.id == id) {
        Some(key) => Ok(AdminResponse::ok(key)),
        None => Err(not_found()),
    }
}

/// `POST /participants/{name}/keys` with `{"publicKey": PEM}`: adds a key, which applies from the
/// next message. Adding an existing key changes nothing.
async fn add(request: &AdminRequest<'_>, body: NewKey) -> HandlerResult {
    let (key, created) = record(request, request.path(&NAME)?, &body.public_key).await?;
    Ok(AdminResponse::json(StatusCode::CREATED, &KeyResponse::of(&key, "register", created)))
}

/// Records a key in PEM. Returns it, and when it was added.
pub(crate) async fn record(
    request: &AdminRequest<'_>,
    name: FspName,
    public_key: &str,
) -> Result<(VerificationKey, Option<Stamp>), Refusal> {
    let key = VerificationKey::from_pem(public_key.as_bytes())
        .map_err(|error| Refusal::new(ErrorCode::VALIDATION, &format!("\"publicKey\": {error}")))?;
    if request.query_state(|state| *state.hub()).await? == name {
        let detail = "the hub's own key is set by jws.signing_key in its configuration";
        return Err(Refusal::new(ErrorCode::VALIDATION, detail));
    }
    let id = key.fingerprint();
    request.change(AddKey { name, id, key: key.der().to_vec() }).await?;
    let created = request.query_participant(name, move |_, participant| {
        participant.keys.iter().find(|known| known.id == id).map(|known| known.added)
    });
    Ok((key, created.await?))
}

/// `DELETE /participants/{name}/keys/{id}`: signatures by it are refused from the next message.
async fn remove(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&NAME)?;
    let id = parse_id(&request.path(&KEY)?).ok_or_else(not_found)?;
    request.change(RemoveKey { name, id }).await.map_err(|refusal| {
        let listed =
            request.options.keys.directory.as_ref().map(|keys| keys.ring()).unwrap_or_default();
        match listed.of(&name).iter().any(|key| key.fingerprint() == id) {
            true => Refusal::new(
                ErrorCode::VALIDATION,
                "the key belongs to the key directory: remove its file and reload the directory",
            ),
            false => refusal,
        }
    })?;
    Ok(AdminResponse::empty(StatusCode::NO_CONTENT))
}

/// `POST /keyDirectory/reload`: reloads the key directory, like SIGHUP.
async fn reload(request: &AdminRequest<'_>) -> HandlerResult {
    let Some(directory) = request.options.keys.directory.as_ref().map(Arc::clone) else {
        let detail = "no key directory is configured: set jws.keys and restart the switch";
        return Err(Refusal::new(ErrorCode::VALIDATION, detail));
    };
    let reading = tokio::task::spawn_blocking(move || directory.reload());
    let reloaded =
        reading.await.map_err(|_| Refusal::internal("the key directory could not be read"))?;
    Ok(AdminResponse::ok(&ReloadResponse {
        participants: reloaded.participants,
        keys: reloaded.keys,
        faults: reloaded.faults.iter().map(ToString::to_string).collect(),
    }))
}

async fn all(request: &AdminRequest<'_>, name: FspName) -> Result<Vec<KeyResponse>, Refusal> {
    let found = request.query_participant(name, move |state, participant| {
        (participant.keys.clone(), *state.hub() == name)
    });
    let (keys, is_hub) = found.await?;
    let mut responses = Vec::new();
    for key in keys {
        // Invalid keys were refused before they were recorded.
        let parsed = VerificationKey::from_der(&key.der).ok();
        responses.extend(parsed.map(|it| KeyResponse::of(&it, "register", Some(key.added))));
    }
    let directory = request.options.keys.directory.as_ref();
    let ring: KeyRing = directory.map(|keys| keys.ring()).unwrap_or_default();
    responses.extend(ring.of(&name).iter().map(|key| KeyResponse::of(key, "directory", None)));
    let own = request.options.keys.hub.as_ref().filter(|_| is_hub);
    let own = own.map(|keys| keys.published()).unwrap_or_default();
    responses.extend(own.iter().map(|key| KeyResponse::of(key, "configuration", None)));
    Ok(responses)
}

/// 64 hexadecimal digits.
fn parse_id(text: &str) -> Option<Digest> {
    let mut id = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(Digest(id))
}

pub(crate) fn not_found() -> Refusal {
    Refusal::new(ErrorCode::ID_NOT_FOUND, "public key not found")
}
