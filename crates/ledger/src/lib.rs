//! The kernel: a pure, deterministic function that decides about money.
//!
//! [`State::apply`] takes a stamped batch of commands. It returns one [`Outcome`] per command and
//! the [`Notice`]s that the hub now owes. The same batches give the same state, bit for bit, on
//! every machine: the kernel has no clock, randomness, I/O or threads.
//!
//! A batch is applied in four phases. Deadlines that the stamp has reached fire, in order of
//! deadline. The commands are decided, each in a file under `commands`. The accounts are asserted
//! to sum to zero. The decisions are digested, so that a replay can be compared.
//!
//! Costs per command: a few keyed hash look-ups, and one B-tree operation per reservation and per
//! millisecond of deadlines. Only the growth of tables allocates. Bounds: the constants `*_MAX`
//! next to each table. The caller bounds the number of final transfers in memory and of notices
//! owed.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod accounts;
mod alerts;
mod apply;
mod batch_digest;
mod bulk_query;
mod bulks;
mod change;
mod command;
mod command_scope;
mod commands;
mod context;
mod cow_page;
mod deadlines;
mod decision;
mod decision_recorder;
mod description;
mod enrolments;
mod erasures;
mod evicted;
mod eviction;
mod fees;
pub mod field;
mod hashing;
mod ids;
mod money;
mod notice;
mod operators;
mod outcome;
mod parties;
pub mod planted_bugs;
mod proposals;
mod query;
mod quote_content;
mod quotes;
mod registry;
mod request_content;
mod reservations;
mod rules;
mod settlement;
mod settlement_restore;
mod slab;
pub mod snapshot;
mod state;
mod state_hash;
mod table;
#[cfg(test)]
mod tests;
mod transaction_requests;
mod transfers;
mod trial;

pub use accounts::{Account, AccountKind, Accounts};
pub use alerts::{ALERTS_MAX, Alert, AlertKind, AlertNumbers, Alerts, LiquidityAlarm};
pub use bulk_query::{BulkLookup, BulkState, BulkView};
pub use bulks::OpenBulk;
pub use change::*;
pub use command::{
    Abort, AbortBulk, Administer, BulkItem, BulkItemAnswer, BulkItemResult, ChangeParties, Command,
    DeliveryResult, FinishedDelivery, Fulfil, FulfilBulk, FulfilState, Fulfilment, Genesis,
    Prepare, PrepareBulk, RecordQuote, RecordQuoteAnswer, RecordRequestToPay, TraceId,
    TransferMessage,
};
pub use decision::{
    BalanceChange, Decision, DecisionInputs, FeeAccount, HubAccount, OwedNotice, PartyInputs,
};
pub use decision_recorder::{DecisionRecorder, DecisionSink};
pub use description::Description;
pub use enrolments::{
    CERTIFICATE_BYTES_MAX, CSR_BYTES_MAX, ENROLMENTS_MAX, ENROLMENTS_OF_PARTICIPANT_MAX,
    ENROLMENTS_OPEN_MAX, Enrolment, EnrolmentEnd, Enrolments,
};
pub use erasures::{ERASED_RANGES_MAX, ERASURES_MAX, Erasure, ErasureForm, Erasures, RecordRange};
pub use evicted::EvictedRows;
pub use eviction::Eviction;
pub use fees::{
    FEE_DECIMALS_MAX, FEE_RULES_MAX, FEE_WHOLE, Fee, FeeBook, FeeConditions, FeePayer, FeeRule,
    PendingFee, Rounding, TransactionFacts, first_match,
};
pub use field::FieldError;
pub use ids::{
    ACCOUNTS_MAX, AccountId, AlertId, BULK_ITEMS_MAX, ContentId, Digest, FSP_NAME_BYTES_MAX,
    FeeRuleId, FspName, LogIndex, NoticeId, OperatorTokenId, OracleId, ParticipantIndex,
    ProposalId, SettlementId, Stamp, TransferId, WindowId,
};
pub use money::{Amount, Currency, PRECISION_MAX, SCALE};
pub use notice::{DeadLetter, Notice, NoticeKind};
pub use operators::{
    GRANTED_ROLES_MAX, OPERATORS_MAX, Operator, OperatorBook, OperatorRole, OperatorToken,
    PERMISSIONS_MAX, ROLES_MAX, TOKENS_MAX,
};
pub use outcome::*;
pub use parties::{
    ENTRIES_MAX, FormerOwner, PartyBinding, PartyChangeForm, PartyChangeView, PartyOwnership,
    PartyRule, hashed_identifier, is_hashed_identifier, shown_identifier,
};
pub use proposals::{
    FourEyes, PROPOSAL_BYTES_MAX, PROPOSALS_BYTES_MAX, PROPOSALS_MAX, PROPOSALS_OPEN_MAX, Proposal,
    ProposalDecision, ProposalEnd, ProposalState, Proposals, stored_bytes,
};
pub use query::{AbortCause, LookupResult, TransferView};
pub use quote_content::{QuoteContent, QuoteOffer};
pub use quotes::{QUOTES_MAX, QuoteAnswer, QuoteRow};
pub use registry::{
    CurrencyAccounts, ENDPOINTS_MAX, KEYS_MAX, LEDGER_ACCOUNT_TYPES_MAX, NetDebitCap, ORACLES_MAX,
    PARTICIPANTS_MAX, Participant, PublicKey, Registry, SETTLEMENT_MODELS_MAX,
};
pub use request_content::{RequestState, RequestStatus, RequestStep, RequestTerms};
pub use reservations::Reservation;
#[cfg(feature = "rehearsed-rules")]
pub use rules::claim_rules;
pub use rules::{HASHED_PARTIES, PARTY_RULES, RULES_VERSION, rules_known};
pub use settlement::{
    AccountSums, ArchiveKind, ArchivedSettlement, PAIRS_MAX, PairSums, SETTLEMENTS_MAX, Settlement,
    SettlementAccount, SettlementBook, SettlementNumbers, SettlementState, SettlementWithAccounts,
    WINDOWS_MAX, Window, WindowContent, WindowState, WindowWithSums,
};
pub use state::{
    ApplyStep, Batch, ChangeReply, ChangeResult, CommittedTransfer, Counters, Effects, State,
    StepResult,
};
pub use state_hash::{STATE_HASH_VERSION, StateHashes};
pub use transaction_requests::{
    TRANSACTION_REQUESTS_MAX, TransactionRequestAnswer, TransactionRequestRow,
};
pub use transfers::{FinalTransfer, RecordedResponse, ResponseKind, TransferState};
pub use trial::Trial;
