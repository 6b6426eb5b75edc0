//! Signing threads: an RSA signature takes 0.3 ms, in which an I/O thread could have
//! served thirty requests.
//!
//! A message is queued, and returned signed. The sending task waits without blocking its lane, its
//! thread or other participants. Costs: a lock for the time of a push or pop, one wake-up on either
//! side, and no copy of headers or body.
//!
//! Recipients take turns: a participant that makes the hub sign many messages delays its own.
//!
//! Bounds: the tasks that wait are bounded; a notice by its lane's window, an answer to a query by
//! the limit on forwards, beyond which queries are refused. `upesi_signatures_waiting` shows their
//! number.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use bytes::Bytes;
use fspiop::headers::FSPIOP_SIGNATURE;
use http::HeaderMap;
use jws::{HubKeys, SignError, SigningKey};
use ledger::ParticipantIndex;
use tokio::sync::oneshot;

use crate::turns::Turns;

/// The signing threads. Cheap to clone; they end when the last clone is dropped.
#[derive(Clone)]
pub struct Signer {
    desk: Arc<OpenDesk>,
}

/// A desk that closes when it is dropped.
struct OpenDesk(Arc<Desk>);

/// The messages to be signed, for all signing threads.
#[derive(Default)]
struct Desk {
    work: Mutex<Work>,
    has_work: Condvar,
}

#[derive(Default)]
struct Work {
    jobs: Turns<ParticipantIndex, Job>,
    is_closed: bool,
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
        let desk = Arc::new(Desk::default());
        for number in 0..threads.max(1) {
            let (desk, keys) = (Arc::clone(&desk), Arc::clone(keys));
            let thread = std::thread::Builder::new().name(format!("sign-{number}"));
            thread.spawn(move || desk.serve(&keys))?;
        }
        Ok(Self { desk: Arc::new(OpenDesk(desk)) })
    }

    /// Signs a message of the hub to a participant; the body comes back in the form that is signed.
    pub(crate) async fn sign(
        &self,
        to: ParticipantIndex,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Signed, Unsigned> {
        let (answer, answered) = oneshot::channel();
        self.desk.0.put(to, Job { headers, body, answer });
        answered.await.map_err(|_| Unsigned::Ended)?.map_err(|_| Unsigned::Failed)
    }
}

impl Desk {
    /// Adds a job, or drops it if the desk is closed.
    fn put(&self, to: ParticipantIndex, job: Job) {
        let mut work = self.lock();
        if !work.is_closed {
            work.jobs.push(to, job);
            drop(work);
            self.has_work.notify_one();
        }
    }

    /// Signs until the desk is closed.
    fn serve(self: Arc<Self>, keys: &HubKeys) {
        // Also after a panic: no task may wait for ever.
        let desk = OpenDesk(self);
        while let Some(Job { headers, body, answer }) = desk.0.next() {
            // The task may have been dropped.
            if !answer.is_closed() {
                let _received = answer.send(sign(headers, body, &keys.signing()));
            }
        }
    }

    /// Waits for a job; `None` when the desk is closed.
    fn next(&self) -> Option<Job> {
        let mut work = self.lock();
        while !work.is_closed {
            if let Some(job) = work.jobs.pop() {
                return Some(job);
            }
            work = self.has_work.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenDesk {
    fn drop(&mut self) {
        let jobs = {
            let mut work = self.0.lock();
            work.is_closed = true;
            std::mem::take(&mut work.jobs)
        };
        self.0.has_work.notify_all();
        drop(jobs);
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer(closed: {})", self.desk.0.lock().is_closed)
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
