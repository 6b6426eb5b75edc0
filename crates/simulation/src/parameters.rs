//! The parameters that a seed draws before its run begins: sizes, limits, speeds, and the faults
//! that may happen.
//!
//! Runs differ in kind as well as in their random numbers: one has a failing disk and a good
//! network, another a tiny window and a fast payee. A fault that is present in all runs would hide
//! those that come after it.

use delivery::Policy;

use crate::random::Random;

/// One second of virtual time, in microseconds.
pub(crate) const SECOND: u64 = 1_000_000;
/// Virtual time of day at the start, microseconds since 1970.
pub(crate) const EPOCH_US: u64 = 1_900_000_000 * SECOND;

/// The draw of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub(crate) fsps: u8,
    pub(crate) currencies: u8,
    /// I/O threads of the hub, each with lanes of its own.
    pub(crate) io_threads: u8,
    pub(crate) policy: Policy,
    pub(crate) inbox_max: usize,
    pub(crate) segment_bytes: u64,
    /// How many zeros are written ahead of the log at a time.
    pub(crate) room_bytes: u64,
    /// Time between two new transfers, on average.
    pub(crate) interval_us: u64,
    /// How long an append with its sync takes.
    pub(crate) commit_us: (u64, u64),
    /// One way over the network.
    pub(crate) network_us: (u64, u64),
    /// How long the hub waits for the answer to a notice.
    pub(crate) attempt_us: u64,
    /// How long a payee thinks.
    pub(crate) think_us: (u64, u64),
    /// Time from a prepare to its expiration.
    pub(crate) lifetime_ms: (u64, u64),
    /// Smallest and largest ordinary amount, in ten-thousandths. If both are equal, positions meet
    /// caps and covers exactly.
    pub(crate) amount: (u64, u64),
    /// Transfers, in a thousand, that have something odd about them.
    pub(crate) odd_per_mille: u32,
    /// Resends, in a thousand, that are not what was sent first.
    pub(crate) changed_per_mille: u32,
    /// Time between two acts of the operator.
    pub(crate) operator_us: Option<u64>,
    pub(crate) faults: Faults,
    /// When traffic has begun to end and the faults stop, at the latest, after the onboarding.
    pub(crate) chaos_us: u64,
}

/// Faults that may happen; each `Option` is the average time between two of its kind.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    /// The power goes off, or the process dies.
    pub(crate) crash_us: Option<u64>,
    /// The power goes off within one of the next operations of the disk.
    pub(crate) torn_us: Option<u64>,
    /// A sync fails.
    pub(crate) sync_us: Option<u64>,
    /// The disk is full for a while.
    pub(crate) full_us: Option<u64>,
    /// An FSP changes its behaviour.
    pub(crate) fsp_us: Option<u64>,
    /// The wall clock jumps.
    pub(crate) clock_us: Option<u64>,
    /// Messages lost, in a thousand.
    pub(crate) loss_per_mille: u32,
    /// Messages that arrive twice, in a thousand.
    pub(crate) twice_per_mille: u32,
}

impl Parameters {
    pub(crate) fn draw(random: &mut Random, transfers: u32) -> Self {
        let interval_us = random.pick(&[20, 50, 100, 400, 2_000, 20_000]);
        let traffic_us = interval_us * u64::from(transfers.max(1));
        let chaos_us = traffic_us + random.between((1, 15)) * SECOND;
        let io_threads = random.between((1, 3)) as u8;
        Self {
            fsps: random.between((2, 8)) as u8,
            currencies: random.between((1, 2)) as u8,
            io_threads,
            policy: policy(random),
            inbox_max: random.pick(&[64, 1_000, 65_536, 65_536]),
            segment_bytes: random.pick(&[20_000, 100_000, 1 << 20, 256 << 20]),
            interval_us,
            commit_us: random.pick(&[(20, 60), (100, 400), (300, 3_000), (2_000, 20_000)]),
            network_us: random.pick(&[(20, 100), (100, 2_000), (200, 50_000)]),
            attempt_us: random.between((1, 6)) * SECOND,
            think_us: random.pick(&[(10, 100), (100, 5_000), (10_000, 800_000)]),
            lifetime_ms: random.pick(&[(300, 3_000), (2_000, 8_000), (5_000, 20_000)]),
            amount: random.pick(&[(1, 1_000), (1, 9_000_000), (10_000_000, 10_000_000)]),
            odd_per_mille: random.pick(&[0, 50, 200, 500]),
            changed_per_mille: random.pick(&[0, 100]),
            operator_us: maybe(random, 700, |random| chaos_us / random.between((5, 80))),
            faults: Faults::draw(random, traffic_us, chaos_us),
            chaos_us,
            // Drawn from a copy of the RNG, so that later draws do not depend on it.
            room_bytes: random.clone().pick(&[0, 700, 5_000, 50_000]),
        }
    }
}

impl Faults {
    fn draw(random: &mut Random, traffic_us: u64, chaos_us: u64) -> Self {
        let mut every = |per_mille, most: u64| {
            let span = random.pick(&[traffic_us, chaos_us]);
            maybe(random, per_mille, |random| (span / random.between((1, most))).max(1_000))
        };
        Self {
            crash_us: every(500, 5),
            torn_us: every(500, 5),
            sync_us: every(300, 3),
            full_us: every(300, 4),
            fsp_us: every(600, 20),
            clock_us: every(300, 6),
            loss_per_mille: random.pick(&[0, 0, 5, 50]),
            twice_per_mille: random.pick(&[0, 0, 10, 100]),
        }
    }
}

fn policy(random: &mut Random) -> Policy {
    let base = random.pick(&[20_000, 200_000]);
    Policy {
        window: random.pick(&[1, 2, 5, 64, 64]),
        horizon_micros: random.pick(&[3, 20, 200]) * SECOND,
        backoff_base_micros: base,
        backoff_max_micros: base * random.pick(&[1, 10, 40]),
        probe_max_micros: 5 * SECOND,
        probe_after: random.pick(&[1, 3, 5]),
        bytes_max: random.pick(&[2_000, 16 << 20, 16 << 20]),
        patient_max: random.pick(&[1, 4]),
        patient_micros: random.pick(&[2_000, 100_000]),
    }
}

fn maybe<T>(random: &mut Random, per_mille: u32, draw: impl FnOnce(&mut Random) -> T) -> Option<T> {
    if random.chance(per_mille) { Some(draw(random)) } else { None }
}
