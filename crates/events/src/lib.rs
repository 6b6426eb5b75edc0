//! The hub's events: the events that a decided record makes, their positions in the log, and their
//! form for consumers.
//!
//! An [`EventRecorder`] observes a replay of the log ([`ledger::State::apply_watched`]) and makes
//! the events of each step. It is a pure function of the log: every run, on every node, makes the
//! same events with the same ids. An id is the [`Position`] of the event, the number of its record
//! and its number within the record.
//!
//! Costs: per record one comparison of the accounts that it may have changed, and the texts of its
//! events. A change by an operator that moves money compares all accounts.
#![warn(missing_docs)]

mod cloud_event;
mod count_event;
mod event;
mod names;
mod position;
mod recorder;
mod reference_message;

pub use cloud_event::{DateTime, EventWriter, PersonalData, key_of};
pub use count_event::{CountEvent, CountKind, MessageCount};
pub use event::{
    AdminRequestEvent, ChangeEvent, DeliveryEvent, Event, EventData, EventKind, FundsEvent,
    NoticeEvent, PositionEvent, QuoteEvent, QuoteStep, SettlementEvent, TransferEvent,
    TransferStep, WindowEvent,
};
pub use names::message_of;
pub use position::Position;
pub use recorder::EventRecorder;
pub use reference_message::{ErrorCodeOf, ReferenceWriter, reference_key, reference_topic};
