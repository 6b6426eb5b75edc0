//! The settlement API: windows and settlements, with every refusal (hub-semantics 5).

use expect_test::{expect, expect_file};
use ledger::{
    Amount, Command, Currency, Digest, FspName, Fulfil, FulfilState, Fulfilment, LogIndex, Outcome,
    Prepare, Stamp, TransferId,
};
use operations::StatementPeriod;

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
    server.stop().await;
}
