//! The limits and the retry schedule.

use ledger::Stamp;
use ports::ClockReading;

/// A time on the driver's monotonic clock, in microseconds since any fixed origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicTime(pub u64);

impl MonotonicTime {
    /// The time `micros` microseconds later.
    #[must_use]
    pub const fn after_micros(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

/// Failures after which any pause has reached the longest one, which has 64 bits and is not 0.
const DOUBLINGS_MAX: u32 = 65;

/// Limits of every lane and the schedule of its retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Maximum number of attempts in flight plus unrecorded deliveries of one lane.
    pub window: u32,
    /// Time during which delivery is attempted after a notice became owed, in microseconds.
    pub horizon_micros: u64,
    /// Pause after the first failure, in microseconds; it doubles with each further one.
    pub backoff_base_micros: u64,
    /// Longest pause between two attempts of one notice, and the longest pause that a recipient
    /// can ask for, in microseconds.
    pub backoff_max_micros: u64,
    /// Longest pause between two attempts of a lane that probes, in microseconds.
    pub probe_max_micros: u64,
    /// Different notices that failed, with no success in between, after which a lane probes.
    pub probe_after: u32,
    /// Message bytes a lane keeps; entries beyond it are reloaded from the log.
    pub bytes_max: u64,
    /// Maximum number of patient attempts that may begin within [`Policy::patient_micros`], in all
    /// lanes together. An attempt that ends sooner makes room sooner.
    pub patient_max: u32,
    /// Time for which a patient attempt in flight holds back others, in microseconds. It is bounded
    /// so that a slow recipient does not delay those of others.
    pub patient_micros: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            window: 64,
            horizon_micros: 24 * 3_600 * 1_000_000,
            backoff_base_micros: 200_000,
            backoff_max_micros: 300_000_000,
            probe_max_micros: 30_000_000,
            probe_after: 5,
            bytes_max: 16 * 1024 * 1024,
            patient_max: 2,
            patient_micros: 2_000,
        }
    }
}

impl Policy {
    /// The time at which a notice owed since `owed_at` is given up. A restart does not change it.
    #[must_use]
    pub fn until(&self, owed_at: Stamp, now: ClockReading) -> MonotonicTime {
        let owed_for = now.wall.0.saturating_sub(owed_at.0);
        let left = self.horizon_micros.saturating_sub(owed_for);
        MonotonicTime(now.monotonic_us).after_micros(left)
    }

    /// The fault of these values, for the reader of a configuration; `None` if there is no fault.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self { window: 0, .. } => Some("window must be at least 1"),
            Self { horizon_micros: 0, .. } => Some("horizon must be above 0"),
            Self { probe_after: 0, .. } => Some("probe_after must be at least 1"),
            Self { patient_max: 0, .. } => Some("patient_max must be at least 1"),
            Self { backoff_base_micros: 0, .. } => Some("backoff_base must be above 0"),
            Self { probe_max_micros: 0, .. } => Some("probe_max must be above 0"),
            _ if self.backoff_max_micros < self.backoff_base_micros => {
                Some("backoff_max must not be below backoff_base")
            }
            _ => None,
        }
    }

    /// Window slots that patient entries may take. The other half is for entries that participants
    /// wait for.
    pub(crate) fn patient_window(&self) -> u32 {
        self.window.div_ceil(2)
    }

    /// The pause of a notice after its failure number `failures` (from 1): the base, doubled up to
    /// the longest. The upper half is random, so that entries that failed together are retried
    /// apart.
    pub(crate) fn backoff_micros(&self, failures: u32, jitter: &mut Jitter) -> u64 {
        jittered(self.full_backoff_micros(failures), jitter)
    }

    /// The pause of a probing lane, whose longest pause may be shorter. A recipient that answers is
    /// probed steadily, so that refused notices delay the others only briefly.
    pub(crate) fn probe_micros(&self, failures: u32, answers: bool, jitter: &mut Jitter) -> u64 {
        let most = if answers { self.backoff_base_micros } else { self.probe_max_micros };
        jittered(self.full_backoff_micros(failures).min(most), jitter)
    }

    fn full_backoff_micros(&self, failures: u32) -> u64 {
        let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX - 1);
        self.backoff_base_micros
            .saturating_mul(1_u64.checked_shl(doublings).unwrap_or(u64::MAX))
            .min(self.backoff_max_micros)
    }
}

fn jittered(full: u64, jitter: &mut Jitter) -> u64 {
    full - full / 2 + jitter.below_or_equal(full / 2)
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
