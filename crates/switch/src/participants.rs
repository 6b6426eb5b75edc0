//! `/participants`: the party directory (hub-semantics 2.2). Changes are recorded; their result
//! is a notice to the sender.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fspiop::body::{BatchRegistration, ErrorInformation};
use fspiop::{ErrorCode, PartyPath, Refusal, Resource, Route};
use http::{Method, StatusCode};
use ledger::{ChangeParties, Command, ENTRIES_MAX, FormerOwner, FspName, ParticipantIndex};
use ports::PartyEntry;
use tokio::task::spawn_local;

use crate::commands;
use crate::directory::PartyError;
use crate::egress::{Egress, FailureCallback, OwnMessage};
use crate::inbound::{Inbound, Trace};
use crate::notice_messages::{batch_result_callback, single_registration_callback};
use crate::oracles::{OracleCall, PartyQuery};
use crate::party_names::{PartyNames, RegistrationCallback, braces_error, error_without_details};
use crate::submitter::{AcceptStatus, Submitter};

/// `POST`, `PUT` and `DELETE /participants/{Type}/{ID}[/{SubId}]`.
pub(crate) fn change(
    (submitter, egress): (&Submitter, &Rc<Egress>),
    (route, path): (&Route<'_>, &PartyPath<'_>),
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let command = commands::command_of(route, &inbound.envelope, &inbound.body, || None)?;
    let accepted = inbound.accepted();
    let registrar = match known_source(egress, &inbound) {
        Ok(registrar) => registrar,
        // As in the reference: accepted and dropped.
        Err(_) if inbound.method == Method::POST && path.sub_id.is_some() => {
            return Ok(accepted.into());
        }
        Err(refusal) => return Err(refusal),
    };
    let sender = failure_callback(&PartyNames::of(path), registrar, &inbound);
    let Some(command) = command else {
        return egress.refuse(&inbound, sender, braces_error());
    };
    if inbound.method != Method::DELETE && !is_served(egress, &command) {
        // A party without an FSP is not registered, and does not replace an entry.
        let code = ErrorCode::ADD_PARTY;
        return egress.refuse(&inbound, sender, (code, code.describe("fspId is no participant")));
    }
    let Command::ChangeParties(mut change) = command else {
        return Ok(AcceptStatus::AfterDecision(submitter.submit(command, inbound)?, accepted));
    };
    if let Some(party) = change.parties.first()
        && let Err(error) = egress.directory.check_fsp((change.form, &change.source), &party.fsp)
    {
        return egress.refuse(&inbound, sender, error);
    }
    if let Some(party) = change.parties.first()
        && let Some(call) = egress.oracles.call(&party.id_type, party.currency)?
    {
        return Ok(change_at_oracle(egress, call, (path, registrar), (&change, inbound)));
    }
    if let Some(party) = change.parties.first() {
        match egress.directory.check_change((change.form, &change.source), party)? {
            Ok(former) => {
                let former = former.into_iter().map(|fsp| FormerOwner { party: 0, fsp });
                change.rule = egress.directory.party_rule(former.collect());
            }
            Err(error) => return egress.refuse(&inbound, sender, error),
        }
    }
    Ok(AcceptStatus::AfterDecision(submitter.submit_parties(*change, inbound)?, accepted))
}

/// Makes the change at the oracle. Its result follows by callback, as that of a recorded change.
fn change_at_oracle(
    egress: &Rc<Egress>,
    call: OracleCall,
    (path, registrar): (&PartyPath<'_>, ParticipantIndex),
    (change, inbound): (&ChangeParties, Inbound),
) -> AcceptStatus {
    let (names, query) = (PartyNames::of(path), PartyQuery::of(path));
    let (change, accepted, egress) = (change.clone(), inbound.accepted(), Rc::clone(egress));
    spawn_local(async move {
        let result = call.change(&query, &change, (&inbound.method, inbound.envelope.trace)).await;
        drop(call);
        let sender = failure_callback(&names, registrar, &inbound);
        let sent = match (result, single_registration_callback(registrar, &change)) {
            (Ok(()), Some((to, body))) => {
                let FailureCallback { resource, trace, .. } = sender;
                egress.start_callback(OwnMessage { to, resource, trace, body })
            }
            (Ok(()), None) => Ok(()),
            (Err(error), _) => egress.refuse(&inbound, sender, error).map(drop),
        };
        if sent.is_err() {
            // Too many messages are in flight; the sender repeats its request.
            egress.thread.counters.forwards_failed.add(1);
        }
    });
    accepted.into()
}

/// Whether every party of the command has a registered FSP.
fn is_served(egress: &Egress, command: &Command) -> bool {
    let Command::ChangeParties(change) = command else { return true };
    let view = egress.directory.view();
    change.parties.iter().all(|party| view.find(&party.fsp).is_some())
}

/// `POST /participants`: entries are independent; the callback reports the error of each. `weigh`
/// gets the sender and the number of parties.
pub(crate) fn post_batch(
    (submitter, egress): (&Submitter, &Rc<Egress>),
    route: &Route<'_>,
    inbound: Inbound,
    weigh: impl FnOnce(&FspName, usize),
) -> Result<AcceptStatus, Refusal> {
    let command = commands::command_of(route, &inbound.envelope, &inbound.body, || None)?;
    known_source(egress, &inbound)?;
    let Some(Command::ChangeParties(mut change)) = command else {
        return Ok(StatusCode::OK.into());
    };
    weigh(&inbound.envelope.source, change.parties.len());
    if let Some(status) = batch_at_oracles(egress, &change, &inbound)? {
        return Ok(status);
    }
    // The callback reports the entries that are missing in the record.
    let by = (change.form, &change.source);
    let mut parties = Vec::with_capacity(change.parties.len());
    let mut former = Vec::new();
    for party in change.parties {
        if let Ok(lost) = egress.directory.check_change(by, &party)? {
            let party_number = u16::try_from(parties.len()).unwrap_or(u16::MAX);
            former.extend(lost.into_iter().map(|fsp| FormerOwner { party: party_number, fsp }));
            parties.push(party);
        }
    }
    change.parties = parties;
    former.truncate(ENTRIES_MAX);
    change.rule = egress.directory.party_rule(former);
    Ok(AcceptStatus::AfterDecision(submitter.submit_parties(*change, inbound)?, StatusCode::OK))
}

/// Registers a batch at the oracles of its types; its result follows by callback. `None` if no type
/// of the batch has one. Entries of other types are then refused: they would need a record, whose
/// callback would be a second one for the request.
fn batch_at_oracles(
    egress: &Rc<Egress>,
    change: &ChangeParties,
    inbound: &Inbound,
) -> Result<Option<AcceptStatus>, Refusal> {
    let currency = change.parties.first().and_then(|party| party.currency);
    let mut calls = BTreeMap::new();
    for id_type in change.parties.iter().map(|party| &party.id_type).collect::<BTreeSet<_>>() {
        if let Some(call) = egress.oracles.call(id_type, currency)? {
            calls.insert(id_type.clone(), call);
        }
    }
    if calls.is_empty() {
        return Ok(None);
    }
    let registrar = known_source(egress, inbound)?;
    let (change, inbound, egress) = (change.clone(), inbound.copy(), Rc::clone(egress));
    spawn_local(async move {
        let mut results = register_at(&calls, &change, &inbound).await.into_iter();
        drop(calls);
        let recipient = (registrar, &change.source);
        let callback =
            batch_result_callback(recipient, &inbound.body, |_| results.next().flatten());
        let sent = callback.is_some_and(|(to, body)| {
            let (resource, trace) = (Resource::Participants, Trace::of(&inbound));
            egress.start_callback(OwnMessage { to, resource, trace, body }).is_ok()
        });
        if !sent {
            // Too many messages are in flight; the sender repeats its request.
            egress.thread.counters.forwards_failed.add(1);
        }
    });
    Ok(Some(StatusCode::OK.into()))
}

/// The error of each party that was not registered, in their order.
async fn register_at(
    calls: &BTreeMap<String, OracleCall>,
    change: &ChangeParties,
    inbound: &Inbound,
) -> Vec<Option<PartyError>> {
    let code = ErrorCode::ADD_PARTY;
    let other = "parties without an oracle belong in a batch of their own";
    let mut results = vec![Some((code, code.describe(other))); change.parties.len()];
    let batch = BatchRegistration::parse(&inbound.body);
    let request = batch.map(|batch| batch.request.into_owned()).unwrap_or_default();
    for (id_type, call) in calls {
        let all = change.parties.iter().enumerate();
        let (places, parties): (Vec<_>, Vec<_>) =
            all.filter(|(_, party)| party.id_type == *id_type).unzip();
        let head = (&*request, parties.first().and_then(|party| party.currency));
        let by = (&change.source, inbound.envelope.trace);
        let found = call.register_batch(head, &parties, by).await;
        for (place, result) in places.into_iter().zip(found) {
            results[place] = result;
        }
    }
    results
}

/// `GET /participants/{Type}/{ID}[/{SubId}]`: answered from the directory, with the FSP of the
/// oldest entry, as in the reference. Entries in other currencies than that of the query are
/// ignored.
pub(crate) fn get(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: &Inbound,
) -> Result<AcceptStatus, Refusal> {
    let requester = known_source(egress, inbound)?;
    let names = PartyNames::of(path);
    let sender = failure_callback(&names, requester, inbound);
    if path.has_braces {
        return egress.refuse(inbound, sender, braces_error());
    }
    let Some(call) = egress.oracles.look_up(path)? else {
        let found = egress.directory.find_party(path)?;
        return answer(egress, &found, (&names, requester), inbound);
    };
    let (query, again, egress) = (PartyQuery::of(path), inbound.copy(), Rc::clone(egress));
    spawn_local(async move {
        let envelope = &again.envelope;
        let found = call.find(&query, (&envelope.source, envelope.trace)).await;
        drop(call);
        let sent = match found {
            Ok(found) => answer(&egress, &found, (&names, requester), &again),
            Err(error) => egress.refuse(&again, sender, error),
        };
        if sent.is_err() {
            egress.thread.counters.forwards_failed.add(1);
        }
    });
    Ok(StatusCode::ACCEPTED.into())
}

/// Answers a request for the FSP of a party, with the first of these entries.
fn answer(
    egress: &Rc<Egress>,
    found: &[PartyEntry],
    (names, requester): (&PartyNames, ParticipantIndex),
    inbound: &Inbound,
) -> Result<AcceptStatus, Refusal> {
    let sender = failure_callback(names, requester, inbound);
    let Some(binding) = found.first() else {
        return egress.refuse(inbound, sender, error_without_details(ErrorCode::PARTY_NOT_FOUND));
    };
    let (to, body) = (
        names.registration_callback(requester, RegistrationCallback::Put),
        fspiop::hub_messages::participant(&binding.fsp),
    );
    let FailureCallback { resource, trace, .. } = sender;
    egress.start_callback(OwnMessage { to, resource, trace, body })?;
    Ok(StatusCode::ACCEPTED.into())
}

/// `PUT /participants/{Type}/{ID}[/{SubId}]/error`: forwarded.
pub(crate) fn put_error(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    ErrorInformation::parse(&inbound.body)?;
    let view = egress.directory.view();
    let names = PartyNames::of(path);
    let Some(sender) = view.sender(&inbound.envelope.source).map(|member| member.index) else {
        egress.directory.ignore();
        return Ok(StatusCode::OK.into());
    };
    let sender = failure_callback(&names, sender, &inbound);
    if path.has_braces {
        return egress.refuse(&inbound, sender, braces_error());
    }
    let recipient = inbound.envelope.destination.and_then(|name| view.find(&name));
    let Some(recipient) = recipient.map(|member| member.index) else {
        return egress.refuse(&inbound, sender, error_without_details(ErrorCode::DESTINATION_FSP));
    };
    egress.forward(
        inbound,
        &names.registration_callback(recipient, RegistrationCallback::Error),
        None,
        sender,
    )
}

fn failure_callback(
    names: &PartyNames,
    sender: ParticipantIndex,
    inbound: &Inbound,
) -> FailureCallback {
    FailureCallback {
        to: names.registration_callback(sender, RegistrationCallback::Error),
        resource: Resource::Participants,
        trace: Trace::of(inbound),
        no_endpoint: ErrorCode::DESTINATION_COMMUNICATION,
    }
}

fn known_source(egress: &Egress, inbound: &Inbound) -> Result<ParticipantIndex, Refusal> {
    let unknown = || Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found");
    egress.directory.known(&inbound.envelope.source).ok_or_else(unknown)
}
