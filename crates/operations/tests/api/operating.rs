//! A scheme in operation: funds, refusals of the kernel, dead letters, and what is recorded.

use expect_test::{expect, expect_file};
use fspiop::egress_policy::EgressPolicy;
use ledger::{
    Amount, Change, Command, Currency, DeliveryResult, Digest, FinishedDelivery, FspName, NoticeId,
    Outcome, Prepare, TransferId,
};
use operations::Unavailable;

use crate::backend::BEGINNING_MS;
use crate::server::TestServer;

/// A server with two participants, as in the text.
async fn scheme() -> TestServer {
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/scheme.txt"]).await;
    server
}

#[tokio::test]
async fn funds_go_in_and_out_in_two_steps() {
    let server = scheme().await;
    server.run_transcript(expect_file!["texts/funds.txt"]).await;
    server.stop().await;
}

#[tokio::test]
async fn the_kernels_refusals_have_their_codes() {
    let server = scheme().await;
    server.run_transcript(expect_file!["texts/refusals.txt"]).await;
    server.stop().await;
}

/// Reserves transfers, whose prepares are owed.
fn create_notices(server: &TestServer, transfers: u8) {
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
            fee_rule: None,
            quote_terms: None,
        };
        let outcome = server.backend.apply(&Command::Prepare(Box::new(prepare)));
        assert_eq!(outcome, Outcome::PrepareReserved);
    }
}

/// Reserves transfers whose prepares cannot be delivered.
fn create_dead_letter(server: &TestServer, transfers: u8) {
    create_notices(server, transfers);
    let notices: Vec<NoticeId> =
        server.backend.inner().state.notices_owed().map(|notice| notice.id).collect();
    for notice in notices {
        let end = FinishedDelivery {
            notice,
            result: DeliveryResult::Dead,
            attempts: 5,
            status: 404,
            finished_ms: BEGINNING_MS + 60_500,
        };
        server.backend.apply(&Command::FinishDeliveries(vec![end]));
    }
}

#[tokio::test]
async fn dead_letters_are_listed_newest_first_and_sent_again() {
    let server = scheme().await;
    server.check("GET /deadletters", "", expect!["200 []"]).await;
    create_dead_letter(&server, 3);
    server.check("GET /deadletters?limit=1", "", expect![[r#"200 [{"id":3,"recipient":"dfsp2","transferId":"01HV0000000000000000000102","message":"POST /transfers","outcome":29,"logIndex":12,"createdDate":"2026-01-01T10:00:00.011Z","attempts":5,"lastStatus":404,"lastAttemptDate":"2026-01-01T10:01:00.500Z"}]"#]]).await;
    server.check("GET /deadletters?limit=2&before=3", "", expect![[r#"200 [{"id":2,"recipient":"dfsp2","transferId":"01HV0000000000000000000101","message":"POST /transfers","outcome":29,"logIndex":11,"createdDate":"2026-01-01T10:00:00.010Z","attempts":5,"lastStatus":404,"lastAttemptDate":"2026-01-01T10:01:00.500Z"},{"id":1,"recipient":"dfsp2","transferId":"01HV0000000000000000000100","message":"POST /transfers","outcome":29,"logIndex":10,"createdDate":"2026-01-01T10:00:00.009Z","attempts":5,"lastStatus":404,"lastAttemptDate":"2026-01-01T10:01:00.500Z"}]"#]]).await;
    for (query, ids) in [
        ("participant=dfsp2", vec![3, 2, 1]),
        ("participant=dfsp1", vec![]),
        ("code=404&limit=1", vec![3]),
        ("code=0", vec![]),
        ("from=2026-01-01T10:00:00.010Z&before=3", vec![2]),
        ("to=2026-01-01T10:00:00.010Z", vec![1]),
    ] {
        let page = server.ask(&format!("GET /deadletters?{query}"), "").await;
        let found = page.matches(r#"{"id":"#).count();
        let named = ids.iter().all(|id| page.contains(&format!(r#"{{"id":{id},"#)));
        assert!(found == ids.len() && named, "{query}: {page}");
    }
    server.check("GET /deadletters/groups", "", expect![[r#"200 [{"recipient":"dfsp2","message":"POST /transfers","lastStatus":404,"count":3,"oldestId":1,"newestId":3,"oldestDate":"2026-01-01T10:00:00.009Z","newestDate":"2026-01-01T10:00:00.011Z"}]"#]]).await;
    server.check("GET /deadletters/groups?code=500", "", expect!["200 []"]).await;
    for query in ["code=x", "from=today", "participant=ghost", "code=1000"] {
        server.check_status(&format!("POST /deadletters/resend?{query}"), "", 400).await;
    }
    server.check("POST /deadletters/2/resend", "", expect!["202"]).await;
    server.check("POST /deadletters/2/resend", "", expect![[r#"400 {"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - dead letter not found"}}"#]]).await;
    assert_eq!(server.backend.inner().state.dead_letter_count(), 2);
    assert_eq!(server.backend.inner().state.notices_owed_count(), 1);
    server.check("GET /undeliverable", "", expect![[r#"200 [{"id":2,"recipient":"dfsp2","transferId":"01HV0000000000000000000101","message":"POST /transfers","outcome":29,"logIndex":11,"createdDate":"2026-01-01T10:00:00.015Z","reason":"no usable endpoint is registered for this callback"}]"#]]).await;
    server
        .check(
            "POST /deadletters/resend?code=404&limit=1",
            "",
            expect![[r#"200 {"done":1,"last":3,"more":true}"#]],
        )
        .await;
    server
        .check(
            "POST /deadletters/resend?before=3",
            "",
            expect![[r#"200 {"done":1,"last":1,"more":false}"#]],
        )
        .await;
    server.check("POST /deadletters/resend", "", expect![[r#"200 {"done":0,"more":false}"#]]).await;
    server.check("GET /deadletters?limit=0", "", expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"limit\" is out of range"}}"#]]).await;
    server.check("GET /deadletters?limit=1001", "", expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"limit\" is out of range"}}"#]]).await;
    server.check("GET /deadletters?before=x", "", expect![[r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"before\" must be an integer"}}"#]]).await;
    server.check("POST /deadletters/x/resend", "", expect![[r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"id\" must be an integer"}}"#]]).await;
    server.stop().await;
}

#[tokio::test]
async fn notices_owed_are_listed_oldest_first_in_pages() {
    let server = scheme().await;
    server.check("GET /outbox", "", expect![[r#"200 {"notices":[],"owed":0}"#]]).await;
    create_notices(&server, 3);
    server.check("GET /outbox?limit=1", "", expect![[r#"200 {"notices":[{"id":1,"recipient":"dfsp2","transferId":"01HV0000000000000000000100","message":"POST /transfers","outcome":29,"logIndex":10,"createdDate":"2026-01-01T10:00:00.009Z","reason":"no usable endpoint is registered for this callback"}],"next":1,"owed":3}"#]]).await;
    for (query, ids) in [
        ("", vec![1, 2, 3]),
        ("?participant=dfsp2&limit=2", vec![1, 2]),
        ("?participant=dfsp1", vec![]),
        ("?after=1", vec![2, 3]),
        ("?after=2&limit=1", vec![3]),
        ("?from=2026-01-01T10:00:00.010Z", vec![2, 3]),
        ("?to=2026-01-01T10:00:00.010Z", vec![1]),
    ] {
        let page = server.ask(&format!("GET /outbox{query}"), "").await;
        let found = page.matches(r#"{"id":"#).count();
        let named = ids.iter().all(|id| page.contains(&format!(r#"{{"id":{id},"#)));
        assert!(found == ids.len() && named, "{query}: {page}");
        let is_cut = query.ends_with("limit=2");
        assert_eq!(page.contains(r#""next":2"#), is_cut, "{query}: {page}");
    }
    for query in ["after=x", "from=today", "participant=ghost", "limit=0", "limit=1001"] {
        server.check_status(&format!("GET /outbox?{query}"), "", 400).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_hub_that_cannot_answer_is_unavailable() {
    let server = scheme().await;
    for (why, expected) in [
        (
            Unavailable::InboxFull,
            expect![[
                r#"503 {"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable - the command queue is full; nothing was recorded; retry later"}}"#
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
        server.backend.inner().unavailable = Some(why);
        let body = r#"{"isActive":true}"#;
        let change = server.ask("PUT /participants/dfsp1", body).await;
        let question = server.ask("GET /participants", "").await;
        assert_eq!(change, question);
        expected.assert_eq(&change);
    }
    server.stop().await;
}

#[tokio::test]
async fn endpoints_must_be_allowed_by_the_configuration() {
    let server = TestServer::start_with(|options| {
        let networks = vec!["10.0.0.0/8".parse().expect("a network")];
        options.egress =
            EgressPolicy { networks, ports: vec![80], ..EgressPolicy::default() }.into();
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
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/oracles.txt"]).await;
    let token = format!("host: localhost\r\nauthorization: Bearer {}\r\n", server.token());
    let body = r#"{"oracleIdType":"MSISDN","endpoint":{"value":"http://o","endpointType":"URL"},
        "currency":"TZS"}"#;
    for (request, body) in [("POST /oracles", body), ("DELETE /oracles/2", "")] {
        let answer = server.send(request, &token, body).await;
        expect![[r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - /header must have required property 'accept'"}}"#]].assert_eq(&format!("{} {}", answer.status, answer.body));
    }
    server.stop().await;
}

#[tokio::test]
async fn valid_rows_of_parties_are_one_change_and_errors_are_listed() {
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
    server.check("POST /parties", &body, expect![[r#"200 {"registered":2,"refused":[{"row":1,"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"partyIdentifier\" must be 1 to 30 digits, + before them or not"}},{"row":2,"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - \"fspId\" dfsp3 is not a participant"}},{"row":3,"errorInformation":{"errorCode":"3200","errorDescription":"Generic ID not found - \"fspId\" Hub is not a participant"}},{"row":4,"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"fspId\" is required"}},{"row":5,"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"currency\" must be an ISO 4217 currency code"}},{"row":6,"errorInformation":{"errorCode":"3103","errorDescription":"Too many elements - \"more\" is not allowed"}},{"row":8,"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"partyIdType\" must be an identifier type such as MSISDN; see /openapi/admin.json"}}]}"#]]).await;
    let recorded = server.backend.inner().recorded.last().cloned().expect("one change");
    let Change::AssignParties(change) = &recorded.change else { panic!("{recorded:?}") };
    let found: Vec<_> = change.parties.iter().map(|it| (&*it.id, it.fsp.to_string())).collect();
    assert_eq!(found, [("254", "dfsp1".to_owned()), ("255", "dfsp2".to_owned())]);
    assert!(recorded.actor.contains("127.0.0.1"), "{recorded:?}");
    let count = server.backend.inner().recorded.len();
    server.check("GET /parties/MSISDN/255?subId=a", "", expect![[r#"200 [{"partyIdType":"MSISDN","partyIdentifier":"255","partySubIdOrType":"a","fspId":"dfsp2"}]"#]]).await;
    server.check("GET /parties/MSISDN/255", "", expect!["200 []"]).await;
    server.check("GET /parties/PHONE/255", "", expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"Type\" must be an identifier type such as MSISDN; see /openapi/admin.json"}}"#]]).await;

    let many = format!(r#"{{"parties":[{}]}}"#, vec![&*rows[0]; 1_001].join(","));
    server.check("POST /parties", &many, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"parties\" must have 1 to 1000 items"}}"#]]).await;
    server.check("POST /parties", r#"{"parties":[1]}"#, expect![[r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - \"parties\" must have objects as items"}}"#]]).await;
    server.check("POST /parties", r#"{"parties":[]}"#, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"parties\" must have 1 to 1000 items"}}"#]]).await;
    server.check("POST /parties", r#"{"rows":[]}"#, expect![[r#"400 {"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - \"parties\" is required"}}"#]]).await;
    assert_eq!(server.backend.inner().recorded.len(), count, "nothing of them was recorded");
    server.backend.inner().unavailable = Some(Unavailable::DiskFull);
    server.check("POST /parties", &body, expect![[r#"503 {"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable - the disk of the log is full; nothing was recorded"}}"#]]).await;
    server.stop().await;
}
