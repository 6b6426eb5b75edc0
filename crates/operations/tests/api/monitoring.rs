//! Health and metrics.

use expect_test::expect;
use operations::{Metrics, Unavailable};

use crate::conversation::Server;

#[tokio::test]
async fn health_is_bad_once_the_log_has_stopped() {
    let server = Server::start().await;
    server.check("GET /health", "", expect![[r#"200 {"status":"OK","uptime":12.345,"startTime":"2026-01-01T10:00:00.000Z","versionNumber":"0.1.0","services":[{"name":"datastore","status":"OK"},{"name":"broker","status":"OK"}]}"#]]).await;
    server.hub.inner().unavailable = Some(Unavailable::InboxFull);
    server.check_status("GET /health", "", 200).await;
    server.hub.inner().unavailable = Some(Unavailable::Stopped);
    server.check("GET /health", "", expect![[r#"502 {"status":"DOWN","uptime":12.345,"startTime":"2026-01-01T10:00:00.000Z","versionNumber":"0.1.0","services":[{"name":"datastore","status":"OK"},{"name":"broker","status":"DOWN"}]}"#]]).await;
    server.stop().await;
}

#[tokio::test]
async fn every_metric_has_its_name_and_type() {
    let server = Server::start().await;
    server.hub.inner().metrics = Metrics {
        log_syncs: 1,
        log_bytes: 2,
        log_position: 3,
        batches: 4,
        records: 5,
        transfers_reserved: 6,
        transfers_refused: 7,
        transfers_committed: 8,
        transfers_aborted: 9,
        transfers_expired: 10,
        transfers_in_flight: 11,
        transfers_ended: 12,
        notices_owed: 13,
        notices_delivered: 14,
        dead_letters: 15,
        inbox_refused: 16,
        requests: 17,
        requests_refused: 18,
        forwards: 19,
        forwards_failed: 20,
        attempts: 21,
        connections: 22,
        connections_refused: 23,
        malformed: 24,
        calls_denied: 25,
    };
    let answer = server.send("GET /metrics", "host: localhost\r\n", "").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let (ours, process) = answer.body.split_once("# HELP process_").unwrap();
    let ours: Vec<_> = ours.lines().filter(|line| !line.starts_with("# HELP")).collect();
    expect![[r#"
        # TYPE upesi_log_syncs_total counter
        upesi_log_syncs_total 1
        # TYPE upesi_log_bytes_total counter
        upesi_log_bytes_total 2
        # TYPE upesi_log_position gauge
        upesi_log_position 3
        # TYPE upesi_batches_total counter
        upesi_batches_total 4
        # TYPE upesi_records_total counter
        upesi_records_total 5
        # TYPE upesi_transfers_reserved_total counter
        upesi_transfers_reserved_total 6
        # TYPE upesi_transfers_refused_total counter
        upesi_transfers_refused_total 7
        # TYPE upesi_transfers_committed_total counter
        upesi_transfers_committed_total 8
        # TYPE upesi_transfers_aborted_total counter
        upesi_transfers_aborted_total 9
        # TYPE upesi_transfers_expired_total counter
        upesi_transfers_expired_total 10
        # TYPE upesi_transfers_in_flight gauge
        upesi_transfers_in_flight 11
        # TYPE upesi_transfers_ended gauge
        upesi_transfers_ended 12
        # TYPE upesi_notices_owed gauge
        upesi_notices_owed 13
        # TYPE upesi_notices_delivered_total counter
        upesi_notices_delivered_total 14
        # TYPE upesi_dead_letters gauge
        upesi_dead_letters 15
        # TYPE upesi_inbox_refused_total counter
        upesi_inbox_refused_total 16
        # TYPE upesi_requests_total counter
        upesi_requests_total 17
        # TYPE upesi_requests_refused_total counter
        upesi_requests_refused_total 18
        # TYPE upesi_forwards_total counter
        upesi_forwards_total 19
        # TYPE upesi_forwards_failed_total counter
        upesi_forwards_failed_total 20
        # TYPE upesi_attempts_total counter
        upesi_attempts_total 21
        # TYPE upesi_connections_total counter
        upesi_connections_total 22
        # TYPE upesi_connections_refused_total counter
        upesi_connections_refused_total 23
        # TYPE upesi_malformed_requests_total counter
        upesi_malformed_requests_total 24
        # TYPE upesi_calls_denied_total counter
        upesi_calls_denied_total 25"#]]
    .assert_eq(&ours.join("\n"));
    for name in ["process_cpu_seconds_total ", "process_resident_memory_bytes "] {
        let mut values = process.lines().filter_map(|line| line.strip_prefix(name));
        assert!(values.next().unwrap().parse::<f64>().unwrap() > 0.0, "{name}");
    }
    server.stop().await;
}
