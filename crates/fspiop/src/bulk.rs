//! `/bulkTransfers`: the bodies of participants, those of the hub, and the message about one
//! transfer that each item corresponds to.
//!
//! Each item is checked by the rules of its own, and captured once more after the walk over the
//! whole body. Raw values of members are copied as they were written.
//!
//! Costs: two passes over each item; one allocation per captured list.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use ledger::{BulkItemAnswer, BulkItemResult, FspName, Fulfilment, TransferId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body::{self, Money, decode_condition, decode_fulfilment, fsp_id, money, rules};
use crate::error::{ErrorCode, Refusal, write_error_information};
use crate::json::ObjectWriter;
use crate::schema;
use crate::time::{date_time_whole_seconds, parse_date_time};

/// `POST /bulkTransfers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkTransfer {
    /// `bulkTransferId`, as the id of a bulk.
    pub bulk: TransferId,
    /// `payerFsp`.
    pub payer: FspName,
    /// `payeeFsp`.
    pub payee: FspName,
    /// `expiration`, in milliseconds since 1970; 0 for anything before.
    pub expiration_ms: u64,
    /// `individualTransfers`.
    pub items: Vec<IndividualTransfer>,
}

/// An entry of `individualTransfers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndividualTransfer {
    /// `transferId`.
    pub transfer: TransferId,
    /// `transferAmount`.
    pub amount: Money,
    /// `condition`, decoded.
    pub condition: [u8; 32],
}

impl BulkTransfer {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103, with the index of the item.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let mut found = schema::check(body, &rules::BULK_TRANSFER_REQUEST)?;
        let list = found.take(rules::BULK_ITEMS).unwrap_or_default();
        let entries = entries(&list, "individualTransfers")?;
        let items = entries.iter().enumerate().map(|(at, raw)| individual_transfer(at, raw.get()));
        Ok(Self {
            bulk: found.require(rules::BULK_ID, TransferId::parse).as_bulk(),
            payer: found.require(rules::BULK_PAYER, fsp_id),
            payee: found.require(rules::BULK_PAYEE, fsp_id),
            expiration_ms: found.require(rules::BULK_EXPIRATION, parse_date_time),
            items: items.collect::<Result<_, _>>()?,
        })
    }
}

/// The refusal of a bulk with more items than the scheme allows: that of the published schema.
#[must_use]
pub fn too_many_items(items_max: usize) -> Refusal {
    let list = "/requestBody/individualTransfers";
    Refusal::invalid(&format!("{list} must NOT have more than {items_max} items"))
}

/// The items of `POST /bulkTransfers` as they were written; empty for an invalid body.
#[must_use]
pub fn raw_items(body: &[u8]) -> Vec<&str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Items<'a> {
        #[serde(borrow)]
        individual_transfers: Vec<&'a RawValue>,
    }
    let parsed = serde_json::from_slice::<Items<'_>>(body);
    parsed
        .map(|it| it.individual_transfers.iter().map(|item| item.get()).collect())
        .unwrap_or_default()
}

fn individual_transfer(at: usize, raw: &str) -> Result<IndividualTransfer, Refusal> {
    let found = schema::check(raw.as_bytes(), &rules::INDIVIDUAL_TRANSFER)?;
    let condition = found.parse(rules::ITEM_CONDITION, decode_condition).ok_or_else(|| {
        Refusal::invalid(&format!(
            "/requestBody/individualTransfers/{at}/condition is not the form of a SHA-256: no \
             fulfilment can meet it"
        ))
    })?;
    let amount = money(&found, rules::ITEM_AMOUNT).expect("an amount is required");
    Ok(IndividualTransfer {
        transfer: found.require(rules::ITEM_ID, TransferId::parse),
        amount,
        condition,
    })
}

/// `PUT /bulkTransfers/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkTransferResult {
    /// `completedTimestamp`, in milliseconds since 1970.
    pub completed_ms: Option<u64>,
    /// `individualTransferResults`; empty when absent.
    pub items: Vec<IndividualResult>,
}

/// An entry of `individualTransferResults`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndividualResult {
    /// `transferId`.
    pub transfer: TransferId,
    /// `fulfilment`: 32 bytes, to be hashed and compared with the condition.
    pub fulfilment: Option<[u8; 32]>,
    /// `errorInformation`: code and description as sent.
    pub error: Option<(ErrorCode, String)>,
}

impl BulkTransferResult {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103, with the index of the item. 3100 for a transfer
    /// that is named twice.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let mut found = schema::check(body, &rules::BULK_TRANSFER_RESPONSE)?;
        let completed_ms = found.parse(rules::BULK_COMPLETED, parse_date_time);
        let Some(list) = found.take(rules::BULK_RESULTS) else {
            return Ok(Self { completed_ms, items: Vec::new() });
        };
        let mut known = HashSet::new();
        let mut items = Vec::new();
        for (at, raw) in entries(&list, "individualTransferResults")?.iter().enumerate() {
            let item = individual_result(raw.get())?;
            if !known.insert(item.transfer) {
                return Err(Refusal::invalid(&format!(
                    "/requestBody/individualTransferResults/{at}/transferId occurs twice"
                )));
            }
            items.push(item);
        }
        Ok(Self { completed_ms, items })
    }

    /// Compares `completedTimestamp` with the time of receipt, as for a single transfer.
    ///
    /// # Errors
    /// 3100 if it is too far from `now_ms`.
    pub fn check_completed(&self, now_ms: u64) -> Result<(), Refusal> {
        body::check_completed(self.completed_ms, now_ms)
    }
}

fn individual_result(raw: &str) -> Result<IndividualResult, Refusal> {
    let mut found = schema::check(raw.as_bytes(), &rules::INDIVIDUAL_TRANSFER_RESULT)?;
    let code = found.parse(rules::RESULT_ERROR, ErrorCode::parse);
    let description = found.take(rules::RESULT_ERROR + rules::ERROR_DESCRIPTION);
    Ok(IndividualResult {
        transfer: found.require(rules::RESULT_ID, TransferId::parse),
        fulfilment: found.parse(rules::RESULT_FULFILMENT, decode_fulfilment),
        error: code.map(|code| (code, description.unwrap_or_default().into_owned())),
    })
}

fn entries<'a>(list: &'a str, name: &str) -> Result<Vec<&'a RawValue>, Refusal> {
    serde_json::from_str(list)
        .map_err(|_| Refusal::malformed(&format!("/requestBody/{name} must be JSON")))
}

/// The members of a bulk as they were written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBulk<'a> {
    #[serde(borrow)]
    bulk_quote_id: &'a RawValue,
    #[serde(borrow)]
    bulk_transfer_id: &'a RawValue,
    #[serde(borrow)]
    expiration: &'a RawValue,
    #[serde(borrow)]
    extension_list: Option<&'a RawValue>,
    #[serde(borrow)]
    individual_transfers: Vec<RawTransfer<'a>>,
    #[serde(borrow)]
    payee_fsp: &'a RawValue,
    #[serde(borrow)]
    payer_fsp: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTransfer<'a> {
    #[serde(borrow)]
    condition: &'a RawValue,
    #[serde(borrow)]
    extension_list: Option<&'a RawValue>,
    #[serde(borrow)]
    ilp_packet: &'a RawValue,
    #[serde(borrow)]
    transfer_amount: RawMoney<'a>,
    #[serde(borrow)]
    transfer_id: &'a RawValue,
}

#[derive(Deserialize)]
struct RawMoney<'a> {
    #[serde(borrow)]
    amount: &'a RawValue,
    #[serde(borrow)]
    currency: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResults<'a> {
    #[serde(borrow)]
    individual_transfer_results: Vec<RawResult<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResult<'a> {
    #[serde(borrow)]
    transfer_id: &'a RawValue,
    #[serde(borrow)]
    fulfilment: Option<&'a RawValue>,
    #[serde(borrow)]
    error_information: Option<&'a RawValue>,
    #[serde(borrow)]
    extension_list: Option<&'a RawValue>,
}

fn raw(out: &mut ObjectWriter<'_>, name: &'static str, value: &RawValue) {
    out.member(name).extend_from_slice(value.get().as_bytes());
}

fn raw_money(out: &mut ObjectWriter<'_>, name: &'static str, money: &RawMoney<'_>) {
    let mut object = ObjectWriter::open(out.member(name));
    raw(&mut object, "amount", money.amount);
    raw(&mut object, "currency", money.currency);
    object.close();
}

fn is_id(value: &RawValue, id: &TransferId) -> bool {
    serde_json::from_str::<&str>(value.get()).ok().and_then(TransferId::parse) == Some(*id)
}

/// Renders `POST /bulkTransfers` from the hub: the message of the payer with those items only for
/// which `is_accepted` holds. `None` if `body` is not a valid message.
#[must_use]
pub fn accepted_items(body: &[u8], is_accepted: impl Fn(usize) -> bool) -> Option<Bytes> {
    let bulk: RawBulk<'_> = serde_json::from_slice(body).ok()?;
    let mut out = Vec::with_capacity(body.len());
    let mut object = ObjectWriter::open(&mut out);
    raw(&mut object, "bulkQuoteId", bulk.bulk_quote_id);
    raw(&mut object, "bulkTransferId", bulk.bulk_transfer_id);
    raw(&mut object, "expiration", bulk.expiration);
    bulk.extension_list.into_iter().for_each(|list| raw(&mut object, "extensionList", list));
    let list = object.member("individualTransfers");
    list.push(b'[');
    let items = bulk.individual_transfers.iter().enumerate().filter(|(at, _)| is_accepted(*at));
    for (count, (_, item)) in items.enumerate() {
        if count > 0 {
            list.push(b',');
        }
        let mut object = ObjectWriter::open(list);
        raw(&mut object, "condition", item.condition);
        item.extension_list.into_iter().for_each(|list| raw(&mut object, "extensionList", list));
        raw(&mut object, "ilpPacket", item.ilp_packet);
        raw_money(&mut object, "transferAmount", &item.transfer_amount);
        raw(&mut object, "transferId", item.transfer_id);
        object.close();
    }
    list.push(b']');
    raw(&mut object, "payeeFsp", bulk.payee_fsp);
    raw(&mut object, "payerFsp", bulk.payer_fsp);
    object.close();
    Some(Bytes::from(out))
}

/// The body of `POST /transfers` that an item of `POST /bulkTransfers` corresponds to; `None` if
/// `body` does not have the item.
#[must_use]
pub fn transfer_of_item(body: &[u8], id: &TransferId) -> Option<Bytes> {
    let bulk: RawBulk<'_> = serde_json::from_slice(body).ok()?;
    let item = bulk.individual_transfers.iter().find(|item| is_id(item.transfer_id, id))?;
    let mut out = Vec::with_capacity(item.ilp_packet.get().len() + 512);
    let mut object = ObjectWriter::open(&mut out);
    raw_money(&mut object, "amount", &item.transfer_amount);
    raw(&mut object, "condition", item.condition);
    raw(&mut object, "expiration", bulk.expiration);
    item.extension_list.into_iter().for_each(|list| raw(&mut object, "extensionList", list));
    raw(&mut object, "ilpPacket", item.ilp_packet);
    raw(&mut object, "payeeFsp", bulk.payee_fsp);
    raw(&mut object, "payerFsp", bulk.payer_fsp);
    raw(&mut object, "transferId", item.transfer_id);
    object.close();
    Some(Bytes::from(out))
}

/// The body of `PUT /transfers/{ID}`, or of `PUT /transfers/{ID}/error`, that an item of
/// `PUT /bulkTransfers/{ID}` corresponds to; `None` if `body` does not have the item.
#[must_use]
pub fn response_of_item(body: &[u8], id: &TransferId) -> Option<Bytes> {
    let results: RawResults<'_> = serde_json::from_slice(body).ok()?;
    let mut items = results.individual_transfer_results.iter();
    response(items.find(|item| is_id(item.transfer_id, id))?)
}

fn response(item: &RawResult<'_>) -> Option<Bytes> {
    let mut out = Vec::with_capacity(192);
    let mut object = ObjectWriter::open(&mut out);
    match item.error_information {
        Some(error) => raw(&mut object, "errorInformation", error),
        None => {
            let list = item.extension_list.into_iter();
            list.for_each(|list| raw(&mut object, "extensionList", list));
            let fulfilment = item.fulfilment.into_iter();
            fulfilment.for_each(|value| raw(&mut object, "fulfilment", value));
            object.text("transferState", "COMMITTED");
        }
    }
    object.close();
    Some(Bytes::from(out))
}

/// The result of an item, for `PUT /bulkTransfers/{ID}` from the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemResult {
    /// The transfer.
    pub transfer: TransferId,
    /// Its end; `None` while it is in flight.
    pub end: Option<ItemEnd>,
}

/// The end of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemEnd {
    /// Committed, with the fulfilment of the payee's message.
    Committed,
    /// Refused or aborted: code and complete description.
    Failed(ErrorCode, String),
}

/// Renders `PUT /bulkTransfers/{ID}` from the hub. `answer` is the payee's message, which has the
/// fulfilments.
#[must_use]
pub fn result(
    state: &str,
    completed_ms: Option<u64>,
    (items, answer): (&[ItemResult], Option<&[u8]>),
) -> Bytes {
    let mut out = Vec::with_capacity(96 + items.len() * 144);
    let mut object = ObjectWriter::open(&mut out);
    object.text("bulkTransferState", state);
    if let Some(completed) = completed_ms {
        let text = object.member("completedTimestamp");
        text.push(b'"');
        text.extend_from_slice(&date_time_whole_seconds(completed));
        text.push(b'"');
    }
    if !items.is_empty() {
        let parsed = answer.and_then(|body| serde_json::from_slice::<RawResults<'_>>(body).ok());
        let answered: HashMap<TransferId, &RawResult<'_>> = parsed
            .iter()
            .flat_map(|results| &results.individual_transfer_results)
            .filter_map(|item| {
                let id: &str = serde_json::from_str(item.transfer_id.get()).ok()?;
                Some((TransferId::parse(id)?, item))
            })
            .collect();
        let list = object.member("individualTransferResults");
        list.push(b'[');
        for (count, item) in items.iter().enumerate() {
            if count > 0 {
                list.push(b',');
            }
            write_result(list, item, answered.get(&item.transfer).copied());
        }
        list.push(b']');
    }
    object.close();
    Bytes::from(out)
}

/// Renders `PUT /bulkTransfers/{ID}` of a payee from the fields that the hub has of it: for each
/// item the fulfilment, or [`ErrorCode::GENERIC_PAYEE`] in place of the payee's error.
#[must_use]
pub fn answer_of_fields(items: &[BulkItemResult]) -> Bytes {
    let mut out = Vec::with_capacity(96 + items.len() * 144);
    let mut object = ObjectWriter::open(&mut out);
    object.text("bulkTransferState", "COMPLETED");
    let list = object.member("individualTransferResults");
    list.push(b'[');
    for (count, item) in items.iter().enumerate() {
        if count > 0 {
            list.push(b',');
        }
        let mut object = ObjectWriter::open(list);
        match item.answer {
            BulkItemAnswer::Fulfilled(Fulfilment::Present(preimage)) => {
                object.text("fulfilment", &URL_SAFE_NO_PAD.encode(preimage));
            }
            BulkItemAnswer::Fulfilled(Fulfilment::Absent | Fulfilment::Undecodable) => {}
            BulkItemAnswer::Refused(_) => write_generic_error(&mut object),
        }
        object.text("transferId", &item.id.to_string());
        object.close();
    }
    list.push(b']');
    object.close();
    Bytes::from(out)
}

fn write_generic_error(object: &mut ObjectWriter<'_>) {
    let (code, none): (_, [(&str, &str); 0]) = (ErrorCode::GENERIC_PAYEE, []);
    write_error_information(object.member("errorInformation"), code, code.name(), &none);
}

fn write_result(out: &mut Vec<u8>, item: &ItemResult, answered: Option<&RawResult<'_>>) {
    let mut object = ObjectWriter::open(out);
    match &item.end {
        None => {}
        Some(ItemEnd::Failed(code, description)) => {
            let none: [(&str, &str); 0] = [];
            write_error_information(object.member("errorInformation"), *code, description, &none);
        }
        Some(ItemEnd::Committed) => {
            let list = answered.and_then(|item| item.extension_list);
            list.into_iter().for_each(|list| raw(&mut object, "extensionList", list));
            let fulfilment = answered.and_then(|item| item.fulfilment);
            fulfilment.into_iter().for_each(|value| raw(&mut object, "fulfilment", value));
        }
    }
    object.text("transferId", &item.transfer.to_string());
    object.close();
}

/// The errors of items in the payee's message: code and complete description of each.
#[must_use]
pub fn errors_of_items(answer: &[u8]) -> HashMap<TransferId, (ErrorCode, String)> {
    let Ok(parsed) = BulkTransferResult::parse(answer) else { return HashMap::new() };
    let errors = parsed.items.into_iter().filter_map(|item| {
        let (code, description) = item.error?;
        let error =
            body::ErrorInformation { code, description: description.into(), extension_list: None };
        let (code, description) = error.effective();
        Some((item.transfer, (code, description.into_owned())))
    });
    errors.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Fulfil;

    const ID: &str = "b51ec534-ee48-4575-b6a9-ead2955b8069";
    const ITEM: &str = "b51ec534-ee48-4575-b6a9-ead2955b8061";
    const OTHER: &str = "b51ec534-ee48-4575-b6a9-ead2955b8062";

    fn item(id: &str) -> String {
        format!(
            r#"{{ "transferId": "{id}", "transferAmount": {{"currency":"USD", "amount":"1.5"}},
                "ilpPacket": "AQ", "condition": "{}", "other": 1 }}"#,
            "A".repeat(43)
        )
    }

    fn bulk(items: &[String]) -> String {
        format!(
            r#"{{"bulkTransferId":"{ID}","bulkQuoteId":"{ID}","payerFsp":"a","payeeFsp":"b",
                "expiration":"2099-01-01T00:00:00.000Z","individualTransfers":[{}]}}"#,
            items.join(",")
        )
    }

    fn text_of(refusal: &Refusal) -> String {
        String::from_utf8(refusal.body().to_vec()).expect("UTF-8")
    }

    #[test]
    fn items_are_parsed_in_order() {
        let body = bulk(&[item(ITEM), item(OTHER)]);
        let parsed = BulkTransfer::parse(body.as_bytes()).expect("a valid body");
        let ids: Vec<_> = parsed.items.iter().map(|item| item.transfer.to_string()).collect();
        assert_eq!(ids, [ITEM, OTHER]);
        assert!(parsed.bulk.is_bulk() && parsed.bulk.to_string() == ID);
        assert_eq!(parsed.items[0].amount.amount.to_string(), "1.5");
    }

    #[test]
    fn refusals_name_the_item() {
        let broken = item(OTHER).replace("\"AQ\"", "\"%\"");
        let refused = BulkTransfer::parse(bulk(&[item(ITEM), broken]).as_bytes());
        let text = text_of(&refused.expect_err("an invalid packet"));
        assert!(text.contains("/requestBody/individualTransfers/1/ilpPacket"), "{text}");
        // The last character of a condition has unused bits.
        let spare = item(OTHER).replace(&"A".repeat(43), &format!("{}B", "A".repeat(42)));
        let refused = BulkTransfer::parse(bulk(&[item(ITEM), spare]).as_bytes());
        let text = text_of(&refused.expect_err("an impossible condition"));
        assert!(text.contains("/requestBody/individualTransfers/1/condition"), "{text}");
        let text = text_of(&too_many_items(1));
        assert!(text.contains("individualTransfers must NOT have more than 1 items"), "{text}");
        let refused = BulkTransfer::parse(bulk(&[]).as_bytes());
        let text = text_of(&refused.expect_err("no items"));
        assert!(text.contains("individualTransfers must NOT have fewer than 1 items"), "{text}");
    }

    #[test]
    fn message_to_the_payee_has_the_accepted_items_only() {
        let body = bulk(&[item(ITEM), item(OTHER)]);
        let rendered = accepted_items(body.as_bytes(), |at| at == 1).expect("a body");
        let expected = format!(
            r#"{{"bulkQuoteId":"{ID}","bulkTransferId":"{ID}","expiration":"2099-01-01T00:00:00.000Z","individualTransfers":[{{"condition":"{}","ilpPacket":"AQ","transferAmount":{{"amount":"1.5","currency":"USD"}},"transferId":"{OTHER}"}}],"payeeFsp":"b","payerFsp":"a"}}"#,
            "A".repeat(43)
        );
        assert_eq!(rendered, expected.as_bytes());
        assert!(BulkTransfer::parse(&rendered).is_ok());
    }

    #[test]
    fn items_become_messages_about_one_transfer() {
        let body = bulk(&[item(ITEM), item(OTHER)]);
        let id = TransferId::parse(OTHER).expect("an id");
        let transfer = transfer_of_item(body.as_bytes(), &id).expect("it has the item");
        let parsed = body::Prepare::parse(&transfer).expect("a prepare");
        assert_eq!((parsed.transfer, parsed.payer.as_str()), (id, "a"));
        let answer = format!(
            r#"{{"bulkTransferState":"COMPLETED","individualTransferResults":[
                {{"transferId":"{ITEM}","fulfilment":"{0}"}},
                {{"transferId":"{OTHER}",
                  "errorInformation":{{"errorCode":"5104","errorDescription":"no"}}}}]}}"#,
            "A".repeat(43)
        );
        let results = BulkTransferResult::parse(answer.as_bytes()).expect("a result");
        assert_eq!(results.items[0].fulfilment, Some([0; 32]));
        let of = |id: &str| {
            let id = TransferId::parse(id).expect("an id");
            response_of_item(answer.as_bytes(), &id).expect("it has the item")
        };
        assert_eq!(Fulfil::parse(&of(ITEM)).expect("a fulfil").fulfilment, Some([0; 32]));
        let error = of(OTHER);
        let error = body::ErrorInformation::parse(&error).expect("an error");
        assert_eq!((error.code.number(), &*error.description), (5104, "no"));
        let errors = errors_of_items(answer.as_bytes());
        assert_eq!(errors, HashMap::from([(id, (error.code, "no".to_owned()))]));
    }

    #[test]
    fn a_result_names_each_transfer_once() {
        let body = format!(
            r#"{{"bulkTransferState":"COMPLETED","individualTransferResults":[
                {{"transferId":"{ITEM}"}},{{"transferId":"{ITEM}"}}]}}"#
        );
        let refused = BulkTransferResult::parse(body.as_bytes()).expect_err("named twice");
        let text = text_of(&refused);
        assert!(text.contains("individualTransferResults/1/transferId occurs twice"), "{text}");
    }
}
