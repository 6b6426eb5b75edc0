//! One message of each kind, as a DFSP of the scheme sends it.

use fspiop::body::{ErrorInformation, Fulfil, Prepare, Quote, QuoteResponse, check_object};
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

const TRANSFER: &str = "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069";

/// The kinds of messages of a whole transaction, and the refusal of a transfer.
pub(crate) const SAMPLES: [Sample; 8] = [
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
        parse: |body| check_object(body).is_ok(),
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
        path: "/quotes/7c23e80c-d078-4077-8263-2c047876fcf6",
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
];

macro_rules! packet {
    () => {
        "DIICtgAAAAAAD0JAMjAyNDEyMDUxNjA4MDM5MDcYjF3nFyiGSaedeiWlO_87HCnJof_86Krj0lO8KjynIApnLm1vam\
         Fsb29wggJvZXlKeGRXOTBaVWxrSWpvaU1ERktSVUpUTmpsV1N6WkJSVUU0VkVkQlNrVXpXa0U1UlVnaUxDSjBjbUZ1Y\
         zJGamRHbHZia2xrSWpvaU1ERktSVUpUTmpsV1N6WkJSVUU0VkVkQlNrVXpXa0U1UlVvaUxDSjBjbUZ1YzJGamRHbHZi\
         bFI1Y0dVaU9uc2ljMk5sYm1GeWFXOGlPaUpVVWtGT1UwWkZVaUlzSW1sdWFYUnBZWFJ2Y2lJNklsQkJXVVZTSWl3aWF\
         XNXBkR2xoZEc5eVZIbHdaU0k2SWtKVlUwbE9SVk5USW4wc0luQmhlV1ZsSWpwN0luQmhjblI1U1dSSmJtWnZJanA3SW\
         5CaGNuUjVTV1JVZVhCbElqb2lUVk5KVTBST0lpd2ljR0Z5ZEhsSlpHVnVkR2xtYVdWeUlqb2lNamMzTVRNNE1ETTVNV\
         ElpTENKbWMzQkpaQ0k2SW5CaGVXVmxabk53SW4xOUxDSndZWGxsY2lJNmV5SndZWEowZVVsa1NXNW1ieUk2ZXlKd1lY\
         SjBlVWxrVkhsd1pTSTZJazFUU1ZORVRpSXNJbkJoY25SNVNXUmxiblJwWm1sbGNpSTZJalEwTVRJek5EVTJOemc1SWl\
         3aVpuTndTV1FpT2lKd1lYbGxjbVp6Y0NKOWZTd2laWGh3YVhKaGRHbHZiaUk2SWpJd01UWXRNRFV0TWpSVU1EZzZNem\
         c2TURndU5qazVXaUlzSW1GdGIzVnVkQ0k2ZXlKaGJXOTFiblFpT2lJeE1EQWlMQ0pqZFhKeVpXNWplU0k2SWxoWVdDS\
         jlmUQ"
    };
}

const PARTY: &str = r#"{"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"27713803912","fspId":"payeefsp"},"merchantClassificationCode":"4321","name":"Siabelo Maroka","personalInfo":{"complexName":{"firstName":"Siabelo","middleName":"O","lastName":"Maroka"},"dateOfBirth":"1974-01-01"}}}"#;

const QUOTE: &str = r#"{"quoteId":"7c23e80c-d078-4077-8263-2c047876fcf6","transactionId":"85feac2f-39b2-491b-817e-4a03203d4f14","payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"27713803912","fspId":"payeefsp"}},"payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"44123456789","fspId":"payerfsp"},"personalInfo":{"complexName":{"firstName":"Mats","lastName":"Hagman"},"dateOfBirth":"1983-10-25"}},"amountType":"SEND","amount":{"amount":"100","currency":"USD"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"},"note":"From Mats","expiration":"2016-05-24T08:40:08.699Z"}"#;

const QUOTE_RESPONSE: &str = concat!(
    r#"{"transferAmount":{"amount":"100","currency":"USD"},"payeeReceiveAmount":{"amount":"99","currency":"USD"},"payeeFspFee":{"amount":"1","currency":"USD"},"payeeFspCommission":{"amount":"0","currency":"USD"},"expiration":"2016-05-24T08:38:08.699Z","ilpPacket":""#,
    packet!(),
    r#"","condition":"fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs"}"#
);

const PREPARE: &str = concat!(
    r#"{"transferId":"b51ec534-ee48-4575-b6a9-ead2955b8069","payerFsp":"payerfsp","payeeFsp":"payeefsp","amount":{"amount":"100","currency":"USD"},"expiration":"2016-05-24T08:38:08.699Z","ilpPacket":""#,
    packet!(),
    r#"","condition":"fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs"}"#
);

const FULFIL: &str = r#"{"fulfilment":"WLctttbu2HvTsa1XWvUoGRcQozHsqeu9Ahl2JW9Bsu8","completedTimestamp":"2016-05-24T08:38:08.699Z","transferState":"COMMITTED"}"#;

const FAILURE: &str = r#"{"errorInformation":{"errorCode":"5104","errorDescription":"Payee FSP rejected transaction"}}"#;

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
