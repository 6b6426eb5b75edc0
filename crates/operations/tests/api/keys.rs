//! Public keys of participants, and the hub's own.

use expect_test::expect;
use std::sync::Arc;

use jws::{HubKeys, VerificationKey};
use serde_json::{Value, json};

use crate::server::TestServer;

/// Keys made for tests, by name and form.
fn pem(key: &str, form: &str) -> String {
    let text = include_str!("../../../jws/tests/vectors/vectors.json");
    let vectors: Value = serde_json::from_str(text).unwrap();
    vectors["keys"][key][form].as_str().unwrap().to_owned()
}

fn id(key: &str) -> String {
    VerificationKey::from_pem(pem(key, "public").as_bytes()).unwrap().fingerprint().to_string()
}

async fn onboarded() -> TestServer {
    let server = TestServer::start_with(|options| {
        let keys = format!("{}{}", pem("ec", "private"), pem("rsa", "public"));
        options.keys.hub = Some(Arc::new(HubKeys::from_pem(keys.into_bytes()).unwrap()));
    })
    .await;
    for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
        let body = json!({ "currency": "USD", "type": kind }).to_string();
        server.check_status("POST /participants/Hub/accounts", &body, 201).await;
    }
    server.check_status("POST /participants", r#"{"name":"dfsp1","currency":"USD"}"#, 201).await;
    server
}

#[tokio::test]
async fn keys_are_added_shown_and_removed() {
    let server = onboarded().await;
    let path = "/participants/dfsp1/keys";
    server.check(&format!("GET {path}"), "", expect!["200 []"]).await;
    let body = json!({ "publicKey": pem("rsa", "certificate") }).to_string();
    let added = server.ask(&format!("POST {path}"), &body).await;
    let shown: Value = serde_json::from_str(added.strip_prefix("201 ").unwrap()).unwrap();
    assert_eq!(
        shown,
        json!({
            "id": id("rsa"), "kind": "RSA", "bits": 2048,
            "algorithms": ["RS256", "RS384", "RS512"], "source": "register",
            "createdDate": shown["createdDate"], "publicKey": pem("rsa", "public"),
        })
    );
    assert_eq!(server.ask(&format!("POST {path}"), &body).await, added, "the same key again");
    for key in ["rsa_next", "ec"] {
        let body = json!({ "publicKey": pem(key, "public") }).to_string();
        server.check_status(&format!("POST {path}"), &body, 201).await;
    }
    let one = server.ask(&format!("GET {path}/{}", id("rsa")), "").await;
    assert_eq!(one.replacen("200", "201", 1), added);
    server.check_status(&format!("DELETE {path}/{}", id("rsa")), "", 204).await;
    let all = server.ask(&format!("GET {path}"), "").await;
    let all: Vec<Value> = serde_json::from_str(all.strip_prefix("200 ").unwrap()).unwrap();
    let ids: Vec<_> = all.iter().map(|key| key["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, [id("rsa_next"), id("ec")]);
    for gone in [id("rsa"), "x".into(), "é".repeat(32)] {
        let request = format!("DELETE {path}/{gone}").replace('é', "%C3%A9");
        server.check(&request, "", expect![[r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - public key not found"}}"#]]).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn the_hub_shows_its_own_key_and_accepts_no_other() {
    let server = onboarded().await;
    let shown = server.ask("GET /participants/Hub/keys", "").await;
    let shown: Value = serde_json::from_str(shown.strip_prefix("200 ").unwrap()).unwrap();
    assert_eq!(shown[0]["publicKey"], pem("ec", "public"));
    assert_eq!(shown[0]["algorithms"], json!(["ES256"]));
    let body = json!({ "publicKey": pem("rsa", "public") }).to_string();
    server.check("POST /participants/Hub/keys", &body, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - the hub's own key is set by jws.signing_key in its configuration"}}"#]]).await;
    server.stop().await;
}

#[tokio::test]
async fn invalid_public_keys_are_refused_and_not_recorded() {
    let server = onboarded().await;
    let recorded = server.backend.inner().recorded.len();
    for (text, expected) in [
        ("no key".to_owned(), "the text holds no PEM block PUBLIC KEY or CERTIFICATE"),
        (
            pem("rsa", "public").replace("-----END", "---END"),
            "the text is not PEM: a block has no end or holds more than base64",
        ),
        (pem("rsa", "private"), "the text holds a private key; only the public key belongs here"),
        (pem("short", "public"), "the RSA key has 1024 bits; 2048 to 8192 are accepted"),
        (pem("p384", "public"), "the key is neither RSA nor on the curve P-256"),
        (pem("rsa", "public") + &pem("ec", "public"), "the text holds more than one key"),
    ] {
        let body = json!({ "publicKey": text }).to_string();
        let answer = server.ask("POST /participants/dfsp1/keys", &body).await;
        let answer: Value = serde_json::from_str(answer.strip_prefix("400 ").unwrap()).unwrap();
        let error = &answer["errorInformation"];
        assert_eq!(error["errorCode"], "3100");
        let description = format!("Generic validation error - \"publicKey\": {expected}");
        assert_eq!(error["errorDescription"], description.as_str());
    }
    let unknown = json!({ "publicKey": pem("ec", "public") }).to_string();
    assert_eq!(server.backend.inner().recorded.len(), recorded);
    server.check("POST /participants/nobody/keys", &unknown, expect![[r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#]]).await;
    server.check("GET /participants/nobody/keys", "", expect![[r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#]]).await;
    server.check("POST /keyDirectory/reload", "", expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - no key directory is configured: set jws.keys and restart the switch"}}"#]]).await;
    let answer = server.send("POST /participants/dfsp1/keys", "host: localhost\r\n", &unknown);
    assert_eq!(answer.await.status, 401);
    server.stop().await;
}

#[tokio::test]
async fn author_and_reason_are_recorded_with_a_key() {
    let server = onboarded().await;
    let headers = format!(
        "host: localhost\r\nauthorization: Bearer {}\r\nx-actor: amina\r\n\
         x-reason: yearly change\r\n",
        server.token()
    );
    let body = json!({ "publicKey": pem("ec", "public") }).to_string();
    let answer = server.send("POST /participants/dfsp1/keys", &headers, &body).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let last = server.backend.inner().recorded.last().cloned().unwrap();
    assert!(last.actor.starts_with("amina (token:"), "{}", last.actor);
    assert_eq!(last.reason, "yearly change");
    server.stop().await;
}
