//! Calls of the DFSP's back end: plain JSON, repeated when it does not answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fspiop::ErrorCode;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;

use crate::config::RetryConfig;
use crate::http_client::{HttpClient, Target};

/// The back end of one DFSP.
pub(crate) struct Backend {
    pub(crate) http: Arc<HttpClient>,
    pub(crate) target: Target,
    pub(crate) retry: RetryConfig,
}

/// An error of the back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    /// FSPIOP code.
    pub code: String,
    /// Description.
    pub message: String,
    /// Whether the back end has answered. Otherwise it may have acted.
    pub is_certain: bool,
}

impl Backend {
    /// Calls the back end until it answers with less than 500. `None` is an empty answer.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>, BackendError> {
        let mut pause = Duration::from_millis(self.retry.first_pause_ms);
        let longest = Duration::from_millis(self.retry.longest_pause_ms);
        for attempt in 1.. {
            let answer = self.attempt(method.clone(), path, body).await;
            let is_last = attempt >= self.retry.attempts;
            match answer {
                Err((_, true)) if !is_last => tokio::time::sleep(pause).await,
                Err((error, _)) => return Err(error),
                Ok(answer) => return Ok(answer),
            }
            pause = (2 * pause).min(longest);
        }
        unreachable!("attempts are counted without a bound")
    }

    /// One attempt; an error with `true` may be repeated.
    async fn attempt(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>, (BackendError, bool)> {
        let json = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, json.clone());
        headers.insert(CONTENT_TYPE, json);
        let body = body.map_or_else(Bytes::new, crate::forms::bytes);
        let reply = self.http.call(&self.target, (method, path), headers, body).await;
        let reply = reply.map_err(|error| (internal(&error.to_string(), false), true))?;
        let answer: Option<Value> = match reply.body.is_empty() {
            true => None,
            false => serde_json::from_slice(&reply.body).ok(),
        };
        if reply.status.is_success() {
            return match (answer, reply.body.is_empty()) {
                (None, false) => Err((internal("the back end's answer is not JSON", true), false)),
                (answer, _) => Ok(answer),
            };
        }
        let is_server = reply.status.is_server_error();
        Err((error_of(reply.status.as_u16(), answer.as_ref()), is_server && answer.is_none()))
    }
}

/// The error that the back end names; 2001 if it names no code of FSPIOP.
fn error_of(status: u16, body: Option<&Value>) -> BackendError {
    let body = body.unwrap_or(&Value::Null);
    let code = match &body["statusCode"] {
        Value::String(code) => code.clone(),
        other => other.to_string(),
    };
    let message = body["message"].as_str();
    match ErrorCode::parse(&code) {
        Some(_) => BackendError {
            code,
            message: message.unwrap_or("refused by the back end").to_owned(),
            is_certain: true,
        },
        None => internal(message.unwrap_or(&format!("the back end answered {status}")), true),
    }
}

fn internal(message: &str, is_certain: bool) -> BackendError {
    BackendError { code: "2001".to_owned(), message: message.to_owned(), is_certain }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_codes_of_fspiop_are_passed_on() {
        let error = error_of(404, Some(&json!({ "statusCode": "3204", "message": "no" })));
        assert_eq!((&*error.code, &*error.message), ("3204", "no"));
        let error = error_of(500, Some(&json!({ "statusCode": "77", "message": "odd" })));
        assert_eq!((&*error.code, &*error.message), ("2001", "odd"));
        assert_eq!(error_of(503, None).message, "the back end answered 503");
    }
}
