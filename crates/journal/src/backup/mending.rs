//! What of a copy is not as it was left, so that the next run writes it again.

use ledger::Position;
use places::Place;
use ports::DiskError;

use super::{Backup, digest_of};
use crate::archive::{ArchiveError, Object, Watch, went_on};
use crate::packed::Packed;
use crate::segment;
use crate::tiered::SegmentInfo;

impl Backup {
    /// Objects that were missing or damaged when the copy was looked at. The next run writes them
    /// again, from the log; one that the log itself has only there is an error of that run.
    pub fn damaged(&self) -> &[String] {
        &self.damaged
    }

    /// Reads every packed segment of the copy with all checksums; what else is there was read when
    /// the copy was opened. Costs a pass over the copy.
    ///
    /// # Errors
    /// When the place cannot be read, or somebody says to stop.
    pub fn check(&mut self, watch: &mut Watch<'_>) -> Result<(), ArchiveError> {
        for first in self.packed.clone() {
            let name = segment::object_name_of(first);
            let object = Object { place: &*self.place, name: &name };
            let Some(packed) = open_packed(&object)? else { continue };
            if packed.damage(&object, &mut |bytes| went_on(watch, bytes))?.is_some() {
                self.forget(first);
            }
        }
        Ok(())
    }

    /// Notes the packed segments that were in the copy and are gone. All those before the ones in
    /// chunks were.
    pub(super) fn miss(&mut self, segments: &[SegmentInfo]) {
        let in_chunks = self.manifest.as_ref().and_then(|manifest| manifest.open.first());
        let Some(in_chunks) = in_chunks else { return };
        let copied = segments.iter().map(|segment| segment.first);
        for first in copied.take_while(|first| first.0 < in_chunks.first) {
            if !self.packed.contains(&first) {
                self.damaged.push(segment::object_name_of(first));
            }
        }
    }

    /// Looks whether everything else is there, and what it was when it was written: chunks and
    /// other files by their digests, packed segments by what begins and ends them.
    pub(super) fn look_over(&mut self) -> Result<(), ArchiveError> {
        for first in self.packed.clone() {
            let name = segment::object_name_of(first);
            let packed = open_packed(&Object { place: &*self.place, name: &name })?;
            let is_own = |packed: &Packed| {
                let base = packed.contents.base;
                base.identity == self.identity && base.next() == first
            };
            if !packed.as_ref().is_some_and(is_own) {
                self.forget(first);
            }
        }
        let Some(mut manifest) = self.manifest.take() else { return Ok(()) };
        for open in &mut manifest.open {
            for at in 0..open.chunks.len() {
                let chunk = &open.chunks[at];
                let (object, bytes) = (open.object(chunk), chunk.to.saturating_sub(chunk.from));
                if !is_as_left(&*self.place, &object, (bytes, &chunk.blake3))? {
                    self.damaged.push(object);
                    // Those behind it are written again too: they follow each other.
                    open.chunks.truncate(at);
                    break;
                }
            }
        }
        let mut whole = Vec::new();
        for file in std::mem::take(&mut manifest.files) {
            match is_as_left(&*self.place, &file.object(), (file.bytes, &file.blake3))? {
                true => whole.push(file),
                false => self.damaged.push(file.object()),
            }
        }
        manifest.files = whole;
        self.manifest = Some(manifest);
        Ok(())
    }

    fn forget(&mut self, first: Position) {
        self.packed.remove(&first);
        self.damaged.push(segment::object_name_of(first));
    }
}

/// A packed segment of the copy, unless what begins or ends it is damaged.
fn open_packed(object: &Object<'_>) -> Result<Option<Packed>, ArchiveError> {
    let Some(length) = object.place.length(object.name)? else { return Ok(None) };
    match Packed::open(object, length) {
        Err(DiskError::Damaged { .. }) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

fn is_as_left(
    place: &dyn Place,
    object: &str,
    (bytes, blake3): (u64, &str),
) -> Result<bool, ArchiveError> {
    if place.length(object)? != Some(bytes) {
        return Ok(false);
    }
    Ok(digest_of(&places::get(place, object, bytes)?) == blake3)
}
