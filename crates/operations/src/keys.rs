//! `/participants/{name}/keys`: the public keys by which a participant's signatures are verified,
//! and the hub's own for partners to fetch. An addition to the reference, which knows only files.
//!
//! Keys that are added here are records of the log, like every change. Those of the directory are
//! shown beside them and changed by its files.

use std::sync::Arc;

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use jws::{Algorithm, KEY_TEXT_BYTES_MAX, KeyKind, KeyRing, VerificationKey};
use ledger::{AddKey, Change, Digest, FspName, RemoveKey, Stamp};
use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::call::{Call, participant_name};
use crate::refusals;
use crate::shapes::{Moment, of_participant};

/// A public key as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyShape {
    /// SHA-256 of the key (its `SubjectPublicKeyInfo`), in hexadecimal.
    id: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bits: Option<usize>,
    algorithms: Vec<&'static str>,
    /// Where it is kept: `register`, `directory`, or `configuration` for the hub's own.
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_date: Option<Moment>,
    public_key: String,
}

impl KeyShape {
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
            created_date: created.map(Moment),
            public_key: key.to_pem(),
        }
    }
}

#[derive(Debug, Serialize)]
struct ReloadShape {
    participants: usize,
    keys: usize,
    faults: Vec<String>,
}

/// `GET /participants/{name}/keys`: those of the register, oldest first, then the directory's.
/// For the hub its own, if it signs.
pub(crate) async fn list(call: &Call<'_>, name: &str) -> Reply {
    Ok(Answer::ok(&all(call, participant_name(name)?).await?))
}

/// `GET /participants/{name}/keys/{id}`.
pub(crate) async fn show(call: &Call<'_>, name: &str, id: &str) -> Reply {
    let all = all(call, participant_name(name)?).await?;
    match all.iter().find(|key| key.id == id) {
        Some(key) => Ok(Answer::ok(key)),
        None => Err(not_found()),
    }
}

/// `POST /participants/{name}/keys` with `{"publicKey": PEM}`: one key more, in force with the
/// next message. A key that is there already stays as it is.
pub(crate) async fn add(call: &Call<'_>, name: &str) -> Reply {
    let mut form = call.form()?;
    let pem = form.required("publicKey", |form, name| form.text(name, 1..=KEY_TEXT_BYTES_MAX))?;
    form.finish()?;
    let key = VerificationKey::from_pem(pem.as_bytes())
        .map_err(|error| Refusal::new(ErrorCode::VALIDATION, &format!("\"publicKey\": {error}")))?;
    let name = participant_name(name)?;
    if call.ask(|state| *state.hub()).await? == name {
        let detail = "the hub's own key is the setting jws.signing_key of its configuration";
        return Err(Refusal::new(ErrorCode::VALIDATION, detail));
    }
    let id = key.fingerprint();
    call.change(Change::AddKey(AddKey { name, id, key: key.der().to_vec() })).await?;
    let created = call.ask(move |state| {
        of_participant(state, &name, |participant| {
            participant.keys.iter().find(|known| known.id == id).map(|known| known.added)
        })
    });
    let created = created.await?.flatten();
    Ok(Answer::json(StatusCode::CREATED, &KeyShape::of(&key, "register", created)))
}

/// `DELETE /participants/{name}/keys/{id}`: refused with the next message.
pub(crate) async fn remove(call: &Call<'_>, name: &str, id: &str) -> Reply {
    let name = participant_name(name)?;
    let id = parse_id(id).ok_or_else(not_found)?;
    call.change(Change::RemoveKey(RemoveKey { name, id })).await.map_err(|refusal| {
        let listed = call.keys.directory.as_ref().map(|keys| keys.ring()).unwrap_or_default();
        match listed.of(&name).iter().any(|key| key.fingerprint() == id) {
            true => Refusal::new(
                ErrorCode::VALIDATION,
                "the key is in the directory: remove its file and reload the directory",
            ),
            false => refusal,
        }
    })?;
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `POST /keyDirectory/reload`: reads the directory of keys again, like SIGHUP.
pub(crate) async fn reload(call: &Call<'_>) -> Reply {
    let Some(directory) = call.keys.directory.as_ref().map(Arc::clone) else {
        let detail = "there is no directory of keys: set jws.keys and start again";
        return Err(Refusal::new(ErrorCode::VALIDATION, detail));
    };
    let reading = tokio::task::spawn_blocking(move || directory.reload());
    let reloaded = reading.await.map_err(|_| Refusal::internal("reading the keys failed"))?;
    Ok(Answer::ok(&ReloadShape {
        participants: reloaded.participants,
        keys: reloaded.keys,
        faults: reloaded.faults.iter().map(ToString::to_string).collect(),
    }))
}

async fn all(call: &Call<'_>, name: FspName) -> Result<Vec<KeyShape>, Refusal> {
    let found = call.ask(move |state| {
        let keys = of_participant(state, &name, |participant| participant.keys.clone());
        (keys, *state.hub() == name)
    });
    let (keys, is_hub) = found.await?;
    let mut shapes = Vec::new();
    for key in keys.ok_or_else(refusals::participant_not_found)? {
        // What is no key was refused before it was recorded.
        let parsed = VerificationKey::from_der(&key.der).ok();
        shapes.extend(parsed.map(|it| KeyShape::of(&it, "register", Some(key.added))));
    }
    let directory = call.keys.directory.as_ref();
    let ring: KeyRing = directory.map(|keys| keys.ring()).unwrap_or_default();
    shapes.extend(ring.of(&name).iter().map(|key| KeyShape::of(key, "directory", None)));
    let own = call.keys.hub.as_ref().filter(|_| is_hub);
    shapes.extend(own.map(|key| KeyShape::of(key, "configuration", None)));
    Ok(shapes)
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

fn not_found() -> Refusal {
    Refusal::new(ErrorCode::ID_NOT_FOUND, "public key not found")
}
