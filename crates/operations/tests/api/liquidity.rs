//! `GET /liquidity`: positions, caps, headroom and alarms.

use expect_test::expect_file;
use ledger::{
    AdminOutcome, Administer, Amount, Change, CheckLiquidity, Command, Currency, Digest, FspName,
    Outcome, ParticipantIndex, Prepare, Stamp, TransferId,
};
use operations::PositionTrend;

use crate::backend::BEGINNING_MS;
use crate::server::TestServer;

fn name(text: &str) -> FspName {
    FspName::new(text).unwrap()
}

fn usd() -> Currency {
    Currency::parse("USD").unwrap()
}

/// Reserves a transfer of `dfsp1` to `dfsp2`.
fn reserve(server: &TestServer, amount: &str) {
    let prepare = Prepare {
        id: TransferId::parse("01HV0000000000000000000300").unwrap(),
        source: name("dfsp1"),
        payer: name("dfsp1"),
        payee: name("dfsp2"),
        currency: usd(),
        amount: Amount::parse(amount).unwrap(),
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

fn check_liquidity(server: &TestServer) {
    let change = Change::from(CheckLiquidity { name: name("dfsp1"), currency: usd() });
    let administer = Administer { actor: "upesi".into(), reason: String::new(), change };
    let outcome = server.backend.apply(&Command::Administer(Box::new(administer)));
    assert_eq!(outcome, Outcome::from(AdminOutcome::Accepted));
}

#[tokio::test]
async fn rows_show_positions_caps_headroom_and_alarms() {
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/scheme.txt"]).await;
    server.run_transcript(expect_file!["texts/liquidity.txt"]).await;
    reserve(&server, "30.25");
    check_liquidity(&server);
    let (dfsp1, dfsp2) = (ParticipantIndex(1), ParticipantIndex(2));
    for (index, per_hour) in [(dfsp1, "139.5"), (dfsp2, "-1.25")] {
        let per_hour = Amount::parse_decimal(per_hour).unwrap();
        let trend = PositionTrend { per_hour, at: Stamp::from_millis(BEGINNING_MS) };
        server.backend.inner().trends.insert((index, usd()), trend);
    }
    server.run_transcript(expect_file!["texts/liquidity_alarm.txt"]).await;
    server.stop().await;
}
