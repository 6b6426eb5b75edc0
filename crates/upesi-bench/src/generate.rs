//! `upesi-bench preload`: adds many final transfers to a data directory.
//!
//! Each transfer consists of the two messages that simulated FSPs write. They take the path of
//! received messages: headers, bodies and identifiers are checked, rewritten and stored, and pass
//! through the inbox, the sequencer's thread, the kernel and the log. Only sockets are left out,
//! and every notice is recorded as delivered at the first attempt, or, with `--dead-letters`, those
//! about committed transfers as given up. The log therefore passes `verify`. Snapshots are taken as
//! often as by a switch. `--participants` first adds participants that take part in no transfer.
//!
//! A chunk of prepares is committed while the next one is written. Its fulfilments are submitted
//! together with the next chunk. Memory is bounded by two chunks, plus the memory of the switch for
//! final transfers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dfsp::{MessagePair, PairWriter, SimulatorOptions};
use harness::footprint::Footprint;
use harness::{Confirm, FspOptions, Interrupt, Progress, SwitchCommand};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use ledger::{
    Administer, Command, Counters, CreateParticipant, DeliveryResult, FinishedDelivery, FspName,
    Notice, NoticeKind, Outcome, State,
};
use node::{
    Handle, Mailbox, MailboxEvent, ReplyTo, SubmissionContext, SubmissionRefused, SystemClock,
};
use ports::Clock;
use sequencer::{Durability, Submission};
use serde_json::json;

use upesi::{BareNode, CliError};

/// Maximum number of transfers in a chunk.
const CHUNK: u64 = 4_096;
/// Approximate size of the messages of a chunk, in bytes.
const CHUNK_BYTES: u64 = 16 << 20;
/// Approximate disk space of a transfer in addition to its larger body.
const OVERHEAD_BYTES: u64 = 1_600;
const FREE_BYTES: u64 = 256 << 20;
/// Lifetime of a transfer. Fulfilments follow within moments, but a machine may pause in between.
/// Transfers that are reserved when the program is killed expire after this time.
const TRANSFER_LIFETIME: Duration = Duration::from_secs(600);
/// Time to wait for the mailbox before the switch is checked.
const MAILBOX_WAIT: Duration = Duration::from_millis(200);
const HEADERS_MAX: usize = 32;
/// Attempts of a callback that is given up.
const GIVEN_UP_AFTER: u16 = 9;
/// Kind of a message, used as the number of its waiter.
const PREPARE: u32 = 0;
const FULFIL: u32 = 1;
const PARTICIPANT: u32 = 2;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi-bench preload --data big --total 1M        a million final transfers, about 3 GB
  upesi-bench preload --data big --total 10M       nine million more
  upesi-bench preload --data dead --total 1M --dead-letters
  upesi-bench transfer --data big --json           measures a switch with them
  upesi verify --data big
Shows the rate and the remaining time. If interrupted, run the same command again to continue.";

/// Arguments of `preload`.
#[derive(clap::Args)]
pub(crate) struct PreloadArguments {
    /// Directory of the log; created if missing. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Number of transfers to add, such as 250k or 10M.
    #[arg(long, value_name = "COUNT", value_parser = harness::count,
        conflicts_with = "total", required_unless_present = "total")]
    transfers: Option<u64>,
    /// Number of final transfers that the directory should hold.
    ///
    /// Missing transfers are added. The command can be interrupted and resumed.
    #[arg(long, value_name = "COUNT", value_parser = harness::count)]
    total: Option<u64>,
    /// Seed for ids, names and amounts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of FSPs; they pay each other at random.
    #[arg(long, default_value_t = 8)]
    fsps: usize,
    /// Number in the name of the first FSP.
    #[arg(long, default_value_t = 201)]
    first: u64,
    /// Approximate length of POST /transfers bodies; at least about 1,000 bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1_024,
        value_parser = clap::value_parser!(u64).range(1..=30_000))]
    body_bytes: u64,
    /// Length of a log segment, as `log.segment_mib`.
    #[arg(long, value_name = "MIB", default_value_t = 256,
        value_parser = clap::value_parser!(u64).range(1..=4_096))]
    segment_mib: u64,
    /// Record the callbacks about committed transfers as given up: dead letters.
    #[arg(long)]
    dead_letters: bool,
    /// Number of participants without funds and transfers to add: bank0, bank1, ...
    #[arg(long, value_name = "COUNT", value_parser = harness::count)]
    participants: Option<u64>,
    /// Switch program that onboards the FSPs [default: `upesi` next to this program].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn preload(arguments: &PreloadArguments) -> Result<(), CliError> {
    let PreloadArguments { fsps, first, .. } = *arguments;
    let options = FspOptions { fsps, first, ..FspOptions::standard() };
    let fsps = crate::prepared_data::simulated_fsps(&options, TRANSFER_LIFETIME)
        .map_err(|error| CliError::new(error.to_string()))?;
    let clock = SystemClock::new();
    let data = &arguments.data;
    if !data.exists() {
        let all = arguments.transfers.or(arguments.total).unwrap_or(0);
        check_room(data, all, arguments.body_bytes)?;
    }
    let node = open(arguments, (&options, &fsps), &clock)?;
    // A different seed for each invocation, but the same one for the same history.
    let seed = arguments.seed ^ node.state().log_index().0.rotate_left(32);
    let before = final_transfers(node.state().counters());
    let wanted = arguments.transfers.or(arguments.total.map(|total| total.saturating_sub(before)));
    let wanted = wanted.unwrap_or(0);
    check_room(data, wanted, arguments.body_bytes)?;
    let participants = missing_participants(node.state(), arguments, &fsps);
    let own_thread = thread::current();
    let mailbox = Arc::new(Mailbox::new(move || own_thread.unpark()));
    let node = node.start(Arc::clone(&mailbox))?;
    let handle = node.handle();
    let mut writer = TransferWriter {
        handle: node.handle(),
        mailbox,
        clock,
        pairs: PairWriter::new(&fsps, arguments.body_bytes as usize, seed),
        awaited: 0,
        undelivered: Vec::new(),
        gives_up: arguments.dead_letters,
    };
    let added = writer.add_participants(participants);
    let written = added.and_then(|()| writer.fill(wanted, arguments.body_bytes));
    let stopped = node.stop();
    let (added, elapsed) = written?;
    stopped?;
    let stored = final_transfers(&handle.status().counters);
    Added { added, stored, elapsed }.print(data, arguments.json)?;
    match added < wanted {
        true => Err(CliError::new(format!(
            "interrupted: {added} of {wanted} transfers were added, all of them complete; with \
             --total the same command adds the rest"
        ))),
        false => Ok(()),
    }
}

/// Opens the directory, and onboards the FSPs if necessary.
fn open(
    arguments: &PreloadArguments,
    (options, fsps): (&FspOptions, &[SimulatorOptions]),
    clock: &SystemClock,
) -> Result<BareNode, CliError> {
    let open = || BareNode::open(&arguments.data, arguments.segment_mib, clock);
    let opened = open()?;
    if are_onboarded(opened.state(), fsps) {
        return Ok(opened);
    }
    // The directory is locked while it is open here.
    drop(opened);
    onboard(options, arguments)?;
    open()
}

/// The participants to add, in the currency of the FSPs.
fn missing_participants(
    state: &State,
    arguments: &PreloadArguments,
    fsps: &[SimulatorOptions],
) -> Vec<CreateParticipant> {
    let Some(SimulatorOptions { currency, .. }) = fsps.first() else { return Vec::new() };
    let names = (0..arguments.participants.unwrap_or(0))
        .filter_map(|number| FspName::new(&format!("bank{number}")));
    names
        .filter(|name| state.registry().find(name).is_none())
        .map(|name| CreateParticipant { name, currency: *currency })
        .collect()
}

fn final_transfers(counters: &Counters) -> u64 {
    counters.committed + counters.aborted + counters.expired
}

/// The result of a run.
struct Added {
    added: u64,
    stored: u64,
    elapsed: Duration,
}

impl Added {
    fn print(&self, data: &Path, as_json: bool) -> Result<(), CliError> {
        let Self { added, stored, elapsed } = self;
        let (seconds, footprint) = (elapsed.as_secs_f64(), Footprint::of(data));
        let rate = *added as f64 / seconds.max(1e-9);
        let bytes = footprint.total();
        if as_json {
            let result = json!({
                "added": added, "stored": stored, "seconds": seconds, "rate_per_s": rate,
                "disk_bytes": bytes, "disk": footprint,
            });
            println!("{result}");
            return Ok(());
        }
        println!("added          {added} transfers in {seconds:.1} s ({rate:.0}/s), all committed");
        println!("stored         {stored} final transfers");
        println!(
            "on disk        {:.1} MB in {}, {} bytes per transfer",
            bytes as f64 / 1e6,
            data.display(),
            bytes.checked_div(*stored).unwrap_or(0)
        );
        Ok(())
    }
}

fn onboard(options: &FspOptions, arguments: &PreloadArguments) -> Result<(), CliError> {
    eprintln!("onboarding {} FSPs", options.fsps);
    let program = arguments.program.clone().map_or_else(SwitchCommand::sibling_program, Ok);
    let program = program.map_err(|error| CliError::new(error.to_string()))?;
    let command = SwitchCommand::standard(program).confirming(Confirm::Off);
    crate::prepared_data::onboard_directory(options, &arguments.data, &command)
        .map_err(|error| CliError::new(error.to_string()))
}

/// Whether each FSP has accounts and a net debit cap. Funds are not checked, because every
/// onboarding deposits them.
fn are_onboarded(state: &State, fsps: &[SimulatorOptions]) -> bool {
    fsps.iter().all(|fsp| {
        let name = FspName::new(&fsp.name);
        let found = name.and_then(|name| state.registry().find(&name).map(|(_, found)| found));
        let accounts = found.and_then(|participant| participant.accounts_in(fsp.currency));
        accounts.is_some_and(|accounts| accounts.net_debit_cap.is_some())
    })
}

/// Checks for enough free disk space before anything is written.
fn check_room(data: &Path, transfers: u64, body_bytes: u64) -> Result<(), CliError> {
    let needed = transfers * (OVERHEAD_BYTES + body_bytes) + FREE_BYTES;
    let there = data.ancestors().find(|place| place.exists()).unwrap_or(Path::new("."));
    let free = harness::free_bytes(there).map_err(|error| CliError::new(error.to_string()))?;
    if needed <= free {
        return Ok(());
    }
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    Err(CliError::new(format!(
        "{transfers} transfers need about {:.0} MB, but {} has {:.0} MB free; make room, add \
         fewer, or take another --data",
        megabytes(needed),
        data.display(),
        megabytes(free)
    )))
}

/// Submits messages and records deliveries, as an I/O thread does, without sockets.
struct TransferWriter {
    handle: Handle<()>,
    mailbox: Arc<Mailbox<()>>,
    clock: SystemClock,
    pairs: PairWriter,
    /// Commands that were submitted and not yet answered.
    awaited: usize,
    /// Notices whose delivery is not yet recorded.
    undelivered: Vec<Notice>,
    /// Whether the notices about committed transfers are recorded as given up.
    gives_up: bool,
}

/// The messages of some transfers, ready to be submitted.
#[derive(Default)]
struct Chunk {
    prepares: Vec<node::Submission<()>>,
    fulfils: Vec<node::Submission<()>>,
}

impl TransferWriter {
    /// Adds transfers until there are enough or the run is interrupted. Returns their number and
    /// the duration. All of them are final.
    fn fill(&mut self, wanted: u64, body_bytes: u64) -> Result<(u64, Duration), CliError> {
        let interrupt = Interrupt::listen();
        let mut progress = Progress::new("transfers", Some(wanted));
        let most = (CHUNK_BYTES / (OVERHEAD_BYTES + body_bytes)).clamp(1, CHUNK);
        let (mut begun, mut reserved) = (0, Chunk::default());
        loop {
            let rest = if interrupt.seen() { 0 } else { wanted - begun };
            let next = self.write(rest.min(most))?;
            let count = next.prepares.len() as u64;
            self.await_all()?;
            // The delivery of the prepares must be recorded before their fulfilments are submitted.
            self.record_deliveries(Durability::Lazy)?;
            self.submit(reserved.fulfils)?;
            self.submit(next.prepares)?;
            reserved = Chunk { fulfils: next.fulfils, ..Chunk::default() };
            begun += count;
            progress.show(begun);
            if count == 0 {
                break;
            }
        }
        self.await_all()?;
        self.record_deliveries(Durability::Synced)?;
        self.await_all()?;
        progress.end();
        Ok((begun, progress.elapsed()))
    }

    /// Adds participants and waits until they are decided.
    fn add_participants(&mut self, all: Vec<CreateParticipant>) -> Result<(), CliError> {
        let added = |participant: CreateParticipant| {
            let change = participant.into();
            let change = Administer { actor: "preload".into(), reason: String::new(), change };
            encoded(Command::Administer(Box::new(change)), None, PARTICIPANT)
        };
        for some in all.chunks(CHUNK as usize) {
            let some: Result<_, _> = some.iter().cloned().map(added).collect();
            self.submit(some?)?;
            self.await_all()?;
        }
        Ok(())
    }

    fn write(&mut self, count: u64) -> Result<Chunk, CliError> {
        let mut chunk = Chunk::default();
        for _ in 0..count {
            let MessagePair { prepare, fulfil, .. } =
                self.pairs.write(self.clock.now().wall.millis());
            chunk.prepares.push(submission(&prepare, PREPARE)?);
            chunk.fulfils.push(submission(&fulfil, FULFIL)?);
        }
        Ok(chunk)
    }

    fn record_deliveries(&mut self, durability: Durability) -> Result<(), CliError> {
        let now_ms = self.clock.now().wall.millis();
        let ends: Vec<_> = self
            .undelivered
            .drain(..)
            .map(|notice| finished(&notice, self.gives_up, now_ms))
            .collect();
        let records = ends.chunks(ledger::ENTRIES_MAX).map(|part| {
            let attached =
                SubmissionContext { ticket: ReplyTo::Deliveries { mailbox: 0 }, message: None };
            let command = Command::FinishDeliveries(part.to_vec());
            Submission::without_payload(command, durability, attached)
                .expect("a bounded number of deliveries fits a record")
        });
        let records = records.collect();
        self.submit(records)
    }

    /// Submits commands, and waits while the inbox is full.
    fn submit(&mut self, mut submissions: Vec<node::Submission<()>>) -> Result<(), CliError> {
        let answered =
            |one: &&node::Submission<()>| matches!(one.attached.ticket, ReplyTo::Waiter { .. });
        self.awaited += submissions.iter().filter(answered).count();
        loop {
            match self.handle.submit(&mut submissions) {
                Ok(()) => return Ok(()),
                Err(SubmissionRefused::Full) => self.read_mail()?,
                Err(refused) => return Err(self.stopped(refused)),
            }
        }
    }

    fn await_all(&mut self) -> Result<(), CliError> {
        while self.awaited > 0 {
            self.read_mail()?;
        }
        Ok(())
    }

    /// Handles events from the sequencer's thread. Waits briefly if there are no events.
    fn read_mail(&mut self) -> Result<(), CliError> {
        let mut events = Vec::new();
        self.mailbox.take(&mut events);
        if events.is_empty() {
            thread::park_timeout(MAILBOX_WAIT);
            self.mailbox.take(&mut events);
        }
        if events.is_empty() && self.handle.status().stopped.is_some() {
            return Err(self.stopped(SubmissionRefused::Stopped));
        }
        for event in events {
            match event {
                MailboxEvent::Reply { waiter, result } => self.check_reply(waiter, result)?,
                MailboxEvent::Notice { notice, .. } => self.undelivered.push(notice),
                MailboxEvent::DeliveryRecordRefused(_) => {
                    return Err(self.stopped(SubmissionRefused::DiskFull));
                }
                MailboxEvent::BatchTimes(_)
                | MailboxEvent::Withdraw(_)
                | MailboxEvent::Recorded(_)
                | MailboxEvent::RegistryChanged
                | MailboxEvent::DeliveredByOtherNode(_)
                | MailboxEvent::LanesLost(_)
                | MailboxEvent::LanesGained(_)
                | MailboxEvent::Lease(_) => {}
            }
        }
        Ok(())
    }

    fn check_reply(
        &mut self,
        waiter: u32,
        result: Result<Outcome, SubmissionRefused>,
    ) -> Result<(), CliError> {
        self.awaited -= 1;
        let outcome = result.map_err(|refused| self.stopped(refused))?;
        let expected = match waiter {
            PREPARE => Outcome::PrepareReserved,
            FULFIL => Outcome::Committed,
            _ => Outcome::Accepted,
        };
        if outcome == expected {
            return Ok(());
        }
        Err(CliError::new(format!(
            "unexpected outcome {outcome:?} of a generated request, expected {expected:?}: \
             are the FSPs of this directory active, with funds and caps? Begin with an empty one"
        )))
    }

    fn stopped(&self, refused: SubmissionRefused) -> CliError {
        let why = self.handle.status().stopped;
        CliError::new(format!(
            "{}; the transfers added so far are valid; run the same command again to continue",
            why.unwrap_or_else(|| refused.to_string())
        ))
    }
}

/// Encodes a message in the same way as a switch that receives it.
fn submission(message: &[u8], waiter: u32) -> Result<node::Submission<()>, CliError> {
    let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut lines);
    let parsed = head.parse(message).expect("a simulated FSP writes HTTP");
    let httparse::Status::Complete(length) = parsed else {
        return Err(CliError::new("generated message is incomplete"));
    };
    let body = &message[length..];
    let method = Method::from_bytes(head.method.unwrap_or_default().as_bytes())
        .expect("a simulated FSP writes HTTP");
    let headers = headers(head.headers);
    let span = u64::from_le_bytes(*message.last_chunk().unwrap_or(&[1; 8])) | 1;
    let recorded = switch::recorded((&method, head.path.unwrap_or_default()), headers, body, span)
        .map_err(|refusal| CliError::new(format!("generated message was refused: {refusal}")))?;
    let switch::Recorded { command, payload } =
        recorded.expect("prepares and fulfilments are recorded");
    encoded(command, Some(&payload), waiter)
}

/// A command with its record. Its reply has the number of the waiter.
fn encoded(
    command: Command,
    payload: Option<&[u8]>,
    waiter: u32,
) -> Result<node::Submission<()>, CliError> {
    let record =
        sequencer::encode(&command, payload).map_err(|error| CliError::new(error.to_string()))?;
    let ticket = ReplyTo::Waiter { mailbox: 0, waiter };
    let attached = SubmissionContext { ticket, message: None };
    Ok(Submission { command, record, durability: Durability::Synced, attached })
}

fn headers(lines: &[httparse::Header<'_>]) -> HeaderMap {
    let line = |line: &httparse::Header<'_>| {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(line.value).ok()?))
    };
    lines.iter().filter_map(line).collect()
}

fn finished(notice: &Notice, gives_up: bool, finished_ms: u64) -> FinishedDelivery {
    if gives_up && notice.kind != NoticeKind::Prepare {
        return FinishedDelivery {
            notice: notice.id,
            result: DeliveryResult::Dead,
            attempts: GIVEN_UP_AFTER,
            status: 503,
            finished_ms,
        };
    }
    FinishedDelivery {
        notice: notice.id,
        result: DeliveryResult::Delivered,
        attempts: 1,
        status: if notice.kind == NoticeKind::Prepare { 202 } else { 200 },
        finished_ms,
    }
}
