//! Signing off the I/O threads: an RSA signature takes 0.3 ms, in which an I/O thread would have
//! served thirty requests.
//!
//! A message moves to the signing thread that has the least to do, and comes back signed. Whoever
//! sends it waits in a task of its own: its lane, its thread and other participants go on. Costs:
//! one wake-up on either side, and no copy of headers or body.
//!
//! Bounds: each thread has room for [`QUEUE_MAX`] messages; when all are full, tasks wait for
//! room in the order they came. Those are bounded too: a notice waits within its lane's window,
//! an answer to a question within the bound on forwards, beyond which questions are refused.
//! `upesi_signatures_waiting` shows how many there are.

use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;
use fspiop::headers::FSPIOP_SIGNATURE;
use http::HeaderMap;
use jws::{SignError, SigningKey};
use tokio::sync::{mpsc, oneshot};

/// Messages that wait for one signing thread; it works them off in a tenth of a second.
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

/// Headers and body as they are to be sent.
pub(crate) type Signed = (HeaderMap, Bytes);

/// Why a message was not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsigned {
    /// See [`SignError`].
    Failed,
    /// The signing thread has ended, which it does not unless an invariant broke.
    Ended,
}

impl Signer {
    /// Starts `threads` threads, at least one, that sign with this key.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(key: SigningKey, threads: usize) -> io::Result<Self> {
        let key = Arc::new(key);
        let start = |number: usize| {
            let (desk, mut jobs) = mpsc::channel::<Job>(QUEUE_MAX);
            let key = Arc::clone(&key);
            let work = move || {
                while let Some(Job { headers, body, answer }) = jobs.blocking_recv() {
                    // Whoever asked may have gone.
                    let _told = answer.send(sign(headers, body, &key));
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

/// Partners' verifiers write a body again, compact and sorted, before they hash it: what the hub
/// signs is sent in that form, also where it repeats a participant's body (hub-semantics 1.7).
fn sign(mut headers: HeaderMap, body: Bytes, key: &SigningKey) -> Result<Signed, SignError> {
    let body = match jws::canonical(&body) {
        Some(form) if form != body => Bytes::from(form),
        _ => body,
    };
    let signature = jws::sign(&headers, &body, key)?;
    headers.insert(&FSPIOP_SIGNATURE, signature);
    Ok((headers, body))
}
