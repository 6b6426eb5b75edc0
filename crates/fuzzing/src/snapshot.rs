//! Snapshots: random bytes are refused without panic. Accepted bytes are a state: it is stored
//! again, read back as the same, and accepts further commands.

use std::convert::Infallible;

use ledger::{Batch, Command, Effects, LogIndex, State};
use record::checksum::crc32c;
use record::frame::{LogIdentity, Tail};
use record::snapshot::{
    BLOCK_HEADER_BYTES, BlockHeader, Snapshot, SnapshotError, SnapshotReader, SnapshotWriter,
};

/// A snapshot: as it is, and with its checksums and its digest put right.
pub fn snapshot(data: &[u8]) {
    judge(data);
    judge(&mended(data));
}

/// A state as it is after it was stored and read back.
pub(crate) fn again(state: &State) -> State {
    let (end, stamp) = (state.log_index(), state.stamp());
    let tail = Tail { end, durable: end, stamp, ..Tail::genesis(LogIdentity([7; 16])) };
    read(&write(&tail, state)).expect("a written value reads back").state
}

fn judge(data: &[u8]) {
    let Ok(snapshot) = read(data) else { return };
    assert_eq!(snapshot.summary.bytes, data.len() as u64);
    let written = write(&snapshot.tail, &snapshot.state);
    let again = read(&written).expect("a written value reads back");
    assert_eq!(again.tail, snapshot.tail);
    assert_eq!(again.state.hash(), snapshot.state.hash());
    assert_eq!(again.state.tables().header(), snapshot.state.tables().header());
    assert_eq!(write(&again.tail, &again.state), written);
    go_on(snapshot.state);
}

/// Time passes: whatever is due fires, and the books still sum to zero.
fn go_on(mut state: State) {
    if state.log_index().0 == 0 {
        return;
    }
    let due = state.next_deadline().unwrap_or_default();
    let batch = Batch {
        first: LogIndex(state.log_index().0 + 1),
        stamp: state.stamp().max(due),
        node: 1_000_000,
        epoch: 1,
        sequence: 1,
    };
    let known = state.tables().header().nodes.len();
    if known < 1_024 {
        state.apply(&batch, [&Command::Tick], &mut Effects::default());
    }
}

fn read(mut data: &[u8]) -> Result<Snapshot, SnapshotError> {
    let mut reader = SnapshotReader::default();
    while !data.is_empty() {
        let length = BlockHeader::parse(data)?.block_bytes();
        let (block, rest) = data.split_at_checked(length).ok_or(SnapshotError::NoBlock)?;
        reader.block(block)?;
        data = rest;
    }
    reader.finish()
}

fn write(tail: &Tail, state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut store = |block: &[u8]| -> Result<(), Infallible> {
        bytes.extend_from_slice(block);
        Ok(())
    };
    let mut written = || {
        let mut writer = SnapshotWriter::new(tail, &mut store)?;
        writer.state(state.tables())?;
        writer.finish()
    };
    let Ok(_) = written();
    bytes
}

/// The input as a sequence of blocks whose magic, version, number and checksums are right, as far
/// as their lengths go, with the digest of it at the end.
fn mended(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = data;
    let mut number = 0u32;
    while BLOCK_HEADER_BYTES < rest.len() {
        let length = u32::from_le_bytes([rest[16], rest[17], rest[18], rest[19]]) as usize;
        let length = length.clamp(1, rest.len() - BLOCK_HEADER_BYTES);
        let (block, behind) = rest.split_at(BLOCK_HEADER_BYTES + length);
        let mut block = block.to_vec();
        let end = block[6..8] == 255u16.to_le_bytes();
        if end && length == 32 {
            let digest = *blake3::hash(&out).as_bytes();
            block[BLOCK_HEADER_BYTES..].copy_from_slice(&digest);
        }
        block[..4].copy_from_slice(b"UpSn");
        block[4..6].copy_from_slice(&1u16.to_le_bytes());
        block[8..12].copy_from_slice(&number.to_le_bytes());
        block[16..20].copy_from_slice(&(length as u32).to_le_bytes());
        block[20..24].fill(0);
        let rows = crc32c(&block[BLOCK_HEADER_BYTES..]);
        block[24..28].copy_from_slice(&rows.to_le_bytes());
        let header = crc32c(&block[..28]);
        block[28..32].copy_from_slice(&header.to_le_bytes());
        out.extend_from_slice(&block);
        number += 1;
        rest = behind;
    }
    out
}
