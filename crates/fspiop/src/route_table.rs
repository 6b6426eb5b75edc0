//! The table of routes: method and path of every operation, by resource.
//!
//! [`crate::find`] uses this table, and the published API document is generated from it, so the two
//! cannot differ. Costs: a look-up compares method and segments with at most 13 rows of one
//! resource.

use http::Method;

use crate::route::Resource;

/// The requested operation, without the identifiers of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `GET /health`.
    Health,
    /// `DELETE /endpointcache`.
    EndpointCache,
    /// `POST /participants`.
    ParticipantsBatch,
    /// `PUT /participants/{ID}`: sent by hubs, not served by one.
    ParticipantsBatchPut,
    /// `PUT /participants/{ID}/error`: sent by hubs, not served by one.
    ParticipantsBatchError,
    /// `GET /participants/{Type}/{ID}[/{SubId}]`.
    ParticipantsGet,
    /// `POST /participants/{Type}/{ID}[/{SubId}]`.
    ParticipantsPost,
    /// `PUT /participants/{Type}/{ID}[/{SubId}]`.
    ParticipantsPut,
    /// `PUT /participants/{Type}/{ID}[/{SubId}]/error`.
    ParticipantsError,
    /// `DELETE /participants/{Type}/{ID}[/{SubId}]`.
    ParticipantsDelete,
    /// `GET /parties/{Type}/{ID}[/{SubId}]`.
    PartiesGet,
    /// `PUT /parties/{Type}/{ID}[/{SubId}]`.
    PartiesPut,
    /// `PUT /parties/{Type}/{ID}[/{SubId}]/error`.
    PartiesError,
    /// `POST /quotes`.
    QuotesPost,
    /// `GET /quotes/{ID}`.
    QuotesGet,
    /// `PUT /quotes/{ID}`.
    QuotesPut,
    /// `PUT /quotes/{ID}/error`.
    QuotesError,
    /// `POST /bulkQuotes`.
    BulkQuotesPost,
    /// `GET /bulkQuotes/{ID}`.
    BulkQuotesGet,
    /// `PUT /bulkQuotes/{ID}`.
    BulkQuotesPut,
    /// `PUT /bulkQuotes/{ID}/error`.
    BulkQuotesError,
    /// `POST /transactionRequests`.
    TransactionRequestsPost,
    /// `GET /transactionRequests/{ID}`.
    TransactionRequestsGet,
    /// `PUT /transactionRequests/{ID}`.
    TransactionRequestsPut,
    /// `PUT /transactionRequests/{ID}/error`.
    TransactionRequestsError,
    /// `GET /authorizations/{ID}`.
    AuthorizationsGet,
    /// `PUT /authorizations/{ID}`.
    AuthorizationsPut,
    /// `PUT /authorizations/{ID}/error`.
    AuthorizationsError,
    /// `GET /transactions/{ID}`.
    TransactionsGet,
    /// `PUT /transactions/{ID}`.
    TransactionsPut,
    /// `PUT /transactions/{ID}/error`.
    TransactionsError,
    /// `POST /transfers`.
    TransfersPost,
    /// `GET /transfers/{ID}`.
    TransfersGet,
    /// `PUT /transfers/{ID}`.
    TransfersPut,
    /// `PUT /transfers/{ID}/error`.
    TransfersError,
    /// `PATCH /transfers/{ID}`: sent by hubs, not served by one.
    TransfersPatch,
    /// `POST /bulkTransfers`.
    BulkTransfersPost,
    /// `GET /bulkTransfers/{ID}`.
    BulkTransfersGet,
    /// `PUT /bulkTransfers/{ID}`.
    BulkTransfersPut,
    /// `PUT /bulkTransfers/{ID}/error`.
    BulkTransfersError,
    /// `GET /services/FXP[/{SourceCurrency}/{TargetCurrency}]`.
    ServicesGet,
}

impl Operation {
    /// Number of operations.
    pub const COUNT: usize = 41;

    /// All operations, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Health,
        Self::EndpointCache,
        Self::ParticipantsBatch,
        Self::ParticipantsBatchPut,
        Self::ParticipantsBatchError,
        Self::ParticipantsGet,
        Self::ParticipantsPost,
        Self::ParticipantsPut,
        Self::ParticipantsError,
        Self::ParticipantsDelete,
        Self::PartiesGet,
        Self::PartiesPut,
        Self::PartiesError,
        Self::QuotesPost,
        Self::QuotesGet,
        Self::QuotesPut,
        Self::QuotesError,
        Self::BulkQuotesPost,
        Self::BulkQuotesGet,
        Self::BulkQuotesPut,
        Self::BulkQuotesError,
        Self::TransactionRequestsPost,
        Self::TransactionRequestsGet,
        Self::TransactionRequestsPut,
        Self::TransactionRequestsError,
        Self::AuthorizationsGet,
        Self::AuthorizationsPut,
        Self::AuthorizationsError,
        Self::TransactionsGet,
        Self::TransactionsPut,
        Self::TransactionsError,
        Self::TransfersPost,
        Self::TransfersGet,
        Self::TransfersPut,
        Self::TransfersError,
        Self::TransfersPatch,
        Self::BulkTransfersPost,
        Self::BulkTransfersGet,
        Self::BulkTransfersPut,
        Self::BulkTransfersError,
        Self::ServicesGet,
    ];

    /// Method and path of its first row, with `{Name}` in place of each identifier.
    #[must_use]
    pub fn method_and_path(self) -> (&'static str, String) {
        if let Some((method, word, _)) = PLAIN_ROUTES.iter().find(|(.., plain)| *plain == self) {
            return (method.as_str(), format!("/{word}"));
        }
        let rows =
            Resource::ALL.iter().flat_map(|it| it.routes().iter().map(move |row| (*it, row)));
        let mut rows = rows.filter(|(_, row)| row.operation == self);
        let (resource, row) = rows.next().expect("every operation has a row");
        (row.method.as_str(), row.template(resource))
    }

    /// Whether the hub serves it, rather than answering 501, 2002.
    #[must_use]
    pub const fn is_served(self) -> bool {
        !matches!(
            self,
            Self::ParticipantsBatchPut | Self::ParticipantsBatchError | Self::TransfersPatch
        )
    }
}

/// A segment of a path after the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Any text, read as the identifier with this name.
    Identifier(&'static str),
    /// This word.
    Word(&'static str),
}

/// One row: the requests with this method and path.
#[derive(Debug)]
pub struct RouteRow {
    /// The method.
    pub method: Method,
    /// The segments after the resource in the path.
    pub tail: &'static [Segment],
    /// The requested operation.
    pub operation: Operation,
}

impl RouteRow {
    /// Whether `tail`, the segments of a path after the resource, matches this row.
    pub(crate) fn fits(&self, tail: &[&str]) -> bool {
        self.tail.len() == tail.len()
            && self.tail.iter().zip(tail).all(|(known, found)| match known {
                Segment::Identifier(_) => true,
                Segment::Word(word) => word == found,
            })
    }

    /// The path with `{Name}` in place of each identifier.
    #[must_use]
    pub fn template(&self, resource: Resource) -> String {
        let mut path = format!("/{}", resource.as_str());
        for segment in self.tail {
            path += &match segment {
                Segment::Identifier(name) => format!("/{{{name}}}"),
                Segment::Word(word) => format!("/{word}"),
            };
        }
        path
    }
}

/// Paths of one word, which need no headers.
pub static PLAIN_ROUTES: [(Method, &str, Operation); 2] = [
    (Method::GET, "health", Operation::Health),
    (Method::DELETE, "endpointcache", Operation::EndpointCache),
];

const NONE: &[Segment] = &[];
const ID: &[Segment] = &[Segment::Identifier("ID")];
const ID_ERROR: &[Segment] = &[Segment::Identifier("ID"), Segment::Word("error")];
const PARTY: &[Segment] = &[Segment::Identifier("Type"), Segment::Identifier("ID")];
const PARTY_ERROR: &[Segment] =
    &[Segment::Identifier("Type"), Segment::Identifier("ID"), Segment::Word("error")];
const SUB_PARTY: &[Segment] =
    &[Segment::Identifier("Type"), Segment::Identifier("ID"), Segment::Identifier("SubId")];
const SUB_PARTY_ERROR: &[Segment] = &[
    Segment::Identifier("Type"),
    Segment::Identifier("ID"),
    Segment::Identifier("SubId"),
    Segment::Word("error"),
];
const CONVERSION: &[Segment] = &[Segment::Word("FXP")];
const CONVERSION_OF_PAIR: &[Segment] = &[
    Segment::Word("FXP"),
    Segment::Identifier("SourceCurrency"),
    Segment::Identifier("TargetCurrency"),
];

const fn row(method: Method, tail: &'static [Segment], operation: Operation) -> RouteRow {
    RouteRow { method, tail, operation }
}

// The first matching row counts: words come before identifiers.
static PARTICIPANTS: [RouteRow; 13] = [
    row(Method::POST, NONE, Operation::ParticipantsBatch),
    row(Method::GET, PARTY, Operation::ParticipantsGet),
    row(Method::GET, SUB_PARTY, Operation::ParticipantsGet),
    row(Method::POST, PARTY, Operation::ParticipantsPost),
    row(Method::POST, SUB_PARTY, Operation::ParticipantsPost),
    row(Method::DELETE, PARTY, Operation::ParticipantsDelete),
    row(Method::DELETE, SUB_PARTY, Operation::ParticipantsDelete),
    row(Method::PUT, ID, Operation::ParticipantsBatchPut),
    row(Method::PUT, ID_ERROR, Operation::ParticipantsBatchError),
    row(Method::PUT, PARTY_ERROR, Operation::ParticipantsError),
    row(Method::PUT, SUB_PARTY_ERROR, Operation::ParticipantsError),
    row(Method::PUT, PARTY, Operation::ParticipantsPut),
    row(Method::PUT, SUB_PARTY, Operation::ParticipantsPut),
];
static PARTIES: [RouteRow; 6] = [
    row(Method::GET, PARTY, Operation::PartiesGet),
    row(Method::GET, SUB_PARTY, Operation::PartiesGet),
    row(Method::PUT, PARTY_ERROR, Operation::PartiesError),
    row(Method::PUT, SUB_PARTY_ERROR, Operation::PartiesError),
    row(Method::PUT, PARTY, Operation::PartiesPut),
    row(Method::PUT, SUB_PARTY, Operation::PartiesPut),
];
static QUOTES: [RouteRow; 4] = [
    row(Method::POST, NONE, Operation::QuotesPost),
    row(Method::GET, ID, Operation::QuotesGet),
    row(Method::PUT, ID, Operation::QuotesPut),
    row(Method::PUT, ID_ERROR, Operation::QuotesError),
];
static BULK_QUOTES: [RouteRow; 4] = [
    row(Method::POST, NONE, Operation::BulkQuotesPost),
    row(Method::GET, ID, Operation::BulkQuotesGet),
    row(Method::PUT, ID, Operation::BulkQuotesPut),
    row(Method::PUT, ID_ERROR, Operation::BulkQuotesError),
];
static TRANSACTION_REQUESTS: [RouteRow; 4] = [
    row(Method::POST, NONE, Operation::TransactionRequestsPost),
    row(Method::GET, ID, Operation::TransactionRequestsGet),
    row(Method::PUT, ID, Operation::TransactionRequestsPut),
    row(Method::PUT, ID_ERROR, Operation::TransactionRequestsError),
];
static AUTHORIZATIONS: [RouteRow; 3] = [
    row(Method::GET, ID, Operation::AuthorizationsGet),
    row(Method::PUT, ID, Operation::AuthorizationsPut),
    row(Method::PUT, ID_ERROR, Operation::AuthorizationsError),
];
static TRANSACTIONS: [RouteRow; 3] = [
    row(Method::GET, ID, Operation::TransactionsGet),
    row(Method::PUT, ID, Operation::TransactionsPut),
    row(Method::PUT, ID_ERROR, Operation::TransactionsError),
];
static BULK_TRANSFERS: [RouteRow; 4] = [
    row(Method::POST, NONE, Operation::BulkTransfersPost),
    row(Method::GET, ID, Operation::BulkTransfersGet),
    row(Method::PUT, ID, Operation::BulkTransfersPut),
    row(Method::PUT, ID_ERROR, Operation::BulkTransfersError),
];
static SERVICES: [RouteRow; 2] = [
    row(Method::GET, CONVERSION, Operation::ServicesGet),
    row(Method::GET, CONVERSION_OF_PAIR, Operation::ServicesGet),
];
static TRANSFERS: [RouteRow; 5] = [
    row(Method::POST, NONE, Operation::TransfersPost),
    row(Method::PUT, ID, Operation::TransfersPut),
    row(Method::GET, ID, Operation::TransfersGet),
    row(Method::PUT, ID_ERROR, Operation::TransfersError),
    row(Method::PATCH, ID, Operation::TransfersPatch),
];

impl Resource {
    /// Every resource.
    pub const ALL: [Self; 10] = [
        Self::Participants,
        Self::Parties,
        Self::Quotes,
        Self::BulkQuotes,
        Self::TransactionRequests,
        Self::Authorizations,
        Self::Transactions,
        Self::Transfers,
        Self::BulkTransfers,
        Self::Services,
    ];

    /// The rows of this resource. The first matching one counts.
    #[must_use]
    pub fn routes(self) -> &'static [RouteRow] {
        match self {
            Self::Participants => &PARTICIPANTS,
            Self::Parties => &PARTIES,
            Self::Quotes => &QUOTES,
            Self::BulkQuotes => &BULK_QUOTES,
            Self::TransactionRequests => &TRANSACTION_REQUESTS,
            Self::Authorizations => &AUTHORIZATIONS,
            Self::Transactions => &TRANSACTIONS,
            Self::Transfers => &TRANSFERS,
            Self::BulkTransfers => &BULK_TRANSFERS,
            Self::Services => &SERVICES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_index_and_a_path() {
        for (at, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, at);
            assert!(operation.method_and_path().1.starts_with('/'), "{operation:?}");
        }
        let put = Operation::TransfersError.method_and_path();
        assert_eq!(put, ("PUT", "/transfers/{ID}/error".to_owned()));
    }
}
