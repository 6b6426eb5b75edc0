//! Reasons why a message was not delivered.

use http::StatusCode;
use tls::HandshakeFault;

use crate::http2_calls::Http2Fault;

/// The reason why a request has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection could be made.
    Connect,
    /// The connection could not be encrypted.
    Tls(HandshakeFault),
    /// The address is not one that may be called.
    Denied,
    /// The response did not arrive in time.
    TimedOut,
    /// The connection broke.
    Broken,
    /// The connection broke before any part of the response arrived. If it was a reused connection,
    /// the peer was closing it while the request was written.
    Unanswered,
    /// The other side broke a rule of HTTP/2.
    Http2(Http2Fault),
    /// An oracle's response is longer than it may be.
    TooLong,
    /// There was nothing to write, or it may not be sent: no call was made.
    Unsent,
    /// No connection became free in time, or this machine has none left: nothing was sent.
    Crowded,
    /// The participant's circuit breaker is open: nothing was sent.
    NotAnswering,
}

impl Failure {
    /// Whether the participant was called and gave no HTTP response.
    pub(crate) fn is_silence(self) -> bool {
        match self {
            Self::Connect
            | Self::Tls(_)
            | Self::TimedOut
            | Self::Broken
            | Self::Unanswered
            | Self::Http2(_) => true,
            Self::Denied | Self::TooLong | Self::Unsent | Self::Crowded | Self::NotAnswering => {
                false
            }
        }
    }
}

/// The reason why a message was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The recipient has not registered an endpoint of this type.
    NoEndpoint,
    /// It has registered one that cannot be called.
    Unusable,
    Failed(Failure),
}

impl SendError {
    /// Its name in metrics and traces.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NoEndpoint => "no_endpoint",
            Self::Unusable => "unusable_endpoint",
            Self::Failed(failure) => match failure {
                Failure::Connect => "connect",
                Failure::Tls(_) => "tls",
                Failure::Denied => "denied_address",
                Failure::TimedOut => "timeout",
                Failure::Http2(_) => "http2",
                // The hub closes the connection of a response that is too long.
                Failure::Broken | Failure::Unanswered | Failure::TooLong => "connection_broken",
                Failure::Unsent => "not_sent",
                Failure::Crowded => "no_free_connection",
                Failure::NotAnswering => "circuit_breaker_open",
            },
        }
    }
}

/// Why a participant did not accept a call: values of the label `reason`. The first
/// [`USUAL_REASONS`] have a series from the first call on, and not from the first failure.
pub(crate) const REASONS: [&str; 15] = [
    "connect",
    "timeout",
    "5xx",
    "4xx",
    "3xx",
    "other_status",
    "connection_broken",
    "circuit_breaker_open",
    "denied_address",
    "no_free_connection",
    "not_sent",
    "no_endpoint",
    "unusable_endpoint",
    "tls",
    "http2",
];

/// Number of reasons with a series from the first call on.
pub(crate) const USUAL_REASONS: usize = 3;

/// The place in [`REASONS`] of a call's result; `None` for a success.
pub(crate) fn reason_of(result: Result<StatusCode, &SendError>) -> Option<usize> {
    let name = match result {
        Ok(status) if status.is_success() => return None,
        Ok(status) => match status.as_u16() {
            500..=599 => "5xx",
            400..=499 => "4xx",
            300..=399 => "3xx",
            _ => "other_status",
        },
        Err(error) => error.as_str(),
    };
    let place = REASONS.iter().position(|known| *known == name);
    Some(place.expect("each name is among the reasons"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_reason() {
        use Failure::*;
        let failures =
            [Connect, Denied, TimedOut, Broken, Unanswered, TooLong, Unsent, Crowded, NotAnswering];
        let others = [Tls(HandshakeFault::Untrusted), Http2(Http2Fault::InvalidFrame)];
        let failures = failures.into_iter().chain(others);
        let failed = failures.map(SendError::Failed);
        for error in failed.chain([SendError::NoEndpoint, SendError::Unusable]) {
            let reason = reason_of(Err(&error)).expect("it is a failure");
            assert_eq!(REASONS[reason], error.as_str());
        }
        for (status, expected) in [
            (200, None),
            (202, None),
            (503, Some("5xx")),
            (404, Some("4xx")),
            (301, Some("3xx")),
            (100, Some("other_status")),
            (999, Some("other_status")),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(reason_of(Ok(status)).map(|at| REASONS[at]), expected, "{status}");
        }
    }
}
