//! File descriptors: raises the limit of the process and derives the bound on connections to
//! participants from it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use switch::PoolLimits;

/// Connections to participants may use one in `PARTS` descriptors. The others are for connections
/// of clients, the log and the store.
const PARTS: u64 = 4;
/// Minimum of connections per I/O thread.
const CONNECTIONS_MIN: u64 = 64;

/// Raises the limit to the maximum of the system. Returns the limit in force.
pub(crate) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.unwrap_or(u64::MAX)
}

/// Connections of one of `threads` I/O threads to all participants.
pub(crate) fn connections_all(limit: u64, threads: usize) -> usize {
    let share = limit / PARTS / threads.max(1) as u64;
    let most = PoolLimits::default().connections_all;
    usize::try_from(share.max(CONNECTIONS_MIN)).map_or(most, |share| share.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_follow_the_limit_between_their_bounds() {
        for (limit, threads, expected) in
            [(1_024, 1, 256), (1_024, 8, 64), (20_000, 2, 2_500), (u64::MAX, 64, 4_096)]
        {
            assert_eq!(connections_all(limit, threads), expected, "{limit} and {threads}");
        }
    }

    #[test]
    fn limit_is_raised_to_the_maximum() {
        let limit = raise_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        assert_eq!(limit, maximum.unwrap_or(u64::MAX));
    }
}
