//! The limits and the retry schedule.

use std::time::Duration;

/// A moment on the driver's monotonic clock, in microseconds since any fixed origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment `micros` microseconds later.
    #[must_use]
    pub const fn after_micros(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

/// After so many failures any pause has reached the longest: it has 64 bits and is not 0.
const DOUBLINGS_MAX: u32 = 65;

/// Limits of every lane and the schedule of its retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Attempts in flight plus unrecorded deliveries of one lane, at most.
    pub window: u32,
    /// Attempts per notice before it becomes a dead letter.
    pub attempts_max: u32,
    /// Pause after the first failure, in microseconds; it doubles with each further one.
    pub backoff_base_micros: u64,
    /// Longest pause, in microseconds.
    pub backoff_max_micros: u64,
    /// Failures in a row without an HTTP answer after which a lane probes.
    pub probe_after: u32,
    /// Message bytes a lane keeps; entries beyond it are reloaded from the log.
    pub bytes_max: u64,
    /// Attempts of patient entries that may begin within [`Policy::patient_micros`], of all lanes
    /// together; one that ends sooner makes room sooner.
    pub patient_max: u32,
    /// For how long a patient attempt under way holds back others, in microseconds: so a
    /// recipient that is slow to answer slows nobody else down.
    pub patient_micros: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            window: 64,
            attempts_max: 20,
            backoff_base_micros: 200_000,
            backoff_max_micros: 30_000_000,
            probe_after: 5,
            bytes_max: 16 * 1024 * 1024,
            patient_max: 2,
            patient_micros: 2_000,
        }
    }
}

impl Policy {
    /// What is wrong with these values, for the reader of a configuration; `None` when nothing.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self { window: 0, .. } => Some("window must be at least 1"),
            Self { attempts_max: 0, .. } => Some("attempts_max must be at least 1"),
            Self { probe_after: 0, .. } => Some("probe_after must be at least 1"),
            Self { patient_max: 0, .. } => Some("patient_max must be at least 1"),
            Self { backoff_base_micros: 0, .. } => Some("backoff_base must be above 0"),
            _ if self.backoff_max_micros < self.backoff_base_micros => {
                Some("backoff_max must not be below backoff_base")
            }
            _ => None,
        }
    }

    /// What patient entries may take of a lane's window: the other half is for those that are
    /// waited for.
    pub(crate) fn patient_window(&self) -> u32 {
        self.window.div_ceil(2)
    }

    /// All pauses between the attempts of one notice together, at their longest. From the first
    /// pause that is the longest on, all are the same.
    #[must_use]
    pub fn pauses_at_most(&self) -> Duration {
        let pauses = u64::from(self.attempts_max.saturating_sub(1));
        let mut all = 0_u64;
        for failures in 1..=DOUBLINGS_MAX.min(self.attempts_max.saturating_sub(1)) {
            let pause = self.full_backoff_micros(failures);
            if pause == self.backoff_max_micros {
                let rest = pauses - u64::from(failures - 1);
                return Duration::from_micros(all.saturating_add(rest.saturating_mul(pause)));
            }
            all = all.saturating_add(pause);
        }
        Duration::from_micros(all)
    }

    /// The pause after failure number `failures` (from 1): the doubled base up to the cap, of
    /// which the upper half is random, so that entries that failed together come back apart.
    pub(crate) fn backoff_micros(&self, failures: u32, jitter: &mut Jitter) -> u64 {
        let full = self.full_backoff_micros(failures);
        let fixed = full - full / 2;
        fixed + jitter.below_or_equal(full / 2)
    }

    fn full_backoff_micros(&self, failures: u32) -> u64 {
        let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX - 1);
        self.backoff_base_micros
            .saturating_mul(1_u64.checked_shl(doublings).unwrap_or(u64::MAX))
            .min(self.backoff_max_micros)
    }
}

/// A small seeded generator (SplitMix64): good enough to spread retries, never for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below_or_equal(&mut self, most: u64) -> u64 {
        ((u128::from(self.next()) * (u128::from(most) + 1)) >> 64) as u64
    }
}
