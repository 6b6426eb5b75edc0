//! What breaks, when, and how it is mended.

use ports::{Disk, DiskFile};

use crate::env::{CLASSES, CallbackBehaviour};
use crate::event::{Event, Fault, HubEvent};
use crate::parameters::SECOND;
use crate::simulation_run::SimulationRun;

/// Largest jump of the wall clock, in microseconds.
pub(crate) const SKEW_MAX_US: i64 = 5_000_000;
/// An operation that the disk never reaches.
pub(crate) const NEVER: u64 = u64::MAX;

const FAULTS: [Fault; 6] =
    [Fault::Crash, Fault::Torn, Fault::Sync, Fault::Full, Fault::Fsp, Fault::Clock];

/// How many faults of each kind may still happen before traffic begins, and from then on. A hub
/// that crashes in every millisecond proves nothing: it never does anything.
const BUDGET: [u32; 6] = [10, 10, 10, 10, 60, 20];

/// What is left of the budget, and which kinds have their next fault drawn already.
#[derive(Debug, Default)]
pub(crate) struct FaultSchedule {
    left: [u32; 6],
    armed: [bool; 6],
}

impl SimulationRun {
    /// The first fault of each kind is drawn, the budgets are full.
    pub(crate) fn arm_faults(&mut self) {
        self.fuses.left = BUDGET;
        FAULTS.into_iter().for_each(|fault| self.arm(fault));
    }

    /// Something breaks, unless the faults have stopped.
    pub(crate) fn fault(&mut self, fault: Fault) {
        if self.desk.calm {
            return;
        }
        self.fuses.armed[fault as usize] = false;
        self.arm(fault);
        self.desk.tally.faults += 1;
        if self.without.faults.contains(&(self.desk.tally.faults - 1)) {
            return;
        }
        match fault {
            Fault::Crash => self.crash(),
            Fault::Torn => {
                let operation = self.disk.operations() + 1 + self.desk.random.below(30);
                self.disk.crash_at(operation);
            }
            Fault::Sync => {
                let operation = self.disk.operations() + 1 + self.desk.random.below(30);
                self.disk.fail_sync_at(operation);
            }
            Fault::Full => self.fill_disk(),
            Fault::Fsp => self.change_manners(),
            Fault::Clock => {
                let jump = self.desk.random.below(2 * SKEW_MAX_US as u64 + 1) as i64;
                self.desk.skew_us = jump - SKEW_MAX_US;
                self.desk.tally.clock_jumps += 1;
            }
        }
    }

    pub(crate) fn mend(&mut self, fault: Fault) {
        if fault == Fault::Full {
            self.disk.set_capacity(u64::MAX);
        }
    }

    /// The faults stop.
    pub(crate) fn mend_everything(&mut self) {
        self.disk.set_capacity(u64::MAX);
        self.disk.crash_at(NEVER);
        self.disk.fail_sync_at(NEVER);
        for fsp in 0..self.desk.manners.len() {
            self.set_manners(fsp, CallbackBehaviour::Fine);
        }
        self.desk.slow_until = 0;
    }

    /// Before a start: now and then the recovery itself is cut short, or one of its syncs fails.
    pub(crate) fn tempt(&mut self) {
        if !self.may_strike() || !self.desk.random.chance(500) {
            return;
        }
        let operation = self.disk.operations() + 1 + self.desk.random.below(6);
        match self.desk.random.chance(500) {
            true => self.disk.crash_at(operation),
            false => self.disk.fail_sync_at(operation),
        }
    }

    /// After a start: now and then the power goes off within the first few writes, while what
    /// the recovery did is all there is.
    pub(crate) fn strike_early(&mut self) {
        if self.may_strike() && self.desk.random.chance(300) {
            let operation = self.disk.operations() + 1 + self.desk.random.below(8);
            self.disk.crash_at(operation);
        }
    }

    /// Before a snapshot is stored: now and then the disk fails while it is written.
    pub(crate) fn strike_snapshot(&mut self) {
        if self.may_strike() && self.desk.random.chance(700) {
            let operation = self.disk.operations() + 1 + self.desk.random.below(6);
            match self.desk.random.chance(500) {
                true => self.disk.crash_at(operation),
                false => self.disk.fail_sync_at(operation),
            }
        }
    }

    fn may_strike(&self) -> bool {
        !self.desk.calm && 0 < self.lives && self.desk.plan.faults.torn_us.is_some()
    }

    fn arm(&mut self, fault: Fault) {
        let faults = &self.desk.plan.faults;
        let mean = match fault {
            Fault::Crash => faults.crash_us,
            Fault::Torn => faults.torn_us,
            Fault::Sync => faults.sync_us,
            Fault::Full => faults.full_us,
            Fault::Fsp => faults.fsp_us,
            Fault::Clock => faults.clock_us,
        };
        let fuse = fault as usize;
        let may = 0 < self.fuses.left[fuse] && !self.fuses.armed[fuse];
        if let Some(mean) = mean.filter(|_| may) {
            self.fuses.left[fuse] -= 1;
            self.fuses.armed[fuse] = true;
            let wait = self.desk.random.around(mean);
            self.desk.after(wait, Event::Fault(fault));
        }
    }

    fn crash(&mut self) {
        if self.hub.is_none() {
            return;
        }
        if self.desk.random.chance(700) {
            self.desk.tally.power_cuts += 1;
            self.disk = self.disk.crash();
            self.shelf.lose_power();
        } else {
            self.desk.tally.kills += 1;
            self.disk = self.disk.kill();
        }
        let most = self.desk.random.pick(&[2_000, SECOND]);
        self.end_life((1_000, most));
    }

    fn fill_disk(&mut self) {
        let length = |name: &String| self.disk.open(name)?.length();
        let names = self.disk.list().unwrap_or_default();
        let used: u64 = names.iter().filter_map(|name| length(name).ok()).sum();
        let room = self.desk.random.below(20_000);
        self.disk.set_capacity(used + room);
        let wait = self.desk.random.around(SECOND);
        self.desk.after(wait, Event::Mend(Fault::Full));
    }

    fn change_manners(&mut self) {
        let fsp = self.desk.random.below(u64::from(self.desk.plan.fsps)) as usize;
        let slow = self.desk.random.between((10_000, 8 * SECOND));
        let status = self
            .desk
            .random
            .pick(&[202, 302, 400, 401, 404, 408, 409, 429, 429, 500, 501, 503, 503, 100]);
        let class = self.desk.random.below(CLASSES) as u8;
        let manners = self.desk.random.pick(&[
            CallbackBehaviour::Fine,
            CallbackBehaviour::Fine,
            CallbackBehaviour::Slow(slow),
            CallbackBehaviour::Down,
            CallbackBehaviour::Silent,
            CallbackBehaviour::Breaking,
            CallbackBehaviour::Answering(status),
            CallbackBehaviour::Unaddressed(class),
        ]);
        self.set_manners(fsp, manners);
    }

    /// An FSP that had no address for some requests registers one.
    fn set_manners(&mut self, fsp: usize, manners: CallbackBehaviour) {
        let before = std::mem::replace(&mut self.desk.manners[fsp], manners);
        if let (CallbackBehaviour::Unaddressed(_), Some(hub)) = (before, &self.hub) {
            self.desk.hub_after(1, hub.life, HubEvent::Addressed(fsp as u8));
        }
    }
}
