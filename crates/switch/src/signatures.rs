//! Signatures of messages (JWS, hub-semantics 1.7): verified before a participant's message becomes
//! a command or is forwarded, and created for the hub's own messages. The origin of a message is
//! decided by the code path and never by its headers.
//!
//! Costs: none for a resource without signatures. Verification runs on the I/O thread and takes
//! about 20 us; a participant's keys are parsed on first use and after a change. Signing runs on
//! separate threads: see `signer`.
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
use jws::{
    KeyDirectory, Policy, SignatureError, SignatureRequirement, SignedForm, VerificationKey,
};
use ledger::{FspName, ParticipantIndex};

use crate::directory::Directory;
use crate::inbound::Inbound;
use crate::signer::Signer;
use crate::thread::Thread;

/// Policy and keys of signatures. By default nothing is verified or signed.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    /// The resources to verify and sign.
    pub policy: Policy,
    /// Public keys of participants, in addition to those of the registry.
    pub directory: Option<Arc<KeyDirectory>>,
    /// The hub's signer; required if the policy signs a resource.
    pub signer: Option<Signer>,
}

/// Verifies and creates the signatures of one thread.
pub(crate) struct ThreadSignatures {
    options: Signatures,
    thread: Rc<Thread>,
    directory: Rc<Directory>,
    /// The parsed keys of participants that have sent a message.
    keys: RefCell<HashMap<FspName, Entry>>,
}

struct Entry {
    /// Generations of the registry and of the key directory from which the keys were parsed.
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

    /// Refuses a message without a valid signature if its resource requires one. `rewritten` is
    /// called if the body had to be parsed and written again, which costs much more than its bytes.
    ///
    /// # Errors
    /// 400, 3105, with the reason.
    pub(crate) fn check(
        &self,
        resource: Resource,
        inbound: &Inbound,
        rewritten: impl FnOnce(),
    ) -> Result<(), Refusal> {
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
        if matches!(verified, Ok(SignedForm::Rewritten) | Err(SignatureError::Wrong)) {
            rewritten();
        }
        let counter = match verified {
            Ok(_) => &self.thread.counters.signatures_verified,
            Err(_) => &self.thread.counters.signatures_refused,
        };
        counter.add(1);
        verified.map(drop).map_err(|error| error.refusal())
    }

    /// Signs a message of the hub if its resource is signed; `None` if that failed, in which case
    /// it must not be sent.
    pub(crate) async fn sign(
        &self,
        (to, method, resource): (ParticipantIndex, &Method, Resource),
        headers: HeaderMap,
        body: Bytes,
    ) -> Option<(HeaderMap, Bytes)> {
        if !self.options.policy.signs(method, resource) {
            return Some((headers, body));
        }
        let counters = &self.thread.counters;
        counters.signatures_asked.add(1);
        let signed = match &self.options.signer {
            Some(signer) => signer.sign(to, headers, body).await.ok(),
            None => None,
        };
        match signed {
            Some(_) => counters.signatures_made.add(1),
            None => counters.signatures_failed.add(1),
        }
        signed
    }

    /// The current keys of a participant; empty if it is unknown.
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
            // Invalid keys were refused before they were recorded.
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
