//! Resolves `host:port`: names are resolved on the blocking pool and the result is cached for
//! [`NAME_LIFETIME`].
//!
//! A resolver that does not respond blocks a thread of the blocking pool until its timeout, which
//! can be longer than that of an attempt. That pool also reads the log. So each name has at most
//! one look-up in progress, and all names of an I/O thread together have at most [`LOOKUPS_MAX`].
//! Names whose last look-up was slow may use half of these.
//!
//! **Bounds.** [`NAMES_MAX`] names are kept; beyond it those that no pool uses are dropped.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::failure::Failure;

/// Time for which a resolved name is cached.
const NAME_LIFETIME: Duration = Duration::from_secs(30);
/// Names kept; beyond it those that no pool uses are dropped.
const NAMES_MAX: usize = 16_384;
/// Maximum number of look-ups in progress.
const LOOKUPS_MAX: usize = 64;
/// A look-up that takes longer counts as slow.
const SLOW: Duration = Duration::from_secs(2);

/// The names of one thread.
#[derive(Default)]
pub(crate) struct Names {
    each: RefCell<HashMap<Rc<str>, Rc<Name>>>,
    lookups: Rc<Lookups>,
}

/// One `host:port`.
pub(crate) struct Name {
    pub(crate) authority: Rc<str>,
    pub(crate) host: HeaderValue,
    /// Whether a log line has reported that it may not be called.
    pub(crate) denied: Cell<bool>,
    addresses: RefCell<Option<(Instant, Rc<[SocketAddr]>)>>,
    lookup: Cell<Lookup>,
    /// Notified when a look-up ends.
    ended: Notify,
    lookups: Rc<Lookups>,
}

/// State of the look-ups of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lookup {
    under_way: bool,
    was_slow: bool,
}

/// Look-ups of one thread in progress.
#[derive(Debug, Default)]
struct Lookups(Cell<usize>);

impl Lookups {
    /// Takes a slot; false if none is free.
    fn begin(&self, was_slow: bool) -> bool {
        let max = if was_slow { LOOKUPS_MAX / 2 } else { LOOKUPS_MAX };
        let has_room = self.0.get() < max;
        self.0.update(|count| count + usize::from(has_room));
        has_room
    }

    fn end(&self) {
        self.0.update(|count| count - 1);
    }
}

impl Names {
    pub(crate) fn of(&self, authority: &str) -> Result<Rc<Name>, Failure> {
        let mut each = self.each.borrow_mut();
        if let Some(name) = each.get(authority) {
            return Ok(Rc::clone(name));
        }
        if NAMES_MAX <= each.len() {
            each.retain(|_, name| 1 < Rc::strong_count(name));
        }
        let name = Rc::new(Name {
            authority: authority.into(),
            host: HeaderValue::from_str(authority).map_err(|_| Failure::Connect)?,
            denied: Cell::new(false),
            addresses: RefCell::default(),
            lookup: Cell::default(),
            ended: Notify::new(),
            lookups: Rc::clone(&self.lookups),
        });
        each.insert(Rc::clone(&name.authority), Rc::clone(&name));
        Ok(name)
    }
}

impl Name {
    /// The addresses from the last look-up, or from a new one.
    pub(crate) async fn resolve(self: &Rc<Self>) -> Result<Rc<[SocketAddr]>, Failure> {
        if let Some(addresses) = self.known() {
            return Ok(addresses);
        }
        if let Ok(address) = self.authority.parse::<SocketAddr>() {
            return Ok(self.keep([address].into()));
        }
        if !self.lookup.get().under_way {
            self.look_up()?;
        }
        self.ended.notified().await;
        self.known().ok_or(Failure::Connect)
    }

    /// Drops the addresses, because none of them may be called or none responds.
    pub(crate) fn forget(&self) {
        self.addresses.take();
    }

    fn known(&self) -> Option<Rc<[SocketAddr]>> {
        let addresses = self.addresses.borrow();
        let (at, addresses) = addresses.as_ref()?;
        (at.elapsed() < NAME_LIFETIME).then(|| Rc::clone(addresses))
    }

    fn keep(&self, addresses: Rc<[SocketAddr]>) -> Rc<[SocketAddr]> {
        self.addresses.replace(Some((Instant::now(), Rc::clone(&addresses))));
        addresses
    }

    /// Starts a look-up, which outlives the attempt that requested it.
    fn look_up(self: &Rc<Self>) -> Result<(), Failure> {
        let Lookup { was_slow, .. } = self.lookup.get();
        if !self.lookups.begin(was_slow) {
            return Err(if was_slow { Failure::Connect } else { Failure::Crowded });
        }
        self.lookup.set(Lookup { under_way: true, was_slow });
        let name = Rc::clone(self);
        spawn_local(async move {
            let began = Instant::now();
            let found = tokio::net::lookup_host(&*name.authority).await;
            match found {
                Ok(addresses) => drop(name.keep(addresses.collect())),
                Err(_) => name.forget(),
            }
            name.lookup.set(Lookup { under_way: false, was_slow: SLOW < began.elapsed() });
            name.lookups.end();
            name.ended.notify_waiters();
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_names_leave_half_of_the_look_ups_to_others() {
        let lookups = Lookups::default();
        let slow = (0..LOOKUPS_MAX).filter(|_| lookups.begin(true)).count();
        assert_eq!(slow, LOOKUPS_MAX / 2);
        let others = (0..LOOKUPS_MAX).filter(|_| lookups.begin(false)).count();
        assert_eq!(others, LOOKUPS_MAX / 2);
        lookups.end();
        assert!(!lookups.begin(true), "half is still taken");
        assert!(lookups.begin(false));
    }

    #[test]
    fn names_in_use_are_kept_when_there_are_too_many() {
        let names = Names::default();
        let used = names.of("used:80").expect("it is a name");
        for number in 0..NAMES_MAX {
            drop(names.of(&format!("unused-{number}:80")).expect("it is a name"));
        }
        assert!(names.each.borrow().len() <= NAMES_MAX);
        assert!(Rc::ptr_eq(&used, &names.of("used:80").expect("it is a name")));
        assert!(names.of("no\nname:80").is_err());
    }
}
