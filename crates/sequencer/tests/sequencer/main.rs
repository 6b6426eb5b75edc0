//! Tests of the sequencer through its public interface.

mod commit;
mod deadlines;
mod fixture;
mod frame_digest;
mod message_orders;
mod migrated_log;
mod prefetch;
mod replica;
mod rules;
mod settlement;
mod store_failure;
