//! Operators, their roles and tokens.

use std::fmt::Write;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use expect_test::{expect, expect_file};
use identity::{SecretsKey, TotpSecret};
use ledger::{Administer, Change, Command, CreateToken, Digest, OperatorTokenId, Stamp};
use openapi::generate::{ExampleMessage, operations};
use operations::{AdminOptions, Auth};
use serde_json::Value;

use crate::server::{HttpResponse, TestServer};

/// The built-in roles with their permissions, as the manual lists them.
const ROLES: [(&str, &[&str]); 7] = [
    ("viewer", &["read"]),
    ("operator", &["read", "operate"]),
    ("finance", &["read", "finance"]),
    ("security", &["read", "security"]),
    ("auditor", &["read", "audit"]),
    ("privacy", &["read", "erase"]),
    ("admin", &["read", "operate", "finance", "security", "audit", "erase"]),
];

/// The text of the secrets key.
const SECRETS: &str = "secrets of the tests";
const PASSWORD: &str = "correct horse battery staple";
const CHANGE: &str = "PUT /participants/Hub";
const BODY: &str = r#"{"isActive":true}"#;

pub(crate) fn with_roles(options: &mut AdminOptions) {
    if let Auth::Token(token) = options.auth.clone() {
        options.auth = Auth::Roles(token);
        options.secrets = Some(SecretsKey::new(SECRETS));
    }
}

impl TestServer {
    /// Adds an operator with these roles and returns a token for it.
    pub(crate) async fn add_operator(&self, name: &str, roles: &[&str]) -> String {
        let body = serde_json::json!({"roles": roles}).to_string();
        self.check_status(&format!("PUT /operators/{name}"), &body, 200).await;
        self.create_token(&serde_json::json!({"operator": name}).to_string()).await
    }

    async fn create_token(&self, body: &str) -> String {
        let answer = self.ask("POST /tokens", body).await;
        let (status, body) = answer.split_once(' ').unwrap();
        assert_eq!(status, "201", "{body}");
        let created: Value = serde_json::from_str(body).unwrap();
        created["token"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn send_as(&self, token: &str, request: &str, body: &str) -> HttpResponse {
        let headers =
            format!("host: localhost\r\naccept: */*\r\nauthorization: Bearer {token}\r\n");
        self.send(request, &headers, body).await
    }

    async fn log_in(&self, password: &str, code: Option<&str>) -> HttpResponse {
        let mut body = serde_json::json!({"name": "anna", "password": password});
        if let Some(code) = code {
            body["code"] = code.into();
        }
        self.send("POST /login", "host: localhost\r\n", &body.to_string()).await
    }

    /// The token of a session of `anna`.
    async fn begin_session(&self) -> String {
        let answer = self.log_in(PASSWORD, None).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let created: Value = serde_json::from_str(&answer.body).unwrap();
        created["token"].as_str().unwrap().to_owned()
    }

    async fn set_password(&self, password: &str) {
        let body = serde_json::json!({"password": password}).to_string();
        self.check_status("PUT /operators/anna/password", &body, 204).await;
    }

    pub(crate) fn log_index(&self) -> u64 {
        self.backend.inner().state.log_index().0
    }
}

#[tokio::test]
async fn operators_roles_and_tokens_are_set_up_step_by_step() {
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/operators.txt"]).await;
    server.stop().await;
}

#[tokio::test]
async fn every_route_has_its_permission() {
    let document = operations::openapi_document::admin();
    let mut table = String::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let permission = operation["x-required-permission"].as_str().unwrap_or("none");
            let token = match &operation["security"][0] {
                Value::Object(schemes) if schemes.is_empty() => "",
                Value::Object(_) => " *",
                _ => " -",
            };
            writeln!(table, "{permission} {} {path}{token}", method.to_uppercase()).unwrap();
        }
    }
    expect_file!["texts/permissions.txt"].assert_eq(&table);
}

#[tokio::test]
async fn each_role_may_use_the_routes_of_its_permissions_and_no_others() {
    let server = TestServer::start_with(with_roles).await;
    let mut tokens = Vec::new();
    for (role, permissions) in ROLES {
        let token = server.add_operator(&format!("{role}-1"), &[role]).await;
        tokens.push((role, permissions, token));
    }
    let document = operations::openapi_document::admin();
    let mut counts = [0; 2];
    for operation in operations(&document) {
        let ExampleMessage { method, path, body, .. } = &operation.good;
        let declared = &document["paths"][operation.path][method.to_ascii_lowercase()];
        let needed = declared["x-required-permission"].as_str();
        if declared["security"].is_null() {
            continue;
        }
        let body = body.as_ref().map_or("", |(_, text)| text.as_str());
        // The permission to decide about a proposal is that of its change.
        if operation.path.starts_with("/proposals/{id}/") {
            continue;
        }
        for (role, permissions, token) in &tokens {
            let before = server.log_index();
            let answer = server.send_as(token, &format!("{method} {path}"), body).await;
            let allowed = needed.is_none_or(|needed| permissions.contains(&needed));
            counts[usize::from(allowed)] += 1;
            if allowed {
                let is_passed = !matches!(answer.status, 401 | 403);
                assert!(is_passed, "{role}: {method} {path}: {}", answer.line());
            } else {
                assert_eq!(answer.status, 403, "{role}: {method} {path}");
                let text = format!("lacks the permission \\\"{}\\\"", needed.unwrap());
                assert!(answer.body.contains(&text), "{}", answer.body);
                assert_eq!(server.log_index(), before, "{role}: {method} {path}");
            }
        }
    }
    assert!(counts.iter().all(|count| 100 < *count), "{counts:?}");
    server.stop().await;
}

#[tokio::test]
async fn every_request_needs_a_token() {
    let server = TestServer::start_with(with_roles).await;
    for request in [
        "GET /participants",
        "GET /health",
        "GET /metrics",
        "HEAD /participants",
        "GET /identity",
        "GET /openapi/admin.json",
        "GET /nowhere",
        "PATCH /participants",
        CHANGE,
    ] {
        let answer = server.send(request, "host: localhost\r\n", "").await;
        assert_eq!(answer.status, 401, "{request}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{request}");
        let text = "this request requires the bearer token of an operator";
        assert!(answer.body.contains(text) || request.starts_with("HEAD"), "{request}");
    }
    assert_eq!(server.backend.inner().recorded, []);
    server.stop().await;
}

#[tokio::test]
async fn invalid_tokens_are_refused() {
    let server = TestServer::start_with(with_roles).await;
    let token = server.add_operator("anna", &["admin"]).await;
    let other = server.add_operator("bert", &["admin"]).await;
    let (id, secret) = token.rsplit_once('_').unwrap();
    let flipped = if secret.starts_with('A') { "B" } else { "A" };
    for invalid in [
        format!("{id}_{flipped}{}", &secret[1..]),
        format!("{id}_{}", other.rsplit_once('_').unwrap().1),
        format!("upesi_0123456789abcdef_{secret}"),
        format!("{token}x"),
        secret.to_owned(),
        id.to_owned(),
        String::new(),
    ] {
        let answer = server.send_as(&invalid, CHANGE, BODY).await;
        assert_eq!(answer.status, 401, "{invalid}");
    }
    let valid = server.send_as(&token, CHANGE, BODY).await;
    assert_eq!(valid.status, 200, "{}", valid.body);
    let metrics = server.ask("GET /metrics", "").await;
    assert!(metrics.contains("\nupesi_admin_tokens_refused_total 7\n"), "{metrics}");
    server.stop().await;
}

#[tokio::test]
async fn an_expired_token_is_refused_at_its_time() {
    let server = TestServer::start_with(with_roles).await;
    server.add_operator("anna", &["admin"]).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let secret = [7; 32];
    for (id, expires, status) in [(1, now - 1_000_000, 401), (2, now + 60_000_000, 200)] {
        let change = Change::CreateToken(CreateToken {
            id: OperatorTokenId(id),
            operator: "anna".into(),
            roles: Vec::new(),
            hash: Digest(*blake3::hash(&secret).as_bytes()),
            description: String::new(),
            expires: Stamp(expires),
        });
        let (actor, reason) = ("test".to_owned(), String::new());
        let administer = Administer { actor, reason, change };
        server.backend.apply(&Command::Administer(Box::new(administer)));
        let text = format!("upesi_{id:016x}_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc");
        let answer = server.send_as(&text, CHANGE, BODY).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(answer.body.contains("the bearer token has expired"), status == 401);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_token_is_rotated_revoked_and_suspended() {
    let server = TestServer::start_with(with_roles).await;
    let first = server.add_operator("anna", &["operator"]).await;
    let second = server.create_token(r#"{"operator":"anna","description":"next"}"#).await;
    let status = |token: String| {
        let server = &server;
        async move { server.send_as(&token, CHANGE, BODY).await.status }
    };
    assert_eq!([status(first.clone()).await, status(second.clone()).await], [200, 200]);
    let id = first.split('_').nth(1).unwrap();
    server.check_status(&format!("DELETE /tokens/{id}"), "", 204).await;
    server.check_status(&format!("DELETE /tokens/{id}"), "", 400).await;
    assert_eq!([status(first).await, status(second.clone()).await], [401, 200]);
    for (body, expected) in [
        (r#"{"roles":["operator"],"isActive":false}"#, 401),
        (r#"{"roles":["operator"]}"#, 200),
        (r#"{"roles":["viewer"]}"#, 403),
        (r#"{"roles":[]}"#, 403),
    ] {
        server.check_status("PUT /operators/anna", body, 200).await;
        assert_eq!(status(second.clone()).await, expected, "{body}");
    }
    let listed = server.ask("GET /tokens?operator=anna", "").await;
    assert!(listed.contains(r#""description":"next""#) && !listed.contains(&second), "{listed}");
    server.stop().await;
}

#[tokio::test]
async fn a_token_is_restricted_to_roles() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status("PUT /roles/funds", r#"{"permissions":["finance"]}"#, 200).await;
    server.add_operator("anna", &["operator", "funds"]).await;
    for (roles, expected) in [
        (r#"[]"#, r#"["read","operate","finance"]"#),
        (r#"["viewer"]"#, r#"["read"]"#),
        (r#"["funds","viewer"]"#, r#"["read","finance"]"#),
        // A token cannot have more than its operator.
        (r#"["admin"]"#, r#"["read","operate","finance"]"#),
        (r#"["auditor"]"#, r#"["read"]"#),
        (r#"["security"]"#, r#"["read"]"#),
    ] {
        let body = format!(r#"{{"operator":"anna","roles":{roles}}}"#);
        let token = server.create_token(&body).await;
        let answer = server.send_as(&token, "GET /identity", "").await;
        assert_eq!(answer.status, 200, "{roles}");
        let identity: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(identity["permissions"].to_string(), expected, "{roles}");
        assert_eq!(identity["name"], "anna", "{roles}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_author_is_the_operator_and_not_x_actor() {
    let server = TestServer::start_with(with_roles).await;
    let token = server.add_operator("anna", &["operator"]).await;
    let id = token.split('_').nth(1).unwrap();
    let headers = format!(
        "host: localhost\r\nauthorization: Bearer {token}\r\nx-actor: bert\r\nx-reason: why\r\n"
    );
    assert_eq!(server.send(CHANGE, &headers, BODY).await.status, 200);
    let last = server.backend.inner().recorded.last().unwrap().clone();
    assert_eq!(last.actor, format!("anna (token:{id}) 127.0.0.1"));
    assert_eq!(last.reason, "why");
    server.stop().await;
}

#[tokio::test]
async fn the_break_glass_token_may_do_everything_and_is_counted() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status(CHANGE, BODY, 200).await;
    let actor = server.backend.inner().recorded.last().unwrap().actor.clone();
    assert!(actor.starts_with("break-glass (token:"), "{actor}");
    let identity = server.ask("GET /identity", "").await;
    expect![[r#"200 {"name":"break-glass","credential":"break-glass token","roles":[],"permissions":["read","operate","finance","security","audit","erase"]}"#]].assert_eq(&identity);
    let metrics = server.ask("GET /metrics", "").await;
    assert!(metrics.contains("\nupesi_admin_break_glass_total 3\n"), "{metrics}");
    assert!(metrics.contains("\nupesi_admin_permissions_missing_total 0\n"), "{metrics}");
    server.stop().await;
}

#[tokio::test]
async fn a_missing_permission_is_explained_and_counted() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status("PUT /roles/help-desk", r#"{"permissions":["operate"]}"#, 200).await;
    let token = server.add_operator("anna", &["viewer"]).await;
    let answer = server.send_as(&token, CHANGE, BODY).await;
    expect![[r#"403 3000 Generic client error - anna lacks the permission "operate", which this request requires; roles with it: operator, admin, help-de"#]].assert_eq(&answer.line());
    let metrics = server.send_as(&token, "GET /metrics", "").await.body;
    assert!(metrics.contains("\nupesi_admin_permissions_missing_total 1\n"), "{metrics}");
    server.stop().await;
}

#[tokio::test]
async fn operators_need_their_rules_version() {
    let server = TestServer::start().await;
    server.backend.begin_under(3);
    server
        .check("PUT /operators/anna", r#"{"roles":[]}"#, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - needs rules version 4, but 3 is in force; see PUT /rules"}}"#]])
        .await;
    server.stop().await;
}

#[tokio::test]
async fn an_operator_logs_in_with_its_password() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status("PUT /operators/anna", r#"{"roles":["operator"]}"#, 200).await;
    assert_eq!(server.log_in(PASSWORD, None).await.status, 401, "it has no password");
    server.set_password(PASSWORD).await;
    let recorded = format!("{:?}", server.backend.inner().recorded);
    assert!(recorded.contains("$argon2id$") && !recorded.contains(PASSWORD), "{recorded}");
    let session = server.begin_session().await;
    assert_eq!(server.send_as(&session, CHANGE, BODY).await.status, 200);
    let actor = server.backend.inner().recorded.last().unwrap().actor.clone();
    assert_eq!(actor, "anna (session) 127.0.0.1");
    let identity = server.send_as(&session, "GET /identity", "").await;
    assert!(identity.body.contains(r#""credential":"session""#), "{}", identity.body);
    let refused = server.send_as(&session, "PUT /roles/mine", r#"{"permissions":[]}"#).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    server.stop().await;
}

#[tokio::test]
async fn wrong_logins_get_the_same_answer() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status("PUT /operators/anna", r#"{"roles":["operator"]}"#, 200).await;
    server.set_password(PASSWORD).await;
    for body in [
        r#"{"name":"anna","password":"correct horse battery stapl"}"#,
        r#"{"name":"anna","password":"x"}"#,
        r#"{"name":"bert","password":"correct horse battery staple"}"#,
        r#"{"name":"Anna","password":"correct horse battery staple"}"#,
        r#"{"name":"break-glass","password":"correct horse battery staple"}"#,
    ] {
        let answer = server.send("POST /login", "host: localhost\r\n", body).await;
        assert_eq!(answer.status, 401, "{body}");
        assert!(answer.body.contains("invalid name, password or code"), "{}", answer.body);
    }
    server.check_status("PUT /operators/anna", r#"{"roles":[],"isActive":false}"#, 200).await;
    assert_eq!(server.log_in(PASSWORD, None).await.status, 401, "a disabled operator");
    let metrics = server.ask("GET /metrics", "").await;
    assert!(metrics.contains("\nupesi_admin_tokens_refused_total 6\n"), "{metrics}");
    server.stop().await;
}

#[tokio::test]
async fn sessions_end_when_a_credential_changes_or_the_operator_is_disabled() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status("PUT /operators/anna", r#"{"roles":["operator"]}"#, 200).await;
    server.set_password(PASSWORD).await;
    for (request, body, status) in [
        ("PUT /operators/anna/password", r#"{"password":"correct horse battery staple"}"#, 204),
        ("DELETE /operators/anna/secondFactor", "", 204),
        ("PUT /operators/anna", r#"{"roles":["operator"],"isActive":false}"#, 200),
    ] {
        let session = server.begin_session().await;
        assert_eq!(server.send_as(&session, CHANGE, BODY).await.status, 200, "{request}");
        server.check_status(request, body, status).await;
        let answer = server.send_as(&session, CHANGE, BODY).await;
        assert_eq!(answer.status, 401, "{request}");
        assert!(answer.body.contains("the session has ended: log in again"), "{}", answer.body);
        server.check_status("PUT /operators/anna", r#"{"roles":["operator"]}"#, 200).await;
        assert_eq!(server.send_as(&session, CHANGE, BODY).await.status, 401, "{request}");
    }
    server.check_status("DELETE /operators/anna/password", "", 204).await;
    assert_eq!(server.log_in(PASSWORD, None).await.status, 401);
    server.stop().await;
}

#[tokio::test]
async fn forged_and_expired_sessions_are_refused() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status("PUT /operators/anna", r#"{"roles":["operator"]}"#, 200).await;
    let session = |key: &str, generation, expires| {
        let operator = "anna".to_owned();
        identity::Session { operator, generation, expires }.token(&SecretsKey::new(key))
    };
    for (token, status) in [
        (session(SECRETS, 0, u64::MAX), 200),
        (session("another key", 0, u64::MAX), 401),
        (session(SECRETS, 1, u64::MAX), 401),
        (session(SECRETS, 0, 1_000_000), 401),
        ("upesi_session_".to_owned(), 401),
    ] {
        let answer = server.send_as(&token, CHANGE, BODY).await;
        assert_eq!(answer.status, status, "{token}: {}", answer.body);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_code_of_the_second_factor_is_needed_and_used_once() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status("PUT /operators/anna", r#"{"roles":["operator"]}"#, 200).await;
    server.set_password(PASSWORD).await;
    let created = server.ask("POST /operators/anna/secondFactor", "").await;
    assert!(created.starts_with("201 ") && created.contains("otpauth://totp/"), "{created}");
    let sealed = {
        let inner = server.backend.inner();
        inner.state.operators().operator("anna").unwrap().second_factor.clone()
    };
    let secret = SecretsKey::new(SECRETS).open("anna", &sealed).unwrap();
    let secret = TotpSecret::from_bytes(&secret).unwrap();
    assert!(created.contains(&secret.to_base32()), "{created}");
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(server.log_in(PASSWORD, None).await.status, 401);
    assert_eq!(server.log_in(PASSWORD, Some("")).await.status, 401);
    let past = secret.code_at(seconds() - 3_600);
    assert_eq!(server.log_in(PASSWORD, Some(&past)).await.status, 401);
    let code = secret.code_at(seconds());
    assert_eq!(server.log_in("a wrong password", Some(&code)).await.status, 401);
    assert_eq!(server.log_in(PASSWORD, Some(&code)).await.status, 201);
    assert_eq!(server.log_in(PASSWORD, Some(&code)).await.status, 401, "it was used");
    server.check_status("DELETE /operators/anna/secondFactor", "", 204).await;
    assert_eq!(server.log_in(PASSWORD, None).await.status, 201);
    server.stop().await;
}

#[tokio::test]
async fn failed_logins_are_slowed_down_without_a_lock_out() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status("PUT /operators/anna", r#"{"roles":["operator"]}"#, 200).await;
    server.set_password(PASSWORD).await;
    for _ in 0..20 {
        assert_eq!(server.log_in("a wrong password", None).await.status, 401);
    }
    let began = Instant::now();
    assert_eq!(server.log_in(PASSWORD, None).await.status, 201);
    assert!(Duration::from_secs(1) <= began.elapsed(), "{:?}", began.elapsed());
    server.stop().await;
}

#[tokio::test]
async fn concurrent_logins_are_bounded() {
    let server = TestServer::start_with(with_roles).await;
    server.check_status("PUT /operators/anna", r#"{"roles":["operator"]}"#, 200).await;
    server.set_password(PASSWORD).await;
    let all = (0..12).map(|_| server.log_in(PASSWORD, None));
    let mut counts = std::collections::BTreeMap::new();
    for status in join_all(all).await {
        *counts.entry(status).or_insert(0) += 1;
    }
    let [done, refused] = [201, 429].map(|status| counts.get(&status).copied().unwrap_or(0));
    assert_eq!(done + refused, 12, "{counts:?}");
    assert!(4 <= done, "{counts:?}");
    server.stop().await;
}

/// Runs requests at the same time.
async fn join_all(all: impl Iterator<Item = impl Future<Output = HttpResponse>>) -> Vec<u16> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut statuses = Vec::new();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(answer) => {
                statuses.push(answer.status);
                false
            }
            Poll::Pending => true,
        });
        if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    statuses
}

#[tokio::test]
async fn a_login_needs_roles() {
    let server = TestServer::start().await;
    let answer = server.log_in(PASSWORD, None).await;
    expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - operators log in only with admin.auth = \"roles\""}}"#]].assert_eq(&format!("{} {}", answer.status, answer.body));
    server.stop().await;
}
