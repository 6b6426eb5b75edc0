//! Messages signed by another library (see tests/vectors/generate.py), and changed versions of
//! them.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jws::{KeyRing, SignatureError, Signed, SigningKey, VerificationKey, sign, verify};
use ledger::FspName;
use serde_json::Value;

struct Vectors(Value);

/// A message that can be changed before it is verified.
#[derive(Clone)]
struct Message {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Vectors {
    fn load() -> Self {
        Self(serde_json::from_str(include_str!("vectors/vectors.json")).expect("JSON"))
    }

    fn key_text(&self, name: &str, form: &str) -> &str {
        self.0["keys"][name][form].as_str().expect(name)
    }

    fn key(&self, name: &str) -> VerificationKey {
        VerificationKey::from_pem(self.key_text(name, "public").as_bytes()).expect(name)
    }

    /// The payer has two RSA keys, as during a rotation, the payee one on P-256.
    fn ring(&self) -> KeyRing {
        let keys = [("payer", "rsa_next"), ("payer", "rsa"), ("payee", "ec")];
        KeyRing::new(keys.map(|(owner, key)| (name(owner), self.key(key)))).expect("few keys")
    }

    fn messages(&self) -> impl Iterator<Item = (&str, &str, Message)> {
        let vectors = self.0["vectors"].as_array().expect("a list");
        vectors.iter().map(|vector| {
            let text = |member: &str| vector[member].as_str().expect("a text");
            (text("name"), text("outcome"), Message::read(vector))
        })
    }

    fn message(&self, wanted: &str) -> Message {
        let found = self.messages().find(|(name, ..)| *name == wanted);
        found.map(|(.., message)| message).expect(wanted)
    }
}

impl Message {
    fn read(vector: &Value) -> Self {
        let text = |member: &str| vector[member].as_str().expect("a text");
        let headers =
            vector["headers"].as_object().expect("an object").iter().map(|(name, value)| {
                let value = HeaderValue::from_str(value.as_str().expect("a text"));
                (HeaderName::try_from(name).expect("a name"), value.expect("a value"))
            });
        Self {
            method: Method::from_bytes(text("method").as_bytes()).expect("a method"),
            path: text("path").to_owned(),
            headers: headers.collect(),
            body: text("body").as_bytes().to_vec(),
        }
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.headers.insert(name, HeaderValue::from_str(value).expect("a value"));
    }

    fn signed(&self) -> Signed<'_> {
        let Self { method, path, headers, body } = self;
        Signed { method, path, headers, body }
    }
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

/// The name of the variant.
fn kind(outcome: Result<(), SignatureError>) -> String {
    match outcome {
        Ok(()) => "good".to_owned(),
        Err(error) => format!("{error:?}").split('(').next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn vectors_of_another_library_verify_as_expected() {
    let vectors = Vectors::load();
    let ring = vectors.ring();
    let mut good = 0;
    for (name, expected, message) in vectors.messages() {
        let outcome = verify(&message.signed(), &ring);
        good += usize::from(outcome.is_ok());
        assert_eq!(kind(outcome), expected, "{name}: {outcome:?}");
    }
    assert!(20 < good, "{good} good ones");
}

#[test]
fn changed_messages_are_refused() {
    use SignatureError::{
        Absent, Malformed, Mismatch, NotProtected, NotSent, OtherMethod, OtherPath, Repeated,
        TooLong, Wrong,
    };
    type Change = fn(&mut Message);
    let cases: [(&str, Change, SignatureError); 22] = [
        ("a digit of the amount", |m| m.body[21] = b'9', Wrong),
        ("a byte more", |m| m.body.push(b' ' + 1), Wrong),
        ("a byte less", |m| m.body.truncate(m.body.len() - 1), Wrong),
        ("no body", |m| m.body.clear(), Wrong),
        ("another source", |m| m.set("fspiop-source", "payee"), Mismatch("FSPIOP-Source")),
        ("source in capitals", |m| m.set("fspiop-source", "PAYER"), Mismatch("FSPIOP-Source")),
        ("no source", |m| m.set("fspiop-source", ""), NotSent("FSPIOP-Source")),
        (
            "another destination",
            |m| m.set("fspiop-destination", "x"),
            Mismatch("FSPIOP-Destination"),
        ),
        ("no destination", |m| m.set("fspiop-destination", ""), NotSent("FSPIOP-Destination")),
        ("another date", |m| m.set("date", "Tue, 15 Nov 1994 08:12:32 GMT"), Mismatch("Date")),
        ("no date", |m| drop(m.headers.remove("date")), NotSent("Date")),
        ("another URI", |m| m.set("fspiop-uri", "/quotes"), Mismatch("FSPIOP-URI")),
        ("no URI", |m| drop(m.headers.remove("fspiop-uri")), NotSent("FSPIOP-URI")),
        ("method PUT", |m| m.set("fspiop-http-method", "PUT"), Mismatch("FSPIOP-HTTP-Method")),
        ("method post", |m| m.set("fspiop-http-method", "post"), Mismatch("FSPIOP-HTTP-Method")),
        ("sent to another path", |m| m.path.push_str("/1"), OtherPath),
        ("sent to quotes", |m| m.path = "/quotes".to_owned(), OtherPath),
        ("sent with PUT", |m| m.method = Method::PUT, OtherMethod),
        ("signature empty", |m| m.set("fspiop-signature", ""), Absent),
        ("signature no JSON", |m| m.set("fspiop-signature", "{"), Malformed),
        ("signature long", |m| m.set("fspiop-signature", &" ".repeat(8_193)), TooLong),
        (
            "signature twice",
            |m| {
                m.headers.append("fspiop-signature", HeaderValue::from_static("{}"));
            },
            Repeated("FSPIOP-Signature"),
        ),
    ];
    let vectors = Vectors::load();
    let ring = vectors.ring();
    let message = vectors.message("RS256");
    assert_eq!(verify(&message.signed(), &ring), Ok(()));
    for (name, change, expected) in cases {
        let mut changed = message.clone();
        change(&mut changed);
        assert_eq!(verify(&changed.signed(), &ring), Err(expected), "{name}");
    }

    let mut added = vectors.message("no destination");
    added.set("fspiop-destination", "payee");
    let outcome = verify(&added.signed(), &ring);
    assert_eq!(outcome, Err(NotProtected("FSPIOP-Destination")), "a destination added");
}

#[test]
fn every_repeated_header_is_refused() {
    let vectors = Vectors::load();
    let ring = vectors.ring();
    for header in
        ["fspiop-uri", "fspiop-http-method", "fspiop-source", "fspiop-destination", "date"]
    {
        let mut message = vectors.message("RS256");
        let value = message.headers[header].clone();
        message.headers.append(header, value);
        assert_eq!(kind(verify(&message.signed(), &ring)), "Repeated", "{header}");
    }
}

#[test]
fn every_bit_of_signature_and_protected_header_counts() {
    let vectors = Vectors::load();
    let ring = vectors.ring();
    for (name, step) in [("RS256", 7), ("ES256", 3)] {
        let message = vectors.message(name);
        let value = message.headers["fspiop-signature"].as_bytes().to_vec();
        for at in (0..value.len()).step_by(step) {
            for flip in [1, 4] {
                let mut changed = message.clone();
                let mut bytes = value.clone();
                bytes[at] ^= flip;
                // Bytes that are invalid in a header do not arrive.
                let Ok(value) = HeaderValue::from_bytes(&bytes) else { continue };
                changed.headers.insert("fspiop-signature", value);
                assert_ne!(verify(&changed.signed(), &ring), Ok(()), "{name}: byte {at}");
            }
        }
    }
}

#[test]
fn all_are_answered_with_3105() {
    let refusal = SignatureError::Mismatch("FSPIOP-HTTP-Method").refusal();
    expect_test::expect![[r#"
        400 Bad Request, 3105: Invalid signature - FSPIOP-HTTP-Method does not match the protected header
    "#]]
    .assert_eq(&format!("{refusal}\n"));
    for error in [
        SignatureError::Malformed,
        SignatureError::NotBase64("protectedHeader"),
        SignatureError::NotSent("FSPIOP-HTTP-Method"),
        SignatureError::OtherMethod,
    ] {
        let refusal = error.refusal();
        assert!(refusal.description.ends_with(&error.to_string()), "{error} is cut");
    }
}

#[test]
fn both_keys_verify_until_one_is_removed() {
    let vectors = Vectors::load();
    let (old, next) = (vectors.message("RS256"), vectors.message("RS256 by the next key"));
    let outcomes = |ring: &KeyRing| [&old, &next].map(|m| kind(verify(&m.signed(), ring)));

    let payer = name("payer");
    let before = KeyRing::new([(payer, vectors.key("rsa"))]).expect("one key");
    assert_eq!(outcomes(&before), ["good", "Wrong"]);
    let both = before.with(payer, vectors.key("rsa_next")).expect("two keys");
    assert_eq!(outcomes(&both), ["good", "good"]);
    let after = both.without(&payer, vectors.key("rsa").fingerprint());
    assert_eq!(outcomes(&after), ["Wrong", "good"]);
    let none = after.without(&payer, vectors.key("rsa_next").fingerprint());
    assert_eq!(outcomes(&none), ["UnknownSource", "UnknownSource"]);
    assert_eq!(outcomes(&before), ["good", "Wrong"], "a ring does not change");
}

#[test]
fn signatures_equal_those_of_another_library() {
    let vectors = Vectors::load();
    for message in ["RS256", "no destination", "spaced, signed as sent", "long, signed as sent"] {
        let Message { mut headers, body, .. } = vectors.message(message);
        let expected = headers.remove("fspiop-signature").expect("signed");
        for form in ["private", "traditional"] {
            let key = SigningKey::from_pem(vectors.key_text("rsa", form).as_bytes()).expect(form);
            assert_eq!(sign(&headers, &body, &key), Ok(expected.clone()), "{message} {form}");
        }
    }
}

#[test]
fn own_signatures_verify() {
    let vectors = Vectors::load();
    let hub = name("Hub");
    for (key, form) in [("rsa", "private"), ("ec", "private"), ("ec", "traditional")] {
        let key = SigningKey::from_pem(vectors.key_text(key, form).as_bytes()).expect(form);
        let ring = KeyRing::new([(hub, key.verification_key().expect("good"))]).expect("one key");
        let mut message = vectors.message("PUT");
        message.set("fspiop-source", "Hub");
        message.set("fspiop-destination", "p\"a\\y");
        message.headers.remove("fspiop-signature");
        let value = sign(&message.headers, &message.body, &key).expect("signed");
        message.headers.insert("fspiop-signature", value);
        assert_eq!(verify(&message.signed(), &ring), Ok(()), "{key:?} {form}");
        message.body.push(b'}');
        assert_eq!(verify(&message.signed(), &ring), Err(SignatureError::Wrong), "{key:?} {form}");
    }
}

#[test]
fn signing_needs_the_headers_it_protects() {
    let vectors = Vectors::load();
    let key = SigningKey::from_pem(vectors.key_text("ec", "private").as_bytes()).expect("a key");
    for header in ["fspiop-uri", "fspiop-http-method", "fspiop-source"] {
        let mut message = vectors.message("RS256");
        message.headers.remove(header);
        let error = sign(&message.headers, b"", &key).expect_err(header).to_string();
        assert!(error.to_ascii_lowercase().ends_with(header), "{error}");
    }
    let mut message = vectors.message("RS256");
    let latin = HeaderValue::from_bytes(b"\xe9").expect("a value");
    message.headers.insert("fspiop-destination", latin);
    assert_eq!(
        sign(&message.headers, b"", &key).map_err(|error| error.to_string()),
        Err("cannot sign a message whose FSPIOP-Destination is not UTF-8".to_owned())
    );
}
