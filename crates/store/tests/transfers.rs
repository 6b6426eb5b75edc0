//! The work of a query does not grow with the number of transfers.

use ledger::{
    Amount, Currency, FinalTransfer, LogIndex, Outcome, ParticipantIndex, RecordedResponse,
    ResponseKind,
};
use ports::{BLOCKS_READ_MAX, ColdStore, TransferEnd, TransferFilter, TransferQuery};
use record::frame::LogIdentity;
use store::contract::{sample_row, write_batch};
use store::{Disk, StoreOptions};
use tempfile::TempDir;

/// Rows of the test.
const ROWS: u32 = 120_000;
/// Entries of a full block.
const BLOCK_ENTRIES: usize = 256;
/// Rows per write batch.
const BATCH: u32 = 2_000;

/// Transfers among ten participants. One in 20,000 is refused, and one has a large amount.
fn row(number: u32) -> FinalTransfer {
    let outcome = match number % 20_000 {
        1 => Outcome::PrepareCapExceeded,
        _ => Outcome::Committed,
    };
    let log_index = LogIndex(u64::from(number) + 10);
    let kind = ResponseKind::Fulfil;
    let sample = sample_row(number, log_index.0);
    FinalTransfer {
        payer: Some(ParticipantIndex(1 + number % 10)),
        payee: Some(ParticipantIndex(1 + number / 10 % 10)),
        amount: Amount::from_units(if number == 777 { 1 << 60 } else { i128::from(number % 500) }),
        outcome,
        response: Some(RecordedResponse { kind, hash: sample.hash, log_index }),
        ..sample
    }
}

#[test]
fn a_page_reads_few_blocks() {
    let place = TempDir::new().expect("a directory");
    let path = place.path().join("store");
    let store = Disk::begin(&path, LogIdentity([3; 16]), StoreOptions::default());
    let store = store.expect("it begins");
    for begin in (0..ROWS).step_by(BATCH as usize) {
        let rows = (begin..begin + BATCH).map(row).collect();
        store.write(&write_batch(rows, u64::from(begin + BATCH) + 9)).expect("it writes");
    }
    let all = TransferFilter::default;
    let at = |number: u32| Some(row(number).completed);
    let units = |units| Some(Amount::from_units(units));
    let refused = vec![TransferEnd::Refused];
    for (filter, found, blocks, postings) in [
        (all(), 50, 1, 8),
        (TransferFilter { participant: Some(ParticipantIndex(4)), ..all() }, 50, 3, 8),
        (TransferFilter { to: at(60_000), ..all() }, 50, 2, 8),
        (TransferFilter { from: at(100), to: at(105), ..all() }, 5, 1, 8),
        (TransferFilter { ends: refused, ..all() }, 6, 6, 8),
        (TransferFilter { amount_min: units(1_000), ..all() }, 1, 1, 500),
        (TransferFilter { currency: Currency::parse("USD"), ..all() }, 0, 0, 500),
        (TransferFilter { participant: Some(ParticipantIndex(99)), ..all() }, 0, 0, 0),
    ] {
        let query = TransferQuery { filter, up_to: LogIndex(u64::MAX), before: None, limit: 50 };
        let page = store.transfers(&query).expect("it reads");
        assert_eq!(page.entries.len(), found, "{query:?}");
        let reads = (page.blocks_read, page.postings_read);
        assert!(reads.0 <= blocks && reads.1 <= postings, "{query:?} reads {reads:?}");
    }
}

/// A query that selects few transfers among blocks that may have some ends early, and the next page
/// continues.
#[test]
fn long_searches_are_divided() {
    let place = TempDir::new().expect("a directory");
    let path = place.path().join("store");
    let store = Disk::begin(&path, LogIdentity([3; 16]), StoreOptions::default());
    let store = store.expect("it begins");
    // Odd amounts only, between two even ones in each block.
    let amount = |number: u32| Amount::from_units(i128::from(number % 100) * 2);
    for begin in (0..ROWS).step_by(BATCH as usize) {
        let rows = (begin..begin + BATCH).map(|it| FinalTransfer { amount: amount(it), ..row(it) });
        let batch = write_batch(rows.collect(), u64::from(begin + BATCH) + 9);
        store.write(&batch).expect("it writes");
    }
    let odd = Some(Amount::from_units(51));
    let filter = TransferFilter { amount_min: odd, amount_max: odd, ..TransferFilter::default() };
    let mut query = TransferQuery { filter, up_to: LogIndex(u64::MAX), before: None, limit: 50 };
    let mut pages = 0;
    loop {
        let page = store.transfers(&query).expect("it reads");
        assert!(page.entries.is_empty() && page.blocks_read <= BLOCKS_READ_MAX);
        pages += 1;
        match page.next {
            Some(next) => query.before = Some(next),
            None => break,
        }
    }
    assert_eq!(pages, (ROWS as usize / BLOCK_ENTRIES).div_ceil(BLOCKS_READ_MAX));
}
