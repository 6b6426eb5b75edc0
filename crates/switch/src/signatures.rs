//! Signatures of messages (JWS, hub-semantics 1.7): demanded of participants before their message
//! becomes a command or is passed on, and made for what the hub says itself. Whose message it is,
//! is decided by where it was made and never by its headers.
//!
//! Costs: nothing for a resource that is not switched on. Verifying runs on the I/O thread, about
//! 20 us; a participant's keys are parsed when they are first needed and when they have changed.
//! Signing runs elsewhere: see `signer`.
//!
//! Bound: one entry per participant with keys, of at most eight keys each: four by the admin API,
//! four by the directory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use fspiop::headers::FSPIOP_SIGNATURE;
use fspiop::{Refusal, Resource};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use jws::{KeyDirectory, Policy, SignatureRequirement, VerificationKey};
use ledger::FspName;

use crate::directory::Directory;
use crate::inbound::Inbound;
use crate::signer::Signer;
use crate::thread::Thread;

/// What is verified and signed, and with which keys. Nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    /// Which resources.
    pub policy: Policy,
    /// Public keys of participants, beside those of the register.
    pub directory: Option<Arc<KeyDirectory>>,
    /// Who signs for the hub; needed when the policy says that something is signed.
    pub signer: Option<Signer>,
}

/// Verifies and makes the signatures of one thread.
pub(crate) struct ThreadSignatures {
    options: Signatures,
    thread: Rc<Thread>,
    directory: Rc<Directory>,
    /// The parsed keys of those who have sent something.
    keys: RefCell<HashMap<FspName, Entry>>,
}

struct Entry {
    /// Generations of the register and of the directory that the keys are of.
    seen: (u64, u64),
    keys: Rc<[VerificationKey]>,
}

impl ThreadSignatures {
    pub(crate) fn new(
        options: Signatures,
        thread: &Rc<Thread>,
        directory: &Rc<Directory>,
    ) -> Rc<Self> {
        let (thread, directory) = (Rc::clone(thread), Rc::clone(directory));
        Rc::new(Self { options, thread, directory, keys: RefCell::default() })
    }

    /// Refuses a message whose resource demands signatures, unless its own is good.
    ///
    /// # Errors
    /// 400, 3105, with what is wrong.
    pub(crate) fn check(&self, resource: Resource, inbound: &Inbound) -> Result<(), Refusal> {
        let is_signed = || inbound.headers.contains_key(&FSPIOP_SIGNATURE);
        match self.options.policy.demands(&inbound.method, resource) {
            SignatureRequirement::Nothing => return Ok(()),
            SignatureRequirement::GoodIfPresent if !is_signed() => return Ok(()),
            SignatureRequirement::GoodIfPresent | SignatureRequirement::Good => {}
        }
        let uri = &inbound.uri;
        let message = jws::Signed {
            method: &inbound.method,
            path: uri.path_and_query().map_or(uri.path(), PathAndQuery::as_str),
            headers: &inbound.headers,
            body: &inbound.body,
        };
        let verified = jws::verify_with(&message, |source| self.keys_of(source));
        let counter = match verified {
            Ok(()) => &self.thread.counters.signatures_verified,
            Err(_) => &self.thread.counters.signatures_refused,
        };
        counter.add(1);
        verified.map_err(|error| error.refusal())
    }

    /// Signs a message of the hub if its resource is signed; `None` when that failed, in which
    /// case it must not be sent.
    pub(crate) async fn seal(
        &self,
        (method, resource): (&Method, Resource),
        headers: HeaderMap,
        body: Bytes,
    ) -> Option<(HeaderMap, Bytes)> {
        if !self.options.policy.signs(method, resource) {
            return Some((headers, body));
        }
        let counters = &self.thread.counters;
        counters.signatures_asked.add(1);
        let signed = match &self.options.signer {
            Some(signer) => signer.sign(headers, body).await.ok(),
            None => None,
        };
        match signed {
            Some(_) => counters.signatures_made.add(1),
            None => counters.signatures_failed.add(1),
        }
        signed
    }

    /// The keys of a participant as of now; none for whom nobody knows.
    fn keys_of(&self, name: &FspName) -> Rc<[VerificationKey]> {
        let directory = self.options.directory.as_ref();
        let view = self.directory.view();
        let seen = (self.directory.generation(), directory.map_or(0, |keys| keys.generation()));
        let mut entries = self.keys.borrow_mut();
        let before = entries.get(name);
        if let Some(entry) = before.filter(|entry| entry.seen == seen) {
            return Rc::clone(&entry.keys);
        }
        let parsed = before.map_or(&[][..], |entry| &entry.keys);
        let mut keys: Vec<VerificationKey> = Vec::new();
        for key in view.find(name).map_or(&[][..], |member| &member.keys) {
            let known = parsed.iter().find(|known| known.fingerprint() == key.id).cloned();
            // What is no key was refused before it was recorded.
            keys.extend(known.or_else(|| VerificationKey::from_der(&key.der).ok()));
        }
        for key in directory.map(|keys| keys.ring()).unwrap_or_default().of(name) {
            if keys.iter().all(|known| known.fingerprint() != key.fingerprint()) {
                keys.push(key.clone());
            }
        }
        let keys: Rc<[VerificationKey]> = keys.into();
        match keys.is_empty() {
            true => drop(entries.remove(name)),
            false => drop(entries.insert(*name, Entry { seen, keys: Rc::clone(&keys) })),
        }
        keys
    }
}
