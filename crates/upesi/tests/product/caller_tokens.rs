//! Senders known by access tokens (docs/security/tls.md): tokens of an issuer, good and bad.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::{Connection, PATIENCE, Response};
use testkit::issuer::{Issuer, IssuerKey, now, signed_text};

use crate::support::message::{Message, Transfer};
use crate::support::scheme::Scheme;

/// A scheme whose participants have tokens.
struct TokenScheme {
    scheme: Scheme,
    issuer: Issuer,
    key: IssuerKey,
}

impl TokenScheme {
    fn start(more: &str) -> Self {
        let key = IssuerKey::rsa("first");
        let issuer = Issuer::start(&[&key]).unwrap();
        let settings = format!(
            "callers = \"token\"\ntoken_issuer = \"{}\"\ntoken_audience = \"hub\"\n{more}\n",
            issuer.url()
        );
        Self { scheme: Scheme::configured(&settings), issuer, key }
    }

    fn claims(&self, name: &str) -> Value {
        self.issuer.claims("hub", name)
    }

    fn token(&self, name: &str) -> String {
        self.key.token(&self.claims(name))
    }

    fn ask(&self, token: &str, message: &Message) -> Response {
        self.scheme.ask(&message.clone().with("authorization", &format!("Bearer {token}")))
    }

    /// A refusal with this status and text, which is counted under a reason.
    #[track_caller]
    fn refuses(&self, message: &Message, (status, text): (u16, &str), reason: &str) {
        let metric = format!("upesi_callers_refused_total{{reason=\"{reason}\"}}");
        let before = self.scheme.admin.metric(&metric);
        let answer = self.scheme.ask(message);
        assert_eq!(answer.status, status, "{text}: {}", answer.text());
        assert!(answer.text().contains(text), "{text}: {}", answer.text());
        let challenge = answer.headers.get("www-authenticate");
        match status {
            401 if reason == "no_token" => assert_eq!(challenge, Some("Bearer")),
            401 => assert_eq!(challenge, Some("Bearer error=\"invalid_token\"")),
            403 if reason == "missing_scope" => {
                assert_eq!(challenge, Some("Bearer error=\"insufficient_scope\""));
            }
            _ => assert_eq!(challenge, None),
        }
        assert_eq!(self.scheme.admin.metric(&metric), before + 1, "{reason}");
    }

    #[track_caller]
    fn refuses_token(&self, token: &str, text: &str, reason: &str) {
        let authorization = format!("Bearer {token}");
        self.refuses(
            &look_up("payerfsp").with("authorization", &authorization),
            (401, text),
            reason,
        );
    }
}

fn look_up(source: &str) -> Message {
    Message::new("GET", "/parties/MSISDN/254700000001", source)
}

#[test]
fn sender_must_be_named_by_the_token() {
    let tokens = TokenScheme::start("");
    let scheme = &tokens.scheme;
    let transfer = Transfer::of("1");
    let [payer, payee] = ["payerfsp", "payeefsp"].map(|name| tokens.token(name));
    assert_eq!(tokens.ask(&payer, &transfer.prepare()).status, 202);
    scheme.wait_until_delivered();
    assert_eq!(tokens.ask(&payee, &transfer.fulfil("COMMITTED")).status, 200);
    scheme.wait_until_delivered();
    scheme.payer.take(1);
    for callback in scheme.payee.take(2) {
        assert_eq!(callback.headers.get("authorization"), None, "{callback:?}");
    }
    let before = scheme.admin.state();
    let prepare = Transfer::of("1").prepare();
    let bearer = |token: &str| format!("Bearer {token}");
    let foreign = "FSPIOP-Source is payerfsp, but the token is of payeefsp";
    tokens.refuses(
        &prepare.clone().with("authorization", &bearer(&payee)),
        (403, foreign),
        "wrong_source",
    );
    tokens.refuses(&prepare, (401, "the request has no access token"), "no_token");
    let basic = prepare.clone().with("authorization", "Basic YTpi");
    tokens.refuses(&basic, (401, "the header authorization has no bearer token"), "no_token");
    let stranger = bearer(&tokens.token("stranger"));
    tokens.refuses(
        &look_up("stranger").with("authorization", &stranger),
        (403, "the token is of stranger, which is not a participant"),
        "unknown_participant",
    );
    let mut nameless = tokens.claims("x");
    nameless["client_id"] = "a-name-that-is-longer-than-32-bytes".into();
    tokens.refuses(
        &prepare.clone().with("authorization", &bearer(&tokens.key.token(&nameless))),
        (403, "the token's client_id a-name-that-is-longer-than-32-bytes names no participant"),
        "unknown_participant",
    );
    let claims = nameless.as_object_mut().unwrap();
    claims.remove("client_id");
    claims.remove("sub");
    tokens.refuses(
        &prepare.clone().with("authorization", &bearer(&tokens.key.token(&nameless))),
        (403, "the token has no claim client_id or sub"),
        "unknown_participant",
    );
    // The response does not wait for a body.
    let head = prepare.body("").with("authorization", &bearer(&payee)).render();
    let head =
        String::from_utf8(head).unwrap().replace("content-length: 0", "content-length: 1000");
    let mut connection = Connection::open(scheme.switch.fspiop).unwrap();
    assert_eq!(connection.exchange(head.as_bytes()).unwrap().status, 403);
    assert_eq!(scheme.admin.state(), before);
    assert_eq!(tokens.issuer.key_requests(), 1, "no request of the issuer per message");
    tokens.scheme.end();
}

#[test]
fn bad_tokens_are_refused_with_their_reason() {
    let tokens = TokenScheme::start("token_scopes = [\"fspiop:send\"]");
    let good = |change: &dyn Fn(&mut Value)| {
        let mut claims = tokens.claims("payerfsp");
        claims["scope"] = "openid fspiop:send".into();
        change(&mut claims);
        claims
    };
    let token =
        |name: &str, value: Value| tokens.key.token(&good(&|claims| claims[name] = value.clone()));
    let valid = token("unused", Value::Null);
    assert_eq!(tokens.ask(&valid, &look_up("payerfsp")).status, 202);
    tokens.scheme.payer.take(1);
    let before = tokens.scheme.admin.state();
    let check = |token: &str, text: &str, reason: &str| tokens.refuses_token(token, text, reason);
    check(&token("exp", json!(now() - 60)), "the token has expired", "expired_token");
    check(&token("nbf", json!(now() + 600)), "the token is not valid yet", "early_token");
    check(&token("aud", json!("other")), "the token is for another audience", "wrong_audience");
    check(&token("iss", json!("https://evil.example")), "from another issuer", "wrong_issuer");
    let claims = good(&|_| {});
    let none = format!("{}.", signed_text(&json!({"alg": "none"}), &claims));
    check(&none, "the token's algorithm is not RS256, PS256, ES256 or EdDSA", "wrong_algorithm");
    let shared = tokens.key.signed(&json!({"alg": "HS256", "kid": "first"}), &claims);
    check(&shared, "the token's algorithm is not RS256", "wrong_algorithm");
    let confused = tokens.key.signed(&json!({"alg": "ES256", "kid": "first"}), &claims);
    check(&confused, "the token's algorithm is not that of its key", "wrong_algorithm");
    let attacker = IssuerKey::rsa("first");
    check(&attacker.token(&claims), "the token's signature is invalid", "wrong_signature");
    let unknown = IssuerKey::rsa("unknown");
    check(&unknown.token(&claims), "the token's key is not a key of the issuer", "unknown_key");
    let (text, signature) = valid.rsplit_once('.').unwrap();
    let (header, _) = text.split_once('.').unwrap();
    let other = good(&|claims| claims["client_id"] = "payeefsp".into());
    let other = signed_text(&json!({}), &other);
    let (_, other) = other.split_once('.').unwrap();
    let tampered = format!("{header}.{other}.{signature}");
    check(&tampered, "the token's signature is invalid", "wrong_signature");
    check("x", "the token is not a signed JWT in compact form", "malformed_token");
    check(&"x".repeat(8_193), "the token is longer than 8192 bytes", "malformed_token");
    let logout = tokens.key.signed(&json!({"alg": "RS256", "typ": "logout+jwt"}), &claims);
    check(&logout, "the token's type is not that of an access token", "malformed_token");
    let unscoped = format!("Bearer {}", token("scope", json!("openid fspiop:sender")));
    tokens.refuses(
        &look_up("payerfsp").with("authorization", &unscoped),
        (403, "the token lacks the scope fspiop:send"),
        "missing_scope",
    );
    let twice = look_up("payerfsp").also("authorization", &unscoped).also("authorization", "x");
    assert_eq!(tokens.scheme.ask(&twice).status, 400);
    // Many of them from one address are refused without a look; a known token is accepted. One
    // connection belongs to one thread, which remembers its tokens.
    let mut connection = Connection::open(tokens.scheme.switch.fspiop).unwrap();
    let mut ask = |token: &str| {
        let message = look_up("payerfsp").with("authorization", &format!("Bearer {token}"));
        connection.exchange(&message.render()).unwrap()
    };
    let (fresh, forged) = (token("jti", json!(2)), attacker.token(&claims));
    // The thread may have refused tokens of this test before: its allowance refills.
    let deadline = Instant::now() + PATIENCE;
    while ask(&valid).status != 202 {
        assert!(Instant::now() < deadline);
    }
    let last = (0..100).map(|_| ask(&forged)).last().unwrap();
    assert_eq!((last.status, last.headers.get("retry-after")), (429, Some("1")));
    assert_eq!((ask(&fresh).status, ask(&valid).status), (429, 202));
    tokens.scheme.payer.take(1);
    assert_eq!(tokens.scheme.admin.state(), before);
    tokens.scheme.end();
}

#[test]
fn keys_change_under_load_without_a_failed_request() {
    let tokens = TokenScheme::start("");
    let second = IssuerKey::p256("second");
    let mut claims = tokens.claims("payerfsp");
    let mut number = 0;
    let mut ask = |key: &IssuerKey| {
        // Each token is another one, which is verified.
        number += 1;
        claims["jti"] = number.into();
        let answer = tokens.ask(&key.token(&claims), &look_up("payerfsp"));
        assert_eq!(answer.status, 202, "{number}: {}", answer.text());
        tokens.scheme.payer.take(1);
    };
    // A read for an unknown key begins 10 s after the last read at the earliest.
    let rest = Instant::now() + Duration::from_secs(11);
    while Instant::now() < rest {
        ask(&tokens.key);
    }
    tokens.issuer.set_keys(&[&tokens.key, &second]);
    for _ in 0..20 {
        ask(&second);
        ask(&tokens.key);
    }
    assert_eq!(tokens.issuer.key_requests(), 2);
    // The issuer is down: its keys stay.
    tokens.issuer.set_down(true);
    ask(&second);
    tokens.scheme.end();
}

#[test]
fn issuer_that_is_down_prevents_no_start() {
    let key = IssuerKey::ed25519("only");
    let issuer = Issuer::start(&[&key]).unwrap();
    issuer.set_down(true);
    let settings = format!(
        "callers = \"token\"\ntoken_issuer = \"{0}\"\ntoken_audience = \"hub\"\n\
         token_keys_url = \"{0}/keys\"\ntoken_claims = [\"sub\"]\n\
         token_pattern = \"dfsp:{{fsp}}\"\n",
        issuer.url()
    );
    let scheme = Scheme::configured(&settings);
    let claims = issuer.claims("hub", "dfsp:payerfsp");
    let message =
        look_up("payerfsp").with("authorization", &format!("Bearer {}", key.token(&claims)));
    let answer = scheme.ask(&message);
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("the keys of the token's issuer are not available"));
    assert_eq!(scheme.admin.metric("upesi_key_set_failed{listener=\"fspiop\"}"), 1);
    issuer.set_down(false);
    let deadline = Instant::now() + PATIENCE + Duration::from_secs(10);
    while scheme.ask(&message).status != 202 {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(scheme.admin.metric("upesi_key_set_failed{listener=\"fspiop\"}"), 0);
    let complaints = scheme.switch.complaints();
    assert_eq!(complaints.matches("cannot read the keys of the issuer").count(), 1, "{complaints}");
    assert_eq!(complaints.lines().count(), 1, "{complaints}");
}

/// The name in a gateway's header counts only on connections from the gateway's networks.
#[test]
fn gateways_header_is_believed_from_its_addresses_only() {
    let gateway = |networks: &str, more: &str| {
        Scheme::configured(&format!("callers = \"gateway\"\ngateways = [{networks}]\n{more}"))
    };
    let refuses = |scheme: &Scheme, message: &Message, text: &str, reason: &str| {
        let metric = format!("upesi_callers_refused_total{{reason=\"{reason}\"}}");
        let before = scheme.admin.metric(&metric);
        let answer = scheme.ask(message);
        assert_eq!(answer.status, 403, "{}", answer.text());
        assert!(answer.text().contains(text), "{text}: {}", answer.text());
        assert_eq!(scheme.admin.metric(&metric), before + 1, "{reason}");
    };
    let name = "x-client-name";
    let prepare = Transfer::of("1").prepare();
    // A stolen header from outside.
    let scheme = gateway("\"10.0.0.0/8\"", "");
    let before = scheme.admin.state();
    let outside = "the client's address is not that of a gateway";
    refuses(&scheme, &prepare, outside, "not_a_gateway");
    refuses(&scheme, &prepare.clone().with(name, "payerfsp"), outside, "not_a_gateway");
    assert_eq!(scheme.admin.state(), before);
    scheme.end();

    let scheme = gateway("\"10.0.0.0/8\", \"127.0.0.0/8\"", "");
    let before = scheme.admin.state();
    refuses(&scheme, &prepare, "the gateway's header x-client-name is missing", "no_gateway_name");
    let twice = prepare.clone().also(name, "payerfsp").also(name, "payerfsp");
    refuses(&scheme, &twice, "header x-client-name is repeated", "no_gateway_name");
    let other = prepare.clone().with(name, "payeefsp");
    let foreign = "FSPIOP-Source is payerfsp, but the gateway's header is of payeefsp";
    refuses(&scheme, &other, foreign, "wrong_source");
    let list = prepare.clone().with(name, "payerfsp, payeefsp");
    refuses(&scheme, &list, "header is of payerfsp, payeefsp", "wrong_source");
    let long = prepare.clone().with(name, "a-name-that-is-longer-than-32-bytes");
    refuses(&scheme, &long, "x-client-name names no participant", "unknown_participant");
    let stranger = look_up("stranger").with(name, "stranger");
    refuses(
        &scheme,
        &stranger,
        "is of stranger, which is not a participant",
        "unknown_participant",
    );
    assert_eq!(scheme.admin.state(), before);
    scheme.send(&prepare.with(name, "payerfsp"), 202);
    scheme.wait_until_delivered();
    for callback in scheme.payee.take(1) {
        assert_eq!(callback.headers.get(name), None, "{callback:?}");
    }
    scheme.end();

    let envoy = "gateway_header = \"X-Forwarded-Client-Cert\"\ncertificate_names = [\"san_uri\"]\n\
                 gateway_pattern = \"spiffe://scheme/{fsp}\"\n";
    let scheme = gateway("\"127.0.0.0/8\"", envoy);
    let with = |value: &str| look_up("payerfsp").with("x-forwarded-client-cert", value);
    scheme.send(&with("By=spiffe://scheme/hub;Hash=ab;URI=spiffe://scheme/payerfsp"), 202);
    let two = with("URI=spiffe://scheme/otherfsp,URI=spiffe://scheme/payerfsp");
    refuses(&scheme, &two, "does not describe one certificate", "no_gateway_name");
    scheme.end();
}
