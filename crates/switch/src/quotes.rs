//! Checks of quotes and bulk quotes: whether the FSPs can take part (hub-semantics 2.4).

use fspiop::ErrorCode;
use fspiop::body::{BulkQuote, Quote};
use fspiop::headers::FSPIOP_DESTINATION;
use fspiop::quote_rules::{QuoteFacts, QuoteRules, RuleDecision, participant_fact};
use http::HeaderValue;
use ledger::{Currency, FspName};
use node::ParticipantsView;

use crate::inbound::{Envelope, Inbound};

/// The error of a message that is refused by callback.
pub(crate) type ExchangeRefusal = (ErrorCode, String);

/// Checks that the FSPs of both sides are usable: the source in every currency that the payer
/// offers, and an active destination; otherwise the destination in the currency of the amount; then
/// the FSPs that the parties name.
pub(crate) fn check_quote(
    view: &ParticipantsView,
    envelope: &Envelope,
    quote: &Quote,
) -> Option<ExchangeRefusal> {
    let destination = envelope.destination?;
    let usable = |name: &FspName, currency: Currency| {
        view.find(name).is_some_and(|member| member.is_usable(currency))
    };
    if !quote.payer_currencies.is_empty() {
        let all = quote.payer_currencies.iter().all(|one| usable(&envelope.source, *one));
        if !all {
            return Some(unsupported(ErrorCode::PAYER_FSP_NOT_FOUND, &envelope.source));
        }
        if view.find(&destination).is_none_or(|member| !member.active) {
            return Some(unsupported(ErrorCode::DESTINATION_FSP, &destination));
        }
    } else if !usable(&destination, quote.amount.currency) {
        return Some(unsupported(ErrorCode::DESTINATION_FSP, &destination));
    }
    let differs = |name: &&FspName, header: Option<FspName>| Some(**name) != header;
    let payer = quote.payer.as_ref().filter(|name| differs(name, Some(envelope.source)));
    if let Some(name) = payer.filter(|name| !usable(name, quote.amount.currency)) {
        return Some(unsupported(ErrorCode::PAYER_FSP_NOT_FOUND, name));
    }
    let payee = quote.payee.as_ref().filter(|name| differs(name, envelope.destination));
    let payee = payee.filter(|name| !usable(name, quote.amount.currency))?;
    Some(unsupported(ErrorCode::DESTINATION_FSP, payee))
}

/// Applies the rules of the scheme to a `POST /quotes` that has passed the checks: they refuse it,
/// or replace its destination.
pub(crate) fn apply_rules(
    rules: &QuoteRules,
    view: &ParticipantsView,
    inbound: &mut Inbound,
) -> Option<ExchangeRefusal> {
    let fact = |name: Option<&FspName>| {
        let member = name.and_then(|name| view.find(name));
        member.map(|member| participant_fact(&member.name, member.active, &member.currencies))
    };
    let envelope = &inbound.envelope;
    let participants = [Some(&envelope.source), envelope.destination.as_ref()].map(fact);
    let participants = participants.map(Option::unwrap_or_default);
    let facts = QuoteFacts::new(&inbound.body, &inbound.headers, participants);
    match rules.decide(&facts) {
        RuleDecision::Forward => None,
        RuleDecision::Refuse(code, description) => Some((code, description)),
        RuleDecision::Ambiguous => {
            let code = ErrorCode::INTERNAL_SERVER;
            Some((code, code.describe("several rules send the quote to another FSP")))
        }
        RuleDecision::Reroute(reroute) => {
            inbound.envelope.destination = Some(reroute.to);
            let destination = HeaderValue::from_str(reroute.to.as_str());
            let destination = destination.expect("the name of an FSP is a valid header");
            inbound.headers.insert(FSPIOP_DESTINATION.clone(), destination);
            inbound.headers.extend(reroute.headers);
            None
        }
    }
}

/// Checks that source and destination are usable in the currency of the first quote.
pub(crate) fn check_bulk_quote(
    view: &ParticipantsView,
    envelope: &Envelope,
    quote: &BulkQuote,
) -> Option<ExchangeRefusal> {
    let usable =
        |name: &FspName| view.find(name).is_some_and(|member| member.is_usable(quote.currency));
    if !usable(&envelope.source) {
        return Some(unsupported(ErrorCode::PAYER_FSP_NOT_FOUND, &envelope.source));
    }
    let destination = envelope.destination.as_ref().filter(|name| !usable(name))?;
    Some(unsupported(ErrorCode::DESTINATION_FSP, destination))
}

/// Checks that the FSP that answers a quote is usable in the currency of its answer.
pub(crate) fn check_response(
    view: &ParticipantsView,
    source: &FspName,
    currency: Currency,
) -> Option<ExchangeRefusal> {
    let usable = view.find(source).is_some_and(|member| member.is_usable(currency));
    (!usable).then(|| unsupported(ErrorCode::DESTINATION_FSP, source))
}

/// The refusal of a participant, with the text of the reference, which the published test kit
/// compares.
pub(crate) fn unsupported(code: ErrorCode, name: &FspName) -> ExchangeRefusal {
    (code, code.describe(&format!("Unsupported participant '{name}'")))
}
