//! The ids of all transfers that were ever reserved. If each is in the list once, no transfer has
//! two final states: an ended transfer is no longer in flight unless it is reserved again.
//!
//! Ids are sorted in runs of [`RUN`] entries and merged at the end of the log. Cost: 25 bytes per
//! transfer, in memory or in a file. With a file: 6.5 MB of memory, and at the end 64 KiB per run,
//! which is 0.25 bytes per transfer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use ledger::{LogIndex, TransferId};

/// An id and the big-endian index of the record that reserved it. In byte order, the records of an
/// id are adjacent and ordered.
type Entry = [u8; ENTRY];
const ID: usize = 17;
const ENTRY: usize = ID + 8;

/// Entries of a sorted run.
const RUN: usize = 1 << 18;
/// Entries read from a run at once.
const READ_ENTRIES: usize = (64 << 10) / ENTRY;

/// The list of ids.
#[derive(Debug)]
pub(super) struct ReservedIds {
    recent: Vec<Entry>,
    runs: Vec<Run>,
    /// The file and its length; without one, all runs stay in memory.
    scratch: Option<(File, u64)>,
    run: usize,
    failed: Option<io::Error>,
}

/// A sorted run of entries.
#[derive(Debug)]
enum Run {
    Memory(Vec<Entry>),
    /// Offset in the file, and number of entries.
    File(u64, usize),
}

impl Default for ReservedIds {
    fn default() -> Self {
        Self::with(None, RUN)
    }
}

impl ReservedIds {
    /// A list that is kept in an empty file.
    pub(super) fn with_file(scratch: File) -> Self {
        Self::with(Some(scratch), RUN)
    }

    fn with(scratch: Option<File>, run: usize) -> Self {
        let (recent, runs) = (Vec::new(), Vec::new());
        Self { recent, runs, scratch: scratch.map(|file| (file, 0)), run, failed: None }
    }

    pub(super) fn insert(&mut self, id: &TransferId, at: LogIndex) {
        let mut entry = [0; ENTRY];
        entry[..ID].copy_from_slice(&id.to_bytes());
        entry[ID..].copy_from_slice(&at.0.to_be_bytes());
        self.recent.push(entry);
        if self.recent.len() == self.run {
            self.close_run();
        }
    }

    /// The first error of the file.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Whether a transfer is in the list. Reads the whole list; only used to describe a fault.
    pub(super) fn contains(&mut self, id: &TransferId) -> bool {
        let id = id.to_bytes();
        self.close_run();
        let mut found = false;
        let read = self.merge(&mut |entry| {
            found |= entry[..ID] == id;
            !found
        });
        self.keep_error(read);
        found
    }

    /// The first transfer by id that was reserved twice, and its second record.
    ///
    /// # Errors
    /// The first error of the file.
    pub(super) fn repeated(&mut self) -> io::Result<Option<(TransferId, LogIndex)>> {
        self.close_run();
        let (mut before, mut repeated) = (None::<Entry>, None);
        let read = self.merge(&mut |entry| {
            if before.is_some_and(|before| entry[..ID] == before[..ID]) {
                repeated = Some(*entry);
            }
            before = Some(*entry);
            repeated.is_none()
        });
        self.keep_error(read);
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(repeated.as_ref().and_then(read_entry)),
        }
    }

    fn keep_error(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.failed.get_or_insert(error);
        }
    }

    fn close_run(&mut self) {
        self.recent.sort_unstable();
        let run = match &mut self.scratch {
            None => Ok(Run::Memory(std::mem::take(&mut self.recent))),
            Some((file, length)) => {
                let (at, entries) = (*length, self.recent.len());
                *length += (entries * ENTRY) as u64;
                let written = file.write_all_at(self.recent.as_flattened(), at);
                self.recent.clear();
                written.map(|()| Run::File(at, entries))
            }
        };
        match run {
            Ok(run) => self.runs.push(run),
            Err(error) => self.keep_error(Err(error)),
        }
    }

    /// Visits the entries in order, until `visit` returns false.
    fn merge(&self, visit: &mut dyn FnMut(&Entry) -> bool) -> io::Result<()> {
        let file = self.scratch.as_ref().map(|(file, _)| file);
        let mut readers: Vec<_> = self.runs.iter().map(|run| Reader::of(run, file)).collect();
        let mut next = BinaryHeap::new();
        for (at, reader) in readers.iter_mut().enumerate() {
            next.extend(reader.next()?.map(|entry| Reverse((entry, at))));
        }
        while let Some(Reverse((entry, at))) = next.pop() {
            if !visit(&entry) {
                break;
            }
            next.extend(readers[at].next()?.map(|entry| Reverse((entry, at))));
        }
        Ok(())
    }
}

fn read_entry(entry: &Entry) -> Option<(TransferId, LogIndex)> {
    let (id, at) = entry.split_first_chunk::<ID>()?;
    let at = u64::from_be_bytes(at.try_into().ok()?);
    Some((TransferId::from_bytes(*id)?, LogIndex(at)))
}

/// Reads a run from its beginning.
struct Reader<'a> {
    entries: std::borrow::Cow<'a, [Entry]>,
    at: usize,
    /// Offset of the rest in the file, and its number of entries.
    rest: (u64, usize),
    file: Option<&'a File>,
}

impl<'a> Reader<'a> {
    fn of(run: &'a Run, file: Option<&'a File>) -> Self {
        let (buffered, rest) = match run {
            Run::Memory(entries) => (entries.as_slice(), (0, 0)),
            Run::File(at, entries) => (&[][..], (*at, *entries)),
        };
        Self { entries: buffered.into(), at: 0, rest, file }
    }

    fn next(&mut self) -> io::Result<Option<Entry>> {
        if let (true, Some(file)) = (self.at == self.entries.len() && 0 < self.rest.1, self.file) {
            let count = self.rest.1.min(READ_ENTRIES);
            let entries = self.entries.to_mut();
            entries.resize(count, [0; ENTRY]);
            file.read_exact_at(entries.as_flattened_mut(), self.rest.0)?;
            self.rest = (self.rest.0 + (count * ENTRY) as u64, self.rest.1 - count);
            self.at = 0;
        }
        let entry = self.entries.get(self.at).copied();
        self.at += 1;
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of all five forms.
    fn id(number: u64) -> TransferId {
        let mut bytes = [0; ID];
        bytes[0] = [0, 4, 5, 6, 7][(number % 5) as usize];
        bytes[9..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        TransferId::from_bytes(bytes).expect("an id")
    }

    fn both(run: usize) -> [ReservedIds; 2] {
        let file = tempfile::tempfile().expect("a file");
        [ReservedIds::with(None, run), ReservedIds::with(Some(file), run)]
    }

    #[test]
    fn repeated_id_is_found_at_any_position() {
        for count in [1_u64, 99, 100, 101, 10_000] {
            for again in [None, Some(0), Some(count / 2), Some(count - 1)] {
                for mut list in both(100) {
                    (0..count).for_each(|at| list.insert(&id(at), LogIndex(at + 1)));
                    again.into_iter().for_each(|at| list.insert(&id(at), LogIndex(count + 1)));
                    assert!(!list.contains(&id(count)), "{count}");
                    assert!(list.contains(&id(count - 1)), "{count}");
                    let found = list.repeated().expect("it reads");
                    assert_eq!(found, again.map(|at| (id(at), LogIndex(count + 1))), "{count}");
                }
            }
        }
    }

    #[test]
    fn file_error_is_reported() {
        let file = File::open("/dev/null").expect("it opens to be read");
        let mut list = ReservedIds::with(Some(file), 2);
        list.insert(&id(0), LogIndex(1));
        assert!(list.failure().is_none(), "nothing was written");
        (1..5).for_each(|at| list.insert(&id(at), LogIndex(at + 1)));
        assert!(list.failure().is_some());
        assert!(list.repeated().is_err());
    }
}
