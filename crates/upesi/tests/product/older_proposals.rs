//! A proposal to register a party that was made before rules version 5, with the identifier in
//! clear in its fields, is approved under the newest rules.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use journal::{FileLog, LogOptions, RealDisk};
use ledger::{Command, PARTY_RULES, RULES_VERSION, Stamp, State};
use ports::ClockReading;
use record::command::read_fields;
use record::frame::{LogIdentity, Payload};
use rustix::process::Signal;
use sequencer::{Durability, Quarantine, ReplayStart, Sequencer, Submission};

use crate::party_erasure::{Pair, holders};
use crate::support::scheme::Admin;
use crate::support::switch::Printed;

const NUMBER: &str = "254700000004";

/// A command with its contents and its time.
type Recorded = (Command, Option<Vec<u8>>, Stamp);

/// The commands of a log, and its identity.
fn read_log(data: &Path) -> (LogIdentity, Vec<Recorded>) {
    let disk = RealDisk::open(data).unwrap();
    let mut commands = Vec::new();
    let walked = journal::walk(&disk, &mut |placed| {
        let stamp = placed.frame.header().batch.stamp;
        for record in placed.frame.records() {
            let command = read_fields(record.kind, record.version, record.fields).unwrap();
            let contents = match record.payload {
                Payload::Stored(payload) => Some(payload.to_vec()),
                _ => None,
            };
            commands.push((command, contents, stamp));
        }
        Ok(())
    });
    (walked.unwrap().tail.identity, commands)
}

/// Writes a log as a program before the hashes of identifiers wrote it: under earlier rules, and
/// with the identifiers in the fields.
fn write_under_earlier_rules(data: &Path) {
    let (identity, commands) = read_log(data);
    for entry in fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() {
            fs::remove_dir_all(entry).unwrap();
        } else if name != "admin-token" {
            fs::remove_file(entry).unwrap();
        }
    }
    let disk = RealDisk::open(data).unwrap();
    let log = FileLog::create(disk, identity, LogOptions::default()).unwrap();
    let mut state = State::new();
    state.begin_under(PARTY_RULES);
    let start = ReplayStart { state, quarantine: Quarantine::default(), cold_tier: None };
    let opened = Sequencer::open_from(log, start, (0, ClockReading::default()), &mut |_| {});
    let mut sequencer = opened.unwrap_or_else(|failed| panic!("{}", failed.1));
    for (mut command, mut payload, stamp) in commands {
        let parties = command.named_parties_mut();
        if let (false, Some(contents)) = (parties.is_empty(), &payload) {
            switch::reveal_parties(parties, contents);
            payload = None;
        }
        let record = sequencer::encode(&command, payload.as_deref()).unwrap();
        let durability = Durability::Synced;
        let submission = Submission { command, record, durability, attached: () };
        let now = ClockReading { monotonic_us: stamp.0, wall: stamp };
        sequencer.commit(&mut VecDeque::from([submission]), &mut Vec::new(), now).unwrap();
    }
    sequencer.close().unwrap();
}

#[test]
fn a_proposal_in_clear_is_approved_under_the_newest_rules() {
    let mut pair = Pair::start();
    pair.propose_party(NUMBER);
    let data = pair.office.home.data();
    let home = pair.office.end(Signal::TERM);
    write_under_earlier_rules(&data);
    pair.office = crate::operators::Office { switch: home.serve(), home };
    pair.admin = Admin::new(&pair.office.home, &pair.office.switch);
    let rules = pair.admin.json("/rules");
    assert_eq!((&rules["rulesVersion"], &rules["rulesKnown"]), (&4.into(), &RULES_VERSION.into()));
    let shown = pair.proposal(1);
    assert!(shown.contains(&format!("party MSISDN {NUMBER} of payerfsp")), "{shown}");
    let newest = format!("{{\"rulesVersion\":{RULES_VERSION}}}");
    assert_eq!(pair.admin.call("PUT", "/rules", &newest).status, 200);
    pair.approve(1);
    assert!(pair.found(NUMBER).contains("payerfsp"), "{}", pair.found(NUMBER));
    let shown = pair.proposal(1);
    assert!(shown.contains("APPROVED") && shown.contains(NUMBER), "{shown}");
    // It repeats the change as it was proposed.
    let is_log = |path: &PathBuf| path.extension().is_some_and(|it| it == "segment");
    assert!(holders(&data, NUMBER).iter().any(is_log));
    let office = pair.office.restart(Signal::KILL);
    office.end(Signal::TERM).verify().succeeds();
}
