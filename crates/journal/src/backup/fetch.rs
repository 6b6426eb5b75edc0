//! Restores a log from a backup, and checks the inventory of a backup.

use blobs::BlobStore;
use ledger::LogIndex;
use ports::{Disk, DiskError, DiskFile};
use record::frame::{LogIdentity, Tail};

use super::is_companion;
use super::manifest::{CopiedFile, MANIFEST, Manifest, OpenSegment, incomplete};
use crate::archive::{
    self, ArchiveError, ArchivedObject, Original, ProgressObserver, report_progress,
};
use crate::compressed_segment::CompressedSegment;
use crate::file_log::same_end;
use crate::recovery::LogWalk;
use crate::scan::{self, Part};
use crate::segment::{self, SEGMENT_HEADER_BYTES};
use crate::tiered::CompressedBytes;

/// A backup that was fetched, before its log was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedBackup {
    /// Names of the files other than segments.
    pub files: Vec<String>,
    /// The last record, from the manifest.
    pub end: LogIndex,
    chain: String,
    store: String,
}

impl FetchedBackup {
    /// Compares the log, read from its first record, with the manifest.
    ///
    /// # Errors
    /// [`ArchiveError::Incomplete`].
    pub fn check(&self, walked: &LogWalk) -> Result<(), ArchiveError> {
        let Tail { end, chain, .. } = walked.tail;
        if (end, chain.to_string()) == (self.end, self.chain.clone()) && walked.torn.is_none() {
            return Ok(());
        }
        let what = format!("the backup ends at record {} instead of {}", end.0, self.end.0);
        Err(ArchiveError::Incomplete { store: self.store.clone(), what })
    }
}

/// Creates the files of a log from a backup, in an empty directory or in one where an earlier
/// attempt was interrupted. The caller must read the log and compare it ([`FetchedBackup::check`])
/// before using it.
///
/// # Errors
/// Any [`ArchiveError`]. The directory then holds no usable log.
pub fn fetch<D: Disk>(
    store: &dyn BlobStore,
    disk: &D,
    watch: &mut ProgressObserver<'_>,
) -> Result<FetchedBackup, ArchiveError> {
    let copy = Copy::open(store)?;
    copy.visit(&mut |open, tail| match open {
        Some(open) => copy.fetch_open(disk, open, (tail, &mut *watch)),
        None => copy.fetch_compressed(disk, tail, watch),
    })?;
    let Copy { manifest, .. } = &copy;
    for file in &manifest.files {
        copy.fetch_file(disk, file)?;
    }
    disk.sync_directory()?;
    Ok(FetchedBackup {
        files: manifest.files.iter().map(|file| file.name.clone()).collect(),
        end: LogIndex(manifest.end),
        chain: manifest.chain.clone(),
        store: store.url().to_owned(),
    })
}

/// Checks without reading content that every object of a backup exists with its length, and that
/// every compressed segment continues the one before. Returns the end of the last compressed
/// segment. The segments up to there were verified when they were written, and are never written
/// again.
///
/// # Errors
/// [`ArchiveError::Incomplete`], also for a backup whose last run was interrupted; errors of the
/// blob store.
pub fn survey(store: &dyn BlobStore) -> Result<Tail, ArchiveError> {
    let copy = Copy::open(store)?;
    let mut compressed = Tail::genesis(copy.identity);
    copy.visit(&mut |open, tail| match open {
        Some(_) if 1 < copy.manifest.open.len() => {
            Err(incomplete(store, "the last backup was interrupted; run it again".to_owned()))
        }
        Some(_) => Ok(tail),
        None => {
            compressed = copy.compressed_after(tail)?.1.contents.after;
            Ok(compressed)
        }
    })?;
    copy.manifest.parts().try_for_each(|part| part.check_length(store))?;
    Ok(compressed)
}

/// Whether a backup has this file next to the segments.
///
/// # Errors
/// [`ArchiveError::Incomplete`]; errors of the blob store.
pub fn has_file(store: &dyn BlobStore, name: &str) -> Result<bool, ArchiveError> {
    Ok(Copy::open(store)?.manifest.files.iter().any(|file| file.name == name))
}

/// A backup being read.
struct Copy<'a> {
    store: &'a dyn BlobStore,
    identity: LogIdentity,
    manifest: Manifest,
}

/// Called for each segment in order, with its chunks if it is not compressed, and the log's tail
/// before it. Returns the log's tail after it.
type Visit<'a> = dyn FnMut(Option<&OpenSegment>, Tail) -> Result<Tail, ArchiveError> + 'a;

impl<'a> Copy<'a> {
    fn open(store: &'a dyn BlobStore) -> Result<Self, ArchiveError> {
        let missing = |what: &str| incomplete(store, what.to_owned());
        let identity = blobs::owner(store)?.ok_or_else(|| missing("no backup found"))?;
        let manifest = Manifest::read(store)?
            .ok_or_else(|| missing("backup.json is missing: no backup was completed"))?;
        match manifest.is_of(identity) {
            true => Ok(Self { store, identity, manifest }),
            false => Err(missing("backup.json belongs to another log")),
        }
    }

    fn incomplete(&self, what: String) -> ArchiveError {
        incomplete(self.store, what)
    }

    /// Visits the segments. After an interrupted run, chunks may exist for segments before
    /// compressed ones.
    fn visit(&self, visit: &mut Visit<'_>) -> Result<(), ArchiveError> {
        let all = &self.manifest.open;
        let last =
            all.last().ok_or_else(|| self.incomplete("the end of the backup is missing".into()))?;
        let mut tail = Tail::genesis(self.identity);
        loop {
            let open = all.iter().find(|open| open.first == tail.next().0);
            let next = visit(open, tail)?;
            if open == Some(last) {
                return Ok(());
            }
            if next.end <= tail.end {
                let what = format!("the segment after record {} is empty", tail.end.0);
                return Err(self.incomplete(what));
            }
            tail = next;
        }
    }

    /// The compressed segment after `tail` and the name of its object.
    fn compressed_after(&self, tail: Tail) -> Result<(String, CompressedSegment), ArchiveError> {
        let name = segment::object_name_of(tail.next());
        let length = self.store.length(&name)?.ok_or_else(|| {
            self.incomplete(format!(
                "the records from {} on are missing: {name} does not exist",
                tail.next().0
            ))
        })?;
        let compressed =
            CompressedSegment::open(&ArchivedObject { store: self.store, name: &name }, length)?;
        match same_end(&compressed.contents.base, &tail) {
            true => Ok((name, compressed)),
            false => Err(self.incomplete(format!("{name} does not continue the previous segment"))),
        }
    }

    /// Fetches the compressed segment after `tail`.
    fn fetch_compressed<D: Disk>(
        &self,
        disk: &D,
        tail: Tail,
        watch: &mut ProgressObserver<'_>,
    ) -> Result<Tail, ArchiveError> {
        let (object, compressed) = self.compressed_after(tail)?;
        let source = ArchivedObject { store: self.store, name: &object };
        let original =
            Original::Compressed { compressed: &compressed, source: &source, cipher: None };
        if !has_segment(disk, tail.next(), &original, watch)? {
            match archive::keep(disk, tail.next(), &original, watch) {
                Err(ArchiveError::Disk(DiskError::Damaged { .. })) => {
                    compressed.check::<ArchiveError>(&source, &mut |_| Ok(()))?;
                    let what = format!("{object} did not arrive intact; try again");
                    return Err(self.incomplete(what));
                }
                kept => kept?,
            };
        }
        Ok(compressed.contents.after)
    }

    /// Assembles the segment after `tail` from its chunks.
    fn fetch_open<D: Disk>(
        &self,
        disk: &D,
        open: &OpenSegment,
        (tail, watch): (Tail, &mut ProgressObserver<'_>),
    ) -> Result<Tail, ArchiveError> {
        let name = segment::name_of(LogIndex(open.first));
        archive::remove_if_there(disk, &name)?;
        let file = disk.create(&name)?;
        let mut at = 0;
        for chunk in &open.chunks {
            let part = open.part(chunk);
            let bytes = part.read(self.store)?;
            if (chunk.from, chunk.to) != (at, at + bytes.len() as u64) {
                let what = format!("{} does not continue the previous chunk", part.object);
                return Err(self.incomplete(what));
            }
            file.write_at(at, &bytes)?;
            at = chunk.to;
            report_progress(watch, bytes.len())?;
        }
        file.sync()?;
        // The caller checks the chain of the whole log; this scan only finds the end.
        let part = Part { file: &file, limit: at };
        Ok(scan::tail_by_headers(part, (SEGMENT_HEADER_BYTES, tail))?)
    }

    fn fetch_file<D: Disk>(&self, disk: &D, file: &CopiedFile) -> Result<(), ArchiveError> {
        let name = &file.name;
        if !is_companion(name) || name.contains('/') {
            let what = format!("{MANIFEST} names the file {name:?}, which is never copied");
            return Err(self.incomplete(what));
        }
        let bytes = file.part().read(self.store)?;
        archive::remove_if_there(disk, name)?;
        let file = disk.create(name)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        Ok(())
    }
}

/// Whether an earlier attempt has fetched the complete segment.
fn has_segment<D: Disk>(
    disk: &D,
    first: LogIndex,
    original: &Original<'_, D::File>,
    watch: &mut ProgressObserver<'_>,
) -> Result<bool, ArchiveError> {
    let name = segment::compressed_name_of(first);
    let file = match disk.open(&name) {
        Err(DiskError::NotFound(_)) => return Ok(false),
        opened => opened?,
    };
    let length = file.length()?;
    let source = CompressedBytes::Local { file, name };
    let opened = CompressedSegment::open(&source, length).map_err(ArchiveError::from);
    match opened.and_then(|compressed| original.compare((&compressed, &source), watch)) {
        Ok(()) => Ok(true),
        Err(ArchiveError::Disk(DiskError::Damaged { .. }) | ArchiveError::Differs { .. }) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
