//! Implementation of both commands, with Kafka.

use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use harness::Progress;
use journal::{RealDisk, TieredDisk};
use kafka::{Address, ExportReport, MigrateError, MigrationObserver, MigrationStep, TopicReader};
use ledger::LogIndex;
use node::SystemClock;
use ports::{Clock, Disk, DiskFile, Log as _};
use record::bundle::BundleError;
use record::frame::{LogIdentity, Tail};
use record::topic_message::TopicMessage;
use sequencer::{AppliedMessage, NodeName, Replica};
use serde::Serialize;

use super::arguments::{ExportArguments, ImportArguments};
use crate::CliError;
use crate::cli::stdout;
use crate::cli::stdout::{print_error_line, print_json};
use crate::cli::units::{Bytes, Count, counted};
use crate::config::Config;
use crate::data::encryption::{Access, unlock, unlocked};
use crate::data::layout::{MARKER, has_segments};
use crate::inspect::offline::records_about;
use crate::serve::log_backend::{BROKER_TIMEOUT, EPOCH_FILE, Log, LogLocation, Topic};
use crate::serve::{self, LogOptions, OpenedNode, SharedLogParams};

/// Client name of these commands at the brokers.
const NAME: &str = "import-log";

/// The moved log.
#[derive(Serialize)]
struct Report {
    topic: String,
    end: u64,
    chain_head: String,
    /// Frames that were sent to the topic, or replayed from it.
    moved: u64,
    bytes: u64,
    seconds: f64,
}

/// The disk of the log. Warns if the log is encrypted, because the topic will not be.
fn open_for_export(data: &Path) -> Result<TieredDisk<RealDisk>, CliError> {
    let disk = RealDisk::open(data).and_then(TieredDisk::open);
    let disk = disk.map_err(|error| CliError::new(format!("{}: {error}", data.display())))?;
    let (disk, keys) = unlock(disk, Access::Write, None)?;
    if keys.is_some() {
        print_error_line(
            "ENCRYPTION: the topic will hold the log unencrypted; encrypt the disks of the brokers",
        );
    }
    Ok(disk)
}

pub(crate) fn export(arguments: &ExportArguments) -> Result<(), CliError> {
    let started = Instant::now();
    let data = &*arguments.data;
    let data_dir = data.display();
    let failed = |what: String| CliError::new(format!("{data_dir}: {what}"));
    let address = address_of(&arguments.log)?;
    let security = Config::read(arguments.config.as_deref())?.kafka.access().security()?;
    if !data.is_dir() {
        return Err(failed("directory not found".into()));
    }
    let disk = open_for_export(data)?;
    check_marker(data, &address)?;
    let all = records_about(&disk);
    let mut observer = ExportObserver {
        data,
        topic: &address.topic,
        sent: Progress::new("records compared or sent", all),
        read: Progress::new("records read back", all),
    };
    let exported = kafka::export(&address, &disk, &options("export-log", security), &mut observer);
    observer.sent.end();
    observer.read.end();
    let exported = exported.map_err(|error| {
        let is_left = data.join(MARKER).exists();
        failed(match is_left {
            true => format!(
                "{error}. The whole log is in the topic; no node can use either copy until the \
                 same command has finished"
            ),
            false if is_passing(&error) => {
                format!("{error}. The directory is still in use; run the same command again")
            }
            false => format!("{error}. The directory is still in use"),
        })
    })?;
    let ExportReport { end, frames, sent, bytes, created } = exported;
    let report = Report {
        topic: address.topic.clone(),
        end: end.log_index.0,
        chain_head: end.chain.to_string(),
        moved: sent,
        bytes,
        seconds: started.elapsed().as_secs_f64(),
    };
    if arguments.json {
        return print_json(&report);
    }
    let created = if created { ", just created," } else { "" };
    println!(
        "topic {}{created} holds the log up to record {}, chain head {}",
        address.topic, report.end, report.chain_head
    );
    println!(
        "  {}, {}, {} of them sent now; all read back and compared in {:.1} s",
        counted(frames, "batch"),
        Bytes(bytes),
        Count(sent),
        report.seconds
    );
    println!("The log has moved. {data_dir} is now a copy of the topic. Continue with:");
    println!("  upesi serve --data {data_dir} --log {address} --node NAME");
    if data.join("quarantine.json").exists() {
        println!(
            "Copy {data_dir}/quarantine.json to the directory of each other node before it starts."
        );
    }
    Ok(())
}

/// Whether the same command may succeed later.
const fn is_passing(error: &MigrateError) -> bool {
    matches!(error, MigrateError::Open(_) | MigrateError::Files(_) | MigrateError::Stopped(_))
}

/// Refuses the copy of another topic.
fn check_marker(data: &Path, address: &Address) -> Result<(), CliError> {
    match fs::read_to_string(data.join(MARKER)) {
        Ok(topic) if topic != address.topic => Err(CliError::new(format!(
            "{} is the copy of topic {topic}: `upesi import-log` moves the log from there first",
            data.display()
        ))),
        _ => Ok(()),
    }
}

/// Shows the progress of an export and marks its directory.
struct ExportObserver<'a> {
    data: &'a Path,
    topic: &'a str,
    sent: Progress,
    read: Progress,
}

impl MigrationObserver for ExportObserver<'_> {
    fn report_progress(&mut self, step: MigrationStep) -> Result<(), String> {
        match step {
            MigrationStep::Sent(log_index) => self.sent.show(log_index.0),
            MigrationStep::Read(log_index) => self.read.show(log_index.0),
        }
        Ok(())
    }

    fn record_log_moved(&mut self) -> Result<(), String> {
        write_marker(self.data, MARKER, self.topic)
    }
}

/// Writes the name of a topic to a marker file, durably.
fn write_marker(data: &Path, name: &str, topic: &str) -> Result<(), String> {
    let path = data.join(name);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(topic.as_bytes())?;
        file.sync_all()?;
        File::open(data)?.sync_all()
    });
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Marks the directory that imports the log, before the final message is written to the topic. The
/// file is kept, so that a repeated command finds its work done.
const TAKING: &str = "kafka-taken";

pub(crate) fn import(arguments: &ImportArguments) -> Result<(), CliError> {
    let started = Instant::now();
    if arguments.json {
        stdout::reserve_output_for_script();
    }
    let data = &*arguments.data;
    let address = address_of(&arguments.log)?;
    let config = Config::read(arguments.config.as_deref())?;
    let clock = SystemClock::new();
    let security = Box::new(config.kafka.access().security()?);
    let location = LogLocation::Kafka {
        address: address.clone(),
        node: NAME.into(),
        creates: false,
        security,
    };
    let options = LogOptions { location, ..LogOptions::default() };
    let was_own = has_segments(data) && !data.join(MARKER).exists();
    let node = options.location.node();
    let OpenedNode { sequencer, shared, .. } = serve::open(&config, data, &options, &clock)?;
    let Some(SharedLogParams { topic, quarantine, .. }) = shared else {
        return Err(CliError::new("internal error: a log on Kafka has no topic"));
    };
    let Topic { options, next, last, .. } = topic;
    let name = NodeName { name: NAME.into(), node, instance: 0, ended: 0 };
    let replica = Replica::new(sequencer, name, quarantine, last)
        .map_err(|error| CliError::new(error.to_string()))?;
    let reader = TopicReader::open(&address, &options).map_err(failure)?;
    let mut topic_import =
        TopicImport { replica, clock, progress: Progress::new("records replayed", None), moved: 0 };
    let had_left = topic_import.read(&reader, next, &|identity| {
        write_marker(data, TAKING, &address.topic).map_err(CliError::new)?;
        kafka::send_log_moved(&address, &options, identity).map_err(failure)
    })?;
    topic_import.progress.end();
    let is_ours = fs::read_to_string(data.join(TAKING)).is_ok_and(|it| it == address.topic);
    if had_left && !is_ours && !arguments.again {
        if was_own {
            remove(data, MARKER)?;
        }
        return Err(CliError::new(format!(
            "topic {}: already imported into a directory other than {}, which may have been \
             served since; use that directory. If it is lost or was never served, `--again` \
             continues here after record {}",
            address.topic,
            data.display(),
            topic_import.replica.sequencer().log().tail().end.0
        )));
    }
    let TopicImport { replica, moved, .. } = topic_import;
    let tail = replica.sequencer().log().tail();
    drop(replica);
    let bytes = make_own_log(data, (&reader, &address), &tail)?;
    let report = Report {
        topic: address.topic,
        end: tail.end.0,
        chain_head: tail.chain.to_string(),
        moved,
        bytes,
        seconds: started.elapsed().as_secs_f64(),
    };
    if arguments.json {
        return print_json(&report);
    }
    print_imported(&report, data);
    Ok(())
}

fn print_imported(report: &Report, data: &Path) {
    let Report { topic, end, chain_head, seconds, moved, bytes } = report;
    let data_dir = data.display();
    println!(
        "{data_dir} holds the log of topic {topic} up to record {end}, chain head {chain_head}"
    );
    let (moved, bytes) = (counted(*moved, "batch"), Bytes(*bytes));
    println!("  {moved} replayed, {bytes} compared with the topic in {seconds:.1} s");
    println!("No node can use the topic any more. Continue with:");
    println!("  upesi serve --data {data_dir}");
}

/// A log that is read from its topic.
struct TopicImport {
    replica: Replica<Log>,
    clock: SystemClock,
    progress: Progress,
    /// Batches that the copy did not have.
    moved: u64,
}

impl TopicImport {
    /// Applies all messages up to the final one, and writes the final message once the topic is
    /// read. Returns whether the final message existed already.
    fn read(
        &mut self,
        reader: &TopicReader,
        mut next: i64,
        write_final: &dyn Fn(LogIdentity) -> Result<(), CliError>,
    ) -> Result<bool, CliError> {
        let mut is_final_written = false;
        loop {
            let end = reader.range().map_err(failure)?.end;
            if self.take(reader, next..end)? {
                return Ok(!is_final_written);
            }
            next = next.max(end);
            if self.replica.is_partial() {
                return Err(CliError::new(
                    "the topic holds an incomplete export; finish it with `upesi export-log` first",
                ));
            }
            if is_final_written {
                return Err(CliError::new(
                    "the final message was acknowledged but is missing in the topic; run the \
                     command again",
                ));
            }
            write_final(self.replica.sequencer().log().tail().identity)?;
            is_final_written = true;
        }
    }

    /// Applies messages; returns whether the final message was among them.
    fn take(
        &mut self,
        reader: &TopicReader,
        offsets: std::ops::Range<i64>,
    ) -> Result<bool, CliError> {
        let (mut has_left, mut failed) = (false, None);
        reader
            .read(offsets, &mut |at, bytes| match self.apply(at, bytes) {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                Ok(ControlFlow::Break(())) => {
                    has_left = true;
                    ControlFlow::Break(())
                }
                Err(failure) => {
                    failed = Some(failure);
                    ControlFlow::Break(())
                }
            })
            .map_err(failure)?;
        failed.map_or(Ok(has_left), Err)
    }

    /// Applies a message; breaks at the final message.
    fn apply(&mut self, at: ledger::Stamp, bytes: &[u8]) -> Result<ControlFlow<()>, CliError> {
        let message = match TopicMessage::parse(bytes) {
            Ok(message) => message,
            Err(BundleError::Foreign(_)) => return Ok(ControlFlow::Continue(())),
            Err(error @ BundleError::Version(_)) => return Err(failure(error)),
        };
        let identity = self.replica.sequencer().log().tail().identity;
        let delivered = match message {
            TopicMessage::Bundle(bundle) => self.replica.deliver(&bundle, at),
            TopicMessage::Frame(frame) => self.replica.restore(&frame),
            TopicMessage::EndOfMovedLog(end) => {
                let _is_whole = self.replica.complete_migration(&end);
                return Ok(ControlFlow::Continue(()));
            }
            TopicMessage::LogMoved(left) if left == identity && !self.replica.is_partial() => {
                return Ok(ControlFlow::Break(()));
            }
            TopicMessage::LogMoved(_) | TopicMessage::State(_) => {
                return Ok(ControlFlow::Continue(()));
            }
        };
        let delivered = delivered.map_err(failure)?;
        self.moved += u64::from(matches!(delivered, AppliedMessage::Applied { .. }));
        let Self { replica, clock, progress, .. } = self;
        replica.sequencer_mut().run_maintenance(clock.now()).map_err(failure)?;
        let log_index: LogIndex = replica.sequencer().state().log_index();
        progress.show(log_index.0);
        Ok(ControlFlow::Continue(()))
    }
}

/// Turns a complete copy into an independent log: syncs it, compares it with the topic and removes
/// its markers. Returns the number of bytes.
fn make_own_log(
    data: &Path,
    (reader, address): (&TopicReader, &Address),
    tail: &Tail,
) -> Result<u64, CliError> {
    let failed = |what: String| CliError::new(format!("{}: {what}", data.display()));
    let disk = RealDisk::open(data).and_then(TieredDisk::open);
    let disk = disk.map_err(|error| failed(error.to_string()))?;
    let disk = unlocked(disk, Access::Write)?;
    sync(disk.below()).map_err(|error| failed(error.to_string()))?;
    let mut progress = Progress::new("records compared", Some(tail.end.0));
    let walked = kafka::compare(reader, address, &disk, &mut |log_index| {
        progress.show(log_index.0);
    });
    progress.end();
    let walked = walked.map_err(|error| failed(error.to_string()))?;
    if (walked.tail.end, walked.tail.chain) != (tail.end, tail.chain) {
        return Err(failed("the files differ from the topic".into()));
    }
    remove(data, EPOCH_FILE)?;
    remove(data, MARKER)?;
    disk.sync_directory().map_err(|error| failed(error.to_string()))?;
    Ok(walked.bytes)
}

/// Removes a file of a directory, if it exists.
fn remove(data: &Path, name: &str) -> Result<(), CliError> {
    match fs::remove_file(data.join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CliError::new(format!("{}: {name}: {error}", data.display())))
        }
        _ => Ok(()),
    }
}

/// Syncs all segments, because a copy is not synced while it grows.
fn sync(disk: &RealDisk) -> Result<(), ports::DiskError> {
    for name in disk.list()?.iter().filter(|name| name.ends_with(".segment")) {
        disk.open(name)?.sync()?;
    }
    disk.sync_directory()
}

pub(crate) fn options(name: &str, security: kafka::Security) -> kafka::TopicOptions {
    let copy = journal::LogOptions::default();
    kafka::TopicOptions { node: name.into(), patience: BROKER_TIMEOUT, copy, security }
}

pub(crate) fn address_of(text: &str) -> Result<Address, CliError> {
    text.parse().map_err(|error| CliError::new(format!("--log: {error}")))
}

fn failure(error: impl std::fmt::Display) -> CliError {
    CliError::new(error.to_string())
}
