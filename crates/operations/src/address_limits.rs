//! Bounds on the requests of one address: how many per second, and how many at a time. A request
//! beyond them gets 429 before its token is checked.
//!
//! The rate is measured by the time at which the next request would be due if the address sent at
//! exactly its rate. A pause lets at most one second's requests come at once. IPv6 addresses of one
//! /64 network count as one. Without bounds nothing is counted.
//!
//! Costs: one map entry per address that sent within the last second. Bound: [`ADDRESSES_MAX`];
//! further addresses share an entry.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fspiop::admission::network_of;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;

/// Maximum number of addresses with an entry of their own.
const ADDRESSES_MAX: usize = 1_024;
/// Time whose requests may come at once.
const BURST: Duration = Duration::from_secs(1);

/// Bounds on the requests of one address; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressLimits {
    /// Requests per second; `None` for no limit.
    pub rate: Option<NonZeroU32>,
    /// Requests that are being received or answered at a time; `None` for no limit.
    pub in_progress: Option<NonZeroU32>,
}

/// The requests of all addresses.
#[derive(Default)]
pub(crate) struct AddressUsage {
    limits: AddressLimits,
    addresses: Mutex<HashMap<Option<IpAddr>, Usage>>,
    refused: AtomicU64,
}

#[derive(Default)]
struct Usage {
    /// Time at which the next request is due.
    due: Option<Instant>,
    in_progress: u32,
}

/// A request in progress, until it is dropped.
pub(crate) struct AddressGuard<'a> {
    usage: &'a AddressUsage,
    /// The entry, if requests are counted.
    address: Option<Option<IpAddr>>,
}

impl AddressUsage {
    pub(crate) fn new(limits: AddressLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Requests that were refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a request.
    ///
    /// # Errors
    /// 429 beyond a bound. The request is not counted.
    pub(crate) fn begin(&self, from: IpAddr, now: Instant) -> Result<AddressGuard<'_>, Refusal> {
        if self.limits == AddressLimits::default() {
            return Ok(AddressGuard { usage: self, address: None });
        }
        let admitted = self.admit(network_of(from), now);
        admitted.inspect_err(|_| {
            self.refused.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn admit(&self, address: IpAddr, now: Instant) -> Result<AddressGuard<'_>, Refusal> {
        let mut addresses = self.addresses();
        if ADDRESSES_MAX <= addresses.len() && !addresses.contains_key(&Some(address)) {
            addresses.retain(|_, usage| !usage.is_idle(now));
        }
        let is_known = addresses.contains_key(&Some(address));
        let key = (is_known || addresses.len() < ADDRESSES_MAX).then_some(address);
        let usage = addresses.entry(key).or_default();
        if let Some(most) = self.limits.in_progress.filter(|most| most.get() <= usage.in_progress) {
            return Err(too_many(&format!("an address may have {most} requests in progress")));
        }
        if let Some(rate) = self.limits.rate
            && !usage.take_turn(rate, now)
        {
            return Err(too_many(&format!("an address may send {rate} requests per second")));
        }
        usage.in_progress += 1;
        Ok(AddressGuard { usage: self, address: Some(key) })
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, Usage>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usage {
    /// Whether the rate allows a request now.
    fn take_turn(&mut self, rate: NonZeroU32, now: Instant) -> bool {
        let interval = BURST / rate.get();
        let due = self.due.map_or(now, |due| due.max(now));
        let is_allowed = due - now <= BURST - interval;
        if is_allowed {
            self.due = Some(due + interval);
        }
        is_allowed
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.in_progress == 0 && self.due.is_none_or(|due| due <= now)
    }
}

impl Drop for AddressGuard<'_> {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        if let Some(usage) = self.usage.addresses().get_mut(&address) {
            usage.in_progress -= 1;
        }
    }
}

fn too_many(detail: &str) -> Refusal {
    let refusal = Refusal::new(ErrorCode::SERVICE_UNAVAILABLE, detail);
    Refusal { status: StatusCode::TOO_MANY_REQUESTS, ..refusal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(rate: u32, in_progress: u32) -> AddressUsage {
        let [rate, in_progress] = [rate, in_progress].map(NonZeroU32::new);
        AddressUsage::new(AddressLimits { rate, in_progress })
    }

    fn address(at: u32) -> IpAddr {
        at.to_be_bytes().into()
    }

    /// How many of the requests of an address are accepted at one moment.
    fn accepted(usage: &AddressUsage, from: IpAddr, times: usize, now: Instant) -> usize {
        (0..times).filter(|_| usage.begin(from, now).is_ok()).count()
    }

    #[test]
    fn an_address_has_its_rate_whatever_others_send() {
        let (usage, now) = (usage(10, 0), Instant::now());
        assert_eq!(accepted(&usage, address(1), 30, now), 10);
        assert_eq!(accepted(&usage, address(2), 30, now), 10);
        assert_eq!(accepted(&usage, address(1), 30, now + BURST / 2), 5);
        assert_eq!(accepted(&usage, address(1), 30, now + BURST * 60), 10, "one second's at most");
        assert_eq!(usage.refused(), 20 + 20 + 25 + 20);
    }

    #[test]
    fn requests_at_a_time_are_bounded_until_they_end() {
        let (usage, now) = (usage(0, 2), Instant::now());
        let begin = || usage.begin(address(1), now);
        let first = begin().ok();
        let second = begin().ok();
        let refusal = begin().err().expect("a third one");
        assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(refusal.description.contains("2 requests in progress"), "{}", refusal.description);
        assert!(usage.begin(address(2), now).is_ok(), "another address");
        drop((first, second));
        assert!(begin().is_ok());
    }

    #[test]
    fn addresses_beyond_the_bound_share_an_entry() {
        let (usage, now) = (usage(1, 0), Instant::now());
        let all = (0..3_000).filter(|at| usage.begin(address(*at), now).is_ok()).count();
        assert_eq!(all, ADDRESSES_MAX + 1);
        assert_eq!(usage.addresses().len(), ADDRESSES_MAX + 1);
        // Idle entries are given to others.
        assert!(usage.begin(address(5_000), now + BURST).is_ok());
        assert!(usage.addresses().len() <= 2);
    }

    #[test]
    fn nothing_is_counted_without_bounds() {
        let (usage, now) = (usage(0, 0), Instant::now());
        assert_eq!(accepted(&usage, address(1), 10_000, now), 10_000);
        assert!(usage.addresses().is_empty());
    }
}
