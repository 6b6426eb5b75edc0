//! Messages to the hub: headers, signature, access token, and what the answer means.

use std::sync::Arc;

use bytes::Bytes;
use fspiop::headers::{
    FSPIOP_DESTINATION, FSPIOP_HTTP_METHOD, FSPIOP_SIGNATURE, FSPIOP_SOURCE, FSPIOP_URI,
    TRACEPARENT,
};
use fspiop::{TraceContext, time};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderValue, Method};
use jws::SigningKey;
use serde_json::Value;

use crate::http_client::{CallError, HttpClient, Target};
use crate::ids::{now_ms, random};
use crate::oauth::TokenSource;
use crate::outbound::HubRequest;

/// The addresses of the hub's resources.
#[derive(Clone, Debug)]
pub(crate) struct HubTargets {
    pub(crate) parties: Target,
    pub(crate) quotes: Target,
    pub(crate) transfers: Target,
    pub(crate) others: Target,
}

/// Sends the messages of one DFSP.
pub(crate) struct HubClient {
    pub(crate) http: Arc<HttpClient>,
    pub(crate) targets: HubTargets,
    pub(crate) fsp_id: String,
    pub(crate) version: String,
    pub(crate) signing_key: Option<SigningKey>,
    pub(crate) signs_put_parties: bool,
    pub(crate) tokens: Option<Arc<TokenSource>>,
}

/// The hub's answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum HubAnswer {
    /// 2xx.
    Accepted,
    /// Another status, with its body.
    Refused(u16, Value),
    /// No answer.
    Unanswered(String),
}

impl HubTargets {
    fn of(&self, resource: &str) -> &Target {
        match resource {
            "parties" => &self.parties,
            "quotes" => &self.quotes,
            "transfers" => &self.transfers,
            _ => &self.others,
        }
    }
}

impl HubClient {
    /// Sends a request. A refused access token is renewed once.
    pub(crate) async fn send(&self, request: &HubRequest, trace: [u8; 16]) -> HubAnswer {
        self.send_as(&self.version, request, trace).await
    }

    /// Sends a message in a version: a response has that of its request.
    pub(crate) async fn send_as(
        &self,
        version: &str,
        request: &HubRequest,
        trace: [u8; 16],
    ) -> HubAnswer {
        match self.attempt(version, request, trace).await {
            HubAnswer::Refused(401, _) if self.tokens.is_some() => {
                if let Some(tokens) = &self.tokens {
                    tokens.discard();
                }
                self.attempt(version, request, trace).await
            }
            answer => answer,
        }
    }

    async fn attempt(&self, version: &str, request: &HubRequest, trace: [u8; 16]) -> HubAnswer {
        let (mut headers, body) = match self.render(version, request, trace) {
            Ok(rendered) => rendered,
            Err(why) => return HubAnswer::Unanswered(why),
        };
        if let Some(tokens) = &self.tokens {
            match tokens.token().await {
                Ok(token) => drop(headers.insert(AUTHORIZATION, token)),
                Err(why) => return HubAnswer::Unanswered(why),
            }
        }
        let method = request.method.clone();
        match self.http.call(self.target(request), (method, &request.path), headers, body).await {
            Ok(reply) if reply.status.is_success() => HubAnswer::Accepted,
            Ok(reply) => {
                let body = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
                HubAnswer::Refused(reply.status.as_u16(), body)
            }
            Err(error @ (CallError::Unconnected(..) | CallError::Unanswered(..))) => {
                HubAnswer::Unanswered(error.to_string())
            }
        }
    }

    /// The address that a request goes to.
    pub(crate) fn target(&self, request: &HubRequest) -> &Target {
        self.targets.of(resource_of(request))
    }

    /// The headers and the body of a request, with its signature.
    pub(crate) fn render(
        &self,
        version: &str,
        request: &HubRequest,
        trace: [u8; 16],
    ) -> Result<(HeaderMap, Bytes), String> {
        let body = request.body.as_ref().map_or_else(Bytes::new, crate::forms::bytes);
        let headers = self.headers(version, request, trace);
        let mut headers = headers.map_err(|error| error.to_string())?;
        self.sign(&mut headers, request, &body)?;
        Ok((headers, body))
    }

    fn headers(
        &self,
        version: &str,
        request: &HubRequest,
        trace: [u8; 16],
    ) -> Result<HeaderMap, http::header::InvalidHeaderValue> {
        let media = format!("application/vnd.interoperability.{}+json", resource_of(request));
        let mut headers = HeaderMap::with_capacity(12);
        if request.method != Method::PUT {
            // Every minor version of the major one.
            let major = version.split('.').next().unwrap_or_default();
            headers.insert(ACCEPT, HeaderValue::try_from(format!("{media};version={major}"))?);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::try_from(format!("{media};version={version}"))?);
        headers.insert(DATE, time::date_header(now_ms()));
        headers.insert(&FSPIOP_SOURCE, HeaderValue::try_from(&self.fsp_id)?);
        if let Some(destination) = &request.destination {
            headers.insert(&FSPIOP_DESTINATION, HeaderValue::try_from(destination)?);
        }
        headers.insert(&FSPIOP_URI, HeaderValue::try_from(&request.path)?);
        headers.insert(&FSPIOP_HTTP_METHOD, HeaderValue::try_from(request.method.as_str())?);
        headers.insert(&TRACEPARENT, TraceContext::new(trace).child(random() as u64));
        Ok(headers)
    }

    fn sign(
        &self,
        headers: &mut HeaderMap,
        request: &HubRequest,
        body: &[u8],
    ) -> Result<(), String> {
        let is_party = request.method == Method::PUT && request.path.starts_with("/parties/");
        let Some(key) = &self.signing_key else { return Ok(()) };
        if request.method == Method::GET || (is_party && !self.signs_put_parties) {
            return Ok(());
        }
        let signature = jws::sign(headers, body, key).map_err(|error| error.to_string())?;
        headers.insert(&FSPIOP_SIGNATURE, signature);
        Ok(())
    }
}

fn resource_of(request: &HubRequest) -> &str {
    request.path[1..].split(['/', '?']).next().unwrap_or_default()
}
