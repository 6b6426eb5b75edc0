//! The result of opening a log for each kind of damage in each region. It is compared with the
//! table in `docs/internals/log-format.md`.

use journal::contract::{IDENTITY, frame_after};
use journal::{FileLog, LogOptions, MemoryDisk, OpenError};
use ports::{Disk, Log};
use record::frame::FRAME_HEADER_BYTES;

use crate::common::{STRICT, frame_offsets};

const OPTIONS: LogOptions = LogOptions { segment_bytes: 6_000, ..STRICT };
const DOCUMENT: &str = include_str!("../../../../docs/internals/log-format.md");
const DAMAGES: [&str; 4] = ["flipped", "cut off from there", "doubled", "swapped"];

/// A region of a frame or a segment: name, start and length.
const SEGMENT_HEADER: (&str, usize, usize) = ("segment header", 0, 64);
const OF_A_FRAME: [(&str, usize, usize); 6] = [
    ("frame: magic and length", 0, 12),
    ("frame: log indexes and stamp", 32, 64),
    ("frame: chain and checksums", 128, 40),
    ("record: header", FRAME_HEADER_BYTES, 20),
    ("record: digest of the payload", FRAME_HEADER_BYTES + 20, 32),
    ("record: payload", FRAME_HEADER_BYTES + 60, 600),
];

/// The damaged frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// In a closed segment.
    Closed,
    /// In the last segment, before a frame that proves its durability.
    Durable,
    /// The last frame, which was not synced.
    End,
}

#[test]
fn opening_matches_the_documented_table() {
    let mut table = format!("| Region | {} |\n|---|---|---|---|---|\n", DAMAGES.join(" | "));
    for (which, name) in [
        (Which::Closed, "closed segment"),
        (Which::Durable, "last segment, synced"),
        (Which::End, "last frame, not synced"),
    ] {
        let header = (which != Which::End).then_some((SEGMENT_HEADER, 0));
        let frames = OF_A_FRAME.map(|region| (region, 512));
        for ((region, start, length), _) in header.into_iter().chain(frames) {
            let of_segment = region == SEGMENT_HEADER.0;
            let cells =
                [0, 1, 2, 3].map(|damage| check(which, of_segment, (start, length), damage));
            table += &format!("| {name}: {region} | {} |\n", cells.join(" | "));
        }
    }
    assert!(DOCUMENT.contains(&table), "docs/internals/log-format.md should have:\n{table}");
}

/// Damages a sample and opens it. Returns the result as a word.
fn check(
    which: Which,
    of_segment: bool,
    (start, length): (usize, usize),
    damage: usize,
) -> &'static str {
    let disk = sample();
    let names = disk.list().expect("lists");
    let at = if which == Which::Closed { 1 } else { names.len() - 1 };
    let name = &names[at];
    let mut bytes = disk.content(name).expect("exists");
    let offsets = frame_offsets(&bytes);
    let (frame, other) = match which {
        Which::End => (offsets[offsets.len() - 2], offsets[offsets.len() - 3]),
        _ => (offsets[0], offsets[1]),
    };
    let from = start + if of_segment { 0 } else { frame };
    match damage {
        0 => bytes[from + length / 2] ^= 0x20,
        1 => bytes.truncate(from),
        2 => drop(bytes.splice(from..from, bytes[from..from + length].to_vec())),
        _ if of_segment => {
            let others = disk.content(&names[at - 1]).expect("exists");
            bytes[..length].copy_from_slice(&others[..length]);
        }
        _ => swap(&mut bytes, (from, start + other), length),
    }
    disk.put(name, &bytes);
    let end = FileLog::open(disk.clone(), OPTIONS);
    match end {
        Err(OpenError::Damaged(damage)) => {
            let shown = damage.to_string();
            assert!(shown.contains("Nothing was changed."), "{shown}");
            assert_eq!(disk.content(name).as_ref(), Some(&bytes), "nothing was changed");
            // A gap is detected at the next frame, hence at the start of the next segment.
            let place = names.iter().position(|known| *known == damage.segment).expect("named");
            assert!(place == at || place == at + 1, "{damage} is not about {name}");
            "refused"
        }
        Err(other) => panic!("{other}"),
        Ok((log, report)) => {
            if which == Which::End {
                assert_eq!(log.tail().end.0, 11, "all that was synced is there");
                return "repaired";
            }
            // The truncated bytes contain no proof of durability.
            let cut = which == Which::Durable && damage == 1;
            assert!(cut, "something durable is gone, and not by a cut: {report:?}");
            "looks like a torn end"
        }
    }
}

fn swap(bytes: &mut [u8], (one, other): (usize, usize), length: usize) {
    let first = bytes[one..one + length].to_vec();
    bytes.copy_within(other..other + length, one);
    bytes[other..other + length].copy_from_slice(&first);
}

/// Eleven synced frames of one record each and an unsynced one, three to a segment. All payloads
/// differ, so that exchanging two of them changes the log.
fn sample() -> MemoryDisk {
    let disk = MemoryDisk::new(7);
    let mut log = FileLog::create(disk.clone(), IDENTITY, OPTIONS).expect("creates");
    for number in 0..12 {
        log.append(&frame_after(&log.tail(), &[1_200 + number])).expect("appends");
        if number < 11 {
            log.sync().expect("syncs");
        }
    }
    drop(log);
    disk.kill()
}
