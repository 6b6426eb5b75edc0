//! Health and metrics.

use std::time::Duration;

use expect_test::expect;
use ledger::{Amount, Stamp, TransferId};
use operations::{
    Activity, BackgroundJob, CapUse, Cluster, ClusterLane, ClusterNode, DiskStatus, DiskUse,
    LogActivity, OpenBreaker, OpenBreakers, Queue, Queues, Rate, SnapshotFile, Snapshots, Span,
    StalledLane, StalledLanes, StuckStage, Takeover, TransferTrace, Unavailable,
};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::backend::BEGINNING_MS;
use crate::server::TestServer;

#[tokio::test]
async fn health_is_bad_once_the_log_has_stopped() {
    let server = TestServer::start().await;
    server.check("GET /health", "", expect![[r#"200 {"status":"OK","uptime":12.345,"startTime":"2026-01-01T10:00:00.000Z","versionNumber":"0.1.0","services":[{"name":"datastore","status":"OK"},{"name":"broker","status":"OK"}],"storage":"OK"}"#]]).await;
    server.backend.inner().unavailable = Some(Unavailable::InboxFull);
    server.check_status("GET /health", "", 200).await;
    server.backend.inner().unavailable = Some(Unavailable::Stopped);
    server.check("GET /health", "", expect![[r#"502 {"status":"DOWN","uptime":12.345,"startTime":"2026-01-01T10:00:00.000Z","versionNumber":"0.1.0","services":[{"name":"datastore","status":"OK"},{"name":"broker","status":"DOWN"}],"storage":"OK"}"#]]).await;
    server.stop().await;
}

#[tokio::test]
async fn storage_and_health_show_one_status() {
    let server = TestServer::start().await;
    let failing = || Some("record 7 cannot be read".to_owned());
    for (fullness, failing, expected) in [
        (DiskUse::Ok, None, "OK"),
        (DiskUse::Low, None, "LOW"),
        (DiskUse::Critical, None, "CRITICAL"),
        (DiskUse::Full, None, "FULL"),
        (DiskUse::Full, failing(), "FULL"),
        (DiskUse::Ok, failing(), "FAILING"),
        (DiskUse::Critical, failing(), "FAILING"),
    ] {
        server.backend.inner().storage = DiskStatus { fullness, failing, ..DiskStatus::default() };
        let health = server.ask("GET /health", "").await;
        assert!(health.contains(&format!(r#""storage":"{expected}""#)), "{health}");
        let storage = server.ask("GET /storage", "").await;
        assert!(storage.contains(&format!(r#"{{"status":"{expected}""#)), "{storage}");
    }
    server.stop().await;
}

#[tokio::test]
async fn status_shows_the_hub_on_one_page() {
    let server = TestServer::start().await;
    server.check("GET /status", "", expect![[r#"200 {"status":"OK","version":"0.1.0","startTime":"2026-01-01T10:00:00.000Z","uptimeSeconds":12,"alarms":[],"stages":[{"name":"sequencer","status":"OK"},{"name":"log","status":"OK"},{"name":"store","status":"OK"},{"name":"expiry","status":"OK"},{"name":"io","status":"OK"},{"name":"lane","status":"OK"}],"storage":{"status":"OK","logBytes":0,"storeBytes":0,"freeBytes":0,"diskBytes":0},"snapshot":{"recordsAfter":0},"time":"1970-01-01T00:00:00.000Z","log":{"index":0,"storeIndex":0,"records":0.0},"rate":{"seconds":0.0,"reserved":0.0,"committed":0.0,"aborted":0.0,"refused":0.0,"expired":0.0},"history":[],"transfers":{"inFlight":0,"reserved":0,"committed":0,"aborted":0,"refused":0,"expired":0},"queues":{"owed":0,"oldestSeconds":0,"withoutEndpoint":0,"participants":[]},"deadLetters":0,"nearCap":[],"liquidityAlarms":0}"#]]).await;
    let time = Stamp::from_millis(BEGINNING_MS + 60_000);
    server.backend.inner().activity = Activity {
        time,
        log: LogActivity {
            index: 50,
            store_index: 49,
            sync_p50_ms: Some(0.5),
            ..Default::default()
        },
        rate: Rate {
            seconds: 10.0,
            committed: 12.5,
            commit_p99_ms: Some(3.25),
            ..Default::default()
        },
        queues: Queues {
            owed: 3,
            participants: vec![Queue {
                participant: "dfsp1".into(),
                owed: 3,
                oldest_seconds: None,
            }],
            ..Queues::default()
        },
        dead_letters: 2,
        near_cap: vec![CapUse {
            participant: "dfsp1".into(),
            currency: "USD".into(),
            position: Amount::from_units(95_000),
            effective_cap: Amount::from_units(100_000),
            limited_by: "cover",
            headroom: Amount::from_units(5_000),
            percent_used: 95,
        }],
        liquidity_alarms: 1,
        ..Activity::default()
    };
    server.backend.inner().stuck = vec![StuckStage {
        name: "io-1".into(),
        idle: Duration::from_secs(7),
        detail: "no turn".into(),
    }];
    server.backend.inner().stalled_lanes = StalledLanes { count: 4, owed: 9, shown: Vec::new() };
    server.backend.inner().snapshots = Snapshots {
        files: vec![snapshot_file(41, "41.snapshot")],
        last_done: Some(Stamp::from_millis(BEGINNING_MS)),
        ..Snapshots::default()
    };
    let failing = Some("no route to host".to_owned());
    server.backend.inner().storage = DiskStatus {
        fullness: DiskUse::Low,
        free_bytes: 5 << 20,
        backup: Some(BackgroundJob { log_index: 40, failing, last_done: None }),
        ..DiskStatus::default()
    };
    server.check("GET /status", "", expect![[r#"200 {"status":"DOWN","version":"0.1.0","startTime":"2026-01-01T10:00:00.000Z","uptimeSeconds":12,"alarms":[{"severity":"CRITICAL","subject":"stage","text":"io-1 is stuck for 7 s: no turn"},{"severity":"WARNING","subject":"disk","text":"5 MiB free"},{"severity":"WARNING","subject":"backup","text":"no route to host"},{"severity":"WARNING","subject":"callbacks","text":"not delivered for 5 s or longer:  and 4 more"},{"severity":"WARNING","subject":"dead letters","text":"notices that were given up: 2"},{"severity":"WARNING","subject":"liquidity","text":"positions at their alarm threshold: 1"}],"stages":[{"name":"sequencer","status":"OK"},{"name":"log","status":"OK"},{"name":"store","status":"OK"},{"name":"expiry","status":"OK"},{"name":"io","status":"DOWN","detail":"io-1, 7 s: no turn"},{"name":"lane","status":"OK"}],"storage":{"status":"LOW","logBytes":0,"storeBytes":0,"freeBytes":5242880,"diskBytes":0},"snapshot":{"logIndex":41,"recordsAfter":9,"ageSeconds":60},"backup":{"logIndex":40,"recordsAfter":10,"failing":"no route to host"},"time":"2026-01-01T10:01:00.000Z","log":{"index":50,"storeIndex":49,"records":0.0,"syncP50Milliseconds":0.5},"rate":{"seconds":10.0,"reserved":0.0,"committed":12.5,"aborted":0.0,"refused":0.0,"expired":0.0,"commitP99Milliseconds":3.25},"history":[],"transfers":{"inFlight":0,"reserved":0,"committed":0,"aborted":0,"refused":0,"expired":0},"queues":{"owed":3,"oldestSeconds":0,"withoutEndpoint":0,"participants":[{"participant":"dfsp1","owed":3}]},"deadLetters":2,"nearCap":[{"participant":"dfsp1","currency":"USD","position":9.5,"effectiveCap":10,"limitedBy":"cover","headroom":0.5,"percentUsed":95}],"liquidityAlarms":1}"#]]).await;
    server.stop().await;
}

#[tokio::test]
async fn storage_shows_known_and_configured_values() {
    let server = TestServer::start().await;
    server.check("GET /storage", "", expect![[r#"200 {"status":"OK","logBytes":0,"logSegments":0,"archivedBytes":0,"archivedSegments":0,"storeBytes":0,"diskBytes":0,"freeBytes":0}"#]]).await;
    server.backend.inner().storage = DiskStatus {
        fullness: DiskUse::Low,
        log_bytes: 1,
        log_segments: 2,
        archived_bytes: 3,
        archived_segments: 4,
        store_bytes: 50,
        disk_bytes: 100,
        free_bytes: 9,
        growth_bytes_per_day: Some(5),
        hours_until_full: Some(43),
        failing: Some("record 7 cannot be read".into()),
        archive: Some(BackgroundJob {
            failing: Some("it is full".into()),
            ..BackgroundJob::default()
        }),
        backup: Some(BackgroundJob {
            last_done: Some(ledger::Stamp::from_millis(BEGINNING_MS)),
            log_index: 7,
            failing: None,
        }),
        chain_heads: None,
        erasure: None,
        encryption: None,
        retention: None,
    };
    server.check("GET /storage", "", expect![[r#"200 {"status":"FAILING","logBytes":1,"logSegments":2,"archivedBytes":3,"archivedSegments":4,"storeBytes":50,"diskBytes":100,"freeBytes":9,"growthBytesPerDay":5,"hoursUntilFull":43,"failing":"record 7 cannot be read","archive":{"logIndex":0,"failing":"it is full"},"backup":{"lastDone":"2026-01-01T10:00:00.000Z","logIndex":7}}"#]]).await;
    server.check_status("GET /health", "", 200).await;
    server.stop().await;
}

/// A rules version that a live node does not know is refused, and nothing is recorded.
#[tokio::test]
async fn later_rules_are_refused_until_every_node_knows_them() {
    let server = TestServer::start().await;
    server.check("GET /rules", "", expect![[r#"200 {"rulesVersion":5,"rulesKnown":5}"#]]).await;
    let known = r#"{"rulesVersion":5}"#;
    server.check("PUT /rules", known, expect![[r#"200 {"rulesVersion":5,"rulesKnown":5}"#]]).await;
    assert_eq!(server.backend.inner().recorded.len(), 1);
    let node = |name: &str, rules| ClusterNode { name: name.into(), rules, ..Default::default() };
    server.backend.inner().cluster.nodes = vec![node("a", 5), node("b", 0)];
    server.check("PUT /rules", known, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"rulesVersion\" node b has not reported the rules it knows yet: retry after 1 s"}}"#]]).await;
    server.backend.inner().cluster.nodes = vec![node("a", 3), node("b", 5)];
    server.check("PUT /rules", known, expect![[r#"400 {"errorInformation":{"errorCode":"3100","errorDescription":"Generic validation error - \"rulesVersion\" node a knows rules up to 3: upgrade it first"}}"#]]).await;
    for wrong in ["0", "65536", "-1", "1.5", "\"1\"", "null"] {
        let body = format!("{{\"rulesVersion\":{wrong}}}");
        server.check_status("PUT /rules", &body, 400).await;
    }
    assert_eq!(server.backend.inner().recorded.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn health_lists_stuck_stages() {
    let server = TestServer::start().await;
    let (name, detail) = ("lane dfsp1".into(), "one is due".into());
    let stuck = StuckStage { name, idle: Duration::from_millis(12_900), detail };
    server.backend.inner().stuck.push(stuck);
    server.check("GET /health", "", expect![[r#"502 {"status":"DOWN","uptime":12.345,"startTime":"2026-01-01T10:00:00.000Z","versionNumber":"0.1.0","services":[{"name":"datastore","status":"OK"},{"name":"broker","status":"OK"},{"name":"lane dfsp1","status":"DOWN"}],"stuck":[{"stage":"lane dfsp1","seconds":12,"detail":"one is due"}],"storage":"OK"}"#]]).await;
    server.stop().await;
}

/// A restart of the hub helps no participant that does not answer.
#[tokio::test]
async fn participants_that_do_not_answer_are_listed_while_the_hub_is_well() {
    let server = TestServer::start().await;
    let since = ledger::Stamp::from_millis(BEGINNING_MS);
    let lane = StalledLane {
        participant: "dfsp1".into(),
        owed: 65,
        since,
        idle: Duration::from_millis(7_900),
        last_attempt: "no answer in time".into(),
    };
    let lanes = StalledLanes { count: 2, owed: 66, shown: vec![lane] };
    server.backend.inner().stalled_lanes = lanes;
    let breaker = OpenBreaker { participant: "dfsp2".into(), since, failures: 5 };
    server.backend.inner().open_breakers = OpenBreakers { count: 1, shown: vec![breaker] };
    server.check("GET /health", "", expect![[r#"200 {"status":"OK","uptime":12.345,"startTime":"2026-01-01T10:00:00.000Z","versionNumber":"0.1.0","services":[{"name":"datastore","status":"OK"},{"name":"broker","status":"OK"}],"stalledLanes":{"count":2,"owed":66,"lanes":[{"participant":"dfsp1","owed":65,"since":"2026-01-01T10:00:00.000Z","seconds":7,"lastAttempt":"no answer in time"}]},"openBreakers":{"count":1,"breakers":[{"participant":"dfsp2","since":"2026-01-01T10:00:00.000Z","failures":5}]},"storage":"OK"}"#]]).await;
    server.stop().await;
}

#[tokio::test]
async fn snapshots_are_listed_and_asked_for() {
    let server = TestServer::start().await;
    server.check("GET /snapshots", "", expect![[r#"200 {"snapshots":[],"busy":false,"taken":0,"failed":0,"lastBytes":0,"lastMilliseconds":0}"#]]).await;
    server.check_status("POST /snapshots", "", 202).await;
    server.backend.inner().snapshots.files = vec![snapshot_file(41, "41.snapshot")];
    server.backend.inner().snapshots.error = Some("the disk is full".into());
    server.check("GET /snapshots", "", expect![[r#"200 {"snapshots":[{"logIndex":41,"file":"41.snapshot"}],"busy":true,"taken":0,"failed":0,"lastBytes":0,"lastMilliseconds":0,"error":"the disk is full"}"#]]).await;
    server.stop().await;
}

fn snapshot_file(log_index: u64, name: &str) -> SnapshotFile {
    SnapshotFile { log_index, name: name.into() }
}

#[tokio::test]
async fn every_metric_has_its_source() {
    let server = TestServer::start().await;
    server.backend.inner().snapshots = Snapshots {
        files: vec![snapshot_file(31, "newest"), snapshot_file(30, "older")],
        last_bytes: 32,
        last_millis: 33,
        taken: 34,
        failed: 35,
        ..Snapshots::default()
    };
    server.backend.inner().storage = DiskStatus {
        fullness: DiskUse::Critical,
        log_bytes: 36,
        archived_bytes: 37,
        disk_bytes: 38,
        free_bytes: 39,
        hours_until_full: Some(40),
        failing: Some("the disk is gone".into()),
        archive: Some(BackgroundJob::default()),
        backup: Some(BackgroundJob {
            log_index: 41,
            failing: Some("so is this".into()),
            last_done: None,
        }),
        chain_heads: None,
        ..DiskStatus::default()
    };
    let node = |name: &str, log_index| ClusterNode {
        name: name.into(),
        log_index,
        silent_ms: 5_600,
        ..ClusterNode::default()
    };
    let contradicting = ClusterNode { contradicts_at: Some(50), ..node("b", 43) };
    server.backend.inner().cluster = Cluster {
        behind: 44,
        unheard_ms: 45_678,
        foreign: 46,
        nodes: vec![node("a", 42), contradicting],
        ..Cluster::default()
    };
    let answer = server.send("GET /metrics", "host: localhost\r\n", "").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let (ours, process) = answer.body.split_once("# HELP process_").unwrap();
    let ours: Vec<_> = ours.lines().filter(|line| !line.starts_with('#')).collect();
    expect![[r#"
        upesi_snapshot_log_index 31
        upesi_snapshot_bytes 32
        upesi_snapshot_seconds 0.033000000
        upesi_snapshots_taken_total 34
        upesi_snapshots_failed_total 35
        upesi_admin_connections_evicted_total 0
        upesi_admin_connections_refused_total 0
        upesi_admin_tokens_refused_total 0
        upesi_admin_permissions_missing_total 0
        upesi_admin_break_glass_total 0
        upesi_admin_audit_records_total 0
        upesi_admin_audit_summarized_total 0
        upesi_admin_audit_unrecorded_total 0
        upesi_admin_address_refused_total 0
        upesi_log_stored_bytes 36
        upesi_log_archived_bytes 37
        upesi_disk_bytes 38
        upesi_disk_free_bytes 39
        upesi_disk_status 2
        upesi_storage_failing 1
        upesi_disk_full_in_seconds 144000
        upesi_archive_failing 0
        upesi_backup_failing 1
        upesi_backup_log_index 41
        upesi_cluster_nodes 2
        upesi_cluster_behind_records 44
        upesi_cluster_broker_silence_seconds 45.678000000
        upesi_cluster_foreign_messages 46
        upesi_node_log_index{node="a"} 42
        upesi_node_log_index{node="b"} 43
        upesi_node_silence_seconds{node="a"} 5.600000000
        upesi_node_silence_seconds{node="b"} 5.600000000
        upesi_node_contradicts{node="a"} 0
        upesi_node_contradicts{node="b"} 1
        upesi_parts_down 0
        upesi_build_info{version="0.1.0",rules="5"} 1"#]]
    .assert_eq(&ours.join("\n"));
    for name in [
        "process_cpu_seconds_total ",
        "process_max_fds ",
        "process_open_fds ",
        "process_resident_memory_bytes ",
        "process_start_time_seconds ",
    ] {
        let mut values = process.lines().filter_map(|line| line.strip_prefix(name));
        assert!(values.next().unwrap().parse::<f64>().unwrap() > 0.0, "{name}");
    }
    server.stop().await;
}

#[tokio::test]
async fn requests_are_measured_by_route_and_counted_by_status() {
    let server = TestServer::start().await;
    for request in ["GET /health", "HEAD /health", "GET /participants/none", "GET /nowhere"] {
        server.send(request, "host: localhost\r\n", "").await;
    }
    let metrics = server.send("GET /metrics", "host: localhost\r\n", "").await.body;
    let is_count = |line: &&str| {
        line.starts_with("upesi_admin_requests_total")
            || line.starts_with("upesi_admin_request_seconds_count")
    };
    let counts: Vec<_> = metrics.lines().filter(is_count).collect();
    expect![[r#"
        upesi_admin_request_seconds_count{method="GET",route="/health"} 2
        upesi_admin_request_seconds_count{method="GET",route="/participants/{name}"} 1
        upesi_admin_request_seconds_count{method="GET",route="other"} 1
        upesi_admin_requests_total{method="GET",route="/health",status="200"} 2
        upesi_admin_requests_total{method="GET",route="/participants/{name}",status="400"} 1
        upesi_admin_requests_total{method="GET",route="other",status="404"} 1"#]]
    .assert_eq(&counts.join("\n"));
    server.stop().await;
}

/// `upesi cluster` reads what the admin API writes.
#[tokio::test]
async fn nodes_that_share_a_log_are_read_back() {
    let server = TestServer::start().await;
    let node =
        ClusterNode { name: "a".into(), epoch: 3, log_index: 40, silent_ms: 5, ..<_>::default() };
    let cluster = Cluster {
        node: "a".into(),
        log_index: 41,
        behind: 1,
        unheard_ms: 2,
        held_ms: 3,
        foreign: 4,
        agreed_at: Some(39),
        nodes: vec![ClusterNode { rules: 1, contradicts_at: Some(7), ..node }],
        lanes: vec![ClusterLane { participant: "dfsp1".into(), node: "a".into() }],
        last_takeover: Some(Takeover {
            log_index: 12,
            at: ledger::Stamp::from_millis(BEGINNING_MS),
            gone: vec!["b".into()],
        }),
    };
    server.backend.inner().cluster = cluster.clone();
    server.check("GET /cluster", "", expect![[r#"200 {"node":"a","logIndex":41,"behind":1,"unheardMilliseconds":2,"heldMilliseconds":3,"foreignMessages":4,"sameStateAt":39,"nodes":[{"name":"a","epoch":3,"logIndex":40,"silentMilliseconds":5,"rulesKnown":1,"contradictsAt":7}],"lanes":[{"participant":"dfsp1","node":"a"}],"lastTakeover":{"logIndex":12,"time":"2026-01-01T10:00:00.000Z","gone":["b"]}}"#]]).await;
    let text = server.send("GET /cluster", "host: localhost\r\n", "").await.body;
    assert_eq!(serde_json::from_str::<Cluster>(&text).unwrap(), cluster);
    server.stop().await;
}

/// Stages of a transfer are recorded only while tracing is on.
#[tokio::test]
async fn a_waterfall_is_shown_while_tracing_is_on() {
    const ID: &str = "11111111-1111-4111-8111-111111111111";
    let server = TestServer::start().await;
    let path = format!("GET /waterfall/{ID}");
    server.check("GET /waterfall", "", expect![[r#"200 {"enabled":false}"#]]).await;
    server.check_status(&path, "", 404).await;
    server
        .check("PUT /waterfall", r#"{"enabled":true}"#, expect![[r#"200 {"enabled":true}"#]])
        .await;
    let unknown = expect![[
        r#"404 {"errorInformation":{"errorCode":"3208","errorDescription":"Transfer ID not found - no trace of this transfer: it is unknown, or began before PUT /waterfall"}}"#
    ]];
    server.check(&path, "", unknown).await;
    server.backend.inner().retained = Some(Duration::from_millis(2_449));
    let too_old = expect![[
        r#"404 {"errorInformation":{"errorCode":"3208","errorDescription":"Transfer ID not found - no trace of this transfer: it is unknown, or older than 2.4 s"}}"#
    ]];
    server.check(&path, "", too_old).await;
    let span = |start_ns, end_ns, label: &str| Span { start_ns, end_ns, label: label.into() };
    let stages = vec![span(5, 9, "prepare: sync")];
    let traces = TransferTrace {
        stages,
        waits: vec![span(3, 5, "prepare: wait")],
        ..TransferTrace::default()
    };
    let transfer = TransferId::parse(ID).unwrap();
    server.backend.inner().traces.push((transfer, traces));
    let shown = expect![[
        r#"200 {"transferId":"11111111-1111-4111-8111-111111111111","unit":"ns","underWay":false,"events":[{"start":5,"end":9,"label":"prepare: sync"}],"waits":[{"start":3,"end":5,"label":"prepare: wait"}]}"#
    ]];
    server.check(&path, "", shown).await;
    server.check_status("GET /waterfall/1", "", 400).await;
    server.check_status("PUT /waterfall", r#"{"enabled":"yes"}"#, 400).await;
    server.check_status("PUT /waterfall", "{}", 400).await;
    server.stop().await;
}

#[tokio::test]
async fn the_hash_of_the_state_is_the_kernels_and_needs_the_token() {
    let server = TestServer::start().await;
    let open = server.send("GET /state", "host: localhost\r\n", "").await;
    assert_eq!(open.status, 401);
    let read = async || {
        let answer = server.ask("GET /state", "").await;
        let (hashes, log_index) = {
            let inner = server.backend.inner();
            (inner.state.hashes(), inner.state.log_index().0)
        };
        let whole = format!(r#""logIndex":{log_index},"#);
        assert!(answer.starts_with("200 ") && answer.contains(&whole), "{answer}");
        let state =
            format!(r#""stateHash":"{}","contentHash":"{}","#, hashes.state, hashes.content);
        assert!(answer.contains(&state), "{answer}");
        hashes
    };
    let first = read().await;
    server.check_status("PUT /participants/stranger", r#"{"isActive":true}"#, 400).await;
    let refused = read().await;
    assert_ne!(refused.state, first.state, "the refusal is on record");
    assert_eq!(refused.content, first.content, "and changed nothing else");
    server.check_status("PUT /participants/Hub", r#"{"isActive":false}"#, 200).await;
    assert_ne!(read().await.content, first.content);
    server.stop().await;
}

#[tokio::test]
async fn explanations_need_the_token_and_are_limited_in_number() {
    const PATH: &str = "GET /transfers/11111111-1111-4111-8111-111111111111/explanation";
    let server = TestServer::start().await;
    let open = server.send(PATH, "host: localhost\r\n", "").await;
    assert_eq!(open.status, 401);
    server.check_status(PATH, "", 404).await;
    server.check_status("GET /transfers/1/explanation", "", 400).await;
    let id = TransferId::parse("11111111-1111-4111-8111-111111111111").unwrap();
    server.backend.inner().bodies.push((id, bytes::Bytes::new()));
    server.check(PATH, "", expect![[r#"200 {"events":[]}"#]]).await;
    server.backend.inner().unavailable = Some(Unavailable::Busy);
    server.check(PATH, "", expect![[r#"503 {"errorInformation":{"errorCode":"2003","errorDescription":"Service currently unavailable - too many concurrent explain requests; retry after 1 s"}}"#]]).await;
    server.stop().await;
}

/// Reads a line of data of a stream of server-sent events.
async fn next_data(stream: &mut BufReader<TcpStream>) -> serde_json::Value {
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).await.unwrap(), 0, "the stream has ended");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[tokio::test]
async fn clients_follow_the_status_and_share_its_texts() {
    let server = TestServer::start().await;
    let follow = async || {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let request =
            "GET /status HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        BufReader::new(stream)
    };
    let mut followers = Vec::new();
    for _ in 0..10 {
        followers.push(follow().await);
    }
    for _ in 0..3 {
        for follower in &mut followers {
            assert_eq!(next_data(follower).await["status"], "OK");
        }
    }
    let read = server.backend.inner().figures_read;
    assert!((3..=6).contains(&read), "ten clients cost as much as one: {read}");
    // Streams do not delay the end of the server.
    let began = std::time::Instant::now();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    for follower in &mut followers {
        let mut rest = String::new();
        follower.read_to_string(&mut rest).await.unwrap();
    }
}

#[tokio::test]
async fn the_status_has_a_limited_number_of_followers() {
    let server = TestServer::start_with(|options| {
        options.limits.connections = 100;
        options.limits.connections_per_address = 100;
    });
    let server = server.await;
    let mut followers = Vec::new();
    let mut refused = String::new();
    for _ in 0..33 {
        let mut stream = BufReader::new(TcpStream::connect(server.address).await.unwrap());
        let request =
            "GET /status HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
        stream.get_mut().write_all(request.as_bytes()).await.unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if !line.contains(" 200 ") {
            refused = line;
            break;
        }
        followers.push(stream);
    }
    assert_eq!(followers.len(), 32);
    assert!(refused.contains(" 503 "), "{refused}");
    server.check_status("GET /status", "", 200).await;
    server.stop().await;
}
