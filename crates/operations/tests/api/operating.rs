//! A scheme in operation: funds, refusals of the kernel, dead letters, and what is recorded.

use expect_test::{Expect, expect};
use fspiop::reach::Reach;
use ledger::{
    Amount, Command, Currency, DeliveryResult, Digest, FinishedDelivery, FspName, NoticeId,
    Outcome, Prepare, TransferId,
};
use operations::Unavailable;

use crate::conversation::Server;
use crate::hub::BEGINNING_MS;

const IN: &str = "recordFundsIn";
const OUT: &str = "recordFundsOutPrepareReserve";

/// A server with two participants, whose accounts are 6 and 7, 8 and 9; 100 each on deposit.
async fn scheme() -> Server {
    let server = Server::start().await;
    let created = [
        ("POST /participants/Hub/accounts", r#"{"currency":"USD","type":"HUB_RECONCILIATION"}"#),
        (
            "POST /participants/Hub/accounts",
            r#"{"currency":"USD","type":"HUB_MULTILATERAL_SETTLEMENT"}"#,
        ),
        ("POST /participants", r#"{"name":"dfsp1","currency":"USD"}"#),
        ("POST /participants", r#"{"name":"dfsp2","currency":"USD"}"#),
    ];
    for (request, body) in created {
        server.check_status(request, body, 201).await;
    }
    for (at, name) in ["dfsp1", "dfsp2"].into_iter().enumerate() {
        let limits = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1000}}"#;
        let request = format!("POST /participants/{name}/initialPositionAndLimits");
        server.check_status(&request, limits, 201).await;
        let request = format!("POST /participants/{name}/accounts/{}", 7 + 2 * at);
        server.check_status(&request, &funds(at, IN, "100"), 202).await;
    }
    server
}

fn funds(number: usize, action: &str, amount: &str) -> String {
    let id = format!("01HV00000000000000000000{number:02}");
    format!(
        r#"{{"transferId":"{id}","externalReference":"r","action":"{action}","reason":"why",
            "amount":{{"amount":{amount},"currency":"USD"}}}}"#
    )
}

async fn balances(server: &Server) -> String {
    let mut text = String::new();
    for name in ["Hub", "dfsp1"] {
        let answer = server.ask(&format!("GET /participants/{name}/accounts"), "").await;
        let accounts: serde_json::Value = serde_json::from_str(&answer[4..]).unwrap();
        for account in accounts.as_array().unwrap() {
            let kind = account["ledgerAccountType"].as_str().unwrap();
            text.push_str(&format!("{kind} {}, ", account["value"]));
        }
    }
    text
}

#[tokio::test]
async fn funds_go_out_in_two_steps() {
    let server = scheme().await;
    let check = async |body: &str, expected: Expect| {
        let request = match body.contains("transferId") {
            true => "POST /participants/dfsp1/accounts/7",
            false => "PUT /participants/dfsp1/accounts/7/transfers/01HV0000000000000000000010",
        };
        let answer = server.ask(request, body).await;
        expected.assert_eq(&format!("{answer}: {}", balances(&server).await));
    };
    let commit = r#"{"action":"recordFundsOutCommit","reason":"paid"}"#;
    let abort = r#"{"action":"recordFundsOutAbort","reason":"not paid"}"#;
    check(&funds(10, OUT, "40.5"), expect!["202: HUB_RECONCILIATION 200, HUB_MULTILATERAL_SETTLEMENT 0, POSITION 0, SETTLEMENT -59.5, "]).await;
    check(&funds(10, OUT, "40.5"), expect!["202: HUB_RECONCILIATION 200, HUB_MULTILATERAL_SETTLEMENT 0, POSITION 0, SETTLEMENT -59.5, "]).await;
    check(&funds(11, OUT, "59.5001"), expect!["202: HUB_RECONCILIATION 200, HUB_MULTILATERAL_SETTLEMENT 0, POSITION 0, SETTLEMENT -59.5, "]).await;
    check(commit, expect!["202: HUB_RECONCILIATION 159.5, HUB_MULTILATERAL_SETTLEMENT 0, POSITION 0, SETTLEMENT -59.5, "]).await;
    check(abort, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - no reserved funds out have this transferId and account"}}: HUB_RECONCILIATION 159.5, HUB_MULTILATERAL_SETTLEMENT 0, POSITION 0, SETTLEMENT -59.5, "#]]).await;
    check(&funds(12, IN, r#""0.0001""#), expect!["202: HUB_RECONCILIATION 159.5001, HUB_MULTILATERAL_SETTLEMENT 0, POSITION 0, SETTLEMENT -59.5001, "]).await;
    server.stop().await;
}

#[tokio::test]
async fn aborted_outflows_are_given_back() {
    let server = scheme().await;
    server.check_status("POST /participants/dfsp2/accounts/9", &funds(20, OUT, "100"), 202).await;
    let request = "PUT /participants/dfsp2/accounts/9/transfers/01HV0000000000000000000020";
    let abort = r#"{"action":"recordFundsOutAbort","reason":"not paid"}"#;
    server.check_status(request, abort, 202).await;
    server.check("GET /participants/dfsp2/accounts", "", expect![[r#"200 [{"id":8,"ledgerAccountType":"POSITION","currency":"USD","isActive":1,"value":0,"reservedValue":0,"changedDate":"2026-01-01T10:00:00.004Z"},{"id":9,"ledgerAccountType":"SETTLEMENT","currency":"USD","isActive":1,"value":-100,"reservedValue":0,"changedDate":"2026-01-01T10:00:00.010Z"}]"#]]).await;
    server.stop().await;
}

#[tokio::test]
async fn the_kernels_refusals_have_their_codes() {
    let server = scheme().await;
    let active = r#"{"isActive":true}"#;
    let limits = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1}}"#;
    let limits_eur = r#"{"currency":"EUR","limit":{"type":"NET_DEBIT_CAP","value":1}}"#;
    let cap = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1,
        "alarmPercentage":10}}"#;
    let endpoint = r#"{"type":"ALARM_NOTIFICATION_TOPIC","value":"v"}"#;
    let model = r#"{"name":"DEFAULTDEFERREDNET","settlementGranularity":"NET",
        "settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":null,
        "requireLiquidityCheck":true,"ledgerAccountType":"POSITION","autoPositionReset":true,
        "settlementAccountType":"SETTLEMENT"}"#;
    let model_off = r#"{"isActive":false}"#;
    let hub_account = r#"{"currency":"USD","type":"HUB_RECONCILIATION"}"#;
    let position_account = r#"{"currency":"USD","type":"POSITION"}"#;
    let type_known = r#"{"name":"POSITION","description":"d","isActive":true,"isSettleable":true}"#;
    let type_new = r#"{"name":"OTHER","description":"d","isActive":true,"isSettleable":true}"#;
    let end = r#"{"action":"recordFundsOutCommit","reason":"r"}"#;
    let out = funds(30, OUT, "1");
    let out_eur = out.replace("USD", "EUR");
    let cases: Vec<(&str, &str, Expect)> = vec![
        (
            "GET /participants/nobody",
            "",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "GET /participants/nobody/accounts",
            "",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "GET /participants/nobody/endpoints",
            "",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "GET /participants/nobody/limits",
            "",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "GET /participants/nobody/positions",
            "",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "GET /participants/a-name-of-more-than-32-characters",
            "",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "PUT /participants/nobody",
            active,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "PUT /participants/nobody/limits",
            cap,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "PUT /participants/nobody/accounts/6",
            active,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "POST /participants/nobody/accounts",
            hub_account,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "POST /participants/nobody/accounts/7",
            &out,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "POST /participants/nobody/endpoints",
            endpoint,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "POST /participants/nobody/initialPositionAndLimits",
            limits,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - participant not found"}}"#
            ]],
        ),
        (
            "POST /participants",
            r#"{"name":"dfsp1","currency":"USD"}"#,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - Participant currency has already been registered"}}"#
            ]],
        ),
        (
            "POST /participants",
            r#"{"name":"Hub","currency":"EUR"}"#,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - Participant currency has already been registered"}}"#
            ]],
        ),
        (
            "POST /participants",
            r#"{"name":"dfsp1","currency":"EUR"}"#,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3003","errorDescription":"Add Party information error - the Hub lacks HUB_RECONCILIATION or HUB_MULTILATERAL_SETTLEMENT in the currency"}}"#
            ]],
        ),
        (
            "POST /participants",
            r#"{"name":"xx","currency":"USD","isProxy":true}"#,
            expect![[
                r#"501 {"errorInformation":{"errorCode":"2002","errorDescription":"Not implemented"}}"#
            ]],
        ),
        (
            "POST /participants/dfsp1/initialPositionAndLimits",
            limits,
            expect![[
                r#"500 {"errorInformation":{"errorCode":"2001","errorDescription":"Internal server error - limit and initial position were already set"}}"#
            ]],
        ),
        (
            "POST /participants/dfsp1/initialPositionAndLimits",
            limits_eur,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - the participant has no such account"}}"#
            ]],
        ),
        (
            "POST /participants/Hub/accounts",
            hub_account,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - Hub account has already been registered"}}"#
            ]],
        ),
        (
            "POST /participants/Hub/accounts",
            position_account,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - the Hub cannot have an account of this type"}}"#
            ]],
        ),
        (
            "POST /participants/dfsp1/accounts",
            hub_account,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - only accounts of the Hub are created one by one"}}"#
            ]],
        ),
        (
            "PUT /participants/dfsp1/accounts/7",
            active,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - the account is of the wrong type for this"}}"#
            ]],
        ),
        (
            "PUT /participants/dfsp1/accounts/8",
            active,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - the participant has no such account"}}"#
            ]],
        ),
        (
            "PUT /participants/dfsp1/accounts/4294967295",
            active,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - the participant has no such account"}}"#
            ]],
        ),
        (
            "POST /participants/dfsp1/accounts/6",
            &out,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - the account is of the wrong type for this"}}"#
            ]],
        ),
        (
            "POST /participants/dfsp1/accounts/9",
            &out,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - the participant has no such account"}}"#
            ]],
        ),
        (
            "POST /participants/dfsp1/accounts/7",
            &out_eur,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - the amount's currency is not the account's"}}"#
            ]],
        ),
        (
            "PUT /participants/dfsp1/accounts/7/transfers/01HV0000000000000000000031",
            end,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - no reserved funds out have this transferId and account"}}"#
            ]],
        ),
        (
            "POST /settlementModels",
            model,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - Settlement Model already exists"}}"#
            ]],
        ),
        (
            "GET /settlementModels/OTHER",
            "",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - settlement model not found"}}"#
            ]],
        ),
        (
            "PUT /settlementModels/OTHER",
            active,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - settlement model not found"}}"#
            ]],
        ),
        (
            "PUT /settlementModels/ANAMEOFMORETHANTHIRTYCHARACTERS",
            active,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - settlement model not found"}}"#
            ]],
        ),
        (
            "PUT /settlementModels/DEFAULTDEFERREDNET",
            model_off,
            expect![[
                r#"200 {"settlementModelId":1,"name":"DEFAULTDEFERREDNET","isActive":false,"settlementGranularity":"NET","settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":null,"requireLiquidityCheck":true,"ledgerAccountTypeId":"POSITION","settlementAccountType":"SETTLEMENT","autoPositionReset":true}"#
            ]],
        ),
        (
            "POST /participants",
            r#"{"name":"dfsp3","currency":"USD"}"#,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"6000","errorDescription":"Generic Settlement Error - no active settlement model serves the currency"}}"#
            ]],
        ),
        (
            "POST /ledgerAccountTypes",
            type_known,
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - the ledger account type already exists"}}"#
            ]],
        ),
        (
            "POST /ledgerAccountTypes",
            type_new,
            expect![[
                r#"201 {"id":8,"name":"OTHER","description":"d","isActive":1,"isSettleable":1}"#
            ]],
        ),
        (
            "GET /enums?id=other",
            "",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - enumeration not found"}}"#
            ]],
        ),
        (
            "GET /transactions/1",
            "",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - transaction not found"}}"#
            ]],
        ),
        (
            "POST /deadletters/1/resend",
            "{}",
            expect![[
                r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - dead letter not found"}}"#
            ]],
        ),
    ];
    for (request, body, expected) in cases {
        server.check(request, body, expected).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn inactive_accounts_take_no_funds_and_no_cap() {
    let server = scheme().await;
    let dfsp3 = r#"{"name":"dfsp3","currency":"USD"}"#;
    server.check_status("POST /participants", dfsp3, 201).await;
    server
        .check("POST /participants/dfsp3/accounts/11", &funds(40, IN, "1"), expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - Account is currently set inactive"}}"#]])
        .await;
    let cap = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1,
        "alarmPercentage":10}}"#;
    server.check("PUT /participants/dfsp3/limits", cap, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - no limit was set yet: use initialPositionAndLimits"}}"#]]).await;
    server.check("GET /participants/dfsp3/limits", "", expect!["200 []"]).await;
    server.stop().await;
}

/// Reserves transfers whose prepares cannot be delivered.
fn bury(server: &Server, transfers: u8) {
    for number in 0..transfers {
        let name = |text| FspName::new(text).unwrap();
        let prepare = Prepare {
            id: TransferId::parse(&format!("01HV00000000000000000001{number:02}")).unwrap(),
            source: name("dfsp1"),
            payer: name("dfsp1"),
            payee: name("dfsp2"),
            currency: Currency::parse("USD").unwrap(),
            amount: Amount::parse("1").unwrap(),
            condition: [0; 32],
            expiration_ms: BEGINNING_MS + 1_000_000,
            hash: Digest::default(),
            trace: [0; 16],
        };
        let outcome = server.hub.apply(&Command::Prepare(Box::new(prepare)));
        assert_eq!(outcome, Outcome::PrepareReserved);
    }
    let notices: Vec<NoticeId> =
        server.hub.inner().state.notices_owed().map(|notice| notice.id).collect();
    for notice in notices {
        let end = FinishedDelivery {
            notice,
            result: DeliveryResult::Dead,
            attempts: 5,
            status: 404,
            finished_ms: BEGINNING_MS + 60_500,
        };
        server.hub.apply(&Command::FinishDeliveries(vec![end]));
    }
}

#[tokio::test]
async fn dead_letters_are_listed_newest_first_and_sent_again() {
    let server = scheme().await;
    server.check("GET /deadletters", "", expect!["200 []"]).await;
    bury(&server, 3);
    server.check("GET /deadletters?limit=1", "", expect![[r#"200 [{"id":3,"recipient":"dfsp2","transferId":"01HV0000000000000000000102","message":"POST /transfers","outcome":29,"logPosition":12,"createdDate":"2026-01-01T10:00:00.011Z","attempts":5,"lastStatus":404,"lastAttemptDate":"2026-01-01T10:01:00.500Z"}]"#]]).await;
    server.check("GET /deadletters?limit=2&before=3", "", expect![[r#"200 [{"id":2,"recipient":"dfsp2","transferId":"01HV0000000000000000000101","message":"POST /transfers","outcome":29,"logPosition":11,"createdDate":"2026-01-01T10:00:00.010Z","attempts":5,"lastStatus":404,"lastAttemptDate":"2026-01-01T10:01:00.500Z"},{"id":1,"recipient":"dfsp2","transferId":"01HV0000000000000000000100","message":"POST /transfers","outcome":29,"logPosition":10,"createdDate":"2026-01-01T10:00:00.009Z","attempts":5,"lastStatus":404,"lastAttemptDate":"2026-01-01T10:01:00.500Z"}]"#]]).await;
    server.check("POST /deadletters/2/resend", "", expect!["202"]).await;
    server.check("POST /deadletters/2/resend", "", expect![[r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - dead letter not found"}}"#]]).await;
    assert_eq!(server.hub.inner().state.dead_letter_count(), 2);
    assert_eq!(server.hub.inner().state.notices_owed_count(), 1);
    server.check("GET /undeliverable", "", expect![[r#"200 [{"id":2,"recipient":"dfsp2","transferId":"01HV0000000000000000000101","message":"POST /transfers","outcome":29,"logPosition":11,"createdDate":"2026-01-01T10:00:00.015Z","reason":"no usable endpoint is registered for this callback"}]"#]]).await;
    server.check("GET /deadletters?limit=0", "", expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"limit\" is out of range"}}"#]]).await;
    server.check("GET /deadletters?limit=1001", "", expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"limit\" is out of range"}}"#]]).await;
    server.check("GET /deadletters?before=x", "", expect![[r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"before\" must be an integer"}}"#]]).await;
    server.check("POST /deadletters/x/resend", "", expect![[r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"id\" must be an integer"}}"#]]).await;
    server.stop().await;
}

#[tokio::test]
async fn a_hub_that_cannot_answer_is_unavailable() {
    let server = scheme().await;
    for (why, expected) in [
        (
            Unavailable::InboxFull,
            expect![[
                r#"503 {"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable - the inbox is full"}}"#
            ]],
        ),
        (
            Unavailable::DiskFull,
            expect![[
                r#"503 {"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable - the disk of the log is full; nothing was recorded"}}"#
            ]],
        ),
        (
            Unavailable::Stopped,
            expect![[
                r#"503 {"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable - the hub has stopped"}}"#
            ]],
        ),
    ] {
        server.hub.inner().unavailable = Some(why);
        let body = r#"{"isActive":true}"#;
        let change = server.ask("PUT /participants/dfsp1", body).await;
        let question = server.ask("GET /participants", "").await;
        assert_eq!(change, question);
        expected.assert_eq(&change);
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_called_must_be_where_the_configuration_allows() {
    let server = Server::start_with(|options| {
        let networks = vec!["10.0.0.0/8".parse().expect("a network")];
        options.reach = Reach { networks, ports: vec![80], ..Reach::default() }.into();
    })
    .await;
    let endpoint =
        |value: &str| format!(r#"{{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"{value}"}}"#);
    let oracle = |value: &str| {
        format!(
            r#"{{"oracleIdType":"IBAN","endpoint":{{"value":"{value}","endpointType":"URL"}}}}"#
        )
    };
    server.check_status("POST /oracles", &oracle("http://10.0.0.1"), 201).await;
    // A second one would be 500: what is refused is refused before the hub is asked.
    for (value, is_fit) in [
        ("http://10.1.2.3/a", true),
        ("http://name", true),
        ("http://192.168.0.1/a", false),
        ("http://169.254.169.254/latest", false),
        ("http://10.1.2.3:8080/a", false),
        ("https://10.1.2.3/a", false),
        ("http://user@10.1.2.3/a", false),
        ("file:///etc/passwd", false),
        ("somewhere", false),
    ] {
        let status = |good: u16| if is_fit { good } else { 400 };
        server
            .check_status("POST /participants/Hub/endpoints", &endpoint(value), status(201))
            .await;
        let taken = if is_fit { 500 } else { 400 };
        server.check_status("POST /oracles", &oracle(value), taken).await;
        server.check_status("PUT /oracles/1", &oracle(value), status(204)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn oracles_are_kept_one_per_type_and_currency() {
    let server = Server::start().await;
    let oracle = |rest: &str| {
        format!(
            r#"{{"oracleIdType":"MSISDN","endpoint":{{"value":"http://o","endpointType":"URL"}}{rest}}}"#
        )
    };
    for (request, body, status) in [
        ("POST /oracles", oracle(r#","currency":"USD","isDefault":true"#), 201),
        ("POST /oracles", oracle(r#","currency":"USD","isDefault":false"#), 500),
        ("POST /oracles", oracle(r#","more":1"#), 201),
        ("POST /oracles", oracle(r#","currency":"USX""#), 400),
        ("POST /oracles", oracle("").replace("MSISDN", "PHONE"), 400),
        ("POST /oracles", oracle("").replace("URL", "MAIL"), 400),
        ("POST /oracles", r#"{"oracleIdType":"IBAN"}"#.to_owned(), 400),
        ("PUT /oracles/2", r#"{"currency":"USD"}"#.to_owned(), 400),
        ("PUT /oracles/2", oracle(r#","currency":"USD""#), 500),
        ("PUT /oracles/2", oracle(r#","currency":"KES","isDefault":"true""#), 204),
        ("PUT /oracles/3", oracle(""), 400),
        ("PUT /oracles/x", oracle(""), 400),
        ("DELETE /oracles/3", String::new(), 204),
        ("DELETE /oracles/x", String::new(), 204),
    ] {
        server.check_status(request, &body, status).await;
    }
    server.check("GET /oracles", "", expect![[r#"200 [{"oracleId":1,"oracleIdType":"MSISDN","endpoint":{"value":"http://o","endpointType":"URL"},"currency":"USD","isDefault":1},{"oracleId":2,"oracleIdType":"MSISDN","endpoint":{"value":"http://o","endpointType":"URL"},"currency":"KES","isDefault":1}]"#]]).await;
    server.check("GET /oracles?type=MSISDN&currency=KES", "", expect![[r#"200 [{"oracleId":2,"oracleIdType":"MSISDN","endpoint":{"value":"http://o","endpointType":"URL"},"currency":"KES","isDefault":1}]"#]]).await;
    server.check("GET /oracles?type=IBAN", "", expect!["200 []"]).await;
    server.check("GET /oracles?currency=x", "", expect!["200 []"]).await;
    let token = format!("host: localhost\r\nauthorization: Bearer {}\r\n", server.token());
    let body = oracle(r#","currency":"TZS""#);
    for (request, body) in [("POST /oracles", &*body), ("DELETE /oracles/1", "")] {
        let answer = server.send(request, &token, body).await;
        expect![[r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - /header must have required property 'accept'"}}"#]].assert_eq(&format!("{} {}", answer.status, answer.body));
    }
    for _ in 0..2 {
        server.check_status("DELETE /oracles/1", "", 204).await;
    }
    server.check("GET /oracles?currency=USD", "", expect!["200 []"]).await;
    server.stop().await;
}

#[tokio::test]
async fn good_rows_of_parties_are_one_change_and_bad_ones_are_answered() {
    let server = scheme().await;
    let row = |members: &str| format!(r#"{{"partyIdType":"MSISDN",{members}}}"#);
    let rows = [
        row(r#""partyIdentifier":"254","fspId":"dfsp1""#),
        row(r#""partyIdentifier":"25x","fspId":"dfsp1""#),
        row(r#""partyIdentifier":"254","fspId":"dfsp3""#),
        row(r#""partyIdentifier":"254","fspId":"Hub""#),
        row(r#""partyIdentifier":"254""#),
        row(r#""partyIdentifier":"254","fspId":"dfsp1","currency":"XXQ""#),
        row(r#""partyIdentifier":"254","fspId":"dfsp1","more":1"#),
        row(r#""partyIdentifier":"255","fspId":"dfsp2","currency":null,"partySubIdOrType":"a""#),
        r#"{"partyIdType":"PHONE","partyIdentifier":"1","fspId":"dfsp1"}"#.to_owned(),
    ];
    let body = format!(r#"{{"parties":[{}]}}"#, rows.join(","));
    server.check("POST /parties", &body, expect![[r#"200 {"registered":2,"refused":[{"row":1,"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"partyIdentifier\" must be 1 to 30 digits, + before them or not"}},{"row":2,"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - \"fspId\" dfsp3 is no participant"}},{"row":3,"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - \"fspId\" Hub is no participant"}},{"row":4,"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"fspId\" is required"}},{"row":5,"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"currency\" must be a currency code of ISO 4217"}},{"row":6,"errorInformation":{"errorCode":"3103","errorDescription":"Too many elements - \"more\" is not allowed"}},{"row":8,"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"partyIdType\" must be a type of identifier such as MSISDN; /openapi/admin.json has them"}}]}"#]]).await;
    let (change, told) = server.hub.inner().parties.pop().expect("one change");
    let found: Vec<_> = change.parties.iter().map(|it| (&*it.id, it.fsp.to_string())).collect();
    assert_eq!(found, [("254", "dfsp1".to_owned()), ("255", "dfsp2".to_owned())]);
    assert!(told.actor.contains("127.0.0.1"), "{told:?}");
    server.hub.inner().parties.push((change, told));
    server.check("GET /parties/MSISDN/255?subId=a", "", expect![[r#"200 [{"partyIdType":"MSISDN","partyIdentifier":"255","partySubIdOrType":"a","fspId":"dfsp2"}]"#]]).await;
    server.check("GET /parties/MSISDN/255", "", expect!["200 []"]).await;
    server.check("GET /parties/PHONE/255", "", expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"Type\" must be a type of identifier such as MSISDN; /openapi/admin.json has them"}}"#]]).await;

    let many = format!(r#"{{"parties":[{}]}}"#, vec![&*rows[0]; 1_001].join(","));
    server.check("POST /parties", &many, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"parties\" must have 1 to 1000 items"}}"#]]).await;
    server.check("POST /parties", r#"{"parties":[1]}"#, expect![[r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"parties\" must have objects as items"}}"#]]).await;
    server.check("POST /parties", r#"{"parties":[]}"#, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"parties\" must have 1 to 1000 items"}}"#]]).await;
    server.check("POST /parties", r#"{"rows":[]}"#, expect![[r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"parties\" is required"}}"#]]).await;
    assert_eq!(server.hub.inner().parties.len(), 1, "nothing of them was recorded");
    server.hub.inner().unavailable = Some(Unavailable::DiskFull);
    server.check("POST /parties", &body, expect![[r#"503 {"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable - the disk of the log is full; nothing was recorded"}}"#]]).await;
    server.stop().await;
}
