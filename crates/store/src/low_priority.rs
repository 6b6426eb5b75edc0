//! Low priority for background threads.

use std::panic::resume_unwind;
use std::thread;

/// Niceness: a tenth of the CPU share of a normal thread.
const NICENESS: i32 = 10;

/// Lowers the priority of this thread and of the threads that it starts. Under load, writes to the
/// store then wait instead of transfers.
pub(crate) fn lower_priority() {
    // If the system refuses, the thread runs with normal priority.
    let _taken = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
}

/// Runs a closure on a thread of low priority, so that the threads it starts inherit that.
pub(crate) fn run_at_low_priority<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let low = || {
        lower_priority();
        work()
    };
    let done = thread::scope(|scope| scope.spawn(low).join());
    done.unwrap_or_else(|panic| resume_unwind(panic))
}
