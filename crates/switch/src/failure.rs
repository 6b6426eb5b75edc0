//! Why a message was not delivered.

/// Why a request has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection could be made.
    Connect,
    /// The address is not one that may be called.
    Denied,
    /// The answer did not come in time.
    TimedOut,
    /// The connection broke.
    Broken,
    /// The connection broke before any of the answer came: if it had been used before, then
    /// because the peer was closing it while the request was written.
    Unanswered,
    /// There was nothing to write, or it may not be sent: nobody was called.
    Unsent,
    /// No connection became free in time, or this machine has none left: nothing was sent.
    Crowded,
    /// The participant's circuit breaker is open: nothing was sent.
    NotAnswering,
}

impl Failure {
    /// Whether the participant had its chance and gave no HTTP answer.
    pub(crate) fn is_silence(self) -> bool {
        match self {
            Self::Connect | Self::TimedOut | Self::Broken | Self::Unanswered => true,
            Self::Denied | Self::Unsent | Self::Crowded | Self::NotAnswering => false,
        }
    }
}

/// Why a message was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The recipient has not registered an endpoint of this type.
    NoEndpoint,
    /// It has registered one that cannot be called.
    Unusable,
    Failed(Failure),
}
