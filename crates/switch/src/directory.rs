//! One I/O thread's view of participants, parties and endpoints.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use fspiop::egress_policy::CallTarget;
use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, Refusal};
use ledger::{FspName, ParticipantIndex, PartyBinding, PartyChangeForm};
use node::{Handle, ParticipantsView};
use ports::PartyRow;
use tokio::sync::{Notify, oneshot};

use crate::commands::error_of_another;
use crate::counters::Counters;
use crate::endpoint_cache::EndpointCache;
use crate::message::ForwardedMessage;

/// A view of the registry that includes every change that this node's admin API has confirmed.
pub(crate) struct Directory {
    handle: Handle<ForwardedMessage>,
    counters: Arc<Counters>,
    /// Only the FSP that serves an identifier may change its registration.
    owner_only: bool,
    /// Other nodes write to the same log.
    is_shared: bool,
    view: RefCell<Arc<ParticipantsView>>,
    generation: Cell<u64>,
    addresses: RefCell<EndpointCache>,
    /// Participants whose address changed and whose lanes were not yet notified.
    moved: RefCell<Vec<ParticipantIndex>>,
    /// Notified when there are such.
    changed: Rc<Notify>,
}

impl Directory {
    pub(crate) fn new(
        handle: Handle<ForwardedMessage>,
        counters: Arc<Counters>,
        (owner_only, changed): (bool, Rc<Notify>),
    ) -> Rc<Self> {
        let mut generation = 0;
        let view = handle.view_since(&mut generation).unwrap_or_else(|| handle.view());
        Rc::new(Self {
            is_shared: handle.first_lease_us() != u64::MAX,
            handle,
            counters,
            owner_only,
            view: RefCell::new(view),
            generation: Cell::new(generation),
            addresses: RefCell::default(),
            moved: RefCell::default(),
            changed,
        })
    }

    /// The register as of the last change.
    pub(crate) fn view(&self) -> Arc<ParticipantsView> {
        let mut generation = self.generation.get();
        if let Some(view) = self.handle.view_since(&mut generation) {
            self.generation.set(generation);
            let earlier = self.view.replace(Arc::clone(&view));
            self.moved.borrow_mut().extend(view.moved_since(&earlier));
            self.changed.notify_one();
            self.addresses.borrow_mut().clear();
        }
        Arc::clone(&self.view.borrow())
    }

    /// Incremented whenever [`Directory::view`] finds a newer register.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Participants whose address has changed since the last call.
    pub(crate) fn take_moved(&self) -> Vec<ParticipantIndex> {
        self.moved.take()
    }

    /// The participant, not the hub, that a message names as its sender.
    pub(crate) fn sender(&self, source: &FspName) -> Option<ParticipantIndex> {
        self.view().sender(source).map(|member| member.index)
    }

    /// Whether the sender may be registered in a part of the shared log that this node has not
    /// applied.
    pub(crate) fn may_lag_for(&self, source: &FspName) -> bool {
        self.is_shared && self.sender(source).is_none()
    }

    /// Waits until this node has applied the log up to its end at the time of the call. Only then
    /// can a sender be called unknown.
    ///
    /// # Errors
    /// 503 if the end of the log cannot be read.
    pub(crate) async fn catch_up(&self) -> Result<(), Refusal> {
        let (answer, answered) = oneshot::channel();
        let asked = self.handle.ask(move |_| {
            // The request may have ended.
            let _sent = answer.send(());
        });
        asked.map_err(|_| Refusal::unavailable())?;
        answered.await.map_err(|_| Refusal::unavailable())
    }

    /// The participant with the name in this case. Otherwise the message is counted as one of an
    /// unknown sender.
    pub(crate) fn known(&self, source: &FspName) -> Option<ParticipantIndex> {
        let known = self.view().find(source).map(|member| member.index);
        if known.is_none() {
            self.ignore();
        }
        known
    }

    /// Counts a message from an unknown sender, which has no effect.
    pub(crate) fn ignore(&self) {
        self.counters.unknown_senders.add(1);
    }

    /// The participant that serves a party.
    ///
    /// # Errors
    /// 503 when the party directory cannot be read.
    pub(crate) fn find_party(
        &self,
        path: &fspiop::PartyPath<'_>,
    ) -> Result<Option<PartyRow>, Refusal> {
        let sub_id = path.sub_id.as_ref().map(|sub_id| &*sub_id.text);
        let found = self.handle.find_party(path.kind.as_str(), &path.id.text, sub_id);
        let found = found.map_err(|_| Refusal::unavailable())?;
        Ok(found.filter(|binding| binding.serves(path.currency)))
    }

    /// The error of a registration or release of an identifier that another FSP than its sender
    /// serves.
    ///
    /// It is decided before the change is recorded. Two FSPs that register a free identifier at
    /// the same time are both accepted, and the later record counts.
    ///
    /// # Errors
    /// 503 when the party directory cannot be read.
    pub(crate) fn ownership_error(
        &self,
        (form, source): (PartyChangeForm, &FspName),
        party: &PartyBinding,
    ) -> Result<Option<(ErrorCode, String)>, Refusal> {
        if !self.owner_only {
            return Ok(None);
        }
        let found = self.handle.find_party(&party.id_type, &party.id, party.sub_id.as_deref());
        let found = found.map_err(|_| Refusal::unavailable())?;
        let code = match form {
            PartyChangeForm::Delete => ErrorCode::DELETE_PARTY,
            PartyChangeForm::Single | PartyChangeForm::Batch => ErrorCode::ADD_PARTY,
        };
        let is_foreign = found.is_some_and(|entry| entry.fsp != *source);
        Ok(is_foreign.then(|| error_of_another(code)))
    }

    /// Address of a participant: see [`EndpointCache::find`].
    pub(crate) fn target(
        &self,
        participant: ParticipantIndex,
        endpoint: EndpointType,
    ) -> Option<Option<Rc<CallTarget>>> {
        let view = self.view();
        self.addresses.borrow_mut().find(&view, participant, endpoint)
    }
}
