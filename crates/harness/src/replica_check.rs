//! Checks of the nodes' copies of one log: each is valid, all agree, and each contains every
//! message that any node answered 2xx.

use std::collections::BTreeSet;
use std::path::Path;

use dfsp::{Acknowledged, PaymentMessage};
use journal::{RealDisk, TieredDisk};
use ledger::{Command, TransferMessage};
use record::command::read_fields;

use crate::reconcile::Check;
use crate::switch_process::SwitchCommand;

/// Maximum number of missing messages that are listed.
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

/// Verifies every copy, then compares them with each other and with the acknowledged messages.
pub fn verify(
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
            "all nodes have the same state",
            differences(command, copies, &mut agreed),
        ));
        checks.push(Check::of(
            "every message answered 2xx is in the log of each node",
            copies.iter().flat_map(|copy| missing(copy, acknowledged)).collect(),
        ));
    }
    (checks, agreed)
}

/// Compares the states at the last common log index.
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
                "at log index {} node {name} has the state {hash}, another one has {}",
                agreed.log_index, agreed.state_hash
            )),
        }
    }
    problems
}

/// Describes acknowledged messages that are not in a copy.
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
    let named: Vec<_> = lost
        .iter()
        .take(NAMED_MAX)
        .map(|it| format!("{:?} of {}", it.message, it.transfer))
        .collect();
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
            found.extend(command.ok().as_ref().and_then(payment_message));
        }
        Ok(())
    });
    walked.map_err(|error| error.to_string())?;
    Ok(found.into_iter().collect())
}

fn payment_message(command: &Command) -> Option<Acknowledged> {
    let command_message = command.message()?;
    let message = match command_message {
        TransferMessage::Prepare(_) => PaymentMessage::Prepare,
        TransferMessage::Fulfil(_) => PaymentMessage::Fulfil,
        TransferMessage::Abort(_) => PaymentMessage::Abort,
    };
    Some(Acknowledged { transfer: *command_message.transfer(), message })
}
