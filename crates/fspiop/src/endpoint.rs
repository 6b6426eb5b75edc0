//! Endpoint types of the registry, and the address of a call from a registered value.
//!
//! A value is a template, `http://host/transfers/{{transferId}}`, or, for a few types, a base URL
//! to which the path of the resource is appended (hub-semantics 2.1).

use crate::route::Resource;

macro_rules! endpoint_types {
    ($($variant:ident $text:literal;)*) => {
        /// The purpose of a participant's endpoint. The registry holds one value per type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum EndpointType {
            $(#[doc = concat!("`", $text, "`.")] $variant,)*
        }

        impl EndpointType {
            /// Every type, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Parses the name of the admin API.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name of the admin API.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

endpoint_types! {
    ParticipantPut "FSPIOP_CALLBACK_URL_PARTICIPANT_PUT";
    ParticipantPutError "FSPIOP_CALLBACK_URL_PARTICIPANT_PUT_ERROR";
    ParticipantDelete "FSPIOP_CALLBACK_URL_PARTICIPANT_DELETE";
    ParticipantSubIdPut "FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT";
    ParticipantSubIdPutError "FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT_ERROR";
    ParticipantSubIdDelete "FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_DELETE";
    ParticipantBatchPut "FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT";
    ParticipantBatchPutError "FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT_ERROR";
    PartiesGet "FSPIOP_CALLBACK_URL_PARTIES_GET";
    PartiesPut "FSPIOP_CALLBACK_URL_PARTIES_PUT";
    PartiesPutError "FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR";
    PartiesSubIdGet "FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_GET";
    PartiesSubIdPut "FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT";
    PartiesSubIdPutError "FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT_ERROR";
    Quotes "FSPIOP_CALLBACK_URL_QUOTES";
    BulkQuotes "FSPIOP_CALLBACK_URL_BULK_QUOTES";
    FxQuotes "FSPIOP_CALLBACK_URL_FX_QUOTES";
    Authorizations "FSPIOP_CALLBACK_URL_AUTHORIZATIONS";
    TransactionRequests "FSPIOP_CALLBACK_URL_TRX_REQ_SERVICE";
    TransferPost "FSPIOP_CALLBACK_URL_TRANSFER_POST";
    TransferPut "FSPIOP_CALLBACK_URL_TRANSFER_PUT";
    TransferError "FSPIOP_CALLBACK_URL_TRANSFER_ERROR";
    FxTransferPost "FSPIOP_CALLBACK_URL_FX_TRANSFER_POST";
    FxTransferPut "FSPIOP_CALLBACK_URL_FX_TRANSFER_PUT";
    FxTransferError "FSPIOP_CALLBACK_URL_FX_TRANSFER_ERROR";
    BulkTransferPost "FSPIOP_CALLBACK_URL_BULK_TRANSFER_POST";
    BulkTransferPut "FSPIOP_CALLBACK_URL_BULK_TRANSFER_PUT";
    BulkTransferError "FSPIOP_CALLBACK_URL_BULK_TRANSFER_ERROR";
    AlarmUrl "ALARM_NOTIFICATION_URL";
    AlarmTopic "ALARM_NOTIFICATION_TOPIC";
    CapBreachEmail "NET_DEBIT_CAP_THRESHOLD_BREACH_EMAIL";
    CapAdjustmentEmail "NET_DEBIT_CAP_ADJUSTMENT_EMAIL";
    SettlementEmail "SETTLEMENT_TRANSFER_POSITION_CHANGE_EMAIL";
}

/// Maximum length of the name of an endpoint type, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

impl EndpointType {
    /// Whether the registered value is a base URL, to which the path of the call is appended.
    #[must_use]
    pub const fn is_base_url(self) -> bool {
        matches!(
            self,
            Self::Quotes
                | Self::BulkQuotes
                | Self::FxQuotes
                | Self::Authorizations
                | Self::TransactionRequests
        )
    }

    /// The usual path of a callback, below the base address of a participant that serves all
    /// callbacks there; `None` if the hub does not call this type.
    #[must_use]
    pub const fn path_below_base(self) -> Option<&'static str> {
        Some(match self {
            Self::ParticipantPut | Self::ParticipantDelete => {
                "/participants/{{partyIdType}}/{{partyIdentifier}}"
            }
            Self::ParticipantPutError => "/participants/{{partyIdType}}/{{partyIdentifier}}/error",
            Self::ParticipantSubIdPut | Self::ParticipantSubIdDelete => {
                "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}"
            }
            Self::ParticipantSubIdPutError => {
                "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}/error"
            }
            Self::ParticipantBatchPut => "/participants/{{requestId}}",
            Self::ParticipantBatchPutError => "/participants/{{requestId}}/error",
            Self::PartiesGet | Self::PartiesPut => "/parties/{{partyIdType}}/{{partyIdentifier}}",
            Self::PartiesPutError => "/parties/{{partyIdType}}/{{partyIdentifier}}/error",
            Self::PartiesSubIdGet | Self::PartiesSubIdPut => {
                "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}"
            }
            Self::PartiesSubIdPutError => {
                "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}/error"
            }
            Self::TransferPost => "/transfers",
            Self::TransferPut => "/transfers/{{transferId}}",
            Self::TransferError => "/transfers/{{transferId}}/error",
            Self::BulkTransferPost => "/bulkTransfers",
            Self::BulkTransferPut => "/bulkTransfers/{{id}}",
            Self::BulkTransferError => "/bulkTransfers/{{id}}/error",
            Self::Quotes
            | Self::BulkQuotes
            | Self::FxQuotes
            | Self::Authorizations
            | Self::TransactionRequests => "",
            _ => return None,
        })
    }

    /// The endpoint type of the messages of a resource that the hub only forwards. A transaction is
    /// asked for where its request was sent.
    #[must_use]
    pub const fn of_exchange(resource: Resource) -> Self {
        match resource {
            Resource::BulkQuotes => Self::BulkQuotes,
            Resource::Authorizations => Self::Authorizations,
            Resource::TransactionRequests | Resource::Transactions => Self::TransactionRequests,
            Resource::Quotes
            | Resource::Participants
            | Resource::Parties
            | Resource::Transfers
            | Resource::BulkTransfers
            | Resource::Services => Self::Quotes,
        }
    }

    /// For an error about a look-up or a registration: the endpoint type of its response.
    #[must_use]
    pub const fn of_answer(self) -> Option<Self> {
        match self {
            Self::ParticipantPutError => Some(Self::ParticipantPut),
            Self::ParticipantSubIdPutError => Some(Self::ParticipantSubIdPut),
            Self::PartiesPutError => Some(Self::PartiesPut),
            Self::PartiesSubIdPutError => Some(Self::PartiesSubIdPut),
            _ => None,
        }
    }

    /// The address of a call: `value` expanded with `variables` and the query of `path`, if any.
    /// For a base URL: `value` and `path`, which begins with a slash.
    #[must_use]
    pub fn address(self, value: &str, variables: &[(&str, &str)], path: &str) -> String {
        if !self.is_base_url() || split_at_pair(value, b'{').is_some() {
            let mut address = expand(value, variables);
            if let Some((_, query)) = path.split_once('?') {
                address.push(if address.contains('?') { '&' } else { '?' });
                address.push_str(query);
            }
            return address;
        }
        let base = value.trim_end_matches('/');
        let mut address = String::with_capacity(base.len() + path.len());
        address.push_str(base);
        address.push_str(path);
        address
    }
}

/// The names of the third-party API that [`is_accepted_name`] allows, as a regular expression.
pub const THIRD_PARTY_NAMES: &str = "^TPP?_CB_URL_[A-Z_]+$";

/// Whether the registry accepts a value under this name: a type above, or one of the third-party
/// API (`TP_CB_URL_…`, `TPP_CB_URL_…`), which the hub stores but does not call.
#[must_use]
pub fn is_accepted_name(text: &str) -> bool {
    let third_party = |prefix| text.strip_prefix(prefix).is_some_and(|rest: &str| !rest.is_empty());
    EndpointType::parse(text).is_some()
        || (third_party("TP_CB_URL_") || third_party("TPP_CB_URL_"))
            && text.len() <= NAME_BYTES_MAX
            && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

/// Whether the hub calls the value under this name, now or once the resource is served.
#[must_use]
pub fn is_called(name: &str) -> bool {
    name.starts_with("FSPIOP_CALLBACK_URL_")
}

/// Replaces each `{{name}}` (or `{{{name}}}`, blanks allowed inside) by the variable's value,
/// unchanged. Costs one allocation of the exact length. Values must be valid in a path already
/// ([`crate::percent_encode`], or the raw form of an identifier). An unknown name becomes empty;
/// unclosed braces stay.
#[must_use]
pub fn expand(template: &str, variables: &[(&str, &str)]) -> String {
    let mut length = 0;
    expand_parts(template, variables, |part| length += part.len());
    let mut out = String::with_capacity(length);
    expand_parts(template, variables, |part| out.push_str(part));
    out
}

/// Calls `take` with the parts of the expanded template, in order.
fn expand_parts(template: &str, variables: &[(&str, &str)], mut take: impl FnMut(&str)) {
    let mut rest = template;
    while let Some((before, tail)) = split_at_pair(rest, b'{') {
        let Some((inside, after)) = split_at_pair(tail, b'}') else {
            break;
        };
        take(before);
        let (name, after) = match inside.strip_prefix('{') {
            Some(inside) => (inside, after.strip_prefix('}').unwrap_or(after)),
            None => (inside, after),
        };
        if let Some((_, value)) = variables.iter().find(|(known, _)| *known == name.trim()) {
            take(value);
        }
        rest = after;
    }
    take(rest);
}

/// The texts before and after the first pair of this brace.
fn split_at_pair(text: &str, brace: u8) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let is_pair = |at: &usize| bytes.get(at + 1) == Some(&brace);
    let at = memchr::memchr_iter(brace, bytes).find(is_pair)?;
    Some((&text[..at], &text[at + 2..]))
}

#[cfg(test)]
mod tests {

    use super::*;

    const VARIABLES: [(&str, &str); 3] =
        [("partyIdType", "MSISDN"), ("partyIdentifier", "+27{{x}}"), ("transferId", "b51e")];

    #[test]
    fn templates_expand() {
        for (template, expected) in [
            ("http://a/transfers/{{transferId}}/error", "http://a/transfers/b51e/error"),
            ("http://a/{{partyIdType}}/{{partyIdentifier}}", "http://a/MSISDN/+27{{x}}"),
            ("http://a/{{ transferId }}/{{{transferId}}}", "http://a/b51e/b51e"),
            ("http://a/{{unknown}}/b", "http://a//b"),
            ("http://a/{{transferId", "http://a/{{transferId"),
            ("http://a/{transferId}", "http://a/{transferId}"),
            ("http://a/{{}}", "http://a/"),
            ("{{{{", "{{{{"),
            ("", ""),
        ] {
            assert_eq!(expand(template, &VARIABLES), expected, "{template}");
        }
    }

    #[test]
    fn base_urls_get_the_path_and_templates_do_not() {
        for (kind, value, expected) in [
            (EndpointType::Quotes, "http://a", "http://a/quotes/b51e"),
            (EndpointType::Quotes, "http://a/fsp/", "http://a/fsp/quotes/b51e"),
            (EndpointType::Quotes, "http://a/{{transferId}}", "http://a/b51e"),
            (
                EndpointType::TransferPut,
                "http://a/transfers/{{transferId}}",
                "http://a/transfers/b51e",
            ),
            (EndpointType::TransferPost, "http://a/transfers", "http://a/transfers"),
        ] {
            assert_eq!(kind.address(value, &VARIABLES, "/quotes/b51e"), expected);
        }
    }

    #[test]
    fn callbacks_below_one_base_are_those_that_the_hub_calls() {
        let below = EndpointType::ALL.iter().filter(|kind| kind.path_below_base().is_some());
        let below: Vec<_> = below.copied().collect();
        assert_eq!(below.len(), 25);
        assert!(below.iter().all(|kind| is_called(kind.as_str())));
        let transfers = EndpointType::FxTransferPost;
        assert!(below.contains(&EndpointType::FxQuotes) && !below.contains(&transfers));
        // The error of each type is served at the same base.
        for answer in EndpointType::ALL.iter().filter_map(|kind| kind.of_answer()) {
            assert!(below.contains(&answer), "{answer:?}");
        }
    }

    #[test]
    fn names_are_read_back_and_others_refused() {
        for kind in EndpointType::ALL {
            assert_eq!(EndpointType::parse(kind.as_str()), Some(*kind));
            assert!(is_accepted_name(kind.as_str()));
        }
        assert_eq!(EndpointType::ALL.len(), 33);
        for (name, accepted) in [
            ("TP_CB_URL_CONSENT_PUT_ERROR", true),
            ("TPP_CB_URL_CONSENTS_PUT_ERROR", true),
            ("TP_CB_URL_", false),
            ("TP_CB_URL_consent", false),
            ("FSPIOP_CALLBACK_URL_TRANSFERS", false),
            ("", false),
        ] {
            assert_eq!(is_accepted_name(name), accepted, "{name}");
        }
    }
}
