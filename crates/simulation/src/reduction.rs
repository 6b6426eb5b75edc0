//! The parts left out of a run, by which a failing seed is shrunk.
//!
//! A reduced run draws the same random numbers where it can, so that the remaining parts do not
//! change; its course may still differ. So a smaller run is kept only if it fails in the same way.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::parameters::Parameters;

/// Something that a run can be made without altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Removal {
    /// Crashes of the machine and the process.
    Crash,
    /// Crashes within an operation of the disk.
    Torn,
    /// Failing syncs.
    Sync,
    /// Full disks.
    Full,
    /// Slow disks.
    Slow,
    /// Damaged copies of the disk.
    Damage,
    /// FSPs that misbehave.
    Fsp,
    /// Jumps of the clock.
    Clock,
    /// Lost messages.
    Loss,
    /// Messages that come twice.
    Twice,
    /// The operator, after the onboarding.
    Operator,
    /// The registry workload.
    Registry,
    /// The outcome workload.
    Outcomes,
    /// The currency workload.
    Currencies,
    /// The settlement workload.
    Settlement,
    /// The bulk workload.
    Bulks,
    /// The workload of the party directory.
    Parties,
    /// The workload of quotes and requests to pay.
    Quotes,
    /// Zeros written ahead of the log.
    Room,
}

impl Removal {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Crash,
        Self::Torn,
        Self::Sync,
        Self::Full,
        Self::Slow,
        Self::Damage,
        Self::Fsp,
        Self::Clock,
        Self::Loss,
        Self::Twice,
        Self::Operator,
        Self::Registry,
        Self::Outcomes,
        Self::Currencies,
        Self::Settlement,
        Self::Bulks,
        Self::Parties,
        Self::Quotes,
        Self::Room,
    ];
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl FromStr for Removal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| format!("unknown part of a run: {text:?}"))
    }
}

/// The parts left out of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Altogether.
    pub kinds: BTreeSet<Removal>,
    /// Transfers, by number: they are drawn and never sent.
    pub transfers: BTreeSet<u32>,
    /// Faults, in the order in which they strike.
    pub faults: BTreeSet<u32>,
    /// Acts of all workloads of operators, in their order, without the onboarding.
    pub acts: BTreeSet<u32>,
}

impl Reduction {
    /// Takes the kinds out of a plan.
    pub(crate) fn apply(&self, parameters: &mut Parameters) {
        let faults = &mut parameters.faults;
        for kind in &self.kinds {
            match kind {
                Removal::Crash => faults.crash_us = None,
                Removal::Torn => faults.torn_us = None,
                Removal::Sync => faults.sync_us = None,
                Removal::Full => faults.full_us = None,
                Removal::Fsp => faults.fsp_us = None,
                Removal::Clock => faults.clock_us = None,
                Removal::Loss => faults.loss_per_mille = 0,
                Removal::Twice => faults.twice_per_mille = 0,
                Removal::Operator => parameters.operator_us = None,
                Removal::Room => parameters.room_bytes = 0,
                Removal::Slow
                | Removal::Damage
                | Removal::Registry
                | Removal::Outcomes
                | Removal::Currencies
                | Removal::Settlement
                | Removal::Bulks
                | Removal::Parties
                | Removal::Quotes => {}
            }
        }
    }
}
