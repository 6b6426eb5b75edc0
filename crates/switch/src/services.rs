//! `/services/FXP`: which participants convert currencies (FSPIOP 2.0). The hub answers from its
//! configuration.

use std::rc::Rc;

use fspiop::endpoint::EndpointType;
use fspiop::{CurrencyPair, ErrorCode, Refusal, Resource, hub_messages};
use http::{Method, StatusCode};
use ledger::{FspName, ParticipantIndex};

use crate::destination::{Destination, Variables};
use crate::egress::{Egress, OwnMessage};
use crate::inbound::{Inbound, Trace};
use crate::submitter::AcceptStatus;

/// A participant that converts currencies.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// Its name.
    pub provider: FspName,
    /// The pairs that it converts.
    pub pairs: Vec<CurrencyPair>,
}

/// `GET /services/FXP[/{SourceCurrency}/{TargetCurrency}]`: the active providers, in order of their
/// names; an empty list if there is no such provider.
pub(crate) fn get(
    egress: &Rc<Egress>,
    conversions: &[Conversion],
    pair: Option<CurrencyPair>,
    inbound: &Inbound,
) -> Result<AcceptStatus, Refusal> {
    let unknown = || Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found");
    let requester = egress.directory.known(&inbound.envelope.source).ok_or_else(unknown)?;
    let view = egress.directory.view();
    let converts = |it: &&Conversion| pair.is_none_or(|pair| it.pairs.contains(&pair));
    let is_active = |name: &FspName| view.find(name).is_some_and(|member| member.active);
    let found = conversions.iter().filter(converts).map(|it| it.provider);
    let body = hub_messages::providers(&found.filter(is_active).collect::<Vec<_>>());
    let (to, trace) = (destination(requester, pair), Trace::of(inbound));
    egress.start_callback(OwnMessage { to, resource: Resource::Services, trace, body })?;
    Ok(StatusCode::ACCEPTED.into())
}

/// The callback goes where requests for conversions of the participant go.
fn destination(participant: ParticipantIndex, pair: Option<CurrencyPair>) -> Destination {
    let (method, endpoint) = (Method::PUT, EndpointType::FxQuotes);
    let path = match pair {
        None => "/services/FXP".into(),
        Some(CurrencyPair { source, target }) => format!("/services/FXP/{source}/{target}").into(),
    };
    let variables = Variables::None;
    Destination { participant, endpoint, method, path, variables, subject: None }
}
