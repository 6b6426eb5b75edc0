//! The log alone: batches are sealed, appended and synced, but not decided.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use journal::{FileLog, RealDisk};
use ledger::Stamp;
use ports::Log;
use record::frame::{BatchHeader, EncodedRecord, FrameBuilder, LogIdentity};

use crate::measure::{Case, take_turns, try_time};
use crate::report::Section;
use crate::timed_log::{Timed, Times};
use crate::workload::{Spread, Workload};
use crate::{BATCH_LARGE, CoreOptions, Error};

pub(crate) fn measure(options: &CoreOptions, directory: &Path) -> Result<Section, Error> {
    let record = sample_records();
    let mut cases = Vec::new();
    // As many frames in a round as can be measured, few enough to be quick.
    for (size, frames) in [(1, 200), (64, 200), (BATCH_LARGE, 20)] {
        let disk = RealDisk::open(&directory.join(format!("log-{size}")))?;
        let log = FileLog::create(disk, LogIdentity([9; 16]), journal::LogOptions::default())?;
        let times = Rc::<RefCell<Times>>::default();
        let mut log = Timed::new(log, Rc::clone(&times));
        let record = &record;
        let round = Box::new(move || {
            let mut figures = round(&mut log, record, (size, frames))?;
            let syncs = times.take().syncs;
            figures.extend([500, 990].map(|per_mille| syncs.per_mille_us(per_mille)));
            Ok(figures)
        });
        cases.push(Case { name: format!("batches of {size}"), round });
    }
    Ok(Section {
        name: "log",
        about: "Log alone, one thread: each batch sealed, appended and synced.".into(),
        columns: vec!["records/s", "MB/s", "CPU ns/record", "sync p50 us", "sync p99 us"],
        rows: take_turns(cases, options.rounds)?,
    })
}

/// A prepare and a fulfil without bodies.
fn sample_records() -> [EncodedRecord; 2] {
    let (prepare, fulfil) = Workload::new(Spread::Hot, 0).next();
    [prepare, fulfil]
        .map(|command| sequencer::encode(&command, None).expect("these commands are small"))
}

fn round(
    log: &mut Timed<FileLog<RealDisk>>,
    records: &[EncodedRecord; 2],
    (size, frames): (usize, usize),
) -> Result<Vec<f64>, Error> {
    let mut builder = FrameBuilder::new();
    let mut bytes = 0;
    let took = try_time(|| {
        for _ in 0..frames {
            builder.clear();
            for at in 0..size {
                builder.push(&records[at % 2]).expect("a frame holds the largest batch");
            }
            bytes += builder.length();
            let sealed = builder.seal(&log.tail(), &header(log));
            log.append(sealed.bytes)?;
            log.sync()?;
        }
        Ok(())
    })?;
    let (records, seconds) = ((frames * size) as f64, took.wall.as_secs_f64());
    let cpu = took.cpu.as_nanos() as f64 / records;
    Ok(vec![records / seconds, bytes as f64 / seconds / 1e6, cpu])
}

fn header(log: &impl Log) -> BatchHeader {
    BatchHeader { stamp: Stamp(log.tail().stamp.0 + 1), ..BatchHeader::default() }
}
