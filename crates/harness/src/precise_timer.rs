//! A clock for open-loop load that is exact to tens of microseconds: a kernel timer in the
//! runtime's own poll. The runtime's timers round to milliseconds, which would show as latency.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

/// A reusable one-shot timer.
///
/// A timer file is read like a pipe: eight bytes are readable when it expires. The runtime's pipe
/// reader can therefore wait for it.
pub struct PreciseTimer(Receiver);

impl PreciseTimer {
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(Receiver::from_owned_fd_unchecked(timer)?))
    }

    /// Waits for `time`. Returns immediately if it is zero.
    pub async fn wait(&self, time: Duration) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: time.as_secs() as i64,
                tv_nsec: i64::from(time.subsec_nanos()),
            },
        };
        timerfd_settime(self.0.as_fd(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            self.0.readable().await?;
            match self.0.try_read(&mut [0; 8]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(|_| ()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn waits_are_not_cut_short() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let pace = PreciseTimer::new().expect("a timer");
            for micros in [0, 50, 700, 3_000] {
                let time = Duration::from_micros(micros);
                let start = Instant::now();
                pace.wait(time).await.expect("the timer works");
                assert!(start.elapsed() >= time, "{micros}");
            }
        });
    }
}
