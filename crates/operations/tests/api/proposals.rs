//! Changes that need a second operator.

use expect_test::expect;
use ledger::{Change, Command, DeleteOracle, OracleId};
use serde_json::Value;

use crate::operators::with_roles;
use crate::server::{HttpResponse, TestServer};

const FUNDS: &str = r#"{"transferId":"01HV0000000000000000000000","externalReference":"advice 7",
    "action":"recordFundsIn","reason":"deposit","amount":{"amount":1000,"currency":"USD"}}"#;

/// A scheme with `payerfsp`, and operators with these roles.
struct Scheme {
    server: TestServer,
    /// Names and tokens.
    tokens: Vec<(&'static str, String)>,
    /// The SETTLEMENT account of `payerfsp`.
    account: u64,
}

impl Scheme {
    /// `amina` and `benta` may do everything, `chen` moves no funds.
    async fn start() -> Self {
        let server = TestServer::start_with(with_roles).await;
        for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
            let body = format!(r#"{{"currency":"USD","type":"{kind}"}}"#);
            server.check_status("POST /participants/Hub/accounts", &body, 201).await;
        }
        let body = r#"{"name":"payerfsp","currency":"USD"}"#;
        server.check_status("POST /participants", body, 201).await;
        let limits = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":500},"initialPosition":0}"#;
        let request = "POST /participants/payerfsp/initialPositionAndLimits";
        server.check_status(request, limits, 201).await;
        let mut tokens = Vec::new();
        for (name, role) in [("amina", "admin"), ("benta", "admin"), ("chen", "operator")] {
            tokens.push((name, server.add_operator(name, &[role]).await));
        }
        let accounts = server.ask("GET /participants/payerfsp/accounts", "").await;
        let accounts: Value = serde_json::from_str(accounts.split_once(' ').unwrap().1).unwrap();
        let mut all = accounts.as_array().unwrap().iter();
        let account = all.find(|it| it["ledgerAccountType"] == "SETTLEMENT").unwrap();
        let account = account["id"].as_u64().unwrap();
        Self { server, tokens, account }
    }

    /// The same, with groups listed.
    async fn start_with(groups: &[&str]) -> Self {
        let scheme = Self::start().await;
        let body = serde_json::json!({"groups": groups}).to_string();
        let answer = scheme.send("amina", "PUT /fourEyes", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        scheme
    }

    async fn send(&self, name: &str, request: &str, body: &str) -> HttpResponse {
        let (_, token) = self.tokens.iter().find(|(known, _)| *known == name).unwrap();
        self.server.send_as(token, request, body).await
    }

    /// Status and error, or status and state of the proposal.
    async fn line(&self, name: &str, request: &str, body: &str) -> String {
        let answer = self.send(name, request, body).await;
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        match (&value["decision"], value["proposalId"].as_u64()) {
            (Value::Null, Some(id)) => format!("{} proposal {id}", answer.status),
            (decision, Some(_)) => format!(
                "{} {} by {}: {}, made {}",
                answer.status,
                value["state"].as_str().unwrap(),
                decision["decidedBy"].as_str().unwrap(),
                decision["outcome"].as_str().unwrap(),
                decision["isMade"]
            ),
            (_, None) => answer.line(),
        }
    }

    fn funds(&self) -> String {
        format!("POST /participants/payerfsp/accounts/{}", self.account)
    }

    /// The funds on deposit.
    async fn cover(&self) -> String {
        let body = self.send("amina", "GET /participants/payerfsp/accounts", "").await.body;
        let accounts: Value = serde_json::from_str(&body).unwrap();
        let mut all = accounts.as_array().unwrap().iter();
        all.find(|it| it["id"] == self.account).unwrap()["value"].to_string()
    }
}

#[tokio::test]
async fn funds_move_once_another_operator_approves() {
    let scheme = Scheme::start_with(&["funds", "roles"]).await;
    let answer = scheme.send("amina", &scheme.funds(), FUNDS).await;
    assert_eq!((answer.status, answer.header("location")), (202, Some("/proposals/1")));
    let proposed: Value = serde_json::from_str(&answer.body).unwrap();
    for (member, expected) in [
        ("state", "OPEN"),
        ("change", "MoveFunds"),
        ("group", "funds"),
        ("permission", "finance"),
        (
            "description",
            "funds in: 1000 USD of payerfsp, account 7, transfer 01HV0000000000000000000000",
        ),
        ("request", "POST /participants/payerfsp/accounts/7"),
        ("reason", "deposit (externalReference advice 7)"),
        ("proposedBy", "amina"),
    ] {
        assert_eq!(proposed[member], expected, "{member}");
    }
    assert_eq!(scheme.cover().await, "0");
    let approve = "POST /proposals/1/approve";
    for (name, request, body, expected) in [
        ("amina", &*scheme.funds(), FUNDS, "202 proposal 1"),
        (
            "amina",
            approve,
            "",
            "403 3000 Generic client error - the operator who proposed the \
            change cannot approve it",
        ),
        (
            "chen",
            approve,
            "",
            "403 3000 Generic client error - chen lacks the permission \
            \"finance\", which this request requires; roles with it: finance, admin",
        ),
        (
            "chen",
            "POST /proposals/1/reject",
            "",
            "403 3000 Generic client error - chen lacks the \
            permission \"finance\", which this request requires; roles with it: finance, admin",
        ),
        (
            "benta",
            "POST /proposals/2/approve",
            "",
            "400 3200 Generic ID not found - proposal not \
            found",
        ),
        (
            "benta",
            "POST /proposals/x/approve",
            "",
            "400 3200 Generic ID not found - proposal not \
            found",
        ),
    ] {
        assert_eq!(scheme.line(name, request, body).await, expected, "{name} {request}");
        assert_eq!(scheme.cover().await, "0");
    }
    let reason = r#"{"reason":"bank statement"}"#;
    let approved = "200 APPROVED by benta: Accepted, made true";
    assert_eq!(scheme.line("benta", approve, reason).await, approved);
    assert_eq!(scheme.cover().await, "-1000");
    assert_eq!(scheme.line("benta", approve, reason).await, approved, "a resend");
    for request in ["POST /proposals/1/reject", approve] {
        let ended = "400 3100 Generic validation error - the proposal was approved, rejected or \
            withdrawn before";
        assert_eq!(scheme.line("amina", request, "").await, ended, "{request}");
    }
    assert_eq!(scheme.cover().await, "-1000");
    // The reason with the external reference is that of the record that moves the funds.
    let recorded = scheme.server.backend.inner().recorded.clone();
    let mut approvals =
        recorded.iter().filter(|it| matches!(it.change, Change::ApproveProposal(_)));
    let first = approvals.find(|it| it.actor.starts_with("benta (token:")).unwrap();
    assert_eq!(first.reason, "deposit (externalReference advice 7)");
    scheme.server.stop().await;
}

#[tokio::test]
async fn a_change_that_became_invalid_is_refused_with_its_own_code() {
    let scheme = Scheme::start_with(&["funds", "participants", "roles"]).await;
    let out = FUNDS.replace("recordFundsIn", "recordFundsOutPrepareReserve");
    let gone = r#"{"name":"gone","currency":"USD"}"#;
    let twice = r#"{"name":"payerfsp","currency":"USD"}"#;
    for (request, body, expected) in [
        (
            &*scheme.funds(),
            &*out,
            "400 4001 Payer FSP insufficient liquidity - the amount exceeds \
            the participant's available liquidity; no funds moved",
        ),
        (
            "POST /participants",
            twice,
            "400 3000 Generic client error - Participant currency has \
            already been registered",
        ),
        ("POST /participants", gone, "200 APPROVED by benta: Accepted, made true"),
        (
            "PUT /participants/stranger",
            r#"{"isActive":false}"#,
            "400 3200 Generic ID not found - \
            participant not found",
        ),
    ] {
        let proposed = scheme.line("amina", request, body).await;
        let id = proposed.strip_prefix("202 proposal ").unwrap_or_else(|| panic!("{proposed}"));
        let approve = format!("POST /proposals/{id}/approve");
        assert_eq!(scheme.line("benta", &approve, "").await, expected, "{request}");
        assert_eq!(scheme.line("benta", &approve, "").await, expected, "a resend: {request}");
        assert_eq!(scheme.cover().await, "0");
    }
    scheme.server.stop().await;
}

#[tokio::test]
async fn proposals_are_rejected_withdrawn_and_listed() {
    let scheme = Scheme::start_with(&["roles", "participants"]).await;
    let new = |name: &str| format!(r#"{{"name":"{name}","currency":"USD"}}"#);
    for (name, id) in [("one", 1), ("two", 2), ("three", 3)] {
        let proposed = scheme.line("chen", "POST /participants", &new(name)).await;
        assert_eq!(proposed, format!("202 proposal {id}"));
    }
    let reject = |id| format!("POST /proposals/{id}/reject");
    let rejected = scheme.line("benta", &reject(1), r#"{"reason":"no contract"}"#).await;
    assert_eq!(rejected, "200 REJECTED by benta: Accepted, made false");
    let withdrawn = scheme.line("chen", &reject(2), "").await;
    assert_eq!(withdrawn, "200 WITHDRAWN by chen: Accepted, made false");
    for (filter, expected) in [
        ("", &[3, 2, 1][..]),
        ("?state=REJECTED", &[1]),
        ("?state=WITHDRAWN", &[2]),
        ("?state=APPROVED", &[]),
    ] {
        let answer = scheme.send("chen", &format!("GET /proposals{filter}"), "").await;
        let all: Value = serde_json::from_str(&answer.body).unwrap();
        let ids: Vec<_> =
            all.as_array().unwrap().iter().map(|it| it["proposalId"].as_u64().unwrap()).collect();
        assert_eq!(ids, expected, "{filter}");
    }
    let unknown = scheme.line("chen", "GET /proposals?state=open", "").await;
    assert!(unknown.starts_with("400 3100"), "{unknown}");
    let body = scheme.send("amina", "GET /proposals/1", "").await.body;
    assert!(body.contains(r#""reason":"no contract""#), "{body}");
    scheme.server.stop().await;
}

#[tokio::test]
async fn the_list_is_changed_step_by_step() {
    let shared = TestServer::start().await;
    let body = r#"{"groups":["funds","roles"]}"#;
    shared
        .check(
            "PUT /fourEyes",
            body,
            expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"groups\" needs operators with names: set admin.auth = \"roles\" and add operators"}}"#]],
        )
        .await;
    shared.check_status("PUT /fourEyes", r#"{"groups":[]}"#, 200).await;
    shared.stop().await;
    let scheme = Scheme::start().await;
    for (body, expected) in [
        (
            r#"{"groups":["funds"]}"#,
            "\"groups\" must contain roles, because who can add an operator \
            alone can approve alone",
        ),
        (
            r#"{"groups":["money","roles"]}"#,
            "\"groups\" has an invalid item; each is the name of a group; see \
             /openapi/admin.json",
        ),
        (r#"{"groups":["roles","roles"]}"#, "\"groups\" has an item twice"),
    ] {
        let answer = scheme.line("amina", "PUT /fourEyes", body).await;
        assert_eq!(answer, format!("400 3100 Generic validation error - {expected}"), "{body}");
    }
    let before = scheme.server.log_index();
    let answer = scheme.line("chen", "PUT /fourEyes", body).await;
    assert!(answer.starts_with("403"), "{answer}");
    assert_eq!(scheme.server.log_index(), before);
    let alone = scheme.send("amina", "PUT /operators/benta", r#"{"roles":["viewer"]}"#).await;
    assert_eq!(alone.status, 200);
    let answer = scheme.line("amina", "PUT /fourEyes", body).await;
    assert_eq!(
        answer,
        "400 3100 Generic validation error - \"groups\" needs two active operators with the \
         permission \"finance\" for funds; 1 has it"
    );
    let again = scheme.send("amina", "PUT /operators/benta", r#"{"roles":["admin"]}"#).await;
    assert_eq!(again.status, 200);
    let shown = scheme.send("amina", "PUT /fourEyes", body).await;
    let shown: Value = serde_json::from_str(&shown.body).unwrap();
    assert_eq!(shown["groups"], serde_json::json!(["funds", "roles"]));
    assert!(shown["changes"].as_array().unwrap().contains(&"SetFourEyes".into()), "{shown}");
    // From now on one operator changes neither the list nor the operators.
    let none = r#"{"groups":[]}"#;
    assert_eq!(scheme.line("amina", "PUT /fourEyes", none).await, "202 proposal 1");
    let mallory = scheme.line("amina", "PUT /operators/mallory", r#"{"roles":["admin"]}"#).await;
    assert_eq!(mallory, "202 proposal 2");
    let token = scheme.send("amina", "POST /tokens", r#"{"operator":"benta"}"#).await;
    assert_eq!(token.status, 202);
    let value: Value = serde_json::from_str(&token.body).unwrap();
    let secret = value["token"].as_str().unwrap();
    assert_eq!(scheme.server.send_as(secret, "GET /identity", "").await.status, 401);
    let shown = scheme.send("benta", "GET /proposals/3", "").await.body;
    assert!(!shown.contains("\"token\"") && !shown.contains(secret), "{shown}");
    let approved = scheme.line("benta", "POST /proposals/3/approve", "").await;
    assert_eq!(approved, "200 APPROVED by benta: Accepted, made true");
    assert_eq!(scheme.server.send_as(secret, "GET /identity", "").await.status, 200);
    let approved = scheme.line("benta", "POST /proposals/1/approve", "").await;
    assert_eq!(approved, "200 APPROVED by benta: Accepted, made true");
    let shown = scheme.send("amina", "GET /fourEyes", "").await.body;
    assert!(shown.starts_with(r#"{"groups":[],"changes":[]"#), "{shown}");
    scheme.server.stop().await;
}

#[tokio::test]
async fn a_shared_token_makes_no_listed_change() {
    let server = TestServer::start().await;
    let number = DeleteOracle::DECLARATION.number;
    let list = ledger::SetFourEyes { changes: vec![number] };
    let list =
        ledger::Administer { actor: String::new(), reason: String::new(), change: list.into() };
    server.backend.apply(&Command::Administer(Box::new(list)));
    server
        .check(
            "DELETE /oracles/1",
            "",
            expect![[r#"403 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - this change needs a second operator: set admin.auth = \"roles\" and use an operator's token"}}"#]],
        )
        .await;
    assert!(
        server.backend.inner().state.registry().oracles().iter().all(|(id, _)| *id != OracleId(1))
    );
    server.stop().await;
}
