//! Health and metrics, without credentials: `GET /health`, `GET /live` and `GET /metrics`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::Method;
use http::request::Parts;
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
    ("outbound_completed", "Outgoing transfers that were committed", |c| &c.outbound_completed),
    ("outbound_failed", "Outgoing transfers that failed", |c| &c.outbound_failed),
    ("outbound_aborted", "Outgoing transfers that the back end refused", |c| &c.outbound_aborted),
    ("outbound_timeouts", "Answers with 504 to back ends", |c| &c.outbound_timeouts),
    ("inbound_completed", "Incoming transfers that were completed", |c| &c.inbound_completed),
    ("inbound_aborted", "Incoming transfers that ended otherwise", |c| &c.inbound_aborted),
    ("hub_requests", "Requests to the hub", |c| &c.hub_requests),
    ("hub_unanswered", "Requests to the hub without an answer", |c| &c.hub_unanswered),
    ("callbacks", "Valid requests of the hub", |c| &c.callbacks),
    ("backend_errors", "Calls of the back end that failed", |c| &c.backend_errors),
    ("signatures_refused", "Requests with an invalid signature", |c| &c.signatures_refused),
    ("store_errors", "Failed reads and writes of the store", |c| &c.store_errors),
];

impl Handler for Monitoring {
    async fn handle(&self, head: Parts, _body: Bytes) -> Answered {
        match (&head.method, head.uri.path()) {
            (&Method::GET, "/" | "/live" | "/health") => self.health(),
            (&Method::GET, "/metrics") => {
                http_server::with_body(200, "text/plain; version=0.0.4", self.metrics().into())
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

    fn metrics(&self) -> String {
        let mut out = String::new();
        for (name, help, value) in COUNTERS {
            let name = format!("upesi_adapter_{name}_total");
            push(&mut out, format_args!("# HELP {name} {help}\n# TYPE {name} counter\n"));
            for dfsp in self.tenants.iter() {
                let (fsp, value) = (&dfsp.policy.fsp_id, value(&dfsp.counts));
                let value = value.load(Ordering::Relaxed);
                push(&mut out, format_args!("{name}{{dfsp=\"{fsp}\"}} {value}\n"));
            }
        }
        let name = "upesi_adapter_waits";
        let help = "Keys of callbacks and transfers that are waited for";
        push(&mut out, format_args!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
        for dfsp in self.tenants.iter() {
            let value = dfsp.outbound.len() + dfsp.inbound.len();
            let fsp = &dfsp.policy.fsp_id;
            push(&mut out, format_args!("{name}{{dfsp=\"{fsp}\"}} {value}\n"));
        }
        out
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}
