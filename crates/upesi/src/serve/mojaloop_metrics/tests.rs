//! The table against the manual, the published boards and the reference's labels.

use std::collections::BTreeSet;
use std::fmt::Write;

use expect_test::{expect, expect_file};
use fspiop::route_table::Operation;
use ledger::Stamp;
use metrics::{Exposition, Histogram, HistogramValue};
use operations::ProcessStatus;
use switch::{CallResult, NoticeAction, ParticipantTimes, PaymentSpan, RequestKind, TrafficTimes};

use super::row::Service;
use super::table::ABSENT;
use super::*;

/// The beginning of the manual page.
const INTRODUCTION: &str = "\
# Metrics under the names of the reference

Dashboards that were made for the reference show a switch without a change: `GET /metrics` has the
names, labels, buckets and values of `serviceName` that they query. This page is generated from the
table in [table.rs](../../crates/upesi/src/serve/mojaloop_metrics/table.rs). The values are computed
during a scrape, from the measurements of [Upesi's own metrics](metrics.md).

## The setting

`metrics.mojaloop_names` selects the names:

| Value | Names | Boards |
|---|---|---|
| `\"per-service\"` | a prefix per service, such as `moja_cl_` | of the reference's test harness |
| `\"common\"` | the prefix `moja_` | of Helm charts and the white paper |
| `\"both\"` (default) | both families | all |
| `\"off\"` | none | |

Both families are the default, because a board that stays empty after a migration is a worse
surprise than a larger scrape. Select one family, or none, in a scheme with hundreds of
participants.

With `metrics.histograms = false`, only the sequencer's stages, the errors and the process have data.

## Buckets

The buckets are 0.01, 0.05, 0.1, 0.5, 1, 2 and 5 s, and their counts are exact. The texts are
`le=\"1\"`, `le=\"2\"` and `le=\"5\"` in the text format and in OpenMetrics, because boards match them
literally. Protobuf has no native buckets for these names, because Prometheus would drop the classic
ones.

Prometheus 3 stores `le=\"1.0\"` whatever a scrape contains, and Prometheus 2 does so for protobuf. A
rule of the scrape restores the text:

```yaml
metric_relabel_configs:
  - source_labels: [__name__, le]
    regex: moja_.*;(\\d+)\\.0
    target_label: le
    replacement: $1
```

## Labels

- `to`, `dest` and `destination` are participants: the first 500 of the registry, then `other`.
- `from`, `fsp` and `fspId` are absent. In the central ledger, `fspId` is a constant of the
  installation. Pairs of senders and recipients would grow with the square of the participants.
- `success=\"false\"` is present with 0 before the first failure, except in
  `notification_event_delivery`. Boards then show a rate of 0.
- `status` is `unknown` if a participant did not answer.
- The process is one: under `moja_` its `serviceName` is `upesi`, so that a sum counts it once.

A transfer counts in `tx_transfer` and `tx_transfer_fulfil` when a running node has applied its
commit and delivered it to the payer. A commit whose delivery continues after a restart does not
count. The time in the inbox before the stamp is `upesi_inbox_wait_seconds`.

## Size

These names add to a scrape in the text format, after each participant has paid and was paid, with
look-ups and quotes:

@SIZES@

## Names and stages

\"deciding the batch\" is the time in which the kernel decides all commands of a batch: a message
counts with the time of its whole batch, since its sender waits for that.

";

const BOTH_NAMES: [MojaloopNames; 2] = [MojaloopNames::PerService, MojaloopNames::Common];

fn cell(names: &[(String, &str)]) -> String {
    let name = |(name, _): &(String, &str)| format!("`{name}`");
    names.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn manual_rows(page: &mut String) {
    for row in TABLE {
        let names = cell(&row.names(MojaloopNames::Both));
        let kind = row.kind;
        let service_name = match row.service {
            Service::Each => "of the service, or `upesi`",
            Service::Unprefixed => "of the route",
            _ => row.service_name,
        };
        let labels: Vec<_> = row.labels.iter().filter(|it| **it != "serviceName").collect();
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
        let labels = labels.join(" ");
        writeln!(page, "| {names} | {kind} | {service_name} | {labels} | {} |", row.help).unwrap();
    }
}

/// Series and bytes of a scrape, by setting and number of participants.
fn sizes() -> String {
    let mut table = "| Setting | 2 participants | 500 participants |\n|---|---|---|\n".to_owned();
    for (setting, names) in [
        ("per-service", MojaloopNames::PerService),
        ("common", MojaloopNames::Common),
        ("both", MojaloopNames::Both),
    ] {
        let size = [2, 500].map(|participants| {
            let times = scheme_times(participants);
            let text = Exposition::Text.encode(&families(names, &times));
            let text = String::from_utf8(text).unwrap();
            let series = text.lines().filter(|line| !line.starts_with('#')).count();
            format!("{series} series, {} KiB", text.len().div_ceil(1_024))
        });
        writeln!(table, "| `\"{setting}\"` | {} | {} |", size[0], size[1]).unwrap();
    }
    table
}

/// Measurements of a scheme in which each participant pays and is paid.
fn scheme_times(participants: usize) -> TrafficTimes {
    let deliveries = [(NoticeAction::Prepare, 202), (NoticeAction::Commit, 200)];
    let operations =
        [Operation::PartiesGet, Operation::PartiesPut, Operation::QuotesPost, Operation::QuotesPut];
    let request = |operation| RequestKind { operation, has_sub_id: false };
    let participant = |at: usize| ParticipantTimes {
        name: format!("dfsp{at:03}"),
        deliveries: deliveries.map(|key| (key, value(9_000_000))).into(),
        forwards: operations
            .map(|operation| (request(operation), CallResult::Succeeded, value(9_000_000)))
            .into(),
        ..ParticipantTimes::default()
    };
    let participants = (0..participants).map(participant).collect();
    TrafficTimes { participants, ..times() }
}

/// UPDATE_EXPECT=1 regenerates the page.
#[test]
fn manual_lists_each_metric() {
    let mut page = INTRODUCTION.replace("@SIZES@", sizes().trim_end());
    page += "| Names | Kind | `serviceName` | Other labels | Stage of the switch |\n\
             |---|---|---|---|---|\n";
    manual_rows(&mut page);
    page += "\n## Names without data\n\n| Names of the reference | Reason |\n|---|---|\n";
    for (names, reason) in ABSENT {
        writeln!(page, "| {names} | {reason} |").unwrap();
    }
    expect_file!["../../../../../docs/operating/mojaloop-metrics.md"].assert_eq(&page);
}

#[test]
fn names_follow_from_the_service() {
    let lines: Vec<_> =
        ["ml_transfer_get", "transfer_get", "process_start_time_seconds", "errorCount"]
            .into_iter()
            .map(|name| {
                let row = TABLE.iter().find(|row| row.name == name).unwrap();
                let [per_service, common] = BOTH_NAMES.map(|names| row.names(names));
                format!("{per_service:?}\n{common:?}\n{:?}", row.names(MojaloopNames::Both).len())
            })
            .collect();
    expect![[r#"
        [("moja_ml_ml_transfer_get", "ml-service"), ("moja_ml_transfer_get", "ml-service")]
        [("moja_ml_transfer_get", "ml-service")]
        2
        [("moja_cl_transfer_get", "central-handler-get")]
        [("moja_transfer_get", "central-handler-get")]
        2
        [("moja_ml_process_start_time_seconds", "ml-service"), ("moja_cl_process_start_time_seconds", "central-service"), ("moja_als_process_start_time_seconds", "account-lookup-service"), ("moja_qs_process_start_time_seconds", "quoting-service")]
        [("moja_process_start_time_seconds", "upesi")]
        5
        [("errorCount", "")]
        [("errorCount", "")]
        1"#]]
    .assert_eq(&lines.join("\n"));
    assert!(TABLE.iter().all(|row| row.names(MojaloopNames::Off).is_empty()));
}

fn value(nanoseconds: u64) -> HistogramValue {
    let histogram = Histogram::default();
    histogram.record(nanoseconds);
    let mut value = HistogramValue::default();
    value.add(&histogram);
    value
}

/// Measurements in which each stage has run, with two participants.
fn times() -> TrafficTimes {
    let requests = || {
        Operation::ALL
            .into_iter()
            .flat_map(|operation| {
                [false, true].map(|has_sub_id| RequestKind { operation, has_sub_id })
            })
            .filter(|request| {
                !matches!(request.operation, Operation::Health | Operation::EndpointCache)
            })
    };
    let participant = |name: &str| ParticipantTimes {
        name: name.to_owned(),
        deliveries: [
            ((NoticeAction::Prepare, 202), value(9_000_000)),
            ((NoticeAction::Commit, 503), value(40_000_000)),
            ((NoticeAction::Commit, 0), value(400_000_000)),
        ]
        .into(),
        forwards: requests().map(|request| (request, CallResult::Succeeded, value(1))).collect(),
        ..ParticipantTimes::default()
    };
    TrafficTimes {
        accepted: requests().map(|request| (request, value(2_000_000))).collect(),
        refusal_counts: [((Some(Operation::TransfersPost), 400, 3100), 2)].into(),
        participants: vec![participant("a"), participant("b\"\n")],
        built: vec![(NoticeAction::Prepare, CallResult::Succeeded, value(1))],
        notices: vec![(CallResult::Failed, value(1))],
        payments: [PaymentSpan::Prepare; 3].map(|_| value(1_500_000_000)),
        queries: vec![(CallResult::Succeeded, value(1))],
        ..TrafficTimes::default()
    }
}

fn families(names: MojaloopNames, times: &TrafficTimes) -> Vec<Family> {
    let decided = || DecisionValues { write: value(3), apply: value(2), total: value(5) };
    let used = std::time::Duration::from_secs(1);
    let process = ProcessStatus {
        processor_time: used,
        user_time: Some(used),
        resident_bytes: Some(1_000_000),
        ..ProcessStatus::default()
    };
    let started = Stamp(1_000_000);
    let (decisions, apply) = (std::array::from_fn(|_| decided()), &value(1));
    collect(names, &ReferenceSources { times, decisions, apply, process, started })
}

#[test]
fn every_row_has_data_in_each_family_and_samples_differ() {
    let times = times();
    for names in [MojaloopNames::Both, MojaloopNames::PerService, MojaloopNames::Common] {
        let families = families(names, &times);
        let found: BTreeSet<_> = families.iter().map(|family| family.metric.name).collect();
        assert_eq!(found.len(), families.len(), "each name once");
        let rows = TABLE.iter().flat_map(|row| row.names(names));
        let missing: Vec<_> = rows.filter(|(name, _)| !found.contains(&**name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        for Family { metric, samples } in &families {
            let labels: BTreeSet<_> = samples.iter().map(|sample| &sample.labels).collect();
            assert_eq!(labels.len(), samples.len(), "{}: {samples:?}", metric.name);
        }
    }
    assert!(families(MojaloopNames::Off, &times).is_empty());
}

#[test]
fn stages_that_have_not_run_have_no_data() {
    let times = TrafficTimes::default();
    let (process, started) = (ProcessStatus::default(), Stamp(1));
    let (decisions, apply) = (Default::default(), &HistogramValue::default());
    let now = ReferenceSources { times: &times, decisions, apply, process, started };
    let found = collect(MojaloopNames::Common, &now);
    let names: Vec<_> = found.iter().map(|family| family.metric.name).collect();
    expect![[r#"["moja_process_cpu_seconds_total", "moja_process_start_time_seconds"]"#]]
        .assert_eq(&format!("{names:?}"));
}

#[test]
fn labels_are_those_of_the_reference() {
    let text = Exposition::OpenMetrics.encode(&families(MojaloopNames::PerService, &times()));
    let text = String::from_utf8(text).unwrap();
    let wanted = [
        "moja_ml_notification_event_delivery_count",
        "moja_ml_tx_transfer_bucket",
        "moja_cl_model_transfer_count",
        "moja_als_egress_sendRequestToParticipant_count",
        "errorCount",
        "moja_cl_transfer_position_count",
    ];
    let is_wanted = |line: &&str| {
        wanted.iter().any(|name| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')))
    };
    let lines: Vec<_> = text.lines().filter(is_wanted).collect();
    expect![[r#"
        moja_ml_notification_event_delivery_count{serviceName="ml-handler-notification",success="true",to="a",dest="a",action="prepare",status="202"} 1
        moja_ml_notification_event_delivery_count{serviceName="ml-handler-notification",success="false",to="a",dest="a",action="commit",status="unknown"} 1
        moja_ml_notification_event_delivery_count{serviceName="ml-handler-notification",success="false",to="a",dest="a",action="commit",status="503"} 1
        moja_ml_notification_event_delivery_count{serviceName="ml-handler-notification",success="true",to="b\"\n",dest="b\"\n",action="prepare",status="202"} 1
        moja_ml_notification_event_delivery_count{serviceName="ml-handler-notification",success="false",to="b\"\n",dest="b\"\n",action="commit",status="unknown"} 1
        moja_ml_notification_event_delivery_count{serviceName="ml-handler-notification",success="false",to="b\"\n",dest="b\"\n",action="commit",status="503"} 1
        moja_ml_tx_transfer_bucket{serviceName="ml-handler-notification",success="true",le="0.01"} 0
        moja_ml_tx_transfer_bucket{serviceName="ml-handler-notification",success="true",le="0.05"} 0
        moja_ml_tx_transfer_bucket{serviceName="ml-handler-notification",success="true",le="0.1"} 0
        moja_ml_tx_transfer_bucket{serviceName="ml-handler-notification",success="true",le="0.5"} 0
        moja_ml_tx_transfer_bucket{serviceName="ml-handler-notification",success="true",le="1"} 0
        moja_ml_tx_transfer_bucket{serviceName="ml-handler-notification",success="true",le="2"} 1
        moja_ml_tx_transfer_bucket{serviceName="ml-handler-notification",success="true",le="5"} 1
        moja_ml_tx_transfer_bucket{serviceName="ml-handler-notification",success="true",le="+Inf"} 1
        moja_cl_transfer_position_count{serviceName="central-handler-position",success="true",action="prepare"} 1
        moja_cl_transfer_position_count{serviceName="central-handler-position",success="false",action="prepare"} 1
        moja_cl_transfer_position_count{serviceName="central-handler-position",success="true",action="commit"} 1
        moja_cl_transfer_position_count{serviceName="central-handler-position",success="false",action="commit"} 1
        moja_cl_transfer_position_count{serviceName="central-handler-position",success="true",action="abort"} 1
        moja_cl_transfer_position_count{serviceName="central-handler-position",success="false",action="abort"} 1
        moja_cl_model_transfer_count{serviceName="central-handler-prepare",success="true",queryName="facade_saveTransferPrepared_transaction"} 2
        moja_cl_model_transfer_count{serviceName="central-handler-prepare",success="false",queryName="facade_saveTransferPrepared_transaction"} 0
        moja_cl_model_transfer_count{serviceName="central-handler-prepare",success="true",queryName="transferDuplicateCheck_saveTransferDuplicateCheck"} 2
        moja_cl_model_transfer_count{serviceName="central-handler-prepare",success="false",queryName="transferDuplicateCheck_saveTransferDuplicateCheck"} 0
        moja_cl_model_transfer_count{serviceName="central-handler-fulfil",success="true",queryName="facade_savePayeeTransferResponse"} 4
        moja_cl_model_transfer_count{serviceName="central-handler-fulfil",success="false",queryName="facade_savePayeeTransferResponse"} 0
        moja_cl_model_transfer_count{serviceName="central-handler-fulfil",success="true",queryName="facade_saveFulfilResponse"} 4
        moja_cl_model_transfer_count{serviceName="central-handler-fulfil",success="false",queryName="facade_saveFulfilResponse"} 0
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="true",endpointType="FSPIOP_CALLBACK_URL_PARTIES_GET"} 2
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="false",endpointType="FSPIOP_CALLBACK_URL_PARTIES_GET"} 0
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="true",endpointType="FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_GET"} 2
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="false",endpointType="FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_GET"} 0
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="true",endpointType="FSPIOP_CALLBACK_URL_PARTIES_PUT"} 2
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="false",endpointType="FSPIOP_CALLBACK_URL_PARTIES_PUT"} 0
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="true",endpointType="FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT"} 2
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="false",endpointType="FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT"} 0
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="true",endpointType="FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR"} 2
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="false",endpointType="FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR"} 0
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="true",endpointType="FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT_ERROR"} 2
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="false",endpointType="FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT_ERROR"} 0
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="true",endpointType="FSPIOP_CALLBACK_URL_PARTICIPANT_PUT_ERROR"} 2
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="false",endpointType="FSPIOP_CALLBACK_URL_PARTICIPANT_PUT_ERROR"} 0
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="true",endpointType="FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT_ERROR"} 2
        moja_als_egress_sendRequestToParticipant_count{serviceName="account-lookup-service",success="false",endpointType="FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT_ERROR"} 0
        errorCount{serviceName="ml-service",code="3100",system="fspiop",operation="POST /transfers"} 2"#]].assert_eq(&lines.join("\n"));
}

/// The queries of the published boards.
fn published_queries() -> Vec<[&'static str; 4]> {
    let text = include_str!("../../../tests/product/monitoring/published_queries.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fields = |line: &'static str| {
        let fields: Vec<_> = line.split(" | ").collect();
        <[&str; 4]>::try_from(fields).unwrap_or_else(|_| panic!("not four fields: {line}"))
    };
    lines.map(fields).collect()
}

/// The series that a query reads: the metric, without the suffix of a histogram, and the text
/// between braces.
fn series_in(query: &str) -> Vec<(&str, &str)> {
    let starts = query.match_indices("moja_").map(|(at, _)| &query[at..]);
    let series = |text: &'_ str| -> (usize, usize) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
        let filter = text[end..].strip_prefix('{').and_then(|rest| rest.find('}'));
        (end, filter.map_or(0, |length| length + 1))
    };
    let suffixes = ["_bucket", "_count", "_sum"];
    let base = |name| suffixes.iter().find_map(|it| str::strip_suffix(name, it)).unwrap_or(name);
    starts
        .map(|text| {
            let (end, filter) = series(text);
            (base(&text[..end]), text[end..end + filter].trim_start_matches('{'))
        })
        .collect()
}

/// Whether a sample has the labels that a filter asks for. Bounds of buckets are ignored.
fn matches(filter: &str, labels: &metrics::Labels) -> bool {
    let matchers = filter.split(", ").filter(|it| !it.is_empty() && !it.starts_with("le="));
    let value = |name: &str| {
        let found = labels.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| &**value).to_owned()
    };
    let is_one_of = |value: &str, texts: &str| {
        texts.split('|').any(|text| text == value || text.trim_end_matches("_*") == value)
    };
    matchers.into_iter().all(|matcher| {
        let (name, text) = matcher.split_once(['=', '!']).expect(matcher);
        let wanted = text.split('"').nth(1).expect(matcher);
        match text {
            _ if matcher.contains("!=") => value(name) != wanted,
            _ if matcher.contains("=~") => is_one_of(&value(name), wanted),
            _ => value(name) == wanted,
        }
    })
}

#[test]
fn queries_of_published_boards_are_answered_or_have_a_reason() {
    let families = families(MojaloopNames::Both, &times());
    let has_sample = |(name, filter): &(&str, &str)| {
        let family = families.iter().find(|family| family.metric.name == *name);
        family.is_some_and(|it| it.samples.iter().any(|one| matches(filter, &one.labels)))
    };
    let queries = published_queries();
    assert!(400 < queries.len(), "{}", queries.len());
    for [board, _, query, answer] in queries {
        let series = series_in(query);
        let has_data = !series.is_empty() && series.iter().all(has_sample);
        assert_eq!(answer == "answered", has_data, "{board}: {query}");
    }
}
