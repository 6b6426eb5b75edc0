//! Checks of quotes and bulk quotes: whether the FSPs can take part (hub-semantics 2.4).

use fspiop::ErrorCode;
use fspiop::body::{BulkQuote, Quote};
use ledger::{Currency, FspName};
use node::ParticipantsView;

use crate::inbound::Envelope;

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
