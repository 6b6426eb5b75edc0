//! Signature keys for tests, by name; the same in every run.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jws::{KeyRing, Signed, SigningKey, VerificationKey};
use ledger::FspName;
use testkit::http::Request;

/// A key as a PEM text: `private` or `public`.
pub(crate) fn pem(name: &str, form: &str) -> Result<String, String> {
    testkit::pem(name, form).ok_or_else(|| format!("there is no key {name}"))
}

/// The number under which the admin API keeps a key.
pub(crate) fn id(name: &str) -> Result<String, String> {
    Ok(public(name)?.fingerprint().to_string())
}

/// Signs a request: the header's value, over this body, which may be another form of its own.
pub(crate) fn sign(request: &Request, body: &[u8], key: &str) -> Result<String, String> {
    let key = SigningKey::from_pem(pem(key, "private")?.as_bytes());
    let key = key.map_err(|error| error.to_string())?;
    let value = jws::sign(&map(request)?, body, &key).map_err(|error| error.to_string())?;
    value.to_str().map(str::to_owned).map_err(|error| error.to_string())
}

/// Verifies that a message which came is signed with this key, and that its body has the form
/// in which every verifier of the scheme finds it so.
pub(crate) fn verify(request: &Request, key: &str) -> Result<(), String> {
    let source = request.headers.get("fspiop-source").and_then(FspName::new);
    let source = source.ok_or("it has no source")?;
    let ring = KeyRing::new([(source, public(key)?)]).map_err(|error| error.to_string())?;
    let method = Method::from_bytes(request.method.as_bytes()).map_err(|it| it.to_string())?;
    let (path, body) = (request.path.as_str(), request.body.as_slice());
    let headers = &map(request)?;
    let message = Signed { method: &method, path, headers, body };
    jws::verify(&message, &ring)
        .map_err(|error| format!("expected: signed with {key}\nfound:    {error}"))?;
    match source.as_str() == "Hub" && jws::canonical(body).as_deref() != Some(body) {
        true => Err("the hub signs compact and sorted bodies; this one is not".to_owned()),
        false => Ok(()),
    }
}

fn public(name: &str) -> Result<VerificationKey, String> {
    let text = pem(name, "public")?;
    VerificationKey::from_pem(text.as_bytes()).map_err(|error| error.to_string())
}

fn map(request: &Request) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers.iter() {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|it| it.to_string())?;
        headers.append(name, HeaderValue::from_str(value).map_err(|it| it.to_string())?);
    }
    Ok(headers)
}
