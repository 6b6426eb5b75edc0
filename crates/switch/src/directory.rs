//! One I/O thread's view of participants, parties and endpoints.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use fspiop::egress_policy::CallTarget;
use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, Refusal};
use ledger::{
    FormerOwner, FspName, PARTY_RULES, ParticipantIndex, PartyBinding, PartyChangeForm,
    PartyOwnership, PartyRule,
};
use node::{Handle, ParticipantsView};
use ports::{PARTY_ENTRIES_MAX, PartyEntry};
use tokio::sync::{Notify, oneshot};

use crate::commands::error_of_another;
use crate::counters::Counters;
use crate::endpoint_cache::EndpointCache;
use crate::message::ForwardedMessage;

/// The code and the text of a refused change of the party directory.
pub(crate) type PartyError = (ErrorCode, String);

/// The code of a refused change.
fn error_code(form: PartyChangeForm) -> ErrorCode {
    match form {
        PartyChangeForm::Delete => ErrorCode::DELETE_PARTY,
        PartyChangeForm::Single | PartyChangeForm::Batch => ErrorCode::ADD_PARTY,
    }
}

/// A view of the registry that includes every change that this node's admin API has confirmed.
pub(crate) struct Directory {
    handle: Handle<ForwardedMessage>,
    counters: Arc<Counters>,
    /// The FSPs that may register an identifier.
    ownership: PartyOwnership,
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
        (ownership, changed): (PartyOwnership, Rc<Notify>),
    ) -> Rc<Self> {
        let mut generation = 0;
        let view = handle.view_since(&mut generation).unwrap_or_else(|| handle.view());
        Rc::new(Self {
            is_shared: handle.first_lease_us() != u64::MAX,
            handle,
            counters,
            ownership,
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

    /// The entries of a party that serve the currency of the query, the oldest first.
    ///
    /// # Errors
    /// 503 when the party directory cannot be read.
    pub(crate) fn find_party(
        &self,
        path: &fspiop::PartyPath<'_>,
    ) -> Result<Vec<PartyEntry>, Refusal> {
        let sub_id = path.sub_id.as_ref().map(|sub_id| &*sub_id.text);
        let found = self.handle.find_party(path.kind.as_str(), &path.id.text, sub_id);
        let found = found.map_err(|_| Refusal::unavailable())?;
        Ok(found.serving(path.currency).copied().collect())
    }

    /// The rule of a change that is recorded next; `None` before a version of the ledger's rules
    /// that knows it.
    pub(crate) fn party_rule(&self, former: Vec<FormerOwner>) -> Option<PartyRule> {
        let ownership = self.ownership;
        (PARTY_RULES <= self.view().rules_version).then_some(PartyRule { ownership, former })
    }

    /// Whether the sender of a registration may make it for this FSP.
    ///
    /// # Errors
    /// The error of the callback to the sender.
    pub(crate) fn check_fsp(
        &self,
        (form, source): (PartyChangeForm, &FspName),
        fsp: &FspName,
    ) -> Result<(), PartyError> {
        let is_free = self.ownership == PartyOwnership::LatestWins;
        if is_free || form == PartyChangeForm::Delete || fsp == source {
            return Ok(());
        }
        let code = ErrorCode::ADD_PARTY;
        Err((code, code.describe("fspId is not the sender")))
    }

    /// Compares a registration or release with the entries of the identifier before it is recorded.
    /// Returns the FSPs that lose an entry to it, or its error.
    ///
    /// The directory applies the rule again in the order of the log: if two FSPs register a free
    /// identifier at the same time, the first record counts.
    ///
    /// # Errors
    /// 503 when the party directory cannot be read.
    pub(crate) fn check_change(
        &self,
        (form, source): (PartyChangeForm, &FspName),
        party: &PartyBinding,
    ) -> Result<Result<Vec<FspName>, PartyError>, Refusal> {
        let found = self.handle.find_party(&party.id_type, &party.id, party.sub_id.as_deref());
        let found = found.map_err(|_| Refusal::unavailable())?;
        let is_foreign = |entry: &&PartyEntry| entry.fsp != *source;
        let mut serving = found.serving(party.currency);
        let has_owners = self.ownership != PartyOwnership::LatestWins;
        let is_refused = match form {
            PartyChangeForm::Single | PartyChangeForm::Batch => {
                let is_alone = self.ownership == PartyOwnership::OwnerOnly;
                found.serving(party.currency.filter(|_| !is_alone)).any(|it| is_foreign(&it))
            }
            PartyChangeForm::Delete => {
                let own = serving.clone().any(|it| !is_foreign(&it));
                serving.next().is_some() && !own
            }
        };
        if has_owners && is_refused {
            return Ok(Err(error_of_another(error_code(form))));
        }
        if form == PartyChangeForm::Delete {
            let lost = found.serving(party.currency).filter(|_| !has_owners);
            return Ok(Ok(lost.filter(is_foreign).map(|entry| entry.fsp).collect()));
        }
        let is_new = |entry: &&PartyEntry| entry.fsp == party.fsp;
        let lost = found.serving(party.currency).filter(|entry| !is_new(entry));
        let lost: Vec<_> = lost.map(|entry| entry.fsp).collect();
        let is_known = found.entries.iter().any(|entry| entry.currency == party.currency);
        if lost.is_empty() && !is_known && PARTY_ENTRIES_MAX <= found.entries.len() {
            let code = ErrorCode::ADD_PARTY;
            return Ok(Err((code, code.describe("the identifier has the most entries allowed"))));
        }
        Ok(Ok(lost.into_iter().filter(|fsp| fsp != source).collect()))
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
