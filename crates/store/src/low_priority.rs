//! Work that nobody waits for, and its place behind the work that somebody does.

use std::panic::resume_unwind;
use std::thread;

/// A tenth of the share of a thread that somebody waits for, and never before it.
const NICENESS: i32 = 10;

/// From now on this thread, and whatever threads it starts, go behind others. When so much ends at
/// once that both cores are wanted, rows wait here rather than transfers.
pub(crate) fn step_back() {
    // A system that does not allow it serves as well as it can.
    let _taken = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
}

/// Does something on a thread that has stepped back, for the sake of the threads it starts.
pub(crate) fn behind<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let stepped_back = || {
        step_back();
        work()
    };
    let done = thread::scope(|scope| scope.spawn(stepped_back).join());
    done.unwrap_or_else(|panic| resume_unwind(panic))
}
