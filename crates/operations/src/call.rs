//! One request under way: what a handler may touch.

use bytes::Bytes;
use fspiop::reach::Reach;
use fspiop::{ErrorCode, Refusal};
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use ledger::{Administer, Change, Currency, FspName, State};
use tokio::sync::oneshot;

use crate::form::{Form, known_currency, refuse};
use crate::guard::Identity;
use crate::hub::{Hub, Unavailable};
use crate::metrics::AdminFigures;
use crate::options::AdminKeys;
use crate::refusals;
use crate::resource::parameter;

/// A request whose sender was let through and whose body was read.
pub(crate) struct Call<'a> {
    pub(crate) hub: &'a dyn Hub,
    pub(crate) base_url: &'a str,
    pub(crate) reach: &'a Reach,
    pub(crate) keys: &'a AdminKeys,
    pub(crate) figures: AdminFigures,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: &'a str,
    pub(crate) body: Bytes,
    pub(crate) identity: Identity,
}

impl Call<'_> {
    /// Asks for a change; it is durable and applied when this returns without a refusal.
    pub(crate) async fn change(&self, change: Change) -> Result<(), Refusal> {
        self.change_because(self.identity.reason.clone(), change).await
    }

    /// The same with a reason from the body.
    pub(crate) async fn change_because(
        &self,
        reason: String,
        change: Change,
    ) -> Result<(), Refusal> {
        let actor = self.identity.actor.clone();
        let outcome = self
            .hub
            .administer(Administer { actor, reason, change })
            .await
            .map_err(refusals::of_unavailable)?;
        refusals::of_change(outcome)
    }

    /// Asks a question; see [`Hub::ask`].
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        let (answer, mut answered) = oneshot::channel();
        // A client that has gone takes no answer.
        let question = Box::new(move |state: &State| drop(answer.send(question(state))));
        self.hub.ask(question).await.map_err(refusals::of_unavailable)?;
        answered.try_recv().map_err(|_| refusals::of_unavailable(Unavailable::Stopped))
    }

    /// The body's members.
    pub(crate) fn form(&self) -> Result<Form<'_>, Refusal> {
        Form::parse(&self.body)
    }

    /// The only member of bodies that switch something on or off.
    pub(crate) fn is_active(&self) -> Result<bool, Refusal> {
        let mut form = self.form()?;
        let active = form.required("isActive", Form::flag)?;
        form.finish()?;
        Ok(active)
    }

    /// Refuses a member whose value is not an address that the hub can and may call.
    pub(crate) fn may_call(&self, member: &str, value: &str) -> Result<(), Refusal> {
        self.reach
            .check(value)
            .map_err(|unreachable| refuse(ErrorCode::VALIDATION, member, &unreachable.to_string()))
    }

    /// Refuses a request whose `Accept` is missing or malformed. Any media range is accepted: the
    /// answers have one form.
    pub(crate) fn must_accept(&self) -> Result<(), Refusal> {
        let lines = self.headers.get_all(ACCEPT);
        if lines.iter().next().is_none() {
            return Err(Refusal::missing("/header must have required property 'accept'"));
        }
        match fspiop::media::is_accept_list(lines.iter().map(HeaderValue::as_bytes)) {
            true => Ok(()),
            false => Err(Refusal::malformed("Invalid accept header")),
        }
    }

    /// A query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        parameter(self.query, name)
    }

    /// The query parameter `currency`.
    pub(crate) fn currency(&self) -> Result<Option<Currency>, Refusal> {
        let Some(code) = self.parameter("currency") else { return Ok(None) };
        match known_currency(&code) {
            Some(currency) => Ok(Some(currency)),
            None => Err(refuse(
                ErrorCode::MALFORMED_SYNTAX,
                "currency",
                "must be a currency code of ISO 4217",
            )),
        }
    }
}

/// A participant's name from the path; a text that cannot be a name names nobody.
pub(crate) fn participant_name(text: &str) -> Result<FspName, Refusal> {
    FspName::new(text).ok_or_else(refusals::participant_not_found)
}
