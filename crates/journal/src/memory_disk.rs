//! A disk in memory that crashes, tears writes, fills up and fails on request: the worst that the
//! contract of [`Disk`] allows, reproducibly for each seed.
//!
//! # Model
//! Each file has *stored* content, and content that programs *see* (the page cache). Changes are
//! pending until a sync stores them. Names work the same way. At a [`MemoryDisk::crash`] the seed
//! chooses, for the whole disk, how much is lost: everything, nothing, each sector with probability
//! 1/2, or all sectors after some point. Then it chooses, for each pending write, which of its
//! sectors were stored, and how far the file had grown. A sector is stored as it was at some
//! moment: a prefix of the pending writes to it is kept. The same applies to pending changes of
//! names.
//!
//! A failed sync stores some of the pending sectors and *forgets the others*: programs still see
//! them, but no later sync stores them.
//!
//! Operations that change something are numbered from 1, so that a run can be crashed at each of
//! them in turn.
//!
//! # Bounds
//!
//! Operations that change something are numbered from 1, so that a run can be crashed at each one
//! in turn.
//!
//! # Bounds
//! Content is bounded by [`MemoryDisk::set_capacity`]. Pending writes are held until the next
//! sync of their file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ports::{Disk, DiskError, DiskFile};

use crate::segment::SECTOR_BYTES;

/// The disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
    /// The boot of the machine in which this handle was created.
    generation: u64,
    usage: Arc<Usage>,
}

/// Usage counters for tests of costs.
#[derive(Debug, Default)]
struct Usage {
    open: AtomicU64,
    reads: AtomicU64,
    bytes_read: AtomicU64,
}

/// An open file of a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryFile {
    disk: MemoryDisk,
    file: u64,
    name: String,
}

impl MemoryDisk {
    /// An empty disk of unlimited capacity.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            files: BTreeMap::new(),
            seen: BTreeMap::new(),
            stored: BTreeMap::new(),
            pending: Vec::new(),
            random: Random(seed),
            capacity: u64::MAX,
            operations: 0,
            crash_at: None,
            fail_sync_at: None,
            down: false,
            generation: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), generation: 0, usage: Arc::default() }
    }

    /// Number of changing operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Number of files that are open.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        self.usage.open.load(Ordering::Relaxed)
    }

    /// Number of reads so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.usage.reads.load(Ordering::Relaxed)
    }

    /// Bytes read so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.usage.bytes_read.load(Ordering::Relaxed)
    }

    /// Sets the capacity: the maximum total length of the files, in bytes.
    pub fn set_capacity(&self, bytes: u64) {
        self.lock().capacity = bytes;
    }

    /// Fails the power during this operation. The operation may or may not have an effect. It and
    /// all later ones fail until [`MemoryDisk::crash`] restarts the machine.
    pub fn crash_at(&self, operation: u64) {
        self.lock().crash_at = Some(operation);
    }

    /// Makes the first sync of a file at or after this operation fail.
    pub fn fail_sync_at(&self, operation: u64) {
        self.lock().fail_sync_at = Some(operation);
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.lock().down
    }

    /// Fails and restores the power: unsynced changes are lost completely or in part. Earlier
    /// handles stop working; the returned disk works. Injected faults are cleared.
    #[must_use]
    pub fn crash(&self) -> Self {
        let mut state = self.lock();
        state.lose_power();
        self.next_life(&mut state)
    }

    /// Kills and restarts the process: everything visible stays, synced or not. Earlier handles
    /// stop working; the returned disk works.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.lock();
        self.next_life(&mut state)
    }

    /// Damages a byte of a file, visible and stored, by flipping the bits of `mask`.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn damage(&self, name: &str, offset: usize, mask: u8) {
        let mut state = self.lock();
        let number = state.seen[name];
        let file = state.files.get_mut(&number).expect("a file that has a name exists");
        Arc::make_mut(&mut file.seen)[offset] ^= mask;
        if let Some(byte) = Arc::make_mut(&mut file.stored).get_mut(offset) {
            *byte ^= mask;
        }
    }

    /// An independent disk on which everything visible here is stored. Content is shared until one
    /// of the two changes it.
    #[must_use]
    pub fn copy(&self, seed: u64) -> Self {
        let state = self.lock();
        let copy = Self::new(seed);
        {
            let mut new = copy.lock();
            for (name, number) in &state.seen {
                let content = Arc::clone(&state.files[number].seen);
                let (stored, pending) = (Arc::clone(&content), Vec::new());
                let file = File { seen: content, stored, pending };
                new.files.insert(*number, file);
                new.seen.insert(name.clone(), *number);
                new.stored.insert(name.clone(), *number);
            }
        }
        copy
    }

    /// The visible content of a file.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        let number = state.seen.get(name)?;
        state.files.get(number).map(|file| file.seen.to_vec())
    }

    /// Stores a file on the disk, replacing one of that name.
    pub fn put(&self, name: &str, content: &[u8]) {
        let mut state = self.lock();
        let number = state.new_file();
        let file = state.files.get_mut(&number).expect("the file was just made");
        Arc::make_mut(&mut file.seen).extend_from_slice(content);
        file.stored = Arc::clone(&file.seen);
        state.seen.insert(name.to_owned(), number);
        state.stored.insert(name.to_owned(), number);
    }

    fn next_life(&self, state: &mut State) -> Self {
        state.generation += 1;
        state.down = false;
        state.crash_at = None;
        state.fail_sync_at = None;
        Self { state: self.state.clone(), generation: state.generation, usage: self.usage.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for a read-only operation.
    fn look(&self, what: &str) -> Result<MutexGuard<'_, State>, DiskError> {
        let state = self.lock();
        if state.down || state.generation != self.generation {
            Err(power_off(what))
        } else {
            Ok(state)
        }
    }

    /// The state, for an operation that changes something, and whether the power fails during it.
    fn change(&self, what: &str) -> Result<(MutexGuard<'_, State>, Fate), DiskError> {
        let mut state = self.look(what)?;
        state.operations += 1;
        let operation = state.operations;
        let fate = if state.crash_at.is_some_and(|at| at <= operation) {
            state.down = true;
            Fate::PowerOff
        } else {
            Fate::Fine
        };
        Ok((state, fate))
    }

    fn handle(&self, file: u64, name: &str) -> MemoryFile {
        self.usage.open.fetch_add(1, Ordering::Relaxed);
        MemoryFile { disk: self.clone(), file, name: name.to_owned() }
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.disk.usage.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.look("list")?.seen.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<MemoryFile, DiskError> {
        let (mut state, fate) = self.change("create")?;
        if state.seen.contains_key(name) {
            return Err(DiskError::Exists(name.to_owned()));
        }
        let number = state.new_file();
        state.rename_pending(vec![(name.to_owned(), Some(number))]);
        fate.end("create").map(|()| self.handle(number, name))
    }

    fn open(&self, name: &str) -> Result<MemoryFile, DiskError> {
        let state = self.look("open")?;
        let number = state.seen.get(name).ok_or_else(|| DiskError::NotFound(name.to_owned()))?;
        Ok(self.handle(*number, name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let (mut state, fate) = self.change("rename")?;
        let number = *state.seen.get(from).ok_or_else(|| DiskError::NotFound(from.to_owned()))?;
        state.rename_pending(vec![(from.to_owned(), None), (to.to_owned(), Some(number))]);
        fate.end("rename")
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let (mut state, fate) = self.change("remove")?;
        if !state.seen.contains_key(name) {
            return Err(DiskError::NotFound(name.to_owned()));
        }
        state.rename_pending(vec![(name.to_owned(), None)]);
        fate.end("remove")
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        let (mut state, fate) = self.change("sync the directory")?;
        let pending = state.pending.len();
        let kept = match fate {
            Fate::Fine => pending,
            Fate::PowerOff => state.random.below(pending as u64 + 1) as usize,
        };
        state.store_names(kept);
        fate.end("sync the directory")
    }
}

impl DiskFile for MemoryFile {
    fn length(&self) -> Result<u64, DiskError> {
        let state = self.disk.look("length")?;
        Ok(state.files[&self.file].seen.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let state = self.disk.look("read")?;
        let seen = &state.files[&self.file].seen;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(seen.len());
        let length = buffer.len().min(seen.len() - from);
        buffer[..length].copy_from_slice(&seen[from..from + length]);
        self.disk.usage.reads.fetch_add(1, Ordering::Relaxed);
        self.disk.usage.bytes_read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let (mut state, fate) = self.disk.change("write")?;
        let free = state.free();
        let file = state.file(self.file);
        let offset = offset as usize;
        let room = (file.seen.len() as u64).saturating_add(free) as usize;
        let fits = bytes.len().min(room.saturating_sub(offset));
        file.write(offset, &bytes[..fits]);
        fate.end("write")?;
        if fits < bytes.len() { Err(DiskError::Full) } else { Ok(()) }
    }

    fn sync(&self) -> Result<(), DiskError> {
        let (mut state, fate) = self.disk.change("sync")?;
        let fails = state.fail_sync_at.is_some_and(|at| at <= state.operations);
        if fails {
            state.fail_sync_at = None;
        }
        let loss = match fate {
            Fate::Fine if !fails => Loss::Nothing,
            _ => state.random.loss(),
        };
        let mut random = state.random;
        state.file(self.file).store(loss, &mut random);
        state.random = random;
        fate.end("sync")?;
        if fails {
            Err(failed(&format!("sync {}", self.name), "input/output error"))
        } else {
            Ok(())
        }
    }

    fn truncate(&self, length: u64) -> Result<(), DiskError> {
        let (mut state, fate) = self.disk.change("truncate")?;
        let file = state.file(self.file);
        Arc::make_mut(&mut file.seen).resize(length as usize, 0);
        file.pending.push(Change::Truncate(length as usize));
        fate.end("truncate")
    }
}

#[derive(Debug)]
struct State {
    /// Content by number.
    files: BTreeMap<u64, File>,
    /// Names as programs see them.
    seen: BTreeMap<String, u64>,
    /// Names as stored.
    stored: BTreeMap<String, u64>,
    /// Unsynced changes of names. Each is atomic.
    pending: Vec<Vec<(String, Option<u64>)>>,
    random: Random,
    capacity: u64,
    operations: u64,
    crash_at: Option<u64>,
    fail_sync_at: Option<u64>,
    down: bool,
    generation: u64,
}

impl State {
    fn new_file(&mut self) -> u64 {
        let number = self.files.keys().next_back().map_or(1, |last| last + 1);
        self.files.insert(number, File::new());
        number
    }

    fn file(&mut self, number: u64) -> &mut File {
        self.files.get_mut(&number).expect("an open file is kept")
    }

    fn free(&self) -> u64 {
        if self.capacity == u64::MAX {
            return u64::MAX;
        }
        let used: u64 = self.seen.values().map(|file| self.files[file].seen.len() as u64).sum();
        self.capacity.saturating_sub(used)
    }

    fn rename_pending(&mut self, step: Vec<(String, Option<u64>)>) {
        apply_names(&mut self.seen, &step);
        self.pending.push(step);
    }

    fn store_names(&mut self, steps: usize) {
        for step in self.pending.drain(..steps) {
            apply_names(&mut self.stored, &step);
        }
    }

    fn lose_power(&mut self) {
        let loss = self.random.loss();
        let kept = match loss {
            Loss::Everything => 0,
            Loss::Nothing => self.pending.len(),
            _ => self.random.below(self.pending.len() as u64 + 1) as usize,
        };
        self.store_names(kept);
        self.pending.clear();
        self.seen = self.stored.clone();
        let named: Vec<u64> = self.seen.values().copied().collect();
        self.files.retain(|number, _| named.contains(number));
        for file in self.files.values_mut() {
            file.store(loss, &mut self.random);
            Arc::make_mut(&mut file.seen).clone_from(&file.stored);
        }
    }
}

fn apply_names(names: &mut BTreeMap<String, u64>, step: &[(String, Option<u64>)]) {
    for (name, file) in step {
        match file {
            Some(number) => names.insert(name.clone(), *number),
            None => names.remove(name),
        };
    }
}

/// A file. Its content may be shared with a copy of the disk.
#[derive(Debug, Default)]
struct File {
    seen: Arc<Vec<u8>>,
    stored: Arc<Vec<u8>>,
    pending: Vec<Change>,
}

/// Buffers of deleted content, for reuse: a program that creates many disks spends more time on
/// allocating and freeing pages than on its writes.
static ROOMS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// Maximum number of buffers kept, and their minimum size in bytes.
const ROOMS_MAX: usize = 64;
const ROOM_MIN: usize = 64 << 10;

fn rooms() -> MutexGuard<'static, Vec<Vec<u8>>> {
    ROOMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for File {
    fn drop(&mut self) {
        for content in [&mut self.seen, &mut self.stored] {
            let Some(mut room) = Arc::into_inner(std::mem::take(content)) else { continue };
            let mut rooms = rooms();
            if ROOM_MIN <= room.capacity() && rooms.len() < ROOMS_MAX {
                room.clear();
                rooms.push(room);
            }
        }
    }
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl File {
    /// An empty file.
    fn new() -> Self {
        let room = || Arc::new(rooms().pop().unwrap_or_default());
        Self { seen: room(), stored: room(), pending: Vec::new() }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        put(Arc::make_mut(&mut self.seen), offset, bytes);
        self.pending.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    /// Stores the pending changes except for the loss. Afterwards nothing is pending.
    fn store(&mut self, loss: Loss, random: &mut Random) {
        let mut pending = std::mem::take(&mut self.pending);
        let sectors: u64 = pending.iter().map(Change::sectors).sum();
        let budget = if loss == Loss::Tail { random.below(sectors + 1) } else { u64::MAX };
        let mut storing = Storing { loss, random, budget, stale: BTreeSet::new() };
        let stored = Arc::make_mut(&mut self.stored);
        for change in &pending {
            match change {
                Change::Truncate(length) if storing.keeps_cut() => stored.resize(*length, 0),
                Change::Truncate(_) => {}
                Change::Write { offset, bytes } if loss == Loss::Nothing && !bytes.is_empty() => {
                    put(stored, *offset, bytes);
                }
                Change::Write { offset, bytes } => storing.store(stored, *offset, bytes),
            }
        }
        // Keep the buffer for reuse.
        pending.clear();
        self.pending = pending;
    }
}

/// Effect of a crash on the pending changes of one file.
struct Storing<'a> {
    loss: Loss,
    random: &'a mut Random,
    /// With [`Loss::Tail`], the number of sectors that are still stored; later ones are lost.
    budget: u64,
    /// Sectors that lost a write: no later write to them is stored either.
    stale: BTreeSet<usize>,
}

impl Storing<'_> {
    fn keeps_cut(&mut self) -> bool {
        match self.loss {
            Loss::Nothing => true,
            Loss::Everything => false,
            Loss::Sectors | Loss::Tail => self.random.coin(),
        }
    }

    fn keeps(&mut self, sector: usize) -> bool {
        let kept = match self.loss {
            Loss::Sectors => {
                if !self.random.coin() {
                    self.stale.insert(sector);
                }
                !self.stale.contains(&sector)
            }
            Loss::Tail => 0 < self.budget,
            Loss::Nothing | Loss::Everything => false,
        };
        self.budget = self.budget.saturating_sub(1);
        kept
    }

    fn store(&mut self, stored: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let sector = (offset + at) / SECTOR_BYTES;
            let end = ((sector + 1) * SECTOR_BYTES - offset).min(bytes.len());
            if self.keeps(sector) {
                put(stored, offset + at, &bytes[at..end]);
            }
            at = end;
        }
        // The length can be stored without the content.
        if matches!(self.loss, Loss::Sectors | Loss::Tail) && self.random.coin() {
            let grown = offset + self.random.below(bytes.len() as u64 + 1) as usize;
            if stored.len() < grown {
                stored.resize(grown, 0);
            }
        }
    }
}

impl Change {
    fn sectors(&self) -> u64 {
        match self {
            Self::Truncate(_) => 0,
            Self::Write { offset, bytes } => {
                ((offset + bytes.len()).div_ceil(SECTOR_BYTES) - offset / SECTOR_BYTES) as u64
            }
        }
    }
}

/// Writes over a vector as over a file.
fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// Extent of the loss of pending changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Nothing,
    Everything,
    Sectors,
    Tail,
}

/// Effect of a power failure on the current operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fine,
    PowerOff,
}

impl Fate {
    fn end(self, what: &str) -> Result<(), DiskError> {
        match self {
            Self::Fine => Ok(()),
            Self::PowerOff => Err(power_off(what)),
        }
    }
}

fn power_off(what: &str) -> DiskError {
    failed(what, "the power is off")
}

fn failed(what: &str, error: &str) -> DiskError {
    DiskError::Failed { what: what.to_owned(), error: error.to_owned() }
}

/// SplitMix64: small, and random enough here.
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, nearly uniform.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    fn loss(&mut self) -> Loss {
        match self.below(8) {
            0 => Loss::Nothing,
            1 => Loss::Everything,
            2..5 => Loss::Sectors,
            _ => Loss::Tail,
        }
    }
}
