//! Which transfers were ever reserved: the one thing that the account must know of every transfer
//! of the log until its end. That each is in the list once proves that none has two ends: what has
//! ended is in flight no more, and comes back only by being reserved again.
//!
//! Ids are gathered, sorted by the quarter of a million, and compared when the log has ended. Cost:
//! 25 bytes for a transfer, in memory or in a file; with a file 6.5 MB of memory, and 64 KiB more
//! for each run at the end: 0.25 bytes for a transfer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use ledger::{LogIndex, TransferId};

/// An id and, big endian, the record that reserved it: sorted as bytes, an id's records are
/// together and in order.
type Entry = [u8; ENTRY];
const ID: usize = 17;
const ENTRY: usize = ID + 8;

/// Entries that are sorted together.
const RUN: usize = 1 << 18;
/// Entries that are read of a run at a time.
const READING: usize = (64 << 10) / ENTRY;

/// The list.
#[derive(Debug)]
pub(super) struct Reserved {
    recent: Vec<Entry>,
    runs: Vec<Run>,
    /// What goes to the file and how long it is; without one everything stays in memory.
    scratch: Option<(File, u64)>,
    run: usize,
    failed: Option<io::Error>,
}

/// Sorted entries.
#[derive(Debug)]
enum Run {
    Memory(Vec<Entry>),
    /// So many, from this byte of the file on.
    File(u64, usize),
}

impl Default for Reserved {
    fn default() -> Self {
        Self::with(None, RUN)
    }
}

impl Reserved {
    /// A list that goes to this file, which is empty.
    pub(super) fn within(scratch: File) -> Self {
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

    /// What the file said when it could not be written or read.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Whether a transfer is in it. Looks through all of it: for what is a fault already.
    pub(super) fn contains(&mut self, id: &TransferId) -> bool {
        let id = id.to_bytes();
        self.close_run();
        let mut found = false;
        let read = self.merge(&mut |entry| {
            found |= entry[..ID] == id;
            !found
        });
        self.note(read);
        found
    }

    /// The first transfer, by id, that was reserved twice, and the second record that did it.
    ///
    /// # Errors
    /// What the file said, now or before.
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
        self.note(read);
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(repeated.as_ref().and_then(read_entry)),
        }
    }

    fn note(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.failed.get_or_insert(error);
        }
    }

    fn close_run(&mut self) {
        self.recent.sort_unstable();
        let kept = match &mut self.scratch {
            None => Ok(Run::Memory(std::mem::take(&mut self.recent))),
            Some((file, length)) => {
                let (at, entries) = (*length, self.recent.len());
                *length += (entries * ENTRY) as u64;
                let written = file.write_all_at(self.recent.as_flattened(), at);
                self.recent.clear();
                written.map(|()| Run::File(at, entries))
            }
        };
        match kept {
            Ok(run) => self.runs.push(run),
            Err(error) => self.note(Err(error)),
        }
    }

    /// Shows the entries in their order, until `show` has had enough.
    fn merge(&self, show: &mut dyn FnMut(&Entry) -> bool) -> io::Result<()> {
        let file = self.scratch.as_ref().map(|(file, _)| file);
        let mut readers: Vec<_> = self.runs.iter().map(|run| Reader::of(run, file)).collect();
        let mut next = BinaryHeap::new();
        for (at, reader) in readers.iter_mut().enumerate() {
            next.extend(reader.next()?.map(|entry| Reverse((entry, at))));
        }
        while let Some(Reverse((entry, at))) = next.pop() {
            if !show(&entry) {
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
    held: std::borrow::Cow<'a, [Entry]>,
    at: usize,
    /// What is still in the file: from this byte on, so many entries.
    rest: (u64, usize),
    file: Option<&'a File>,
}

impl<'a> Reader<'a> {
    fn of(run: &'a Run, file: Option<&'a File>) -> Self {
        let (held, rest) = match run {
            Run::Memory(entries) => (entries.as_slice(), (0, 0)),
            Run::File(at, entries) => (&[][..], (*at, *entries)),
        };
        Self { held: held.into(), at: 0, rest, file }
    }

    fn next(&mut self) -> io::Result<Option<Entry>> {
        if let (true, Some(file)) = (self.at == self.held.len() && 0 < self.rest.1, self.file) {
            let count = self.rest.1.min(READING);
            let held = self.held.to_mut();
            held.resize(count, [0; ENTRY]);
            file.read_exact_at(held.as_flattened_mut(), self.rest.0)?;
            self.rest = (self.rest.0 + (count * ENTRY) as u64, self.rest.1 - count);
            self.at = 0;
        }
        let entry = self.held.get(self.at).copied();
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

    fn both(run: usize) -> [Reserved; 2] {
        let file = tempfile::tempfile().expect("a file");
        [Reserved::with(None, run), Reserved::with(Some(file), run)]
    }

    #[test]
    fn what_is_in_it_twice_is_found_wherever_it_stands() {
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
    fn a_file_that_cannot_be_written_is_not_passed_over() {
        let file = File::open("/dev/null").expect("it opens to be read");
        let mut list = Reserved::with(Some(file), 2);
        list.insert(&id(0), LogIndex(1));
        assert!(list.failure().is_none(), "nothing was written");
        (1..5).for_each(|at| list.insert(&id(at), LogIndex(at + 1)));
        assert!(list.failure().is_some());
        assert!(list.repeated().is_err());
    }
}
