//! The connections of a listener: the places that [`fspiop::admission`] gives them, and the end of
//! one that loses its place.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fspiop::admission::{self, Admission, AdmissionLimits, Admitted, RequestComplete};
use tokio::sync::Notify;

/// The open connections of a listener.
pub(crate) struct Connections {
    places: Mutex<Admission<Arc<Notify>>>,
    evicted: AtomicU64,
    refused: AtomicU64,
}

/// A connection's place, until it is dropped.
pub(crate) struct ConnectionPermit {
    connections: Arc<Connections>,
    place: admission::ConnectionId,
    evicted: Arc<Notify>,
}

/// A whole request that is being answered, until it is dropped. Its connection keeps its place.
pub(crate) struct RequestGuard<'a>(&'a ConnectionPermit);

impl Connections {
    pub(crate) fn new(bounds: AdmissionLimits) -> Arc<Self> {
        Arc::new(Self {
            places: Mutex::new(Admission::new(bounds)),
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// A place for one more connection from there; `None` when requests are being answered on
    /// every connection that could make room.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let notify = Arc::new(Notify::new());
        let Ok(Admitted { place, evicted }) = self.lock().admit(address, Arc::clone(&notify))
        else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if let Some(evicted) = evicted {
            self.evicted.fetch_add(1, Ordering::Relaxed);
            evicted.notify_one();
        }
        Some(ConnectionPermit { connections: Arc::clone(self), place, evicted: notify })
    }

    /// Connections that have lost their place to a new one.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Connections that found no place.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Admission<Arc<Notify>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Waits until another connection takes the place.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// The request has come as a whole.
    pub(crate) fn answer(&self) -> RequestGuard<'_> {
        self.connections.lock().begin(self.place);
        RequestGuard(self)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.lock().remove(self.place);
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        let ConnectionPermit { connections, place, .. } = self.0;
        connections.lock().end(*place, RequestComplete::Yes);
    }
}
