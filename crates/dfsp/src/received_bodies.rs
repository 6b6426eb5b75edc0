//! Message bodies that a DFSP reads, borrowed from the receive buffer, and the terms of a payee.

use std::borrow::Cow;

use fspiop::ilp::{Payment, Secret, condition, push_packet};
use ledger::{Amount, Currency, FspName, TransferId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::{PartiesText, push, push_transaction};
use crate::observations::Verdict;

#[derive(Deserialize)]
pub(crate) struct Money<'a> {
    #[serde(borrow)]
    pub(crate) amount: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) currency: Cow<'a, str>,
}

/// The fields of POST /quotes that the response needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuotePosted<'a> {
    #[serde(borrow)]
    pub(crate) quote_id: Cow<'a, str>,
    #[serde(borrow)]
    transaction_id: Cow<'a, str>,
    #[serde(borrow)]
    payer: &'a RawValue,
    #[serde(borrow)]
    payee: &'a RawValue,
    #[serde(borrow)]
    pub(crate) amount: Money<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartyText<'a> {
    #[serde(borrow)]
    party_id_info: PartyIdInfo<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartyIdInfo<'a> {
    #[serde(borrow, default)]
    party_identifier: Cow<'a, str>,
    #[serde(borrow)]
    fsp_id: Option<Cow<'a, str>>,
}

/// The fields of PUT /parties that the payer needs.
#[derive(Deserialize)]
pub(crate) struct PartyFound<'a> {
    #[serde(borrow)]
    party: PartyText<'a>,
}

/// The fields of PUT /quotes that the payer needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuoteAnswered<'a> {
    #[serde(borrow)]
    pub(crate) transfer_amount: Money<'a>,
    #[serde(borrow)]
    pub(crate) ilp_packet: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) condition: Cow<'a, str>,
}

/// The fields of POST /transfers that the payee needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransferPosted<'a> {
    #[serde(borrow)]
    transfer_id: Cow<'a, str>,
    #[serde(borrow)]
    payer_fsp: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) payee_fsp: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) amount: Money<'a>,
    #[serde(borrow, default)]
    pub(crate) ilp_packet: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) condition: Cow<'a, str>,
}

/// PUT or PATCH /transfers/{id}.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransferAnswered<'a> {
    #[serde(borrow)]
    transfer_state: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) fulfilment: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorAnswered<'a> {
    #[serde(borrow)]
    error_information: ErrorInformation<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorInformation<'a> {
    #[serde(borrow)]
    error_code: Cow<'a, str>,
}

/// `POST /bulkTransfers`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkPosted<'a> {
    #[serde(borrow)]
    pub(crate) bulk_transfer_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) payer_fsp: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) payee_fsp: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) individual_transfers: Vec<BulkItem<'a>>,
}

/// An item of a bulk.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkItem<'a> {
    #[serde(borrow)]
    transfer_id: Cow<'a, str>,
    #[serde(borrow)]
    transfer_amount: Money<'a>,
    #[serde(borrow)]
    ilp_packet: Cow<'a, str>,
    #[serde(borrow)]
    condition: Cow<'a, str>,
}

/// `PUT /bulkTransfers/{id}` from the hub.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkAnswered<'a> {
    #[serde(borrow, default)]
    pub(crate) individual_transfer_results: Vec<BulkResult<'a>>,
}

/// The result of an item.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BulkResult<'a> {
    #[serde(borrow)]
    pub(crate) transfer_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) fulfilment: Option<Cow<'a, str>>,
}

impl<'a> BulkPosted<'a> {
    /// Takes the items, each as a transfer of its own.
    pub(crate) fn take_transfers(&mut self) -> impl Iterator<Item = TransferPosted<'a>> + use<'a> {
        let (payer, payee) = (self.payer_fsp.clone(), self.payee_fsp.clone());
        let items = std::mem::take(&mut self.individual_transfers).into_iter();
        items.map(move |item| TransferPosted {
            transfer_id: item.transfer_id,
            payer_fsp: payer.clone(),
            payee_fsp: payee.clone(),
            amount: item.transfer_amount,
            ilp_packet: item.ilp_packet,
            condition: item.condition,
        })
    }
}

impl PartyFound<'_> {
    /// The FSP that the party belongs to.
    pub(crate) fn fsp(&self) -> Option<FspName> {
        FspName::new(self.party.party_id_info.fsp_id.as_deref()?)
    }

    /// The party's number.
    pub(crate) fn number(&self) -> &str {
        &self.party.party_id_info.party_identifier
    }
}

impl TransferPosted<'_> {
    /// The transfer's id, its payer and its amount, if all three are valid.
    pub(crate) fn terms(&self) -> Option<(TransferId, FspName, Amount)> {
        let id = TransferId::parse(&self.transfer_id)?;
        Some((id, FspName::new(&self.payer_fsp)?, Amount::parse(&self.amount.amount)?))
    }
}

impl TransferAnswered<'_> {
    /// Whether the state is not final.
    pub(crate) fn is_reserved(&self) -> bool {
        self.transfer_state == "RESERVED"
    }

    /// The end of the transfer; `None` if the state is not final.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        match &*self.transfer_state {
            "COMMITTED" => Some(Verdict::Committed),
            "ABORTED" => Some(Verdict::Aborted),
            _ => None,
        }
    }
}

/// The FSPIOP code in an error callback; 0 if it cannot be read.
pub(crate) fn error_code(body: &[u8]) -> u16 {
    let parsed = serde_json::from_slice::<ErrorAnswered<'_>>(body);
    parsed.ok().and_then(|error| error.error_information.error_code.parse().ok()).unwrap_or(0)
}

/// Buffers for building a packet.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) packet: Vec<u8>,
    account: Vec<u8>,
    transaction: Vec<u8>,
    binary: Vec<u8>,
}

/// The terms of a payee, and the party that they are for.
pub(crate) struct OfferedTerms<'a> {
    pub(crate) condition: [u8; 32],
    /// The payee's FSP as named in the request, if it is named.
    pub(crate) payee_fsp: Option<Cow<'a, str>>,
    pub(crate) payee_number: Cow<'a, str>,
    pub(crate) currency: Currency,
}

/// Builds packet (left in `scratch.packet`) and condition for a quote; `None` if a field that the
/// packet needs cannot be read.
pub(crate) fn make_terms<'a>(
    quote: &QuotePosted<'a>,
    fsp: &str,
    secret: &Secret,
    scratch: &mut Scratch,
) -> Option<OfferedTerms<'a>> {
    let payee: PartyText<'_> = serde_json::from_str(quote.payee.get()).ok()?;
    let amount = Amount::parse(&quote.amount.amount)?;
    let currency = Currency::parse(&quote.amount.currency)?;
    scratch.packet.clear();
    scratch.account.clear();
    scratch.transaction.clear();
    push(&mut scratch.account, &["g.", fsp, ".msisdn.", &payee.party_id_info.party_identifier]);
    let parties = PartiesText { payer: quote.payer.get(), payee: quote.payee.get() };
    push_transaction(
        &mut scratch.transaction,
        &quote.quote_id,
        &quote.transaction_id,
        &parties,
        (&quote.amount.amount, currency),
    );
    let payment =
        Payment { amount, currency, account: &scratch.account, transaction: &scratch.transaction };
    push_packet(&mut scratch.packet, &mut scratch.binary, &payment);
    let PartyIdInfo { party_identifier: payee_number, fsp_id: payee_fsp } = payee.party_id_info;
    let condition = condition(&secret.fulfilment(&scratch.packet));
    Some(OfferedTerms { condition, payee_fsp, payee_number, currency })
}
