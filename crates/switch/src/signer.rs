//! Signing threads: an RSA signature takes 0.3 ms, in which an I/O thread could have
//! served thirty requests.
//!
//! A message is queued for the least loaded signing thread, and returned signed. The sending task
//! waits without blocking its lane, its thread or other participants. Costs: one wake-up on either
//! side, and no copy of headers or body.
//!
//! Bounds: each thread queues [`QUEUE_MAX`] messages; if all queues are full, tasks wait in order
//! of arrival. These are bounded, too: a notice by its lane's window, an answer to a query by the
//! limit on forwards, beyond which queries are refused. `upesi_signatures_waiting` shows their
//! number.

use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;
use fspiop::headers::FSPIOP_SIGNATURE;
use http::HeaderMap;
use jws::{HubKeys, SignError, SigningKey};
use tokio::sync::{mpsc, oneshot};

/// Queue length of one signing thread, which takes about 100 ms to sign.
const QUEUE_MAX: usize = 256;

/// The signing threads. Cheap to clone; they end when the last clone is dropped.
#[derive(Clone)]
pub struct Signer {
    desks: Vec<mpsc::Sender<Job>>,
}

struct Job {
    headers: HeaderMap,
    body: Bytes,
    answer: oneshot::Sender<Result<Signed, SignError>>,
}

/// Headers and body to be sent.
pub(crate) type Signed = (HeaderMap, Bytes);

/// The reason why a message was not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsigned {
    /// See [`SignError`].
    Failed,
    /// The signing thread has ended, which only a violated invariant can cause.
    Ended,
}

impl Signer {
    /// Starts `threads` threads, at least one, that sign with the current key of the hub.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(keys: &Arc<HubKeys>, threads: usize) -> io::Result<Self> {
        let start = |number: usize| {
            let (desk, mut jobs) = mpsc::channel::<Job>(QUEUE_MAX);
            let keys = Arc::clone(keys);
            let work = move || {
                while let Some(Job { headers, body, answer }) = jobs.blocking_recv() {
                    // The task may have been dropped.
                    let _told = answer.send(sign(headers, body, &keys.signing()));
                }
            };
            std::thread::Builder::new().name(format!("sign-{number}")).spawn(work)?;
            Ok(desk)
        };
        Ok(Self { desks: (0..threads.max(1)).map(start).collect::<io::Result<_>>()? })
    }

    /// Signs a message of the hub; the body comes back in the form that is signed.
    pub(crate) async fn sign(&self, headers: HeaderMap, body: Bytes) -> Result<Signed, Unsigned> {
        let desk = self.desks.iter().max_by_key(|desk| desk.capacity());
        let desk = desk.expect("there is at least one thread");
        let (answer, answered) = oneshot::channel();
        desk.send(Job { headers, body, answer }).await.map_err(|_| Unsigned::Ended)?;
        answered.await.map_err(|_| Unsigned::Ended)?.map_err(|_| Unsigned::Failed)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} threads)", self.desks.len())
    }
}

/// Partners' verifiers serialize a body again, compact and sorted, before they hash it. Therefore
/// the hub sends signed bodies in that form, even if it repeats a participant's body (hub-semantics
/// 1.7).
fn sign(mut headers: HeaderMap, body: Bytes, key: &SigningKey) -> Result<Signed, SignError> {
    let body = match jws::canonical(&body) {
        Some(form) if form != body => Bytes::from(form),
        _ => body,
    };
    let signature = jws::sign(&headers, &body, key)?;
    headers.insert(&FSPIOP_SIGNATURE, signature);
    Ok((headers, body))
}
