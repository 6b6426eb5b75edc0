//! How fast a snapshot is taken.

use ports::Stop;

/// Asked between two small pieces of work, many times a second.
pub trait Pace {
    /// Waits if the work is ahead of its time.
    ///
    /// # Errors
    /// [`Stop`] when the work is not wanted any more.
    fn breathe(&mut self) -> Result<(), Stop>;
}

/// As fast as possible, to the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unpaced;

impl Pace for Unpaced {
    fn breathe(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

impl<F: FnMut() -> Result<(), Stop>> Pace for F {
    fn breathe(&mut self) -> Result<(), Stop> {
        self()
    }
}
