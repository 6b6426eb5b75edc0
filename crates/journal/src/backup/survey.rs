//! What a copy has, without reading what is in it.

use places::Place;
use record::frame::Tail;

use super::{Manifest, OpenSegment, RestoreError, described, go_through, packed_behind};

/// Looks whether every object of a copy is there and as long as it must be, and every packed
/// segment continues the one before. Answers with the end of the last packed one: what stands
/// before it was read back and compared when it was packed, and is never written again.
///
/// # Errors
/// [`RestoreError::NotWhole`], also for a copy whose last run was interrupted; what the place says.
pub fn survey(place: &dyn Place) -> Result<Tail, RestoreError> {
    let (identity, manifest) = described(place)?;
    let mut packed = Tail::genesis(identity);
    let _segments = go_through((place, identity, &manifest), &mut |open, tail| match open {
        Some(open) => open_is_there(place, &manifest, open).map(|()| tail),
        None => {
            let (.., found) = packed_behind(place, tail)?;
            packed = found.contents.after;
            Ok(packed)
        }
    })?;
    for file in &manifest.files {
        is_there(place, &file.object(), file.bytes)?;
    }
    Ok(packed)
}

/// Whether the chunks of the last segment are there.
fn open_is_there(
    place: &dyn Place,
    manifest: &Manifest,
    open: &OpenSegment,
) -> Result<(), RestoreError> {
    if 1 < manifest.open.len() {
        let what = "its last run was interrupted: copy once more".to_owned();
        return Err(RestoreError::NotWhole { place: place.url().to_owned(), what });
    }
    open.chunks.iter().try_for_each(|chunk| {
        is_there(place, &open.object(chunk), chunk.to.saturating_sub(chunk.from))
    })
}

fn is_there(place: &dyn Place, object: &str, bytes: u64) -> Result<(), RestoreError> {
    let what = match place.length(object)? {
        Some(length) if length == bytes => return Ok(()),
        Some(length) => format!("{object} has {length} bytes, not {bytes}"),
        None => format!("there is no {object}"),
    };
    Err(RestoreError::NotWhole { place: place.url().to_owned(), what })
}
