//! `upesi audit verify`: compares a log with signed chain heads.

mod topic;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::Progress;
use journal::{BlobStore, LocatedFrame};
use jws::VerificationKey;
use serde::Serialize;

use crate::CliError;
use crate::cli::stdout::print_json;
use crate::cli::units::{Count, counted};
use crate::data::chain_heads::{self, ChainHead};
use crate::inspect::offline::OfflineLog;

pub(super) const EXAMPLES: &str = "\
Examples:
  upesi audit verify --data copy --heads file:///mnt/heads --key hub.pub.pem
  upesi audit verify --data copy --heads s3://auditor/hub-1 --key old.pem --key new.pem --json
  upesi audit verify --data copy --heads kafka://broker-1:9092/chain-heads --key hub.pub.pem
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
    /// Directory, bucket or topic with the signed chain heads.
    ///
    /// The value of chain_heads.to or chain_heads.topic. All messages of a topic are read.
    #[arg(long, value_name = "URL|DIR")]
    heads: String,
    /// Configuration whose section [kafka] has TLS and login for a topic.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
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
    let mut report = Report::default();
    let heads = match arguments.heads.starts_with("kafka://") {
        true => read_topic(arguments, &keys, &mut report)?,
        false => {
            let store = journal::open_blob_store(&arguments.heads);
            let store = store.map_err(|error| CliError::new(error.to_string()))?;
            read_heads(&*store, &keys, &mut report)?
        }
    };
    compare(&arguments.data, heads, &mut report)?;
    report.ok = report.fault_count == 0;
    match arguments.json {
        true => print_json(&report)?,
        false => report.print(),
    }
    match report.ok {
        true => Ok(()),
        false => Err(CliError::new(format!(
            "{}: does not match its signed chain heads: {}; keep the directory and the \
             chain heads, and compare it with a copy of the log",
            arguments.data.display(),
            counted(report.fault_count, "fault")
        ))),
    }
}

fn read_key(path: &Path) -> Result<VerificationKey, CliError> {
    let failed =
        |error: &dyn std::fmt::Display| CliError::new(format!("--key {}: {error}", path.display()));
    let text = fs::read(path).map_err(|error| failed(&error))?;
    VerificationKey::from_pem(&text).map_err(|error| failed(&error))
}

/// Statements with a valid signature, in the order of the log. Two different ones about a record
/// are both compared: a switch that continued another history signed both.
type Heads = BTreeMap<(u64, String), ChainHead>;

fn insert(heads: &mut Heads, head: ChainHead) {
    heads.insert((head.log_index, format!("{} {}", head.log, head.chain_head)), head);
}

/// Reads the statements with a valid signature.
fn read_heads(
    store: &dyn BlobStore,
    keys: &[VerificationKey],
    report: &mut Report,
) -> Result<Heads, CliError> {
    let names = chain_heads::list(store).map_err(|error| CliError::new(error.to_string()))?;
    if names.is_empty() {
        return Err(CliError::new(format!(
            "{}: holds no signed chain heads; the switch publishes them with chain_heads.to",
            store.url()
        )));
    }
    let mut heads = Heads::new();
    let mut progress = Progress::new("signed chain heads", Some(names.len() as u64));
    for (at, name) in names.iter().enumerate() {
        progress.show(at as u64);
        match chain_heads::read(store, name, keys) {
            Ok(head) => insert(&mut heads, head),
            Err(error) => report.fault(format!("statement {name}: {error}")),
        }
    }
    progress.end();
    Ok(heads)
}

/// Reads the statements with a valid signature from all messages of a topic.
fn read_topic(
    arguments: &VerifyArguments,
    keys: &[VerificationKey],
    report: &mut Report,
) -> Result<Heads, CliError> {
    let mut heads = Heads::new();
    topic::read(&arguments.heads, arguments.config.as_deref(), &mut |place, name, bytes| {
        match chain_heads::verify(name, bytes, keys) {
            Ok(head) => insert(&mut heads, head),
            Err(error) => report.fault(format!("{place}: {error}")),
        }
    })?;
    Ok(heads)
}

/// Reads the log and compares it with each chain head.
fn compare(data: &Path, mut heads: Heads, report: &mut Report) -> Result<(), CliError> {
    let log = OfflineLog::open_live(data)?;
    let walked = log.walk(&mut |placed| {
        report.compare(placed, &mut heads);
        Ok(())
    });
    match walked {
        Ok(walked) => report.end = walked.tail.end.0,
        Err(error) => report.fault(format!("the log cannot be read to its end: {error}")),
    }
    for head in heads.into_values() {
        report.fault(format!(
            "record {} was signed at {}, and the log has only {} records",
            Count(head.log_index),
            head.stamp,
            Count(report.end)
        ));
    }
    Ok(())
}

impl Report {
    /// Compares a batch of the log with the chain heads that concern it.
    fn compare(&mut self, placed: &LocatedFrame<'_>, heads: &mut Heads) {
        let (header, chain) = (placed.frame.header(), placed.frame.chain());
        let last = header.last().0;
        self.end = last;
        while let Some(entry) = heads.first_entry().filter(|entry| entry.key().0 <= last) {
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
