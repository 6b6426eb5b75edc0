//! Health and metrics, without credentials: `GET /health`, `GET /live` and `GET /metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::Method;
use http::header::ACCEPT;
use http::request::Parts;
use metrics::{Exposition, Family, Labels, MetricFamily, MetricKind, Number, Sample, Value};
use serde_json::json;

use crate::dfsp::{Counts, Dfsp};
use crate::http_server::{self, Answered, Handler};
use crate::tenants::Tenants;

/// Health and metrics of a process.
pub(crate) struct Monitoring {
    pub(crate) tenants: Tenants,
}

/// A counter: its name, its help and its value.
type Counter = (&'static str, &'static str, fn(&Counts) -> &AtomicU64);

const COUNTERS: [Counter; 12] = [
    ("upesi_adapter_outbound_completed_total", "Outgoing transfers that were committed.", |c| {
        &c.outbound_completed
    }),
    ("upesi_adapter_outbound_failed_total", "Outgoing transfers that failed.", |c| {
        &c.outbound_failed
    }),
    (
        "upesi_adapter_outbound_aborted_total",
        "Outgoing transfers that the back end refused.",
        |c| &c.outbound_aborted,
    ),
    ("upesi_adapter_outbound_timeouts_total", "Answers with 504 to back ends.", |c| {
        &c.outbound_timeouts
    }),
    ("upesi_adapter_inbound_completed_total", "Incoming transfers that were completed.", |c| {
        &c.inbound_completed
    }),
    ("upesi_adapter_inbound_aborted_total", "Incoming transfers that ended otherwise.", |c| {
        &c.inbound_aborted
    }),
    ("upesi_adapter_hub_requests_total", "Requests to the hub.", |c| &c.hub_requests),
    ("upesi_adapter_hub_unanswered_total", "Requests to the hub without an answer.", |c| {
        &c.hub_unanswered
    }),
    ("upesi_adapter_callbacks_total", "Valid requests of the hub.", |c| &c.callbacks),
    ("upesi_adapter_backend_errors_total", "Calls of the back end that failed.", |c| {
        &c.backend_errors
    }),
    ("upesi_adapter_signatures_refused_total", "Requests with an invalid signature.", |c| {
        &c.signatures_refused
    }),
    ("upesi_adapter_store_errors_total", "Failed reads and writes of the store.", |c| {
        &c.store_errors
    }),
];

impl Handler for Monitoring {
    async fn handle(&self, head: Parts, _body: Bytes) -> Answered {
        match (&head.method, head.uri.path()) {
            (&Method::GET, "/" | "/live" | "/health") => self.health(),
            (&Method::GET, "/metrics") => {
                let accept = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
                let form = Exposition::negotiate(accept.unwrap_or_default());
                let body = form.encode(&self.families()).into();
                http_server::with_body(200, form.content_type(), body)
            }
            _ => http_server::json(404, &json!({ "message": "unknown path" })),
        }
    }

    fn unreadable(&self, _is_too_long: bool) -> Answered {
        http_server::json(400, &json!({ "message": "unreadable body" }))
    }
}

impl Monitoring {
    /// 200 while the store can be written, otherwise 503.
    fn health(&self) -> Answered {
        let has_failed = |dfsp: &Dfsp| dfsp.counts.store_errors.load(Ordering::Relaxed) > 0;
        let is_down = self.tenants.iter().any(|dfsp| has_failed(dfsp));
        let (status, text) = if is_down { (503, "DOWN") } else { (200, "OK") };
        let services = json!([{ "name": "store", "status": text }]);
        http_server::json(status, &json!({ "status": text, "services": services }))
    }

    fn families(&self) -> Vec<Family> {
        let counters = COUNTERS.iter().map(|&(name, help, value)| {
            let metric = MetricFamily { kind: MetricKind::Counter, name, help };
            self.family(metric, |dfsp| value(&dfsp.counts).load(Ordering::Relaxed))
        });
        let waits = MetricFamily {
            kind: MetricKind::Gauge,
            name: "upesi_adapter_waits",
            help: "Keys of callbacks and transfers that are waited for.",
        };
        let waits = self.family(waits, |dfsp| (dfsp.outbound.len() + dfsp.inbound.len()) as u64);
        counters.chain([waits]).collect()
    }

    /// A metric with one sample for each DFSP.
    fn family(&self, metric: MetricFamily, value: impl Fn(&Dfsp) -> u64) -> Family {
        let samples = self.tenants.iter().map(|dfsp| {
            let labels: Labels = vec![("dfsp", dfsp.policy.fsp_id.clone().into())];
            Sample { labels, value: Value::Number(Number::Integer(value(dfsp).into())) }
        });
        Family { metric, samples: samples.collect() }
    }
}
