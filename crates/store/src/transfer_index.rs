//! The index of final transfers on disk: two keyspaces, written with the rows.
//!
//! - `entries`: blocks of [`BLOCK_ENTRIES`] entries in order of time. The newest block is written
//!   again until it is full. A write of many entries makes blocks of [`LARGE_BLOCK_ENTRIES`], each
//!   written once.
//! - `postings`: for each participant and each kind of end, the blocks with such transfers.
//!
//! A block is closed between two records, so that no two blocks have one key. Entries are written
//! in the order of the log, so that compaction moves almost none of them.
//!
//! Costs: some 30 bytes per transfer for its entry, and postings of 28 bytes: 0.3 bytes per
//! transfer among ten participants, up to 60 bytes among thousands, an eighth of that in large
//! blocks. A page of a rare kind reads only blocks that have one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fjall::{Database, Guard, Keyspace, OwnedWriteBatch};
use ledger::{FinalTransfer, LogIndex, ParticipantIndex, Stamp, TransferId};
use ports::{
    BLOCKS_READ_MAX, POSTINGS_READ_MAX, StoreError, TransferFilter, TransferPage, TransferQuery,
};
use record::cold_rows::is_first;
use record::transfer_index::{
    BlockKey, EVERYONE, TransferEntry, TransferPlace, add_amount, block_begin, block_key,
    block_of_posting, posting_key, read_block, read_posting, write_block, write_posting,
};

use crate::disk::{buffering_ranges, of_library};
use crate::memory::damaged;

/// Entries from which a block is closed, at the end of a record.
const BLOCK_ENTRIES: usize = 256;
/// The same for blocks of one large write.
const LARGE_BLOCK_ENTRIES: usize = 4_096;
/// Entries from which a write is large.
const LARGE_WRITE_ENTRIES: usize = LARGE_BLOCK_ENTRIES;
/// Bits of an entry's place in its block.
const PLACE_BITS: u32 = 24;
/// Bytes of a write buffer.
const BUFFER: u64 = 4 << 20;
/// Names of the keyspaces.
pub(crate) const ENTRIES: &str = "entries";
pub(crate) const POSTINGS: &str = "postings";

/// The keyspaces, and the newest block.
pub(crate) struct TransferIndex {
    entries: Keyspace,
    postings: Keyspace,
    newest: Mutex<Vec<TransferEntry>>,
}

impl TransferIndex {
    pub(crate) fn open(database: &Database) -> Result<Self, fjall::Error> {
        let open = |name| database.keyspace(name, || buffering_ranges(BUFFER));
        let (entries, postings) = (open(ENTRIES)?, open(POSTINGS)?);
        Ok(Self { entries, postings, newest: Mutex::default() })
    }

    /// The keyspaces with their names.
    pub(crate) fn named(&self) -> [(&'static str, &Keyspace); 2] {
        [(ENTRIES, &self.entries), (POSTINGS, &self.postings)]
    }

    /// Reads the newest block, which the next batch continues.
    pub(crate) fn load(&self) -> Result<(), StoreError> {
        let newest = self.entries.range(FIRST_BLOCK..).next_back();
        *self.newest() = match newest {
            Some(block) => {
                let value = block.value().map_err(|error| of_library(&error))?;
                read_block(&value).map_err(damaged)?
            }
            None => Vec::new(),
        };
        Ok(())
    }

    fn newest(&self) -> MutexGuard<'_, Vec<TransferEntry>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows to a database batch. Returns the newest block after it, for
    /// [`Self::committed`]. Rows that the index has already are skipped.
    pub(crate) fn write(
        &self,
        rows: &[FinalTransfer],
        database_batch: &mut OwnedWriteBatch,
    ) -> Vec<TransferEntry> {
        let mut block = self.newest().clone();
        let known = block.last().map_or(LogIndex(0), |last| last.place.record);
        let firsts = rows.iter().filter(|row| is_first(row) && known < row.changed);
        let mut added: Vec<_> = firsts.filter_map(TransferEntry::of).collect();
        added.sort_unstable_by_key(|entry| entry.place);
        let is_large = LARGE_WRITE_ENTRIES <= added.len();
        let mut written = block.len();
        for entry in added {
            let full = match is_large && written == 0 {
                true => LARGE_BLOCK_ENTRIES,
                false => BLOCK_ENTRIES,
            };
            let is_new_record = block
                .last()
                .is_some_and(|last| full <= block.len() && last.place.record < entry.place.record);
            if is_new_record {
                self.put(&block, written, database_batch);
                block.clear();
                written = 0;
            }
            block.push(entry);
        }
        self.put(&block, written, database_batch);
        block
    }

    /// Continues with this block, once the batch with it was written.
    pub(crate) fn committed(&self, block: Vec<TransferEntry>) {
        *self.newest() = block;
    }

    /// Writes a block of which the first `written` entries are on disk already, and the postings
    /// of the others.
    fn put(&self, block: &[TransferEntry], written: usize, database_batch: &mut OwnedWriteBatch) {
        let Some(first) = block.first().filter(|_| written < block.len()) else { return };
        assert!(block.len() >> PLACE_BITS == 0, "a block ends with its record");
        let (key, mut value) = (first.block_key(), Vec::new());
        write_block(block, &mut value);
        database_batch.insert(&self.entries, key, &*value);
        let mut postings = Vec::with_capacity(3 * block.len());
        for (at, entry) in block.iter().enumerate() {
            let payee = entry.payee.filter(|it| Some(*it) != entry.payer);
            let parties = [Some(EVERYONE), entry.payer, payee];
            postings.extend(parties.into_iter().flatten().map(|whose| {
                u64::from(whose.0) << 32 | (entry.end() as u64) << PLACE_BITS | at as u64
            }));
        }
        postings.sort_unstable();
        let mut ranges = Vec::new();
        let place = |posting: &u64| (posting & ((1 << PLACE_BITS) - 1)) as usize;
        for of_one in postings.chunk_by(|one, next| one >> PLACE_BITS == next >> PLACE_BITS) {
            let [.., last] = of_one else { continue };
            // The others are on disk already.
            if place(last) < written {
                continue;
            }
            ranges.clear();
            of_one.iter().for_each(|posting| add_amount(&mut ranges, &block[place(posting)]));
            write_posting(&ranges, &mut value);
            let (whose, end) = (ParticipantIndex((last >> 32) as u32), block[place(last)].end());
            database_batch.insert(&self.postings, posting_key(whose, end, &key), &*value);
        }
    }

    /// A page of transfers.
    pub(crate) fn find(&self, query: &TransferQuery) -> Result<TransferPage, StoreError> {
        let mut page = TransferPage::default();
        if query.limit == 0 || query.filter.ends.is_empty() {
            return Ok(page);
        }
        let mut lists = self.lists_of(query)?;
        while let Some((key, may_have)) = lists.next()? {
            page.postings_read = lists.postings_read;
            if may_have && self.read_block(&key, query, &mut page)? {
                return Ok(page);
            }
            let (at, record) = block_begin(&key);
            // All older blocks end before this one begins.
            if query.filter.from.is_some_and(|from| at < from) {
                return Ok(page);
            }
            if BLOCKS_READ_MAX <= page.blocks_read || POSTINGS_READ_MAX <= page.postings_read {
                page.next = Some(TransferPlace { at, record, id: lowest_id() });
                return Ok(page);
            }
        }
        Ok(page)
    }

    /// Adds entries of a block to a page. Returns whether the page is full.
    fn read_block(
        &self,
        key: &BlockKey,
        query: &TransferQuery,
        page: &mut TransferPage,
    ) -> Result<bool, StoreError> {
        let stored = self.entries.get(key).map_err(|error| of_library(&error))?;
        let stored = stored.ok_or(StoreError::Damaged("a block of transfers is lost".into()))?;
        let entries = read_block(&stored).map_err(damaged)?;
        page.blocks_read += (entries.len() / BLOCK_ENTRIES).max(1);
        for entry in entries.into_iter().rev().filter(|entry| query.selects(entry)) {
            page.entries.push(entry);
            if page.entries.len() == query.limit {
                page.next = Some(entry.place);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The lists of blocks that a query needs, newest first.
    fn lists_of<'q>(&self, query: &'q TransferQuery) -> Result<BlockLists<'q>, StoreError> {
        let TransferQuery { filter, before, .. } = query;
        let newest = newest_block(filter.to, *before);
        let whose = filter.participant.unwrap_or(EVERYONE);
        let mut lists = BlockLists { lists: Vec::new(), filter, postings_read: 0 };
        for end in &filter.ends {
            let range = posting_key(whose, *end, &FIRST_BLOCK)..=posting_key(whose, *end, &newest);
            let mut postings = self.postings.range(range);
            let head = lists.read(postings.next_back())?;
            lists.lists.push((head, postings));
        }
        Ok(lists)
    }
}

/// A block, and whether it may have transfers that the filter selects.
type ListedBlock = (BlockKey, bool);

/// Lists of blocks in descending order, merged.
struct BlockLists<'q> {
    /// The next block of each list, and the postings after it.
    lists: Vec<(Option<ListedBlock>, fjall::Iter)>,
    filter: &'q TransferFilter,
    postings_read: usize,
}

impl BlockLists<'_> {
    fn next(&mut self) -> Result<Option<ListedBlock>, StoreError> {
        let heads = self.lists.iter().filter_map(|(head, _)| *head);
        let Some(newest) = heads.map(|(key, _)| key).max() else { return Ok(None) };
        let mut may_have = false;
        let mut lists = std::mem::take(&mut self.lists);
        for (head, postings) in &mut lists {
            if let Some((_, may)) = head.filter(|(key, _)| *key == newest) {
                may_have |= may;
                *head = self.read(postings.next_back())?;
            }
        }
        self.lists = lists;
        Ok(Some((newest, may_have)))
    }

    fn read(&mut self, posting: Option<Guard>) -> Result<Option<ListedBlock>, StoreError> {
        let Some(posting) = posting else { return Ok(None) };
        self.postings_read += 1;
        let (key, value) = posting.into_inner().map_err(|error| of_library(&error))?;
        let block = block_of_posting(&key).map_err(damaged)?;
        let ranges = read_posting(&value).map_err(damaged)?;
        Ok(Some((block, ranges.iter().any(|range| self.filter.selects_range(range)))))
    }
}

/// Key of the first possible block.
const FIRST_BLOCK: BlockKey = [0; 16];

/// The highest key of a block with transfers before a time and a place.
fn newest_block(to: Option<Stamp>, before: Option<TransferPlace>) -> BlockKey {
    let last = LogIndex(u64::MAX);
    let of_time = to.map_or([u8::MAX; 16], |to| block_key(Stamp(to.0.saturating_sub(1)), last));
    let of_place = before.map_or([u8::MAX; 16], |place| block_key(place.at, place.record));
    of_time.min(of_place)
}

/// The lowest id.
fn lowest_id() -> TransferId {
    TransferId::from_bytes([0; 17]).expect("the form of a UUID")
}
