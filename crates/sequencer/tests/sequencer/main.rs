//! Tests of the sequencer through its public interface.

mod asked;
mod commit;
mod deadlines;
mod moved;
mod orders;
mod replica;
mod said;
mod scheme;
mod stalled;
