//! Allowances of client addresses: each may do something a number of times at once, and then again
//! as time passes. An IPv6 network of 64 bits counts as one address.
//!
//! Bounds: [`ADDRESSES_MAX`] addresses. Further ones share an allowance.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;

use fspiop::admission::network_of;

/// Maximum number of addresses with an allowance of their own.
const ADDRESSES_MAX: usize = 1_024;

/// The size of an allowance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// How often it can be used at once, at least 1.
    pub(crate) most: u32,
    /// Time after which one use returns, in microseconds.
    pub(crate) interval_us: u64,
}

impl Allowance {
    /// A rate, of which those of one second can be used at once after a pause.
    pub(crate) fn per_second(rate: NonZeroU32) -> Self {
        Self { most: rate.get(), interval_us: 1_000_000 / u64::from(rate.get()) }
    }
}

/// The used allowances by address. Times are in microseconds.
pub(crate) struct AddressAllowances {
    size: Allowance,
    /// When each allowance is full again.
    addresses: HashMap<IpAddr, u64>,
    /// The same for the shared allowance.
    others: u64,
}

impl AddressAllowances {
    pub(crate) fn new(size: Allowance) -> Self {
        Self { size, addresses: HashMap::new(), others: 0 }
    }

    /// Whether the address has a use left.
    pub(crate) fn is_left(&self, from: IpAddr, now_us: u64) -> bool {
        let full_at = match self.addresses.get(&network_of(from)) {
            None if self.addresses.len() < ADDRESSES_MAX => return true,
            None => self.others,
            Some(own) => *own,
        };
        let Allowance { most, interval_us } = self.size;
        full_at.saturating_sub(now_us) <= interval_us * u64::from(most - 1)
    }

    /// Counts a use.
    pub(crate) fn count(&mut self, from: IpAddr, now_us: u64) {
        let network = network_of(from);
        if ADDRESSES_MAX <= self.addresses.len() && !self.addresses.contains_key(&network) {
            self.addresses.retain(|_, full_at| now_us < *full_at);
        }
        let has_place =
            self.addresses.len() < ADDRESSES_MAX || self.addresses.contains_key(&network);
        let full_at = match has_place {
            true => self.addresses.entry(network).or_default(),
            false => &mut self.others,
        };
        *full_at = now_us.max(*full_at) + self.size.interval_us;
    }

    /// Takes a counted use back.
    pub(crate) fn give_back(&mut self, from: IpAddr) {
        let own = self.addresses.get_mut(&network_of(from)).unwrap_or(&mut self.others);
        *own = own.saturating_sub(self.size.interval_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL_US: u64 = 100;
    const MOST: u32 = 50;

    #[test]
    fn uses_of_an_address_are_bounded_and_forgotten() {
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        let size = Allowance { most: MOST, interval_us: INTERVAL_US };
        let mut allowances = AddressAllowances::new(size);
        let mut used = 0;
        while allowances.is_left(address(1), 0) {
            allowances.count(address(1), 0);
            used += 1;
        }
        assert_eq!(used, MOST);
        assert!(allowances.is_left(address(2), 0), "another address has its own allowance");
        assert!(!allowances.is_left(address(1), INTERVAL_US - 1));
        assert!(allowances.is_left(address(1), INTERVAL_US));
        allowances.give_back(address(1));
        assert!(allowances.is_left(address(1), 0));
        (2..5_000).for_each(|number| allowances.count(address(number), 1));
        assert_eq!(allowances.addresses.len(), ADDRESSES_MAX);
        assert!(!allowances.is_left(address(9_000), 1), "further addresses share an allowance");
        let later = 1 + INTERVAL_US * 5_000;
        assert!(allowances.is_left(address(9_000), later));
        allowances.count(address(9_000), later);
        assert_eq!(allowances.addresses.len(), 1, "unused allowances make room");
    }
}
