//! Prints signed messages, one JSON object per line, for tests/vectors/check.py.

use http::{HeaderMap, HeaderValue};
use jws::SigningKey;
use serde_json::{Value, json};

const BODIES: [&str; 3] = [
    r#"{"completedTimestamp":"2030-05-24T08:38:08.000Z","transferState":"COMMITTED"}"#,
    r#"{"errorInformation":{"errorCode":"3303","errorDescription":"Transfer expired é"}}"#,
    "{}",
];

fn main() {
    let vectors: Value =
        serde_json::from_str(include_str!("../tests/vectors/vectors.json")).expect("JSON");
    for (name, form) in [("rsa", "private"), ("rsa_next", "traditional"), ("ec", "private")] {
        let keys = &vectors["keys"][name];
        let private = keys[form].as_str().expect("a text");
        let key = SigningKey::from_pem(private.as_bytes()).expect("a key");
        for body in BODIES {
            let mut headers = HeaderMap::new();
            for (name, value) in [
                ("fspiop-uri", "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069"),
                ("fspiop-http-method", "PUT"),
                ("fspiop-source", "Hub"),
                ("fspiop-destination", "payer \"1\""),
                ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
            ] {
                headers.insert(name, HeaderValue::from_static(value));
            }
            let signature = jws::sign(&headers, body.as_bytes(), &key).expect("signed");
            headers.insert("fspiop-signature", signature);
            let texts = headers.iter().map(|(name, value)| {
                (name.to_string(), Value::from(value.to_str().expect("ASCII")))
            });
            let texts: serde_json::Map<_, _> = texts.collect();
            println!("{}", json!({ "headers": texts, "body": body, "public": keys["public"] }));
        }
    }
}
