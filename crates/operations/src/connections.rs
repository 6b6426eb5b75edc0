//! The connections of a listener: their permits from [`fspiop::admission`], and the eviction of a
//! connection that loses its permit.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fspiop::admission::{self, Admission, AdmissionLimits, Admitted, RequestComplete};
use tokio::sync::Notify;

/// The open connections of a listener.
pub(crate) struct Connections {
    admission: Mutex<Admission<Arc<Notify>>>,
    evicted: AtomicU64,
    refused: AtomicU64,
}

/// A connection's permit, until it is dropped.
pub(crate) struct ConnectionPermit {
    connections: Arc<Connections>,
    connection: admission::ConnectionId,
    evicted: Arc<Notify>,
}

/// A complete request in progress, until it is dropped. Its connection cannot be evicted.
pub(crate) struct RequestGuard<'a>(&'a ConnectionPermit);

impl Connections {
    pub(crate) fn new(bounds: AdmissionLimits) -> Arc<Self> {
        Arc::new(Self {
            admission: Mutex::new(Admission::new(bounds)),
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// A permit for one more connection from an address; `None` if every connection that could be
    /// evicted has a request in progress.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let notify = Arc::new(Notify::new());
        let Ok(Admitted { place: connection, evicted }) =
            self.lock().admit(address, Arc::clone(&notify))
        else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if let Some(evicted) = evicted {
            self.evicted.fetch_add(1, Ordering::Relaxed);
            evicted.notify_one();
        }
        Some(ConnectionPermit { connections: Arc::clone(self), connection, evicted: notify })
    }

    /// Number of evicted connections.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Number of refused connections.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Admission<Arc<Notify>>> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Waits until the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Marks the request as complete.
    pub(crate) fn begin_request(&self) -> RequestGuard<'_> {
        self.connections.lock().begin(self.connection);
        RequestGuard(self)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.lock().remove(self.connection);
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        let ConnectionPermit { connections, connection, .. } = self.0;
        connections.lock().end(*connection, RequestComplete::Yes);
    }
}
