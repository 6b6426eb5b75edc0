//! Kernel, log and cold store together: final rows are evicted while the next batches are decided.
//!
//! The writer of the store and its compactions run on separate threads, as in the switch. The clock
//! runs while a batch is committed and while rows are given to the store, and at the end until the
//! store has every row. It is paused while the next batches are created. The second rate includes
//! this time, in which the store's threads also work.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use record::frame::LogIdentity;
use sequencer::ColdTier;
use store::{Disk, WriteBehind};

use crate::durable::{CoreHub, wall_ms};
use crate::measure::{Durations, Measurement, try_time};
use crate::report::{Row, Section};
use crate::workload::{Spread, Workload};
use crate::{BATCH_LARGE, CoreOptions, Error, PartProgress, ProgressSink};

/// Minimum time for which a final transfer stays in memory.
const KEEP: Duration = Duration::from_secs(1);
/// Polling interval of the store's progress at the end.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
const TOTAL_TIME_COLUMN: &str = "with creation";

/// Batches of 8,189 commands with a store.
pub(crate) fn large(
    options: &CoreOptions,
    directory: &Path,
    show: ProgressSink<'_>,
) -> Result<Section, Error> {
    let directory = directory.join("stored");
    let pairs = (options.transfers as usize).div_ceil(BATCH_LARGE);
    let about = format!(
        "Kernel, log and cold store, durable before it is applied: {} transfers in batches of \
         {BATCH_LARGE} commands without bodies, one of prepares, one of fulfils. Final rows are \
         evicted after {} s. Measured until all rows are in the store, compaction included; \
         \"{TOTAL_TIME_COLUMN}\" includes the time in which the next batches were created.",
        pairs * BATCH_LARGE,
        KEEP.as_secs()
    );
    let columns = vec![
        "commands/s",
        TOTAL_TIME_COLUMN,
        "CPU ns/command",
        "batch p50 us",
        "batch p99 us",
        "batch max us",
        "waits",
        "log B/transfer",
        "store B/transfer",
    ];
    let rows = vec![large_row(pairs, &directory, show)?];
    Ok(Section { name: "store", about, columns, rows })
}

/// A hub with a log in `directory` and a new cold store next to it.
pub(crate) fn open_stored(directory: &Path, workload: &Workload) -> Result<CoreHub, Error> {
    let store_directory = directory.join("store");
    let open = |identity: LogIdentity| {
        let store = Disk::begin(&store_directory, identity, store::StoreOptions::default())?;
        let write_behind = WriteBehind::start(Arc::new(store) as _);
        let write_behind =
            write_behind.map_err(|error| ports::StoreError::Failed(error.to_string()))?;
        Ok(ColdTier::new(Box::new(write_behind), KEEP))
    };
    CoreHub::open_with_store(directory, workload, open)
}

fn large_row(pairs: usize, directory: &Path, show: ProgressSink<'_>) -> Result<Row, Error> {
    let spread = Spread::Uniform;
    let mut workload = Workload::new(spread, wall_ms());
    let mut hub = open_stored(directory, &workload)?;
    let before = hub.sequencer.counts();
    let (started, mut spent, mut batches) =
        (Instant::now(), Measurement::default(), Durations::default());
    for pair in 0..pairs {
        let [done, all] = [pair, pairs].map(|pairs| (pairs * BATCH_LARGE) as u64);
        show(PartProgress { items: "transfers", done, all });
        for batch in workload.batches(BATCH_LARGE, BATCH_LARGE) {
            hub.commit_batch(batch, &mut spent, &mut batches)?;
        }
    }
    spent.wall += try_time(|| hub.finish_store())?.wall;
    let whole = started.elapsed();
    let bytes = hub.sequencer.counts().bytes - before.bytes;
    let waits = hub.sequencer.cold_counts().waits;
    let counters = hub.sequencer.state().counters();
    assert!(counters.refused == 0 && counters.reserved == counters.committed, "{counters:?}");
    drop(hub);
    let transfers = (pairs * BATCH_LARGE) as f64;
    let commands = 2.0 * transfers;
    let figures = vec![
        commands / spent.wall.as_secs_f64(),
        commands / whole.as_secs_f64(),
        spent.cpu.as_nanos() as f64 / commands,
        batches.per_mille_us(500),
        batches.per_mille_us(990),
        batches.per_mille_us(1_000),
        waits as f64,
        bytes as f64 / transfers,
        length_of(&directory.join("store")) as f64 / transfers,
    ];
    Ok(Row { case: spread.name().into(), figures })
}

impl CoreHub {
    /// Records the remaining deliveries and waits until the store has all rows.
    fn finish_store(&mut self) -> Result<(), Error> {
        self.deliver();
        self.commit_all()?;
        let end = self.sequencer.sync()?;
        while self.sequencer.stored() < end {
            self.evict_stored()?;
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

/// Total size of the files of a directory and its subdirectories. Unreadable files do not count.
pub(crate) fn length_of(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let bytes = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => length_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
