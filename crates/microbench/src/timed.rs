//! A log that notes how long its syncs and appends take, and is otherwise the log inside it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use ledger::Position;
use ports::{Log, LogError, RecordReader, Visitor};
use record::frame::Tail;

use crate::measure::Durations;

/// What was noted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    pub(crate) syncs: Durations,
    pub(crate) appends: Durations,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Timed<L> {
    log: L,
    times: Rc<RefCell<Times>>,
}

impl<L> Timed<L> {
    pub(crate) fn new(log: L, times: Rc<RefCell<Times>>) -> Self {
        Self { log, times }
    }
}

impl<L: Log> Log for Timed<L> {
    fn tail(&self) -> Tail {
        self.log.tail()
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        let start = Instant::now();
        let result = self.log.append(frame);
        self.times.borrow_mut().appends.add(start.elapsed());
        result
    }

    fn sync(&mut self) -> Result<(), LogError> {
        let start = Instant::now();
        let result = self.log.sync();
        self.times.borrow_mut().syncs.add(start.elapsed());
        result
    }

    fn close(&mut self) -> Result<(), LogError> {
        self.log.close()
    }

    fn replay(&mut self, from: Position, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        self.log.replay(from, visit)
    }

    fn reader(&self) -> Arc<dyn RecordReader> {
        self.log.reader()
    }
}
