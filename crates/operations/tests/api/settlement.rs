//! The settlement API: windows and settlements, with every refusal (hub-semantics 5).

use expect_test::{expect, expect_file};
use ledger::{
    Amount, Command, Currency, Digest, FspName, Fulfil, FulfilState, Fulfilment, LogIndex, Outcome,
    Prepare, Stamp, TransferId,
};
use operations::{StatementPeriod, Unavailable};

use crate::backend::BEGINNING_MS;
use crate::server::TestServer;

/// SHA-256 of 32 zero bytes, which are the fulfilment.
const CONDITION: [u8; 32] = [
    0x66, 0x68, 0x7a, 0xad, 0xf8, 0x62, 0xbd, 0x77, 0x6c, 0x8f, 0xc1, 0x8b, 0x8e, 0x9f, 0x8e, 0x20,
    0x08, 0x97, 0x14, 0x85, 0x6e, 0xe2, 0x33, 0xb3, 0x90, 0x2a, 0x59, 0x1d, 0x0d, 0x5f, 0x29, 0x25,
];

/// Two participants and windows 1 and 2; in window 1, `dfsp1` owes `dfsp2` 20.5.
async fn scheme() -> TestServer {
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/scheme.txt"]).await;
    server
}

/// Commits a transfer.
fn transfer(server: &TestServer, number: u8, (payer, payee): (&str, &str), amount: &str) {
    let name = |text| FspName::new(text).unwrap();
    let id = TransferId::parse(&format!("01HV0000000000000000002{number:03}")).unwrap();
    let prepare = Prepare {
        id,
        source: name(payer),
        payer: name(payer),
        payee: name(payee),
        currency: Currency::parse("USD").unwrap(),
        amount: Amount::parse(amount).unwrap(),
        condition: CONDITION,
        expiration_ms: BEGINNING_MS + 1_000_000,
        hash: Digest::default(),
        trace: [0; 16],
        fee_rule: None,
        quote_terms: None,
    };
    let outcome = server.backend.apply(&Command::Prepare(Box::new(prepare)));
    assert_eq!(outcome, Outcome::PrepareReserved);
    let fulfil = Fulfil {
        id,
        source: name(payee),
        destination: Some(name(payer)),
        state: FulfilState::Committed,
        fulfilment: Fulfilment::Present([0; 32]),
        hash: Digest::default(),
        trace: [0; 16],
    };
    let outcome = server.backend.apply(&Command::Fulfil(Box::new(fulfil)));
    assert_eq!(outcome, Outcome::Committed);
}

/// Nodes of an older version, which may still run, could not read the record.
#[tokio::test]
async fn older_rules_refuse_settlement_before_it_is_recorded() {
    let server = TestServer::start().await;
    server.backend.begin_under(1);
    let (close, body) = ("POST /v2/settlementWindows/1", r#"{"state":"CLOSED","reason":"r"}"#);
    server.check(close, body, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - needs rules version 2, but 1 is in force; see PUT /rules"}}"#]]).await;
    assert_eq!(server.backend.inner().state.log_index().0, 1);
    server.check_status("PUT /rules", r#"{"rulesVersion":2}"#, 200).await;
    server.check(close, body, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - Window 1 is empty"}}"#]]).await;
    server.stop().await;
}

#[tokio::test]
async fn windows_are_closed_and_settled_step_by_step() {
    let server = scheme().await;
    transfer(&server, 1, ("dfsp1", "dfsp2"), "30.5");
    transfer(&server, 2, ("dfsp2", "dfsp1"), "10");
    server.run_transcript(expect_file!["texts/settlement.txt"]).await;
    server.stop().await;
}

#[tokio::test]
async fn an_aborted_settlement_gives_its_windows_back() {
    let server = scheme().await;
    transfer(&server, 1, ("dfsp1", "dfsp2"), "30.5");
    server.run_transcript(expect_file!["texts/settlement_abort.txt"]).await;
    server.stop().await;
}

#[tokio::test]
async fn statements_show_the_sums_of_windows_and_settlements() {
    let server = scheme().await;
    transfer(&server, 1, ("dfsp1", "dfsp2"), "30.5");
    transfer(&server, 2, ("dfsp2", "dfsp1"), "10");
    server.run_transcript(expect_file!["texts/statements.txt"]).await;
    let periods: Vec<_> = server.backend.inner().statements.iter().map(|it| it.period).collect();
    let stamp = |millis| Some(Stamp::from_millis(millis));
    let records = |after, until| StatementPeriod::Records {
        after: LogIndex(after),
        until: Some(LogIndex(until)),
    };
    let (from, to) = (stamp(BEGINNING_MS), stamp(BEGINNING_MS + 22 * 3_600_000));
    let all = StatementPeriod::Times { from: None, to: None };
    let times = StatementPeriod::Times { from, to };
    assert_eq!(periods, [all, times, records(1, 14), records(1, 16)]);
    server.stop().await;
}

#[tokio::test]
async fn requests_that_do_not_fit_are_refused() {
    let server = scheme().await;
    transfer(&server, 1, ("dfsp1", "dfsp2"), "30.5");
    server.run_transcript(expect_file!["texts/settlement_refusals.txt"]).await;
    server.stop().await;
}

#[tokio::test]
async fn fee_rules_are_added_and_switched() {
    let server = scheme().await;
    server.run_transcript(expect_file!["texts/interchange_fees.txt"]).await;
    server.stop().await;
}

/// Moves both accounts of a settlement.
async fn step(server: &TestServer, settlement: u8, state: &str) {
    let account = |participant: u8, account: u8| {
        format!(
            r#"{{"id":{participant},"accounts":[{{"id":{account},"state":"{state}","reason":"r"}}]}}"#
        )
    };
    let body = format!(r#"{{"participants":[{},{}]}}"#, account(2, 6), account(3, 8));
    server.check_status(&format!("PUT /v2/settlements/{settlement}"), &body, 200).await;
}

/// Memory keeps 100 settled windows and 100 final settlements.
#[tokio::test]
async fn archived_windows_and_settlements_are_shown_and_listed() {
    let server = scheme().await;
    for number in 1..=101 {
        transfer(&server, number, ("dfsp1", "dfsp2"), "1");
        let close = format!("POST /v2/settlementWindows/{number}");
        server.check_status(&close, r#"{"state":"CLOSED","reason":"r"}"#, 200).await;
        let create = format!(
            r#"{{"settlementModel":"DEFAULTDEFERREDNET","reason":"r",
                "settlementWindows":[{{"id":{number}}}]}}"#
        );
        server.check_status("POST /v2/settlements", &create, 200).await;
        for state in
            ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED", "PS_TRANSFERS_COMMITTED", "SETTLED"]
        {
            step(&server, number, state).await;
        }
    }
    assert_eq!(server.backend.inner().state.settlement().windows().count(), 101);
    assert_eq!(server.backend.inner().state.settlement().settlements().count(), 100);
    server.run_transcript(expect_file!["texts/settlement_archived.txt"]).await;
    statements_need_the_archive(&server).await;
    server.stop().await;
}

/// A statement over an old window is answered 503 while the window cannot be read. One of a window in
/// the state is answered.
async fn statements_need_the_archive(server: &TestServer) {
    const OLD: [&str; 3] = [
        "GET /v2/settlementWindows/1/statement",
        "GET /v2/settlements/1/statement",
        "GET /participants/dfsp1/statement?settlementId=1",
    ];
    for why in [Unavailable::StoreBehind, Unavailable::Unreadable] {
        server.backend.inner().archive_unavailable = Some(why);
        for path in OLD {
            let answer = server.ask(path, "").await;
            let expected = format!(
                r#"503 {{"errorInformation":{{"errorCode":"2003","errorDescription":"Service currently unavailable - {why}"}}}}"#
            );
            assert_eq!(answer, expected, "{path}");
        }
        server.check_status("GET /v2/settlementWindows/102/statement", "", 200).await;
    }
    server.backend.inner().archive_unavailable = None;
    for path in OLD {
        server.check_status(path, "", 200).await;
    }
}

/// The answers of a dry run are those of the changes themselves, but for the dates.
#[tokio::test]
async fn dry_runs_answer_like_changes_and_record_nothing() {
    for text in ["settlement", "settlement_abort", "settlement_refusals"] {
        let server = scheme().await;
        transfer(&server, 1, ("dfsp1", "dfsp2"), "30.5");
        let path = format!("{}/tests/api/texts/{text}.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let requests: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("> ")).collect();
        for request in requests.iter().filter(|it| it.starts_with("POST /settlementModels ")) {
            dry(&server, "", request).await;
        }
        let before = server.backend.inner().state.hash();
        let mut answers = Vec::new();
        for request in &requests {
            answers.push(dry(&server, "x-dry-run: it\r\n", request).await);
        }
        assert_eq!(server.backend.inner().state.hash(), before);
        let mut compared = 0;
        for (request, answer) in requests.iter().zip(answers) {
            let real = dry(&server, "", request).await;
            if !answer.contains("cannot be part of a dry run") {
                assert_eq!(without_dates(&answer), without_dates(&real), "{request}");
                compared += 1;
            }
        }
        assert!(10 < compared, "{compared} of {}", requests.len());
        assert_ne!(server.backend.inner().state.hash(), before);
        server.stop().await;
    }
}

/// The answer to a line of a transcript with further headers.
async fn dry(server: &TestServer, headers: &str, line: &str) -> String {
    let end = line.match_indices(' ').nth(1).map_or(line.len(), |(at, _)| at);
    let (request, body) = line.split_at(end);
    let token = server.token();
    let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n{headers}");
    let answer = server.send(request, &headers, body.trim_start()).await;
    format!("{} {}", answer.status, answer.body)
}

fn without_dates(answer: &str) -> String {
    let mut parts = answer.split("2026-01-01T10:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.get("00:00.000Z".len()..).unwrap_or(part))
}

#[tokio::test]
async fn dry_runs_need_the_token_a_name_and_a_route_that_they_can_answer() {
    let server = scheme().await;
    let list = "GET /v2/settlementWindows?state=OPEN";
    let answer = server.send(list, "host: localhost\r\nx-dry-run: it\r\n", "").await;
    assert_eq!(answer.status, 401);
    let long = format!("x-dry-run: {}\r\n", "n".repeat(65));
    let twice = "x-dry-run: a\r\nx-dry-run: a\r\n";
    for (headers, request, expected) in [
        ("x-dry-run: \r\n", list, "400 {\"errorInformation\":{\"errorCode\":\"3100\""),
        (&long, list, "400 {\"errorInformation\":{\"errorCode\":\"3100\""),
        (twice, list, "400 {\"errorInformation\":{\"errorCode\":\"3101\""),
        ("x-dry-run: it\r\n", "PUT /participants/dfsp1 {\"isActive\":false}", "400 "),
        ("x-dry-run: it\r\n", "GET /participants/dfsp1/accounts", "400 "),
        ("x-dry-run: it\r\n", list, "200 "),
    ] {
        let answer = dry(&server, headers, request).await;
        assert!(answer.starts_with(expected), "{headers} {request}: {answer}");
    }
    for number in 0..3 {
        let answer = dry(&server, &format!("x-dry-run: {number}\r\n"), list).await;
        assert!(answer.starts_with("200 "), "{answer}");
    }
    let answer = dry(&server, "x-dry-run: one more\r\n", list).await;
    assert!(
        answer.starts_with("503 ") && answer.contains("4 dry runs are in progress"),
        "{answer}"
    );
    server.stop().await;
}
