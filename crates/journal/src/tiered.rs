//! One source of segments, whatever form they have and wherever they are.
//!
//! [`TieredDisk`] is a [`Disk`] over another one. A closed segment is there as a plain file, as a
//! packed one beside it ([`crate::packed`]), or in an archive of which the catalogue knows
//! ([`crate::catalogue`]). Whoever lists sees each under its plain name; whoever opens one reads
//! the bytes of the plain file, from the nearest place that has them. So recovery, walks, replays
//! and readers of single records need not know about archives. A packed segment cannot be written.
//!
//! # Costs and bounds
//! Opening reads two sectors of a packed file and nothing of an archived one. Reading decompresses
//! the blocks that are asked for, 256 KiB each. Blocks are kept in memory, at most
//! [`CACHED_BLOCKS`] (32 MiB) for the whole log. Whoever reads block after block gets
//! [`AHEAD_BLOCKS`] at once, so that an archive far away is asked once per 2 MiB.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use blobs::{BlobError, BlobStore};
use ledger::LogIndex;
use ports::{Disk, DiskError, DiskFile};
use record::frame::Tail;

use crate::archive_index::{ArchiveIndex, Entry};
use crate::compressed_segment::{self, BLOCK_BYTES, CompressedSegment, SegmentSummary, Source};
use crate::segment::{self, SEGMENT_HEADER_BYTES};

/// Blocks kept in memory.
const CACHED_BLOCKS: usize = 128;
/// Blocks read at once by whoever reads one after the other.
const AHEAD_BLOCKS: usize = 8;

/// A disk whose closed segments may be packed or archived. Clones are the same disk.
#[derive(Clone)]
pub struct TieredDisk<D: Disk> {
    inner: Arc<Inner<D>>,
}

struct Inner<D: Disk> {
    disk: D,
    catalogue: RwLock<ArchiveIndex>,
    /// Somebody else may move segments meanwhile.
    beside: bool,
    places: Mutex<HashMap<Arc<str>, Arc<dyn BlobStore>>>,
    cache: Arc<Cache>,
}

/// Where a segment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In the directory, as it was written.
    Plain,
    /// In the directory, compressed.
    Packed,
    /// In this archive only.
    Archived(Arc<str>),
}

/// A segment of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its first record.
    pub first: LogIndex,
    /// The log before it.
    pub base: Tail,
    /// Where it is.
    pub tier: Tier,
    /// Length of its plain form, in bytes.
    pub plain_bytes: u64,
    /// What it takes where it is, in bytes.
    pub stored_bytes: u64,
}

impl SegmentInfo {
    /// Of a packed segment.
    fn of(contents: &SegmentSummary, tier: Tier) -> Self {
        let SegmentSummary { base, plain_bytes, packed_bytes: stored_bytes, .. } = *contents;
        Self { first: base.next(), base, tier, plain_bytes, stored_bytes }
    }
}

/// A file of a [`TieredDisk`] disk.
#[derive(Debug)]
pub enum TieredFile<F> {
    /// A file of the disk below.
    Plain(F),
    /// A packed segment.
    Packed(Box<PackedFile<F>>),
}

/// A packed segment, read as if it were plain.
#[derive(Debug)]
pub struct PackedFile<F> {
    contents: SegmentSummary,
    bytes: PackedBytes<F>,
    /// Once it was read; of a local file from the beginning.
    opened: OnceLock<CompressedSegment>,
    /// The block that comes next if reading goes on.
    next: AtomicU64,
    cache: Arc<Cache>,
}

/// Where the bytes of a packed segment come from.
pub(crate) enum PackedBytes<F> {
    Local { file: F, name: String },
    Object { place: Arc<dyn BlobStore>, name: String },
}

impl<D: Disk> TieredDisk<D> {
    /// A disk with its catalogue.
    ///
    /// # Errors
    /// [`DiskError::Damaged`] for the catalogue, [`DiskError::Failed`].
    pub fn open(disk: D) -> Result<Self, DiskError> {
        Self::open_with(disk, false)
    }

    /// The same beside its owner, who may archive segments meanwhile: they are found where they
    /// are then.
    ///
    /// # Errors
    /// As [`TieredDisk::open`].
    pub fn open_beside(disk: D) -> Result<Self, DiskError> {
        Self::open_with(disk, true)
    }

    fn open_with(disk: D, beside: bool) -> Result<Self, DiskError> {
        let catalogue = RwLock::new(ArchiveIndex::load(&disk)?);
        let (places, cache) = (Mutex::default(), Arc::default());
        Ok(Self { inner: Arc::new(Inner { disk, catalogue, beside, places, cache }) })
    }

    /// The disk below.
    #[must_use]
    pub fn below(&self) -> &D {
        &self.inner.disk
    }

    /// Every segment in order, the last of them the one that is written to.
    ///
    /// # Errors
    /// [`DiskError::Damaged`] when the header of one cannot be read; [`DiskError::Failed`].
    pub fn segments(&self) -> Result<Vec<SegmentInfo>, DiskError> {
        let mut segments = BTreeMap::new();
        for (&first, entry) in &self.catalogue().entries {
            let tier = Tier::Archived(Arc::clone(&entry.place));
            segments.insert(first, SegmentInfo::of(&entry.contents, tier));
        }
        segments.extend(self.local()?);
        Ok(segments.into_values().collect())
    }

    /// The same without those that are in an archive only.
    ///
    /// # Errors
    /// As [`TieredDisk::segments`].
    pub fn local_segments(&self) -> Result<Vec<SegmentInfo>, DiskError> {
        Ok(self.local()?.into_values().collect())
    }

    fn local(&self) -> Result<BTreeMap<LogIndex, SegmentInfo>, DiskError> {
        let mut segments = BTreeMap::new();
        let names = self.inner.disk.list()?;
        for first in names.iter().filter_map(|name| segment::first_of_packed(name)) {
            if let Some(PackedFile { contents, .. }) = self.open_packed(first)? {
                segments.insert(first, SegmentInfo::of(&contents, Tier::Packed));
            }
        }
        for first in names.iter().filter_map(|name| segment::first_of(name)) {
            if let Some(info) = self.plain_info(first)? {
                segments.insert(first, info);
            }
        }
        Ok(segments)
    }

    /// What is known of a plain segment; `None` if it has gone, or was not begun in full.
    fn plain_info(&self, first: LogIndex) -> Result<Option<SegmentInfo>, DiskError> {
        let name = segment::name_of(first);
        let file = match self.inner.disk.open(&name) {
            Err(DiskError::NotFound(_)) => return Ok(None),
            opened => opened?,
        };
        let mut header = [0; SEGMENT_HEADER_BYTES as usize];
        let read = file.read_at(0, &mut header)?;
        if header[..read].iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let base =
            segment::decode_header(&header[..read]).map_err(|reason| no_header(name, reason))?;
        let plain_bytes = file.length()?;
        let tier = Tier::Plain;
        Ok(Some(SegmentInfo { first, base, tier, plain_bytes, stored_bytes: plain_bytes }))
    }

    /// The packed bytes of a segment that is packed or archived.
    pub(crate) fn open_packed(
        &self,
        first: LogIndex,
    ) -> Result<Option<PackedFile<D::File>>, DiskError> {
        let name = segment::packed_name_of(first);
        match self.inner.disk.open(&name) {
            Ok(file) => self.open_local(first, file, name).map(Some),
            Err(DiskError::NotFound(_)) => self.open_archived(first),
            Err(error) => Err(error),
        }
    }

    fn open_local(
        &self,
        first: LogIndex,
        file: D::File,
        name: String,
    ) -> Result<PackedFile<D::File>, DiskError> {
        let packed_bytes = file.length()?;
        let bytes = PackedBytes::Local { file, name };
        let packed = CompressedSegment::open(&bytes, packed_bytes)?;
        let contents = packed.contents.clone();
        if contents.base.next() != first {
            let reason = "its header is not the one of a file of its name";
            return Err(compressed_segment::damaged(&bytes, 0, reason));
        }
        Ok(self.packed_file(contents, bytes, OnceLock::from(packed)))
    }

    fn open_archived(&self, first: LogIndex) -> Result<Option<PackedFile<D::File>>, DiskError> {
        let Some(entry) = self.catalogue().entries.get(&first).cloned() else { return Ok(None) };
        let place = self.place(&entry.place).map_err(unreachable_place)?;
        let bytes = PackedBytes::Object { place, name: segment::object_name_of(first) };
        Ok(Some(self.packed_file(entry.contents, bytes, OnceLock::new())))
    }

    fn packed_file(
        &self,
        contents: SegmentSummary,
        bytes: PackedBytes<D::File>,
        opened: OnceLock<CompressedSegment>,
    ) -> PackedFile<D::File> {
        let (next, cache) = (AtomicU64::new(u64::MAX), Arc::clone(&self.inner.cache));
        PackedFile { contents, bytes, opened, next, cache }
    }

    /// From now on the place of this URL is this one, for places that [`crate::open_place`] does
    /// not know.
    pub fn mount(&self, place: Arc<dyn BlobStore>) {
        lock(&self.inner.places).insert(place.url().into(), place);
    }

    /// The place of a URL, opened once.
    pub(crate) fn place(&self, url: &Arc<str>) -> Result<Arc<dyn BlobStore>, BlobError> {
        let mut places = lock(&self.inner.places);
        if let Some(place) = places.get(url) {
            return Ok(Arc::clone(place));
        }
        let place = blobs::open_place(url)?;
        places.insert(Arc::clone(url), Arc::clone(&place));
        Ok(place)
    }

    pub(crate) fn is_in_use(&self, url: &str) -> bool {
        self.catalogue().entries.values().any(|entry| *entry.place == *url)
    }

    /// Notes durably that a segment is in an archive.
    pub(crate) fn note_archived(&self, entry: Entry) -> Result<(), DiskError> {
        let mut catalogue = self.inner.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        catalogue.add(&self.inner.disk, entry)
    }

    /// What the catalogue says by now, where it is not written here. It names a segment before
    /// that goes from the directory.
    fn look_again(&self) -> Result<(), DiskError> {
        if !self.inner.beside {
            return Ok(());
        }
        let mut catalogue = self.inner.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        *catalogue = ArchiveIndex::load(&self.inner.disk)?;
        Ok(())
    }

    fn catalogue(&self) -> std::sync::RwLockReadGuard<'_, ArchiveIndex> {
        self.inner.catalogue.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk> Disk for TieredDisk<D> {
    type File = TieredFile<D::File>;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let mut names: Vec<String> = self.inner.disk.list()?;
        self.look_again()?;
        for name in &mut names {
            if let Some(first) = segment::first_of_packed(name) {
                *name = segment::name_of(first);
            }
        }
        names.extend(self.catalogue().entries.keys().map(|first| segment::name_of(*first)));
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<Self::File, DiskError> {
        self.inner.disk.create(name).map(TieredFile::Plain)
    }

    fn open(&self, name: &str) -> Result<Self::File, DiskError> {
        let missing = match self.inner.disk.open(name) {
            Ok(file) => return Ok(TieredFile::Plain(file)),
            Err(error @ DiskError::NotFound(_)) => error,
            Err(error) => return Err(error),
        };
        let Some(first) = segment::first_of(name) else { return Err(missing) };
        let mut packed = self.open_packed(first)?;
        if packed.is_none() {
            self.look_again()?;
            packed = self.open_packed(first)?;
        }
        packed.map(Box::new).map(TieredFile::Packed).ok_or(missing)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.inner.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.inner.disk.remove(name)
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        self.inner.disk.sync_directory()
    }
}

impl<F: DiskFile> DiskFile for TieredFile<F> {
    fn length(&self) -> Result<u64, DiskError> {
        match self {
            Self::Plain(file) => file.length(),
            Self::Packed(file) => Ok(file.contents.plain_bytes),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        match self {
            Self::Plain(file) => file.read_at(offset, buffer),
            Self::Packed(file) => file.read_at(offset, buffer),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        match self {
            Self::Plain(file) => file.write_at(offset, bytes),
            Self::Packed(file) => Err(file.closed("write")),
        }
    }

    fn sync(&self) -> Result<(), DiskError> {
        match self {
            Self::Plain(file) => file.sync(),
            Self::Packed(file) => Err(file.closed("sync")),
        }
    }

    fn truncate(&self, length: u64) -> Result<(), DiskError> {
        match self {
            Self::Plain(file) => file.truncate(length),
            Self::Packed(file) => Err(file.closed("truncate")),
        }
    }

    fn release(&self, from: u64, to: u64) {
        if let Self::Plain(file) = self {
            file.release(from, to);
        }
    }

    fn frame_starts(&self) -> Result<Vec<(LogIndex, u64)>, DiskError> {
        match self {
            Self::Plain(file) => file.frame_starts(),
            Self::Packed(file) => Ok(file.opened()?.starts.clone()),
        }
    }

    fn check_length(&self) -> Result<(), DiskError> {
        match self {
            Self::Plain(file) => file.check_length(),
            Self::Packed(file) => file.check_length(),
        }
    }

    fn known_end(&self) -> Option<Tail> {
        match self {
            Self::Plain(file) => file.known_end(),
            Self::Packed(file) => Some(file.contents.after),
        }
    }
}

impl<F: DiskFile> PackedFile<F> {
    pub(crate) fn source(&self) -> &PackedBytes<F> {
        &self.bytes
    }

    /// The packed file, opened, and held against the catalogue if that speaks of it.
    pub(crate) fn opened(&self) -> Result<&CompressedSegment, DiskError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let packed = CompressedSegment::open(&self.bytes, self.contents.packed_bytes)?;
        if packed.contents.seal != self.contents.seal {
            let reason = "it is not the one that the catalogue names: of another log, or changed";
            return Err(compressed_segment::damaged(&self.bytes, None, reason));
        }
        Ok(self.opened.get_or_init(|| packed))
    }

    /// A local file says by its end how long it is; of an object the catalogue does.
    fn check_length(&self) -> Result<(), DiskError> {
        let PackedBytes::Object { place, name } = &self.bytes else { return Ok(()) };
        match place.length(name).map_err(unreachable_place)? {
            Some(length) if self.contents.packed_bytes < length => {
                let reason = "more bytes follow than the catalogue knows of";
                Err(compressed_segment::damaged(
                    &self.bytes,
                    Some(self.contents.packed_bytes),
                    reason,
                ))
            }
            // Whoever reads one that is missing or cut short says so.
            _ => Ok(()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let wanted =
            (buffer.len() as u64).min(self.contents.plain_bytes.saturating_sub(offset)) as usize;
        let buffer = &mut buffer[..wanted];
        // Every start of a log reads the headers of all segments: not from an archive.
        if offset + wanted as u64 <= SEGMENT_HEADER_BYTES {
            let header = segment::encode_header(&self.contents.base);
            buffer.copy_from_slice(&header[offset as usize..offset as usize + wanted]);
            return Ok(wanted);
        }
        let mut filled = 0;
        while filled < wanted {
            let at = offset + filled as u64;
            let block = self.block((at / BLOCK_BYTES as u64) as usize)?;
            let from = (at % BLOCK_BYTES as u64) as usize;
            let length = (block.len() - from).min(wanted - filled);
            buffer[filled..filled + length].copy_from_slice(&block[from..from + length]);
            filled += length;
        }
        Ok(wanted)
    }

    fn block(&self, number: usize) -> Result<Arc<Vec<u8>>, DiskError> {
        let key = |number: usize| (self.contents.base.next(), number as u64);
        let in_a_row = self.next.swap(number as u64 + 1, Ordering::Relaxed) == number as u64;
        if let Some(block) = self.cache.get(key(number)) {
            return Ok(block);
        }
        let opened = self.opened()?;
        let ahead = if in_a_row { AHEAD_BLOCKS } else { 1 };
        let end = (number + ahead).min(opened.blocks.len());
        let mut first = None;
        for (at, plain) in opened.read_blocks(&self.bytes, number..end)?.into_iter().enumerate() {
            let plain = Arc::new(plain);
            first.get_or_insert_with(|| Arc::clone(&plain));
            self.cache.put(key(number + at), plain);
        }
        Ok(first.expect("a block within the file's length is there"))
    }

    fn closed(&self, what: &str) -> DiskError {
        let what = format!("{what} {}", self.bytes.shown());
        DiskError::Failed { what, error: "a packed segment does not change".into() }
    }
}

impl<F: DiskFile> Source for PackedBytes<F> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        match self {
            Self::Local { file, .. } => file.read_at(offset, buffer),
            Self::Object { place, name } => {
                place.read_at(name, offset, buffer).map_err(|error| match error {
                    BlobError::NotFound { .. } => compressed_segment::damaged(
                        self,
                        None,
                        "it is missing, though this segment was archived there: mount the archive \
                         if that is not there, or put it back from a copy",
                    ),
                    other => unreachable_place(other),
                })
            }
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Local { name, .. } => name.clone(),
            Self::Object { place, name } => format!("{}/{name}", place.url()),
        }
    }
}

impl<F> std::fmt::Debug for PackedBytes<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local { name, .. } | Self::Object { name, .. } => f.write_str(name),
        }
    }
}

/// Plain blocks read last, by first record of the segment and number of the block.
#[derive(Debug, Default)]
struct Cache {
    held: Mutex<CachedBlock>,
}

#[derive(Debug, Default)]
struct CachedBlock {
    blocks: HashMap<(LogIndex, u64), BlockUse>,
    /// Counts uses: the block with the lowest number was used longest ago.
    clock: u64,
}

/// When a block was used last, and its plain bytes.
type BlockUse = (u64, Arc<Vec<u8>>);

impl Cache {
    fn get(&self, key: (LogIndex, u64)) -> Option<Arc<Vec<u8>>> {
        let mut held = lock(&self.held);
        held.clock += 1;
        let clock = held.clock;
        let (used, block) = held.blocks.get_mut(&key)?;
        *used = clock;
        Some(Arc::clone(block))
    }

    fn put(&self, key: (LogIndex, u64), block: Arc<Vec<u8>>) {
        let mut held = lock(&self.held);
        held.clock += 1;
        let clock = held.clock;
        if CACHED_BLOCKS <= held.blocks.len() {
            let oldest = held.blocks.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key);
            oldest.and_then(|oldest| held.blocks.remove(&oldest));
        }
        held.blocks.insert(key, (clock, block));
    }
}

pub(crate) fn unreachable_place(error: BlobError) -> DiskError {
    DiskError::Failed { what: "read from an archive".into(), error: error.to_string() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A plain segment that does not begin as one.
fn no_header(file: String, reason: &str) -> DiskError {
    DiskError::Damaged { file, offset: Some(0), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_that_were_used_last_are_kept() {
        let cache = Cache::default();
        let most = CACHED_BLOCKS as u64;
        let put = |number: u64| cache.put((LogIndex(1), number), Arc::new(vec![number as u8]));
        let has = |number: u64| lock(&cache.held).blocks.contains_key(&(LogIndex(1), number));
        (0..most).for_each(put);
        for number in (0..most).rev() {
            let block = cache.get((LogIndex(1), number)).expect("there is room for all");
            assert_eq!(*block, [number as u8]);
        }
        for number in 0..most {
            put(most + number);
            assert!(has(most + number) && !has(most - 1 - number), "{number}");
            assert_eq!(lock(&cache.held).blocks.len(), CACHED_BLOCKS);
        }
        assert!(cache.get((LogIndex(2), most)).is_none());
    }
}
