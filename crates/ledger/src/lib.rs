//! The kernel: a pure, deterministic function that decides about money.
//!
//! [`State::apply`] takes a stamped batch of commands and answers with one [`Outcome`] per
//! command and the [`Notice`]s it made the hub owe. The same batches give the same state, bit
//! for bit, on every machine: there is no clock, randomness, I/O or thread in here.
//!
//! One batch goes through four phases: deadlines that the stamp has reached fire, in order of
//! deadline; the commands are decided, each in its own file under `commands`; the books are
//! asserted to sum to zero; everything decided is digested, so that a replay can be compared.
//!
//! Costs per command: a few keyed hash look-ups, and one B-tree operation per reserve and per
//! millisecond of deadlines; no allocation but the growth of tables. Bounds: the constants `*_MAX`
//! beside each table; what is not bounded here (ended transfers that are hot, notices owed) is
//! bounded by who calls.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod accounts;
mod apply;
mod change;
mod command;
mod command_scope;
mod commands;
mod context;
mod cow_page;
mod deadlines;
mod decision;
mod decision_recorder;
mod evicted;
mod eviction;
pub mod field;
mod hashing;
mod ids;
mod money;
mod notice;
mod outcome;
pub mod planted;
mod query;
mod registry;
mod reserved;
mod rules;
pub mod snapshot;
mod state;
mod state_hash;
mod table;
#[cfg(test)]
mod tests;
mod trail;
mod transfers;

pub use accounts::{Account, AccountKind, Accounts};
pub use change::*;
pub use command::{
    Abort, Administer, ChangeParties, Command, DeliveryResult, ENTRIES_MAX, FinishedDelivery,
    Fulfil, FulfilState, Fulfilment, Genesis, PartyBinding, PartyChangeForm, Prepare, TraceId,
    TransferMessage,
};
pub use decision::{BalanceChange, Decision, DecisionInputs, HubAccount, OwedNotice, PartyInputs};
pub use decision_recorder::{DecisionRecorder, DecisionSink};
pub use evicted::EvictedRows;
pub use eviction::Eviction;
pub use field::FieldError;
pub use ids::{
    ACCOUNTS_MAX, AccountId, Digest, FSP_NAME_BYTES_MAX, FspName, LogIndex, NoticeId, OracleId,
    ParticipantIndex, Stamp, TransferId,
};
pub use money::{Amount, Currency, PRECISION_MAX, SCALE};
pub use notice::{DeadLetter, Notice, NoticeKind};
pub use outcome::*;
pub use query::{Cause, LookUp, TransferView};
pub use registry::{
    CurrencyAccounts, ENDPOINTS_MAX, KEYS_MAX, LEDGER_ACCOUNT_TYPES_MAX, NetDebitCap, ORACLES_MAX,
    PARTICIPANTS_MAX, Participant, PublicKey, Registry, SETTLEMENT_MODELS_MAX,
};
#[cfg(feature = "rehearsed-rules")]
pub use rules::claim_rules;
pub use rules::{RULES_VERSION, rules_known};
pub use state::{ApplyStep, Batch, Counters, Effects, State};
pub use state_hash::{STATE_HASH_VERSION, StateHashes};
pub use transfers::{Answer, AnswerKind, FinalTransfer, TransferState};
