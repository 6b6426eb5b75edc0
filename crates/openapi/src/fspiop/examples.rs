//! A valid message for each operation that has a body.

use ::fspiop::route_table::Operation;
use serde_json::{Value, json};

pub(super) const TRANSFER_ID: &str = "b51ec534-ee48-4575-b6a9-ead2955b8069";
const BULK_ID: &str = "2b9c1a52-64c5-4f4e-9d0c-1f0a6d6f3a10";
pub(super) const QUOTE_ID: &str = "7c23e80c-d078-4077-8263-2c047876fcf6";
const CONDITION: &str = "Zmh6rfhivXdsj8GLjp-OIAiXFIVu4jOzkCpZHQ1fKSU";
const FULFILMENT: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const PACKET: &str = "AYIBgQAAAAAAAASwNGxldmVsb25lLmRmc3AxLm1lci45T2RTOF81MDdqUUZERmZlakgyOVc4bXFm";

pub(super) fn of(operation: Operation) -> Value {
    match operation {
        Operation::ParticipantsBatch => json!({
            "requestId": QUOTE_ID,
            "currency": "XOF",
            "partyList": [
                {"partyIdType": "MSISDN", "partyIdentifier": "27713803912", "fspId": "payerfsp"},
                {"partyIdType": "ALIAS", "partyIdentifier": "grace", "fspId": "payerfsp"},
            ],
        }),
        Operation::ParticipantsPost | Operation::ParticipantsPut => {
            json!({"fspId": "payerfsp", "currency": "XOF"})
        }
        Operation::PartiesPut => json!({"party": {
            "partyIdInfo": party("payeefsp"),
            "name": "Grace Banda",
            "personalInfo": {"complexName": {"firstName": "Grace", "lastName": "Banda"}},
        }}),
        Operation::TransfersPost => transfer(),
        Operation::BulkTransfersPost => bulk_transfer(),
        Operation::BulkTransfersPut => json!({
            "bulkTransferState": "COMPLETED",
            "individualTransferResults": [
                {"transferId": TRANSFER_ID, "fulfilment": FULFILMENT},
            ],
        }),
        Operation::TransfersPut => json!({"transferState": "COMMITTED", "fulfilment": FULFILMENT}),
        Operation::ParticipantsError
        | Operation::PartiesError
        | Operation::QuotesError
        | Operation::BulkQuotesError
        | Operation::TransactionRequestsError
        | Operation::AuthorizationsError
        | Operation::TransactionsError
        | Operation::BulkTransfersError
        | Operation::TransfersError => error("5104", "Payee rejected transaction"),
        _ => exchange(operation),
    }
}

/// A message that is only forwarded.
fn exchange(operation: Operation) -> Value {
    match operation {
        Operation::QuotesPost => json!({
            "quoteId": QUOTE_ID,
            "transactionId": "85feac2f-39b2-491b-817e-4a03203d4f14",
            "payer": {"partyIdInfo": party("payerfsp")},
            "payee": {"partyIdInfo": party("payeefsp")},
            "amountType": "SEND",
            "amount": {"currency": "XOF", "amount": "1500"},
            "transactionType": {
                "scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER",
            },
            "note": "rent",
        }),
        Operation::QuotesPut => json!({
            "transferAmount": {"currency": "XOF", "amount": "1500"},
            "payeeReceiveAmount": {"currency": "XOF", "amount": "1485"},
            "payeeFspFee": {"currency": "XOF", "amount": "15"},
            "expiration": "2099-12-31T23:59:59.000Z",
            "ilpPacket": PACKET,
            "condition": CONDITION,
        }),
        Operation::BulkQuotesPost => json!({
            "bulkQuoteId": QUOTE_ID,
            "payer": {"partyIdInfo": party("payerfsp")},
            "individualQuotes": [{
                "quoteId": "9a6d5f3e-3f3c-4a0e-8d4a-5a0d8c3b7e11",
                "transactionId": "85feac2f-39b2-491b-817e-4a03203d4f14",
                "payee": {"partyIdInfo": party("payeefsp")},
                "amountType": "SEND",
                "amount": {"currency": "XOF", "amount": "1500"},
                "transactionType": {
                    "scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "BUSINESS",
                },
            }],
        }),
        Operation::BulkQuotesPut => json!({
            "expiration": "2099-12-31T23:59:59.000Z",
            "individualQuoteResults": [{
                "quoteId": "9a6d5f3e-3f3c-4a0e-8d4a-5a0d8c3b7e11",
                "transferAmount": {"currency": "XOF", "amount": "1500"},
                "ilpPacket": PACKET,
                "condition": CONDITION,
            }],
        }),
        _ => request(operation),
    }
}

/// A message about a request to pay.
fn request(operation: Operation) -> Value {
    match operation {
        Operation::TransactionRequestsPost => json!({
            "transactionRequestId": QUOTE_ID,
            "payee": {"partyIdInfo": party("payeefsp")},
            "payer": party("payerfsp"),
            "amount": {"currency": "XOF", "amount": "1500"},
            "transactionType": {
                "scenario": "PAYMENT", "initiator": "PAYEE", "initiatorType": "BUSINESS",
            },
            "authenticationType": "OTP",
        }),
        Operation::TransactionRequestsPut => json!({
            "transactionId": "85feac2f-39b2-491b-817e-4a03203d4f14",
            "transactionRequestState": "RECEIVED",
        }),
        Operation::AuthorizationsPut => json!({
            "authenticationInfo": {"authentication": "OTP", "authenticationValue": "1234"},
            "responseType": "ENTERED",
        }),
        Operation::TransactionsPut => json!({
            "completedTimestamp": "2026-01-01T10:00:00.000Z",
            "transactionState": "COMPLETED",
        }),
        _ => json!({}),
    }
}

fn bulk_transfer() -> Value {
    json!({
        "bulkTransferId": BULK_ID,
        "bulkQuoteId": QUOTE_ID,
        "payerFsp": "payerfsp",
        "payeeFsp": "payeefsp",
        "expiration": "2099-12-31T23:59:59.000Z",
        "individualTransfers": [{
            "transferId": TRANSFER_ID,
            "transferAmount": {"currency": "XOF", "amount": "1500"},
            "ilpPacket": PACKET,
            "condition": CONDITION,
        }],
    })
}

pub(super) fn transfer() -> Value {
    json!({
        "transferId": TRANSFER_ID,
        "payerFsp": "payerfsp",
        "payeeFsp": "payeefsp",
        "amount": {"currency": "XOF", "amount": "1500"},
        "ilpPacket": PACKET,
        "condition": CONDITION,
        "expiration": "2099-12-31T23:59:59.000Z",
    })
}

pub(super) fn error(code: &str, description: &str) -> Value {
    json!({"errorInformation": {"errorCode": code, "errorDescription": description}})
}

pub(super) fn party(fsp: &str) -> Value {
    json!({"partyIdType": "MSISDN", "partyIdentifier": "27713803912", "fspId": fsp})
}
