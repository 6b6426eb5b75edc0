//! The parts of a transaction request and of its answers that the ledger compares.

use crate::field::{choices, numbered, stored};
use crate::ids::{FspName, TransferId};

choices! {
    /// A step of a transaction request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RequestStep: u8 {
        /// `POST /transactionRequests`.
        1 Requested(RequestTerms),
        /// `PUT /transactionRequests/{id}`.
        2 Answered(RequestStatus),
        /// `PUT /transactionRequests/{id}/error`.
        3 Failed,
    }
}

stored! {
    /// The fields of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RequestTerms {
        /// The FSP of the payer, to which the request is forwarded.
        pub destination: FspName,
        /// `expiration` of the body, in milliseconds since the epoch.
        pub expiration_ms: Option<u64>,
        /// Until when the request is kept, in milliseconds since the epoch.
        pub keep_until_ms: u64,
    }
}

stored! {
    /// The fields of an answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RequestStatus {
        /// `transactionRequestState`.
        pub state: RequestState,
        /// `transactionId`.
        pub transaction: Option<TransferId>,
    }
}

numbered! {
    /// `transactionRequestState`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RequestState: u8 {
        /// The payer's FSP has the request.
        Received = 1,
        /// The payer has not decided yet.
        Pending = 2,
        /// The payer agrees; a quote and a transfer follow.
        Accepted = 3,
        /// The payer refuses.
        Rejected = 4,
    }
}

impl RequestState {
    /// The name in FSPIOP.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "RECEIVED",
            Self::Pending => "PENDING",
            Self::Accepted => "ACCEPTED",
            Self::Rejected => "REJECTED",
        }
    }

    /// The state with this name in FSPIOP.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Received, Self::Pending, Self::Accepted, Self::Rejected];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Whether no later answer can change it.
    pub(crate) const fn is_final(self) -> bool {
        matches!(self, Self::Accepted | Self::Rejected)
    }
}
