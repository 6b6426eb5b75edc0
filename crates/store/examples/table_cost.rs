//! Measures the store alone: sequential writes at full speed with concurrent reads, then random
//! reads.
//!
//! ```sh
//! cargo run --profile dist -p store --example table_cost -- transfers 1000000
//! cargo run --profile dist -p store --example table_cost -- parties 4000000 /on/the/disk
//! ```
//!
//! Ids of transfers are random, those of parties ascend. Memory is that of the process with the
//! system allocator.

#![expect(clippy::unwrap_used, reason = "a measurement stops at the first error")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ledger::{FinalTransfer, FspName, LogIndex, TransferId};
use ports::{ColdStore, PartyChange, PartyEffect, PartyEntry, StoreMark, WriteBatch};
use record::cold_rows::party_key;
use record::frame::LogIdentity;
use store::contract::sample_row;
use store::{Disk, StoreOptions};

const BATCH: u64 = 4_096;
const READS: u64 = 20_000;
/// Pause between two reads while batches are written.
const PAUSE: Duration = Duration::from_micros(200);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, count, rest @ ..] = &arguments[..] else {
        eprintln!("usage: table_cost transfers|parties COUNT [DIRECTORY]");
        std::process::exit(2);
    };
    let count: u64 = count.parse().unwrap();
    let above = rest.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let path = above.join(format!("store-cost-{}", std::process::id()));
    let make = match kind.as_str() {
        "parties" => parties,
        _ => transfers,
    };
    measure(&path, count, make);
    std::fs::remove_dir_all(&path).unwrap();
}

fn measure(path: &Path, count: u64, make: fn(u64, u64) -> WriteBatch) {
    let before = resident();
    let store = Disk::begin(path, LogIdentity([1; 16]), StoreOptions::default()).unwrap();
    let (mut writing, mut slowest, mut most) = (Duration::ZERO, Duration::ZERO, 0);
    let whole = Instant::now();
    let shown = AtomicU64::new(0);
    let meanwhile = thread::scope(|scope| {
        let asking = scope.spawn(|| ask_until(&store, &shown, count, make));
        for from in (0..count).step_by(BATCH as usize) {
            let to = (from + BATCH).min(count);
            let batch = make(from, to);
            let started = Instant::now();
            store.write(&batch).unwrap();
            let took = started.elapsed();
            shown.store(to, Ordering::Release);
            writing += took;
            slowest = slowest.max(took);
            most = most.max(resident());
        }
        asking.join().unwrap()
    });
    let per_s = count as f64 / writing.as_secs_f64();
    println!("written        {per_s:.0}/s, {:.0}/s with making them", rate(count, whole));
    println!("slowest        {slowest:.1?} for a batch of {BATCH}");
    for (what, times) in ["present", "absent "].into_iter().zip(meanwhile) {
        let [half, most, nearly_all, all] = [500, 990, 999, 1_000].map(|of| per_mille(&times, of));
        print!("{what} meanwhile  p50 {half:.1?}, p99 {most:.1?}, ");
        println!("p99.9 {nearly_all:.1?}, {all:.1?} at most");
    }
    wait_until_quiet();
    println!("quiet after    {:.1?}", whole.elapsed());
    println!("processor      {:.2} us each", processor_us() / count as f64);
    println!("bytes written  {:.0} each", written() as f64 / count as f64);
    println!("on disk        {:.0} MB", store.bytes() as f64 / 1e6);
    let reads = reads(&store, count, make);
    println!("present        p50 {:.1?}, p99 {:.1?}", reads[0].0, reads[0].1);
    println!("absent         p50 {:.1?}, p99 {:.1?}", reads[1].0, reads[1].1);
    let mb = |bytes: u64| bytes.saturating_sub(before) as f64 / 1e6;
    println!("memory added   {:.0} MB, {:.0} MB at most", mb(resident()), mb(most));
    let started = Instant::now();
    drop(store);
    println!("closed         in {:.1?}", started.elapsed());
    let (started, before) = (Instant::now(), resident());
    let (store, reason) = Disk::open(path, LogIdentity([1; 16]), StoreOptions::default()).unwrap();
    assert_eq!((reason, store.mark().log_index), (None, LogIndex(count)));
    let opened = started.elapsed();
    self::reads(&store, count, make);
    let after = resident().saturating_sub(before) as f64 / 1e6;
    println!("opened again   in {opened:.1?}, {after:.0} MB more after reads");
}

/// Sorted times of reads of present and of absent rows while `count` rows are being written.
fn ask_until(
    store: &Disk,
    shown: &AtomicU64,
    count: u64,
    make: fn(u64, u64) -> WriteBatch,
) -> [Vec<Duration>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for number in 0.. {
        thread::sleep(PAUSE);
        let shown = shown.load(Ordering::Acquire);
        if shown == count {
            break;
        }
        if 0 < shown {
            let at = mix(number) % shown;
            times[0].push(read(store, &make(at, at + 1), true));
            times[1].push(read(store, &make(count + at, count + at + 1), false));
        }
    }
    times.each_mut().map(|times| {
        times.sort_unstable();
        std::mem::take(times)
    })
}

/// Duration of a read of the only row of a batch.
fn read(store: &Disk, batch: &WriteBatch, is_there: bool) -> Duration {
    let started = Instant::now();
    let found = match (batch.rows.first(), batch.parties.first()) {
        (Some(row), _) => store.read(&row.id, LogIndex(u64::MAX)).unwrap().is_some(),
        (_, Some(party)) => store.party(&party.key).unwrap().is_some(),
        _ => unreachable!("a batch of one has one"),
    };
    let took = started.elapsed();
    assert_eq!(found, is_there);
    took
}

fn per_mille(sorted: &[Duration], of: usize) -> Duration {
    sorted[(sorted.len() * of / 1_000).min(sorted.len() - 1)]
}

/// Median and 99th percentile of reads of present and of absent rows.
fn reads(store: &Disk, count: u64, make: fn(u64, u64) -> WriteBatch) -> [(Duration, Duration); 2] {
    [0, count].map(|offset| {
        let mut times: Vec<_> = (0..READS)
            .map(|number| {
                let at = offset + mix(number) % count;
                read(store, &make(at, at + 1), offset == 0)
            })
            .collect();
        times.sort_unstable();
        (per_mille(&times, 500), per_mille(&times, 990))
    })
}

fn transfers(from: u64, to: u64) -> WriteBatch {
    let row = |number: u64| {
        let mut bytes = [0; 17];
        bytes[1..9].copy_from_slice(&mix(number).to_be_bytes());
        bytes[9..].copy_from_slice(&mix(!number).to_be_bytes());
        let id = TransferId::from_bytes(bytes).unwrap();
        FinalTransfer { id, ..sample_row(number as u32 | 8, number + 1) }
    };
    WriteBatch { rows: (from..to).map(row).collect(), mark: mark(to), ..WriteBatch::default() }
}

fn parties(from: u64, to: u64) -> WriteBatch {
    let fsp = FspName::new("payeefsp").unwrap();
    let change = |number: u64| PartyChange {
        key: party_key("MSISDN", &(254_700_000_000 + number).to_string(), None),
        at: LogIndex(to),
        effect: PartyEffect::Bind {
            entry: PartyEntry { currency: None, fsp },
            by: Some(fsp),
            is_alone: true,
        },
    };
    WriteBatch {
        parties: (from..to).map(change).collect(),
        mark: mark(to),
        ..WriteBatch::default()
    }
}

fn mark(log_index: u64) -> StoreMark {
    StoreMark { log_index: LogIndex(log_index), ..StoreMark::default() }
}

/// A number without visible order (splitmix64).
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn rate(count: u64, since: Instant) -> f64 {
    count as f64 / since.elapsed().as_secs_f64()
}

/// Waits for half a second without writes and with an idle processor.
fn wait_until_quiet() {
    loop {
        let before = (written(), processor_us());
        std::thread::sleep(Duration::from_millis(500));
        if written() == before.0 && processor_us() - before.1 < 50_000.0 {
            return;
        }
    }
}

fn line_of(path: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn resident() -> u64 {
    line_of("/proc/self/status", "VmRSS:") * 1_024
}

fn written() -> u64 {
    line_of("/proc/self/io", "write_bytes:")
}

/// User and system time. Linux reports ticks of 10 ms.
fn processor_us() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) * 10_000.0
}
