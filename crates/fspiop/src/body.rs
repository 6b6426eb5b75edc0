//! Bodies of inbound messages: parsed, checked, and reduced to the fields that the hub needs.
//!
//! Each type has a `parse` function that takes the received bytes. All members are checked like in
//! the reference (hub-semantics 1.6, the published service documents), and the original bytes are
//! forwarded. Costs: one pass; no allocation unless a captured text has escapes or is written as a
//! number. Unknown members are ignored, except at the top level of messages that are only
//! forwarded (quotes, transaction requests and others), which is closed in the published form
//! (3103).

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ledger::{Amount, Currency, FSP_NAME_BYTES_MAX, FspName, RequestState, TransferId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{ErrorCode, Refusal, first_chars};
use crate::route::PartyIdType;
use crate::route_table::Operation;
use crate::schema::{self, Rule, Scalar};
use crate::time::parse_date_time;

pub(crate) mod rules;

/// The rule for the body of a request for `operation`; `None` if the body is not checked.
#[must_use]
pub fn rule_of(operation: Operation) -> Option<&'static Rule> {
    match operation {
        Operation::ParticipantsBatch => Some(&rules::BATCH_REGISTRATION),
        Operation::ParticipantsPost => Some(&rules::PARTICIPANT_REGISTRATION),
        Operation::ParticipantsPut => Some(&rules::PARTICIPANT_UPDATE),
        Operation::PartiesPut => Some(&rules::PARTY_RESPONSE),
        Operation::QuotesPost => Some(&rules::QUOTE_REQUEST),
        Operation::QuotesPut => Some(&rules::QUOTE_RESPONSE),
        Operation::BulkQuotesPost => Some(&rules::BULK_QUOTE_REQUEST),
        Operation::BulkQuotesPut => Some(&rules::BULK_QUOTE_RESPONSE),
        Operation::TransactionRequestsPost => Some(&rules::TRANSACTION_REQUEST),
        Operation::TransactionRequestsPut => Some(&rules::TRANSACTION_REQUEST_RESPONSE),
        Operation::AuthorizationsPut => Some(&rules::AUTHORIZATION_RESPONSE),
        Operation::TransactionsPut => Some(&rules::TRANSACTION_RESPONSE),
        Operation::BulkTransfersPost => Some(&rules::BULK_TRANSFER_REQUEST),
        Operation::BulkTransfersPut => Some(&rules::BULK_TRANSFER_RESPONSE),
        Operation::TransfersPost => Some(&rules::TRANSFER_REQUEST),
        Operation::TransfersPut => Some(&rules::TRANSFER_RESPONSE),
        Operation::ParticipantsError
        | Operation::PartiesError
        | Operation::TransfersError
        | Operation::BulkTransfersError => Some(&rules::ERROR_INFORMATION_OBJECT),
        Operation::QuotesError
        | Operation::BulkQuotesError
        | Operation::TransactionRequestsError
        | Operation::AuthorizationsError
        | Operation::TransactionsError => Some(&rules::QUOTE_ERROR),
        Operation::Health
        | Operation::EndpointCache
        | Operation::ParticipantsBatchPut
        | Operation::ParticipantsBatchError
        | Operation::ParticipantsGet
        | Operation::ParticipantsDelete
        | Operation::PartiesGet
        | Operation::QuotesGet
        | Operation::BulkQuotesGet
        | Operation::TransactionRequestsGet
        | Operation::AuthorizationsGet
        | Operation::TransactionsGet
        | Operation::TransfersGet
        | Operation::BulkTransfersGet
        | Operation::TransfersPatch
        | Operation::ServicesGet => None,
    }
}

pub(crate) use rules::CORRELATION_ID_PATTERN;
pub use rules::NAMED_RULES;

/// Maximum of a `completedTimestamp` ahead of now, in milliseconds (hub-semantics 3.2).
pub const COMPLETED_AHEAD_MS_MAX: u64 = 200;
/// Maximum age of a `completedTimestamp`, in milliseconds (hub-semantics 3.2).
pub const COMPLETED_BEHIND_MS_MAX: u64 = 300_000;
/// Maximum number of quotes in a bulk quote.
pub const BULK_ITEMS_MAX: usize = 1_000;
/// Maximum number of transfers in a bulk transfer. A scheme may have a lower limit.
pub const BULK_TRANSFERS_MAX: usize = ledger::BULK_ITEMS_MAX;
/// Maximum number of parties in one batch registration.
pub const BATCH_PARTIES_MAX: usize = 10_000;

/// base64url with arbitrary unused bits in the last character. The reference decodes fulfilments
/// like this and compares their hash with the condition.
pub(crate) const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);
/// Canonical base64url only. The reference compares the text of a condition with that of a hash,
/// and no other form is equal.
const STRICT: GeneralPurpose = base64::engine::general_purpose::URL_SAFE_NO_PAD;
const CONDITION_HAS_SPARE_BITS: &str = "/requestBody/condition is not the form of a SHA-256: \
                                        no fulfilment can meet it";

/// `Money`: an amount and its currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    /// The amount.
    pub amount: Amount,
    /// The currency.
    pub currency: Currency,
}

/// `POST /transfers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// `transferId`.
    pub transfer: TransferId,
    /// `payerFsp`.
    pub payer: FspName,
    /// `payeeFsp`.
    pub payee: FspName,
    /// `amount`. Its precision is checked by the kernel.
    pub amount: Money,
    /// `condition`, decoded.
    pub condition: [u8; 32],
    /// `expiration`, in milliseconds since 1970; 0 for anything before.
    pub expiration_ms: u64,
}

impl Prepare {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103. A condition with unused bits in its last character
    /// is refused with 3100: the reference reserves such a transfer, but no fulfilment matches it.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let found = schema::check(body, &rules::TRANSFER_REQUEST)?;
        let condition = found.parse(rules::CONDITION, decode_condition);
        let condition = condition.ok_or_else(|| Refusal::invalid(CONDITION_HAS_SPARE_BITS))?;
        Ok(Self {
            transfer: found.require(rules::TRANSFER_ID, TransferId::parse),
            payer: found.require(rules::PAYER, fsp_id),
            payee: found.require(rules::PAYEE, fsp_id),
            amount: money(&found, rules::AMOUNT).expect("an amount is required"),
            condition,
            expiration_ms: found.require(rules::EXPIRATION, parse_date_time),
        })
    }
}

/// `expiration` of a transfer as written, for times that [`Prepare`] does not distinguish; `None`
/// for an invalid body.
#[must_use]
pub fn written_expiration(body: &[u8]) -> Option<String> {
    let mut found = schema::check(body, &rules::TRANSFER_REQUEST).ok()?;
    found.take(rules::EXPIRATION).map(Cow::into_owned)
}

/// `TransferState` in a payee's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferState {
    /// The payee has only received the request.
    Received,
    /// The payee has reserved and waits for the hub's confirmation (1.1 and later).
    Reserved,
    /// The payee has committed.
    Committed,
    /// The payee has aborted.
    Aborted,
}

impl TransferState {
    /// The names as written in bodies.
    pub(crate) const NAMES: &[&str] = &["RECEIVED", "RESERVED", "COMMITTED", "ABORTED"];

    /// Parses the name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "RECEIVED" => Some(Self::Received),
            "RESERVED" => Some(Self::Reserved),
            "COMMITTED" => Some(Self::Committed),
            "ABORTED" => Some(Self::Aborted),
            _ => None,
        }
    }

    /// The name as written in bodies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "RECEIVED",
            Self::Reserved => "RESERVED",
            Self::Committed => "COMMITTED",
            Self::Aborted => "ABORTED",
        }
    }
}

/// `PUT /transfers/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fulfil<'a> {
    /// `transferState`.
    pub state: TransferState,
    /// `fulfilment`: 32 bytes, to be hashed and compared with the condition. Unused bits of the
    /// text do not count.
    pub fulfilment: Option<[u8; 32]>,
    /// `completedTimestamp`, in milliseconds since 1970.
    pub completed_ms: Option<u64>,
    /// `extensionList` as written, checked; see [`Extension::list`].
    pub extension_list: Option<Cow<'a, str>>,
}

impl<'a> Fulfil<'a> {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &'a [u8]) -> Result<Self, Refusal> {
        let mut found = schema::check(body, &rules::TRANSFER_RESPONSE)?;
        Ok(Self {
            state: found.require(rules::STATE, TransferState::parse),
            fulfilment: found.parse(rules::FULFILMENT, decode_fulfilment),
            completed_ms: found.parse(rules::COMPLETED, parse_date_time),
            extension_list: found.take(rules::EXTENSION_LIST),
        })
    }

    /// Compares `completedTimestamp` with the time of receipt (hub-semantics 3.2). Not used for
    /// messages that come through a proxy.
    ///
    /// # Errors
    /// 3100 if it is more than 200 ms after or 300 s before `now_ms`.
    pub fn check_completed(&self, now_ms: u64) -> Result<(), Refusal> {
        check_completed(self.completed_ms, now_ms)
    }
}

pub(crate) fn check_completed(completed_ms: Option<u64>, now_ms: u64) -> Result<(), Refusal> {
    let Some(completed) = completed_ms else {
        return Ok(());
    };
    let fault = match () {
        () if completed > now_ms.saturating_add(COMPLETED_AHEAD_MS_MAX) => "in the future",
        () if completed.saturating_add(COMPLETED_BEHIND_MS_MAX) < now_ms => "in the past",
        () => return Ok(()),
    };
    Err(Refusal::invalid(&format!("/requestBody/completedTimestamp is too far {fault}")))
}

pub(crate) fn decode_condition(text: &str) -> Option<[u8; 32]> {
    decode_32(&STRICT, text)
}

pub(crate) fn decode_fulfilment(text: &str) -> Option<[u8; 32]> {
    decode_32(&LENIENT, text)
}

/// The body of every `PUT …/error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorInformation<'a> {
    /// `errorCode` as sent; check [`ErrorCode::is_accepted`] before using it.
    pub code: ErrorCode,
    /// `errorDescription`, 1 to 128 characters.
    pub description: Cow<'a, str>,
    /// `extensionList` as written, checked; see [`Extension::list`].
    pub extension_list: Option<Cow<'a, str>>,
}

impl<'a> ErrorInformation<'a> {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &'a [u8]) -> Result<Self, Refusal> {
        Self::parse_by(body, &rules::ERROR_INFORMATION_OBJECT)
    }

    /// Parses and checks the error body of a message that is only forwarded, which has a closed
    /// top level.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse_closed(body: &'a [u8]) -> Result<Self, Refusal> {
        Self::parse_by(body, &rules::QUOTE_ERROR)
    }

    fn parse_by(body: &'a [u8], rule: &'static schema::Rule) -> Result<Self, Refusal> {
        let mut found = schema::check(body, rule)?;
        Ok(Self {
            code: found.require(rules::ERROR_CODE, ErrorCode::parse),
            description: found.take(rules::ERROR_DESCRIPTION).unwrap_or_default(),
            extension_list: found.take(rules::ERROR_EXTENSION_LIST),
        })
    }

    /// Code and description that the hub stores and forwards: those sent, or 3100 for a code that
    /// is neither in the table nor in a known group (hub-semantics 1.5).
    #[must_use]
    pub fn effective(&self) -> (ErrorCode, Cow<'_, str>) {
        if self.code.is_accepted() {
            return (self.code, Cow::Borrowed(&*self.description));
        }
        let description = ErrorCode::VALIDATION.describe("API specification undefined errorCode");
        (ErrorCode::VALIDATION, Cow::Owned(description))
    }
}

/// An entry of an extension list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// `key`, 1 to 32 characters.
    pub key: String,
    /// `value`, 1 to 128 characters.
    pub value: String,
}

impl Extension {
    /// An extension of the hub.
    #[must_use]
    pub fn new(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), value: value.to_owned() }
    }

    /// Reads a list captured from a valid body; empty for anything else.
    #[must_use]
    pub fn list(raw: &str) -> Vec<Self> {
        #[derive(Deserialize)]
        struct List<'a> {
            #[serde(borrow)]
            extension: Vec<Entry<'a>>,
        }
        #[derive(Deserialize)]
        struct Entry<'a> {
            #[serde(borrow)]
            key: Scalar<'a>,
            #[serde(borrow)]
            value: Scalar<'a>,
        }
        let read = |entry: Entry<'_>| Self {
            key: entry.key.0.into_owned(),
            value: entry.value.0.into_owned(),
        };
        let entries = serde_json::from_str::<List<'_>>(raw).map(|list| list.extension);
        entries.unwrap_or_default().into_iter().map(read).collect()
    }
}

/// The id of a quote, a transaction or a request, in the same forms as a transfer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationId(TransferId);

impl CorrelationId {
    /// Parses the text; the pattern is that of the hub (hub-semantics 1.6).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        TransferId::parse(text).map(Self)
    }

    /// The id as the ledger stores it.
    #[must_use]
    pub const fn id(self) -> TransferId {
        self.0
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// `POST /quotes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// `quoteId`.
    pub quote: CorrelationId,
    /// `transactionId`.
    pub transaction: CorrelationId,
    /// `transactionRequestId`, if the quote follows a transaction request.
    pub request: Option<CorrelationId>,
    /// `expiration`, in milliseconds since 1970.
    pub expiration_ms: Option<u64>,
    /// `payer.partyIdInfo.fspId`.
    pub payer: Option<FspName>,
    /// `payee.partyIdInfo.fspId`.
    pub payee: Option<FspName>,
    /// `amount`.
    pub amount: Money,
    /// `payer.supportedCurrencies` (2.0), at most 16; empty when absent.
    pub payer_currencies: Vec<Currency>,
}

impl Quote {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let mut found = schema::check(body, &rules::QUOTE_REQUEST)?;
        let currencies = found.take(rules::QUOTE_PAYER + rules::PARTY_CURRENCIES);
        Ok(Self {
            quote: found.require(rules::QUOTE_ID, CorrelationId::parse),
            transaction: found.require(rules::QUOTE_TRANSACTION, CorrelationId::parse),
            request: found.parse(rules::QUOTE_REQUEST_TO_PAY, CorrelationId::parse),
            expiration_ms: found.parse(rules::QUOTE_REQUEST_EXPIRATION, parse_date_time),
            payer: found.parse(rules::QUOTE_PAYER + rules::PARTY_FSP, fsp_id),
            payee: found.parse(rules::QUOTE_PAYEE + rules::PARTY_FSP, fsp_id),
            amount: money(&found, rules::QUOTE_AMOUNT).expect("an amount is required"),
            payer_currencies: currencies.map(|raw| currency_list(&raw)).unwrap_or_default(),
        })
    }
}

/// `POST /bulkQuotes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkQuote {
    /// `bulkQuoteId`.
    pub bulk_quote: CorrelationId,
    /// `individualQuotes[0].amount.currency`, for the check of both FSPs.
    pub currency: Currency,
}

impl BulkQuote {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let mut found = schema::check(body, &rules::BULK_QUOTE_REQUEST)?;
        let quotes = found.take(rules::BULK_QUOTES).unwrap_or_default();
        let currency = first_currency(&quotes).ok_or_else(|| {
            Refusal::malformed("/requestBody/individualQuotes/0/amount must be JSON")
        })?;
        Ok(Self { bulk_quote: found.require(rules::BULK_QUOTE_ID, CorrelationId::parse), currency })
    }
}

/// The currency of the first quote in a valid list of individual quotes.
fn first_currency(quotes: &str) -> Option<Currency> {
    #[derive(Deserialize)]
    struct Quote<'a> {
        #[serde(borrow)]
        amount: Amounts<'a>,
    }
    #[derive(Deserialize)]
    struct Amounts<'a> {
        #[serde(borrow)]
        currency: Scalar<'a>,
    }
    let quotes: Vec<&RawValue> = serde_json::from_str(quotes).ok()?;
    let quote: Quote<'_> = serde_json::from_str(quotes.first()?.get()).ok()?;
    Currency::parse(&quote.amount.currency.0)
}

/// Checks the body of a message that is only forwarded, and that has no field for the hub.
///
/// # Errors
/// The first rule that fails: 3100 to 3103.
pub fn check(operation: Operation, body: &[u8]) -> Result<(), Refusal> {
    match rule_of(operation) {
        Some(rule) => schema::check(body, rule).map(drop),
        None => Ok(()),
    }
}

/// `POST /transactionRequests`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRequest {
    /// `transactionRequestId`.
    pub request: CorrelationId,
    /// `expiration`, in milliseconds since 1970.
    pub expiration_ms: Option<u64>,
}

impl TransactionRequest {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let found = schema::check(body, &rules::TRANSACTION_REQUEST)?;
        Ok(Self {
            request: found.require(rules::TRANSACTION_REQUEST_ID, CorrelationId::parse),
            expiration_ms: found.parse(rules::TRANSACTION_REQUEST_EXPIRATION, parse_date_time),
        })
    }
}

/// `PUT /transactionRequests/{ID}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRequestResponse {
    /// `transactionId`.
    pub transaction: Option<CorrelationId>,
    /// `transactionRequestState`.
    pub state: RequestState,
}

impl TransactionRequestResponse {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let found = schema::check(body, &rules::TRANSACTION_REQUEST_RESPONSE)?;
        Ok(Self {
            transaction: found.parse(rules::REQUEST_TRANSACTION, CorrelationId::parse),
            state: found.require(rules::REQUEST_STATE_NAME, RequestState::parse),
        })
    }
}

/// `PUT /quotes/{ID}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuoteResponse {
    /// `transferAmount`.
    pub transfer_amount: Money,
    /// `payeeReceiveAmount`.
    pub receive_amount: Option<Money>,
    /// `expiration`, in milliseconds since 1970.
    pub expiration_ms: u64,
}

impl QuoteResponse {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let found = schema::check(body, &rules::QUOTE_RESPONSE)?;
        Ok(Self {
            transfer_amount: money(&found, rules::TRANSFER_AMOUNT).expect("it is required"),
            receive_amount: money(&found, rules::RECEIVE_AMOUNT),
            expiration_ms: found.require(rules::QUOTE_EXPIRATION, parse_date_time),
        })
    }

    /// The currency in which the payee must be able to receive (hub-semantics 2.4).
    #[must_use]
    pub fn payee_currency(&self) -> Currency {
        self.receive_amount.unwrap_or(self.transfer_amount).currency
    }
}

/// `POST /participants/{Type}/{ID}[/{SubId}]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantRegistration {
    /// `fspId`.
    pub fsp: FspName,
    /// `currency`.
    pub currency: Option<Currency>,
}

impl ParticipantRegistration {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let found = schema::check(body, &rules::PARTICIPANT_REGISTRATION)?;
        Ok(Self {
            fsp: found.require(rules::REGISTERED_FSP, fsp_id),
            currency: found.parse(rules::REGISTERED_CURRENCY, Currency::parse),
        })
    }
}

/// `PUT /participants/{Type}/{ID}[/{SubId}]`: like a registration, with all members optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantUpdate {
    /// `fspId`.
    pub fsp: Option<FspName>,
    /// `currency`.
    pub currency: Option<Currency>,
}

impl ParticipantUpdate {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let found = schema::check(body, &rules::PARTICIPANT_UPDATE)?;
        Ok(Self {
            fsp: found.parse(rules::REGISTERED_FSP, fsp_id),
            currency: found.parse(rules::REGISTERED_CURRENCY, Currency::parse),
        })
    }
}

/// `POST /participants`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRegistration<'a> {
    /// `requestId`: a UUID or ULID, as written.
    pub request: Cow<'a, str>,
    /// `partyList`, 1 to [`BATCH_PARTIES_MAX`] entries.
    pub parties: Vec<BatchParty<'a>>,
    /// `currency`.
    pub currency: Option<Currency>,
}

/// One party of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchParty<'a> {
    /// `partyIdType`.
    pub kind: PartyIdType,
    /// `partyIdentifier`, 1 to 128 characters. [`PartyIdType::allows`] checks it later, because one
    /// bad entry must not fail the batch.
    pub id: Cow<'a, str>,
    /// `partySubIdOrType`.
    pub sub_id: Option<Cow<'a, str>>,
    /// `fspId`.
    pub fsp: Option<FspName>,
}

impl<'a> BatchRegistration<'a> {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// The first rule that fails: 3100 to 3103.
    pub fn parse(body: &'a [u8]) -> Result<Self, Refusal> {
        let mut found = schema::check(body, &rules::BATCH_REGISTRATION)?;
        let raw = match found.take(rules::BATCH_PARTIES) {
            Some(Cow::Borrowed(raw)) => raw,
            _ => return Err(Refusal::internal("a raw value is always borrowed")),
        };
        let entries: Vec<RawParty<'a>> = serde_json::from_str(raw)
            .map_err(|_| Refusal::malformed("/requestBody/partyList must be JSON"))?;
        Ok(Self {
            request: found.take(rules::REQUEST_ID).unwrap_or_default(),
            parties: entries.into_iter().filter_map(RawParty::into_party).collect(),
            currency: found.parse(rules::BATCH_CURRENCY, Currency::parse),
        })
    }
}

/// An entry of `partyList` after the check; every text is valid.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawParty<'a> {
    #[serde(borrow)]
    party_id_type: Scalar<'a>,
    #[serde(borrow)]
    party_identifier: Scalar<'a>,
    #[serde(borrow, default)]
    party_sub_id_or_type: Option<Scalar<'a>>,
    #[serde(borrow, default)]
    fsp_id: Option<Scalar<'a>>,
}

impl<'a> RawParty<'a> {
    fn into_party(self) -> Option<BatchParty<'a>> {
        Some(BatchParty {
            kind: PartyIdType::parse(&self.party_id_type.0)?,
            id: self.party_identifier.0,
            sub_id: self.party_sub_id_or_type.map(|sub_id| sub_id.0),
            fsp: self.fsp_id.and_then(|name| fsp_id(&name.0)),
        })
    }
}

/// Checks the body of `PUT /parties/…`, which is only forwarded.
///
/// # Errors
/// The first rule that fails: 3100 to 3103.
pub fn check_party(body: &[u8]) -> Result<(), Refusal> {
    schema::check(body, &rules::PARTY_RESPONSE).map(drop)
}

pub(crate) fn money(found: &schema::Captures<'_>, slot: usize) -> Option<Money> {
    Some(Money {
        amount: found.parse(slot + rules::MONEY_AMOUNT, Amount::parse)?,
        currency: found.parse(slot + rules::MONEY_CURRENCY, Currency::parse)?,
    })
}

fn currency_list(raw: &str) -> Vec<Currency> {
    let codes: Vec<Cow<'_, str>> = serde_json::from_str(raw).unwrap_or_default();
    codes.iter().filter_map(|code| Currency::parse(code)).collect()
}

/// Maximum length of an `FspId`, in characters.
pub const FSP_ID_CHARS_MAX: usize = 32;

/// An `FspId` of 1 to [`FSP_ID_CHARS_MAX`] characters as a name; `None` for any other length.
///
/// Names of participants are ASCII, so they are no longer in bytes. A longer text is not a
/// participant: it is truncated and ends in an ellipsis, which no participant's name contains.
#[must_use]
pub fn fsp_id(text: &str) -> Option<FspName> {
    if let Some(name) = FspName::new(text) {
        return Some(name);
    }
    if text.is_empty() || first_chars(text, FSP_ID_CHARS_MAX).len() < text.len() {
        return None;
    }
    let end = text.floor_char_boundary(FSP_NAME_BYTES_MAX - '\u{2026}'.len_utf8());
    FspName::new(&format!("{}\u{2026}", &text[..end]))
}

/// Decodes 32 bytes from 43 characters of base64url.
fn decode_32(engine: &GeneralPurpose, text: &str) -> Option<[u8; 32]> {
    // The decoder writes groups of three bytes, so it needs room for 33.
    let mut out = [0; 33];
    match engine.decode_slice(text, &mut out) {
        Ok(32) => out[..32].try_into().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
