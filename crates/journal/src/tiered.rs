//! One source of segments, whatever their form and location.
//!
//! [`TieredDisk`] is a [`Disk`] on top of another one. A closed segment exists as a plain file, as
//! a compressed file next to it ([`crate::compressed_segment`]), or in an archive that the archive
//! index names ([`crate::archive_index`]). Listing returns the plain name of each segment. Opening
//! one reads the bytes of the plain file, from the nearest copy. So recovery, walks, replays and
//! readers of single records do not depend on archives. A compressed segment cannot be written.
//!
//! # Costs and bounds
//! Opening reads two sectors of a compressed file and nothing of an archived one. Reading
//! decompresses the requested blocks, 256 KiB each. At most [`CACHED_BLOCKS`] (32 MiB) are cached
//! for the whole log. Sequential reads fetch [`AHEAD_BLOCKS`] together, so that a remote archive
//! gets one request per 2 MiB.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use blobs::{BlobError, BlobStore};
use ledger::{Digest, LogIndex};
use ports::{Cipher, Disk, DiskError, DiskFile, OptionalCipher};
use record::frame::Tail;

use crate::archive_index::{ArchiveIndex, Entry};
use crate::compressed_segment::{
    self, BEFORE_ERASURE, BLOCK_BYTES, CompressedSegment, SegmentSummary, Source, other_form,
};
use crate::segment::{self, SEGMENT_HEADER_BYTES};

/// Blocks cached in memory.
const CACHED_BLOCKS: usize = 128;
/// Blocks fetched together by a sequential read.
const AHEAD_BLOCKS: usize = 8;

/// A disk whose closed segments may be compressed or archived. Clones share the disk.
#[derive(Clone)]
pub struct TieredDisk<D: Disk> {
    inner: Arc<Inner<D>>,
    cipher: OptionalCipher,
}

struct Inner<D: Disk> {
    disk: D,
    index: RwLock<ArchiveIndex>,
    /// Another process may move segments while this one reads.
    is_live: bool,
    stores: Mutex<HashMap<Arc<str>, Arc<dyn BlobStore>>>,
    cache: Arc<Cache>,
}

/// Location and form of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In the directory, uncompressed.
    Plain,
    /// In the directory, compressed.
    Compressed,
    /// Only in this archive.
    Archived(Arc<str>),
}

/// A segment of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its first record.
    pub first: LogIndex,
    /// The log's tail before it.
    pub base: Tail,
    /// Its location and form.
    pub tier: Tier,
    /// Length of its plain form, in bytes.
    pub plain_bytes: u64,
    /// Its length where it is stored, in bytes.
    pub stored_bytes: u64,
}

impl SegmentInfo {
    /// From a compressed segment's summary.
    fn of(contents: &SegmentSummary, tier: Tier) -> Self {
        let SegmentSummary { base, plain_bytes, compressed_bytes: stored_bytes, .. } = *contents;
        Self { first: base.next(), base, tier, plain_bytes, stored_bytes }
    }
}

/// A file of a [`TieredDisk`].
#[derive(Debug)]
pub struct TieredFile<F> {
    bytes: TieredBytes<F>,
    name: String,
    cipher: OptionalCipher,
}

/// The bytes of a file.
#[derive(Debug)]
enum TieredBytes<F> {
    /// A file of the underlying disk.
    Plain(F),
    /// A compressed segment.
    Compressed(Box<CompressedFile<F>>),
}

/// A compressed segment that reads like a plain one.
#[derive(Debug)]
pub struct CompressedFile<F> {
    contents: SegmentSummary,
    bytes: CompressedBytes<F>,
    /// Set by the first read; for a local file, from the beginning.
    opened: OnceLock<CompressedSegment>,
    /// The next block of a sequential read.
    next: AtomicU64,
    cache: Arc<Cache>,
    cipher: OptionalCipher,
}

/// Source of the bytes of a compressed segment.
pub(crate) enum CompressedBytes<F> {
    Local { file: F, name: String },
    Object { store: Arc<dyn BlobStore>, name: String },
}

impl<D: Disk> TieredDisk<D> {
    /// Opens a disk with its archive index.
    ///
    /// # Errors
    /// [`DiskError::Damaged`] for the archive index, [`DiskError::Failed`].
    pub fn open(disk: D) -> Result<Self, DiskError> {
        Self::open_with(disk, false)
    }

    /// Opens a disk while its owner is running and may archive segments. Moved segments are found
    /// at their new location.
    ///
    /// # Errors
    /// As [`TieredDisk::open`].
    pub fn open_live(disk: D) -> Result<Self, DiskError> {
        Self::open_with(disk, true)
    }

    fn open_with(disk: D, is_live: bool) -> Result<Self, DiskError> {
        let index = RwLock::new(ArchiveIndex::load(&disk)?);
        let (stores, cache) = (Mutex::default(), Arc::default());
        Ok(Self { inner: Arc::new(Inner { disk, index, is_live, stores, cache }), cipher: None })
    }

    /// The same disk with a cipher: new files are encrypted, and encrypted ones are readable.
    #[must_use]
    pub fn with_cipher(self, cipher: OptionalCipher) -> Self {
        Self { cipher, ..self }
    }

    /// The underlying disk.
    #[must_use]
    pub fn below(&self) -> &D {
        &self.inner.disk
    }

    /// Every segment in order; the last one is being written.
    ///
    /// # Errors
    /// [`DiskError::Damaged`] when the header of one cannot be read; [`DiskError::Failed`].
    pub fn segments(&self) -> Result<Vec<SegmentInfo>, DiskError> {
        let mut segments = BTreeMap::new();
        for (&first, entry) in &self.index().entries {
            let tier = Tier::Archived(Arc::clone(&entry.place));
            segments.insert(first, SegmentInfo::of(&entry.contents, tier));
        }
        segments.extend(self.local()?);
        Ok(segments.into_values().collect())
    }

    /// The segments that exist locally, in order.
    ///
    /// # Errors
    /// As [`TieredDisk::segments`].
    pub fn local_segments(&self) -> Result<Vec<SegmentInfo>, DiskError> {
        Ok(self.local()?.into_values().collect())
    }

    fn local(&self) -> Result<BTreeMap<LogIndex, SegmentInfo>, DiskError> {
        let mut segments = BTreeMap::new();
        let names = self.inner.disk.list()?;
        for first in names.iter().filter_map(|name| segment::first_of_compressed(name)) {
            if let Some(CompressedFile { contents, .. }) = self.open_compressed(first)? {
                segments.insert(first, SegmentInfo::of(&contents, Tier::Compressed));
            }
        }
        for first in names.iter().filter_map(|name| segment::first_of(name)) {
            if let Some(info) = self.plain_info(first)? {
                segments.insert(first, info);
            }
        }
        Ok(segments)
    }

    /// Describes a plain segment; `None` if it was removed or its creation is incomplete.
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

    /// The compressed bytes of a compressed or archived segment.
    pub(crate) fn open_compressed(
        &self,
        first: LogIndex,
    ) -> Result<Option<CompressedFile<D::File>>, DiskError> {
        let name = segment::compressed_name_of(first);
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
    ) -> Result<CompressedFile<D::File>, DiskError> {
        let compressed_bytes = file.length()?;
        let bytes = CompressedBytes::Local { file, name };
        let compressed = CompressedSegment::open(&bytes, compressed_bytes)?;
        let contents = compressed.contents.clone();
        if contents.base.next() != first {
            let reason = "the header does not match the file name";
            return Err(compressed_segment::damaged(&bytes, 0, reason));
        }
        Ok(self.compressed_file(contents, bytes, OnceLock::from(compressed)))
    }

    fn open_archived(&self, first: LogIndex) -> Result<Option<CompressedFile<D::File>>, DiskError> {
        let Some(entry) = self.index().entries.get(&first).cloned() else { return Ok(None) };
        let store = self.store(&entry.place).map_err(unreachable_store)?;
        let bytes = CompressedBytes::Object { store, name: segment::object_name_of(first) };
        Ok(Some(self.compressed_file(entry.contents, bytes, OnceLock::new())))
    }

    fn compressed_file(
        &self,
        contents: SegmentSummary,
        bytes: CompressedBytes<D::File>,
        opened: OnceLock<CompressedSegment>,
    ) -> CompressedFile<D::File> {
        let (next, cache) = (AtomicU64::new(u64::MAX), Arc::clone(&self.inner.cache));
        CompressedFile { contents, bytes, opened, next, cache, cipher: self.cipher.clone() }
    }

    /// Uses this blob store for its URL. For stores that [`crate::open_blob_store`] does not know.
    pub fn mount(&self, store: Arc<dyn BlobStore>) {
        lock(&self.inner.stores).insert(store.url().into(), store);
    }

    /// The blob store of a URL, opened once.
    pub(crate) fn store(&self, url: &Arc<str>) -> Result<Arc<dyn BlobStore>, BlobError> {
        let mut stores = lock(&self.inner.stores);
        if let Some(store) = stores.get(url) {
            return Ok(Arc::clone(store));
        }
        let store = blobs::open_blob_store(url)?;
        stores.insert(Arc::clone(url), Arc::clone(&store));
        Ok(store)
    }

    /// URL of the archive that holds a segment, as the archive index has it.
    pub(crate) fn archived_at(&self, first: LogIndex) -> Option<Arc<str>> {
        self.index().entries.get(&first).map(|entry| Arc::clone(&entry.place))
    }

    pub(crate) fn is_in_use(&self, url: &str) -> bool {
        self.index().entries.values().any(|entry| *entry.place == *url)
    }

    /// Records durably that a segment is archived.
    pub(crate) fn note_archived(&self, entry: Entry) -> Result<(), DiskError> {
        let mut index = self.inner.index.write().unwrap_or_else(PoisonError::into_inner);
        index.add(&self.inner.disk, entry)
    }

    /// Reloads the archive index if another process writes it. The index names a segment before the
    /// segment is removed from the directory.
    fn look_again(&self) -> Result<(), DiskError> {
        if !self.inner.is_live {
            return Ok(());
        }
        let mut index = self.inner.index.write().unwrap_or_else(PoisonError::into_inner);
        *index = ArchiveIndex::load(&self.inner.disk)?;
        Ok(())
    }

    /// The plain file of a segment.
    pub(crate) fn open_plain(&self, first: LogIndex) -> Result<TieredFile<D::File>, DiskError> {
        let name = segment::name_of(first);
        let file = self.inner.disk.open(&name)?;
        Ok(self.file(&name, TieredBytes::Plain(file)))
    }

    fn file(&self, name: &str, bytes: TieredBytes<D::File>) -> TieredFile<D::File> {
        TieredFile { bytes, name: name.to_owned(), cipher: self.cipher.clone() }
    }

    fn index(&self) -> std::sync::RwLockReadGuard<'_, ArchiveIndex> {
        self.inner.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk> Disk for TieredDisk<D> {
    type File = TieredFile<D::File>;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let mut names: Vec<String> = self.inner.disk.list()?;
        self.look_again()?;
        for name in &mut names {
            if let Some(first) = segment::first_of_compressed(name) {
                *name = segment::name_of(first);
            }
        }
        names.extend(self.index().entries.keys().map(|first| segment::name_of(*first)));
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<Self::File, DiskError> {
        let file = self.inner.disk.create(name)?;
        Ok(self.file(name, TieredBytes::Plain(file)))
    }

    fn open(&self, name: &str) -> Result<Self::File, DiskError> {
        let missing = match self.inner.disk.open(name) {
            Ok(file) => return Ok(self.file(name, TieredBytes::Plain(file))),
            Err(error @ DiskError::NotFound(_)) => error,
            Err(error) => return Err(error),
        };
        let Some(first) = segment::first_of(name) else { return Err(missing) };
        let mut compressed = self.open_compressed(first)?;
        if compressed.is_none() {
            self.look_again()?;
            compressed = self.open_compressed(first)?;
        }
        let bytes = compressed.map(Box::new).map(TieredBytes::Compressed).ok_or(missing)?;
        Ok(self.file(name, bytes))
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

    fn cipher(&self) -> OptionalCipher {
        self.cipher.clone()
    }
}

impl<F: DiskFile> DiskFile for TieredFile<F> {
    fn length(&self) -> Result<u64, DiskError> {
        match &self.bytes {
            TieredBytes::Plain(file) => file.length(),
            TieredBytes::Compressed(file) => Ok(file.contents.decrypted_bytes()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        match &self.bytes {
            TieredBytes::Plain(file) => file.read_at(offset, buffer),
            TieredBytes::Compressed(file) => file.read_at(offset, buffer),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        match &self.bytes {
            TieredBytes::Plain(file) => file.write_at(offset, bytes),
            TieredBytes::Compressed(file) => Err(file.closed("write")),
        }
    }

    fn sync(&self) -> Result<(), DiskError> {
        match &self.bytes {
            TieredBytes::Plain(file) => file.sync(),
            TieredBytes::Compressed(file) => Err(file.closed("sync")),
        }
    }

    fn truncate(&self, length: u64) -> Result<(), DiskError> {
        match &self.bytes {
            TieredBytes::Plain(file) => file.truncate(length),
            TieredBytes::Compressed(file) => Err(file.closed("truncate")),
        }
    }

    fn release(&self, from: u64, to: u64) {
        if let TieredBytes::Plain(file) = &self.bytes {
            file.release(from, to);
        }
    }

    fn frame_starts(&self) -> Result<Vec<(LogIndex, u64)>, DiskError> {
        match &self.bytes {
            TieredBytes::Plain(file) => file.frame_starts(),
            TieredBytes::Compressed(file) => Ok(file.opened()?.starts.clone()),
        }
    }

    fn check_length(&self) -> Result<(), DiskError> {
        match &self.bytes {
            TieredBytes::Plain(file) => file.check_length(),
            TieredBytes::Compressed(file) => file.check_length(),
        }
    }

    fn known_end(&self) -> Option<Tail> {
        match &self.bytes {
            TieredBytes::Plain(file) => file.known_end(),
            TieredBytes::Compressed(file) => Some(file.contents.after),
        }
    }

    fn cipher(&self) -> Option<&dyn Cipher> {
        self.cipher.as_deref()
    }

    fn shown_name(&self) -> &str {
        &self.name
    }
}

impl<F: DiskFile> CompressedFile<F> {
    pub(crate) fn cipher(&self) -> Option<&dyn Cipher> {
        self.cipher.as_deref()
    }

    pub(crate) fn source(&self) -> &CompressedBytes<F> {
        &self.bytes
    }

    /// The opened compressed file, after comparison with the archive index if that names it.
    pub(crate) fn opened(&self) -> Result<&CompressedSegment, DiskError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let compressed = CompressedSegment::open(&self.bytes, self.contents.compressed_bytes)
            .map_err(|error| self.described(error))?;
        if compressed.contents.seal != self.contents.seal {
            let reason = "the segment is not the one in archive.catalogue: it belongs to another \
                          log, or was changed";
            return Err(self.described(compressed_segment::damaged(&self.bytes, None, reason)));
        }
        Ok(self.opened.get_or_init(|| compressed))
    }

    /// The error about an object that is not the one in the archive index. If it has the same
    /// records in another form, the error names that.
    fn described(&self, error: DiskError) -> DiskError {
        let CompressedBytes::Object { store, name } = &self.bytes else { return error };
        let Ok(Some(length)) = store.length(name) else { return error };
        let Ok(found) = CompressedSegment::open(&self.bytes, length) else { return error };
        let own = (&self.contents.base, &self.contents.after, self.contents.decrypted_bytes());
        match other_form(own, &found.contents) {
            BEFORE_ERASURE => {
                let reason = "it is from before an erasure, and not the one in archive.catalogue: \
                              put the newer object back";
                compressed_segment::damaged(&self.bytes, None, reason)
            }
            _ => error,
        }
    }

    /// Checks the length of an archived object against the archive index. A local file carries its
    /// length in its trailer.
    fn check_length(&self) -> Result<(), DiskError> {
        let CompressedBytes::Object { store, name } = &self.bytes else { return Ok(()) };
        match store.length(name).map_err(unreachable_store)? {
            Some(length) if self.contents.compressed_bytes < length => {
                let reason = "the object is longer than recorded in archive.catalogue";
                let recorded = Some(self.contents.compressed_bytes);
                Err(self.described(compressed_segment::damaged(&self.bytes, recorded, reason)))
            }
            // Reading a missing or truncated object reports the error.
            _ => Ok(()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let left = self.contents.decrypted_bytes().saturating_sub(offset);
        let wanted = (buffer.len() as u64).min(left) as usize;
        let buffer = &mut buffer[..wanted];
        // Every start reads the headers of all segments; do not fetch them from an archive.
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
        // The same segment without some payloads has another seal.
        let key = |number: usize| (self.contents.seal, number as u64);
        let in_a_row = self.next.swap(number as u64 + 1, Ordering::Relaxed) == number as u64;
        if let Some(block) = self.cache.get(key(number)) {
            return Ok(block);
        }
        let opened = self.opened()?;
        let ahead = if in_a_row { AHEAD_BLOCKS } else { 1 };
        let end = (number + ahead).min(opened.blocks.len());
        let mut first = None;
        for (at, plain) in
            opened.read_blocks((&self.bytes, self.cipher()), number..end)?.into_iter().enumerate()
        {
            let plain = Arc::new(plain);
            first.get_or_insert_with(|| Arc::clone(&plain));
            self.cache.put(key(number + at), plain);
        }
        Ok(first.expect("a block within the file's length is there"))
    }

    fn closed(&self, what: &str) -> DiskError {
        let what = format!("{what} {}", self.bytes.shown());
        DiskError::Failed { what, error: "compressed segments are read-only".into() }
    }
}

impl<F: DiskFile> Source for CompressedBytes<F> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        match self {
            Self::Local { file, .. } => file.read_at(offset, buffer),
            Self::Object { store, name } => {
                store.read_at(name, offset, buffer).map_err(|error| match error {
                    BlobError::NotFound { .. } => compressed_segment::damaged(
                        self,
                        None,
                        "the object is missing, but this segment was archived there: mount the \
                         archive if that is not there, or put it back from a copy",
                    ),
                    other => unreachable_store(other),
                })
            }
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Local { name, .. } => name.clone(),
            Self::Object { store, name } => format!("{}/{name}", store.url()),
        }
    }
}

impl<F> std::fmt::Debug for CompressedBytes<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local { name, .. } | Self::Object { name, .. } => f.write_str(name),
        }
    }
}

/// Most recently read plain blocks, by seal of the compressed segment and block number.
#[derive(Debug, Default)]
struct Cache {
    held: Mutex<CachedBlock>,
}

#[derive(Debug, Default)]
struct CachedBlock {
    blocks: HashMap<(Digest, u64), BlockUse>,
    /// Counts uses: the block with the lowest number is the least recently used one.
    clock: u64,
}

/// The time of a block's last use, and its plain bytes.
type BlockUse = (u64, Arc<Vec<u8>>);

impl Cache {
    fn get(&self, key: (Digest, u64)) -> Option<Arc<Vec<u8>>> {
        let mut held = lock(&self.held);
        held.clock += 1;
        let clock = held.clock;
        let (used, block) = held.blocks.get_mut(&key)?;
        *used = clock;
        Some(Arc::clone(block))
    }

    fn put(&self, key: (Digest, u64), block: Arc<Vec<u8>>) {
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

pub(crate) fn unreachable_store(error: BlobError) -> DiskError {
    DiskError::Failed { what: "read from an archive".into(), error: error.to_string() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A plain segment with an invalid header.
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
        let put = |number: u64| cache.put((Digest([1; 32]), number), Arc::new(vec![number as u8]));
        let has = |number: u64| lock(&cache.held).blocks.contains_key(&(Digest([1; 32]), number));
        (0..most).for_each(put);
        for number in (0..most).rev() {
            let block = cache.get((Digest([1; 32]), number)).expect("there is room for all");
            assert_eq!(*block, [number as u8]);
        }
        for number in 0..most {
            put(most + number);
            assert!(has(most + number) && !has(most - 1 - number), "{number}");
            assert_eq!(lock(&cache.held).blocks.len(), CACHED_BLOCKS);
        }
        assert!(cache.get((Digest([2; 32]), most)).is_none());
    }
}
