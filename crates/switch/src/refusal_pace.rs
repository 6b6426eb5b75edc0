//! Bounds on what refused requests of one address cost: beyond an allowance, each response waits
//! for [`PAUSE`], one after the other on a connection. A request of another address, and one that
//! is accepted, does not wait.
//!
//! `GET /health` counts as refused, because it is not one of a participant either. A response 5xx
//! does not count: it is not the client's fault.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::address_allowance::{AddressAllowances, Allowance};

/// Time between two refusals of one connection, once the allowance of its address is used.
const PAUSE: Duration = Duration::from_secs(1);

/// The refusals of a thread.
pub(crate) struct RefusalPace {
    /// `None` for no bound.
    allowances: Option<RefCell<AddressAllowances>>,
}

impl RefusalPace {
    /// With a number of refusals per second and address that do not wait.
    pub(crate) fn new(rate: Option<NonZeroU32>) -> Self {
        let begin = |rate| RefCell::new(AddressAllowances::new(Allowance::per_second(rate)));
        Self { allowances: rate.map(begin) }
    }

    /// Counts a refusal on a connection, whose last one is due at `due_us`. Returns the time for
    /// which it waits.
    pub(crate) fn count(&self, from: IpAddr, due_us: &Cell<u64>, now_us: u64) -> Option<Duration> {
        let mut allowances = self.allowances.as_ref()?.borrow_mut();
        if allowances.is_left(from, now_us) {
            allowances.count(from, now_us);
            return None;
        }
        due_us.set(due_us.get().max(now_us) + PAUSE.as_micros() as u64);
        Some(Duration::from_micros(due_us.get() - now_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_beyond_the_allowance_wait_one_after_the_other() {
        let pace = RefusalPace::new(NonZeroU32::new(10));
        let [one, another] = [1, 2].map(|number| IpAddr::from([10, 0, 0, number]));
        let [first, second, third] = [(); 3].map(|()| Cell::new(0));
        assert!((0..10).all(|_| pace.count(one, &first, 0).is_none()));
        assert_eq!(pace.count(one, &first, 0), Some(PAUSE));
        assert_eq!(pace.count(one, &first, 0), Some(2 * PAUSE), "of the same connection");
        assert_eq!(pace.count(one, &second, 0), Some(PAUSE), "of another connection");
        assert_eq!(pace.count(another, &third, 0), None, "another address");
        assert_eq!(pace.count(one, &first, 100_000), None, "a tenth of a second later");
        assert_eq!(RefusalPace::new(None).count(one, &first, 0), None);
    }
}
