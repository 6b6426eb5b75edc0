//! Faults, until they stop.

use journal::MemoryDisk;

use super::brokers::BROKERS;
use super::{BROKER_SESSION_US, ClusterSimulation, Event, NODES};
use crate::parameters::SECOND;

impl ClusterSimulation {
    pub(super) fn fault(&mut self) {
        if self.calm_since.is_some() {
            return;
        }
        let at = self.random.below(NODES as u64) as usize;
        match self.random.below(14) {
            0..3 => self.kill(at),
            3 | 4 => self.after(0, Event::Leave(at)),
            5..8 => self.pause(at),
            8 | 9 => {
                self.machines[at].is_cut = true;
                self.counts.cuts += 1;
                let wait = self.random.between((SECOND / 2, 12 * SECOND));
                self.after(wait, Event::Uncut(at));
            }
            10..12 => self.stop_broker(),
            12 => self.jump(),
            _ => {
                let skew = self.random.pick(&[-600, -2, 0, 0, 3, 600]);
                self.machines[at].skew_us = skew * SECOND as i64;
            }
        }
        let wait = self.random.between((SECOND / 4, 6 * SECOND));
        self.after(wait, Event::Fault);
    }

    /// The process is killed, or the machine loses power and with it the end of the copy.
    pub(super) fn kill(&mut self, at: usize) {
        if self.machines[at].up.take().is_none() {
            return;
        }
        self.counts.kills += 1;
        let loses_all = self.random.chance(150);
        let loses_power = self.random.chance(200);
        let seed = self.random.next();
        let machine = &mut self.machines[at];
        machine.disk = match (loses_all, loses_power) {
            (true, _) => MemoryDisk::new(seed),
            (false, true) => machine.disk.crash(),
            (false, false) => machine.disk.kill(),
        };
        self.counts.lost_copies += u64::from(loses_all);
        let wait = self.random.between((SECOND / 10, 8 * SECOND));
        self.after(wait, Event::Start(at));
    }

    /// All threads of a node pause.
    pub(super) fn pause(&mut self, at: usize) {
        let length = self.random.between((SECOND / 10, 12 * SECOND));
        self.machines[at].paused_until = self.now + length;
        self.counts.pauses += 1;
    }

    pub(super) fn stop_broker(&mut self) {
        let broker = self.random.below(BROKERS as u64) as usize;
        // Now and then two are down, and nothing is taken.
        let least = if self.random.chance(200) { 1 } else { 2 };
        if !self.brokers.is_up(broker) || self.brokers.ups() <= least {
            return;
        }
        self.counts.brokers_down += 1;
        self.brokers.stop(broker);
        self.after(BROKER_SESSION_US, Event::Elect);
        let wait = self.random.between((SECOND, 15 * SECOND));
        self.after(wait, Event::BrokerStarts(broker));
    }

    /// The brokers' clock jumps. It may do so once while a lease runs.
    pub(super) fn jump(&mut self) {
        if self.now < self.jumped_at + 20 * SECOND {
            return;
        }
        self.jumped_at = self.now;
        self.counts.jumps += 1;
        self.brokers.skew_us = self.random.pick(&[0, 900_000, 3 * SECOND, 600 * SECOND]);
    }
}
