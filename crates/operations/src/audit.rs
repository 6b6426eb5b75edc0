//! The audit trail: one event per request to the admin API that changes something, needs the token
//! or is refused. Its target is `audit`; the program decides where it is written.
//!
//! [`AuditEntry::to_record`] decides which requests are also records of the log.
//!
//! Fields: `actor` and `reason` as recorded in the log, the address `from`, `method`, `path`
//! without the query, `status`, the error `code` of a refusal, and the `log_index` of the recorded
//! change, or the name of the `dry_run`. Texts of the client are escaped. `omitted` is the number
//! of refused requests before it that have no line ([`AuditTrail::admit_line`]).

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fspiop::admission::network_of;
use fspiop::{PartyIdType, Refusal};
use http::StatusCode;
use http::request::Parts;
use ledger::{AUDIT_TEXT_MAX, Administer, LogIndex, RecordAudit};

use crate::audit_trail::{AuditTrail, AuditedRequest, Sender};
use crate::auth::{Credential, is_reading};
use crate::backend::ChangeAuthor;
use crate::contents::masked_identifier;
use crate::options::AuditReads;
use crate::permissions::Permission;
use crate::response::AdminResponse;
use crate::route::{MatchedResource, Route};

/// Reads of supervisors, which are never recorded unless they are refused.
const MONITORING: [&str; 3] = ["/metrics", "/health", "/state"];
/// Requests about dry runs, which change nothing.
const DRY_RUNS: &str = "/dryRuns";

/// Writes the entry of a request that is not well-formed HTTP, or whose headers are too long. The
/// HTTP library answers it before its method and path are known.
pub(crate) fn write_malformed(
    trail: &AuditTrail,
    from: IpAddr,
    status: StatusCode,
    error: &hyper::Error,
) {
    let Some(omitted) = trail.admit_line(network_of(from)) else { return };
    tracing::info!(
        target: "audit",
        %from,
        status = status.as_u16(),
        omitted = Some(omitted).filter(|count| *count != 0),
        %error,
        "malformed admin request"
    );
}

/// The facts about a request that become known while it is handled.
#[derive(Debug, Default)]
pub(crate) struct AuditEntry {
    identity: OnceLock<ChangeAuthor>,
    log_index: AtomicU64,
    has_record: AtomicBool,
    dry_run: OnceLock<String>,
    hides_reason: AtomicBool,
}

/// Takes the place of a reason with personal data.
const HIDDEN_REASON: &str = "(not recorded: it has an identifier of a party)";

impl AuditEntry {
    /// Sets the author of an authenticated request.
    pub(crate) fn identified(&self, identity: &ChangeAuthor) {
        let _only_once = self.identity.set(identity.clone());
    }

    /// Notes that the reason has personal data, which could not be erased from the audit trail.
    pub(crate) fn hide_reason(&self) {
        self.hides_reason.store(true, Ordering::Relaxed);
    }

    /// The author with the reason as it is recorded.
    fn author(&self) -> Option<ChangeAuthor> {
        let mut author = self.identity.get()?.clone();
        if self.hides_reason.load(Ordering::Relaxed) {
            author.reason = HIDDEN_REASON.to_owned();
        }
        Some(author)
    }

    /// Sets the dry run that the request belongs to.
    pub(crate) fn is_dry_run(&self, name: &str) {
        let _only_once = self.dry_run.set(name.to_owned());
    }

    /// Sets the record of the change.
    pub(crate) fn recorded(&self, log_index: LogIndex) {
        self.log_index.store(log_index.0, Ordering::Relaxed);
        self.has_own_record();
    }

    /// Notes that the request has a record of its own.
    pub(crate) fn has_own_record(&self) {
        self.has_record.store(true, Ordering::Relaxed);
    }

    /// The record of a request that made no change; `None` if it is not recorded.
    ///
    /// Recorded are all refused changes and actions, requests that were refused for their identity,
    /// permission or rate, actions that have no record of their own, and the chosen reads. Left out
    /// are dry runs, monitoring, and answers of a hub without room or leader (503).
    pub(crate) fn to_record(
        &self,
        head: &Parts,
        (from, reads): (IpAddr, AuditReads),
        matched: Option<&MatchedResource>,
        result: &Result<AdminResponse, Refusal>,
    ) -> Option<AuditedRequest> {
        let (status, refusal) = match result {
            Ok(response) => (response.status(), None),
            Err(refusal) => (refusal.status, Some(refusal)),
        };
        if self.dry_run.get().is_some() || status == StatusCode::SERVICE_UNAVAILABLE {
            return None;
        }
        let is_wanted = is_turned_away(status)
            || match is_reading(&head.method) {
                true => is_wanted_read(head, matched, reads),
                false => refusal.is_some() || !self.is_recorded_otherwise(head),
            };
        if !is_wanted {
            return None;
        }
        let identity = self.identity.get();
        let unknown = || ChangeAuthor {
            actor: format!("{} {from}", Credential::None),
            reason: String::new(),
        };
        let ChangeAuthor { actor, reason } = self.author().unwrap_or_else(unknown);
        let refused = refusal.map(|_| match identity {
            Some(known) => Sender::Known(known.actor.clone()),
            None => Sender::Network(network_of(from)),
        });
        let change = RecordAudit {
            method: cut(head.method.as_str()),
            path: recorded_path(head.uri.path()),
            status: status.as_u16(),
            code: refusal.map_or(0, |refusal| refusal.code.number()),
            detail: cut(refusal.map_or("", |refusal| &refusal.description)),
            requests: 1,
            record: LogIndex(self.log_index.load(Ordering::Relaxed)),
        };
        Some(AuditedRequest { entry: Administer { actor, reason, change: change.into() }, refused })
    }

    /// Whether a request that was not refused needs no record.
    fn is_recorded_otherwise(&self, head: &Parts) -> bool {
        self.has_record.load(Ordering::Relaxed) || head.uri.path().starts_with(DRY_RUNS)
    }

    /// Writes the entry. Reads that need no token are left out unless they were refused; refused
    /// requests of clients without an identity are bounded.
    pub(crate) fn write(
        &self,
        trail: &AuditTrail,
        head: &Parts,
        from: IpAddr,
        result: &Result<AdminResponse, Refusal>,
    ) {
        let identity = self.author();
        if is_reading(&head.method) && identity.is_none() && result.is_ok() {
            return;
        }
        let (status, code) = match result {
            Ok(response) => (response.status(), None),
            Err(refusal) => (refusal.status, Some(refusal.code.number())),
        };
        let omitted = match identity.is_none() && result.is_err() {
            true => trail.admit_line(network_of(from)),
            false => Some(0),
        };
        let Some(omitted) = omitted else { return };
        let log_index = Some(self.log_index.load(Ordering::Relaxed)).filter(|index| *index != 0);
        tracing::info!(
            target: "audit",
            actor = identity.as_ref().map(|it| &*it.actor),
            reason = identity.as_ref().map(|it| &*it.reason).filter(|reason| !reason.is_empty()),
            %from,
            method = %head.method,
            path = recorded_path(head.uri.path()),
            status = status.as_u16(),
            code,
            log_index,
            dry_run = self.dry_run.get().map(String::as_str),
            omitted = Some(omitted).filter(|count| *count != 0),
            "admin request"
        );
    }
}

/// Whether a request was refused for its identity, its permission or its rate.
fn is_turned_away(status: StatusCode) -> bool {
    let refusals = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
    refusals.contains(&status)
}

/// Whether a read is recorded, also if it finds nothing.
fn is_wanted_read(head: &Parts, matched: Option<&MatchedResource>, reads: AuditReads) -> bool {
    let Some(matched) = matched else { return false };
    if MONITORING.contains(&matched.resource.path) {
        return false;
    }
    let route: Option<&Route> = matched.resource.route(&head.method);
    let is_sensitive = |route: &Route| {
        route.unmasks.is_some() || route.permission.is_some_and(|it| it != Permission::Read)
    };
    match reads {
        AuditReads::None => false,
        AuditReads::Sensitive => route.is_some_and(is_sensitive),
        AuditReads::All => true,
    }
}

/// A path within the bound of the record, with identifiers of parties masked: a record is never
/// erased. Also masks all after a type of identifiers, and after a party, in mistyped paths.
pub(crate) fn recorded_path(path: &str) -> String {
    let segments: Vec<_> = path.split('/').collect();
    let is_type = |text: &&str| PartyIdType::parse(&text.to_ascii_uppercase()).is_some();
    let is_party = |text: &&str| ["parties", "party"].contains(&&*text.to_ascii_lowercase());
    let after_party = segments.iter().position(is_party).map(|at| at + 1);
    let at = segments.iter().position(is_type).or(after_party);
    let Some(at) = at else { return cut(path) };
    let masked = |(number, text): (usize, &&str)| match number <= at {
        true => (*text).to_owned(),
        false => masked_identifier(text),
    };
    let masked: Vec<_> = segments.iter().enumerate().map(masked).collect();
    cut(&masked.join("/"))
}

/// A text within the bound of the record.
fn cut(text: &str) -> String {
    let ends = (0..=text.len().min(AUDIT_TEXT_MAX)).rev();
    let end = { ends }.find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_in_recorded_paths_are_masked() {
        for (path, recorded) in [
            ("/parties/MSISDN/254700000001", "/parties/MSISDN/**********01"),
            ("/participants/MSISDN/%2B2547/shop", "/participants/MSISDN/%******/****"),
            ("/dryRuns/a/parties/EMAIL/a@b.org", "/dryRuns/a/parties/EMAIL/*@*.***"),
            ("/participants/dfsp1/accounts/1", "/participants/dfsp1/accounts/1"),
            ("/parties/msisdn/254700000001", "/parties/msisdn/**********01"),
            ("//parties//MSISDN/254700000001", "//parties//MSISDN/**********01"),
            ("/Party/PHONE/254700000001", "/Party/PHONE/**********01"),
            ("/x/alias/254700000001", "/x/alias/**********01"),
            ("/parties", "/parties"),
        ] {
            assert_eq!(recorded_path(path), recorded);
        }
    }
}
