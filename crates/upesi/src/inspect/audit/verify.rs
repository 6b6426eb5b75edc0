//! `upesi audit verify`: compares a log with signed chain heads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::Progress;
use journal::{BlobStore, LocatedFrame};
use jws::VerificationKey;
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::print_json;
use crate::cli::units::Count;
use crate::data::chain_heads::{self, ChainHead};
use crate::inspect::offline::OfflineLog;

pub(super) const EXAMPLES: &str = "\
Examples:
  upesi audit verify --data copy --heads file:///mnt/heads --key hub.pub.pem
  upesi audit verify --data copy --heads s3://auditor/hub-1 --key old.pem --key new.pem --json
A switch may be running on the directory. The public key: GET /participants/Hub/keys, or
  openssl pkey -in hub.pem -pubout -out hub.pub.pem";

/// Faults that are listed; more are counted only.
const FAULTS_MAX: usize = 100;

/// Arguments of `audit verify`.
#[derive(clap::Args)]
pub(super) struct VerifyArguments {
    /// Directory of the log, or of a copy.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Directory or bucket with the signed chain heads: the value of chain_heads.to.
    #[arg(long, value_name = "URL|DIR")]
    heads: String,
    /// Public key of the switch, in PEM; repeat it for keys that were replaced.
    #[arg(long, value_name = "FILE", required = true)]
    key: Vec<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The result.
#[derive(Debug, Default, Serialize)]
struct Report {
    ok: bool,
    /// Signed chain heads that match the log.
    matching: u64,
    /// The last record that a matching chain head covers, and its stamp.
    covered: Option<Covered>,
    /// The last record of the log.
    end: u64,
    fault_count: u64,
    /// The first faults.
    faults: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Covered {
    log_index: u64,
    stamp: String,
}

pub(super) fn run(arguments: &VerifyArguments) -> Result<(), CliError> {
    let keys = arguments.key.iter().map(|path| read_key(path)).collect::<Result<Vec<_>, _>>()?;
    let store = journal::open_blob_store(&arguments.heads);
    let store = store.map_err(|error| CliError::new(error.to_string()))?;
    let mut report = Report::default();
    let heads = read_heads(&*store, &keys, &mut report)?;
    compare(&arguments.data, heads, &mut report)?;
    report.ok = report.fault_count == 0;
    match arguments.json {
        true => print_json(&report)?,
        false => report.print(),
    }
    match report.ok {
        true => Ok(()),
        false => Err(CliError::new(format!(
            "{}: does not match its signed chain heads: {} faults; keep the directory and the \
             chain heads, and compare it with a copy of the log",
            arguments.data.display(),
            Count(report.fault_count)
        ))),
    }
}

fn read_key(path: &Path) -> Result<VerificationKey, CliError> {
    let failed =
        |error: &dyn std::fmt::Display| CliError::new(format!("--key {}: {error}", path.display()));
    let text = fs::read(path).map_err(|error| failed(&error))?;
    VerificationKey::from_pem(&text).map_err(|error| failed(&error))
}

/// Reads the statements with a valid signature, by log index.
fn read_heads(
    store: &dyn BlobStore,
    keys: &[VerificationKey],
    report: &mut Report,
) -> Result<BTreeMap<u64, ChainHead>, CliError> {
    let names = chain_heads::list(store).map_err(|error| CliError::new(error.to_string()))?;
    if names.is_empty() {
        return Err(CliError::new(format!(
            "{}: holds no signed chain heads; the switch publishes them with chain_heads.to",
            store.url()
        )));
    }
    let mut heads = BTreeMap::new();
    let mut progress = Progress::new("signed chain heads", Some(names.len() as u64));
    for (at, name) in names.iter().enumerate() {
        progress.show(at as u64);
        match chain_heads::read(store, name, keys) {
            Ok(head) => drop(heads.insert(head.log_index, head)),
            Err(error) => report.fault(format!("statement {name}: {error}")),
        }
    }
    progress.end();
    Ok(heads)
}

/// Reads the log and compares it with each chain head.
fn compare(
    data: &Path,
    mut heads: BTreeMap<u64, ChainHead>,
    report: &mut Report,
) -> Result<(), CliError> {
    let log = OfflineLog::open_live(data)?;
    let walked = log.walk(&mut |placed| {
        report.compare(placed, &mut heads);
        Ok(())
    });
    match walked {
        Ok(walked) => report.end = walked.tail.end.0,
        Err(error) => report.fault(format!("the log cannot be read to its end: {error}")),
    }
    for (log_index, head) in heads {
        report.fault(format!(
            "record {} was signed at {}, and the log has only {} records",
            Count(log_index),
            head.stamp,
            Count(report.end)
        ));
    }
    Ok(())
}

impl Report {
    /// Compares a batch of the log with the chain heads that concern it.
    fn compare(&mut self, placed: &LocatedFrame<'_>, heads: &mut BTreeMap<u64, ChainHead>) {
        let (header, chain) = (placed.frame.header(), placed.frame.chain());
        let last = header.last().0;
        self.end = last;
        while let Some(entry) = heads.first_entry().filter(|entry| *entry.key() <= last) {
            let head = entry.remove();
            let number = Count(head.log_index);
            if head.log != header.identity.to_string() {
                self.fault(format!(
                    "the chain head of record {number} is of log {}, not of this log {}",
                    head.log, header.identity
                ));
            } else if head.log_index < last {
                self.fault(format!(
                    "record {number} ended a batch when it was signed, and is inside one now"
                ));
            } else if head.chain_head != chain.to_string() {
                self.fault(format!(
                    "records up to {number} were changed after {}: the signed chain head is {}, \
                     that of the log {chain}",
                    head.stamp, head.chain_head
                ));
            } else {
                self.matching += 1;
                self.covered = Some(Covered { log_index: last, stamp: head.stamp });
            }
        }
    }

    fn fault(&mut self, fault: String) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    fn print(&self) {
        for fault in &self.faults {
            println!("fault: {fault}");
        }
        let Some(Covered { log_index, stamp }) = &self.covered else { return };
        println!("{} signed chain heads match the log", Count(self.matching));
        println!("  unchanged      up to record {}, decided at {stamp}", Count(*log_index));
        println!("  not signed yet {} later records", Count(self.end - log_index));
    }
}
