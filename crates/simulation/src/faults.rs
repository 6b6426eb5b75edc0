//! Faults: their kinds, their times and their repair.

use ports::{Disk, DiskFile};

use crate::env::{CLASSES, CallbackBehaviour};
use crate::event::{Event, FaultKind, HubEvent};
use crate::parameters::SECOND;
use crate::simulation::SimulationRun;

/// Largest jump of the wall clock, in microseconds.
pub(crate) const SKEW_MAX_US: i64 = 5_000_000;
/// An operation that the disk never reaches.
pub(crate) const NEVER: u64 = u64::MAX;

const FAULTS: [FaultKind; 6] = [
    FaultKind::Crash,
    FaultKind::Torn,
    FaultKind::Sync,
    FaultKind::Full,
    FaultKind::Fsp,
    FaultKind::Clock,
];

/// How many faults of each kind may still happen before traffic begins, and from then on. A hub
/// that crashes in every millisecond proves nothing: it never does anything.
const BUDGET: [u32; 6] = [10, 10, 10, 10, 60, 20];

/// The remaining budget, and the kinds whose next fault is scheduled.
#[derive(Debug, Default)]
pub(crate) struct FaultSchedule {
    left: [u32; 6],
    armed: [bool; 6],
}

impl SimulationRun {
    /// The first fault of each kind is drawn, the budgets are full.
    pub(crate) fn arm_faults(&mut self) {
        self.fault_schedule.left = BUDGET;
        FAULTS.into_iter().for_each(|fault| self.arm(fault));
    }

    /// Something breaks, unless the faults have stopped.
    pub(crate) fn fault(&mut self, fault: FaultKind) {
        if self.env.calm {
            return;
        }
        self.fault_schedule.armed[fault as usize] = false;
        self.arm(fault);
        self.env.counts.faults += 1;
        if self.without.faults.contains(&(self.env.counts.faults - 1)) {
            return;
        }
        match fault {
            FaultKind::Crash => self.crash(),
            FaultKind::Torn => {
                let operation = self.disk.operations() + 1 + self.env.random.below(30);
                self.disk.crash_at(operation);
            }
            FaultKind::Sync => {
                let operation = self.disk.operations() + 1 + self.env.random.below(30);
                self.disk.fail_sync_at(operation);
            }
            FaultKind::Full => self.fill_disk(),
            FaultKind::Fsp => self.change_behaviour(),
            FaultKind::Clock => {
                let jump = self.env.random.below(2 * SKEW_MAX_US as u64 + 1) as i64;
                self.env.skew_us = jump - SKEW_MAX_US;
                self.env.counts.clock_jumps += 1;
            }
        }
    }

    pub(crate) fn repair(&mut self, fault: FaultKind) {
        if fault == FaultKind::Full {
            self.disk.set_capacity(u64::MAX);
        }
    }

    /// The faults stop.
    pub(crate) fn stop_faults(&mut self) {
        self.disk.set_capacity(u64::MAX);
        self.disk.crash_at(NEVER);
        self.disk.fail_sync_at(NEVER);
        for fsp in 0..self.env.behaviours.len() {
            self.set_behaviour(fsp, CallbackBehaviour::Fine);
        }
        self.env.slow_until = 0;
    }

    /// Before a start: now and then the recovery itself is cut short, or one of its syncs fails.
    pub(crate) fn maybe_fail_recovery(&mut self) {
        if !self.may_inject() || !self.env.random.chance(500) {
            return;
        }
        let operation = self.disk.operations() + 1 + self.env.random.below(6);
        match self.env.random.chance(500) {
            true => self.disk.crash_at(operation),
            false => self.disk.fail_sync_at(operation),
        }
    }

    /// After a start: now and then the power goes off within the first few writes, while what
    /// the recovery did is all there is.
    pub(crate) fn maybe_crash_after_start(&mut self) {
        if self.may_inject() && self.env.random.chance(300) {
            let operation = self.disk.operations() + 1 + self.env.random.below(8);
            self.disk.crash_at(operation);
        }
    }

    /// Before a snapshot is stored: now and then the disk fails while it is written.
    pub(crate) fn maybe_fail_snapshot(&mut self) {
        if self.may_inject() && self.env.random.chance(700) {
            let operation = self.disk.operations() + 1 + self.env.random.below(6);
            match self.env.random.chance(500) {
                true => self.disk.crash_at(operation),
                false => self.disk.fail_sync_at(operation),
            }
        }
    }

    fn may_inject(&self) -> bool {
        !self.env.calm && 0 < self.epochs && self.env.parameters.faults.torn_us.is_some()
    }

    fn arm(&mut self, fault: FaultKind) {
        let faults = &self.env.parameters.faults;
        let mean = match fault {
            FaultKind::Crash => faults.crash_us,
            FaultKind::Torn => faults.torn_us,
            FaultKind::Sync => faults.sync_us,
            FaultKind::Full => faults.full_us,
            FaultKind::Fsp => faults.fsp_us,
            FaultKind::Clock => faults.clock_us,
        };
        let fuse = fault as usize;
        let may = 0 < self.fault_schedule.left[fuse] && !self.fault_schedule.armed[fuse];
        if let Some(mean) = mean.filter(|_| may) {
            self.fault_schedule.left[fuse] -= 1;
            self.fault_schedule.armed[fuse] = true;
            let wait = self.env.random.around(mean);
            self.env.after(wait, Event::Fault(fault));
        }
    }

    fn crash(&mut self) {
        if self.hub.is_none() {
            return;
        }
        if self.env.random.chance(700) {
            self.env.counts.power_cuts += 1;
            self.disk = self.disk.crash();
            self.store.lose_power();
        } else {
            self.env.counts.kills += 1;
            self.disk = self.disk.kill();
        }
        let most = self.env.random.pick(&[2_000, SECOND]);
        self.end_epoch((1_000, most));
    }

    fn fill_disk(&mut self) {
        let length = |name: &String| self.disk.open(name)?.length();
        let names = self.disk.list().unwrap_or_default();
        let used: u64 = names.iter().filter_map(|name| length(name).ok()).sum();
        let room = self.env.random.below(20_000);
        self.disk.set_capacity(used + room);
        let wait = self.env.random.around(SECOND);
        self.env.after(wait, Event::Repair(FaultKind::Full));
    }

    fn change_behaviour(&mut self) {
        let fsp = self.env.random.below(u64::from(self.env.parameters.fsps)) as usize;
        let slow = self.env.random.between((10_000, 8 * SECOND));
        let status = self
            .env
            .random
            .pick(&[202, 302, 400, 401, 404, 408, 409, 429, 429, 500, 501, 503, 503, 100]);
        let class = self.env.random.below(CLASSES) as u8;
        let behaviours = self.env.random.pick(&[
            CallbackBehaviour::Fine,
            CallbackBehaviour::Fine,
            CallbackBehaviour::Slow(slow),
            CallbackBehaviour::Down,
            CallbackBehaviour::Silent,
            CallbackBehaviour::Breaking,
            CallbackBehaviour::Answering(status),
            CallbackBehaviour::Unaddressed(class),
        ]);
        self.set_behaviour(fsp, behaviours);
    }

    /// An FSP that had no address for some requests registers one.
    fn set_behaviour(&mut self, fsp: usize, behaviours: CallbackBehaviour) {
        let before = std::mem::replace(&mut self.env.behaviours[fsp], behaviours);
        if let (CallbackBehaviour::Unaddressed(_), Some(hub)) = (before, &self.hub) {
            self.env.hub_after(1, hub.epoch, HubEvent::Addressed(fsp as u8));
        }
    }
}
