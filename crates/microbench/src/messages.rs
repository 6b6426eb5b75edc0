//! One message of each kind, as a DFSP of the scheme sends it.

use fspiop::body::{
    BatchRegistration, ErrorInformation, Fulfil, ParticipantRegistration, ParticipantUpdate,
    Prepare, Quote, QuoteResponse, check_party,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// An inbound message before anything of it was looked at.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) method: &'static Method,
    pub(crate) path: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) body: &'static str,
    /// Parses and checks the body; `false` when it is refused.
    pub(crate) parse: fn(&[u8]) -> bool,
    /// Whether its body is hashed and recorded.
    pub(crate) recorded: bool,
}

impl Sample {
    /// The headers as they came from the socket.
    pub(crate) fn headers(&self) -> HeaderMap {
        let media = format!("application/vnd.interoperability.{}+json;version=1.1", self.resource);
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

/// Where `POST /transfers` stands among the samples.
pub(crate) const PREPARE_AT: usize = 4;

const PARTICIPANT: &str = "/participants/MSISDN/27713803912";
const QUOTE_PATH: &str = "/quotes/7c23e80c-d078-4077-8263-2c047876fcf6";
const REGISTRATION: &str = r#"{"fspId":"payerfsp","currency":"USD"}"#;
const TRANSFER: &str = "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069";

/// Every kind of message that the hub serves. New ones come last: [`PREPARE_AT`] counts.
pub(crate) const SAMPLES: [Sample; 17] = [
    Sample {
        name: "GET /parties",
        method: &Method::GET,
        path: "/parties/MSISDN/27713803912",
        resource: "parties",
        body: "",
        parse: |_| true,
        recorded: false,
    },
    Sample {
        name: "PUT /parties",
        method: &Method::PUT,
        path: "/parties/MSISDN/27713803912",
        resource: "parties",
        body: PARTY,
        parse: |body| check_party(body).is_ok(),
        recorded: false,
    },
    Sample {
        name: "POST /quotes",
        method: &Method::POST,
        path: "/quotes",
        resource: "quotes",
        body: QUOTE,
        parse: |body| Quote::parse(body).is_ok(),
        recorded: false,
    },
    Sample {
        name: "PUT /quotes",
        method: &Method::PUT,
        path: QUOTE_PATH,
        resource: "quotes",
        body: QUOTE_RESPONSE,
        parse: |body| QuoteResponse::parse(body).is_ok(),
        recorded: false,
    },
    Sample {
        name: "POST /transfers",
        method: &Method::POST,
        path: "/transfers",
        resource: "transfers",
        body: PREPARE,
        parse: |body| Prepare::parse(body).is_ok(),
        recorded: true,
    },
    Sample {
        name: "PUT /transfers",
        method: &Method::PUT,
        path: TRANSFER,
        resource: "transfers",
        body: FULFIL,
        parse: |body| Fulfil::parse(body).is_ok(),
        recorded: true,
    },
    Sample {
        name: "PUT /transfers/error",
        method: &Method::PUT,
        path: "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069/error",
        resource: "transfers",
        body: FAILURE,
        parse: |body| ErrorInformation::parse(body).is_ok(),
        recorded: true,
    },
    Sample {
        name: "GET /transfers",
        method: &Method::GET,
        path: TRANSFER,
        resource: "transfers",
        body: "",
        parse: |_| true,
        recorded: false,
    },
    Sample {
        name: "PUT /parties/error",
        method: &Method::PUT,
        path: "/parties/MSISDN/27713803912/error",
        resource: "parties",
        body: FAILURE,
        parse: |body| ErrorInformation::parse(body).is_ok(),
        recorded: false,
    },
    Sample {
        name: "GET /quotes",
        method: &Method::GET,
        path: QUOTE_PATH,
        resource: "quotes",
        body: "",
        parse: |_| true,
        recorded: false,
    },
    Sample {
        name: "PUT /quotes/error",
        method: &Method::PUT,
        path: "/quotes/7c23e80c-d078-4077-8263-2c047876fcf6/error",
        resource: "quotes",
        body: FAILURE,
        parse: |body| ErrorInformation::parse_of_quote(body).is_ok(),
        recorded: false,
    },
    Sample {
        name: "POST /participants, a batch of two",
        method: &Method::POST,
        path: "/participants",
        resource: "participants",
        body: BATCH,
        parse: |body| BatchRegistration::parse(body).is_ok(),
        recorded: false,
    },
    Sample {
        name: "POST /participants of one party",
        method: &Method::POST,
        path: PARTICIPANT,
        resource: "participants",
        body: REGISTRATION,
        parse: |body| ParticipantRegistration::parse(body).is_ok(),
        recorded: false,
    },
    Sample {
        name: "PUT /participants",
        method: &Method::PUT,
        path: PARTICIPANT,
        resource: "participants",
        body: REGISTRATION,
        parse: |body| ParticipantUpdate::parse(body).is_ok(),
        recorded: false,
    },
    Sample {
        name: "DELETE /participants",
        method: &Method::DELETE,
        path: PARTICIPANT,
        resource: "participants",
        body: "",
        parse: |_| true,
        recorded: false,
    },
    Sample {
        name: "GET /participants",
        method: &Method::GET,
        path: PARTICIPANT,
        resource: "participants",
        body: "",
        parse: |_| true,
        recorded: false,
    },
    Sample {
        name: "PUT /participants/error",
        method: &Method::PUT,
        path: "/participants/MSISDN/27713803912/error",
        resource: "participants",
        body: FAILURE,
        parse: |body| ErrorInformation::parse(body).is_ok(),
        recorded: false,
    },
];

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
