//! The manifest of a backup: its objects and the end of the log that they hold.

use std::collections::BTreeSet;

use blobs::{BlobError, BlobStore, parse_hexadecimal};
use record::frame::{LogIdentity, Tail};
use serde::{Deserialize, Serialize};

use super::{FILE_BYTES_MAX, digest_of};
use crate::archive::ArchiveError;

/// Name of the object that completes a backup.
pub const MANIFEST: &str = "backup.json";
/// Version of the manifest.
pub const MANIFEST_VERSION: u32 = 1;

const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// Prefix of the chunks.
pub(super) const OPEN: &str = "open";
/// Prefix of the other files.
pub(super) const FILES: &str = "files";

/// The stored form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    version: u32,
    log: String,
    /// The last record of the backup, the stamp of its frame, and the chain head there.
    pub(super) end: u64,
    stamp: u64,
    pub(super) chain: String,
    pub(super) open: Vec<OpenSegment>,
    pub(super) files: Vec<CopiedFile>,
}

/// A segment that is stored in chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenSegment {
    pub(super) first: u64,
    pub(super) chunks: Vec<Chunk>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chunk {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) blake3: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CopiedFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) blake3: String,
}

/// An object that a manifest names: a chunk or a file.
pub(super) struct Part {
    pub(super) object: String,
    bytes: u64,
    blake3: String,
}

impl OpenSegment {
    pub(super) fn end(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.to)
    }

    pub(super) fn part(&self, Chunk { from, to, blake3 }: &Chunk) -> Part {
        let object = format!("{OPEN}/{:020}-{from:012}-{to:012}", self.first);
        Part { object, bytes: to.saturating_sub(*from), blake3: blake3.clone() }
    }
}

impl CopiedFile {
    pub(super) fn part(&self) -> Part {
        let Self { name, bytes, blake3 } = self;
        let object = format!("{FILES}/{name}-{}", blake3.get(..16).unwrap_or_default());
        Part { object, bytes: *bytes, blake3: blake3.clone() }
    }
}

impl Manifest {
    pub(super) fn new(tail: &Tail, open: Vec<OpenSegment>, files: Vec<CopiedFile>) -> Self {
        Self {
            version: MANIFEST_VERSION,
            log: tail.identity.to_string(),
            end: tail.end.0,
            stamp: tail.stamp.0,
            chain: tail.chain.to_string(),
            open,
            files,
        }
    }

    pub(super) fn is_of(&self, identity: LogIdentity) -> bool {
        self.log == identity.to_string()
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        let chunks =
            self.open.iter().flat_map(|open| open.chunks.iter().map(|chunk| open.part(chunk)));
        chunks.chain(self.files.iter().map(CopiedFile::part))
    }

    /// The manifest of a blob store; `None` if no backup was completed.
    pub(super) fn read(store: &dyn BlobStore) -> Result<Option<Self>, BlobError> {
        let bytes = match blobs::get(store, MANIFEST, MANIFEST_BYTES_MAX) {
            Err(BlobError::NotFound { .. }) => return Ok(None),
            read => read?,
        };
        let failed = |error: String| BlobError::Failed {
            url: store.url().to_owned(),
            what: format!("read {MANIFEST}"),
            error,
        };
        let manifest: Self =
            serde_json::from_slice(&bytes).map_err(|error| failed(damaged(&error)))?;
        if manifest.version != MANIFEST_VERSION {
            return Err(failed("unknown version: use a newer program".into()));
        }
        let is_digest = |text: &str| parse_hexadecimal::<32>(text).is_some();
        let is_valid = |part: Part| is_digest(&part.blake3) && part.bytes <= FILE_BYTES_MAX;
        match is_digest(&manifest.chain) && manifest.parts().all(is_valid) {
            true => Ok(Some(manifest)),
            false => Err(failed("the backup manifest contains an invalid digest or length".into())),
        }
    }

    /// Writes the manifest, and removes the objects that it does not name.
    pub(super) fn write(&self, store: &dyn BlobStore) -> Result<(), BlobError> {
        let text = serde_json::to_vec(self).expect("a manifest is text and numbers");
        blobs::put(store, MANIFEST, &text)?;
        let wanted: BTreeSet<String> = self.parts().map(|part| part.object).collect();
        for prefix in [OPEN, FILES] {
            for name in store.list(prefix)? {
                let object = format!("{prefix}/{name}");
                if !wanted.contains(&object) {
                    store.remove(&object)?;
                }
            }
        }
        Ok(())
    }
}

impl Part {
    /// Checks that the object exists and has its length.
    pub(super) fn check_length(&self, store: &dyn BlobStore) -> Result<(), ArchiveError> {
        let Self { object, bytes, .. } = self;
        let what = match store.length(object)? {
            Some(length) if length == *bytes => return Ok(()),
            Some(length) => format!("{object} has {length} bytes instead of {bytes}"),
            None => format!("{object} is missing"),
        };
        Err(incomplete(store, what))
    }

    /// Reads the object and checks its digest.
    pub(super) fn read(&self, store: &dyn BlobStore) -> Result<Vec<u8>, ArchiveError> {
        self.check_length(store)?;
        let bytes = blobs::get(store, &self.object, self.bytes)?;
        match digest_of(&bytes) == self.blake3 {
            true => Ok(bytes),
            false => {
                let what = format!("{} is damaged: wrong digest", self.object);
                Err(incomplete(store, what))
            }
        }
    }
}

/// The error of an incomplete backup.
pub(super) fn incomplete(store: &dyn BlobStore, what: String) -> ArchiveError {
    ArchiveError::Incomplete { store: store.url().to_owned(), what }
}

fn damaged(error: &serde_json::Error) -> String {
    format!(
        "damaged: {error}; delete it and run `upesi backup` if the log exists, otherwise use \
         another copy"
    )
}
