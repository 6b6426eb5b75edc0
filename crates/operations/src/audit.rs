//! The audit trail: one event per request to the admin API that changes something, needs the token
//! or is refused. Its target is `audit`; the program decides where it is written.
//!
//! Fields: `actor` and `reason` as recorded in the log, the address `from`, `method`, `path`
//! without the query, `status`, the error `code` of a refusal, and the `log_index` of the recorded
//! change, or the name of the `dry_run`. Texts of the client are escaped.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use fspiop::Refusal;
use http::request::Parts;
use http::{Method, StatusCode};
use ledger::LogIndex;

use crate::backend::ChangeAuthor;
use crate::response::AdminResponse;

/// Writes the entry of a request that is not well-formed HTTP, or whose headers are too long. The
/// HTTP library answers it before its method and path are known.
pub(crate) fn write_malformed(from: IpAddr, status: StatusCode, error: &hyper::Error) {
    tracing::info!(
        target: "audit",
        %from,
        status = status.as_u16(),
        %error,
        "malformed admin request"
    );
}

/// The facts about a request that become known while it is handled.
#[derive(Debug, Default)]
pub(crate) struct AuditEntry {
    identity: OnceLock<ChangeAuthor>,
    log_index: AtomicU64,
    dry_run: OnceLock<String>,
}

impl AuditEntry {
    /// Sets the author of an authenticated request.
    pub(crate) fn identified(&self, identity: &ChangeAuthor) {
        let _only_once = self.identity.set(identity.clone());
    }

    /// Sets the dry run that the request belongs to.
    pub(crate) fn is_dry_run(&self, name: &str) {
        let _only_once = self.dry_run.set(name.to_owned());
    }

    /// Sets the record of the change.
    pub(crate) fn recorded(&self, log_index: LogIndex) {
        self.log_index.store(log_index.0, Ordering::Relaxed);
    }

    /// Writes the entry. Reads that need no token are left out unless they were refused.
    pub(crate) fn write(
        &self,
        head: &Parts,
        from: IpAddr,
        result: &Result<AdminResponse, Refusal>,
    ) {
        let is_reading = matches!(head.method, Method::GET | Method::HEAD);
        let identity = self.identity.get();
        if is_reading && identity.is_none() && result.is_ok() {
            return;
        }
        let (status, code) = match result {
            Ok(response) => (response.status(), None),
            Err(refusal) => (refusal.status, Some(refusal.code.number())),
        };
        let log_index = Some(self.log_index.load(Ordering::Relaxed)).filter(|index| *index != 0);
        tracing::info!(
            target: "audit",
            actor = identity.map(|it| &*it.actor),
            reason = identity.map(|it| &*it.reason).filter(|reason| !reason.is_empty()),
            %from,
            method = %head.method,
            path = head.uri.path(),
            status = status.as_u16(),
            code,
            log_index,
            dry_run = self.dry_run.get().map(String::as_str),
            "admin request"
        );
    }
}
