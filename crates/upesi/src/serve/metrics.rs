//! The metrics of the node, each declared once; those of the admin API are in `operations`.

use ledger::{ErrorOutcome, Stamp};
use metrics::{Family, HistogramValue, Labels, Metric, Number, OTHER, metrics};
use node::{Handle, ParticipantsView, RefusedPrepares, StageTimes};
use operations::{EventPublishing, ProcessStatus};
use switch::{ForwardedMessage, StalledLanes, Totals, Traffic, TrafficTimes};
use traces::SpanCounts;

use crate::config::MojaloopNames;
use crate::serve::certificates::Certificates;
use crate::serve::issuers::Issuers;
use crate::serve::liquidity::{AlertCounts, LiquidityStatus, ParticipantSamples, SettlementValues};
use crate::serve::mojaloop_metrics::{DecisionValues, ReferenceSources};
use crate::serve::{logging, mojaloop_metrics};

/// Sources of the metrics.
#[derive(Default)]
struct MetricSources {
    node: node::NodeStatus,
    store_bytes: u64,
    inbox_refused: u64,
    edge: Totals,
    stalled: StalledLanes,
    open_breakers: u64,
    open_oracle_breakers: u64,
    log_messages_dropped: u64,
    audit_entries_failed: u64,
    stages: StageHistograms,
    times: TrafficTimes,
    alerts: AlertCounts,
    /// When the values are read.
    at: Stamp,
    settlement: SettlementValues,
    oldest_notice_seconds: u64,
    participants: ParticipantSamples,
    spans: SpanCounts,
    tls: TlsSamples,
    issuers: IssuerSamples,
    refused_prepares: Vec<(Labels, Number)>,
    publishing: EventSamples,
}

/// Values of the publisher of events; empty if none are published.
#[derive(Default)]
struct EventSamples {
    published: Vec<(Labels, Number)>,
    lag_records: Vec<(Labels, Number)>,
    lag_seconds: Vec<(Labels, Number)>,
    failing: Vec<(Labels, Number)>,
}

impl EventSamples {
    fn of(publishing: Option<EventPublishing>) -> Self {
        let Some(it) = publishing else { return Self::default() };
        let sample = |value: u64| vec![(Labels::new(), Number::Integer(value.into()))];
        Self {
            published: sample(it.published),
            lag_records: sample(it.records_after),
            lag_seconds: sample(it.lag_seconds),
            failing: sample(it.failing.is_some().into()),
        }
    }
}

/// Values of TLS.
#[derive(Default)]
struct TlsSamples {
    handshakes: Vec<(Labels, Number)>,
    expiries: Vec<(Labels, Number)>,
    failures: Vec<(Labels, Number)>,
    signing_key_failures: Vec<(Labels, Number)>,
}

/// Values of issuers of access tokens.
#[derive(Default)]
struct IssuerSamples {
    ages: Vec<(Labels, Number)>,
    failures: Vec<(Labels, Number)>,
}

/// The stages of the sequencer's thread.
#[derive(Default)]
struct StageHistograms {
    inbox: HistogramValue,
    append: HistogramValue,
    sync: HistogramValue,
    apply: HistogramValue,
    commit: HistogramValue,
}

impl StageHistograms {
    fn of(times: &StageTimes) -> Self {
        let value = |histogram| {
            let mut value = HistogramValue::default();
            value.add(histogram);
            value
        };
        let mut commit = value(&times.commit);
        commit.add_exemplars(&times.commit_exemplars);
        let StageTimes { inbox, append, sync, apply, .. } = times;
        let [inbox, append, sync, apply] = [inbox, append, sync, apply].map(value);
        Self { inbox, append, sync, apply, commit }
    }
}

static TABLE: &[Metric<MetricSources>] = metrics! { now: MetricSources;
    Counter "upesi_log_syncs_total" "Syncs of the log." now.node.counts.syncs;
    Counter "upesi_log_bytes_total" "Bytes appended to the log." now.node.counts.bytes;
    Gauge "upesi_log_index" "Log index of the last applied record." now.node.log_index.0;
    Counter "upesi_batches_total" "Batches appended." now.node.counts.batches;
    Counter "upesi_records_total" "Records appended." now.node.counts.records;
    Counter "upesi_transfers_reserved_total" "Transfers reserved." now.node.counters.reserved;
    Counter "upesi_transfers_refused_total" "Prepares refused." now.node.counters.refused;
    Counter "upesi_transfers_committed_total" "Transfers committed." now.node.counters.committed;
    Counter "upesi_transfers_aborted_total" "Transfers aborted." now.node.counters.aborted;
    Counter "upesi_transfers_expired_total" "Transfers expired." now.node.counters.expired;
    Gauge "upesi_transfers_in_flight" "Reserved transfers." now.node.in_flight;
    Gauge "upesi_transfers_ended" "Final transfers." now.node.ended;
    Gauge "upesi_notices_owed" "Notices owed to participants." now.node.owed;
    Gauge "upesi_oldest_notice_seconds" "Age of the oldest owed notice; 0 without one."
        now.oldest_notice_seconds;
    Gauge "upesi_participant_notices_owed" "Notices owed to a participant."
        now.participants.notices_owed;
    Gauge "upesi_participant_oldest_notice_seconds"
        "Age of the oldest notice owed to a participant, among the 10,000 oldest of all."
        now.participants.oldest_notice;
    Counter "upesi_notices_delivered_total" "Notices delivered." now.node.counters.delivered;
    Counter "upesi_notices_given_up_total"
        "Notices given up whose loss costs nothing; they are not dead letters."
        now.node.counters.given_up;
    Gauge "upesi_notices_without_address"
        "Notices that wait until their recipient registers an address." now.edge.parked;
    Gauge "upesi_dead_letters" "Dead letters: notices given up, which can be resent." now.node.dead;

    Gauge "upesi_transfers_ended_in_memory" "Final transfers whose rows are in memory."
        now.node.hot;
    Gauge "upesi_store_log_index" "Log index up to which the cold store is complete."
        now.node.stored.0;
    Counter "upesi_store_reads_total" "Reads of the cold store for transfers not in memory."
        now.node.cold.reads;
    Counter "upesi_store_reads_found_total" "Reads of the cold store that found a transfer."
        now.node.cold.found;
    Counter "upesi_store_waits_total" "Waits of decisions for the cold store."
        now.node.cold.waits;
    Gauge "upesi_store_bytes" "Bytes of the cold store on disk." now.store_bytes;

    Gauge "upesi_lanes_stalled" "Participants with owed notices of which none is delivered."
        now.stalled.count;
    Gauge "upesi_lanes_stalled_notices" "Notices owed to these participants." now.stalled.owed;
    Gauge "upesi_forward_breakers_open"
        "Participants that do not answer, so that forwards to them fail at once." now.open_breakers;

    Counter "upesi_inbox_refused_total" "Commands refused because the inbox was full."
        now.inbox_refused;
    Counter "upesi_requests_total" "FSPIOP requests accepted." now.edge.requests;
    Counter "upesi_requests_refused_total" "FSPIOP requests refused." now.edge.refused;
    Counter "upesi_forwards_total" "Messages forwarded unrecorded." now.edge.forwards;
    Counter "upesi_forwards_failed_total" "Forwards that failed." now.edge.forwards_failed;
    Counter "upesi_attempts_total"
        "Attempts to deliver a notice, including those whose message could not be read."
        now.edge.attempts;
    Counter "upesi_calls_lent_total"
        "Attempts and forwards that a busy I/O thread left to a helper thread."
        now.edge.calls_lent;
    Counter "upesi_connections_total" "FSPIOP connections accepted." now.edge.connections;
    Gauge "upesi_connections_open" "Open FSPIOP connections." now.edge.connections_open;
    Counter "upesi_connections_refused_total" "FSPIOP connections refused."
        now.edge.connections_refused;
    Counter "upesi_connections_evicted_total"
        "Idle FSPIOP connections that were replaced by a new one."
        now.edge.connections_evicted;
    Counter "upesi_malformed_requests_total" "FSPIOP requests that were incomplete or not HTTP."
        now.edge.malformed;
    Counter "upesi_socket_reads_total"
        "System calls that read data from an FSPIOP socket."
        now.edge.socket_reads;
    Counter "upesi_socket_writes_total" "System calls that wrote to an FSPIOP socket."
        now.edge.socket_writes;
    Counter "upesi_socket_read_bytes_total" "Bytes read from FSPIOP sockets."
        now.edge.socket_read_bytes;
    Counter "upesi_socket_written_bytes_total" "Bytes written to FSPIOP sockets."
        now.edge.socket_written_bytes;
    Counter "upesi_calls_denied_total" "Calls to addresses that are not allowed."
        now.edge.calls_denied;
    Counter "upesi_oracle_calls_total" "Calls to oracles." now.edge.oracle_calls;
    Counter "upesi_oracle_calls_failed_total" "Calls to oracles without an HTTP response."
        now.edge.oracle_calls_failed;
    Counter "upesi_oracle_errors_total"
        "Responses of oracles that refuse a request or are invalid."
        now.edge.oracle_errors;
    Counter "upesi_oracle_cache_hits_total"
        "Look-ups that an earlier answer of an oracle served."
        now.edge.oracle_cache_hits;
    Counter "upesi_oracle_calls_refused_total"
        "Requests refused with 503: too many calls to oracles were in flight."
        now.edge.oracle_calls_refused;
    Gauge "upesi_oracle_breakers_open"
        "Oracles that do not answer, so that calls to them fail at once."
        now.open_oracle_breakers;
    Counter "upesi_requests_limited_total"
        "Requests refused with 429: their participant has too many."
        now.edge.requests_limited;
    Counter "upesi_refusals_delayed_total"
        "Responses to refused requests that waited: their address has too many."
        now.edge.refusals_delayed;
    Counter "upesi_unknown_senders_total"
        "Messages that changed nothing: their sender is not a participant."
        now.edge.unknown_senders;

    Gauge "upesi_position" "Position of a participant, in units of the currency."
        now.participants.positions;
    Gauge "upesi_liquidity_cover" "Liquidity cover of a participant, in units of the currency."
        now.participants.covers;
    Gauge "upesi_net_debit_cap" "Net debit cap of a participant, in units of the currency."
        now.participants.caps;
    Gauge "upesi_liquidity_headroom"
        "Amount that a participant can still send: the lower of cap and cover, less the position."
        now.participants.headrooms;
    Gauge "upesi_settlement_windows" "Settlement windows by state, without settled ones."
        now.settlement.windows();
    Gauge "upesi_settlement_window_open_seconds" "Age of the open settlement window."
        now.settlement.open_seconds(now.at);
    Gauge "upesi_settlement_window_unsettled_seconds"
        "Time since the oldest window that is not settled was closed; 0 without one."
        now.settlement.unsettled_seconds(now.at);
    Gauge "upesi_settlements" "Settlements by state, without settled and aborted ones."
        now.settlement.settlements();
    Gauge "upesi_liquidity_alarms"
        "Participants and currencies whose position has reached the alarm threshold."
        now.alerts.raised;
    Gauge "upesi_alerts_owed" "Alerts about liquidity that are not finished." now.alerts.owed;
    Gauge "upesi_alerts_oldest_seconds" "Age of the oldest alert that is not finished."
        now.alerts.oldest_owed_us / 1_000_000;
    Counter "upesi_alerts_dropped_total" "Alerts that were dropped, because 10,000 were owed."
        now.alerts.dropped;
    Counter "upesi_alert_webhooks_sent_total" "Webhooks that were accepted."
        now.alerts.webhooks_sent;
    Counter "upesi_alert_webhooks_failed_total" "Attempts to send a webhook that failed."
        now.alerts.webhooks_failed;
    Counter "upesi_alert_mails_sent_total" "E-mails that the relay accepted."
        now.alerts.mails_sent;
    Counter "upesi_alert_mails_failed_total" "Attempts to send an e-mail that failed."
        now.alerts.mails_failed;
    Counter "upesi_alerts_given_up_total" "Webhooks and e-mails that were given up."
        now.alerts.given_up;

    Counter "upesi_signatures_verified_total" "Valid signatures of participants."
        now.edge.signatures_verified;
    Counter "upesi_signatures_refused_total" "Messages refused for their signature."
        now.edge.signatures_refused;
    Counter "upesi_signatures_made_total" "Messages of the hub signed." now.edge.signatures_made;
    Counter "upesi_signatures_failed_total" "Messages of the hub that could not be signed."
        now.edge.signatures_failed;
    Gauge "upesi_signatures_waiting" "Messages of the hub that wait for their signature."
        now.edge.signatures_asked.saturating_sub(
            now.edge.signatures_made + now.edge.signatures_failed);

    Counter "upesi_callers_refused_total"
        "FSPIOP requests refused because of the sender's certificate, token or gateway, by reason."
        callers_refused(&now.edge);
    Gauge "upesi_key_set_age_seconds"
        "Time since the keys of an issuer of access tokens were read, by listener."
        now.issuers.ages;
    Gauge "upesi_key_set_failed"
        "Whether the last read of the keys of an issuer of access tokens failed, by listener."
        now.issuers.failures;
    Counter "upesi_tls_handshakes_total" "TLS handshakes by listener and result."
        now.tls.handshakes;
    Gauge "upesi_certificate_expires_timestamp_seconds"
        "When a loaded certificate or revocation list, or the newest one that a participant got by \
         enrolment, expires, in seconds since 1970."
        now.tls.expiries;
    Gauge "upesi_tls_files_failed"
        "Whether the TLS files of a listener could not be used when they were last read."
        now.tls.failures;
    Gauge "upesi_signing_key_failed"
        "Whether the hub's signing key could not be used when it was last read."
        now.tls.signing_key_failures;

    Counter "upesi_log_messages_dropped_total"
        "Log messages dropped because standard error was too slow."
        now.log_messages_dropped;
    Counter "upesi_audit_entries_failed_total"
        "Audit entries that could not be written to their file; they became messages."
        now.audit_entries_failed;

    Counter "upesi_spans_exported_total" "Spans that the trace collector accepted."
        now.spans.exported;
    Counter "upesi_spans_dropped_total"
        "Spans that were dropped, because of a full queue, a limit or a failed export."
        now.spans.dropped;
    Counter "upesi_span_exports_failed_total" "Exports of spans that failed."
        now.spans.exports_failed;

    Counter "upesi_events_published_total" "Events published to Kafka since the start."
        now.publishing.published;
    Gauge "upesi_events_lag_records" "Records of the log whose events are not published yet."
        now.publishing.lag_records;
    Gauge "upesi_events_lag_seconds"
        "At most this time has passed since the oldest record whose events are not published."
        now.publishing.lag_seconds;
    Gauge "upesi_events_failing"
        "Whether events cannot be published now; `GET /status` has the reason."
        now.publishing.failing;

    Histogram "upesi_request_seconds"
        "FSPIOP requests, from their arrival to the synchronous answer 200 or 202."
        now.times.answers();
    Counter "upesi_refusals_total" "Refused FSPIOP requests, by status and error code."
        now.times.refusals();
    Counter "upesi_participant_requests_refused_total"
        "Refused FSPIOP requests, by sender and error code, without unknown senders."
        now.times.refusals_by_sender();
    Counter "upesi_participant_transfers_refused_total"
        "Prepares refused since the start of the node, by sender, error code and reason."
        now.refused_prepares;
    Histogram "upesi_inbox_wait_seconds"
        "Commands, from their submission until the sequencer takes them."
        now.stages.inbox;
    Histogram "upesi_log_append_seconds" "Batches: writing them to the log." now.stages.append;
    Histogram "upesi_log_sync_seconds" "Syncs of the log." now.stages.sync;
    Histogram "upesi_batch_apply_seconds" "Batches: deciding their commands." now.stages.apply;
    Histogram "upesi_transfer_commit_seconds"
        "Committed transfers, from the reservation to the commit."
        now.stages.commit;
    Histogram "upesi_callback_seconds"
        "Attempts to deliver a notice, to the participant's answer or the failure."
        now.times.callbacks();
    Counter "upesi_callbacks_failed_total"
        "Attempts that the participant did not accept, by reason."
        now.times.callbacks_failed();
    Histogram "upesi_forward_seconds"
        "Forwarded look-ups and quotes, to the participant's answer or the failure."
        now.times.forwards();
    Counter "upesi_forwards_refused_total"
        "Forwarded messages that the participant did not accept, by reason."
        now.times.forwards_failed();
};

/// Refused requests by reason.
fn callers_refused(edge: &Totals) -> Vec<(Labels, Number)> {
    let reasons = [
        ("wrong_source", edge.callers_refused),
        ("unknown_participant", edge.callers_unknown),
        ("invalid_certificate", edge.callers_invalid),
        ("not_a_gateway", edge.callers_outside_gateways),
        ("no_gateway_name", edge.callers_without_gateway_name),
        ("no_token", edge.tokens_missing),
        ("malformed_token", edge.tokens_malformed),
        ("wrong_algorithm", edge.tokens_of_other_algorithm),
        ("unknown_key", edge.tokens_of_unknown_key),
        ("wrong_signature", edge.tokens_with_wrong_signature),
        ("wrong_issuer", edge.tokens_of_other_issuer),
        ("wrong_audience", edge.tokens_for_other_audience),
        ("expired_token", edge.tokens_expired),
        ("early_token", edge.tokens_not_yet_valid),
        ("missing_scope", edge.tokens_without_scope),
        ("too_many_tokens", edge.tokens_limited),
        ("no_keys", edge.tokens_without_keys),
    ];
    let sample = |(reason, count): (&'static str, u64)| {
        (vec![("reason", reason.into())], Number::Integer(count.into()))
    };
    reasons.into_iter().map(sample).collect()
}

/// Refused prepares by `participant`, `code` and `reason`.
fn refused_prepares(refused: &RefusedPrepares, view: &ParticipantsView) -> Vec<(Labels, Number)> {
    let sample = |(at, outcome, count): (usize, ErrorOutcome, u64)| {
        let sender = switch::participant_at(view, at).unwrap_or(OTHER).to_owned();
        let code = format!("{:04}", switch::error_code(outcome));
        let reason = snake_case(format!("{outcome:?}").trim_start_matches("Prepare"));
        let labels = [("participant", sender), ("code", code), ("reason", reason)];
        let labels = labels.into_iter().map(|(name, value)| (name, value.into())).collect();
        (labels, Number::Integer(count.into()))
    };
    refused.counts().map(sample).collect()
}

/// A name such as `cap_exceeded` of `CapExceeded`.
fn snake_case(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at != 0 {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// The metrics of the node.
pub(crate) fn collect(
    handle: &Handle<ForwardedMessage>,
    (traffic, liquidity, known): (&Traffic, &LiquidityStatus, (&Certificates, &Issuers)),
    at: Stamp,
    ((names, started), publishing): ((MojaloopNames, Stamp), Option<EventPublishing>),
) -> Vec<Family> {
    let participants = liquidity.participants();
    let (certificates, issuers) = known;
    let now = MetricSources {
        node: handle.status(),
        store_bytes: handle.store_bytes(),
        inbox_refused: handle.refused_count(),
        edge: traffic.totals(),
        stalled: traffic.stalled_lanes(),
        open_breakers: traffic.open_breakers().len() as u64,
        open_oracle_breakers: traffic.open_oracle_breakers() as u64,
        log_messages_dropped: logging::dropped(),
        audit_entries_failed: logging::audit_entries_failed(),
        stages: StageHistograms::of(handle.stage_times()),
        times: traffic.times(&handle.view()),
        refused_prepares: refused_prepares(&handle.stage_times().refused, &handle.view()),
        alerts: liquidity.counts(),
        at,
        settlement: liquidity.settlement(),
        oldest_notice_seconds: participants.oldest_notice_seconds(at),
        participants: participants.samples(at),
        spans: traffic.span_counts(),
        tls: TlsSamples {
            handshakes: certificates.handshakes(),
            expiries: {
                let enrolled = liquidity.enrolled().samples((at.0 / 1_000_000) as i64);
                certificates.expiries().into_iter().chain(enrolled).collect()
            },
            failures: certificates.failures(),
            signing_key_failures: certificates.signing_key_failures(),
        },
        issuers: IssuerSamples { ages: issuers.ages(), failures: issuers.failures() },
        publishing: EventSamples::of(publishing),
    };
    let mut families = Vec::new();
    metrics::collect(TABLE, &now, &mut families);
    if names != MojaloopNames::Off {
        let (times, apply) = (&now.times, &now.stages.apply);
        let decisions = DecisionValues::of(handle.stage_times());
        let reference =
            ReferenceSources { times, decisions, apply, process: ProcessStatus::read(), started };
        families.extend(mojaloop_metrics::collect(names, &reference));
    }
    families
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use expect_test::expect_file;
    use ledger::LogIndex;
    use metrics::{Exposition, MetricFamily, MetricKind};
    use operations::families;

    use super::*;

    /// All metrics of `GET /metrics`.
    pub(in crate::serve) fn all() -> impl Iterator<Item = MetricFamily> {
        TABLE.iter().map(|metric| metric.family).chain(families())
    }

    /// UPDATE_EXPECT=1 regenerates the page.
    #[test]
    fn manual_lists_each_metric() {
        let mut page = "# Metrics\n\n\
            `GET /metrics` of the admin API returns them as Prometheus text. This page is generated\n\
            from the tables in [crates/upesi/src/serve/metrics.rs]\
            (../../crates/upesi/src/serve/metrics.rs) and\n[crates/operations/src/metrics.rs]\
            (../../crates/operations/src/metrics.rs). Dashboards and alerts:\n\
            [watching.md](watching.md).\n\n\
            Only the first 500 participants of the register have series of their own. The others\n\
            share those with the label `participant=\"other\"`, and so does a participant of that\n\
            name. With 10,000 participants, 700 of which got transfers and look-ups, a scrape has\n\
            7.8 MB (0.3 MB compressed), of which the names of the reference are 6.1 MB, and takes\n\
            0.4 s in a development build (`crates/upesi/tests/product/many_participants.rs`).\n\n\
            | Metric | Kind | Unit | Meaning |\n|---|---|---|---|\n"
            .to_owned();
        for metric in all() {
            let MetricFamily { kind, name, help } = metric;
            writeln!(page, "| `{name}` | {kind} | {} | {help} |", metric.unit()).unwrap();
        }
        expect_file!["../../../../docs/operating/metrics.md"].assert_eq(&page);
    }

    /// The names of metrics in a text.
    fn names_in(text: &str) -> impl Iterator<Item = &str> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("upesi_") || word.starts_with("process_"))
    }

    /// Whether this is a series that the text formats make of a histogram.
    fn is_series_of_histogram(name: &str) -> bool {
        let base = ["_bucket", "_count", "_sum"].iter().find_map(|it| name.strip_suffix(it));
        all().any(|it| it.kind == MetricKind::Histogram && Some(it.name) == base)
    }

    #[test]
    fn rules_documents_and_measurements_name_metrics_of_the_table() {
        let known: BTreeSet<_> = all().map(|metric| metric.name).collect();
        assert_eq!(known.len(), all().count(), "each name once");
        // A name that ends in `_` matches all names with this prefix. A histogram has three series.
        let is_known = |name: &str| match name.ends_with('_') {
            true => known.iter().any(|known| known.starts_with(name)),
            false => known.contains(name) || is_series_of_histogram(name),
        };
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for place in [
            "deploy/prometheus",
            "docs/operating",
            "docs/internals",
            "crates/harness/src",
            "crates/upesi-bench/src",
            "crates/upesi-bench/src/sweep",
        ] {
            for file in root.join(place).read_dir().expect(place) {
                let file = file.expect(place).path();
                let Ok(text) = std::fs::read_to_string(&file) else { continue };
                // In code, identifiers may begin with process_.
                let is_code = file.extension().is_some_and(|it| it == "rs");
                let is_metric = |name: &&str| !(is_code && name.starts_with("process_"));
                let named = names_in(&text).filter(is_metric);
                let unknown: Vec<_> = named.filter(|name| !is_known(name)).collect();
                assert!(unknown.is_empty(), "{}: {unknown:?}", file.display());
            }
        }
    }

    #[test]
    fn every_metric_has_its_source() {
        let now = MetricSources {
            node: node::NodeStatus {
                counts: sequencer::WriteCounts { syncs: 1, bytes: 2, batches: 4, records: 5 },
                log_index: LogIndex(3),
                counters: ledger::Counters {
                    reserved: 6,
                    refused: 7,
                    committed: 8,
                    aborted: 9,
                    expired: 10,
                    delivered: 14,
                    given_up: 41,
                },
                in_flight: 11,
                ended: 12,
                hot: 31,
                stored: LogIndex(32),
                cold: sequencer::ColdCounts { reads: 33, found: 34, waits: 35 },
                owed: 13,
                dead: 15,
                ..Default::default()
            },
            store_bytes: 36,
            inbox_refused: 16,
            edge: Totals {
                requests: 17,
                refused: 18,
                forwards: 19,
                forwards_failed: 20,
                attempts: 21,
                calls_lent: 56,
                connections: 22,
                connections_open: 52,
                connections_refused: 23,
                connections_evicted: 51,
                malformed: 24,
                socket_reads: 37,
                socket_writes: 38,
                socket_read_bytes: 53,
                socket_written_bytes: 54,
                calls_denied: 25,
                oracle_calls: 131,
                oracle_calls_failed: 132,
                oracle_errors: 133,
                oracle_cache_hits: 134,
                oracle_calls_refused: 135,
                requests_limited: 96,
                refusals_delayed: 130,
                unknown_senders: 45,
                callers_refused: 91,
                callers_unknown: 92,
                callers_invalid: 93,
                callers_outside_gateways: 101,
                callers_without_gateway_name: 102,
                tokens_missing: 103,
                tokens_malformed: 104,
                tokens_of_other_algorithm: 105,
                tokens_of_unknown_key: 106,
                tokens_with_wrong_signature: 107,
                tokens_of_other_issuer: 108,
                tokens_for_other_audience: 109,
                tokens_expired: 110,
                tokens_not_yet_valid: 111,
                tokens_without_scope: 112,
                tokens_limited: 113,
                tokens_without_keys: 114,
                parked: 42,
                signatures_verified: 26,
                signatures_refused: 27,
                signatures_asked: 87,
                signatures_made: 28,
                signatures_failed: 29,
            },
            stalled: StalledLanes { count: 41, owed: 42, shown: Vec::new() },
            open_breakers: 43,
            open_oracle_breakers: 136,
            alerts: AlertCounts {
                raised: 61,
                owed: 62,
                oldest_owed_us: 63_900_000,
                dropped: 69,
                webhooks_sent: 64,
                webhooks_failed: 65,
                mails_sent: 66,
                mails_failed: 67,
                given_up: 68,
            },
            log_messages_dropped: 44,
            audit_entries_failed: 46,
            spans: SpanCounts { exported: 71, dropped: 72, exports_failed: 73 },
            ..MetricSources::default()
        };
        let mut families = Vec::new();
        metrics::collect(TABLE, &now, &mut families);
        let text = String::from_utf8(Exposition::Text.encode(&families)).expect("text");
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        expect_test::expect![[r#"
            upesi_log_syncs_total 1
            upesi_log_bytes_total 2
            upesi_log_index 3
            upesi_batches_total 4
            upesi_records_total 5
            upesi_transfers_reserved_total 6
            upesi_transfers_refused_total 7
            upesi_transfers_committed_total 8
            upesi_transfers_aborted_total 9
            upesi_transfers_expired_total 10
            upesi_transfers_in_flight 11
            upesi_transfers_ended 12
            upesi_notices_owed 13
            upesi_oldest_notice_seconds 0
            upesi_notices_delivered_total 14
            upesi_notices_given_up_total 41
            upesi_notices_without_address 42
            upesi_dead_letters 15
            upesi_transfers_ended_in_memory 31
            upesi_store_log_index 32
            upesi_store_reads_total 33
            upesi_store_reads_found_total 34
            upesi_store_waits_total 35
            upesi_store_bytes 36
            upesi_lanes_stalled 41
            upesi_lanes_stalled_notices 42
            upesi_forward_breakers_open 43
            upesi_inbox_refused_total 16
            upesi_requests_total 17
            upesi_requests_refused_total 18
            upesi_forwards_total 19
            upesi_forwards_failed_total 20
            upesi_attempts_total 21
            upesi_calls_lent_total 56
            upesi_connections_total 22
            upesi_connections_open 52
            upesi_connections_refused_total 23
            upesi_connections_evicted_total 51
            upesi_malformed_requests_total 24
            upesi_socket_reads_total 37
            upesi_socket_writes_total 38
            upesi_socket_read_bytes_total 53
            upesi_socket_written_bytes_total 54
            upesi_calls_denied_total 25
            upesi_oracle_calls_total 131
            upesi_oracle_calls_failed_total 132
            upesi_oracle_errors_total 133
            upesi_oracle_cache_hits_total 134
            upesi_oracle_calls_refused_total 135
            upesi_oracle_breakers_open 136
            upesi_requests_limited_total 96
            upesi_refusals_delayed_total 130
            upesi_unknown_senders_total 45
            upesi_settlement_window_unsettled_seconds 0
            upesi_liquidity_alarms 61
            upesi_alerts_owed 62
            upesi_alerts_oldest_seconds 63
            upesi_alerts_dropped_total 69
            upesi_alert_webhooks_sent_total 64
            upesi_alert_webhooks_failed_total 65
            upesi_alert_mails_sent_total 66
            upesi_alert_mails_failed_total 67
            upesi_alerts_given_up_total 68
            upesi_signatures_verified_total 26
            upesi_signatures_refused_total 27
            upesi_signatures_made_total 28
            upesi_signatures_failed_total 29
            upesi_signatures_waiting 30
            upesi_callers_refused_total{reason="wrong_source"} 91
            upesi_callers_refused_total{reason="unknown_participant"} 92
            upesi_callers_refused_total{reason="invalid_certificate"} 93
            upesi_callers_refused_total{reason="not_a_gateway"} 101
            upesi_callers_refused_total{reason="no_gateway_name"} 102
            upesi_callers_refused_total{reason="no_token"} 103
            upesi_callers_refused_total{reason="malformed_token"} 104
            upesi_callers_refused_total{reason="wrong_algorithm"} 105
            upesi_callers_refused_total{reason="unknown_key"} 106
            upesi_callers_refused_total{reason="wrong_signature"} 107
            upesi_callers_refused_total{reason="wrong_issuer"} 108
            upesi_callers_refused_total{reason="wrong_audience"} 109
            upesi_callers_refused_total{reason="expired_token"} 110
            upesi_callers_refused_total{reason="early_token"} 111
            upesi_callers_refused_total{reason="missing_scope"} 112
            upesi_callers_refused_total{reason="too_many_tokens"} 113
            upesi_callers_refused_total{reason="no_keys"} 114
            upesi_log_messages_dropped_total 44
            upesi_audit_entries_failed_total 46
            upesi_spans_exported_total 71
            upesi_spans_dropped_total 72
            upesi_span_exports_failed_total 73
            upesi_inbox_wait_seconds_bucket{le="0.0001"} 0
            upesi_inbox_wait_seconds_bucket{le="0.00025"} 0
            upesi_inbox_wait_seconds_bucket{le="0.0005"} 0
            upesi_inbox_wait_seconds_bucket{le="0.001"} 0
            upesi_inbox_wait_seconds_bucket{le="0.0025"} 0
            upesi_inbox_wait_seconds_bucket{le="0.005"} 0
            upesi_inbox_wait_seconds_bucket{le="0.01"} 0
            upesi_inbox_wait_seconds_bucket{le="0.025"} 0
            upesi_inbox_wait_seconds_bucket{le="0.05"} 0
            upesi_inbox_wait_seconds_bucket{le="0.1"} 0
            upesi_inbox_wait_seconds_bucket{le="0.25"} 0
            upesi_inbox_wait_seconds_bucket{le="0.5"} 0
            upesi_inbox_wait_seconds_bucket{le="1"} 0
            upesi_inbox_wait_seconds_bucket{le="2"} 0
            upesi_inbox_wait_seconds_bucket{le="2.5"} 0
            upesi_inbox_wait_seconds_bucket{le="5"} 0
            upesi_inbox_wait_seconds_bucket{le="10"} 0
            upesi_inbox_wait_seconds_bucket{le="+Inf"} 0
            upesi_inbox_wait_seconds_sum 0.000000000
            upesi_inbox_wait_seconds_count 0
            upesi_log_append_seconds_bucket{le="0.0001"} 0
            upesi_log_append_seconds_bucket{le="0.00025"} 0
            upesi_log_append_seconds_bucket{le="0.0005"} 0
            upesi_log_append_seconds_bucket{le="0.001"} 0
            upesi_log_append_seconds_bucket{le="0.0025"} 0
            upesi_log_append_seconds_bucket{le="0.005"} 0
            upesi_log_append_seconds_bucket{le="0.01"} 0
            upesi_log_append_seconds_bucket{le="0.025"} 0
            upesi_log_append_seconds_bucket{le="0.05"} 0
            upesi_log_append_seconds_bucket{le="0.1"} 0
            upesi_log_append_seconds_bucket{le="0.25"} 0
            upesi_log_append_seconds_bucket{le="0.5"} 0
            upesi_log_append_seconds_bucket{le="1"} 0
            upesi_log_append_seconds_bucket{le="2"} 0
            upesi_log_append_seconds_bucket{le="2.5"} 0
            upesi_log_append_seconds_bucket{le="5"} 0
            upesi_log_append_seconds_bucket{le="10"} 0
            upesi_log_append_seconds_bucket{le="+Inf"} 0
            upesi_log_append_seconds_sum 0.000000000
            upesi_log_append_seconds_count 0
            upesi_log_sync_seconds_bucket{le="0.0001"} 0
            upesi_log_sync_seconds_bucket{le="0.00025"} 0
            upesi_log_sync_seconds_bucket{le="0.0005"} 0
            upesi_log_sync_seconds_bucket{le="0.001"} 0
            upesi_log_sync_seconds_bucket{le="0.0025"} 0
            upesi_log_sync_seconds_bucket{le="0.005"} 0
            upesi_log_sync_seconds_bucket{le="0.01"} 0
            upesi_log_sync_seconds_bucket{le="0.025"} 0
            upesi_log_sync_seconds_bucket{le="0.05"} 0
            upesi_log_sync_seconds_bucket{le="0.1"} 0
            upesi_log_sync_seconds_bucket{le="0.25"} 0
            upesi_log_sync_seconds_bucket{le="0.5"} 0
            upesi_log_sync_seconds_bucket{le="1"} 0
            upesi_log_sync_seconds_bucket{le="2"} 0
            upesi_log_sync_seconds_bucket{le="2.5"} 0
            upesi_log_sync_seconds_bucket{le="5"} 0
            upesi_log_sync_seconds_bucket{le="10"} 0
            upesi_log_sync_seconds_bucket{le="+Inf"} 0
            upesi_log_sync_seconds_sum 0.000000000
            upesi_log_sync_seconds_count 0
            upesi_batch_apply_seconds_bucket{le="0.0001"} 0
            upesi_batch_apply_seconds_bucket{le="0.00025"} 0
            upesi_batch_apply_seconds_bucket{le="0.0005"} 0
            upesi_batch_apply_seconds_bucket{le="0.001"} 0
            upesi_batch_apply_seconds_bucket{le="0.0025"} 0
            upesi_batch_apply_seconds_bucket{le="0.005"} 0
            upesi_batch_apply_seconds_bucket{le="0.01"} 0
            upesi_batch_apply_seconds_bucket{le="0.025"} 0
            upesi_batch_apply_seconds_bucket{le="0.05"} 0
            upesi_batch_apply_seconds_bucket{le="0.1"} 0
            upesi_batch_apply_seconds_bucket{le="0.25"} 0
            upesi_batch_apply_seconds_bucket{le="0.5"} 0
            upesi_batch_apply_seconds_bucket{le="1"} 0
            upesi_batch_apply_seconds_bucket{le="2"} 0
            upesi_batch_apply_seconds_bucket{le="2.5"} 0
            upesi_batch_apply_seconds_bucket{le="5"} 0
            upesi_batch_apply_seconds_bucket{le="10"} 0
            upesi_batch_apply_seconds_bucket{le="+Inf"} 0
            upesi_batch_apply_seconds_sum 0.000000000
            upesi_batch_apply_seconds_count 0
            upesi_transfer_commit_seconds_bucket{le="0.0001"} 0
            upesi_transfer_commit_seconds_bucket{le="0.00025"} 0
            upesi_transfer_commit_seconds_bucket{le="0.0005"} 0
            upesi_transfer_commit_seconds_bucket{le="0.001"} 0
            upesi_transfer_commit_seconds_bucket{le="0.0025"} 0
            upesi_transfer_commit_seconds_bucket{le="0.005"} 0
            upesi_transfer_commit_seconds_bucket{le="0.01"} 0
            upesi_transfer_commit_seconds_bucket{le="0.025"} 0
            upesi_transfer_commit_seconds_bucket{le="0.05"} 0
            upesi_transfer_commit_seconds_bucket{le="0.1"} 0
            upesi_transfer_commit_seconds_bucket{le="0.25"} 0
            upesi_transfer_commit_seconds_bucket{le="0.5"} 0
            upesi_transfer_commit_seconds_bucket{le="1"} 0
            upesi_transfer_commit_seconds_bucket{le="2"} 0
            upesi_transfer_commit_seconds_bucket{le="2.5"} 0
            upesi_transfer_commit_seconds_bucket{le="5"} 0
            upesi_transfer_commit_seconds_bucket{le="10"} 0
            upesi_transfer_commit_seconds_bucket{le="+Inf"} 0
            upesi_transfer_commit_seconds_sum 0.000000000
            upesi_transfer_commit_seconds_count 0"#]]
        .assert_eq(&lines.join("\n"));
    }
}
