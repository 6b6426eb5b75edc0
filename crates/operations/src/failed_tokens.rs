//! Failed authentication: counted, logged at a bounded rate, and slowed down.
//!
//! Each address has an allowance of failures that refills over time. A failure beyond it is
//! answered 1 s later, or with 429 if too many responses are already delayed. A valid token is
//! always accepted at once, so that failures of others from the same address, such as a gateway's,
//! do not lock an operator out.
//!
//! Costs: one map entry per address. Bounds: [`ADDRESSES_MAX`], [`DELAYED_MAX`]; addresses beyond
//! the bound share one allowance.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fspiop::admission::network_of;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use tokio::sync::Semaphore;

/// Failures of one address that are answered at once.
const ALLOWANCE_MAX: u32 = 10;
/// Time until one more failure is allowed.
const ALLOWANCE_TIME: Duration = Duration::from_secs(2);
/// Delay of the response to a failure beyond the allowance.
const DELAY: Duration = Duration::from_secs(1);
/// Maximum number of delayed responses.
const DELAYED_MAX: usize = 16;
/// Maximum number of addresses with an allowance of their own.
const ADDRESSES_MAX: usize = 1_024;
/// Minimum time between two log lines.
const REPORT_TIME: Duration = Duration::from_secs(10);

/// The failures of one kind, of all addresses.
pub(crate) struct FailedTokens {
    kind: FailureKind,
    count: AtomicU64,
    delayed: Semaphore,
    failures: Mutex<FailureCount>,
}

/// A kind of failures. Each has allowances of its own, so that one who guesses tokens does not slow
/// the logins of others at the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Token,
    Login,
}

impl FailureKind {
    const fn text(self) -> &'static str {
        match self {
            Self::Token => "requests without a valid token",
            Self::Login => "failed logins",
        }
    }
}

#[derive(Default)]
struct FailureCount {
    addresses: HashMap<IpAddr, FailureBudget>,
    /// The shared allowance of addresses beyond the bound.
    others: Option<FailureBudget>,
    unreported: u64,
    reported: Option<Instant>,
    /// A task waits to log the failures.
    is_report_due: bool,
}

/// Remaining failures of an address at a moment.
#[derive(Clone, Copy)]
struct FailureBudget {
    left: u32,
    since: Instant,
}

impl FailedTokens {
    pub(crate) fn new(kind: FailureKind) -> Self {
        Self {
            kind,
            count: AtomicU64::new(0),
            delayed: Semaphore::new(DELAYED_MAX),
            failures: Mutex::default(),
        }
    }

    /// Failures since the start.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a failure of an address, and returns its response when due: `refusal`, or 429 if too
    /// many responses are delayed.
    pub(crate) async fn refuse(self: &Arc<Self>, address: IpAddr, refusal: Refusal) -> Refusal {
        self.count.fetch_add(1, Ordering::Relaxed);
        let (allowed, report) = self.count_failure(network_of(address), Instant::now());
        match report {
            Some(count) => self.log(count, address),
            None => self.report_later(address),
        }
        if allowed {
            return refusal;
        }
        let Ok(_delayed) = self.delayed.try_acquire() else {
            let detail = format!("too many {}; retry after 1 s", self.kind.text());
            let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, &detail);
            return Refusal { status: StatusCode::TOO_MANY_REQUESTS, ..refusal };
        };
        tokio::time::sleep(DELAY).await;
        refusal
    }

    /// Logs the failures until then at the end of [`REPORT_TIME`], so that the last ones of an
    /// attack are logged too. At most one task waits.
    fn report_later(self: &Arc<Self>, address: IpAddr) {
        if std::mem::replace(&mut self.failures().is_report_due, true) {
            return;
        }
        let failed = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(REPORT_TIME).await;
            if let Some(count) = failed.take_unreported(Instant::now()) {
                failed.log(count, address);
            }
        });
    }

    /// The failures that were not logged, at the end of a task.
    fn take_unreported(&self, now: Instant) -> Option<u64> {
        let mut failures = self.failures();
        failures.is_report_due = false;
        let count = std::mem::take(&mut failures.unreported);
        (count != 0).then(|| {
            failures.reported = Some(now);
            count
        })
    }

    fn log(&self, count: u64, address: IpAddr) {
        tracing::warn!(count, last_from = %address, "admin {}", self.kind.text());
    }

    fn failures(&self) -> MutexGuard<'_, FailureCount> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the failure is within the allowance, and the number of failures to log.
    fn count_failure(&self, address: IpAddr, now: Instant) -> (bool, Option<u64>) {
        let mut failures = self.failures();
        failures.unreported += 1;
        let is_due = failures.reported.is_none_or(|last| REPORT_TIME <= now - last);
        let report = is_due.then(|| {
            failures.reported = Some(now);
            std::mem::take(&mut failures.unreported)
        });
        (failures.allowance(address, now).take(now), report)
    }
}

impl FailureCount {
    fn allowance(&mut self, address: IpAddr, now: Instant) -> &mut FailureBudget {
        if ADDRESSES_MAX <= self.addresses.len() && !self.addresses.contains_key(&address) {
            self.addresses.retain(|_, allowance| !allowance.is_full(now));
        }
        let whole = FailureBudget { left: ALLOWANCE_MAX, since: now };
        match self.addresses.len() < ADDRESSES_MAX || self.addresses.contains_key(&address) {
            true => self.addresses.entry(address).or_insert(whole),
            false => self.others.get_or_insert(whole),
        }
    }
}

impl FailureBudget {
    /// The allowance that is added for the time since its last use.
    fn refill(&self, now: Instant) -> u32 {
        let times = (now - self.since).as_millis() / ALLOWANCE_TIME.as_millis();
        u32::try_from(times).unwrap_or(u32::MAX)
    }

    fn is_full(&self, now: Instant) -> bool {
        ALLOWANCE_MAX <= self.left.saturating_add(self.refill(now))
    }

    /// Takes one; false when none is left.
    fn take(&mut self, now: Instant) -> bool {
        let refill = self.refill(now);
        self.since += ALLOWANCE_TIME * refill;
        self.left = self.left.saturating_add(refill).min(ALLOWANCE_MAX);
        let allowed = 0 < self.left;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn an_address_has_an_allowance_that_comes_back() {
        let failed = FailedTokens::new(FailureKind::Token);
        let start = Instant::now();
        let mut now = start;
        let allowed = |at: u32, now| failed.count_failure(address(at), now).0;
        let at_once = (0..20).filter(|_| allowed(1, now)).count();
        assert_eq!(at_once, ALLOWANCE_MAX as usize);
        assert!(allowed(2, now), "another address has its own allowance");
        now += ALLOWANCE_TIME * 3;
        let later = (0..20).filter(|_| allowed(1, now)).count();
        assert_eq!(later, 3);
        now += ALLOWANCE_TIME * 1_000;
        let at_last = (0..20).filter(|_| allowed(1, now)).count();
        assert_eq!(at_last, ALLOWANCE_MAX as usize, "the allowance does not exceed its maximum");
    }

    #[test]
    fn addresses_beyond_the_bound_share_an_allowance() {
        let failed = FailedTokens::new(FailureKind::Token);
        let now = Instant::now();
        let allowed = |at: u32, now| failed.count_failure(address(at), now).0;
        assert!((0..ADDRESSES_MAX as u32).all(|at| allowed(at, now)));
        let others = (5_000..5_100).filter(|at| allowed(*at, now)).count();
        assert_eq!(others, ALLOWANCE_MAX as usize);
        assert!(allowed(0, now), "known addresses keep their allowance");
        let later = now + ALLOWANCE_TIME * (ALLOWANCE_MAX + 1);
        assert!(
            (5_000..5_100).all(|at| allowed(at, later)),
            "full allowances are dropped for new addresses"
        );
        let known = failed.failures.lock().expect("nothing panicked").addresses.len();
        assert!(known <= ADDRESSES_MAX, "{known}");
    }

    /// The last failures of an attack, after which none follows.
    #[test]
    fn the_last_failures_are_logged() {
        let failed = FailedTokens::new(FailureKind::Token);
        let start = Instant::now();
        let reports = (0..7).filter_map(|_| failed.count_failure(address(1), start).1);
        assert_eq!(reports.collect::<Vec<_>>(), [1]);
        let later = start + REPORT_TIME;
        assert_eq!(failed.take_unreported(later), Some(6));
        assert_eq!(failed.take_unreported(later), None);
        assert_eq!(failed.count_failure(address(1), later).1, None, "one was logged just now");
        assert_eq!(failed.count_failure(address(1), later + REPORT_TIME).1, Some(2));
    }

    #[test]
    fn the_log_has_a_line_at_most_every_ten_seconds() {
        let failed = FailedTokens::new(FailureKind::Token);
        let start = Instant::now();
        let reports: Vec<_> = (0..250_u32)
            .filter_map(|at| {
                failed.count_failure(address(1), start + Duration::from_millis(100) * at).1
            })
            .collect();
        assert_eq!(reports, [1, 100, 100]);
    }
}
