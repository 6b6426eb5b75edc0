//! The cold store of a running switch, for a replay: it is read and never written.

use std::sync::Arc;

use ledger::{FinalTransfer, LogIndex, TransferId};
use ports::{ColdReader, ColdStore, StoreError, WaitFor, WriteBatch};

/// The rows of a store, for a replay of the same log, which reads them as of its own record.
#[derive(Debug)]
pub(crate) struct ReplayStore {
    pub(crate) store: Arc<dyn ColdStore>,
}

impl ColdReader for ReplayStore {
    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        self.store.read(id, at)
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        self.store.drop_absent(ids)
    }

    fn visible(&self) -> LogIndex {
        self.store.mark().log_index
    }

    /// Drops the batch: the switch stores these rows itself.
    fn offer(&mut self, portion: &mut WriteBatch) -> bool {
        *portion = WriteBatch::default();
        true
    }

    fn wait(&mut self, _: WaitFor) -> Result<(), StoreError> {
        Ok(())
    }
}
