//! The archiver, which runs while the hub does: compresses closed segments in place, or moves them
//! to a blob store on another machine, while the hub's disk tears writes, fills up and crashes.
//!
//! Production does this on a separate thread; here it happens between two events. The blob store is
//! reliable but not always reachable, and keeps its objects. The archiver has its own RNG stream
//! and runs for some seeds only, so that the other runs do not change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal::{
    ArchiveError, BlobError, BlobStore, Destination, DurableMarkWriter, MemoryDisk, Retention,
    TieredDisk, Upload, archive_segment, claim_for, due,
};
use ledger::Stamp;
use ports::{DiskError, StopReading};

use crate::event::Event;
use crate::random::{Random, mix};
use crate::simulation::SimulationRun;

/// The disk of the hub with what has left it.
pub(crate) type HubDisk = TieredDisk<MemoryDisk>;

/// Separates the archiver's RNG stream from the others.
const STREAM: u64 = 0x6172_6368_6976;
/// Looks for closed segments in the time of the faults, on average.
const LOOKS: u64 = 8;
/// Segments that are handed over in one look, at most.
const SEGMENTS_MAX: usize = 2;
/// Calls of the place, in a thousand, that fail.
const UNREACHABLE_PER_MILLE: u32 = 40;
const URL: &str = "memory://vault";

/// The archiver of a run, and the place that outlives every process.
#[derive(Debug)]
pub(crate) struct Archiver {
    random: Random,
    is_active: bool,
    blobs: MemoryBlobs,
}

impl Archiver {
    /// A pure function of the seed; some of its runs have snapshots too.
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::new(mix(seed ^ STREAM));
        let blobs = MemoryBlobs::new(mix(seed ^ STREAM ^ 1), UNREACHABLE_PER_MILLE);
        Self { random, is_active: matches!(seed % 8, 1 | 4), blobs }
    }

    /// A disk, with the place that its catalogue may name.
    pub(crate) fn tiers(&self, disk: &MemoryDisk) -> Result<HubDisk, DiskError> {
        let tiered = TieredDisk::open(disk.clone())?;
        tiered.mount(Arc::new(self.blobs.clone()));
        Ok(tiered)
    }
}

impl SimulationRun {
    /// The archiver begins, if the run has one.
    pub(crate) fn schedule_archiver(&mut self) {
        if self.archiver.is_active && !self.env.calm {
            let wait = self.archiver.random.around(self.env.parameters.chaos_us / LOOKS);
            self.env.after(wait.max(1), Event::Archive);
        }
    }

    /// One pass of the archiver. A failed step is retried in a later pass.
    pub(crate) fn archive(&mut self) {
        self.schedule_archiver();
        let (Some(hub), Some(disk)) = (&self.hub, &self.tiers) else { return };
        // The durable mark is written at the same rate. A recovery must never find less than the
        // mark; a failed mark is ignored.
        let frames = hub.sequencer().log().inner().frames();
        let _written = DurableMarkWriter::new(disk.clone(), frames).note();
        let closer = hub.sequencer().log().inner().closer();
        let random = &mut self.archiver.random;
        let keep_segments = random.below(3) as usize;
        let retention = Retention { keep_segments, closed_by: Stamp(u64::MAX) };
        let blobs = self.archiver.blobs.clone();
        let destination = match random.chance(600) {
            true => Destination::BlobStore(&blobs),
            false => Destination::InPlace,
        };
        let mut archived = Vec::new();
        let mut work = || {
            for due in due(disk, &retention, destination)?.iter().take(SEGMENTS_MAX) {
                if let Destination::BlobStore(place) = destination {
                    claim_for(disk, place)?;
                }
                let mut watch = |_| if random.chance(20) { Err(StopReading) } else { Ok(()) };
                let segment = archive_segment(disk, due, destination, &mut watch)?;
                closer(segment.first);
                archived.push(segment.first.0);
            }
            Ok(())
        };
        let end = work();
        match end {
            Ok(()) => {}
            Err(ArchiveError::Disk(damage @ DiskError::Damaged { .. })) => {
                assert!(self.disk.is_down(), "damaged: {damage}");
            }
            Err(ArchiveError::Disk(_) | ArchiveError::BlobStore(_) | ArchiveError::Stopped) => {
                self.env.counts.archiving_failed += 1;
            }
            Err(error) => panic!("a segment can not be handed over: {error}"),
        }
        self.env.counts.archived += archived.len() as u64;
        archived.iter().for_each(|first| self.env.add_to_trace(*first));
    }
}

/// Objects in memory. Clones are the same place.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBlobs {
    inner: Arc<Mutex<BlobStoreState>>,
}

#[derive(Clone, Debug)]
struct BlobStoreState {
    random: Random,
    unreachable_per_mille: u32,
    objects: BTreeMap<String, Vec<u8>>,
}

/// An object on its way in.
struct PendingUpload {
    blobs: MemoryBlobs,
    name: String,
    bytes: Vec<u8>,
}

impl MemoryBlobs {
    pub(crate) fn new(seed: u64, unreachable_per_mille: u32) -> Self {
        let (random, objects) = (Random::new(seed), BTreeMap::new());
        let inner = BlobStoreState { random, unreachable_per_mille, objects };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// A place of its own, with the same in it.
    pub(crate) fn copy(&self) -> Self {
        Self { inner: Arc::new(Mutex::new(self.lock().clone())) }
    }

    /// The bytes of all objects.
    pub(crate) fn contents(&self) -> Vec<Vec<u8>> {
        self.lock().objects.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BlobStoreState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Now and then a write does not reach it.
    fn reach(&self, what: &str) -> Result<MutexGuard<'_, BlobStoreState>, BlobError> {
        let mut inner = self.lock();
        let per_mille = inner.unreachable_per_mille;
        match inner.random.chance(per_mille) {
            false => Ok(inner),
            true => Err(BlobError::Failed {
                url: URL.into(),
                what: what.into(),
                error: "it does not answer".into(),
            }),
        }
    }
}

impl BlobStore for MemoryBlobs {
    fn url(&self) -> &str {
        URL
    }

    fn upload(&self, name: &str) -> Result<Box<dyn Upload>, BlobError> {
        drop(self.reach(name)?);
        let (name, bytes) = (name.to_owned(), Vec::new());
        Ok(Box::new(PendingUpload { blobs: self.clone(), name, bytes }))
    }

    fn length(&self, name: &str) -> Result<Option<u64>, BlobError> {
        Ok(self.lock().objects.get(name).map(|bytes| bytes.len() as u64))
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, BlobError> {
        let inner = self.lock();
        let missing = || BlobError::NotFound { url: URL.into(), name: name.into() };
        let bytes = inner.objects.get(name).ok_or_else(missing)?;
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        let inner = self.lock();
        Ok(inner.objects.keys().filter(|name| name.starts_with(prefix)).cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<(), BlobError> {
        self.reach("remove")?.objects.remove(name);
        Ok(())
    }
}

impl Upload for PendingUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        drop(self.blobs.reach(&self.name)?);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), BlobError> {
        let Self { blobs, name, bytes } = *self;
        blobs.reach(&name)?.objects.insert(name, bytes);
        Ok(())
    }
}
