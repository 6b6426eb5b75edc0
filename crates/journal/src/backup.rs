//! A copy of a log in another place, kept while the log grows, and a log made of such a copy.
//!
//! # What is there
//! - `segments/`: closed segments, packed, as in an archive; an archive may be the same place.
//! - `open/`: the bytes of segments that are not packed there yet, in chunks.
//! - `files/`: the other files of the directory, each under its name and the start of its digest.
//! - [`MANIFEST`]: which chunks and files belong together, and where the copy ends. It is written
//!   last and in one step; what it names is never changed, and removed only once no manifest names
//!   it. So there is a whole copy at any moment, whatever was interrupted.
//!
//! # What is copied of the open segment
//! The writer need not stand still: the copy goes up to the last whole frame. Before those bytes
//! are copied the file is synced, so that the copy never holds what the log itself could lose.
//!
//! # Costs and bounds
//! A run reads what is new since the last one. A chunk is written again until it has
//! [`CHUNK_BYTES`], so at most so much is written twice. Memory: one chunk.

use std::collections::BTreeSet;
use std::sync::Arc;

use ledger::{Digest, Position};
use places::{Place, PlaceError, parse_hexadecimal};
use ports::{Disk, DiskError, DiskFile};
use record::frame::{LogIdentity, Tail};
use serde::{Deserialize, Serialize};

use crate::archive::{self, ArchiveError, Due, Object, PACKING, Watch, went_on};
use crate::catalogue::CATALOGUE;
use crate::file_log::same_end;
use crate::packed::Packed;
use crate::recovery::{self, OpenError, Walked};
use crate::scan::{self, Part};
use crate::segment::{self, OBJECTS, SEGMENT_HEADER_BYTES};
use crate::tiered::{SegmentInfo, Tiered};

mod mending;
mod survey;

pub use survey::survey;

/// Name of the object that makes a copy whole.
pub const MANIFEST: &str = "backup.json";
/// Version of the manifest.
pub const MANIFEST_VERSION: u32 = 1;

const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// A chunk shorter than this is replaced by a longer one.
const CHUNK_BYTES: u64 = 4 << 20;
/// Longest file beside the segments that is copied.
const FILE_BYTES_MAX: u64 = 1 << 30;
const OPEN: &str = "open";
const FILES: &str = "files";
/// States beside the log: long, never changed under their name, and never needed. So one that was
/// copied is not read again, and one that is too long is left out.
const SNAPSHOT: &str = ".snapshot";
/// Never copied: secrets, what is made anew, what is not finished, the note that this directory has
/// taken a log back from a topic, and the mark of what is durable, which is ahead of a copy that is
/// taken while the log grows.
const LEFT_OUT: [&str; 4] = ["admin-token", "kafka-taken", CATALOGUE, crate::MARK];
const UNFINISHED: [&str; 4] = [".new", ".tmp", PACKING, ".unfinished"];

/// What a copy consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    version: u32,
    log: String,
    /// The last record of the copy, the stamp of its frame, and the chain head there.
    end: u64,
    stamp: u64,
    chain: String,
    open: Vec<OpenSegment>,
    files: Vec<CopiedFile>,
}

/// A segment that is there in chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenSegment {
    first: u64,
    chunks: Vec<Chunk>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunk {
    from: u64,
    to: u64,
    blake3: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CopiedFile {
    name: String,
    bytes: u64,
    blake3: String,
}

impl OpenSegment {
    fn end(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.to)
    }

    fn object(&self, chunk: &Chunk) -> String {
        format!("{OPEN}/{:020}-{:012}-{:012}", self.first, chunk.from, chunk.to)
    }
}

impl CopiedFile {
    fn object(&self) -> String {
        format!("{FILES}/{}-{}", self.name, self.blake3.get(..16).unwrap_or_default())
    }
}

impl Manifest {
    fn objects(&self) -> BTreeSet<String> {
        let chunks =
            self.open.iter().flat_map(|open| open.chunks.iter().map(|chunk| open.object(chunk)));
        chunks.chain(self.files.iter().map(CopiedFile::object)).collect()
    }
}

/// What a run has copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The last record of the copy.
    pub end: Position,
    /// Chain head there.
    pub chain: Digest,
    /// Segments brought there by this run.
    pub segments: usize,
    /// Files brought there by this run.
    pub files: usize,
    /// Bytes written by this run.
    pub bytes: u64,
}

/// A file that does not stand in the log's directory, to be copied with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Its name in the copy.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Keeps a copy.
pub struct Backup {
    place: Arc<dyn Place>,
    identity: LogIdentity,
    manifest: Option<Manifest>,
    /// Segments that are there, packed.
    packed: BTreeSet<Position>,
    /// What was not as it was left, and is written again.
    damaged: Vec<String>,
    /// How far the open segments were scanned: where the next frame starts.
    scanned: Option<Scan>,
    copied: Copied,
}

#[derive(Clone, Copy)]
struct Scan {
    first: Position,
    offset: u64,
    tail: Tail,
}

impl Backup {
    /// Goes on with the copy in a place, or begins one. What is missing there or damaged, as far as
    /// a look shows it, is written again by the next run ([`Backup::damaged`]).
    ///
    /// # Errors
    /// As [`places::claim`]; [`ArchiveError::Forked`] when the copy there is not of this log's
    /// history.
    pub fn open<D: Disk>(log: &Tiered<D>, place: Arc<dyn Place>) -> Result<Self, ArchiveError> {
        archive::claim_for(log, &*place)?;
        let segments = log.local_segments()?;
        let base = segments.last().map(|last| last.base);
        let identity = base.ok_or_else(|| DiskError::NotFound("a log".to_owned()))?.identity;
        let names = place.list(OBJECTS)?;
        let packed = names.iter().filter_map(|name| segment::first_of_packed(name)).collect();
        let manifest = read_manifest(&*place)?;
        let copied = Copied::default();
        let damaged = Vec::new();
        let mut backup = Self { place, identity, manifest, packed, damaged, scanned: None, copied };
        backup.check_history(log)?;
        backup.miss(&log.segments()?);
        backup.look_over()?;
        Ok(backup)
    }

    /// Whether the copy is still what the last run left: nobody else has copied there since.
    ///
    /// # Errors
    /// When the place cannot be read.
    pub fn is_current(&self) -> Result<bool, ArchiveError> {
        Ok(read_manifest(&*self.place)? == self.manifest)
    }

    /// Copies what is new. What was copied stays copied if it fails.
    ///
    /// # Errors
    /// Any [`ArchiveError`]; the copy is then as of the last run that went well, or later.
    pub fn run<D: Disk>(
        &mut self,
        log: &Tiered<D>,
        extras: &[Extra],
        watch: &mut Watch<'_>,
    ) -> Result<Copied, ArchiveError> {
        self.copied = Copied::default();
        let segments = log.segments()?;
        let in_chunks: Vec<Position> = self
            .manifest
            .iter()
            .flat_map(|manifest| &manifest.open)
            .map(|open| Position(open.first))
            .collect();
        // First what was closed while nobody copied; then the end; then what was closed since.
        self.pack(log, &segments, &|first| !in_chunks.contains(&first), watch)?;
        let open = self.copy_open(log, &segments, watch)?;
        let files = self.copy_files(log.below(), extras, watch)?;
        self.publish(open, files.clone())?;
        self.pack(log, &segments, &|_| true, watch)?;
        let last = self.manifest.iter().flat_map(|manifest| &manifest.open).next_back().cloned();
        self.publish(last.into_iter().collect(), files)?;
        Ok(self.copied)
    }

    /// Brings closed segments there that are not there yet.
    fn pack<D: Disk>(
        &mut self,
        log: &Tiered<D>,
        segments: &[SegmentInfo],
        wanted: &dyn Fn(Position) -> bool,
        watch: &mut Watch<'_>,
    ) -> Result<(), ArchiveError> {
        for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
            if self.packed.contains(&segment.first) || !wanted(segment.first) {
                continue;
            }
            let due = Due { segment: segment.clone(), after: next.base };
            let contents = archive::copy_to(log, &due, &*self.place, watch)?;
            self.packed.insert(segment.first);
            self.copied.segments += 1;
            self.copied.bytes += contents.packed_bytes;
        }
        Ok(())
    }

    /// Copies what is new of the segments that are not packed there.
    fn copy_open<D: Disk>(
        &mut self,
        log: &Tiered<D>,
        segments: &[SegmentInfo],
        watch: &mut Watch<'_>,
    ) -> Result<Vec<OpenSegment>, ArchiveError> {
        let mut all = Vec::new();
        let known = self.manifest.as_ref().map_or(&[][..], |manifest| &manifest.open).to_vec();
        for (at, segment) in segments.iter().enumerate() {
            if self.packed.contains(&segment.first) {
                continue;
            }
            let held = known.iter().find(|open| open.first == segment.first.0).cloned();
            let open = held.unwrap_or(OpenSegment { first: segment.first.0, chunks: Vec::new() });
            let is_last = at + 1 == segments.len();
            all.push(self.copy_one(log, segment, is_last.then_some(Last), open, watch)?);
        }
        Ok(all)
    }

    fn copy_one<D: Disk>(
        &mut self,
        log: &Tiered<D>,
        segment: &SegmentInfo,
        last: Option<Last>,
        mut open: OpenSegment,
        watch: &mut Watch<'_>,
    ) -> Result<OpenSegment, ArchiveError> {
        let file = log.open(&segment::name_of(segment.first))?;
        let start = Scan { first: segment.first, offset: SEGMENT_HEADER_BYTES, tail: segment.base };
        let start = self.scanned.filter(|scan| scan.first == segment.first).unwrap_or(start);
        let part = Part { file: &file, limit: file.length()? };
        let scanned = scan::scan(part, (start.offset, start.tail), &mut |_, frame| {
            watch(u64::from(frame.header().length))
        })?;
        if scanned.cause == scan::Cause::Visitor {
            return Err(ArchiveError::Stopped);
        }
        if last.is_some() {
            // Now, and only now, the frames seen are stored: those before the last segment are.
            file.sync()?;
        }
        self.scanned =
            Some(Scan { first: segment.first, offset: scanned.offset, tail: scanned.tail });
        (self.copied.end, self.copied.chain) = (scanned.tail.end, scanned.tail.chain);
        if open.end() < scanned.offset {
            let short = |chunk: &Chunk| chunk.to - chunk.from < CHUNK_BYTES;
            open.chunks.pop_if(|chunk| short(chunk));
        }
        while open.end() < scanned.offset {
            let chunk = self.copy_chunk(&open, &file, scanned.offset, watch)?;
            open.chunks.push(chunk);
        }
        Ok(open)
    }

    fn copy_chunk<F: DiskFile>(
        &mut self,
        open: &OpenSegment,
        file: &F,
        end: u64,
        watch: &mut Watch<'_>,
    ) -> Result<Chunk, ArchiveError> {
        let from = open.end();
        let wanted = end.min(from + CHUNK_BYTES) - from;
        let bytes = read_part(file, from, from + wanted)?;
        if (bytes.len() as u64) < wanted {
            let file = segment::name_of(Position(open.first));
            let reason = "it has become shorter while it was copied".into();
            return Err(DiskError::Damaged { file, offset: Some(from), reason }.into());
        }
        let (to, blake3) = (from + bytes.len() as u64, digest_of(&bytes));
        let chunk = Chunk { from, to, blake3 };
        places::put(&*self.place, &open.object(&chunk), &bytes)?;
        self.copied.bytes += bytes.len() as u64;
        went_on(watch, bytes.len())?;
        Ok(chunk)
    }

    /// Copies the other files that have changed.
    fn copy_files<D: Disk>(
        &mut self,
        disk: &D,
        extras: &[Extra],
        watch: &mut Watch<'_>,
    ) -> Result<Vec<CopiedFile>, ArchiveError> {
        let mut files = Vec::new();
        for extra in extras {
            files.push(self.copy_file(&extra.name, &extra.bytes, watch)?);
        }
        for name in disk.list()?.into_iter().filter(|name| is_companion(name)) {
            let file = match disk.open(&name) {
                Err(DiskError::NotFound(_)) => continue,
                opened => opened?,
            };
            let length = file.length()?;
            if name.ends_with(SNAPSHOT) {
                if let Some(known) = self.known(&name, length) {
                    files.push(known);
                    continue;
                }
                if FILE_BYTES_MAX < length {
                    continue;
                }
            }
            if FILE_BYTES_MAX < length {
                let what = format!("copy {name}");
                let error = format!("it is longer than {FILE_BYTES_MAX} bytes");
                return Err(DiskError::Failed { what, error }.into());
            }
            let bytes = read_part(&file, 0, length)?;
            files.push(self.copy_file(&name, &bytes, watch)?);
        }
        Ok(files)
    }

    /// A file of this name and length that was copied already.
    fn known(&self, name: &str, length: u64) -> Option<CopiedFile> {
        let files = &self.manifest.as_ref()?.files;
        files.iter().find(|file| file.name == name && file.bytes == length).cloned()
    }

    fn copy_file(
        &mut self,
        name: &str,
        bytes: &[u8],
        watch: &mut Watch<'_>,
    ) -> Result<CopiedFile, ArchiveError> {
        let (name, length) = (name.to_owned(), bytes.len() as u64);
        let file = CopiedFile { name, bytes: length, blake3: digest_of(bytes) };
        let known = self.manifest.as_ref().is_some_and(|manifest| manifest.files.contains(&file));
        if !known {
            places::put(&*self.place, &file.object(), bytes)?;
            self.copied.files += 1;
            self.copied.bytes += length;
            went_on(watch, bytes.len())?;
        }
        Ok(file)
    }

    /// Makes this the copy, unless it is already; then removes what no manifest names.
    fn publish(
        &mut self,
        open: Vec<OpenSegment>,
        files: Vec<CopiedFile>,
    ) -> Result<(), ArchiveError> {
        let Some(Scan { tail, .. }) = self.scanned else { return Ok(()) };
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            log: self.identity.to_string(),
            end: tail.end.0,
            stamp: tail.stamp.0,
            chain: tail.chain.to_string(),
            open,
            files,
        };
        if self.manifest.as_ref() == Some(&manifest) {
            return Ok(());
        }
        let text = serde_json::to_vec(&manifest).expect("a manifest is text and numbers");
        places::put(&*self.place, MANIFEST, &text)?;
        let wanted = manifest.objects();
        self.manifest = Some(manifest);
        for prefix in [OPEN, FILES] {
            for name in self.place.list(prefix)? {
                let object = format!("{prefix}/{name}");
                if !wanted.contains(&object) {
                    self.place.remove(&object)?;
                }
            }
        }
        Ok(())
    }

    /// Compares the chunks there with the segments here: a log that was restored and has gone on
    /// must not write over the copy of the one that went on elsewhere.
    fn check_history<D: Disk>(&self, log: &Tiered<D>) -> Result<(), ArchiveError> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let forked =
            |reason: String| ArchiveError::Forked { place: self.place.url().to_owned(), reason };
        for open in &manifest.open {
            let file = match log.open(&segment::name_of(Position(open.first))) {
                Err(DiskError::NotFound(_)) => {
                    return Err(forked(format!("it goes on at record {}", open.first)));
                }
                opened => opened?,
            };
            for chunk in &open.chunks {
                let bytes = read_part(&file, chunk.from, chunk.to)?;
                if digest_of(&bytes) != chunk.blake3 {
                    let reason = format!(
                        "it differs in the segment that begins with record {}, at byte {} or \
                         behind it",
                        open.first, chunk.from
                    );
                    return Err(forked(reason));
                }
            }
        }
        Ok(())
    }
}

/// Marks the segment that is written to.
struct Last;

/// What was made of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Segments that were brought back.
    pub segments: usize,
    /// Names of the other files.
    pub files: Vec<String>,
    /// The whole log, read with every checksum and the chain.
    pub walked: Walked,
}

/// What was brought back of a copy, before all of it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// Segments that were brought back.
    pub segments: usize,
    /// Names of the other files.
    pub files: Vec<String>,
    /// The last record, as the copy says.
    pub end: Position,
    chain: String,
    place: String,
}

impl Brought {
    /// Holds what was read of it, from its first record on, against what the copy says.
    ///
    /// # Errors
    /// [`RestoreError::NotWhole`].
    pub fn check(&self, walked: &Walked) -> Result<(), RestoreError> {
        let found = (walked.tail.end, walked.tail.chain.to_string());
        if found == (self.end, self.chain.clone()) && walked.torn.is_none() {
            return Ok(());
        }
        let what = format!("it ends at record {}, not at {}", found.0.0, self.end.0);
        Err(RestoreError::NotWhole { place: self.place.clone(), what })
    }
}

/// Why no log was made of a copy.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The place or the disk did not do as asked, or what is there is damaged.
    #[error(transparent)]
    Copy(#[from] ArchiveError),
    /// The log that came of it is not sound.
    #[error("the log that was brought back is not sound: {0}")]
    Log(#[from] OpenError),
    /// The copy is not whole.
    #[error("{place}: {what}")]
    NotWhole {
        /// The URL.
        place: String,
        /// What is wrong.
        what: String,
    },
}

impl From<PlaceError> for RestoreError {
    fn from(error: PlaceError) -> Self {
        Self::Copy(error.into())
    }
}

impl From<DiskError> for RestoreError {
    fn from(error: DiskError) -> Self {
        Self::Copy(error.into())
    }
}

/// Makes a log of a copy in an empty directory, or goes on with one that was interrupted there,
/// and reads all of it.
///
/// # Errors
/// Any [`RestoreError`]; the directory then holds no log that may be used.
pub fn restore<D: Disk + Clone>(
    place: &dyn Place,
    disk: &D,
    watch: &mut Watch<'_>,
) -> Result<Restored, RestoreError> {
    let brought = bring(place, disk, watch)?;
    let log = Tiered::open(disk.clone())?;
    let walked =
        recovery::walk(&log, &mut |placed| watch(u64::from(placed.frame.header().length)))?;
    brought.check(&walked)?;
    let Brought { segments, files, .. } = brought;
    Ok(Restored { segments, files, walked })
}

/// The same for whoever reads all of it himself, and holds that against it ([`Brought::check`])
/// before the log is used.
///
/// # Errors
/// As [`restore`].
pub fn bring<D: Disk>(
    place: &dyn Place,
    disk: &D,
    watch: &mut Watch<'_>,
) -> Result<Brought, RestoreError> {
    let (identity, manifest) = described(place)?;
    let segments = go_through((place, identity, &manifest), &mut |open, tail| match open {
        Some(open) => bring_open(place, disk, open, (tail, &mut *watch)),
        None => bring_packed(place, disk, tail, watch),
    })?;
    for file in &manifest.files {
        bring_file(place, disk, file)?;
    }
    disk.sync_directory()?;
    Ok(Brought {
        segments,
        files: manifest.files.into_iter().map(|file| file.name).collect(),
        end: Position(manifest.end),
        chain: manifest.chain,
        place: place.url().to_owned(),
    })
}

/// Whose log a copy is of, and what belongs to it.
fn described(place: &dyn Place) -> Result<(LogIdentity, Manifest), RestoreError> {
    let not_whole = |what: String| RestoreError::NotWhole { place: place.url().to_owned(), what };
    let identity =
        places::owner(place)?.ok_or_else(|| not_whole("there is no copy here".into()))?;
    let manifest = read_manifest(place)?
        .ok_or_else(|| not_whole(format!("there is no {MANIFEST}: no copy was finished")))?;
    match manifest.log == identity.to_string() {
        true => Ok((identity, manifest)),
        false => Err(not_whole(format!("{MANIFEST} is of another log"))),
    }
}

/// Sees a segment: its chunks if it is not packed there, and the log's end before it. Gives the end
/// behind it.
type Visit<'a> = dyn FnMut(Option<&OpenSegment>, Tail) -> Result<Tail, RestoreError> + 'a;

/// Visits the segments of a copy in order. Answers with how many there are.
fn go_through(
    (place, identity, manifest): (&dyn Place, LogIdentity, &Manifest),
    visit: &mut Visit<'_>,
) -> Result<usize, RestoreError> {
    let not_whole = |what: String| RestoreError::NotWhole { place: place.url().to_owned(), what };
    let last = manifest.open.last().ok_or_else(|| not_whole("its end is missing".into()))?;
    let mut tail = Tail::genesis(identity);
    let mut segments = 0;
    // A copy that was interrupted has chunks of segments before packed ones.
    loop {
        let open = manifest.open.iter().find(|open| open.first == tail.next().0);
        let next = visit(open, tail)?;
        segments += 1;
        if open == Some(last) {
            return Ok(segments);
        }
        if next.end <= tail.end {
            return Err(not_whole(format!("the segment behind record {} is empty", tail.end.0)));
        }
        tail = next;
    }
}

/// The packed segment behind `tail`: its object, the object's length, and what it says of itself.
fn packed_behind(place: &dyn Place, tail: Tail) -> Result<(String, u64, Packed), RestoreError> {
    let not_whole = |what: String| RestoreError::NotWhole { place: place.url().to_owned(), what };
    let object = segment::object_name_of(tail.next());
    let length = place.length(&object)?.ok_or_else(|| {
        not_whole(format!(
            "the records from {} on are missing: there is no {object}",
            tail.next().0
        ))
    })?;
    let packed = Packed::open(&Object { place, name: &object }, length)?;
    if packed.contents.base.identity != tail.identity || !same_end(&packed.contents.base, &tail) {
        return Err(not_whole(format!("{object} does not continue the segments before it")));
    }
    Ok((object, length, packed))
}

/// Brings the packed segment behind `tail` back; gives the log's end behind it.
fn bring_packed<D: Disk>(
    place: &dyn Place,
    disk: &D,
    tail: Tail,
    watch: &mut Watch<'_>,
) -> Result<Tail, RestoreError> {
    let (object, length, packed) = packed_behind(place, tail)?;
    let source = Object { place, name: &object };
    let name = segment::packed_name_of(tail.next());
    if !is_there(disk, (&name, &packed), watch)? {
        archive::remove_if_there(disk, &name)?;
        let file = disk.create(&name)?;
        let mut at = 0;
        archive::copy_bytes(&source, length, &mut |bytes| {
            file.write_at(at, bytes)?;
            at += bytes.len() as u64;
            went_on(watch, bytes.len())
        })?;
        file.sync()?;
        if !is_there(disk, (&name, &packed), watch)? {
            let damage = packed.damage::<ArchiveError>(&source, &mut |_| Ok(()))?;
            let what = format!("{object} did not come as it stands there: try again");
            let not_whole = RestoreError::NotWhole { place: place.url().to_owned(), what };
            return Err(damage.map_or(not_whole, RestoreError::from));
        }
    }
    Ok(packed.contents.after)
}

/// Whether it was brought whole, by this attempt or one that was interrupted.
fn is_there<D: Disk>(
    disk: &D,
    (name, packed): (&str, &Packed),
    watch: &mut Watch<'_>,
) -> Result<bool, ArchiveError> {
    let file = match disk.open(name) {
        Err(DiskError::NotFound(_)) => return Ok(false),
        opened => opened?,
    };
    let length = file.length()?;
    let source = crate::tiered::PackedBytes::Local { file, name: name.to_owned() };
    let Ok(there) = Packed::open(&source, length) else { return Ok(false) };
    if there.contents.seal != packed.contents.seal {
        return Ok(false);
    }
    Ok(there.damage(&source, &mut |bytes| went_on(watch, bytes))?.is_none())
}

/// Makes the segment behind `tail` of its chunks; gives the log's end behind it.
fn bring_open<D: Disk>(
    place: &dyn Place,
    disk: &D,
    open: &OpenSegment,
    (tail, watch): (Tail, &mut Watch<'_>),
) -> Result<Tail, RestoreError> {
    let not_whole = |what: String| RestoreError::NotWhole { place: place.url().to_owned(), what };
    let name = segment::name_of(Position(open.first));
    archive::remove_if_there(disk, &name)?;
    let file = disk.create(&name)?;
    let mut at = 0;
    for chunk in &open.chunks {
        let object = open.object(chunk);
        let bytes = get_whole(place, &object, (CHUNK_BYTES, &chunk.blake3))?;
        if (chunk.from, chunk.to) != (at, at + bytes.len() as u64) {
            return Err(not_whole(format!("{object} is not where the chunk before it ends")));
        }
        file.write_at(at, &bytes)?;
        at = chunk.to;
        went_on(watch, bytes.len())?;
    }
    file.sync()?;
    // The chain is checked with the whole log; here it is only about where the segment ends.
    let part = Part { file: &file, limit: at };
    Ok(scan::scan(part, (SEGMENT_HEADER_BYTES, tail), &mut |_, _| Ok(()))?.tail)
}

fn bring_file<D: Disk>(
    place: &dyn Place,
    disk: &D,
    copied: &CopiedFile,
) -> Result<(), RestoreError> {
    let plain = is_companion(&copied.name) && !copied.name.contains('/');
    if !plain {
        let what = format!("{MANIFEST} names the file {:?}, which no copy has", copied.name);
        return Err(RestoreError::NotWhole { place: place.url().to_owned(), what });
    }
    let bytes = get_whole(place, &copied.object(), (FILE_BYTES_MAX, &copied.blake3))?;
    archive::remove_if_there(disk, &copied.name)?;
    let file = disk.create(&copied.name)?;
    file.write_at(0, &bytes)?;
    file.sync()?;
    Ok(())
}

/// An object, compared with its digest.
fn get_whole(
    place: &dyn Place,
    object: &str,
    (bytes_max, blake3): (u64, &str),
) -> Result<Vec<u8>, RestoreError> {
    let bytes = places::get(place, object, bytes_max)?;
    if digest_of(&bytes) != blake3 {
        let what = format!("{object} is damaged: its digest is not the one in {MANIFEST}");
        return Err(RestoreError::NotWhole { place: place.url().to_owned(), what });
    }
    Ok(bytes)
}

fn damaged(error: &serde_json::Error) -> String {
    format!(
        "it is damaged: {error}. Beside the log, delete it, and `upesi backup` writes it anew; \
         without the log, take another copy"
    )
}

fn read_manifest(place: &dyn Place) -> Result<Option<Manifest>, PlaceError> {
    let bytes = match places::get(place, MANIFEST, MANIFEST_BYTES_MAX) {
        Err(PlaceError::NotFound { .. }) => return Ok(None),
        read => read?,
    };
    let failed = |error: String| PlaceError::Failed {
        url: place.url().to_owned(),
        what: format!("read {MANIFEST}"),
        error,
    };
    let manifest: Manifest =
        serde_json::from_slice(&bytes).map_err(|error| failed(damaged(&error)))?;
    let sound = |text: &str| parse_hexadecimal::<32>(text).is_some();
    let digests = manifest.open.iter().flat_map(|open| &open.chunks).map(|chunk| &chunk.blake3);
    let mut digests = digests.chain(manifest.files.iter().map(|file| &file.blake3));
    if manifest.version != MANIFEST_VERSION {
        return Err(failed("it is of a version that this program does not read".into()));
    }
    match digests.all(|text| sound(text)) && sound(&manifest.chain) {
        true => Ok(Some(manifest)),
        false => Err(failed("a digest of it is none".into())),
    }
}

/// Whether a file of the directory is copied beside the segments. Files that later versions keep
/// there are, unless they are named above.
fn is_companion(name: &str) -> bool {
    let is_segment = segment::first_of(name).is_some() || segment::first_of_packed(name).is_some();
    let left_out = LEFT_OUT.contains(&name) || name == crate::LOCK_FILE;
    let unfinished = UNFINISHED.iter().any(|suffix| name.ends_with(suffix));
    !is_segment && !left_out && !unfinished
}

fn read_part<F: DiskFile>(file: &F, from: u64, to: u64) -> Result<Vec<u8>, DiskError> {
    let mut bytes = vec![0; (to - from) as usize];
    let read = file.read_at(from, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn digest_of(bytes: &[u8]) -> String {
    Digest(*blake3::hash(bytes).as_bytes()).to_string()
}
