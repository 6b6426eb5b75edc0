//! One message of each kind, as sent by a DFSP.

use fspiop::body::{
    BatchRegistration, ErrorInformation, Fulfil, ParticipantRegistration, ParticipantUpdate,
    Prepare, Quote, QuoteResponse, check_party,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// An unparsed inbound message.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) method: &'static Method,
    pub(crate) path: &'static str,
    pub(crate) body: &'static str,
    /// Parses and checks the body; `false` when it is refused.
    pub(crate) parse: fn(&[u8]) -> bool,
    /// Whether its body is hashed and recorded.
    pub(crate) recorded: bool,
}

const fn sample(
    name: &'static str,
    method: &'static Method,
    path: &'static str,
    body: &'static str,
    parse: fn(&[u8]) -> bool,
) -> Sample {
    Sample { name, method, path, body, parse, recorded: false }
}

impl Sample {
    const fn recorded(self) -> Self {
        Self { recorded: true, ..self }
    }

    /// The headers as received.
    pub(crate) fn headers(&self) -> HeaderMap {
        let resource = self.path.split('/').nth(1).unwrap_or_default();
        let media = format!("application/vnd.interoperability.{resource}+json;version=1.1");
        let length = self.body.len().to_string();
        let mut lines = vec![
            ("host", "switch.example:4000"),
            ("user-agent", "axios/1.7.9"),
            ("connection", "keep-alive"),
            ("content-type", media.as_str()),
            ("date", "Tue, 24 May 2016 08:38:08 GMT"),
            ("fspiop-source", "payerfsp"),
            ("fspiop-destination", "payeefsp"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("tracestate", "acmevendor=eyJzcGFuSWQiOiJiN2FkNmI3MTY5MjAzMzMxIn0"),
        ];
        if *self.method != Method::PUT {
            lines.push(("accept", media.as_str()));
        }
        if !self.body.is_empty() {
            lines.push(("content-length", length.as_str()));
        }
        lines.into_iter().map(line).collect()
    }
}

fn line((name, value): (&'static str, &str)) -> (HeaderName, HeaderValue) {
    let value = HeaderValue::from_str(value).expect("the samples are fit for headers");
    (HeaderName::from_static(name), value)
}

/// The index of `POST /transfers` among the samples.
pub(crate) const PREPARE_AT: usize = 4;

const PARTICIPANT: &str = "/participants/MSISDN/27713803912";
const QUOTE_PATH: &str = "/quotes/7c23e80c-d078-4077-8263-2c047876fcf6";
const REGISTRATION: &str = r#"{"fspId":"payerfsp","currency":"USD"}"#;
const TRANSFER: &str = "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069";

/// Every kind of message that the hub serves. New ones must be appended, since [`PREPARE_AT`] is an
/// index.
pub(crate) const SAMPLES: [Sample; 17] = [
    sample("GET /parties", &Method::GET, PARTIES, "", |_| true),
    sample("PUT /parties", &Method::PUT, PARTIES, PARTY, |body| check_party(body).is_ok()),
    sample("POST /quotes", &Method::POST, "/quotes", QUOTE, |body| Quote::parse(body).is_ok()),
    sample("PUT /quotes", &Method::PUT, QUOTE_PATH, QUOTE_RESPONSE, |body| {
        QuoteResponse::parse(body).is_ok()
    }),
    sample("POST /transfers", &Method::POST, "/transfers", PREPARE, |body| {
        Prepare::parse(body).is_ok()
    })
    .recorded(),
    sample("PUT /transfers", &Method::PUT, TRANSFER, FULFIL, |body| Fulfil::parse(body).is_ok())
        .recorded(),
    sample("PUT /transfers/error", &Method::PUT, TRANSFER_ERROR, FAILURE, |body| {
        ErrorInformation::parse(body).is_ok()
    })
    .recorded(),
    sample("GET /transfers", &Method::GET, TRANSFER, "", |_| true),
    sample("PUT /parties/error", &Method::PUT, PARTIES_ERROR, FAILURE, |body| {
        ErrorInformation::parse(body).is_ok()
    }),
    sample("GET /quotes", &Method::GET, QUOTE_PATH, "", |_| true),
    sample("PUT /quotes/error", &Method::PUT, QUOTE_ERROR, FAILURE, |body| {
        ErrorInformation::parse_closed(body).is_ok()
    }),
    sample("POST /participants, a batch of two", &Method::POST, "/participants", BATCH, |body| {
        BatchRegistration::parse(body).is_ok()
    }),
    sample("POST /participants of one party", &Method::POST, PARTICIPANT, REGISTRATION, |body| {
        ParticipantRegistration::parse(body).is_ok()
    }),
    sample("PUT /participants", &Method::PUT, PARTICIPANT, REGISTRATION, |body| {
        ParticipantUpdate::parse(body).is_ok()
    }),
    sample("DELETE /participants", &Method::DELETE, PARTICIPANT, "", |_| true),
    sample("GET /participants", &Method::GET, PARTICIPANT, "", |_| true),
    sample("PUT /participants/error", &Method::PUT, PARTICIPANT_ERROR, FAILURE, |body| {
        ErrorInformation::parse(body).is_ok()
    }),
];

const PARTIES: &str = "/parties/MSISDN/27713803912";
const PARTIES_ERROR: &str = "/parties/MSISDN/27713803912/error";
const QUOTE_ERROR: &str = "/quotes/7c23e80c-d078-4077-8263-2c047876fcf6/error";
const TRANSFER_ERROR: &str = "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069/error";
const PARTICIPANT_ERROR: &str = "/participants/MSISDN/27713803912/error";
const PARTY: &str = include_str!("../samples/party.json");
const QUOTE: &str = include_str!("../samples/quote.json");
const QUOTE_RESPONSE: &str = include_str!("../samples/quote_response.json");
const PREPARE: &str = include_str!("../samples/prepare.json");
const FULFIL: &str = include_str!("../samples/fulfil.json");
const BATCH: &str = include_str!("../samples/batch.json");
const FAILURE: &str = include_str!("../samples/failure.json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_accepted() {
        for sample in SAMPLES {
            let headers = sample.headers();
            let accepted = fspiop::accept(sample.method, sample.path, &headers);
            assert!(accepted.is_ok(), "{}: {accepted:?}", sample.name);
            assert!((sample.parse)(sample.body.as_bytes()), "{}", sample.name);
        }
    }
}
