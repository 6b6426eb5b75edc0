//! Damage to what was stored: a copy of the disk, taken before a recovery, is damaged and opened.
//!
//! Bits flip, and a write goes astray: a sector holds what belongs elsewhere. Such a log must be
//! refused with a word on what to do, or the damage must lie in the torn end that a recovery drops
//! anyway, which no flipped bit of a whole frame looks like. In no case may anything acknowledged
//! be missing or changed. The hub itself goes on with the disk as it was.

use journal::{FileLog, MemoryDisk, OpenError};
use ledger::LogIndex;
use ports::{Disk, DiskError, Log};
use record::frame::LogIdentity;

use crate::archive::HubDisk;
use crate::random::{Random, spread16};
use crate::reduction::Kind;
use crate::simulation_run::SimulationRun;

const SECTOR: usize = 512;
/// Recoveries, in a thousand, before which a copy is damaged.
const COPIES_PER_MILLE: u32 = 250;

impl SimulationRun {
    /// Now and then, before a recovery: a damaged copy.
    pub(crate) fn lay_out_damage(&mut self) {
        let wanted = self.examiner.visits.is_there() && !self.without.kinds.contains(&Kind::Damage);
        if self.desk.calm || !wanted || !self.examiner.random.chance(COPIES_PER_MILLE) {
            return;
        }
        let random = &mut self.examiner.random;
        let copy = self.disk.copy(random.next());
        let Some((what, kind)) = damage(&copy, random) else { return };
        match kind {
            Corruption::Bit => self.desk.tally.bits_flipped += 1,
            Corruption::Place => self.desk.tally.writes_astray += 1,
        }
        let identity = LogIdentity(spread16(self.seed ^ 2));
        let disk = self.archiver.tiers(&copy).map_err(OpenError::Disk);
        match disk.and_then(|disk| FileLog::open_or_create(disk, identity, self.log_options())) {
            Err(OpenError::Damaged(damage)) => {
                let said = damage.to_string();
                assert!(said.contains("Nothing was changed."), "{what}: {said}");
                self.desk.tally.damage_refused += 1;
            }
            // In the catalogue, or in what is packed.
            Err(OpenError::Disk(DiskError::Damaged { .. })) => {
                self.desk.tally.damage_refused += 1;
            }
            Err(other) => panic!("{what} is not told as damage: {other}"),
            Ok((log, _)) => {
                self.desk.tally.damage_harmless += 1;
                self.check_survivor(log, &what);
            }
        }
    }

    /// A log that was taken in spite of the damage: whatever it holds is as it was, and nothing
    /// acknowledged is missing.
    fn check_survivor(&self, mut log: FileLog<HubDisk>, what: &str) {
        self.witness.check_promise(log.tail().end.0, what);
        log.replay(LogIndex(1), &mut |frame| {
            frame.records().for_each(|record| self.witness.check_content(&record, what));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{what} was taken, and does not read: {error}"));
    }
}

/// What kind of damage was done.
#[derive(Clone, Copy, Debug)]
enum Corruption {
    Bit,
    Place,
}

/// Damages one place; says which, or nothing where there is nothing to damage.
fn damage(disk: &MemoryDisk, random: &mut Random) -> Option<(String, Corruption)> {
    let names = disk.list().ok()?;
    let name = names.get(random.below(names.len().max(1) as u64) as usize)?;
    let mut content = disk.content(name)?;
    if content.is_empty() {
        return None;
    }
    if random.chance(600) {
        let (at, bit) = (random.below(content.len() as u64) as usize, random.below(8));
        content[at] ^= 1 << bit;
        disk.put(name, &content);
        return Some((format!("bit {bit} of byte {at} of {name} flipped"), Corruption::Bit));
    }
    let sectors = (content.len() / SECTOR) as u64;
    if sectors < 2 {
        return None;
    }
    let (from, to) = (random.below(sectors) as usize, random.below(sectors) as usize);
    let astray = content[from * SECTOR..(from + 1) * SECTOR].to_vec();
    // What was never written reads as zeros: that is what a crash leaves, and no damage.
    if astray.iter().all(|byte| *byte == 0) || content[to * SECTOR..].starts_with(&astray) {
        return None;
    }
    content[to * SECTOR..(to + 1) * SECTOR].copy_from_slice(&astray);
    disk.put(name, &content);
    let what = format!("sector {from} of {name} written to the place of sector {to}");
    Some((what, Corruption::Place))
}
