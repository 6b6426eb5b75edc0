//! Reasons why a message was not delivered.

/// The reason why a request has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection could be made.
    Connect,
    /// The address is not one that may be called.
    Denied,
    /// The response did not arrive in time.
    TimedOut,
    /// The connection broke.
    Broken,
    /// The connection broke before any part of the response arrived. If it was a reused connection,
    /// the peer was closing it while the request was written.
    Unanswered,
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
            Self::Connect | Self::TimedOut | Self::Broken | Self::Unanswered => true,
            Self::Denied | Self::Unsent | Self::Crowded | Self::NotAnswering => false,
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
