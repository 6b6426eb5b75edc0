//! The described API against the real one: every example is taken, every message that breaks a
//! described rule is refused, and every answer is as described.

use openapi::generate::{ExampleMessage, OperationMessages, operations, response_fault};
use serde_json::{Value, json};

use crate::server::TestServer;

/// Changes that others need, in their order; the rest follows in the order of the document.
const FIRST: [&str; 19] = [
    "createInterchangeFeeRule",
    "createHubAccount",
    "createParticipant",
    "setInitialCap",
    "changeCap",
    "moveFunds",
    "addKey",
    "showKey",
    "addJwsKey",
    "showJwsKey",
    "beginEnrolment",
    "showEnrolment",
    "rejectEnrolment",
    "createOracle",
    "updateOracle",
    "setRole",
    "showRole",
    "setOperator",
    "createToken",
];

/// Examples that the state of a fresh hub does not allow, with what they are answered.
const REFUSED: [(&str, u16); 33] = [
    // Operators have names by then, so an erasure needs two of them.
    ("orderErasure", 403),
    // The example has no query.
    ("planErasure", 400),
    // The backend of the tests is not encrypted.
    ("rotateDataKey", 400),
    // No transfer was committed: the window is empty, and nothing can be settled.
    ("closeSettlementWindow", 400),
    ("createSettlement", 400),
    ("listSettlements", 400),
    ("showSettlement", 400),
    ("settlementStatement", 400),
    ("updateSettlement", 400),
    ("showSettlementParticipant", 400),
    ("updateSettlementParticipant", 400),
    ("showSettlementAccount", 400),
    ("updateSettlementAccount", 400),
    // This hub has no log.
    ("showAudit", 400),
    // No record made the transfer of the examples.
    ("explainTransfer", 404),
    ("listMessages", 404),
    // Operators have no roles.
    ("createSecondFactor", 400),
    ("logIn", 400),
    // No provider is configured.
    ("showProvider", 400),
    ("logInAtProvider", 400),
    // There is no dead letter.
    ("resend", 400),
    ("dropDeadLetter", 400),
    // The transfer of the examples is a movement of funds, without a packet.
    ("showTransaction", 400),
    // The hub has no authority of participants, and signs nothing.
    ("signEnrolment", 400),
    ("uploadCertificate", 400),
    ("showHubAuthority", 400),
    ("showHubJwsKey", 400),
    // There is no directory of keys.
    ("reloadKeys", 400),
    // Operators have no names where they share a token, and there is no proposal.
    ("setFourEyes", 400),
    ("showProposal", 400),
    ("approveProposal", 400),
    ("rejectProposal", 400),
    // Nothing is traces of it.
    ("showStages", 404),
];

/// Settles the fees of the examples.
const FEE_MODEL: &str = r#"{"name":"FEES","settlementGranularity":"NET",
    "settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED",
    "requireLiquidityCheck":true,"ledgerAccountType":"INTERCHANGE_FEE","autoPositionReset":true,
    "settlementAccountType":"INTERCHANGE_FEE_SETTLEMENT"}"#;

#[tokio::test]
async fn every_example_is_taken_and_answered_as_described() {
    let server = TestServer::start().await;
    let document = operations::openapi_document::admin();
    let account = json!({"currency": "XOF", "type": "HUB_MULTILATERAL_SETTLEMENT"}).to_string();
    server.check_status("POST /participants/Hub/accounts", &account, 201).await;
    server.check_status("POST /settlementModels", FEE_MODEL, 201).await;
    let mut all = operations(&document);
    let place = |played: &OperationMessages<'_>| FIRST.iter().position(|id| *id == played.id);
    all.sort_by_key(|played| place(played).unwrap_or(FIRST.len()));
    for played in all {
        let message = fitted(&server, played.id, played.good.clone()).await;
        let (status, fault) = play(&server, &document, &played, &message).await;
        assert_eq!(fault, None, "{} with {}", played.id, message.what);
        let refused = REFUSED.iter().find(|(id, _)| *id == played.id).map(|(_, status)| *status);
        match refused {
            Some(expected) => assert_eq!(status, expected, "{}", played.id),
            None => assert!((200..300).contains(&status), "{}: {status} {message:?}", played.id),
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn every_described_rule_is_checked() {
    let server = TestServer::start().await;
    let document = operations::openapi_document::admin();
    let mut count = 0;
    for played in operations(&document) {
        for message in &played.bad {
            let (status, fault) = play(&server, &document, &played, message).await;
            assert_eq!(fault, None, "{} when {}", played.id, message.what);
            assert!((400..500).contains(&status), "{} when {}: {status}", played.id, message.what);
            count += 1;
        }
    }
    assert!(150 < count, "{count} rules");
    server.stop().await;
}

#[tokio::test]
async fn documents_and_page_are_served() {
    let server = TestServer::start().await;
    for (request, form) in [
        ("GET /openapi/fspiop.json", "\"openapi\": \"3.0.3\""),
        ("GET /openapi/admin.json", "\"openapi\": \"3.0.3\""),
        ("GET /documents", "<!doctype html>"),
    ] {
        let answer = server.send(request, "host: localhost\r\n", "").await;
        assert_eq!(answer.status, 200, "{request}");
        assert!(answer.body.contains(form), "{request}");
    }
    server.stop().await;
}

/// Parts of the examples that depend on the state: numbers of accounts, keys, and an outflow that can end.
async fn fitted(server: &TestServer, id: &str, mut message: ExampleMessage) -> ExampleMessage {
    let kind = match id {
        "moveFunds" | "endFundsOut" | "adjustBalance" => "SETTLEMENT",
        "switchAccount" => "POSITION",
        "showKey" | "removeKey" => {
            let answer = server.ask("GET /participants/payerfsp/keys", "").await;
            let keys: Value = serde_json::from_str(answer.split_once(' ').unwrap().1).unwrap();
            let id = keys[0]["id"].as_str().unwrap();
            let (keys, _) = message.path.rsplit_once('/').unwrap();
            message.path = format!("{keys}/{id}");
            return message;
        }
        "showEnrolment" | "rejectEnrolment" => {
            let answer = server.ask("GET /api/dfsps/payerfsp/enrollments/inbound", "").await;
            let all: Value = serde_json::from_str(answer.split_once(' ').unwrap().1).unwrap();
            let (path, _) = message.path.rsplit_once('/').unwrap();
            message.path = format!("{path}/{}", all[0]["id"]);
            return message;
        }
        "revokeToken" => {
            let answer = server.ask("GET /tokens", "").await;
            let tokens: Value = serde_json::from_str(answer.split_once(' ').unwrap().1).unwrap();
            message.path = format!("/tokens/{}", tokens[0]["id"].as_str().unwrap());
            return message;
        }
        _ => return message,
    };
    let answer = server.ask("GET /participants/payerfsp/accounts", "").await;
    let accounts: Value = serde_json::from_str(answer.split_once(' ').unwrap().1).unwrap();
    let mut of_kind = accounts.as_array().unwrap().iter();
    let account = of_kind.find(|account| account["ledgerAccountType"] == kind).unwrap();
    let number = account["id"].to_string();
    message.path = message.path.replace("/accounts/1", &format!("/accounts/{number}"));
    if id == "endFundsOut" {
        let outflow = "01HV0000000000000000000000";
        let body = json!({
            "transferId": outflow,
            "externalReference": "r",
            "action": "recordFundsOutPrepareReserve",
            "reason": "r",
            "amount": {"amount": 1, "currency": "XOF"},
        });
        let request = format!("POST /participants/payerfsp/accounts/{number}");
        server.check_status(&request, &body.to_string(), 202).await;
        let place = message.path.rfind('/').unwrap() + 1;
        message.path.replace_range(place.., outflow);
    }
    message
}

/// Status, and what of the answer is not as described.
async fn play(
    server: &TestServer,
    document: &Value,
    played: &OperationMessages<'_>,
    message: &ExampleMessage,
) -> (u16, Option<String>) {
    let mut headers = "host: localhost\r\n".to_owned();
    if played.needs_token {
        headers += &format!("authorization: Bearer {}\r\n", server.token());
    }
    for (name, value) in &message.headers {
        headers += &format!("{name}: {value}\r\n");
    }
    let request = format!("{} {}", message.method, message.path);
    let body = message.body.as_ref().map_or("", |(_, text)| text);
    let answer = server.send(&request, &headers, body).await;
    let media = answer.header("content-type");
    let fault = response_fault(document, played.operation, answer.status, media, &answer.body);
    (answer.status, fault.map(|fault| format!("{fault}: {}", answer.body)))
}
