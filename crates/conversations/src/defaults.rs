//! Defaults of a conversation: the usual headers and bodies of each message, and the usual
//! endpoints of a participant. `conversations/README.md` documents them.

use testkit::http::Headers;

/// The hub's own and the usual protocol version.
pub(crate) const VERSION: &str = "2.0";

/// Endpoint types that a participant has besides those of the test kit.
const MORE_ENDPOINTS: [(&str, &str); 3] =
    [("TRX_REQ_SERVICE", ""), ("AUTHORIZATIONS", ""), ("FX_QUOTES", "")];

/// Endpoint types and what follows a participant's base URL.
pub(crate) fn endpoints() -> impl Iterator<Item = (&'static str, &'static str)> {
    testkit::ENDPOINTS.into_iter().chain(MORE_ENDPOINTS)
}

/// Between whom a message goes, and how.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: Option<&'a str>,
    pub(crate) version: &'a str,
}

impl Call<'_> {
    /// The first segment of the path.
    pub(crate) fn resource(&self) -> &str {
        self.path.split(['/', '?']).nth(1).unwrap_or_default()
    }
}

/// Headers of a message from a participant, placeholders not filled in.
pub(crate) fn headers(call: &Call<'_>) -> Headers {
    let media = |version: &str| {
        format!("application/vnd.interoperability.{}+json;version={version}", call.resource())
    };
    let mut headers = Vec::new();
    if !matches!(call.method, "PUT" | "PATCH") {
        headers.push(("Accept", media(call.version)));
    }
    headers.push(("Content-Type", media(call.version)));
    headers.push(("Date", "{date}".to_owned()));
    headers.push(("FSPIOP-Source", call.from.to_owned()));
    if let Some(to) = call.to {
        headers.push(("FSPIOP-Destination", to.to_owned()));
    }
    headers.push(("traceparent", "00-{trace}-00f067aa0ba902b7-01".to_owned()));
    Headers(headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Body of a message with its placeholders; empty for a message without a body.
pub(crate) fn body(call: &Call<'_>) -> String {
    let segments: Vec<_> = call.path.split('/').skip(1).collect();
    let from = call.from;
    let to = call.to.unwrap_or("dfsp2");
    match (call.method, segments.as_slice()) {
        ("POST", ["transfers"]) => format!(
            r#"{{"transferId": "{{transfer}}", "payerFsp": "{from}", "payeeFsp": "{to}",
 "amount": {{"amount": "100", "currency": "USD"}}, "ilpPacket": "{{ilp}}",
 "condition": "{{condition}}", "expiration": "{{now+60s}}"}}"#
        ),
        ("PUT", ["transfers", _]) => r#"{"completedTimestamp": "{now}",
 "transferState": "COMMITTED", "fulfilment": "{fulfilment}"}"#
            .to_owned(),
        ("PUT", [.., "error"]) => r#"{"errorInformation": {"errorCode": "5105",
 "errorDescription": "Payee FSP rejected transaction"}}"#
            .to_owned(),
        ("POST", ["quotes"]) => format!(
            r#"{{"quoteId": "{{quote}}", "transactionId": "{{transaction}}",
 "payer": {{"partyIdInfo": {{"partyIdType": "MSISDN", "partyIdentifier": "{{msisdn}}",
  "fspId": "{from}"}}}},
 "payee": {{"partyIdInfo": {{"partyIdType": "MSISDN", "partyIdentifier": "{{msisdn2}}",
  "fspId": "{to}"}}}},
 "amountType": "SEND", "amount": {{"amount": "100", "currency": "USD"}},
 "transactionType": {{"scenario": "TRANSFER", "initiator": "PAYER",
  "initiatorType": "CONSUMER"}}}}"#
        ),
        ("PUT", ["quotes", _]) => r#"{"transferAmount": {"amount": "100", "currency": "USD"},
 "expiration": "{now+60s}", "ilpPacket": "{ilp}", "condition": "{condition}"}"#
            .to_owned(),
        ("PUT", ["parties", kind, id, ..]) => format!(
            r#"{{"party": {{"partyIdInfo": {{"partyIdType": "{kind}", "partyIdentifier": "{id}",
  "fspId": "{from}"}}, "name": "Amina Ōdhiambo"}}}}"#
        ),
        ("POST" | "PUT", ["participants", _, _, ..]) => {
            format!(r#"{{"fspId": "{from}", "currency": "USD"}}"#)
        }
        (method, [resource, ..]) => request_body((method, resource), (from, to)),
        _ => String::new(),
    }
}

/// Body of a bulk quote or of a message about a request to pay.
fn request_body(message: (&str, &str), (from, to): (&str, &str)) -> String {
    match message {
        ("POST", "bulkQuotes") => format!(
            r#"{{"bulkQuoteId": "{{quote}}", "payer": {{"partyIdInfo": {{"partyIdType": "MSISDN",
  "partyIdentifier": "{{msisdn}}", "fspId": "{from}"}}}},
 "individualQuotes": [{{"quoteId": "{{quote2}}", "transactionId": "{{transaction}}",
  "payee": {{"partyIdInfo": {{"partyIdType": "MSISDN", "partyIdentifier": "{{msisdn2}}",
   "fspId": "{to}"}}}},
  "amountType": "SEND", "amount": {{"amount": "100", "currency": "USD"}},
  "transactionType": {{"scenario": "TRANSFER", "initiator": "PAYER",
   "initiatorType": "BUSINESS"}}}}]}}"#
        ),
        ("PUT", "bulkQuotes") => r#"{"expiration": "{now+60s}", "individualQuoteResults":
 [{"quoteId": "{quote2}", "transferAmount": {"amount": "100", "currency": "USD"},
  "ilpPacket": "{ilp}", "condition": "{condition}"}]}"#
            .to_owned(),
        ("POST", "transactionRequests") => format!(
            r#"{{"transactionRequestId": "{{request}}",
 "payee": {{"partyIdInfo": {{"partyIdType": "MSISDN", "partyIdentifier": "{{msisdn}}",
  "fspId": "{from}"}}}},
 "payer": {{"partyIdType": "MSISDN", "partyIdentifier": "{{msisdn2}}", "fspId": "{to}"}},
 "amount": {{"amount": "100", "currency": "USD"}},
 "transactionType": {{"scenario": "PAYMENT", "initiator": "PAYEE",
  "initiatorType": "BUSINESS"}}, "authenticationType": "OTP"}}"#
        ),
        ("PUT", "transactionRequests") => r#"{"transactionId": "{transaction}",
 "transactionRequestState": "RECEIVED"}"#
            .to_owned(),
        ("PUT", "authorizations") => r#"{"authenticationInfo": {"authentication": "OTP",
 "authenticationValue": "1234"}, "responseType": "ENTERED"}"#
            .to_owned(),
        ("PUT", "transactions") => r#"{"completedTimestamp": "{now}",
 "transactionState": "COMPLETED"}"#
            .to_owned(),
        _ => String::new(),
    }
}
