//! `upesi restore`: a new data directory from a copy in another place, proved before it has its
//! name.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use journal::{RealDisk, Restored, open_place};
use serde::Serialize;

use crate::Failure;
use crate::offline::{Go, OfflineLog, Progress, moment, print_json};

/// Beside the directory while it is made.
const UNFINISHED: &str = ".restoring";

const EXAMPLES: &str = "\
Examples:
  upesi restore --from file:///mnt/backup --data /var/lib/upesi
  upesi restore --from file:///mnt/backup --data /var/lib/upesi --json
Never let the restored switch and the old one run at the same time: both would answer for the same
money. Interrupted, it goes on where it was.";

/// Arguments of `restore`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArguments {
    /// Where the copy is, as `backup --to` named it.
    #[arg(long, value_name = "URL")]
    from: String,
    /// The directory to make; it must not exist, or be empty.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What was proved.
#[derive(Serialize)]
struct Proof {
    segments: usize,
    files: Vec<String>,
    records: u64,
    batches: u64,
    last_stamp: String,
    chain_head: String,
    state_hash: String,
    seconds: f64,
}

pub(crate) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    let started = Instant::now();
    let data = &arguments.data;
    let failed = |what: String| Failure::new(format!("{}: {what}", data.display()));
    let place = open_place(&arguments.from).map_err(|error| Failure::new(error.to_string()))?;
    if has_something(data).map_err(|error| failed(error.to_string()))? {
        let what = "it holds something; a restore never overwrites: name a new directory";
        return Err(failed(what.into()));
    }
    let unfinished = unfinished(data).ok_or_else(|| failed("it has no name".into()))?;
    let disk = RealDisk::open(&unfinished).map_err(|error| failed(error.to_string()))?;
    let mut progress = Progress::new();
    let mut bytes = 0_u64;
    let restored = journal::restore(&*place, &disk, &mut |more| {
        bytes += more;
        progress.say(|| format!("{} MiB brought back and read", bytes >> 20));
        Ok(())
    });
    progress.end();
    let restored = restored.map_err(|error| {
        Failure::new(format!("{error}. What was brought back is in {}", unfinished.display()))
    })?;
    drop(disk);
    let state_hash = decide_again(&unfinished)?;
    put_in_place(&unfinished, data).map_err(|error| failed(error.to_string()))?;
    let proof = Proof {
        segments: restored.segments,
        files: restored.files.clone(),
        records: restored.walked.tail.end.0,
        batches: restored.walked.frames,
        last_stamp: moment(restored.walked.tail.stamp),
        chain_head: restored.walked.tail.chain.to_string(),
        state_hash,
        seconds: started.elapsed().as_secs_f64(),
    };
    if arguments.json {
        return print_json(&proof);
    }
    print(&proof, &restored, data);
    Ok(())
}

/// Decides every command again with the kernel; gives the hash of the state.
fn decide_again(data: &Path) -> Result<String, Failure> {
    let log = OfflineLog::open(data)?;
    let (replay, _) = log.replay(&mut |replay, placed| {
        replay.apply(placed.frame, &mut |_, _, _| {})?;
        Ok(Go::On)
    })?;
    Ok(replay.state().hash().to_string())
}

fn has_something(data: &Path) -> std::io::Result<bool> {
    match fs::read_dir(data) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn unfinished(data: &Path) -> Option<PathBuf> {
    let mut name = data.file_name()?.to_owned();
    name.push(UNFINISHED);
    Some(data.with_file_name(name))
}

/// Gives the directory its name: an empty one that has it is replaced.
fn put_in_place(unfinished: &Path, data: &Path) -> std::io::Result<()> {
    fs::rename(unfinished, data)?;
    let above = data.parent().filter(|above| !above.as_os_str().is_empty());
    fs::File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

fn print(proof: &Proof, restored: &Restored, data: &Path) {
    println!("{} holds the log again; proved in {:.1} s:", data.display(), proof.seconds);
    println!(
        "  {} records in {} batches, {} segments, {} bytes: every checksum, and the chain from \
         the log's identity on, head {}",
        proof.records, proof.batches, proof.segments, restored.walked.bytes, proof.chain_head
    );
    println!("  it ends where the copy says, at {}", proof.last_stamp);
    println!(
        "  every command decided again, the outcomes as recorded; state hash {}",
        proof.state_hash
    );
    for file in &proof.files {
        println!("  {file}, as its digest says");
    }
    println!("`upesi verify` proves the rest; the old switch must not run any more");
}
