//! Index of the segments that were archived, and their locations.
//!
//! The file [`ARCHIVE_INDEX`] has one line per segment: a JSON object, a tab, and the CRC-32C of
//! the object in hexadecimal. A line is appended and synced before the local copy of its segment is
//! removed. So every segment is in the directory or in the index, whenever a crash happens. A
//! truncated last line belongs to a segment that still exists locally, and is ignored. The last
//! line may not have been synced before a crash, so it is rewritten together with the next one.
//!
//! A segment's header follows from its line. The `seal` covers every byte of the object. So opening
//! a log reads nothing from an archive, and a read detects a wrong object.
//!
//! # Costs and bounds
//! About 600 bytes on disk and 300 bytes in memory for each archived segment.

use std::collections::BTreeMap;
use std::sync::Arc;

use blobs::parse_hexadecimal;
use ledger::{Digest, LogIndex, Stamp};
use ports::{Disk, DiskError, DiskFile};
use record::checksum::crc32c;
use record::frame::{ENVELOPE_BYTES, LogIdentity, Tail};
use serde::{Deserialize, Serialize};

use crate::compressed_segment::SegmentSummary;
use crate::segment;

/// Name of the file.
pub const ARCHIVE_INDEX: &str = "archive.catalogue";
/// Version of a line.
pub const ARCHIVE_INDEX_VERSION: u32 = 1;
/// Maximum length of the file in bytes: two million segments.
const BYTES_MAX: u64 = 1 << 30;

/// An archived segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// URL of the blob store.
    pub(crate) place: Arc<str>,
    pub(crate) contents: SegmentSummary,
}

/// All lines, by the first record of their segment.
#[derive(Debug, Default)]
pub(crate) struct ArchiveIndex {
    pub(crate) entries: BTreeMap<LogIndex, Entry>,
    /// Length of the valid lines of the file; `None` while the file does not exist.
    length: Option<u64>,
    /// Offset up to which the lines are known to be durable. The last line found may not be: a
    /// process that died after a failed sync may have written it, and then a power loss removes it.
    proven: u64,
}

impl ArchiveIndex {
    pub(crate) fn load(disk: &impl Disk) -> Result<Self, DiskError> {
        let file = match disk.open(ARCHIVE_INDEX) {
            Err(DiskError::NotFound(_)) => return Ok(Self::default()),
            opened => opened?,
        };
        let length = file.length()?;
        if BYTES_MAX < length {
            return Err(damaged(BYTES_MAX, format!("the file is longer than {BYTES_MAX} bytes")));
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(0, &mut bytes)?;
        let index = Self::parse(&bytes[..read])?;
        let sound = index.length.unwrap_or(0);
        index.check_truncated_line(disk, (sound, &bytes[sound as usize..read]))?;
        Ok(index)
    }

    /// Checks that a truncated line belongs to a segment that still exists locally.
    fn check_truncated_line(
        &self,
        disk: &impl Disk,
        (at, cut): (u64, &[u8]),
    ) -> Result<(), DiskError> {
        let Some(first) = first_of(cut).filter(|first| !self.entries.contains_key(first)) else {
            return Ok(());
        };
        let (plain, compressed) = (segment::name_of(first), segment::compressed_name_of(first));
        match disk.list()?.iter().any(|name| *name == plain || *name == compressed) {
            true => Ok(()),
            false => Err(damaged(
                at,
                format!(
                    "its last line is cut short or changed, and neither {plain} nor {compressed} \
                     exists"
                ),
            )),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, DiskError> {
        let mut index = Self::default();
        let mut at = 0;
        while at < bytes.len() {
            // Truncated: the segment was not removed yet.
            let Some(length) = bytes[at..].iter().position(|&byte| byte == b'\n') else { break };
            let line = &bytes[at..at + length];
            let last = at + length + 1 == bytes.len();
            match (read_line(line), last) {
                (Ok((first, entry)), _) => {
                    index.take(first, entry);
                    index.proven = at as u64;
                }
                (Err(_), true) => break,
                (Err(reason), false) => {
                    return Err(damaged(at as u64, format!("invalid line: {reason}")));
                }
            }
            at += length + 1;
        }
        index.length = Some(at as u64);
        Ok(index)
    }

    /// Adds a line, durable when this returns.
    pub(crate) fn add(&mut self, disk: &impl Disk, entry: Entry) -> Result<(), DiskError> {
        let line = write_line(&entry);
        let (file, at) = match self.length {
            Some(length) => (disk.open(ARCHIVE_INDEX)?, length),
            None => (disk.create(ARCHIVE_INDEX)?, 0),
        };
        self.length = Some(at);
        truncate_after(&file, at)?;
        let mut bytes = read_between(&file, (self.proven, at))?;
        bytes.extend_from_slice(line.as_bytes());
        file.write_at(self.proven, &bytes)?;
        file.sync()?;
        disk.sync_directory()?;
        let length = at + line.len() as u64;
        (self.length, self.proven) = (Some(length), length);
        self.take(entry.contents.base.next(), entry);
        Ok(())
    }

    /// A later line for the same segment replaces the earlier one.
    fn take(&mut self, first: LogIndex, entry: Entry) {
        let known = self.entries.values().next_back().map(|last| &last.place);
        let place = match known.filter(|known| **known == entry.place) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(&entry.place),
        };
        self.entries.insert(first, Entry { place, ..entry });
    }
}

/// Truncates the file after the valid lines before the next line is written. Otherwise a crash
/// could leave a mixture of both, an invalid line that is not the last one.
fn truncate_after(file: &impl DiskFile, at: u64) -> Result<(), DiskError> {
    if file.length()? <= at {
        return Ok(());
    }
    file.truncate(at)?;
    file.sync()
}

/// Bytes to rewrite: none, or the last line found.
fn read_between(file: &impl DiskFile, (from, to): (u64, u64)) -> Result<Vec<u8>, DiskError> {
    let mut bytes = vec![0; (to - from) as usize];
    match file.read_at(from, &mut bytes)? == bytes.len() {
        true => Ok(bytes),
        false => Err(damaged(from, "the file has become shorter".into())),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    version: u32,
    log: String,
    first: u64,
    last: u64,
    stamp_before: u64,
    chain_before: String,
    stamp: u64,
    chain: String,
    frames: u64,
    bytes: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    encrypted_frames: u32,
    blake3: String,
    #[serde(rename = "packed_bytes")]
    compressed_bytes: u64,
    seal: String,
    place: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn write_line(entry: &Entry) -> String {
    let SegmentSummary { base, after, .. } = &entry.contents;
    let line = Line {
        version: ARCHIVE_INDEX_VERSION,
        log: base.identity.to_string(),
        first: base.next().0,
        last: after.end.0,
        stamp_before: base.stamp.0,
        chain_before: base.chain.to_string(),
        stamp: after.stamp.0,
        chain: after.chain.to_string(),
        frames: entry.contents.frames,
        bytes: entry.contents.plain_bytes,
        encrypted_frames: entry.contents.encrypted_frames,
        blake3: entry.contents.plain_digest.to_string(),
        compressed_bytes: entry.contents.compressed_bytes,
        seal: entry.contents.seal.to_string(),
        place: entry.place.to_string(),
    };
    let text = serde_json::to_string(&line).expect("a line is text and numbers");
    format!("{text}\t{:08x}\n", crc32c(text.as_bytes()))
}

fn read_line(bytes: &[u8]) -> Result<(LogIndex, Entry), &'static str> {
    let tab = bytes.iter().rposition(|&byte| byte == b'\t').ok_or("missing checksum")?;
    let (text, crc) = (&bytes[..tab], &bytes[tab + 1..]);
    if format!("{:08x}", crc32c(text)).as_bytes() != crc {
        return Err("wrong checksum");
    }
    let line: Line = serde_json::from_slice(text).map_err(|_| "not an archive index entry")?;
    if line.version != ARCHIVE_INDEX_VERSION {
        return Err("unsupported version");
    }
    entry_of(&line).ok_or("value out of range")
}

/// First record of the segment of a truncated line, if the line contains it.
fn first_of(cut: &[u8]) -> Option<LogIndex> {
    let text = String::from_utf8_lossy(cut);
    let (number, _) = text.split_once("\"first\":")?.1.split_once(',')?;
    number.parse().ok().map(LogIndex)
}

fn entry_of(line: &Line) -> Option<(LogIndex, Entry)> {
    let digest = |text: &str| parse_hexadecimal(text).map(Digest);
    let identity = LogIdentity(parse_hexadecimal(&line.log)?);
    let (before, end) = (LogIndex(line.first.checked_sub(1)?), LogIndex(line.last));
    let tail = |end, stamp, chain| Tail { identity, end, durable: end, stamp: Stamp(stamp), chain };
    let envelopes = u64::from(line.encrypted_frames) * ENVELOPE_BYTES as u64;
    line.bytes.checked_sub(envelopes)?;
    let contents = SegmentSummary {
        base: tail(before, line.stamp_before, digest(&line.chain_before)?),
        after: tail(end, line.stamp, digest(&line.chain)?),
        frames: line.frames,
        plain_bytes: line.bytes,
        encrypted_frames: line.encrypted_frames,
        plain_digest: digest(&line.blake3)?,
        compressed_bytes: line.compressed_bytes,
        seal: digest(&line.seal)?,
    };
    Some((LogIndex(line.first), Entry { place: line.place.as_str().into(), contents }))
}

fn damaged(offset: u64, reason: String) -> DiskError {
    DiskError::Damaged { file: ARCHIVE_INDEX.to_owned(), offset: Some(offset), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> SegmentSummary {
        let identity = LogIdentity(*b"identity of test");
        let tail = |end, stamp, byte| Tail {
            identity,
            end: LogIndex(end),
            durable: LogIndex(end),
            stamp: Stamp(stamp),
            chain: Digest([byte; 32]),
        };
        SegmentSummary {
            base: tail(6, 50, 1),
            after: tail(9, 70, 2),
            frames: 3,
            plain_bytes: 4_000,
            encrypted_frames: 0,
            plain_digest: Digest([3; 32]),
            compressed_bytes: 900,
            seal: Digest([4; 32]),
        }
    }

    #[test]
    fn an_index_that_is_too_long_is_not_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = std::fs::File::create(directory.path().join(ARCHIVE_INDEX)).expect("creates");
        file.set_len(BYTES_MAX + 1).expect("takes no room");
        let disk = crate::RealDisk::open(directory.path()).expect("opens");
        let error = ArchiveIndex::load(&disk).map(|_| ()).expect_err("refused").to_string();
        assert!(error.contains("longer than 1073741824 bytes"), "{error}");
    }

    /// The stored form is frozen: if this changes, archives can no longer be found.
    #[test]
    fn version_1_is_frozen() {
        let entry = Entry { place: "file:///mnt/archive".into(), contents: contents() };
        let line = write_line(&entry);
        expect_test::expect![[r#"
            {"version":1,"log":"6964656e74697479206f662074657374","first":7,"last":9,"stamp_before":50,"chain_before":"0101010101010101010101010101010101010101010101010101010101010101","stamp":70,"chain":"0202020202020202020202020202020202020202020202020202020202020202","frames":3,"bytes":4000,"blake3":"0303030303030303030303030303030303030303030303030303030303030303","packed_bytes":900,"seal":"0404040404040404040404040404040404040404040404040404040404040404","place":"file:///mnt/archive"} tab df36af7f
        "#]].assert_eq(&line.replace('\t', " tab "));
        let read = ArchiveIndex::parse(line.as_bytes()).expect("it is sound");
        assert_eq!(read.entries.get(&LogIndex(7)), Some(&entry));

        let contents = SegmentSummary { encrypted_frames: 3, ..contents() };
        let encrypted = Entry { contents, ..entry };
        let written = write_line(&encrypted);
        assert!(written.contains(r#""bytes":4000,"encrypted_frames":3,"blake3""#), "{written}");
        let read = ArchiveIndex::parse(written.as_bytes()).expect("it is sound");
        assert_eq!(read.entries.get(&LogIndex(7)), Some(&encrypted));

        // A damaged last line is the effect of a crash. A damaged earlier line is an error with its
        // offset.
        let bad = line.replace("4000", "4001");
        let read = ArchiveIndex::parse(format!("{line}{bad}").as_bytes()).expect("cut short");
        assert_eq!((read.entries.len(), read.length), (1, Some(line.len() as u64)));
        let error =
            ArchiveIndex::parse(format!("{line}{bad}{line}").as_bytes()).expect_err("damaged");
        assert!(
            matches!(&error, DiskError::Damaged { offset, .. } if *offset == Some(line.len() as u64)),
            "{error}"
        );
    }

    /// A sync fails while a line is added, and the process dies. The next process adds another
    /// line, or the same one again. Then the power fails.
    #[test]
    fn a_line_that_was_never_durable_does_not_damage_the_index() {
        let entry = |first: u64| {
            let mut contents = contents();
            contents.base.end = LogIndex(first - 1);
            Entry { place: format!("file:///{first:0300}").into(), contents }
        };
        for (seed, next) in (0..200).flat_map(|seed| [(seed, 20), (seed, 30)]) {
            let disk = crate::MemoryDisk::new(seed);
            let mut index = ArchiveIndex::default();
            index.add(&disk, entry(10)).expect("adds");
            disk.fail_sync_at(disk.operations());
            index.add(&disk, entry(20)).expect_err("its sync fails");
            let disk = disk.kill();
            disk.put(&segment::name_of(LogIndex(20)), b"still here");
            let mut index = ArchiveIndex::load(&disk).expect("the index is readable");
            index.add(&disk, entry(next)).expect("adds");
            index.add(&disk, entry(40)).expect("adds");
            let found = ArchiveIndex::load(&disk.crash()).expect("it is a list").entries;
            let sure = [10, next, 40].map(LogIndex);
            assert!(sure.iter().all(|first| found.contains_key(first)), "seed {seed}");
        }
    }

    /// A crash damages a last line that is longer than the next one. Then the power fails at each
    /// operation that adds the next line.
    #[test]
    fn two_consecutive_crashes_do_not_damage_the_index() {
        let entry = |first: u64, place: String| {
            let mut contents = contents();
            contents.base.end = LogIndex(first - 1);
            Entry { place: place.into(), contents }
        };
        for (seed, operation) in (0..200).flat_map(|seed| (1..6).map(move |at| (seed, at))) {
            let disk = crate::MemoryDisk::new(seed);
            ArchiveIndex::default().add(&disk, entry(10, "file:///here".into())).expect("adds");
            let mut lines = disk.content(ARCHIVE_INDEX).expect("a list");
            lines.extend_from_slice(&[0; 512]);
            lines.extend_from_slice(&[b'/'; 5_000]);
            lines.push(b'\n');
            disk.put(ARCHIVE_INDEX, &lines);
            let mut index = ArchiveIndex::load(&disk).expect("its last line is damaged");
            disk.crash_at(disk.operations() + operation);
            let added = index.add(&disk, entry(20, format!("file:///{:0900}", 0)));
            let disk = disk.crash();
            disk.put(&segment::name_of(LogIndex(20)), b"still here");
            let found = ArchiveIndex::load(&disk).expect("it is a list").entries;
            assert!(found.contains_key(&LogIndex(10)), "seed {seed}");
            assert!(added.is_err() || found.contains_key(&LogIndex(20)), "seed {seed}");
        }
    }

    /// A crash truncates only the line of a segment that still exists locally, plain or compressed.
    #[test]
    fn a_truncated_line_belongs_to_a_local_segment() {
        let line = write_line(&Entry { place: "file:///here".into(), contents: contents() });
        let other = line.replace("\"first\":7", "\"first\":70");
        let sealed = |text: &str| {
            let text = text.split('\t').next().expect("a line");
            format!("{text}\t{:08x}\n", crc32c(text.as_bytes()))
        };
        let load = |bytes: &str, segments: &[&str]| {
            let disk = crate::MemoryDisk::new(1);
            disk.put(ARCHIVE_INDEX, bytes.as_bytes());
            segments.iter().for_each(|name| disk.put(name, b"a segment"));
            ArchiveIndex::load(&disk).map(|index| index.entries.len())
        };
        let (plain, compressed) =
            (segment::name_of(LogIndex(70)), segment::compressed_name_of(LogIndex(70)));
        let whole = sealed(&line);
        let cut = format!("{whole}{}", &other[..other.len() - 9]);
        let error = load(&cut, &[]).expect_err("it is nowhere");
        let DiskError::Damaged { file, offset, .. } = &error else { panic!("{error}") };
        assert_eq!((&**file, *offset), (ARCHIVE_INDEX, Some(whole.len() as u64)));
        assert_eq!(load(&cut, &[&plain]), Ok(1));
        assert_eq!(load(&cut, &[&compressed]), Ok(1));
        // A later line of a known segment, and a line without a segment number.
        assert_eq!(load(&format!("{whole}{}", &line[..200]), &[]), Ok(1));
        assert_eq!(load(&format!("{whole}{}", &other[..20]), &[]), Ok(1));
    }

    /// Thousands of segments share the URL of one blob store.
    #[test]
    fn the_url_of_a_store_is_kept_once() {
        let mut index = ArchiveIndex::default();
        for (first, place) in [(1, "file:///here"), (5, "file:///here"), (9, "file:///there")] {
            index.take(LogIndex(first), Entry { place: place.into(), contents: contents() });
        }
        let places: Vec<_> = index.entries.values().map(|entry| &entry.place).collect();
        assert!(Arc::ptr_eq(places[0], places[1]) && !Arc::ptr_eq(places[1], places[2]));
        assert_eq!(&**places[2], "file:///there");
    }
}
