//! The table: every metric of the reference that has a stage here, and those that have none.

use std::time::Duration;

use fspiop::Resource;
use fspiop::route_table::Operation;
use metrics::{MetricKind, Number};
use switch::PaymentSpan;

use crate::serve::mojaloop_metrics::row::{ReferenceRow, Service};
use crate::serve::mojaloop_metrics::samples::{
    Paths, TransferStep, batches, built, built_by_action, decisions, deliveries, errors, forwards,
    forwards_by_endpoint, http_durations, http_requests, notices, payments, process, queries,
    requests, sent_forwards, sent_notices, writes,
};

const PREPARE: &str = "central-handler-prepare";
const FULFIL: &str = "central-handler-fulfil";
const POSITION: &str = "central-handler-position";
const POSITION_BATCH: &str = "central-handler-position-batch";
const NOTIFICATION: &str = "ml-handler-notification";
const ALS: &str = "account-lookup-service";

/// Rows: service, kind, name without prefix, `serviceName`, other labels, meaning, samples.
macro_rules! rows {
    ($now:ident; $(
        $service:ident $kind:ident $name:literal $service_name:tt [$($label:literal)*]
        $help:literal $samples:expr;
    )*) => {
        &[$(ReferenceRow {
            service: Service::$service,
            name: $name,
            kind: MetricKind::$kind,
            service_name: $service_name,
            labels: &[$($label),*],
            help: $help,
            samples: |$now| $samples,
        }),*]
    };
}

/// Every metric of the reference that has a stage here.
pub(crate) static TABLE: &[ReferenceRow] = rows! { now;
    Ml CoarseHistogram "ml_transfer_prepare" "ml-service" ["success"]
        "POST /transfers, from its arrival to the answer, which follows the decision."
        requests(now, Operation::TransfersPost, Paths::All);
    Ml CoarseHistogram "ml_transfer_fulfil" "ml-service" ["success"]
        "PUT /transfers/{ID}, from its arrival to the answer, which follows the decision."
        requests(now, Operation::TransfersPut, Paths::All);
    Ml CoarseHistogram "ml_transfer_fulfil_error" "ml-service" ["success"]
        "PUT /transfers/{ID}/error, from its arrival to the answer, which follows the decision."
        requests(now, Operation::TransfersError, Paths::All);
    Ml CoarseHistogram "ml_transfer_get" "ml-service" ["success"]
        "GET /transfers/{ID}, from its arrival to the answer 202."
        requests(now, Operation::TransfersGet, Paths::All);
    Ml CoarseHistogram "notification_event" NOTIFICATION ["success"]
        "Attempts to deliver a notice about a transfer, from the first step to the answer."
        notices(now);
    Ml CoarseHistogram "notification_event_process_msg" NOTIFICATION ["success" "action"]
        "Building the message of a notice, including its address."
        built_by_action(now);
    Ml CoarseHistogram "notification_event_getEndpoint" NOTIFICATION ["success"]
        "Building the message of a notice. Finding its address is a small part of it."
        built(now);
    Ml CoarseHistogram "notification_event_delivery" NOTIFICATION
        ["success" "to" "dest" "action" "status"]
        "HTTP requests that deliver a notice about a transfer, to the answer or the failure."
        deliveries(now);
    Ml CoarseHistogram "tx_transfer" NOTIFICATION ["success"]
        "Committed transfers, from the stamp of the prepare to the delivery to the payer."
        payments(now, PaymentSpan::Transfer);
    Ml CoarseHistogram "tx_transfer_prepare" NOTIFICATION ["success"]
        "Prepares, from their stamp to the delivery to the payee."
        payments(now, PaymentSpan::Prepare);
    Ml CoarseHistogram "tx_transfer_fulfil" NOTIFICATION ["success"]
        "Fulfils that commit, from their stamp to the delivery to the payer."
        payments(now, PaymentSpan::Fulfil);
    Ml CoarseHistogram "sendRequest" NOTIFICATION ["success" "destination"]
        "HTTP requests that deliver a notice about a transfer, to the answer or the failure."
        sent_notices(now);

    Cl CoarseHistogram "transfer_prepare" PREPARE ["success"]
        "Prepares: writing, syncing and deciding the batch that has them."
        decisions(now, TransferStep::Prepare, |it| &it.total, &[]);
    Cl CoarseHistogram "transfer_fulfil" FULFIL ["success"]
        "Fulfils and aborts: writing, syncing and deciding the batch that has them."
        decisions(now, TransferStep::Response, |it| &it.total, &[]);
    Cl CoarseHistogram "transfer_position" POSITION ["success" "action"]
        "Prepares: deciding the batch that has them, which posts the reservation."
        decisions(now, TransferStep::Prepare, |it| &it.apply, &[("action", "prepare")]);
    Cl CoarseHistogram "transfer_position" POSITION ["success" "action"]
        "Fulfils: deciding the batch that has them, which posts the commit."
        decisions(now, TransferStep::Fulfil, |it| &it.apply, &[("action", "commit")]);
    Cl CoarseHistogram "transfer_position" POSITION ["success" "action"]
        "Aborts: deciding the batch that has them, which posts the reversal."
        decisions(now, TransferStep::Abort, |it| &it.apply, &[("action", "abort")]);
    Cl CoarseHistogram "transfer_position_batch" POSITION_BATCH ["success"]
        "Batches: deciding all their commands."
        batches(now, &[]);
    Cl CoarseHistogram "transfer_get" "central-handler-get" ["success"]
        "Look-ups of a transfer for GET /transfers/{ID}, after everything accepted before."
        queries(now);
    Cl CoarseHistogram "domain_transfer" PREPARE ["success" "funcName"]
        "Prepares: deciding the batch that has them."
        decisions(now, TransferStep::Prepare, |it| &it.apply, &[("funcName", "prepare")]);
    Cl CoarseHistogram "domain_transfer" FULFIL ["success" "funcName"]
        "Fulfils and aborts: deciding the batch that has them."
        decisions(now, TransferStep::Response, |it| &it.apply, &[
            ("funcName", "handlePayeeResponse"),
        ]);
    Cl CoarseHistogram "domain_position" POSITION ["success" "funcName"]
        "Prepares: deciding the batch that has them, which posts the reservation."
        decisions(now, TransferStep::Prepare, |it| &it.apply, &[
            ("funcName", "changeParticipantPosition"),
        ]);
    Cl CoarseHistogram "domain_position" POSITION_BATCH ["success" "funcName"]
        "Batches: deciding all their commands."
        batches(now, &[("funcName", "calculatePreparePositionsBatch")]);
    Cl CoarseHistogram "model_transfer" PREPARE ["success" "queryName"]
        "Prepares: writing and syncing the batch that has them, with the hashes of their bodies."
        writes(now, TransferStep::Prepare, &[
            "facade_saveTransferPrepared_transaction",
            "transferDuplicateCheck_saveTransferDuplicateCheck",
        ]);
    Cl CoarseHistogram "model_transfer" FULFIL ["success" "queryName"]
        "Fulfils and aborts: writing and syncing the batch that has them."
        writes(now, TransferStep::Response, &[
            "facade_savePayeeTransferResponse",
            "facade_saveFulfilResponse",
        ]);
    Cl CoarseHistogram "model_position" POSITION ["success" "queryName"]
        "Prepares: deciding the batch that has them, which posts the reservation."
        decisions(now, TransferStep::Prepare, |it| &it.apply, &[
            ("queryName", "facade_prepareChangeParticipantPositionTransaction"),
        ]);
    Cl CoarseHistogram "model_position" POSITION ["success" "queryName"]
        "The same under the name of its database transaction."
        decisions(now, TransferStep::Prepare, |it| &it.apply, &[
            ("queryName", "facade_prepareChangeParticipantPositionTransaction_transaction"),
        ]);

    Als CoarseHistogram "ing_getPartiesByTypeAndID" ALS ["success"]
        "GET /parties/{Type}/{ID}, from its arrival to the answer 202."
        requests(now, Operation::PartiesGet, Paths::Short);
    Als CoarseHistogram "ing_getPartiesByTypeIDAndSubID" ALS ["success"]
        "GET /parties/{Type}/{ID}/{SubId}, from its arrival to the answer 202."
        requests(now, Operation::PartiesGet, Paths::WithSubId);
    Als CoarseHistogram "ing_putPartiesByTypeAndID" ALS ["success"]
        "PUT /parties/{Type}/{ID}, from its arrival to the answer 200."
        requests(now, Operation::PartiesPut, Paths::Short);
    Als CoarseHistogram "ing_putPartiesByTypeIDAndSubID" ALS ["success"]
        "PUT /parties/{Type}/{ID}/{SubId}, from its arrival to the answer 200."
        requests(now, Operation::PartiesPut, Paths::WithSubId);
    Als CoarseHistogram "ing_putPartiesErrorByTypeAndID" ALS ["success"]
        "PUT /parties/{Type}/{ID}/error, from its arrival to the answer 200."
        requests(now, Operation::PartiesError, Paths::Short);
    Als CoarseHistogram "ing_putPartiesErrorByTypeIDAndSubID" ALS ["success"]
        "PUT /parties/{Type}/{ID}/{SubId}/error, from its arrival to the answer 200."
        requests(now, Operation::PartiesError, Paths::WithSubId);
    Als CoarseHistogram "ing_getParticipantsByTypeAndID" ALS ["success"]
        "GET /participants/{Type}/{ID}, from its arrival to the answer 202."
        requests(now, Operation::ParticipantsGet, Paths::Short);
    Als CoarseHistogram "ing_getParticipantsByTypeIdAndSubID" ALS ["success"]
        "GET /participants/{Type}/{ID}/{SubId}, from its arrival to the answer 202."
        requests(now, Operation::ParticipantsGet, Paths::WithSubId);
    Als CoarseHistogram "ing_postParticipantsbyTypeAndID" ALS ["success"]
        "POST /participants/{Type}/{ID}, from its arrival to the answer 202."
        requests(now, Operation::ParticipantsPost, Paths::Short);
    Als CoarseHistogram "ing_postParticipantsByTypeIDAndSubID" ALS ["success"]
        "POST /participants/{Type}/{ID}/{SubId}, from its arrival to the answer 202."
        requests(now, Operation::ParticipantsPost, Paths::WithSubId);
    Als CoarseHistogram "ing_postParticipantsBatch" ALS ["success"]
        "POST /participants, from its arrival to the answer 200."
        requests(now, Operation::ParticipantsBatch, Paths::All);
    Als CoarseHistogram "ing_putParticipantsByTypeAndID" ALS ["success"]
        "PUT /participants/{Type}/{ID}, from its arrival to the answer 200."
        requests(now, Operation::ParticipantsPut, Paths::Short);
    Als CoarseHistogram "ing_putParticipantsByTypeIDAndSubID" ALS ["success"]
        "PUT /participants/{Type}/{ID}/{SubId}, from its arrival to the answer 200."
        requests(now, Operation::ParticipantsPut, Paths::WithSubId);
    Als CoarseHistogram "ing_putParticipantsErrorByTypeAndID" ALS ["success"]
        "PUT /participants/{Type}/{ID}/error, from its arrival to the answer 200."
        requests(now, Operation::ParticipantsError, Paths::Short);
    Als CoarseHistogram "ing_putParticipantsErrorByTypeIDAndSubID" ALS ["success"]
        "PUT /participants/{Type}/{ID}/{SubId}/error, from its arrival to the answer 200."
        requests(now, Operation::ParticipantsError, Paths::WithSubId);
    Als CoarseHistogram "ing_deleteParticipantsByTypeAndID" ALS ["success"]
        "DELETE /participants/{Type}/{ID}, from its arrival to the answer 202."
        requests(now, Operation::ParticipantsDelete, Paths::Short);
    Als CoarseHistogram "ing_deleteParticipantsByTypeIDAndSubID" ALS ["success"]
        "DELETE /participants/{Type}/{ID}/{SubId}, from its arrival to the answer 202."
        requests(now, Operation::ParticipantsDelete, Paths::WithSubId);

    Als CoarseHistogram "getPartiesByTypeAndID" ALS ["success"]
        "GET /parties/..., forwarded to the FSP of the party, to its answer or the failure."
        forwards(now, Operation::PartiesGet, &[]);
    Als CoarseHistogram "putPartiesByTypeAndID" ALS ["success"]
        "PUT /parties/..., forwarded to the requester, to its answer or the failure."
        forwards(now, Operation::PartiesPut, &[]);
    Als CoarseHistogram "puttPartiesErrorByTypeAndID" ALS ["success"]
        "As putPartiesErrorByTypeAndID, under the name that the published board has."
        forwards(now, Operation::PartiesError, &[]);
    Als CoarseHistogram "putPartiesErrorByTypeAndID" ALS ["success"]
        "PUT /parties/.../error, forwarded to the requester, to its answer or the failure."
        forwards(now, Operation::PartiesError, &[]);
    Als CoarseHistogram "getParticipantsByTypeAndID" ALS ["success"]
        "GET /participants/..., from its arrival to the answer. The party was looked up before."
        requests(now, Operation::ParticipantsGet, Paths::All);
    Als CoarseHistogram "postParticipants" ALS ["success"]
        "POST /participants/..., from its arrival to the answer, which follows the decision."
        requests(now, Operation::ParticipantsPost, Paths::All);
    Als CoarseHistogram "postParticipantsBatch" ALS ["success"]
        "POST /participants, from its arrival to the answer, which follows the decision."
        requests(now, Operation::ParticipantsBatch, Paths::All);
    Als CoarseHistogram "putParticipantsByTypeAndID" ALS ["success"]
        "PUT /participants/..., from its arrival to the answer, which follows the decision."
        requests(now, Operation::ParticipantsPut, Paths::All);
    Als CoarseHistogram "putParticipantsErrorByTypeAndID" ALS ["success"]
        "PUT /participants/.../error, forwarded, to the recipient's answer or the failure."
        forwards(now, Operation::ParticipantsError, &[]);
    Als CoarseHistogram "deleteParticipants" ALS ["success"]
        "DELETE /participants/..., from its arrival to the answer, which follows the decision."
        requests(now, Operation::ParticipantsDelete, Paths::All);
    Als CoarseHistogram "egress_sendRequestToParticipant" ALS ["success" "endpointType"]
        "Forwarded messages about parties, to the recipient's answer or the failure."
        forwards_by_endpoint(now);
    Als CoarseHistogram "sendRequest" ALS ["success" "destination"]
        "Forwarded messages about parties, to the recipient's answer or the failure."
        sent_forwards(now, &[Resource::Parties, Resource::Participants]);

    Qs CoarseHistogram "quotes_post" "quoting-service" ["success"]
        "POST /quotes, from its arrival to the answer 202."
        requests(now, Operation::QuotesPost, Paths::All);
    Qs CoarseHistogram "quotes_id_get" "quoting-service" ["success"]
        "GET /quotes/{ID}, from its arrival to the answer 202."
        requests(now, Operation::QuotesGet, Paths::All);
    Qs CoarseHistogram "quotes_id_put" "quoting-service" ["success"]
        "PUT /quotes/{ID}, from its arrival to the answer 200."
        requests(now, Operation::QuotesPut, Paths::All);
    Qs CoarseHistogram "quotes_id_put_error" "quoting-service" ["success"]
        "PUT /quotes/{ID}/error, from its arrival to the answer 200."
        requests(now, Operation::QuotesError, Paths::All);
    Qs CoarseHistogram "model_quote" "quoting-handler" ["success" "queryName"]
        "POST /quotes, forwarded to the payee, to its answer or the failure."
        forwards(now, Operation::QuotesPost, &[("queryName", "quote_forwardQuoteRequest")]);
    Qs CoarseHistogram "model_quote" "quoting-handler" ["success" "queryName"]
        "PUT /quotes/{ID}, forwarded to the payer, to its answer or the failure."
        forwards(now, Operation::QuotesPut, &[("queryName", "quote_forwardQuoteUpdate")]);
    Qs CoarseHistogram "model_quote" "quoting-handler" ["success" "queryName"]
        "GET /quotes/{ID}, forwarded, to the recipient's answer or the failure."
        forwards(now, Operation::QuotesGet, &[("queryName", "quote_forwardQuoteGet")]);
    Qs CoarseHistogram "model_quote" "quoting-handler" ["success" "queryName"]
        "PUT /quotes/{ID}/error, forwarded to the payer, to its answer or the failure."
        forwards(now, Operation::QuotesError, &[("queryName", "quote_sendErrorCallback")]);
    Qs CoarseHistogram "sendRequest" "quoting-handler" ["success" "destination"]
        "Forwarded messages about quotes, to the recipient's answer or the failure."
        sent_forwards(now, &[Resource::Quotes]);

    Each Counter "process_cpu_user_seconds_total" "" []
        "Processor time of the whole switch outside the operating system, in seconds."
        process(now.process.user_time.map(Number::Seconds));
    Each Counter "process_cpu_seconds_total" "" []
        "Processor time of the whole switch, in seconds."
        process(Some(Number::Seconds(now.process.processor_time)));
    Each Gauge "process_resident_memory_bytes" "" []
        "Resident memory of the whole switch, in bytes."
        process(now.process.resident_bytes.map(|bytes| Number::Integer(bytes.into())));
    Each Gauge "process_start_time_seconds" "" []
        "When the switch started, in seconds since 1970."
        process(Some(Number::Seconds(Duration::from_micros(now.started.0))));

    Unprefixed Counter "errorCount" "" ["serviceName" "code" "system" "operation"]
        "Refused FSPIOP requests by error code and operation."
        errors(now);
    Unprefixed Counter "http_requests_total" "" ["serviceName" "method" "status_code" "path"]
        "FSPIOP requests by method, status of the answer and route."
        http_requests(now);
    Unprefixed CoarseHistogram "http_request_duration_histogram_seconds" ""
        ["serviceName" "method" "status_code" "path"]
        "Accepted FSPIOP requests, from their arrival to the answer."
        http_durations(now);
};

/// Metrics of the reference that have no stage here, and the reason; for the manual.
#[cfg(test)]
pub(crate) static ABSENT: &[(&str, &str)] = &[
    ("`cl` model_participant", "Participants are in memory; there is no cache that can miss."),
    (
        "`cl` handler_transfers, handlers_transfer_validator",
        "The checks are part of a decision, which is too short to be timed in parts.",
    ),
    (
        "`cl` model_position with the names of single statements",
        "A position changes within one decision; only the whole is timed.",
    ),
    (
        "`als` egress_getParticipantEndpoint, egress_validateParticipant; all services: \
         fetchParticipant, fetchParticipants, getParticipant, getEndpoint, getEndpointAndRender",
        "Participants and addresses are in memory. Nothing is fetched.",
    ),
    ("all services: fetchProxies, getAllProxiesNames", "The hub has no proxies of other schemes."),
    (
        "`als` egress_oracleRequest, createOracle, getOracle, updateOracle, deleteOracle, with ing_",
        "Calls to oracles are not counted by these names.",
    ),
    ("`als` eg_timeoutInterschemePartiesLookups", "Look-ups between schemes are not supported."),
    ("`qs` database_get_cache_value", "Quotes are not stored; there is no cache."),
    (
        "fx forms, fxQuotes, transfer_bulk_*, all names of `bl`",
        "The hub does not serve these resources.",
    ),
    (
        "bulkQuotes, all names of `trs`",
        "Counted and timed under the names of the switch: `upesi_requests_total` by route.",
    ),
    ("nodejs_*", "The hub is not a Node.js process."),
    (
        "http_request_duration_seconds",
        "A summary in milliseconds; http_request_duration_histogram_seconds has the durations.",
    ),
    (
        "http_requests_current, http_connections_current",
        "Addresses of clients are not labels, because their number has no bound.",
    ),
    ("http_server_start", "process_start_time_seconds has the time."),
    ("app_critical_total", "A critical fault ends the process; a supervisor sees that."),
    ("mojaloop_connector_*, cbs_*", "Metrics of the software of participants."),
];
