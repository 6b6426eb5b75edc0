//! What a run is made without: the way in which a failing seed is made small.
//!
//! A run without something draws its dice all the same where it can, so that what is left stays
//! as it was; what happens then may still be another story. So a smaller run is kept only when it
//! fails in the same way.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::parameters::Parameters;

/// Something that a run can be made without altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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
    /// The operator, once everybody is in.
    Operator,
    /// The clerk.
    Clerk,
    /// The examiner.
    Examiner,
    /// The treasurer.
    Treasurer,
    /// Zeros written ahead of the log.
    Room,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 15] = [
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
        Self::Clerk,
        Self::Examiner,
        Self::Treasurer,
        Self::Room,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| format!("nothing is called {text:?} that a run can be made without"))
    }
}

/// What a run is made without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Altogether.
    pub kinds: BTreeSet<Kind>,
    /// Transfers, by number: they are drawn and never sent.
    pub transfers: BTreeSet<u32>,
    /// Faults, in the order in which they strike.
    pub faults: BTreeSet<u32>,
    /// Acts of operator, clerk, examiner and treasurer, in their order, onboarding not counted.
    pub acts: BTreeSet<u32>,
}

impl Reduction {
    /// Takes the kinds out of a plan.
    pub(crate) fn bend(&self, plan: &mut Parameters) {
        let faults = &mut plan.faults;
        for kind in &self.kinds {
            match kind {
                Kind::Crash => faults.crash_us = None,
                Kind::Torn => faults.torn_us = None,
                Kind::Sync => faults.sync_us = None,
                Kind::Full => faults.full_us = None,
                Kind::Fsp => faults.fsp_us = None,
                Kind::Clock => faults.clock_us = None,
                Kind::Loss => faults.loss_per_mille = 0,
                Kind::Twice => faults.twice_per_mille = 0,
                Kind::Operator => plan.operator_us = None,
                Kind::Room => plan.room_bytes = 0,
                Kind::Slow | Kind::Damage | Kind::Clerk | Kind::Examiner | Kind::Treasurer => {}
            }
        }
    }
}
