//! A record anywhere in a log that was opened in a hurry is found by reading little of its segment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use journal::contract::{IDENTITY, frame_after};
use journal::{FileLog, MemoryDisk, Options, Verify};
use ledger::Position;
use ports::{Disk, DiskError, DiskFile, Log, OwnedPayload};

/// A disk that counts the bytes that were read.
#[derive(Clone)]
struct Counting<D> {
    disk: D,
    read: Arc<AtomicU64>,
}

struct CountingFile<F> {
    file: F,
    read: Arc<AtomicU64>,
}

impl<D: Disk> Counting<D> {
    fn file(&self, file: D::File) -> CountingFile<D::File> {
        CountingFile { file, read: Arc::clone(&self.read) }
    }
}

impl<D: Disk> Disk for Counting<D> {
    type File = CountingFile<D::File>;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> Result<Self::File, DiskError> {
        self.disk.create(name).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> Result<Self::File, DiskError> {
        self.disk.open(name).map(|file| self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        self.disk.sync_directory()
    }
}

impl<F: DiskFile> DiskFile for CountingFile<F> {
    fn length(&self) -> Result<u64, DiskError> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let read = self.file.read_at(offset, buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync()
    }

    fn truncate(&self, length: u64) -> Result<(), DiskError> {
        self.file.truncate(length)
    }
}

/// Frames of one to many records, short and long, over three segments.
fn write(disk: &MemoryDisk, options: Options) -> u64 {
    let mut log = FileLog::create(disk.clone(), IDENTITY, options).expect("creates");
    let mut bytes = 0;
    for number in 0_usize.. {
        let record = 300 + (number * 7_919) % 1_500;
        let many = if number.is_multiple_of(97) { 80 } else { 1 + number % 4 };
        let frame = frame_after(&log.tail(), &vec![record; many]);
        log.append(&frame).expect("there is room");
        bytes += frame.len() as u64;
        if 2 * options.segment_bytes + (1 << 20) < bytes {
            break;
        }
    }
    log.sync().expect("memory does not fail");
    log.end().0
}

#[test]
fn a_record_is_found_by_halving() {
    let segment_bytes = 8 << 20;
    let options = Options { segment_bytes, verify: Verify::LastSegment, ..Options::default() };
    let disk = MemoryDisk::new(1);
    let end = write(&disk, options);
    let read = Arc::new(AtomicU64::new(0));
    let counting = Counting { disk, read: Arc::clone(&read) };
    let (log, _) = FileLog::open(counting, options).expect("opens");
    assert_eq!(log.end(), Position(end));
    let reader = log.reader();
    let mut positions: Vec<u64> = (1..=end).step_by(23).collect();
    // The first ones are far apart, so that none finds what another has noted.
    positions.sort_by_key(|position| (position * 2_654_435_761) % 4_294_967_291);
    let mut first = 0;
    for (at, position) in positions.iter().enumerate() {
        let before = read.load(Ordering::Relaxed);
        let record = reader.read(Position(*position)).expect("it is whole").expect("it is there");
        assert_eq!(record.position, Position(*position));
        assert_eq!(record.fields, position.to_le_bytes());
        assert!(matches!(record.payload, OwnedPayload::Stored(_)));
        let taken = read.load(Ordering::Relaxed) - before;
        // Seven halvings of a window each, and the way to the frame.
        assert!(taken < 1 << 20, "record {position}, number {at}: {taken} bytes");
        if at == 0 {
            first = taken;
        }
    }
    let before = read.load(Ordering::Relaxed);
    reader.read(Position(positions[0])).expect("it is whole").expect("it is there");
    let again = read.load(Ordering::Relaxed) - before;
    assert!(again <= first.max(400_000), "{again} bytes after {first}");
}
