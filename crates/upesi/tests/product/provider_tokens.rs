//! Operators with access tokens of an OpenID provider (docs/security/operators.md).

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::http::{Client, Headers, PATIENCE, Request, Response};
use testkit::issuer::{Issuer, IssuerKey, now};

use crate::operators::Office;

/// A switch that accepts the tokens of an issuer.
struct ProviderOffice {
    office: Office,
    issuer: Issuer,
    key: IssuerKey,
}

impl ProviderOffice {
    fn start() -> Self {
        let key = IssuerKey::p256("first");
        let issuer = Issuer::start(&[&key]).unwrap();
        let settings = format!(
            "oidc_issuer = \"{}\"\noidc_audience = \"hub-admin\"\n\
             oidc_claim = \"realm_access.roles\"\n\
             oidc_roles = [\"operators=operator\", \"treasury=finance\", \"chiefs=admin\"]\n",
            issuer.url()
        );
        Self { office: Office::configured(&settings), issuer, key }
    }

    fn claims(&self, name: &str, groups: &[&str]) -> Value {
        let mut claims = self.issuer.claims("hub-admin", "console");
        claims["preferred_username"] = name.into();
        claims["realm_access"] = json!({ "roles": groups });
        claims
    }

    fn call(&self, token: &str, (method, path): (&str, &str), body: &str) -> Response {
        let headers = [
            ("host", "localhost"),
            ("authorization", &format!("Bearer {token}")),
            ("content-type", "application/json"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (method, path) = (method.to_owned(), path.to_owned());
        let (headers, body) = (Headers(headers.to_vec()), body.as_bytes().to_vec());
        let mut client = Client::new(self.office.switch.admin, PATIENCE);
        client.call(&Request { method, path, headers, body }).unwrap()
    }

    #[track_caller]
    fn is(
        &self,
        claims: &Value,
        request: (&str, &str),
        body: &str,
        expected: (u16, &str),
    ) -> Value {
        let answer = self.call(&self.key.token(claims), request, body);
        assert_eq!(answer.status, expected.0, "{request:?}: {}", answer.text());
        assert!(answer.text().contains(expected.1), "{}: {}", expected.1, answer.text());
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }
}

#[test]
fn claims_of_a_token_are_name_and_roles() {
    let it = ProviderOffice::start();
    let identity = ("GET", "/identity");
    let anna = it.claims("anna", &["operators", "treasury", "unknown"]);
    let shown = it.is(&anna, identity, "", (200, "\"provider token\""));
    assert_eq!(shown["name"], "anna");
    assert_eq!(shown["roles"], json!(["finance", "operator"]));
    assert_eq!(shown["permissions"], json!(["read", "operate", "finance"]));
    let chief = it.claims("chief", &["chiefs"]);
    let operator = it.claims("anna", &["operators"]);
    let denied = "anna lacks the permission";
    it.is(&operator, ("PUT", "/operators/bert"), r#"{"roles": []}"#, (403, denied));
    it.is(&it.claims("guest", &[]), ("GET", "/participants"), "", (403, "lacks the permission"));
    // Refused tokens.
    let with = |name: &str, value: Value| {
        let mut claims = anna.clone();
        claims[name] = value;
        claims
    };
    let check = |claims: &Value, expected: (u16, &str)| drop(it.is(claims, identity, "", expected));
    check(&with("aud", json!("hub")), (401, "the token is for another audience"));
    check(&with("iss", json!("https://evil.example")), (401, "the token is from another issuer"));
    check(&with("exp", json!(now() - 60)), (401, "the token has expired"));
    check(&with("preferred_username", json!("break-glass")), (403, "is not a name of an operator"));
    check(&with("preferred_username", json!("a b")), (403, "is not a name of an operator"));
    let forged = IssuerKey::p256("first").token(&anna);
    let answer = it.call(&forged, identity, "");
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert!(answer.text().contains("the token's signature is invalid"));
    // An operator that the hub disables has no access, with any claims.
    it.is(&chief, ("PUT", "/operators/anna"), r#"{"roles": [], "isActive": false}"#, (200, ""));
    check(&anna, (403, "the operator anna is disabled"));
    // The log names the person and the provider.
    it.is(&chief, ("GET", "/audit"), "", (200, "chief (oidc:127.0.0.1) 127.0.0.1"));
    it.office.end(Signal::TERM);
}

#[test]
fn break_glass_token_works_while_the_provider_is_down() {
    let it = ProviderOffice::start();
    it.issuer.set_down(true);
    // A key that was never read: the read fails, and the token is refused.
    let other = IssuerKey::p256("other").token(&it.claims("anna", &["chiefs"]));
    let answer = it.call(&other, ("GET", "/identity"), "");
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert!(answer.text().contains("the token's key is not a key of the issuer"));
    let admin = it.claims("anna", &["chiefs"]);
    it.is(&admin, ("GET", "/identity"), "", (200, "\"anna\""));
    let token = it.office.home.token();
    let answer = it.call(&token, ("GET", "/identity"), "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("break-glass"), "{}", answer.text());
    let answer = it.call(&token, ("GET", "/metrics"), "");
    assert!(answer.text().contains("upesi_admin_break_glass"), "the use is counted");
}
