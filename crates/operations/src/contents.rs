//! `GET /transfers/{transferId}/messages`: headers and bodies of the messages about a payment, from
//! the log. An addition to the reference's API.
//!
//! Messages contain personal data. Only callers with the permission that the route names in
//! `unmasks` get them byte for byte. Others get names, identifiers, notes and free texts masked
//! ([`masking`]). Each read is recorded in the audit trail, unless no reads are. Costs: one record
//! read from the log per message, on a separate thread; the bytes and the number of messages are
//! bounded. The limit of concurrent explanations applies.

mod masking;

use fspiop::stored_message::StoredMessage;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::LogIndex;
use openapi::schema::reference;
use serde_json::json;
use serde_json::value::RawValue;

pub(crate) use self::masking::masked_identifier;
pub use self::masking::masked_text;
use crate::outcome_errors;
use crate::request::{AdminRequest, TRANSFER};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, response_type};

/// Maximum number of messages in an answer.
pub const CONTENTS_MAX: usize = 200;
/// Bytes of stored messages after which no further message is added to an answer.
pub const CONTENTS_BYTES_MAX: usize = 8 << 20;

/// A message about a payment, as the log stores it.
#[derive(Clone, Debug)]
pub struct MessageContent {
    /// Its record.
    pub log_index: LogIndex,
    /// Method and path.
    pub request: &'static str,
    /// The participant that sent it.
    pub sender: String,
    /// `stored`, `damaged` if it does not match its digest, `erased` or `none`.
    pub kept: &'static str,
    /// Headers and body, if they can be read.
    pub message: Option<StoredMessage>,
}

/// The messages about a payment, in the order of the log.
#[derive(Clone, Debug, Default)]
pub struct PaymentContents {
    /// The messages.
    pub messages: Vec<MessageContent>,
    /// Number of further messages, which are left out.
    pub left_out: u64,
}

routes! {
    "/transfers/{transferId}/messages" [TRANSFER] {
        guarded GET listMessages = list, "Show the messages about a transfer" {
            unmasks: Audit,
            text: "\
                Headers and bodies of the messages about a transfer, bulk transfer or quote, as \
                participants sent them, at most 200. With the permission `audit` they are \
                complete. Otherwise `masked` is true: ids, amounts, times, states, codes and \
                participants are shown, and in all other texts letters and digits are `*`, \
                except the last two of a long party identifier. Credentials in headers are always \
                masked. Concurrent requests are limited; retry after a 503.",
            responses: [200: PaymentContentsResponse = "The messages, in the order of the log."],
            refusals: [400 MALFORMED_SYNTAX, 404 TRANSFER_NOT_FOUND],
        }
    }
}

response_type! {
    /// The messages about a payment.
    struct PaymentContentsResponse as "MessageContents" {
        transfer_id: String = reference("TransferId"),
        /// Whether personal data are masked.
        masked: bool,
        messages: Vec<MessageContentResponse>,
        /// Number of further messages, which are left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        left_out: Option<u64>,
    }
}

response_type! {
    /// A message.
    struct MessageContentResponse {
        log_index: u64,
        request: &'static str,
        sender: String,
        kept: &'static str = schema::one_of(&["stored", "damaged", "erased", "none"]),
        headers: Vec<HeaderLineResponse>,
        /// The body, if it is JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        body: Option<Box<RawValue>> = json!({}),
        /// The body, if it is not JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    }
}

response_type! {
    /// A header line.
    struct HeaderLineResponse {
        name: String,
        value: String,
    }
}

/// `GET /transfers/{transferId}/messages`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let transfer = request.path(&TRANSFER)?;
    let contents = request.backend.message_contents(transfer).await;
    let contents = contents.map_err(outcome_errors::from_unavailable)?;
    let Some(PaymentContents { messages, left_out }) = contents else {
        let refusal = Refusal::new(ErrorCode::TRANSFER_NOT_FOUND, "transfer not found in the log");
        return Err(Refusal { status: StatusCode::NOT_FOUND, ..refusal });
    };
    let masked = request.is_masked();
    let messages = messages.into_iter().map(|it| MessageContentResponse::of(it, masked));
    Ok(AdminResponse::ok(&PaymentContentsResponse {
        transfer_id: transfer.to_string(),
        masked,
        messages: messages.collect(),
        left_out: Some(left_out).filter(|count| *count != 0),
    }))
}

impl MessageContentResponse {
    fn of(content: MessageContent, masked: bool) -> Self {
        let MessageContent { log_index, request, sender, kept, message } = content;
        let (headers, body, text) = match &message {
            Some(message) => {
                let (body, text) = body_of(&message.body, masked);
                (headers_of(message, masked), body, text)
            }
            None => (Vec::new(), None, None),
        };
        Self { log_index: log_index.0, request, sender, kept, headers, body, text }
    }
}

fn headers_of(message: &StoredMessage, masked: bool) -> Vec<HeaderLineResponse> {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        let value = masking::header(name.as_str(), &value, masked);
        HeaderLineResponse { name: name.as_str().to_owned(), value }
    };
    message.headers.iter().map(line).collect()
}

/// The body as JSON, digit for digit unless it is masked, or as text.
fn body_of(body: &[u8], masked: bool) -> (Option<Box<RawValue>>, Option<String>) {
    if body.is_empty() {
        return (None, None);
    }
    let Ok(json) = serde_json::from_slice::<&RawValue>(body) else {
        let text = String::from_utf8_lossy(body);
        return (None, Some(if masked { masked_text(&text) } else { text.into_owned() }));
    };
    let json = if masked { masking::json(json) } else { json.to_owned() };
    (Some(json), None)
}
