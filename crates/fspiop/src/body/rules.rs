//! Tables of the published schemas: patterns, lengths, required members, in their order.

use ledger::{Amount, TransferId};
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::{BATCH_PARTIES_MAX, TransferState};
use crate::currency::{is_known_currency, known_currencies};
use crate::json::{EXTENSION_KEY_CHARS_MAX, EXTENSION_VALUE_CHARS_MAX, EXTENSIONS_MAX};
use crate::route::PartyIdType;
use crate::schema::{Capture, Form, List, Member, Rule, Shape, Text};
use crate::time::{is_date, parse_date_time};

/// Maximum length of an ILP packet, in characters.
const ILP_PACKET_CHARS_MAX: usize = 32_768;
const UNBOUNDED: usize = usize::MAX;

// Slots. Slots of a nested object count from the slot of the object.
pub(super) const MONEY_AMOUNT: usize = 0;
pub(super) const MONEY_CURRENCY: usize = 1;

pub(super) const TRANSFER_ID: usize = 0;
pub(super) const PAYER: usize = 1;
pub(super) const PAYEE: usize = 2;
pub(super) const AMOUNT: usize = 3;
pub(super) const CONDITION: usize = 5;
pub(super) const EXPIRATION: usize = 6;

pub(super) const STATE: usize = 0;
pub(super) const FULFILMENT: usize = 1;
pub(super) const COMPLETED: usize = 2;
pub(super) const EXTENSION_LIST: usize = 3;

pub(super) const ERROR_CODE: usize = 0;
pub(crate) const ERROR_DESCRIPTION: usize = 1;
pub(super) const ERROR_EXTENSION_LIST: usize = 2;

pub(super) const PARTY_FSP: usize = 0;
pub(super) const PARTY_CURRENCIES: usize = 1;

pub(super) const QUOTE_ID: usize = 0;
pub(super) const QUOTE_AMOUNT: usize = 1;
pub(super) const QUOTE_PAYER: usize = 3;
pub(super) const QUOTE_PAYEE: usize = 5;
pub(super) const QUOTE_TRANSACTION: usize = 7;
pub(super) const QUOTE_REQUEST_EXPIRATION: usize = 8;
pub(super) const QUOTE_REQUEST_TO_PAY: usize = 9;

pub(super) const TRANSFER_AMOUNT: usize = 0;
pub(super) const RECEIVE_AMOUNT: usize = 2;
pub(super) const QUOTE_EXPIRATION: usize = 4;

pub(super) const BULK_QUOTE_ID: usize = 0;
pub(super) const BULK_QUOTES: usize = 1;

pub(super) const TRANSACTION_REQUEST_ID: usize = 0;
pub(super) const TRANSACTION_REQUEST_EXPIRATION: usize = 1;

pub(super) const REQUEST_STATE_NAME: usize = 0;
pub(super) const REQUEST_TRANSACTION: usize = 1;

pub(crate) const BULK_ID: usize = 0;
pub(crate) const BULK_PAYER: usize = 1;
pub(crate) const BULK_PAYEE: usize = 2;
pub(crate) const BULK_EXPIRATION: usize = 3;
pub(crate) const BULK_ITEMS: usize = 4;

pub(crate) const ITEM_ID: usize = 0;
pub(crate) const ITEM_AMOUNT: usize = 1;
pub(crate) const ITEM_CONDITION: usize = 3;

pub(crate) const BULK_COMPLETED: usize = 0;
pub(crate) const BULK_RESULTS: usize = 1;

pub(crate) const RESULT_ID: usize = 0;
pub(crate) const RESULT_FULFILMENT: usize = 1;
pub(crate) const RESULT_ERROR: usize = 2;

pub(super) const REGISTERED_FSP: usize = 0;
pub(super) const REGISTERED_CURRENCY: usize = 1;

pub(super) const REQUEST_ID: usize = 0;
pub(super) const BATCH_PARTIES: usize = 1;
pub(super) const BATCH_CURRENCY: usize = 2;

const fn text(least: usize, most: usize) -> Rule {
    Rule::Text(Text { least, most, form: Form::Any })
}

const fn pattern(pattern: &'static str, holds: fn(&str) -> bool) -> Rule {
    bounded_pattern(0, UNBOUNDED, pattern, holds)
}

const fn bounded_pattern(
    least: usize,
    most: usize,
    pattern: &'static str,
    holds: fn(&str) -> bool,
) -> Rule {
    Rule::Text(Text { least, most, form: Form::Pattern { pattern, holds } })
}

const fn one_of(names: &'static [&'static str]) -> Rule {
    Rule::Text(Text { least: 0, most: UNBOUNDED, form: Form::OneOf(names) })
}

const fn object(required: &'static [&'static str], members: &'static [Member]) -> Rule {
    assert!(members.len() <= 32, "the walk counts members in 32 bits");
    Rule::Object(Shape { members, required, closed: false })
}

const fn closed_object(required: &'static [&'static str], members: &'static [Member]) -> Rule {
    assert!(members.len() <= 32, "the walk counts members in 32 bits");
    Rule::Object(Shape { members, required, closed: true })
}

/// A member that is checked but not captured.
const fn checked(name: &'static str, rule: &'static Rule) -> Member {
    Member { name, rule, capture: Capture::No }
}

/// A member captured at `slot`, with its nested members from there on.
const fn kept(name: &'static str, rule: &'static Rule, slot: usize) -> Member {
    Member { name, rule, capture: Capture::At(slot) }
}

/// A member captured as raw JSON.
const fn raw(name: &'static str, rule: &'static Rule, slot: usize) -> Member {
    Member { name, rule, capture: Capture::Raw(slot) }
}

pub(crate) const CORRELATION_ID_PATTERN: &str = concat!(
    "^[0-9a-f]{8}-[0-9a-f]{4}-[1-7][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
    "|^[0-9A-HJKMNP-TV-Z]{26}$"
);
static CORRELATION_ID: Rule = pattern(CORRELATION_ID_PATTERN, is_correlation_id);
/// `CorrelationId` of the quotes schema, which refuses an empty text by its length.
static QUOTE_CORRELATION_ID: Rule =
    bounded_pattern(1, UNBOUNDED, CORRELATION_ID_PATTERN, is_correlation_id);
static FSP_ID: Rule = Rule::Text(Text { least: 1, most: super::FSP_ID_CHARS_MAX, form: Form::Any });
static AMOUNT_TEXT: Rule = pattern("^([0]|([1-9][0-9]{0,17}))([.][0-9]{0,3}[1-9])?$", |text| {
    Amount::parse(text).is_some()
});
static CURRENCY: Rule = Rule::Text(Text {
    least: 0,
    most: usize::MAX,
    form: Form::Name { holds: is_known_currency, all: || known_currencies().collect() },
});
static ILP_PACKET: Rule =
    bounded_pattern(1, ILP_PACKET_CHARS_MAX, "^[A-Za-z0-9-_]+[=]{0,2}$", is_ilp_packet);
static ILP_CONDITION: Rule = bounded_pattern(0, 48, "^[A-Za-z0-9-_]{43}$", is_ilp_condition);
static DATE_TIME: Rule = pattern(
    "^(?:[1-9]\\d{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)\
     |(?:0[13578]|1[02])-31)|(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])\
     |(?:[2468][048]|[13579][26])00)-02-29)T(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:(\\.\\d{3}))\
     (?:Z|[+-][01]\\d:[0-5]\\d)$",
    |text| parse_date_time(text).is_some(),
);
static DATE: Rule = pattern(
    "^(?:[1-9]\\d{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)\
     |(?:0[13578]|1[02])-31)|(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])\
     |(?:[2468][048]|[13579][26])00)-02-29)$",
    is_date,
);

static EXTENSION_KEY: Rule = text(1, EXTENSION_KEY_CHARS_MAX);
static EXTENSION_VALUE: Rule = text(1, EXTENSION_VALUE_CHARS_MAX);
static EXTENSION: Rule = object(
    &["key", "value"],
    &[checked("key", &EXTENSION_KEY), checked("value", &EXTENSION_VALUE)],
);
static EXTENSIONS: Rule = Rule::List(List { item: &EXTENSION, least: 1, most: EXTENSIONS_MAX });
static EXTENSION_LIST_RULE: Rule = object(&["extension"], &[checked("extension", &EXTENSIONS)]);

static MONEY_MEMBERS: [Member; 2] =
    [kept("currency", &CURRENCY, MONEY_CURRENCY), kept("amount", &AMOUNT_TEXT, MONEY_AMOUNT)];
static MONEY: Rule = object(&["currency", "amount"], &MONEY_MEMBERS);
/// `Money` of the quotes schema, which checks its members in another order.
static QUOTE_MONEY: Rule = object(&["amount", "currency"], &MONEY_MEMBERS);

/// `TransfersPostRequest`.
pub(super) static TRANSFER_REQUEST: Rule = object(
    &["transferId", "payeeFsp", "payerFsp", "amount", "ilpPacket", "condition", "expiration"],
    &[
        kept("transferId", &CORRELATION_ID, TRANSFER_ID),
        kept("payeeFsp", &FSP_ID, PAYEE),
        kept("payerFsp", &FSP_ID, PAYER),
        kept("amount", &MONEY, AMOUNT),
        checked("ilpPacket", &ILP_PACKET),
        kept("condition", &ILP_CONDITION, CONDITION),
        kept("expiration", &DATE_TIME, EXPIRATION),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

static TRANSFER_STATE: Rule = one_of(TransferState::NAMES);

/// `TransfersIDPutResponse`.
pub(super) static TRANSFER_RESPONSE: Rule = object(
    &["transferState"],
    &[
        kept("fulfilment", &ILP_CONDITION, FULFILMENT),
        kept("completedTimestamp", &DATE_TIME, COMPLETED),
        kept("transferState", &TRANSFER_STATE, STATE),
        raw("extensionList", &EXTENSION_LIST_RULE, EXTENSION_LIST),
    ],
);

static ERROR_CODE_TEXT: Rule =
    pattern("^[1-9]\\d{3}$", |text| crate::error::ErrorCode::parse(text).is_some());
static ERROR_DESCRIPTION_TEXT: Rule = text(1, crate::error::DESCRIPTION_CHARS_MAX);
static ERROR_INFORMATION: Rule = object(
    &["errorCode", "errorDescription"],
    &[
        kept("errorCode", &ERROR_CODE_TEXT, ERROR_CODE),
        kept("errorDescription", &ERROR_DESCRIPTION_TEXT, ERROR_DESCRIPTION),
        raw("extensionList", &EXTENSION_LIST_RULE, ERROR_EXTENSION_LIST),
    ],
);

/// `ErrorInformationObject`.
pub(super) static ERROR_INFORMATION_OBJECT: Rule =
    object(&["errorInformation"], &ERROR_INFORMATION_MEMBERS);
static ERROR_INFORMATION_MEMBERS: [Member; 1] = [kept("errorInformation", &ERROR_INFORMATION, 0)];

/// `ErrorInformationObject` of the quotes and transaction requests schemas, which is closed.
pub(super) static QUOTE_ERROR: Rule =
    closed_object(&["errorInformation"], &ERROR_INFORMATION_MEMBERS);

static PARTY_ID_TYPE: Rule = one_of(PartyIdType::NAMES);
/// `PartyIdType` of the quotes schema, which lacks the two added by the account lookup.
static QUOTE_PARTY_ID_TYPE: Rule = one_of(&[
    "MSISDN",
    "EMAIL",
    "PERSONAL_ID",
    "BUSINESS",
    "DEVICE",
    "ACCOUNT_ID",
    "IBAN",
    "ALIAS",
]);
static PARTY_IDENTIFIER: Rule = bounded_pattern(1, 128, "^[^\\s{}]+$", is_party_identifier);
static TEXT_128: Rule = text(1, 128);
static TEXT_2048: Rule = text(1, 2048);
static PARTY_ID_INFO: Rule = object(
    &["partyIdType", "partyIdentifier"],
    &[
        checked("partyIdType", &PARTY_ID_TYPE),
        checked("partyIdentifier", &PARTY_IDENTIFIER),
        checked("partySubIdOrType", &TEXT_128),
        checked("fspId", &FSP_ID),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);
/// `PartyIdInfo` of the quotes schema.
static QUOTE_PARTY_ID_INFO: Rule = object(
    &["partyIdType", "partyIdentifier"],
    &[
        checked("partyIdType", &QUOTE_PARTY_ID_TYPE),
        checked("partyIdentifier", &TEXT_128),
        checked("partySubIdOrType", &TEXT_128),
        kept("fspId", &FSP_ID, PARTY_FSP),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);
static MERCHANT_CODE: Rule = pattern("^[\\d]{1,4}$", |text| is_digits(text, 4));
static PERSON_NAME: Rule = bounded_pattern(
    1,
    128,
    "^(?!\\s*$)[\\p{L}\\p{gc=Mark}\\p{digit}\\p{gc=Connector_Punctuation}\\p{Join_Control} .,'-]\
     {1,128}$",
    is_person_name,
);
static COMPLEX_NAME: Rule = object(
    &[],
    &[
        checked("firstName", &PERSON_NAME),
        checked("middleName", &PERSON_NAME),
        checked("lastName", &PERSON_NAME),
    ],
);
static PERSONAL_INFO: Rule = object(
    &[],
    &[
        checked("complexName", &COMPLEX_NAME),
        checked("dateOfBirth", &DATE),
        checked("kycInformation", &TEXT_2048),
    ],
);
static CURRENCIES: Rule = Rule::List(List { item: &CURRENCY, least: 0, most: 16 });
static PARTY: Rule = object(
    &["partyIdInfo"],
    &[
        checked("partyIdInfo", &PARTY_ID_INFO),
        checked("merchantClassificationCode", &MERCHANT_CODE),
        checked("name", &TEXT_128),
        checked("personalInfo", &PERSONAL_INFO),
        checked("supportedCurrencies", &CURRENCIES),
    ],
);
/// `PartiesTypeIDPutResponse`.
pub(super) static PARTY_RESPONSE: Rule = object(&["party"], &[checked("party", &PARTY)]);

/// `Party` of the quotes schema.
static QUOTE_PARTY: Rule = object(
    &["partyIdInfo"],
    &[
        kept("partyIdInfo", &QUOTE_PARTY_ID_INFO, 0),
        checked("merchantClassificationCode", &MERCHANT_CODE),
        checked("name", &TEXT_128),
        checked("personalInfo", &PERSONAL_INFO),
        raw("supportedCurrencies", &CURRENCIES, PARTY_CURRENCIES),
    ],
);

static AMOUNT_TYPE: Rule = one_of(&["SEND", "RECEIVE"]);
static SCENARIO: Rule = one_of(&["DEPOSIT", "WITHDRAWAL", "TRANSFER", "PAYMENT", "REFUND"]);
static SUB_SCENARIO: Rule = pattern("^[A-Z_]{1,32}$", |text| {
    (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
});
static PAYER_OR_PAYEE: Rule = one_of(&["PAYER", "PAYEE"]);
static INITIATOR_TYPE: Rule = one_of(&["CONSUMER", "AGENT", "BUSINESS", "DEVICE"]);
static REFUND: Rule = object(
    &["originalTransactionId"],
    &[checked("originalTransactionId", &QUOTE_CORRELATION_ID), checked("refundReason", &TEXT_128)],
);
static BALANCE_OF_PAYMENTS: Rule = pattern("^[1-9]\\d{2}$", |text| {
    text.len() == 3 && is_digits(text, 3) && !text.starts_with('0')
});
static TRANSACTION_TYPE: Rule = object(
    &["initiator", "initiatorType", "scenario"],
    &[
        checked("scenario", &SCENARIO),
        checked("subScenario", &SUB_SCENARIO),
        checked("initiator", &PAYER_OR_PAYEE),
        checked("initiatorType", &INITIATOR_TYPE),
        checked("refundInfo", &REFUND),
        checked("balanceOfPayments", &BALANCE_OF_PAYMENTS),
    ],
);
static LATITUDE: Rule = pattern(
    "^(\\+|-)?(?:90(?:(?:\\.0{1,6})?)|(?:[0-9]|[1-8][0-9])(?:(?:\\.[0-9]{1,6})?))$",
    |text| is_coordinate(text, 90),
);
static LONGITUDE: Rule = pattern(
    "^(\\+|-)?(?:180(?:(?:\\.0{1,6})?)|(?:[0-9]|[1-9][0-9]|1[0-7][0-9])(?:(?:\\.[0-9]{1,6})?))$",
    |text| is_coordinate(text, 180),
);
static GEO_CODE: Rule = object(
    &["latitude", "longitude"],
    &[checked("latitude", &LATITUDE), checked("longitude", &LONGITUDE)],
);
static FX_RATE: Rule = object(
    &["sourceAmount", "targetAmount"],
    &[checked("sourceAmount", &MONEY), checked("targetAmount", &MONEY)],
);

/// `QuotesPostRequest`, with the two members that 2.0 adds.
pub(super) static QUOTE_REQUEST: Rule = closed_object(
    &["amount", "amountType", "payee", "payer", "quoteId", "transactionId", "transactionType"],
    &[
        kept("quoteId", &QUOTE_CORRELATION_ID, QUOTE_ID),
        kept("transactionId", &QUOTE_CORRELATION_ID, QUOTE_TRANSACTION),
        kept("transactionRequestId", &QUOTE_CORRELATION_ID, QUOTE_REQUEST_TO_PAY),
        kept("payee", &QUOTE_PARTY, QUOTE_PAYEE),
        kept("payer", &QUOTE_PARTY, QUOTE_PAYER),
        checked("amountType", &AMOUNT_TYPE),
        kept("amount", &QUOTE_MONEY, QUOTE_AMOUNT),
        checked("fees", &QUOTE_MONEY),
        checked("transactionType", &TRANSACTION_TYPE),
        checked("converter", &PAYER_OR_PAYEE),
        checked("currencyConversion", &FX_RATE),
        checked("geoCode", &GEO_CODE),
        checked("note", &TEXT_128),
        kept("expiration", &DATE_TIME, QUOTE_REQUEST_EXPIRATION),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

/// `QuotesIDPutResponse`.
pub(super) static QUOTE_RESPONSE: Rule = closed_object(
    &["condition", "expiration", "ilpPacket", "transferAmount"],
    &[
        kept("transferAmount", &QUOTE_MONEY, TRANSFER_AMOUNT),
        kept("payeeReceiveAmount", &QUOTE_MONEY, RECEIVE_AMOUNT),
        checked("payeeFspFee", &QUOTE_MONEY),
        checked("payeeFspCommission", &QUOTE_MONEY),
        kept("expiration", &DATE_TIME, QUOTE_EXPIRATION),
        checked("geoCode", &GEO_CODE),
        checked("ilpPacket", &ILP_PACKET),
        checked("condition", &ILP_CONDITION),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

static INDIVIDUAL_QUOTE: Rule = object(
    &["amount", "amountType", "payee", "quoteId", "transactionId", "transactionType"],
    &[
        checked("quoteId", &QUOTE_CORRELATION_ID),
        checked("transactionId", &QUOTE_CORRELATION_ID),
        checked("payee", &QUOTE_PARTY),
        checked("amountType", &AMOUNT_TYPE),
        checked("amount", &QUOTE_MONEY),
        checked("fees", &QUOTE_MONEY),
        checked("transactionType", &TRANSACTION_TYPE),
        checked("note", &TEXT_128),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);
static INDIVIDUAL_QUOTES: Rule =
    Rule::List(List { item: &INDIVIDUAL_QUOTE, least: 1, most: super::BULK_ITEMS_MAX });

/// `BulkQuotesPostRequest`.
pub(super) static BULK_QUOTE_REQUEST: Rule = closed_object(
    &["bulkQuoteId", "individualQuotes", "payer"],
    &[
        kept("bulkQuoteId", &QUOTE_CORRELATION_ID, BULK_QUOTE_ID),
        checked("payer", &QUOTE_PARTY),
        checked("geoCode", &GEO_CODE),
        checked("expiration", &DATE_TIME),
        raw("individualQuotes", &INDIVIDUAL_QUOTES, BULK_QUOTES),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

static INDIVIDUAL_QUOTE_RESULT: Rule = object(
    &["quoteId"],
    &[
        checked("quoteId", &QUOTE_CORRELATION_ID),
        checked("payee", &QUOTE_PARTY),
        checked("transferAmount", &QUOTE_MONEY),
        checked("payeeReceiveAmount", &QUOTE_MONEY),
        checked("payeeFspFee", &QUOTE_MONEY),
        checked("payeeFspCommission", &QUOTE_MONEY),
        checked("ilpPacket", &ILP_PACKET),
        checked("condition", &ILP_CONDITION),
        checked("errorInformation", &ERROR_INFORMATION),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);
static INDIVIDUAL_QUOTE_RESULTS: Rule =
    Rule::List(List { item: &INDIVIDUAL_QUOTE_RESULT, least: 0, most: super::BULK_ITEMS_MAX });

/// `BulkQuotesIDPutResponse`.
pub(super) static BULK_QUOTE_RESPONSE: Rule = closed_object(
    &["expiration"],
    &[
        checked("individualQuoteResults", &INDIVIDUAL_QUOTE_RESULTS),
        checked("expiration", &DATE_TIME),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

/// `IndividualTransfer`.
pub(crate) static INDIVIDUAL_TRANSFER: Rule = object(
    &["transferId", "transferAmount", "ilpPacket", "condition"],
    &[
        kept("transferId", &CORRELATION_ID, ITEM_ID),
        kept("transferAmount", &MONEY, ITEM_AMOUNT),
        checked("ilpPacket", &ILP_PACKET),
        kept("condition", &ILP_CONDITION, ITEM_CONDITION),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);
static INDIVIDUAL_TRANSFERS: Rule =
    Rule::List(List { item: &INDIVIDUAL_TRANSFER, least: 1, most: super::BULK_TRANSFERS_MAX });

/// `BulkTransfersPostRequest`.
pub(crate) static BULK_TRANSFER_REQUEST: Rule = object(
    &["bulkTransferId", "bulkQuoteId", "payerFsp", "payeeFsp", "individualTransfers", "expiration"],
    &[
        kept("bulkTransferId", &CORRELATION_ID, BULK_ID),
        checked("bulkQuoteId", &CORRELATION_ID),
        kept("payerFsp", &FSP_ID, BULK_PAYER),
        kept("payeeFsp", &FSP_ID, BULK_PAYEE),
        raw("individualTransfers", &INDIVIDUAL_TRANSFERS, BULK_ITEMS),
        kept("expiration", &DATE_TIME, BULK_EXPIRATION),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

static BULK_TRANSFER_STATE: Rule =
    one_of(&["RECEIVED", "PENDING", "ACCEPTED", "PROCESSING", "COMPLETED", "REJECTED"]);

/// `IndividualTransferResult`.
pub(crate) static INDIVIDUAL_TRANSFER_RESULT: Rule = object(
    &["transferId"],
    &[
        kept("transferId", &CORRELATION_ID, RESULT_ID),
        kept("fulfilment", &ILP_CONDITION, RESULT_FULFILMENT),
        kept("errorInformation", &ERROR_INFORMATION, RESULT_ERROR),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);
static INDIVIDUAL_TRANSFER_RESULTS: Rule = Rule::List(List {
    item: &INDIVIDUAL_TRANSFER_RESULT,
    least: 1,
    most: super::BULK_TRANSFERS_MAX,
});

/// `BulkTransfersIDPutResponse`.
pub(crate) static BULK_TRANSFER_RESPONSE: Rule = object(
    &["bulkTransferState"],
    &[
        kept("completedTimestamp", &DATE_TIME, BULK_COMPLETED),
        raw("individualTransferResults", &INDIVIDUAL_TRANSFER_RESULTS, BULK_RESULTS),
        checked("bulkTransferState", &BULK_TRANSFER_STATE),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

static AUTHENTICATION_TYPE: Rule = one_of(crate::query::AUTHENTICATION_TYPES);
static AUTHENTICATION_VALUE: Rule = pattern("^\\d{3,10}$|^\\S{1,64}$", |text| {
    let is_long = text.chars().nth(AUTHENTICATION_CHARS_MAX).is_some();
    !text.is_empty() && !is_long && !text.contains(char::is_whitespace)
});
/// Maximum length of an authentication value, in characters.
const AUTHENTICATION_CHARS_MAX: usize = 64;

/// `TransactionRequestsPostRequest`.
pub(super) static TRANSACTION_REQUEST: Rule = closed_object(
    &["transactionRequestId", "payee", "payer", "amount", "transactionType"],
    &[
        kept("transactionRequestId", &CORRELATION_ID, TRANSACTION_REQUEST_ID),
        checked("payee", &QUOTE_PARTY),
        checked("payer", &QUOTE_PARTY_ID_INFO),
        checked("amount", &MONEY),
        checked("transactionType", &TRANSACTION_TYPE),
        checked("note", &TEXT_128),
        checked("geoCode", &GEO_CODE),
        checked("authenticationType", &AUTHENTICATION_TYPE),
        kept("expiration", &DATE_TIME, TRANSACTION_REQUEST_EXPIRATION),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

static REQUEST_STATE: Rule = one_of(&["RECEIVED", "PENDING", "ACCEPTED", "REJECTED"]);

/// `TransactionRequestsIDPutResponse`.
pub(super) static TRANSACTION_REQUEST_RESPONSE: Rule = closed_object(
    &["transactionRequestState"],
    &[
        kept("transactionId", &CORRELATION_ID, REQUEST_TRANSACTION),
        kept("transactionRequestState", &REQUEST_STATE, REQUEST_STATE_NAME),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

static AUTHENTICATION_INFO: Rule = object(
    &["authentication", "authenticationValue"],
    &[
        checked("authentication", &AUTHENTICATION_TYPE),
        checked("authenticationValue", &AUTHENTICATION_VALUE),
    ],
);
static AUTHORIZATION_RESPONSE_TYPE: Rule = one_of(&["ENTERED", "REJECTED", "RESEND"]);

/// `AuthorizationsIDPutResponse`.
pub(super) static AUTHORIZATION_RESPONSE: Rule = closed_object(
    &["responseType"],
    &[
        checked("authenticationInfo", &AUTHENTICATION_INFO),
        checked("responseType", &AUTHORIZATION_RESPONSE_TYPE),
    ],
);

static TRANSACTION_STATE: Rule = one_of(&["RECEIVED", "PENDING", "COMPLETED", "REJECTED"]);
static REDEMPTION_CODE: Rule = pattern("^[0-9a-zA-Z]{4,32}$", |text| {
    (4..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
});

/// `TransactionsIDPutResponse`.
pub(super) static TRANSACTION_RESPONSE: Rule = closed_object(
    &["transactionState"],
    &[
        checked("completedTimestamp", &DATE_TIME),
        checked("transactionState", &TRANSACTION_STATE),
        checked("code", &REDEMPTION_CODE),
        checked("extensionList", &EXTENSION_LIST_RULE),
    ],
);

static REGISTRATION_MEMBERS: [Member; 3] = [
    kept("fspId", &FSP_ID, REGISTERED_FSP),
    kept("currency", &CURRENCY, REGISTERED_CURRENCY),
    checked("extensionList", &EXTENSION_LIST_RULE),
];

/// `ParticipantsTypeIDSubIDPostRequest`.
pub(super) static PARTICIPANT_REGISTRATION: Rule = object(&["fspId"], &REGISTRATION_MEMBERS);

/// `ParticipantsTypeIDPutResponse`, with the members of a registration.
pub(super) static PARTICIPANT_UPDATE: Rule = object(&[], &REGISTRATION_MEMBERS);

static PARTY_LIST: Rule =
    Rule::List(List { item: &PARTY_ID_INFO, least: 1, most: BATCH_PARTIES_MAX });

/// `ParticipantsPostRequest`.
pub(super) static BATCH_REGISTRATION: Rule = object(
    &["partyList", "requestId"],
    &[
        kept("requestId", &CORRELATION_ID, REQUEST_ID),
        raw("partyList", &PARTY_LIST, BATCH_PARTIES),
        kept("currency", &CURRENCY, BATCH_CURRENCY),
    ],
);

/// Rules by their names in the published schemas, for generated documents. Rules that differ in the
/// quotes schema have the prefix `Quote`.
pub static NAMED_RULES: [(&str, &Rule); 55] = [
    ("Amount", &AMOUNT_TEXT),
    ("AmountType", &AMOUNT_TYPE),
    ("AuthenticationInfo", &AUTHENTICATION_INFO),
    ("AuthenticationType", &AUTHENTICATION_TYPE),
    ("AuthorizationsIDPutResponse", &AUTHORIZATION_RESPONSE),
    ("BalanceOfPayments", &BALANCE_OF_PAYMENTS),
    ("BulkQuotesIDPutResponse", &BULK_QUOTE_RESPONSE),
    ("BulkQuotesPostRequest", &BULK_QUOTE_REQUEST),
    ("BulkTransferState", &BULK_TRANSFER_STATE),
    ("BulkTransfersIDPutResponse", &BULK_TRANSFER_RESPONSE),
    ("BulkTransfersPostRequest", &BULK_TRANSFER_REQUEST),
    ("CorrelationId", &CORRELATION_ID),
    ("Currency", &CURRENCY),
    ("Date", &DATE),
    ("DateTime", &DATE_TIME),
    ("ErrorCode", &ERROR_CODE_TEXT),
    ("ErrorDescription", &ERROR_DESCRIPTION_TEXT),
    ("ErrorInformation", &ERROR_INFORMATION),
    ("ErrorInformationObject", &ERROR_INFORMATION_OBJECT),
    ("Extension", &EXTENSION),
    ("ExtensionList", &EXTENSION_LIST_RULE),
    ("FspId", &FSP_ID),
    ("FxRate", &FX_RATE),
    ("GeoCode", &GEO_CODE),
    ("IlpCondition", &ILP_CONDITION),
    ("IlpPacket", &ILP_PACKET),
    ("IndividualQuote", &INDIVIDUAL_QUOTE),
    ("IndividualQuoteResult", &INDIVIDUAL_QUOTE_RESULT),
    ("IndividualTransfer", &INDIVIDUAL_TRANSFER),
    ("IndividualTransferResult", &INDIVIDUAL_TRANSFER_RESULT),
    ("Money", &MONEY),
    ("ParticipantsPostRequest", &BATCH_REGISTRATION),
    ("ParticipantsTypeIDPutRequest", &PARTICIPANT_UPDATE),
    ("ParticipantsTypeIDSubIDPostRequest", &PARTICIPANT_REGISTRATION),
    ("PartiesTypeIDPutResponse", &PARTY_RESPONSE),
    ("Party", &PARTY),
    ("PartyComplexName", &COMPLEX_NAME),
    ("PartyIdInfo", &PARTY_ID_INFO),
    ("PartyIdType", &PARTY_ID_TYPE),
    ("PartyPersonalInfo", &PERSONAL_INFO),
    ("QuoteCorrelationId", &QUOTE_CORRELATION_ID),
    ("QuoteErrorInformationObject", &QUOTE_ERROR),
    ("QuoteMoney", &QUOTE_MONEY),
    ("QuoteParty", &QUOTE_PARTY),
    ("QuotePartyIdInfo", &QUOTE_PARTY_ID_INFO),
    ("QuotePartyIdType", &QUOTE_PARTY_ID_TYPE),
    ("QuotesIDPutResponse", &QUOTE_RESPONSE),
    ("QuotesPostRequest", &QUOTE_REQUEST),
    ("Refund", &REFUND),
    ("TransactionRequestsIDPutResponse", &TRANSACTION_REQUEST_RESPONSE),
    ("TransactionRequestsPostRequest", &TRANSACTION_REQUEST),
    ("TransactionType", &TRANSACTION_TYPE),
    ("TransactionsIDPutResponse", &TRANSACTION_RESPONSE),
    ("TransfersIDPutResponse", &TRANSFER_RESPONSE),
    ("TransfersPostRequest", &TRANSFER_REQUEST),
];

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn is_ilp_packet(text: &str) -> bool {
    let bytes = text.as_bytes();
    let data = match bytes {
        [data @ .., b'=', b'='] | [data @ .., b'='] => data,
        _ => bytes,
    };
    // No early exit inside a chunk, so that the compiler can test many bytes at once.
    !data.is_empty()
        && data.chunks(64).all(|chunk| chunk.iter().fold(true, |ok, b| ok & is_base64url(*b)))
}

fn is_ilp_condition(text: &str) -> bool {
    // No early exit, as in a packet.
    text.len() == 43 && text.bytes().fold(true, |ok, byte| ok & is_base64url(byte))
}

fn is_digits(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_correlation_id(text: &str) -> bool {
    TransferId::parse(text).is_some()
}

/// No blanks, as defined by the pattern language, and no braces.
fn is_party_identifier(text: &str) -> bool {
    let is_blank = |c: char| c.is_whitespace() && c != '\u{85}' || c == '\u{feff}';
    !text.is_empty() && !text.chars().any(|c| is_blank(c) || matches!(c, '{' | '}'))
}

/// Letters, marks, digits, joiners and some punctuation, not only blanks.
fn is_person_name(text: &str) -> bool {
    text.chars().all(is_of_names) && text.chars().any(|c| c != ' ')
}

fn is_of_names(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | ' ' | '.' | ',' | '\'' | '-' => true,
        '\u{200c}' | '\u{200d}' => true,
        _ if c.is_ascii() => false,
        _ => {
            let group = c.general_category_group();
            let category = c.general_category();
            matches!(group, GeneralCategoryGroup::Letter | GeneralCategoryGroup::Mark)
                || matches!(
                    category,
                    GeneralCategory::DecimalNumber | GeneralCategory::ConnectorPunctuation
                )
        }
    }
}

/// An optional sign, degrees up to `most` without leading zeros, at most six decimals.
fn is_coordinate(text: &str, most: u16) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) if is_digits(fraction, 6) => (whole, fraction),
        Some(_) => return false,
        None => (digits, ""),
    };
    let plain = is_digits(whole, 3) && (whole == "0" || !whole.starts_with('0'));
    let degrees = whole.parse::<u16>().unwrap_or(u16::MAX);
    plain && (degrees < most || degrees == most && fraction.bytes().all(|b| b == b'0'))
}
