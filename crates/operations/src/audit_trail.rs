//! Records of requests that made no change: refused ones, and reads of guarded data.
//!
//! A request is answered without waiting for its record. Requests that the log has no room for are
//! in the audit stream only, and are counted.
//!
//! Refused requests of one sender (an operator, or the network of a client without an identity) are
//! recorded one by one up to [`ALLOWANCE`], and of all senders up to [`ALLOWANCE_OF_ALL`]. Further
//! ones are counted in one record per sender and [`SUMMARY_TIME`], which describes the last of
//! them. A flood from many networks therefore adds at most about 20 records a second to the log.
//!
//! Costs: one map entry per sender. Bounds: [`SENDERS_MAX`]; further senders share an entry.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use ledger::{Administer, Change};

use crate::backend::AdminBackend;

/// Refused requests of one sender that are recorded one by one: 10, then one more a second.
const ALLOWANCE: Allowance = Allowance { most: 10, per_second: 1 };
/// The same for all senders together.
const ALLOWANCE_OF_ALL: Allowance = Allowance { most: 100, per_second: 10 };
/// Time for which further requests are counted before their record is written.
const SUMMARY_TIME: Duration = Duration::from_secs(1);
/// Maximum number of senders with an entry of their own.
const SENDERS_MAX: usize = 1_024;

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sender {
    /// Without an identity, from this network.
    Network(IpAddr),
    /// With an identity, as recorded.
    Known(String),
    /// Any other one.
    Other,
}

/// A request to record.
#[derive(Clone, Debug)]
pub(crate) struct AuditedRequest {
    /// The record.
    pub(crate) entry: Administer,
    /// Whose allowance it uses; `None` for requests that were not refused.
    pub(crate) refused: Option<Sender>,
}

/// Numbers of requests since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AuditCounts {
    pub(crate) records: u64,
    pub(crate) summarized: u64,
    pub(crate) unrecorded: u64,
}

/// Writes the records.
#[derive(Default)]
pub(crate) struct AuditTrail {
    senders: Mutex<Senders>,
    /// The same allowances for lines of the audit stream.
    lines: Mutex<Senders>,
    /// Refused requests without a line since the last line.
    omitted: AtomicU64,
    records: AtomicU64,
    summarized: AtomicU64,
    unrecorded: AtomicU64,
}

#[derive(Default)]
struct Senders {
    all: Budget,
    each: HashMap<Sender, SenderState>,
}

#[derive(Default)]
struct SenderState {
    budget: Budget,
    /// The requests that wait for their common record.
    summary: Option<Administer>,
}

#[derive(Clone, Copy)]
struct Allowance {
    most: u32,
    per_second: u32,
}

/// Requests used of an [`Allowance`] at a moment.
#[derive(Clone, Copy, Default)]
struct Budget {
    used: u32,
    since: Option<Instant>,
}

impl Budget {
    /// Gives back what the time has earned.
    fn refill(&mut self, allowance: Allowance, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let earned = (now - since).as_secs().saturating_mul(allowance.per_second.into());
        if 0 < earned {
            self.used = self.used.saturating_sub(earned.min(u32::MAX.into()) as u32);
            self.since = Some(now);
        }
    }

    /// Uses one request of the allowance, if one is left.
    fn take(&mut self, allowance: Allowance, now: Instant) -> bool {
        self.refill(allowance, now);
        let is_left = self.used < allowance.most;
        self.used += u32::from(is_left);
        is_left
    }
}

impl AuditTrail {
    /// Numbers of requests since the start.
    pub(crate) fn counts(&self) -> AuditCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AuditCounts {
            records: count(&self.records),
            summarized: count(&self.summarized),
            unrecorded: count(&self.unrecorded),
        }
    }

    /// Records a request now, or with others of its sender within [`SUMMARY_TIME`].
    pub(crate) fn record(
        self: &Arc<Self>,
        backend: &Arc<dyn AdminBackend>,
        request: AuditedRequest,
    ) {
        let AuditedRequest { entry, refused } = request;
        let Some(sender) = refused else { return self.write(&**backend, entry) };
        match self.senders().admit(sender, entry, Instant::now()) {
            Admitted::Now(entry) => self.write(&**backend, entry),
            Admitted::Joined => {}
            Admitted::Later(sender) => {
                // Weak, so that a stopping hub does not wait for the task.
                let (trail, backend) = (Arc::clone(self), Arc::downgrade(backend));
                tokio::spawn(async move { trail.summarize(sender, backend).await });
            }
        }
    }

    /// Whether a refused request of a client without an identity gets a line in the audit stream,
    /// and the number of requests before it that got none: a line for each could fill a disk.
    pub(crate) fn admit_line(&self, network: IpAddr) -> Option<u64> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        match lines.has_allowance(Sender::Network(network), Instant::now()) {
            true => Some(self.omitted.swap(0, Ordering::Relaxed)),
            false => {
                self.omitted.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    async fn summarize(&self, sender: Sender, backend: Weak<dyn AdminBackend>) {
        tokio::time::sleep(SUMMARY_TIME).await;
        let summary = self.senders().take_summary(&sender);
        let (Some(entry), Some(backend)) = (summary, backend.upgrade()) else { return };
        self.summarized.fetch_add(count_of(&entry).into(), Ordering::Relaxed);
        self.write(&*backend, entry);
    }

    fn write(&self, backend: &dyn AdminBackend, entry: Administer) {
        let count = u64::from(count_of(&entry));
        match backend.record_audit(entry) {
            true => self.records.fetch_add(1, Ordering::Relaxed),
            false => self.unrecorded.fetch_add(count, Ordering::Relaxed),
        };
    }

    fn senders(&self) -> MutexGuard<'_, Senders> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a refused request is recorded.
enum Admitted {
    /// By itself.
    Now(Administer),
    /// With others, by a task that exists.
    Joined,
    /// With others, by a task to start.
    Later(Sender),
}

impl Senders {
    /// Uses one request of the allowances of the sender and of all senders, if both have one left.
    fn has_allowance(&mut self, sender: Sender, now: Instant) -> bool {
        let sender = self.place_of(sender, now);
        let state = self.each.entry(sender).or_default();
        state.budget.take(ALLOWANCE, now) && self.all.take(ALLOWANCE_OF_ALL, now)
    }

    /// The sender, if it has an entry of its own or there is room for one.
    fn place_of(&mut self, sender: Sender, now: Instant) -> Sender {
        if SENDERS_MAX <= self.each.len() && !self.each.contains_key(&sender) {
            self.forget_idle(now);
        }
        let has_place = self.each.contains_key(&sender) || self.each.len() < SENDERS_MAX;
        if has_place { sender } else { Sender::Other }
    }

    fn admit(&mut self, sender: Sender, entry: Administer, now: Instant) -> Admitted {
        let sender = self.place_of(sender, now);
        let state = self.each.entry(sender.clone()).or_default();
        if state.summary.is_none()
            && sender != Sender::Other
            && state.budget.take(ALLOWANCE, now)
            && self.all.take(ALLOWANCE_OF_ALL, now)
        {
            return Admitted::Now(entry);
        }
        // A sender within its allowance is summarized with all others that are turned away.
        let is_flood = self.all.used == ALLOWANCE_OF_ALL.most;
        let sender = if is_flood { Sender::Other } else { sender };
        let state = self.each.entry(sender.clone()).or_default();
        match &mut state.summary {
            Some(summary) => {
                let counted = count_of(summary);
                *summary = with_count(entry, counted.saturating_add(1));
                Admitted::Joined
            }
            none => {
                *none = Some(entry);
                Admitted::Later(sender)
            }
        }
    }

    fn take_summary(&mut self, sender: &Sender) -> Option<Administer> {
        self.each.get_mut(sender)?.summary.take()
    }

    /// Removes senders that have their whole allowance again.
    fn forget_idle(&mut self, now: Instant) {
        self.each.retain(|_, state| {
            state.budget.refill(ALLOWANCE, now);
            state.summary.is_some() || 0 < state.budget.used
        });
    }
}

fn count_of(entry: &Administer) -> u32 {
    if let Change::RecordAudit(request) = &entry.change { request.requests } else { 1 }
}

fn with_count(mut entry: Administer, count: u32) -> Administer {
    if let Change::RecordAudit(request) = &mut entry.change {
        request.requests = count;
    }
    entry
}

#[cfg(test)]
mod tests {
    use ledger::{LogIndex, RecordAudit};

    use super::*;

    fn entry(path: usize) -> Administer {
        let change = RecordAudit {
            method: "GET".into(),
            path: path.to_string(),
            status: 401,
            code: 3000,
            detail: String::new(),
            requests: 1,
            record: LogIndex(0),
        };
        Administer { actor: String::new(), reason: String::new(), change: change.into() }
    }

    fn network(at: u32) -> Sender {
        Sender::Network(IpAddr::from(at.to_be_bytes()))
    }

    /// Sends requests at one moment, and returns how many are recorded, by themselves and later.
    fn flood(senders: &mut Senders, from: &[u32], times: usize, now: Instant) -> (usize, usize) {
        let (mut single, mut tasks) = (0, 0);
        for at in 0..times {
            match senders.admit(network(from[at % from.len()]), entry(at), now) {
                Admitted::Now(_) => single += 1,
                Admitted::Later(_) => tasks += 1,
                Admitted::Joined => {}
            }
        }
        (single, tasks)
    }

    #[test]
    fn one_sender_has_ten_records_and_then_one_for_all_further_requests() {
        let (mut senders, now) = (Senders::default(), Instant::now());
        assert_eq!(flood(&mut senders, &[1], 500, now), (10, 1));
        // Another one is recorded as before.
        assert_eq!(flood(&mut senders, &[2], 3, now), (3, 0));
        let summary = senders.take_summary(&network(1)).expect("a summary");
        let Change::RecordAudit(last) = &summary.change else { panic!("{summary:?}") };
        assert_eq!((last.requests, &*last.path), (490, "499"), "the last one with the count");
        // A second later one more is recorded by itself.
        let later = now + Duration::from_secs(1);
        assert_eq!(flood(&mut senders, &[1], 100, later), (1, 1));
    }

    #[test]
    fn lines_of_unknown_clients_are_bounded_and_counted() {
        let trail = AuditTrail::default();
        let network = |at: u32| IpAddr::from(at.to_be_bytes());
        let lines = (0..1_000).filter_map(|_| trail.admit_line(network(1))).count();
        assert!((10..=15).contains(&lines), "{lines}");
        assert_eq!(trail.admit_line(network(2)), Some(1_000 - lines as u64));
        let lines = (0..9_000).filter_map(|at| trail.admit_line(network(at))).count();
        assert!(lines <= 150, "{lines}");
    }

    #[test]
    fn a_flood_from_many_networks_has_an_allowance_in_common() {
        let (mut senders, now) = (Senders::default(), Instant::now());
        let networks: Vec<u32> = (0..5_000).collect();
        assert_eq!(flood(&mut senders, &networks, 50_000, now), (100, 1));
        assert!(senders.each.len() <= SENDERS_MAX + 1);
        let later = now + Duration::from_secs(1);
        senders.take_summary(&Sender::Other).expect("a summary of all networks");
        let (single, tasks) = flood(&mut senders, &networks, 50_000, later);
        assert!(single <= 10 && tasks <= 1, "{single} and {tasks} records in a second");
    }
}
