//! Maps method and path to the requested operation.
//!
//! Two phases, because the reference checks headers between them. [`find`] distinguishes an unknown
//! path (404) from a wrong method (405) and returns the resource that the media types must name.
//! [`ApiRoute::route`] then decodes and checks the identifiers. [`crate::accept`] runs both phases
//! and the header checks. A path without percent signs is borrowed without allocation.

use std::borrow::Cow;
use std::fmt;

use http::Method;
use ledger::{Currency, TransferId};

use crate::body::CorrelationId;
use crate::error::Refusal;
use crate::query;
use crate::route_table::{Operation, PLAIN_ROUTES, Segment};

/// Maximum length of an identifier in a path, in characters after decoding (hub-semantics 1.6).
pub const IDENTIFIER_CHARS_MAX: usize = 128;
/// Maximum body of a message about one payment, in bytes (DESIGN contract 10).
pub const TRANSFER_BODY_BYTES_MAX: usize = 128 * 1024;
/// Maximum body of any other message, in bytes (DESIGN contract 10).
pub const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;

const SEGMENTS_MAX: usize = 5;

/// A resource of the API: the first segment of a path, and part of the media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The FSP of a party.
    Participants,
    /// The details of a party.
    Parties,
    /// The terms of a transfer.
    Quotes,
    /// The terms of many transfers of one payer.
    BulkQuotes,
    /// Requests of a payee to be paid.
    TransactionRequests,
    /// The payer's consent to a requested transaction.
    Authorizations,
    /// The state of a transaction at the payee's FSP.
    Transactions,
    /// Transfers of money.
    Transfers,
    /// Many transfers from one payer to one payee.
    BulkTransfers,
    /// The providers of services, such as currency conversion.
    Services,
}

impl Resource {
    /// The name as written in paths and media types.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Participants => "participants",
            Self::Parties => "parties",
            Self::Quotes => "quotes",
            Self::BulkQuotes => "bulkQuotes",
            Self::TransactionRequests => "transactionRequests",
            Self::Authorizations => "authorizations",
            Self::Transactions => "transactions",
            Self::Transfers => "transfers",
            Self::BulkTransfers => "bulkTransfers",
            Self::Services => "services",
        }
    }

    /// The maximum body of a message of this resource, in bytes.
    #[must_use]
    pub const fn body_bytes_max(self) -> usize {
        match self {
            Self::Participants | Self::Parties | Self::BulkQuotes | Self::BulkTransfers => {
                BODY_BYTES_MAX
            }
            Self::Quotes
            | Self::TransactionRequests
            | Self::Authorizations
            | Self::Transactions
            | Self::Transfers
            | Self::Services => TRANSFER_BODY_BYTES_MAX,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.as_str() == text)
    }
}

macro_rules! party_id_types {
    ($($variant:ident $text:literal $doc:literal;)*) => {
        /// Kind of a party's identifier: FSPIOP `PartyIdType` and two added by the account lookup.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum PartyIdType {
            $(#[doc = $doc] $variant,)*
        }

        impl PartyIdType {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Their names, in the same order.
            pub const NAMES: &[&str] = &[$($text),*];

            /// Parses the name; the case must match.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name as written in paths and bodies.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

party_id_types! {
    Msisdn "MSISDN" "A telephone number.";
    Email "EMAIL" "An e-mail address.";
    PersonalId "PERSONAL_ID" "A passport, national or similar number of a person.";
    Business "BUSINESS" "A business, by name or number.";
    Device "DEVICE" "A device, such as a point of sale.";
    AccountId "ACCOUNT_ID" "An account number or FSP account id.";
    Iban "IBAN" "An international bank account number.";
    Alias "ALIAS" "A name chosen in the FSP.";
    Consent "CONSENT" "A third party's consent.";
    ThirdPartyLink "THIRD_PARTY_LINK" "A third party's link to an account.";
}

/// An identifier of a path, checked for printable characters and length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identifier<'a> {
    /// As written in the path: valid in another path.
    pub raw: &'a str,
    /// Percent-decoded: for comparison, storage and bodies.
    pub text: Cow<'a, str>,
}

impl<'a> Identifier<'a> {
    /// [`Identifier::raw`] with braces escaped, because some parsers of paths reject them.
    #[must_use]
    pub fn escaped(&self) -> Cow<'a, str> {
        match self.raw.contains(BRACES) {
            true => self.raw.replace('{', "%7B").replace('}', "%7D").into(),
            false => self.raw.into(),
        }
    }
}

impl fmt::Display for Identifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `{Type}/{ID}[/{SubId}]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyPath<'a> {
    /// Kind of the identifier.
    pub kind: PartyIdType,
    /// The identifier.
    pub id: Identifier<'a>,
    /// The sub-identifier, if the path has one.
    pub sub_id: Option<Identifier<'a>>,
    /// Currency of the query, if it narrows the request.
    pub currency: Option<Currency>,
    /// Whether an identifier has braces. Such a request is accepted, and refused by callback
    /// (hub-semantics, Rulings).
    pub has_braces: bool,
}

/// `{ID}` of a transfer.
///
/// The id is parsed here but not required to be valid: any other text asks for a transfer that does
/// not exist, which is answered by a callback (hub-semantics 3.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferPath<'a> {
    /// The id; `None` if the text is not a transfer id.
    pub id: Option<TransferId>,
    /// The text.
    pub name: Identifier<'a>,
}

/// A message that the hub forwards to its destination without storing it: of the resources
/// `quotes`, `bulkQuotes`, `transactionRequests`, `authorizations` and `transactions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeRoute<'a> {
    /// The resource.
    pub resource: Resource,
    /// The operation.
    pub operation: Operation,
    /// `{ID}` of the path; `None` for a `POST`, whose body has the id.
    pub id: Option<ExchangeId<'a>>,
}

/// `{ID}` of a forwarded message.
///
/// The published schemas of quotes and bulk quotes demand a valid id. Those of the other resources
/// accept any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeId<'a> {
    /// The id; `None` if the text is not a correlation id.
    pub id: Option<CorrelationId>,
    /// The text.
    pub name: Identifier<'a>,
}

/// A requested operation with its identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `GET /participants/{Type}/{ID}[/{SubId}]`.
    ParticipantsGet(PartyPath<'a>),
    /// `POST /participants/{Type}/{ID}[/{SubId}]`.
    ParticipantsPost(PartyPath<'a>),
    /// `PUT /participants/{Type}/{ID}[/{SubId}]`.
    ParticipantsPut(PartyPath<'a>),
    /// `PUT /participants/{Type}/{ID}[/{SubId}]/error`.
    ParticipantsError(PartyPath<'a>),
    /// `DELETE /participants/{Type}/{ID}[/{SubId}]`.
    ParticipantsDelete(PartyPath<'a>),
    /// `POST /participants`.
    ParticipantsBatch,
    /// `GET /parties/{Type}/{ID}[/{SubId}]`.
    PartiesGet(PartyPath<'a>),
    /// `PUT /parties/{Type}/{ID}[/{SubId}]`.
    PartiesPut(PartyPath<'a>),
    /// `PUT /parties/{Type}/{ID}[/{SubId}]/error`.
    PartiesError(PartyPath<'a>),
    /// A quote, bulk quote, transaction request, authorization or transaction.
    Exchange(ExchangeRoute<'a>),
    /// `POST /transfers`.
    TransfersPost,
    /// `GET /transfers/{ID}`.
    TransfersGet(TransferPath<'a>),
    /// `PUT /transfers/{ID}`.
    TransfersPut(TransferPath<'a>),
    /// `PUT /transfers/{ID}/error`.
    TransfersError(TransferPath<'a>),
    /// `POST /bulkTransfers`.
    BulkTransfersPost,
    /// `GET /bulkTransfers/{ID}`. The id is that of a bulk.
    BulkTransfersGet(TransferPath<'a>),
    /// `PUT /bulkTransfers/{ID}`. The id is that of a bulk.
    BulkTransfersPut(TransferPath<'a>),
    /// `PUT /bulkTransfers/{ID}/error`. The id is that of a bulk.
    BulkTransfersError(TransferPath<'a>),
    /// `GET /services/FXP[/{SourceCurrency}/{TargetCurrency}]`.
    ServicesGet(Option<CurrencyPair>),
}

/// A currency and the one it is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrencyPair {
    /// `SourceCurrency`.
    pub source: Currency,
    /// `TargetCurrency`.
    pub target: Currency,
}

/// An existing path and method; its identifiers are not checked yet.
#[derive(Clone, Debug)]
pub enum MatchedRoute<'a> {
    /// `GET /health`, which needs no headers.
    Health,
    /// `DELETE /endpointcache`, which needs no headers.
    EndpointCache,
    /// A route of the API.
    Api(ApiRoute<'a>),
}

/// The undecoded form of a [`Route`].
#[derive(Clone, Debug)]
pub struct ApiRoute<'a> {
    resource: Resource,
    operation: Operation,
    segments: [&'a str; 3],
}

/// Finds the route of a path (without query).
///
/// # Errors
/// 404, 3002 if no method has this path; 405, 3000 if another method has it.
pub fn find<'a>(method: &Method, path: &'a str) -> Result<MatchedRoute<'a>, Refusal> {
    let mut all = [""; SEGMENTS_MAX];
    let Some(segments) = split(path, &mut all) else {
        return Err(Refusal::unknown_uri());
    };
    if let [word] = segments
        && let Some((known, _, operation)) = PLAIN_ROUTES.iter().find(|(_, name, _)| name == word)
    {
        return match operation {
            _ if known != method => Err(Refusal::method_not_allowed()),
            Operation::Health => Ok(MatchedRoute::Health),
            _ => Ok(MatchedRoute::EndpointCache),
        };
    }
    let Some(resource) = segments.first().and_then(|name| Resource::parse(name)) else {
        return Err(Refusal::unknown_uri());
    };
    let tail = &segments[1..];
    let rows = resource.routes();
    match rows.iter().find(|row| row.method == *method && row.fits(tail)) {
        Some(row) => {
            let mut segments = [""; 3];
            let identifiers =
                tail.iter().zip(row.tail).filter(|(_, known)| is_identifier_of(known));
            for (slot, (segment, _)) in segments.iter_mut().zip(identifiers) {
                *slot = segment;
            }
            Ok(MatchedRoute::Api(ApiRoute { resource, operation: row.operation, segments }))
        }
        None if rows.iter().any(|row| row.fits(tail)) => Err(Refusal::method_not_allowed()),
        None => Err(Refusal::unknown_uri()),
    }
}

impl<'a> ApiRoute<'a> {
    /// The resource, which the media types of the request must name.
    #[must_use]
    pub const fn resource(&self) -> Resource {
        self.resource
    }

    /// The requested operation.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// Whether its path has a sub-identifier.
    #[must_use]
    pub const fn has_sub_id(&self) -> bool {
        !self.segments[2].is_empty()
    }

    /// Decodes and checks the identifiers, and the narrowing part of the query.
    ///
    /// # Errors
    /// 3100 for an unknown party id type, for an invalid quote id and for an unknown currency; 3101
    /// for an invalid identifier and for a repeated currency; 2002 with 501 for routes that are
    /// published but not served: `PUT /participants/{ID}[/error]` and `PATCH /transfers/{ID}`. 3100
    /// to 3102 for the query of an authorization.
    pub fn route(&self, query: Option<&str>) -> Result<Route<'a>, Refusal> {
        let [first, ..] = self.segments;
        Ok(match self.operation {
            Operation::ParticipantsBatch => Route::ParticipantsBatch,
            Operation::ParticipantsGet => Route::ParticipantsGet(self.narrowed_party(query)?),
            Operation::ParticipantsPost => Route::ParticipantsPost(self.party()?),
            Operation::ParticipantsPut => Route::ParticipantsPut(self.party()?),
            Operation::ParticipantsError => Route::ParticipantsError(self.party()?),
            Operation::ParticipantsDelete => Route::ParticipantsDelete(self.narrowed_party(query)?),
            Operation::PartiesGet => Route::PartiesGet(self.narrowed_party(query)?),
            Operation::PartiesPut => Route::PartiesPut(self.party()?),
            Operation::PartiesError => Route::PartiesError(self.party()?),
            Operation::QuotesPost
            | Operation::BulkQuotesPost
            | Operation::TransactionRequestsPost => self.exchange(None),
            Operation::QuotesGet
            | Operation::QuotesPut
            | Operation::QuotesError
            | Operation::BulkQuotesGet
            | Operation::BulkQuotesPut
            | Operation::BulkQuotesError => self.exchange(Some(quote(first)?)),
            Operation::AuthorizationsGet => {
                let id = exchange_id(first, "ID")?;
                query::check_authorization(query)?;
                self.exchange(Some(id))
            }
            Operation::TransactionRequestsGet
            | Operation::TransactionRequestsPut
            | Operation::TransactionRequestsError
            | Operation::AuthorizationsPut
            | Operation::AuthorizationsError
            | Operation::TransactionsGet
            | Operation::TransactionsPut
            | Operation::TransactionsError => self.exchange(Some(exchange_id(first, "ID")?)),
            Operation::TransfersPost => Route::TransfersPost,
            Operation::TransfersGet => Route::TransfersGet(transfer(first)?),
            Operation::TransfersPut => Route::TransfersPut(transfer(first)?),
            Operation::TransfersError => Route::TransfersError(transfer(first)?),
            Operation::BulkTransfersPost => Route::BulkTransfersPost,
            Operation::BulkTransfersGet => Route::BulkTransfersGet(bulk_transfer(first)?),
            Operation::BulkTransfersPut => Route::BulkTransfersPut(bulk_transfer(first)?),
            Operation::BulkTransfersError => Route::BulkTransfersError(bulk_transfer(first)?),
            Operation::ServicesGet => Route::ServicesGet(self.currency_pair()?),
            Operation::Health
            | Operation::EndpointCache
            | Operation::ParticipantsBatchPut
            | Operation::ParticipantsBatchError
            | Operation::TransfersPatch => return Err(Refusal::not_implemented()),
        })
    }

    fn exchange(&self, id: Option<ExchangeId<'a>>) -> Route<'a> {
        Route::Exchange(ExchangeRoute { resource: self.resource, operation: self.operation, id })
    }

    fn currency_pair(&self) -> Result<Option<CurrencyPair>, Refusal> {
        let currency = |text: &str, name: &str| {
            Currency::parse(text).ok_or_else(|| {
                let rule = "must be equal to one of the allowed values";
                Refusal::invalid(&format!("/path/{name} {rule}"))
            })
        };
        let [source, target, _] = self.segments;
        if source.is_empty() {
            return Ok(None);
        }
        let source = currency(source, "SourceCurrency")?;
        Ok(Some(CurrencyPair { source, target: currency(target, "TargetCurrency")? }))
    }

    fn narrowed_party(&self, query: Option<&str>) -> Result<PartyPath<'a>, Refusal> {
        let party = self.party()?;
        Ok(PartyPath { currency: query::currency(query)?, ..party })
    }

    fn party(&self) -> Result<PartyPath<'a>, Refusal> {
        let [kind, id, sub_id] = self.segments;
        let Some(kind) = PartyIdType::parse(kind) else {
            return Err(Refusal::invalid("/path/Type must be equal to one of the allowed values"));
        };
        let id = party_identifier(id, "ID")?;
        let sub_id = match sub_id {
            "" => None,
            _ => Some(party_identifier(sub_id, "SubId")?),
        };
        let has_braces = [Some(&id), sub_id.as_ref()].into_iter().flatten().any(has_braces);
        if !has_braces && !kind.allows(&id.text) {
            return Err(Refusal::malformed(&format!("Invalid {} in /path/ID", kind.as_str())));
        }
        Ok(PartyPath { kind, id, sub_id, currency: None, has_braces })
    }
}

impl PartyIdType {
    /// The requirement of [`PartyIdType::allows`], for the error about a text that it refuses.
    #[must_use]
    pub const fn form(self) -> &'static str {
        match self {
            Self::Msisdn => "must be 1 to 30 digits, + before them or not",
            Self::Email => "must be an e-mail address",
            Self::Iban => "must be an IBAN",
            _ => "must be an identifier",
        }
    }

    /// Whether `text` has the form of this kind (hub-semantics 1.6).
    #[must_use]
    pub fn allows(self, text: &str) -> bool {
        match self {
            Self::Msisdn => {
                let digits = text.strip_prefix('+').unwrap_or(text);
                (1..=30).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
            }
            Self::Email => is_email(text),
            Self::Iban => is_iban(text.as_bytes()),
            _ => true,
        }
    }
}

/// The segments after the leading slash; `None` for an impossible path.
fn split<'a, 's>(path: &'a str, all: &'s mut [&'a str; SEGMENTS_MAX]) -> Option<&'s [&'a str]> {
    let mut count = 0;
    for segment in path.strip_prefix('/')?.split('/') {
        if segment.is_empty() {
            return None;
        }
        *all.get_mut(count)? = segment;
        count += 1;
    }
    Some(&all[..count])
}

const fn is_identifier_of(segment: &Segment) -> bool {
    matches!(segment, Segment::Identifier(_))
}

fn transfer(raw: &str) -> Result<TransferPath<'_>, Refusal> {
    let name = identifier(raw, "ID")?;
    Ok(TransferPath { id: TransferId::parse(&name.text), name })
}

fn bulk_transfer(raw: &str) -> Result<TransferPath<'_>, Refusal> {
    let path = transfer(raw)?;
    Ok(TransferPath { id: path.id.map(TransferId::as_bulk), ..path })
}

/// The id of a quote must match the pattern in its published schema.
fn quote(raw: &str) -> Result<ExchangeId<'_>, Refusal> {
    let quote = exchange_id(raw, "id")?;
    if quote.id.is_none() {
        let pattern = crate::body::CORRELATION_ID_PATTERN;
        return Err(Refusal::invalid(&format!("/path/id must match pattern \"{pattern}\"")));
    }
    Ok(quote)
}

fn exchange_id<'a>(raw: &'a str, name: &str) -> Result<ExchangeId<'a>, Refusal> {
    let name = identifier(raw, name)?;
    Ok(ExchangeId { id: CorrelationId::parse(&name.text), name })
}

/// Decodes one segment and checks it by the rule for identifiers.
fn identifier<'a>(raw: &'a str, name: &str) -> Result<Identifier<'a>, Refusal> {
    let text = percent_decode(raw);
    match text {
        Some(text) if is_identifier(&text) => Ok(Identifier { raw, text }),
        _ => Err(Refusal::malformed(&format!("Invalid identifier in /path/{name}"))),
    }
}

/// The same, with braces allowed.
fn party_identifier<'a>(raw: &'a str, name: &str) -> Result<Identifier<'a>, Refusal> {
    let text = percent_decode(raw);
    match text {
        Some(text) if text.contains(BRACES) => {
            let allowed = |c: char| BRACES.contains(&c) || is_identifier_character(c);
            if !is_short_enough(&text) || !text.chars().all(allowed) {
                return Err(Refusal::malformed(&format!("Invalid identifier in /path/{name}")));
            }
            Ok(Identifier { raw, text })
        }
        _ => identifier(raw, name),
    }
}

const BRACES: [char; 2] = ['{', '}'];

fn has_braces(identifier: &Identifier<'_>) -> bool {
    identifier.text.contains(BRACES)
}

/// The form of an identifier in a path, except for its length, as an ECMA 262 pattern.
pub const IDENTIFIER_PATTERN: &str = "^[^\\s\\u0000-\\u001f\\u007f-\\u009f{}<>`\\\\]+$";

/// Whether a decoded identifier is valid in a path: printable, without blanks, braces, angle
/// brackets, back-quote and backslash, at most [`IDENTIFIER_CHARS_MAX`] characters (hub-semantics
/// 1.6).
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && !has_dots_alone(text)
        && is_short_enough(text)
        && (text.bytes().all(|byte| PLAIN[usize::from(byte)])
            || text.chars().all(is_identifier_character))
}

/// Whether a part between slashes is `.` or `..`, which path resolution treats specially, also in a
/// server that decodes `%2F` first.
fn has_dots_alone(text: &str) -> bool {
    text.contains('.') && text.split('/').any(|part| matches!(part, "." | ".."))
}

/// The ASCII bytes that are valid in identifiers.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        plain[byte as usize] = !matches!(byte, b'{' | b'}' | b'<' | b'>' | b'`' | b'\\');
        byte += 1;
    }
    plain
};

fn is_short_enough(text: &str) -> bool {
    crate::error::first_chars(text, IDENTIFIER_CHARS_MAX).len() == text.len()
}

fn is_identifier_character(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !matches!(c, '{' | '}' | '<' | '>' | '`' | '\\')
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else {
        return false;
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_|~-".contains(&b);
    !local.is_empty()
        && local.bytes().all(plain)
        && domain.split('.').all(|label| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

fn is_iban(text: &[u8]) -> bool {
    (5..=34).contains(&text.len())
        && text[..2].iter().all(u8::is_ascii_uppercase)
        && text[2..4].iter().all(u8::is_ascii_digit)
        && text[4..].iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

/// Decodes `%XX`; `None` for an invalid escape or for bytes that are not UTF-8.
pub(crate) fn percent_decode(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.contains('%') {
        return Some(Cow::Borrowed(raw));
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let [byte, tail @ ..] = rest {
        if *byte != b'%' {
            out.push(*byte);
            rest = tail;
            continue;
        }
        let [high, low, tail @ ..] = tail else {
            return None;
        };
        let value = char::from(*high).to_digit(16)? << 4 | char::from(*low).to_digit(16)?;
        out.push(value as u8);
        rest = tail;
    }
    String::from_utf8(out).ok().map(Cow::Owned)
}

/// Encodes `text` as one segment of a path: characters other than the unreserved ones and a few
/// that are valid in a segment become `%XX`.
#[must_use]
pub fn percent_encode(text: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&b);
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value & 15)]);
            out.extend(['%', digit(byte >> 4), digit(byte)]);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use expect_test::{ExpectFile, expect_file};
    use proptest::prelude::*;

    use super::*;
    use crate::test_table;

    fn outcome(method: &Method, path: &str) -> String {
        let (path, query) =
            path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let route = find(method, path).and_then(|found| match found {
            MatchedRoute::Health => Ok("Health".to_owned()),
            MatchedRoute::EndpointCache => Ok("EndpointCache".to_owned()),
            MatchedRoute::Api(api) => api.route(query).map(|route| show(&route)),
        });
        route.unwrap_or_else(|refusal| {
            format!("{} {}", refusal.status.as_u16(), refusal.description)
        })
    }

    /// The name of the route, and its decoded identifiers.
    fn show(route: &Route<'_>) -> String {
        let debug = format!("{route:?}");
        let name = debug.split('(').next().expect("a name").to_owned();
        match route {
            Route::ParticipantsGet(party)
            | Route::ParticipantsPost(party)
            | Route::ParticipantsPut(party)
            | Route::ParticipantsError(party)
            | Route::ParticipantsDelete(party)
            | Route::PartiesGet(party)
            | Route::PartiesPut(party)
            | Route::PartiesError(party) => {
                let sub_id = party.sub_id.as_ref().map(|sub| format!(" {sub}")).unwrap_or_default();
                let braces = if party.has_braces { " with braces" } else { "" };
                let currency = party.currency.map(|it| format!(" in {it}")).unwrap_or_default();
                format!("{name} {} {}{sub_id}{currency}{braces}", party.kind.as_str(), party.id)
            }
            Route::Exchange(route) => {
                let id = route.id.as_ref().map(|id| format!(" {}", id.name)).unwrap_or_default();
                format!("{:?}{id}", route.operation)
            }
            Route::TransfersGet(path)
            | Route::TransfersPut(path)
            | Route::TransfersError(path)
            | Route::BulkTransfersGet(path)
            | Route::BulkTransfersPut(path)
            | Route::BulkTransfersError(path) => {
                format!("{name} {} {}", path.name, path.id.is_some())
            }
            Route::ServicesGet(Some(CurrencyPair { source, target })) => {
                format!("{name} {source} {target}")
            }
            Route::ParticipantsBatch
            | Route::TransfersPost
            | Route::BulkTransfersPost
            | Route::ServicesGet(None) => name,
        }
    }

    /// An input is a method and a path.
    fn check(text: &ExpectFile) {
        test_table::check(text, |request| {
            let (method, path) = test_table::first_word(request);
            outcome(&Method::from_bytes(method.as_bytes()).expect("a method"), path)
        });
    }

    #[test]
    fn every_route_is_found() {
        check(&expect_file!["test_tables/routes.txt"]);
    }

    #[test]
    fn unknown_paths_and_wrong_methods_differ() {
        check(&expect_file!["test_tables/unknown.txt"]);
    }

    #[test]
    fn identifiers_are_decoded_and_checked() {
        let longest = format!("GET /parties/ALIAS/{}", "%C3%A9".repeat(128));
        assert!(outcome(&Method::GET, &longest[4..]).starts_with("PartiesGet"));
        check(&expect_file!["test_tables/identifiers.txt"]);
    }

    #[test]
    fn a_currency_narrows_what_is_read_and_released() {
        check(&expect_file!["test_tables/currency.txt"]);
    }

    #[test]
    fn names_are_read_back() {
        for kind in PartyIdType::ALL {
            assert_eq!(PartyIdType::parse(kind.as_str()), Some(*kind));
        }
    }

    proptest! {
        #[test]
        fn encoding_is_undone_by_decoding(text in "\\PC{0,40}") {
            let encoded = percent_encode(&text);
            prop_assert!(!encoded.contains('/'));
            let decoded = percent_decode(&encoded);
            prop_assert_eq!(decoded.as_deref(), Some(text.as_str()));
        }
    }
}
