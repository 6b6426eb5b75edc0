//! Finds missing or damaged objects of a backup, so that the next run writes them again.

use ledger::LogIndex;
use ports::DiskError;

use super::Backup;
use super::manifest::incomplete;
use crate::archive::{ArchiveError, ArchivedObject, ProgressObserver, report_progress};
use crate::compressed_segment::CompressedSegment;
use crate::segment;
use crate::tiered::SegmentInfo;

impl Backup {
    /// Objects that were missing or damaged when the backup was opened or checked. The next run
    /// writes them again from the log. It fails if the log's only copy of them is the damaged one.
    pub fn damaged(&self) -> &[String] {
        &self.damaged
    }

    /// Reads every compressed segment of the backup with all checksums. The other objects were read
    /// when the backup was opened. Costs one pass over the backup.
    ///
    /// # Errors
    /// When the blob store cannot be read, or the caller cancels.
    pub fn check(&mut self, watch: &mut ProgressObserver<'_>) -> Result<(), ArchiveError> {
        self.keep_valid(&mut |object, compressed| {
            compressed.check(object, &mut |bytes| report_progress(watch, bytes))
        })
    }

    /// Records the compressed segments that the backup lacks: all before the first one in chunks.
    pub(super) fn find_missing(&mut self, segments: &[SegmentInfo]) {
        let in_chunks = self.manifest.as_ref().and_then(|manifest| manifest.open.first());
        let Some(in_chunks) = in_chunks else { return };
        let copied = segments.iter().map(|segment| segment.first);
        for first in copied.take_while(|first| first.0 < in_chunks.first) {
            if !self.compressed.contains(&first) {
                self.damaged.push(segment::object_name_of(first));
            }
        }
    }

    /// Checks chunks and other files by their digests, and the header and trailer of compressed
    /// segments.
    pub(super) fn check_objects(&mut self) -> Result<(), ArchiveError> {
        self.keep_valid(&mut |_, _| Ok(()))?;
        let Some(manifest) = &mut self.manifest else { return Ok(()) };
        for open in &mut manifest.open {
            for at in 0..open.chunks.len() {
                let part = open.part(&open.chunks[at]);
                if !is_valid(part.read(&*self.store).map(drop))? {
                    self.damaged.push(part.object);
                    // The later chunks continue this one, so they are written again too.
                    open.chunks.truncate(at);
                    break;
                }
            }
        }
        for file in std::mem::take(&mut manifest.files) {
            let part = file.part();
            match is_valid(part.read(&*self.store).map(drop))? {
                true => manifest.files.push(file),
                false => self.damaged.push(part.object),
            }
        }
        Ok(())
    }

    /// Drops the compressed segments that a check finds missing or damaged.
    fn keep_valid(&mut self, check: &mut Check<'_>) -> Result<(), ArchiveError> {
        for first in self.compressed.clone() {
            let name = segment::object_name_of(first);
            let object = ArchivedObject { store: &*self.store, name: &name };
            let opened = self.open_compressed(first, &object);
            if !is_valid(opened.and_then(|compressed| check(&object, &compressed)))? {
                self.compressed.remove(&first);
                self.damaged.push(name);
            }
        }
        Ok(())
    }

    fn open_compressed(
        &self,
        first: LogIndex,
        object: &ArchivedObject<'_>,
    ) -> Result<CompressedSegment, ArchiveError> {
        let ArchivedObject { store, name } = object;
        let length = store.length(name)?;
        let length = length.ok_or_else(|| incomplete(*store, format!("{name} is missing")))?;
        let compressed = CompressedSegment::open(object, length)?;
        let base = compressed.contents.base;
        match base.identity == self.identity && base.next() == first {
            true => Ok(compressed),
            false => Err(incomplete(*store, format!("{name} holds a different segment"))),
        }
    }
}

/// Checks a compressed segment.
type Check<'a> =
    dyn FnMut(&ArchivedObject<'_>, &CompressedSegment) -> Result<(), ArchiveError> + 'a;

/// Whether a check succeeded; an error if it could not be performed.
fn is_valid(checked: Result<(), ArchiveError>) -> Result<bool, ArchiveError> {
    match checked {
        Ok(()) => Ok(true),
        Err(ArchiveError::Disk(DiskError::Damaged { .. }) | ArchiveError::Incomplete { .. }) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
