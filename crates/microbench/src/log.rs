//! The log alone: sealed, appended and synced, nothing decided.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use journal::{FileLog, RealDisk};
use ledger::Stamp;
use ports::Log;
use record::frame::{BatchHeader, EncodedRecord, FrameBuilder, LogIdentity};

use crate::measure::{median, time};
use crate::report::{Row, Section};
use crate::timed::{Timed, Times};
use crate::workload::{Spread, Workload};
use crate::{BATCH_LARGE, Error, Options};

struct Case {
    size: usize,
    /// Frames of one round: enough to be measured, few enough to be quick.
    frames: usize,
    log: Timed<FileLog<RealDisk>>,
    times: Rc<RefCell<Times>>,
    records: Vec<f64>,
    bytes: Vec<f64>,
    cpu: Vec<f64>,
}

pub(crate) fn measure(options: &Options, directory: &Path) -> Result<Section, Error> {
    let mut cases = Vec::new();
    for (size, frames) in [(1, 200), (64, 200), (BATCH_LARGE, 20)] {
        let disk = RealDisk::open(&directory.join(format!("log-{size}")))?;
        let log = FileLog::create(disk, LogIdentity([9; 16]), journal::Options::default())?;
        let times = Rc::<RefCell<Times>>::default();
        let log = Timed::new(log, Rc::clone(&times));
        let (records, bytes, cpu) = Default::default();
        cases.push(Case { size, frames, log, times, records, bytes, cpu });
    }
    let record = sample_records();
    for _ in 0..options.rounds {
        cases.iter_mut().try_for_each(|case| round(case, &record))?;
    }
    Ok(Section {
        name: "log",
        about: "Log alone, one thread: each batch sealed, appended and synced.".into(),
        columns: vec!["records/s", "MB/s", "CPU ns/record", "sync p50 us", "sync p99 us"],
        rows: cases.into_iter().map(row).collect(),
    })
}

/// A prepare and a fulfil without bodies.
fn sample_records() -> [EncodedRecord; 2] {
    let (prepare, fulfil) = Workload::new(Spread::Hot, 0).next();
    [prepare, fulfil]
        .map(|command| sequencer::encode(&command, None).expect("these commands are small"))
}

fn round(case: &mut Case, records: &[EncodedRecord; 2]) -> Result<(), Error> {
    let mut builder = FrameBuilder::new();
    let mut bytes = 0;
    let mut failed = Ok(());
    let took = time(|| {
        for _ in 0..case.frames {
            builder.clear();
            for at in 0..case.size {
                builder.push(&records[at % 2]).expect("a frame holds the largest batch");
            }
            bytes += builder.length();
            let sealed = builder.seal(&case.log.tail(), &header(&case.log));
            failed = case.log.append(sealed.bytes).and_then(|()| case.log.sync());
            if failed.is_err() {
                return;
            }
        }
    });
    failed?;
    let records = (case.frames * case.size) as f64;
    case.records.push(records / took.wall.as_secs_f64());
    case.bytes.push(bytes as f64 / took.wall.as_secs_f64() / 1e6);
    case.cpu.push(took.cpu.as_nanos() as f64 / records);
    Ok(())
}

fn header(log: &impl Log) -> BatchHeader {
    BatchHeader { stamp: Stamp(log.tail().stamp.0 + 1), ..BatchHeader::default() }
}

fn row(case: Case) -> Row {
    let syncs = case.times.take().syncs;
    let figures = vec![
        median(case.records),
        median(case.bytes),
        median(case.cpu),
        syncs.per_mille_us(500),
        syncs.per_mille_us(990),
    ];
    Row { case: format!("batches of {}", case.size), figures }
}
