//! `upesi verify`: reads a whole log and decides everything again.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Instant;

use journal::{FileLog, Options, RealDisk, Verify};
use ledger::{Command, Outcome, State, TransferId};
use sequencer::{Applied, Replayed};
use serde::Serialize;

use crate::{Failure, VerifyArguments};

/// Records between two signs of life.
const PROGRESS: u64 = 100_000;

/// What was proved.
#[derive(Debug, Serialize)]
struct Proof {
    ok: bool,
    segments: usize,
    batches: u64,
    records: u64,
    transfers_ended: usize,
    transfers_in_flight: usize,
    committed: u64,
    notices_owed: usize,
    notices_delivered: u64,
    dead_letters: usize,
    participants: usize,
    chain_head: String,
    outcome_digest: String,
    state_hash: String,
    seconds: f64,
}

pub(crate) fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    let started = Instant::now();
    let place = arguments.data.display();
    if !arguments.data.is_dir() {
        return Err(Failure::new(format!("{place}: there is no such directory")));
    }
    let failed = |error: String| Failure::new(format!("{place}: {error}"));
    let disk = RealDisk::open(&arguments.data).map_err(|error| failed(error.to_string()))?;
    let options = Options { verify: Verify::LastSegment, ..Options::default() };
    let (mut log, recovery) =
        FileLog::open(disk, options).map_err(|error| failed(error.to_string()))?;
    let mut audit = Audit::default();
    let replayed = sequencer::replay(&mut log, &mut |applied| audit.see(applied))
        .map_err(|error| failed(error.to_string()))?;
    audit.compare(&replayed.state).map_err(failed)?;
    let chain_head = ports::Log::chain(&log).to_string();
    let proof = Proof {
        seconds: started.elapsed().as_secs_f64(),
        ..proof(&replayed, recovery.segments, chain_head)
    };
    print(&proof, arguments.json)
}

/// An account of the log kept apart from the kernel's own: which transfer ended how, once.
#[derive(Default)]
struct Audit {
    seen: u64,
    ends: HashMap<TransferId, Outcome>,
    twice: Option<TransferId>,
    reserved: u64,
}

impl Audit {
    fn see(&mut self, applied: &Applied<'_>) {
        self.seen += 1;
        if self.seen.is_multiple_of(PROGRESS) && std::io::stderr().is_terminal() {
            eprint!("\r{} records", self.seen);
        }
        let id = match applied.command {
            Command::Prepare(_) => {
                self.reserved += u64::from(applied.outcome == Outcome::PrepareReserved);
                return;
            }
            Command::Fulfil(fulfil) => fulfil.id,
            Command::Abort(abort) => abort.id,
            _ => return,
        };
        if is_end(applied.outcome) && self.ends.insert(id, applied.outcome).is_some() {
            self.twice = Some(id);
        }
    }

    fn compare(&self, state: &State) -> Result<(), String> {
        if let Some(id) = self.twice {
            return Err(format!("transfer {id} has two ends"));
        }
        for (currency, sum) in state.books().sums() {
            if sum != ledger::Amount::ZERO {
                return Err(format!("the accounts of {currency} sum to {sum}, not to zero"));
            }
        }
        let counters = state.counters();
        let committed = self.ends.values().filter(|end| **end == Outcome::Committed).count() as u64;
        if committed != counters.committed {
            return Err(format!("{committed} commits in the log, {} counted", counters.committed));
        }
        let ended = counters.committed + counters.aborted + counters.expired;
        let open = state.transfers_in_flight() as u64;
        if self.reserved != ended + open {
            let reserved = self.reserved;
            return Err(format!("{reserved} reserved, but {ended} ended and {open} in flight"));
        }
        Ok(())
    }
}

fn is_end(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Committed
            | Outcome::Aborted
            | Outcome::AbortedWithUnknownCode
            | Outcome::AbortedByPut
            | Outcome::FulfilmentInvalid
            | Outcome::AnswerToStranger
    )
}

fn proof(replayed: &Replayed, segments: usize, chain_head: String) -> Proof {
    let state = &replayed.state;
    Proof {
        ok: true,
        segments,
        batches: replayed.batches,
        records: replayed.records,
        transfers_ended: state.transfers_ended(),
        transfers_in_flight: state.transfers_in_flight(),
        committed: state.counters().committed,
        notices_owed: state.notices_owed_count(),
        notices_delivered: state.counters().delivered,
        dead_letters: state.dead_letter_count(),
        participants: state.register().iter().count(),
        chain_head,
        outcome_digest: state.digest().to_string(),
        state_hash: state.hash().to_string(),
        seconds: 0.0,
    }
}

fn print(proof: &Proof, json: bool) -> Result<(), Failure> {
    if json {
        let text =
            serde_json::to_string_pretty(proof).map_err(|error| Failure::new(error.to_string()))?;
        println!("{text}");
        return Ok(());
    }
    if std::io::stderr().is_terminal() {
        eprint!("\r");
    }
    println!("proved in {:.1} s:", proof.seconds);
    println!("  chain unbroken over {} segments, head {}", proof.segments, proof.chain_head);
    println!(
        "  {} records in {} batches decided again with the recorded outcomes, digest {}",
        proof.records, proof.batches, proof.outcome_digest
    );
    println!("  every currency sums to zero, at every batch and now");
    println!(
        "  {} transfers ended ({} committed), each once; {} in flight",
        proof.transfers_ended, proof.committed, proof.transfers_in_flight
    );
    println!(
        "  notices: {} delivered, {} owed, {} dead letters",
        proof.notices_delivered, proof.notices_owed, proof.dead_letters
    );
    println!("  state hash {}", proof.state_hash);
    Ok(())
}
