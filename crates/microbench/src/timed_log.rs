//! A wrapper around a log that measures syncs and appends.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use ports::{LogError, LogObserver, ObservedLog};

use crate::measure::Durations;

/// The measured durations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    pub(crate) syncs: Durations,
    pub(crate) appends: Durations,
}

/// A log whose syncs and appends are measured.
pub(crate) type Timed<L> = ObservedLog<L, Timer>;

/// Measures the writes of a [`Timed`] log.
#[derive(Debug)]
pub(crate) struct Timer(Rc<RefCell<Times>>);

impl From<Rc<RefCell<Times>>> for Timer {
    fn from(times: Rc<RefCell<Times>>) -> Self {
        Self(times)
    }
}

impl LogObserver for Timer {
    fn append(&mut self, append: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        let start = Instant::now();
        let result = append();
        self.0.borrow_mut().appends.add(start.elapsed());
        result
    }

    fn sync(&mut self, sync: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        let start = Instant::now();
        let result = sync();
        self.0.borrow_mut().syncs.add(start.elapsed());
        result
    }
}
