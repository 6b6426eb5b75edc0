//! Damage to what was stored: a copy of the disk, taken before a recovery, is damaged and opened.
//!
//! Bits flip, or a misdirected write overwrites a sector with other content. Such a log must be
//! refused with advice, unless the damage is in the torn tail that a recovery drops anyway. A
//! flipped bit in a whole frame never looks like a torn tail. No acknowledged record may be missing
//! or changed. The hub itself continues with the undamaged disk.

use journal::{FileLog, MemoryDisk, OpenError};
use ledger::LogIndex;
use ports::{Disk, DiskError, Log};
use record::frame::LogIdentity;

use crate::archive::HubDisk;
use crate::random::{Random, spread16};
use crate::reduction::Removal;
use crate::simulation::SimulationRun;

const SECTOR: usize = 512;
/// Recoveries, in a thousand, before which a copy is damaged.
const COPIES_PER_MILLE: u32 = 250;

impl SimulationRun {
    /// Now and then, before a recovery: a damaged copy.
    pub(crate) fn open_corrupted_copy(&mut self) {
        let wanted = self.outcome_workload.arrivals.is_active()
            && !self.without.kinds.contains(&Removal::Damage);
        if self.env.calm || !wanted || !self.outcome_workload.random.chance(COPIES_PER_MILLE) {
            return;
        }
        let random = &mut self.outcome_workload.random;
        let copy = self.disk.copy(random.next());
        let Some((what, kind)) = damage(&copy, random) else { return };
        match kind {
            Corruption::Bit => self.env.counts.bits_flipped += 1,
            Corruption::Place => self.env.counts.writes_misdirected += 1,
        }
        let identity = LogIdentity(spread16(self.seed ^ 2));
        let disk = self.archiver.tiers(&copy).map_err(OpenError::Disk);
        match disk.and_then(|disk| FileLog::open_or_create(disk, identity, self.log_options())) {
            Err(OpenError::Damaged(damage)) => {
                let message = damage.to_string();
                assert!(message.contains("Nothing was changed."), "{what}: {message}");
                self.env.counts.damage_refused += 1;
            }
            // In the catalogue, or in what is packed.
            Err(OpenError::Disk(DiskError::Damaged { .. })) => {
                self.env.counts.damage_refused += 1;
            }
            Err(other) => panic!("{what} is not reported as damage: {other}"),
            Ok((log, _)) => {
                self.env.counts.damage_harmless += 1;
                self.check_opened_copy(log, &what);
            }
        }
    }

    /// A log that was taken in spite of the damage: whatever it holds is as it was, and nothing
    /// acknowledged is missing.
    fn check_opened_copy(&self, mut log: FileLog<HubDisk>, what: &str) {
        self.external.check_acknowledged(log.tail().end.0, what);
        log.replay(LogIndex(1), &mut |frame| {
            frame.records().for_each(|record| self.external.check_content(&record, what));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{what} was taken, and does not read: {error}"));
    }
}

/// The kind of damage.
#[derive(Clone, Copy, Debug)]
enum Corruption {
    Bit,
    Place,
}

/// Damages one location and describes it; `None` if there is nothing to damage.
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
    let is_misaddressed = content[from * SECTOR..(from + 1) * SECTOR].to_vec();
    // Unwritten space reads as zeros: a crash leaves that too, so it is not damage.
    if is_misaddressed.iter().all(|byte| *byte == 0)
        || content[to * SECTOR..].starts_with(&is_misaddressed)
    {
        return None;
    }
    content[to * SECTOR..(to + 1) * SECTOR].copy_from_slice(&is_misaddressed);
    disk.put(name, &content);
    let what = format!("sector {from} of {name} written to the place of sector {to}");
    Some((what, Corruption::Place))
}
