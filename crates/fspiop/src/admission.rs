//! Admission of connections to a listener: limits in total and per address, and the choice of the
//! connection to evict when they are reached.
//!
//! A client that keeps the hub waiting can be disconnected, one with a request in progress cannot.
//! A new connection evicts the one that has kept the hub waiting longest: first one that never sent
//! a whole request, then one that is idle after a response. Silent connections therefore never
//! block a listener, not even for other clients at their own address.
//!
//! Costs: every call takes constant time; [`Admission::begin`] and [`Admission::end`] do not
//! allocate. Bounds: [`AdmissionLimits`], which apply to admitted connections; the driver closes
//! evicted ones.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;

/// Limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Connections in total.
    pub total: usize,
    /// Connections per address, or per IPv6 network of 64 bits.
    pub per_address: usize,
}

/// The connections of a listener, each with the driver's data about it.
#[derive(Debug)]
pub struct Admission<H> {
    bounds: AdmissionLimits,
    slots: Vec<Slot<H>>,
    vacant: Vec<u32>,
    shares: Vec<Share>,
    vacant_shares: Vec<u32>,
    addresses: HashMap<IpAddr, u32>,
    waiting: [Queue; CLASSES],
}

/// Identifies a connection. Invalid once the connection was removed or evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId {
    slot: u32,
    generation: u32,
}

/// An admitted connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted<H> {
    /// Its id.
    pub place: ConnectionId,
    /// The evicted connection, for the driver to close.
    pub evicted: Option<H>,
}

/// Classes of connections that the hub waits for, in the order of eviction.
const CLASSES: usize = 2;
/// Never sent a whole request.
const FRESH: usize = 0;
/// Got a response to a request.
const IDLE: usize = 1;

/// The queue of all connections, and that of an address.
const CHAINS: usize = 2;
const OF_ALL: usize = 0;
const OF_ADDRESS: usize = 1;

/// Marks the absence of a slot.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<H> {
    generation: u32,
    held: Option<ConnectionEntry<H>>,
}

#[derive(Debug)]
struct ConnectionEntry<H> {
    holder: H,
    share: u32,
    /// Number of requests in progress.
    serving: u32,
    class: usize,
    links: [Link; CHAINS],
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

/// The connections of one address.
#[derive(Debug)]
struct Share {
    address: IpAddr,
    count: usize,
    waiting: [Queue; CLASSES],
}

/// A queue through slots, oldest first.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

const UNLINKED: Link = Link { before: NONE, after: NONE };
const EMPTY: Queue = Queue { first: NONE, last: NONE };

impl<H> Admission<H> {
    /// A table without connections.
    #[must_use]
    pub fn new(bounds: AdmissionLimits) -> Self {
        Self {
            bounds,
            slots: Vec::new(),
            vacant: Vec::new(),
            shares: Vec::new(),
            vacant_shares: Vec::new(),
            addresses: HashMap::new(),
            waiting: [EMPTY; CLASSES],
        }
    }

    /// Number of connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Whether there are no connections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The driver's data of all connections, in no particular order.
    pub fn holders(&self) -> impl Iterator<Item = &H> {
        self.slots.iter().filter_map(|slot| Some(&slot.held.as_ref()?.holder))
    }

    /// Admits a connection from `address`; evicts another one if no place is free.
    ///
    /// Returns the holder if every connection that could be evicted has a request in progress.
    pub fn admit(&mut self, address: IpAddr, holder: H) -> Result<Admitted<H>, H> {
        let address = network_of(address);
        let share = self.addresses.get(&address).copied();
        let own = share.map(|share| &self.shares[share as usize]);
        let victims = match own {
            Some(own) if self.bounds.per_address <= own.count => Some(own.waiting),
            _ if self.bounds.total <= self.len() => Some(self.waiting),
            _ => None,
        };
        let mut evicted = None;
        if let Some(queues) = victims {
            match queues.iter().find(|queue| queue.first != NONE) {
                Some(queue) => evicted = Some(self.take(queue.first)),
                None => return Err(holder),
            }
        }
        let share = self.share_of(address);
        let place = self.seat(holder, share);
        Ok(Admitted { place, evicted })
    }

    /// Notes that a whole request has arrived. Its connection cannot be evicted.
    pub fn begin(&mut self, place: ConnectionId) {
        let Some(held) = self.held(place) else { return };
        held.serving += 1;
        if held.serving == 1 {
            self.unlink(place.slot);
        }
    }

    /// Notes that a request was answered or given up, whether or not it was complete. The hub waits
    /// for the client again.
    pub fn end(&mut self, place: ConnectionId, whole: RequestComplete) {
        let Some(held) = self.held(place) else { return };
        if whole == RequestComplete::Yes {
            held.serving -= 1;
        }
        if held.serving == 0 {
            if whole == RequestComplete::No {
                self.unlink(place.slot);
            }
            self.link(place.slot, IDLE);
        }
    }

    /// Removes a connection and returns its holder; `None` if it was evicted.
    pub fn remove(&mut self, place: ConnectionId) -> Option<H> {
        self.held(place)?;
        Some(self.take(place.slot))
    }

    fn held(&mut self, place: ConnectionId) -> Option<&mut ConnectionEntry<H>> {
        let slot = &mut self.slots[place.slot as usize];
        slot.held.as_mut().filter(|_| slot.generation == place.generation)
    }

    fn share_of(&mut self, address: IpAddr) -> u32 {
        if let Some(share) = self.addresses.get(&address) {
            return *share;
        }
        let new = Share { address, count: 0, waiting: [EMPTY; CLASSES] };
        let share = match self.vacant_shares.pop() {
            Some(vacant) => {
                self.shares[vacant as usize] = new;
                vacant
            }
            None => {
                self.shares.push(new);
                self.shares.len() as u32 - 1
            }
        };
        self.addresses.insert(address, share);
        share
    }

    fn seat(&mut self, holder: H, share: u32) -> ConnectionId {
        self.shares[share as usize].count += 1;
        let held =
            ConnectionEntry { holder, share, serving: 0, class: FRESH, links: [UNLINKED; CHAINS] };
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, held: None });
            self.slots.len() as u32 - 1
        });
        let free = &mut self.slots[slot as usize];
        free.held = Some(held);
        let generation = free.generation;
        self.link(slot, FRESH);
        ConnectionId { slot, generation }
    }

    /// Empties an occupied slot.
    fn take(&mut self, slot: u32) -> H {
        self.unlink(slot);
        let free = &mut self.slots[slot as usize];
        free.generation = free.generation.wrapping_add(1);
        let held = free.held.take().expect("the slot is taken");
        self.vacant.push(slot);
        let share = &mut self.shares[held.share as usize];
        share.count -= 1;
        if share.count == 0 {
            self.addresses.remove(&share.address);
            self.vacant_shares.push(held.share);
        }
        held.holder
    }

    /// Appends a slot to both queues of a class.
    fn link(&mut self, slot: u32, class: usize) {
        for chain in [OF_ALL, OF_ADDRESS] {
            let last = self.queue(slot, class, chain).last;
            match last {
                NONE => self.queue(slot, class, chain).first = slot,
                last => self.links(last)[chain].after = slot,
            }
            self.queue(slot, class, chain).last = slot;
            self.links(slot)[chain] = Link { before: last, after: NONE };
        }
        self.at(slot).class = class;
    }

    /// Removes a slot from both its queues, if it is in any.
    fn unlink(&mut self, slot: u32) {
        let class = self.at(slot).class;
        for chain in [OF_ALL, OF_ADDRESS] {
            let Link { before, after } = self.links(slot)[chain];
            let is_first = self.queue(slot, class, chain).first == slot;
            match (before, is_first) {
                (NONE, false) => continue,
                (NONE, true) => self.queue(slot, class, chain).first = after,
                (before, _) => self.links(before)[chain].after = after,
            }
            match after {
                NONE => self.queue(slot, class, chain).last = before,
                after => self.links(after)[chain].before = before,
            }
            self.links(slot)[chain] = UNLINKED;
        }
    }

    fn queue(&mut self, slot: u32, class: usize, chain: usize) -> &mut Queue {
        match chain {
            OF_ALL => &mut self.waiting[class],
            _ => {
                let share = self.at(slot).share;
                &mut self.shares[share as usize].waiting[class]
            }
        }
    }

    fn links(&mut self, slot: u32) -> &mut [Link; CHAINS] {
        &mut self.at(slot).links
    }

    fn at(&mut self, slot: u32) -> &mut ConnectionEntry<H> {
        self.slots[slot as usize].held.as_mut().expect("a linked slot is taken")
    }
}

/// Whether a request had arrived completely, so that [`Admission::begin`] was called for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestComplete {
    /// It had.
    Yes,
    /// It had not.
    No,
}

/// The unit of the limit per address: the owner of an IPv6 network has 64 bits of addresses.
#[must_use]
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn limits_apply_in_total_and_per_address() {
        let mut table = Admission::new(AdmissionLimits { total: 3, per_address: 2 });
        let mut admit = |text: &str, name: &'static str| {
            let admitted = table.admit(address(text), name)?;
            table.begin(admitted.place);
            assert_eq!(admitted.evicted, None);
            Ok::<_, &str>(admitted.place)
        };
        let first = admit("10.0.0.1", "a").expect("the first");
        let mapped = admit("::ffff:10.0.0.1", "b").expect("the same address in another form");
        assert_eq!(admit("10.0.0.1", "c"), Err("c"), "two from there");
        let other = admit("fd00::1", "d").expect("from elsewhere");
        assert_eq!(admit("10.0.0.3", "e"), Err("e"), "three in all");
        assert_eq!(table.remove(first), Some("a"));
        assert_eq!(table.remove(first), None);
        let near = table.admit(address("fd00::ffff"), "f").expect("a place came back");
        let left = [mapped, other, near.place].map(|place| table.remove(place));
        assert_eq!(left, [Some("b"), Some("d"), Some("f")]);
        assert!(table.is_empty() && table.addresses.is_empty());
    }

    #[test]
    fn oldest_silent_connection_is_evicted() {
        let mut table = Admission::new(AdmissionLimits { total: 4, per_address: 3 });
        let [here, there] = ["10.0.0.1", "10.0.0.2"].map(address);
        let mut places = Vec::new();
        for (from, name) in [(here, "a"), (here, "b"), (here, "c"), (there, "d")] {
            places.push(table.admit(from, name).expect("there is room").place);
        }
        // A connection that sent a request is evicted last, one with a request in progress never.
        table.begin(places[0]);
        table.end(places[0], RequestComplete::Yes);
        table.begin(places[1]);
        let evicted = |admitted: Result<Admitted<&'static str>, _>| admitted.ok()?.evicted;
        assert_eq!(evicted(table.admit(here, "e")), Some("c"), "its own address is full");
        assert_eq!(evicted(table.admit(there, "f")), Some("d"), "all are taken");
        assert_eq!(evicted(table.admit(there, "g")), Some("e"));
        assert_eq!(evicted(table.admit(address("10.0.0.3"), "h")), Some("f"));
        assert_eq!(evicted(table.admit(here, "i")), Some("g"));
        let left: Vec<_> = table.holders().copied().collect();
        assert_eq!(left.len(), 4, "{left:?}");
        assert!(["a", "b", "h", "i"].iter().all(|name| left.contains(name)), "{left:?}");
        // Calls for an evicted connection change nothing.
        table.begin(places[2]);
        table.end(places[2], RequestComplete::Yes);
        assert_eq!(table.remove(places[2]), None);
        assert_eq!(table.len(), 4);
    }

    /// A connection in a naive table, with the time since when the hub waits for it.
    #[derive(Clone, Debug)]
    struct Naive {
        name: u32,
        from: IpAddr,
        place: ConnectionId,
        serving: u32,
        class: usize,
        since: u32,
    }

    fn oldest(all: &[Naive], from: Option<IpAddr>) -> Option<u32> {
        let waiting = all.iter().filter(|it| it.serving == 0);
        let there = waiting.filter(|it| from.is_none_or(|from| from == it.from));
        there.min_by_key(|it| (it.class, it.since)).map(|it| it.name)
    }

    #[test]
    fn admission_agrees_with_a_naive_table() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = |below: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (random >> 33) as usize % below
        };
        let bounds = AdmissionLimits { total: 12, per_address: 5 };
        let mut table = Admission::new(bounds);
        let mut naive: Vec<Naive> = Vec::new();
        for now in 0..40_000_u32 {
            let chosen = draw(naive.len().max(1));
            match (draw(5), naive.get_mut(chosen)) {
                (0 | 1, Some(it)) => {
                    it.serving += 1;
                    table.begin(it.place);
                }
                (2, Some(it)) => {
                    let whole =
                        if it.serving == 0 { RequestComplete::No } else { RequestComplete::Yes };
                    it.serving = it.serving.saturating_sub(1);
                    (it.class, it.since) = (IDLE, now);
                    table.end(it.place, whole);
                }
                (3, Some(it)) => {
                    assert_eq!(table.remove(it.place), Some(it.name));
                    naive.swap_remove(chosen);
                }
                _ => {
                    let from = IpAddr::from([10, 0, 0, draw(4) as u8]);
                    let of_address = naive.iter().filter(|it| it.from == from).count();
                    let victim = match (of_address, naive.len()) {
                        (count, _) if bounds.per_address <= count => oldest(&naive, Some(from)),
                        (_, count) if bounds.total <= count => oldest(&naive, None),
                        _ => Some(NONE),
                    };
                    let admitted = table.admit(from, now);
                    let found = admitted.as_ref().map(|it| it.evicted.unwrap_or(NONE));
                    assert_eq!(found.ok(), victim, "at step {now}");
                    let Ok(Admitted { place, .. }) = admitted else { continue };
                    naive.retain(|it| Some(it.name) != victim);
                    let (class, since) = (FRESH, now);
                    naive.push(Naive { name: now, from, place, serving: 0, class, since });
                }
            }
            assert_eq!(table.len(), naive.len());
        }
    }
}
