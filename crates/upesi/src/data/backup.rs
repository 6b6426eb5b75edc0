//! `upesi backup`: copies the log to another place. The copy is complete at any moment. A running
//! switch can keep one in the background (`serve/background.rs`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use harness::Progress;
use journal::{ArchiveError, Backup, CopyLock, ExtraFile, RealDisk, TieredDisk};
use ports::DiskError;
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::print_json;
use crate::cli::units::{Bytes, counted};
use crate::config::Config;
use crate::data::encryption::{Access, unlock};

/// Attempts to open a segment, because a running switch may archive it in between.
const ATTEMPTS: usize = 3;
/// Longest wait for a concurrent backup run of the switch.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Name of the configuration file in the copy.
const CONFIGURATION: &str = "upesi.toml";

const EXAMPLES: &str = "\
Examples:
  upesi backup --data /var/lib/upesi --to file:///mnt/backup
  upesi backup --data /var/lib/upesi --to file:///mnt/backup --config upesi.toml --json
  upesi backup --data /var/lib/upesi --to file:///mnt/backup --check
  AWS_ENDPOINT=https://minio:9000 upesi backup --data /var/lib/upesi --to s3://backups/hub-1
  upesi restore --from file:///mnt/backup --data /var/lib/upesi-new
A switch may be running. With [backup] in its configuration it keeps the copy up to date itself.";

/// Arguments of `backup`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BackupArguments {
    /// Directory of the log. A switch may be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Destination: a directory, s3://BUCKET/PREFIX, gs:// or az://.
    ///
    /// The directory must exist (also as file:///DIRECTORY). Buckets need the feature object-stores
    /// and credentials in the environment. The destination must be empty or hold segments of this
    /// log.
    #[arg(long, value_name = "URL|DIR")]
    to: String,
    /// Configuration file to copy as well.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read the whole existing copy and rewrite damaged objects.
    ///
    /// Without it, only the names and lengths of compressed segments are checked.
    #[arg(long)]
    check: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    to: String,
    /// The last record of the copy and its chain head, as `verify` of the restored log shows them.
    end: u64,
    chain_head: String,
    segments: usize,
    files: usize,
    bytes: u64,
    /// Objects of the copy that were missing or damaged and were rewritten.
    mended: Vec<String>,
    seconds: f64,
}

/// Locks the directory for one backup at a time: waits for a concurrent run of the switch or of
/// this command. Returns early if `give_up` returns true.
pub(crate) fn copy_alone(
    disk: &RealDisk,
    give_up: impl Fn() -> bool,
) -> Result<CopyLock, DiskError> {
    let started = Instant::now();
    let waits = || started.elapsed() < LOCK_WAIT_MAX && !give_up();
    loop {
        match disk.copy_alone() {
            Err(DiskError::InUse(_)) if waits() => thread::sleep(POLL_INTERVAL),
            answer => return answer,
        }
    }
}

pub(crate) fn backup(arguments: &BackupArguments) -> Result<(), CliError> {
    let started = Instant::now();
    let data = arguments.data.display().to_string();
    let failed = |what: String| CliError::new(format!("{data}: {what}"));
    if !arguments.data.is_dir() {
        return Err(failed("directory not found".into()));
    }
    if let Some(config) = &arguments.config
        && let Err(error) = std::fs::metadata(config)
    {
        return Err(CliError::new(format!("{}: cannot be read: {error}", config.display())));
    }
    let config = Config::read(arguments.config.as_deref())?;
    let settings = Some(&config.encryption);
    let place = journal::open_blob_store(&arguments.to);
    let place = place.map_err(|error| CliError::new(error.to_string()))?;
    let disk = RealDisk::open_live(&arguments.data).map_err(|error| failed(error.to_string()))?;
    let _alone = copy_alone(&disk, || false).map_err(|error| failed(error.to_string()))?;
    let mut progress = Progress::new("MiB read and written", None);
    let mut bytes = 0_u64;
    let extras = extras(arguments.config.as_deref());
    let mut watch = |more| {
        bytes += more;
        progress.show(bytes >> 20);
        Ok(())
    };
    let mut mended = BTreeSet::new();
    let mut copied = Err(ArchiveError::Stopped);
    for _ in 0..ATTEMPTS {
        let log = TieredDisk::open(disk.clone()).map_err(|error| failed(error.to_string()))?;
        let log = unlock(log, Access::Read, settings)?.0;
        copied = Ok(log).and_then(|log| {
            let mut backup = Backup::open(&log, Arc::clone(&place))?;
            if arguments.check {
                backup.check(&mut watch)?;
            }
            mended.extend(backup.damaged().iter().cloned());
            backup.run(&log, &extras, &mut watch)
        });
        let moved = matches!(copied, Err(ArchiveError::Disk(DiskError::NotFound(_))));
        if !moved {
            break;
        }
    }
    progress.end();
    let copied = copied.map_err(|error| failed(error.to_string()))?;
    let report = Report {
        to: arguments.to.clone(),
        end: copied.end.0,
        chain_head: copied.chain.to_string(),
        segments: copied.segments,
        files: copied.files,
        bytes: copied.bytes,
        mended: mended.into_iter().collect(),
        seconds: started.elapsed().as_secs_f64(),
    };
    if arguments.json {
        return print_json(&report);
    }
    let Report { to, end, chain_head, segments, files, bytes, .. } = &report;
    println!("{to} holds the log up to record {end}, chain head {chain_head}");
    let segments = counted(*segments as u64, "closed segment");
    let files = counted(*files as u64, "other file");
    println!("copied now: {}, {segments}, {files}", Bytes(*bytes));
    for object in &report.mended {
        println!("{object}: was missing or damaged; rewritten");
    }
    Ok(())
}

/// Files to copy from outside the data directory: the configuration.
pub(crate) fn extras(configuration: Option<&Path>) -> Vec<ExtraFile> {
    let read = configuration.and_then(|path| std::fs::read(path).ok());
    read.map(|bytes| ExtraFile { name: CONFIGURATION.to_owned(), bytes }).into_iter().collect()
}
