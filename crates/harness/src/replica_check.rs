//! Checks of the copies that nodes keep of one log: each is sound, all agree, and every
//! message that any node answered 2xx is in each of them.

use std::collections::BTreeSet;
use std::path::Path;

use dfsp::{Acknowledged, PaymentMessage};
use journal::{RealDisk, TieredDisk};
use ledger::{Command, TransferMessage};
use record::command::read_fields;

use crate::reconcile::Check;
use crate::switch_process::SwitchCommand;

/// Missing messages that are named.
const NAMED_MAX: usize = 5;

/// A node's copy.
pub struct ReplicaCopy<'a> {
    /// The node.
    pub name: &'a str,
    pub data: &'a Path,
}

/// The state that all copies agree on.
#[derive(Clone, Debug, Default)]
pub struct ReplicaAgreement {
    /// The last record that all of them have.
    pub log_index: u64,
    /// The hash of the state there.
    pub state_hash: String,
}

/// Proves every copy, then all against each other and against what was acknowledged.
pub fn prove(
    command: &SwitchCommand,
    copies: &[ReplicaCopy<'_>],
    acknowledged: &BTreeSet<Acknowledged>,
) -> (Vec<Check>, ReplicaAgreement) {
    let mut problems = Vec::new();
    let mut ends = Vec::new();
    for ReplicaCopy { name, data } in copies {
        match command.verify(data) {
            Ok(verified) => ends.push(verified.records),
            Err(problem) => problems.push(format!("node {name}: {problem}")),
        }
    }
    let sound = problems.is_empty();
    let mut checks = vec![Check::of("the log of each node was verified", problems)];
    let mut agreed = ReplicaAgreement::default();
    if sound {
        agreed.log_index = ends.into_iter().min().unwrap_or(0);
        checks.push(Check::of(
            "all nodes come to the same state",
            differences(command, copies, &mut agreed),
        ));
        checks.push(Check::of(
            "every message answered 2xx is in the log of each node",
            copies.iter().flat_map(|copy| missing(copy, acknowledged)).collect(),
        ));
    }
    (checks, agreed)
}

/// Holds the states at the last common record against each other.
fn differences(
    command: &SwitchCommand,
    copies: &[ReplicaCopy<'_>],
    agreed: &mut ReplicaAgreement,
) -> Vec<String> {
    let mut problems = Vec::new();
    for ReplicaCopy { name, data } in copies {
        match command.state_at(data, agreed.log_index) {
            Err(problem) => problems.push(format!("node {name}: {problem}")),
            Ok(hash) if agreed.state_hash.is_empty() => agreed.state_hash = hash,
            Ok(hash) if hash == agreed.state_hash => {}
            Ok(hash) => problems.push(format!(
                "by record {} node {name} comes to the state {hash}, another one to {}",
                agreed.log_index, agreed.state_hash
            )),
        }
    }
    problems
}

/// Acknowledged messages that a copy lacks.
fn missing(copy: &ReplicaCopy<'_>, acknowledged: &BTreeSet<Acknowledged>) -> Vec<String> {
    let name = copy.name;
    let recorded = match recorded(copy.data) {
        Ok(recorded) => recorded,
        Err(problem) => return vec![format!("node {name}: {problem}")],
    };
    let lost: Vec<_> = acknowledged.difference(&recorded).collect();
    if lost.is_empty() {
        return Vec::new();
    }
    let named: Vec<_> =
        lost.iter().take(NAMED_MAX).map(|it| format!("{:?} of {}", it.said, it.transfer)).collect();
    vec![format!(
        "{} of {} messages answered 2xx are not in the log of node {name}: {}",
        lost.len(),
        acknowledged.len(),
        named.join(", ")
    )]
}

/// Every message about a transfer in a log.
fn recorded(data: &Path) -> Result<BTreeSet<Acknowledged>, String> {
    let disk = RealDisk::open_to_read(data).and_then(TieredDisk::open);
    let disk = disk.map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    let walked = journal::walk(&disk, &mut |placed| {
        for record in placed.frame.records() {
            // The previous check reports unreadable records.
            let command = read_fields(record.kind, record.version, record.fields);
            found.extend(command.ok().as_ref().and_then(said));
        }
        Ok(())
    });
    walked.map_err(|error| error.to_string())?;
    Ok(found.into_iter().collect())
}

fn said(command: &Command) -> Option<Acknowledged> {
    let message = command.message()?;
    let said = match message {
        TransferMessage::Prepare(_) => PaymentMessage::Prepare,
        TransferMessage::Fulfil(_) => PaymentMessage::Fulfil,
        TransferMessage::Abort(_) => PaymentMessage::Abort,
    };
    Some(Acknowledged { transfer: *message.transfer(), said })
}
