//! Proof that nothing acknowledged is lost: the switch is killed with SIGKILL repeatedly, at random
//! times, with at least [`IN_FLIGHT_MIN`] transfers in flight, and is restarted on the same
//! directory and ports.
//!
//! External participants record every 2xx and every received notice ([`ExternalRecord`]). When the last
//! transfer is final, the switch is compared with that record: every accepted message has its
//! effect, every transfer has one end, both sides have received its notice at least once and never
//! a contradicting one, and the positions match the record.
//!
//! `UPESI_PROOF_SECONDS` and `UPESI_PROOF_KILLS` make the proof longer. `UPESI_PROOF_SEED` repeats
//! its plan, but not its timing.

use std::collections::{BTreeMap, VecDeque};
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use testkit::http::Connection;
use testkit::server::Reply;

use crate::support::fsp::{Callback, serve};
use crate::support::message::{Message, Transfer};
use crate::support::scheme::Admin;
use crate::support::switch::{Home, Ports, Printed, Switch};

const KILLS: u64 = 25;
/// Minimum number of transfers at every kill that are reserved, delivered to the payee and not
/// answered.
const IN_FLIGHT_MIN: usize = 1_000;
/// Responses are delayed while fewer transfers than this wait for one.
const HELD: usize = 1_050;
/// No new transfers while more than this number wait for a response.
const WAITING_MAX: usize = 1_250;
/// Number of threads that prepare, and of threads that answer.
const WORKERS: usize = 6;
/// Minimum and maximum number of accepted messages between a start and the next kill.
const ACCEPTED_BETWEEN: (u64, u64) = (40, 400);
/// Lifetime of transfers that are never answered.
const SHORT_LIFE_MS: (u64, u64) = (1_500, 5_000);
/// Interval of party registrations, in transfers.
const REGISTRATION_EVERY: u64 = 8;
/// Beyond this number of transfers, only some of those with a known end are queried.
const ASKED_MAX: u64 = 50_000;
/// Snapshots at a short interval of records and at full speed.
const SETTINGS: &str = "\
    [snapshot]\nevery_records = 500\ncpu_percent = 100\n[parties]\nownership = 'latest-wins'\n";
const NAMES: [&str; 2] = ["alphafsp", "betafsp"];
const FUNDS: &str = "1000000000";
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(5);

#[test]
fn nothing_acknowledged_is_lost_when_the_switch_is_killed() {
    let seed = setting("UPESI_PROOF_SEED").unwrap_or_else(now_ms);
    print_line(&format!("kill proof: seed {seed}"));
    let started = Instant::now();
    let external = Arc::new(ExternalRecord::default());
    let servers = [0, 1].map(|side| {
        let external = Arc::clone(&external);
        serve(move |callback| external.record_callback(side, callback))
    });
    // Snapshots are taken continuously, so that most starts continue from one.
    let home = Home::configured(SETTINGS);
    let ports = ports_to_come_back_to();
    let mut switch = home.serve_on(ports);
    let mut admin = Admin::new(&home, &switch);
    admin.prepare_hub();
    for (name, server) in NAMES.iter().zip(&servers) {
        admin.onboard(name, &format!("http://{}", server.address()), FUNDS, FUNDS);
    }
    let payers = start(&external, ports.fspiop, seed, prepare_until_stopped);
    let payees = start(&external, ports.fspiop, seed, answer_until_stopped);

    let kills_min = setting("UPESI_PROOF_KILLS").unwrap_or(KILLS);
    let long = Duration::from_secs(setting("UPESI_PROOF_SECONDS").unwrap_or(0));
    let mut rng = Rng(seed);
    let mut kills = 0;
    let mut from_snapshots = 0;
    while kills < kills_min || started.elapsed() < long {
        external.wait_for_load(rng.between(ACCEPTED_BETWEEN));
        switch.kill();
        let waiting = external.lock().waiting.len();
        assert!(IN_FLIGHT_MIN <= waiting, "only {waiting} in flight at kill {kills}");
        kills += 1;
        switch = home.serve_on(ports);
        from_snapshots += u64::from(switch.greeting.contains("continued from the snapshot"));
    }
    assert!(kills / 4 <= from_snapshots, "{from_snapshots} starts of {kills} from snapshots");
    let killed = started.elapsed();

    external.preparing_ends.store(true, Ordering::SeqCst);
    join(payers);
    admin = Admin::new(&home, &switch);
    let left = wait_for_the_last(&admin);
    external.answering_ends.store(true, Ordering::SeqCst);
    join(payees);

    let asked = external.ask_for_everything(ports.fspiop);
    let tally = external.check();
    assert_eq!(left, [0; 3], "in flight, notices owed, dead letters");
    check_positions(&admin, &tally);
    end(&home, switch, &tally);
    count(kills);
    print_line(&format!(
        "kill proof: {kills} kills in {:.1} s with at least {IN_FLIGHT_MIN} in flight; {} transfers \
         ({} committed, {} aborted, {} expired, {} never arrived), {} registrations, {} accepted \
         (2xx), {} answers of GET, {} notices received, {} of them repeats; whole {:.1} s",
        killed.as_secs_f64(),
        tally.transfers,
        tally.committed,
        tally.aborted,
        tally.expired,
        tally.never_arrived,
        tally.registrations,
        external.accepted.load(Ordering::SeqCst),
        asked,
        tally.notices,
        tally.repeats,
        started.elapsed().as_secs_f64(),
    ));
}

/// Adds to the number of cycles of all runs, if a tally file is configured.
fn count(kills: u64) {
    let Some(path) = std::env::var_os("UPESI_PROOF_TALLY") else { return };
    let file = OpenOptions::new().create(true).append(true).open(path);
    let added = file.and_then(|mut file| writeln!(file, "sigkill-cycles {kills}"));
    added.expect("the tally can be written");
}

/// The payee's plan for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Answers COMMITTED; the hub confirms.
    Commit,
    /// Answers RESERVED; the hub commits.
    Reserve,
    Refuse,
    /// Does not answer; the transfer expires.
    Forget,
    /// Answers RESERVED at about the time of expiry.
    Race,
}

/// Notices that one side received about a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReceivedMessages {
    posts: u32,
    /// PUT or PATCH with COMMITTED.
    committed: u32,
    /// Error 3303.
    expired: u32,
    /// Any other error, or ABORTED.
    aborted: u32,
    /// Responses to a resent prepare before the decision.
    reserved: u32,
}

/// One transfer in the external record.
#[derive(Clone, Debug)]
struct Entry {
    plan: Plan,
    payer: usize,
    /// In ten-thousandths.
    amount: u64,
    expires_ms: u64,
    /// 202 was received.
    prepared: bool,
    /// 200 was received.
    answered: bool,
    /// By side of the scheme, not of the transfer.
    received: [ReceivedMessages; 2],
    /// Response to GET.
    response: Option<TransferResponse>,
}

/// The response to GET /transfers/{id}.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TransferResponse {
    Committed,
    Aborted(String),
    Unknown,
    Other(String),
}

#[derive(Default)]
struct Record {
    transfers: Vec<Entry>,
    /// Transfers that the payee has received and will answer, oldest first.
    waiting: VecDeque<u64>,
    /// Transfers to be answered at their expiry.
    races: BTreeMap<(u64, u64), ()>,
    /// The FSP of a party by its last accepted registration.
    parties: BTreeMap<String, usize>,
    /// Accepted registrations, and callbacks about them, by party and side.
    registered: BTreeMap<(String, usize), [u32; 2]>,
    /// Response to GET for a party.
    found: BTreeMap<String, String>,
    /// Responses to GET.
    answers: usize,
}

/// The external record.
#[derive(Default)]
struct ExternalRecord {
    record: Mutex<Record>,
    changed: Condvar,
    accepted: AtomicU64,
    preparing_ends: AtomicBool,
    answering_ends: AtomicBool,
    asking: AtomicBool,
}

/// Sums of the checked record.
#[derive(Debug, Default)]
struct Tally {
    transfers: u64,
    committed: u64,
    aborted: u64,
    expired: u64,
    never_arrived: u64,
    registrations: u64,
    notices: u64,
    repeats: u64,
    /// Position of the first participant, in ten-thousandths.
    position: i128,
}

impl ExternalRecord {
    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }

    /// Records a callback to one side.
    fn record_callback(&self, side: usize, callback: &Callback) -> Reply {
        let mut record = self.lock();
        if let Some(party) = callback.path.strip_prefix("/participants/MSISDN/") {
            if self.asking.load(Ordering::SeqCst) {
                let party = party.trim_end_matches("/error").to_owned();
                let first = record.found.insert(party, callback.text()).is_none();
                record.answers += usize::from(first);
            } else {
                record.registered.entry((party.to_owned(), side)).or_default()[1] += 1;
            }
        } else {
            let number = number_of(callback);
            if self.asking.load(Ordering::SeqCst) {
                let first = record.transfers[number as usize]
                    .response
                    .replace(parse_response(callback))
                    .is_none();
                record.answers += usize::from(first);
            } else {
                record.record_callback(side, number, callback);
            }
        }
        drop(record);
        self.changed.notify_all();
        Reply::Accept
    }

    fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Waits until enough transfers are in flight, and then for some more accepted messages.
    fn wait_for_load(&self, more: u64) {
        let deadline = Instant::now() + PATIENCE;
        let mut from = None;
        let mut record = self.lock();
        loop {
            let accepted = self.accepted.load(Ordering::SeqCst);
            if HELD <= record.waiting.len() && from.is_none() {
                from = Some(accepted);
            }
            if from.is_some_and(|from| from + more <= accepted) {
                return;
            }
            assert!(Instant::now() < deadline, "{} in flight, no more", record.waiting.len());
            record = self.changed.wait_timeout(record, GLANCE).unwrap().0;
        }
    }

    /// The next number, unless enough transfers are waiting.
    fn begin(&self, rng: &mut Rng) -> Option<(u64, Entry)> {
        let mut record = self.lock();
        if WAITING_MAX <= record.waiting.len() {
            // Answering threads make room.
            drop(self.changed.wait_timeout(record, GLANCE).unwrap());
            return None;
        }
        let plan = match rng.below(100) {
            0..40 => Plan::Commit,
            40..75 => Plan::Reserve,
            75..85 => Plan::Refuse,
            85..95 => Plan::Forget,
            _ => Plan::Race,
        };
        let life = if plan.is_short() { rng.between(SHORT_LIFE_MS) } else { 3_600_000 };
        let entry = Entry {
            plan,
            payer: rng.below(2) as usize,
            amount: 1 + rng.below(1_000_000),
            expires_ms: now_ms() + life,
            prepared: false,
            answered: false,
            received: Default::default(),
            response: None,
        };
        record.transfers.push(entry.clone());
        Some((record.transfers.len() as u64 - 1, entry))
    }

    /// A transfer that is due to be answered.
    fn next_answer(&self) -> Option<(u64, Entry)> {
        let mut record = self.lock();
        let ending = self.preparing_ends.load(Ordering::SeqCst);
        let due = now_ms() + 3;
        let race = record.races.first_key_value().map(|(key, ())| *key);
        let number = match race.filter(|(expires, _)| *expires <= due) {
            Some(key) => {
                record.races.remove(&key);
                Some(key.1)
            }
            None if ending || HELD < record.waiting.len() => record.waiting.pop_front(),
            None => None,
        };
        match number {
            Some(number) => Some((number, record.transfers[number as usize].clone())),
            None => {
                drop(self.changed.wait_timeout(record, GLANCE).unwrap());
                None
            }
        }
    }

    /// Queries the end of every transfer, and every party. Returns the number of callbacks.
    fn ask_for_everything(&self, address: SocketAddr) -> u64 {
        self.asking.store(true, Ordering::SeqCst);
        let mut wire = Wire::new(address);
        let record = self.lock();
        let step = 1 + record.transfers.len() as u64 / ASKED_MAX;
        let transfers: Vec<_> = (0..)
            .zip(&record.transfers)
            .filter(|(number, entry)| entry.is_uncertain() || number % step == 0)
            .map(|(number, entry)| of(number, entry).get(NAMES[entry.payer]))
            .collect();
        let parties: Vec<_> = record.parties.keys().map(|party| ask_for(party)).collect();
        drop(record);
        let questions = transfers.iter().chain(&parties);
        let count = transfers.len() + parties.len();
        for (sent, question) in questions.enumerate() {
            assert_eq!(wire.send_until_answered(&question.render(), self), Some(202));
            self.wait_for_answers(sent.saturating_sub(500));
        }
        self.wait_for_answers(count);
        count as u64
    }

    fn wait_for_answers(&self, count: usize) {
        let few = |record: &mut Record| record.answers < count;
        let waited = self.changed.wait_timeout_while(self.lock(), PATIENCE, few);
        let (record, result) = waited.unwrap();
        assert!(!result.timed_out(), "{} of {count} answers came", record.answers);
    }

    /// Compares every entry with the switch's responses. Returns the sums of the record.
    fn check(&self) -> Tally {
        let record = self.lock();
        let mut tally = Tally::default();
        for (number, entry) in record.transfers.iter().enumerate() {
            let end = entry.check(number);
            tally.transfers += 1;
            let sign = if entry.payer == 0 { 1 } else { -1 };
            match end {
                TransferResponse::Committed => {
                    tally.committed += 1;
                    tally.position += sign * i128::from(entry.amount);
                }
                TransferResponse::Aborted(cause) if cause.starts_with("3303") => tally.expired += 1,
                TransferResponse::Aborted(_) => tally.aborted += 1,
                TransferResponse::Unknown => tally.never_arrived += 1,
                TransferResponse::Other(text) => panic!("transfer {number}: {text}"),
            }
            for ReceivedMessages { posts, committed, expired, aborted, reserved } in entry.received
            {
                for count in [posts, committed, expired + aborted] {
                    tally.notices += u64::from(count);
                    tally.repeats += u64::from(count.saturating_sub(1));
                }
                tally.notices += u64::from(reserved);
            }
        }
        for (party, side) in &record.parties {
            let expected = format!("{{\"fspId\":\"{}\"}}", NAMES[*side]);
            assert_eq!(record.found.get(party), Some(&expected), "party {party}");
        }
        for ((party, side), [accepted, received]) in &record.registered {
            assert!(*accepted == 0 || 0 < *received, "{party} of {side}: accepted, no notice");
            tally.registrations += u64::from(*accepted);
            tally.notices += u64::from(*received);
            tally.repeats += u64::from(received.saturating_sub(*accepted));
        }
        tally
    }
}

impl Record {
    fn record_callback(&mut self, side: usize, number: u64, callback: &Callback) {
        let entry = &mut self.transfers[number as usize];
        let received = &mut entry.received[side];
        if callback.method == "POST" {
            received.posts += 1;
            assert_ne!(side, entry.payer, "a prepare goes to the payee");
            if received.posts == 1 {
                match entry.plan {
                    Plan::Commit | Plan::Reserve | Plan::Refuse => self.waiting.push_back(number),
                    Plan::Race => drop(self.races.insert((entry.expires_ms, number), ())),
                    Plan::Forget => {}
                }
            }
            return;
        }
        let count = match parse_response(callback) {
            TransferResponse::Committed => &mut received.committed,
            TransferResponse::Aborted(cause) if cause.starts_with("3303") => &mut received.expired,
            TransferResponse::Aborted(_) => &mut received.aborted,
            TransferResponse::Other(text) if text == "RESERVED" => &mut received.reserved,
            other => panic!("transfer {number} received {other:?}"),
        };
        *count += 1;
    }
}

impl Entry {
    /// Whether only the switch knows the end of the transfer.
    fn is_uncertain(&self) -> bool {
        !self.prepared || self.plan == Plan::Race || self.plan == Plan::Forget
    }

    /// Checks that the end was sent to both sides and matches the accepted messages.
    fn check(&self, number: usize) -> TransferResponse {
        let context = format!("transfer {number}: {self:?}");
        let end = self.response.clone().unwrap_or_else(|| self.expected_end());
        let [payer, payee] = [self.received[self.payer], self.received[1 - self.payer]];
        assert!(!self.prepared || end != TransferResponse::Unknown, "accepted and lost: {context}");
        if !self.is_uncertain() {
            assert!(self.answered, "every one of them was answered: {context}");
            assert_eq!(end, self.expected_end(), "{context}");
        }
        match &end {
            TransferResponse::Committed => {
                assert_ne!(self.plan, Plan::Forget, "nobody answered it: {context}");
                assert!(0 < payer.committed && 0 < payee.committed, "no notice: {context}");
                for received in [payer, payee] {
                    assert_eq!((received.expired, received.aborted), (0, 0), "contrary: {context}");
                }
            }
            TransferResponse::Aborted(cause) if cause.starts_with("3303") => {
                assert!(self.plan.is_short(), "it had time enough: {context}");
                assert!(0 < payer.expired && 0 < payee.expired, "no notice: {context}");
                assert_eq!((payer.committed, payee.committed), (0, 0), "contrary: {context}");
            }
            TransferResponse::Aborted(cause) => {
                let late = self.plan.is_short() && cause.starts_with("3100");
                assert!(late || cause.starts_with("5104"), "{context}");
                assert!(0 < payer.aborted && (late || 0 < payee.aborted), "no notice: {context}");
                let contrary = payer.committed + payee.committed + payer.expired + payee.expired;
                assert_eq!(contrary, 0, "contrary: {context}");
            }
            TransferResponse::Unknown => {
                assert_eq!(self.received, <[ReceivedMessages; 2]>::default(), "{context}")
            }
            TransferResponse::Other(_) => panic!("it has not ended: {context}"),
        }
        end
    }

    fn expected_end(&self) -> TransferResponse {
        match self.plan {
            Plan::Refuse => TransferResponse::Aborted("5104: no".to_owned()),
            _ => TransferResponse::Committed,
        }
    }
}

impl Plan {
    fn is_short(self) -> bool {
        matches!(self, Self::Forget | Self::Race)
    }
}

/// A connection that is reopened after a restart of the switch.
struct Wire {
    address: SocketAddr,
    connection: Option<Connection>,
}

impl Wire {
    fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    /// One attempt. Returns the status, or nothing if the result is unknown.
    fn send(&mut self, request: &[u8], external: &ExternalRecord) -> Option<u16> {
        let deadline = Instant::now() + PATIENCE;
        while self.connection.is_none() {
            self.connection = Connection::open(self.address).ok();
            assert!(Instant::now() < deadline, "the switch does not come back");
            if self.connection.is_none() {
                drop(external.changed.wait_timeout(external.lock(), GLANCE).unwrap());
            }
        }
        let answer = self.connection.as_mut()?.exchange(request);
        let Ok(answer) = answer else {
            self.connection = None;
            return None;
        };
        Some(answer.status)
    }

    /// Repeats until the switch responds. A 503 means that the request had no effect.
    fn send_until_answered(&mut self, request: &[u8], external: &ExternalRecord) -> Option<u16> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.send(request, external).filter(|status| *status != 503) {
                return Some(status);
            }
        }
        None
    }
}

/// Payers: start new transfers while there is room for them.
fn prepare_until_stopped(external: &ExternalRecord, mut wire: Wire, mut rng: Rng, worker: usize) {
    let mut registrations = 0;
    while !external.preparing_ends.load(Ordering::SeqCst) {
        let Some((number, entry)) = external.begin(&mut rng) else { continue };
        let request = of(number, &entry).prepare().render();
        let status = match wire.send(&request, external) {
            // A transfer that is never answered may remain uncertain, since it expires.
            None if entry.plan.is_short() && rng.below(2) == 0 => continue,
            None | Some(503) => wire.send_until_answered(&request, external),
            status => status,
        };
        assert_eq!(status, Some(202), "prepare {number}");
        external.lock().transfers[number as usize].prepared = true;
        external.accept();
        if rng.below(50) == 0 {
            // An early resend must not change anything.
            assert_eq!(wire.send_until_answered(&request, external), Some(202));
        }
        if number % REGISTRATION_EVERY == 0 {
            registrations += 1;
            register(external, &mut wire, &mut rng, &format!("9{worker}{}", registrations / 2));
        }
    }
}

/// Registers a party. Each is registered twice, and the last registration counts.
fn register(external: &ExternalRecord, wire: &mut Wire, rng: &mut Rng, party: &str) {
    let side = rng.below(2) as usize;
    let path = format!("/participants/MSISDN/{party}");
    let body = format!("{{\"fspId\":\"{}\"}}", NAMES[side]);
    let request = Message::new("POST", &path, NAMES[side]).body(body).render();
    assert_eq!(wire.send_until_answered(&request, external), Some(202), "{party}");
    let mut record = external.lock();
    record.parties.insert(party.to_owned(), side);
    record.registered.entry((party.to_owned(), side)).or_default()[0] += 1;
    drop(record);
    external.accept();
}

/// Payees: answer received transfers as planned.
fn answer_until_stopped(external: &ExternalRecord, mut wire: Wire, mut rng: Rng, _: usize) {
    while !external.answering_ends.load(Ordering::SeqCst) {
        let Some((number, entry)) = external.next_answer() else { continue };
        let transfer = of(number, &entry);
        let message = match entry.plan {
            Plan::Commit => transfer.fulfil("COMMITTED"),
            Plan::Refuse => transfer.error("5104", "no"),
            Plan::Reserve | Plan::Race | Plan::Forget => transfer.fulfil("RESERVED"),
        };
        let request = message.render();
        assert_eq!(wire.send_until_answered(&request, external), Some(200), "answer {number}");
        external.lock().transfers[number as usize].answered = true;
        external.accept();
        if rng.below(50) == 0 {
            assert_eq!(wire.send_until_answered(&request, external), Some(200));
        }
    }
}

fn start(
    external: &Arc<ExternalRecord>,
    address: SocketAddr,
    seed: u64,
    work: fn(&ExternalRecord, Wire, Rng, usize),
) -> Vec<JoinHandle<()>> {
    let worker = |number: usize| {
        let external = Arc::clone(external);
        let rng = Rng(seed ^ (number as u64 + 1) << 32);
        std::thread::spawn(move || work(&external, Wire::new(address), rng, number))
    };
    (0..WORKERS).map(worker).collect()
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("a participant saw what it must not see");
    }
}

/// Waits until nothing is in flight or owed. After a timeout, the record describes the remaining
/// ones better than a number.
fn wait_for_the_last(admin: &Admin) -> [u64; 3] {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = ["upesi_transfers_in_flight", "upesi_notices_owed", "upesi_dead_letters"]
            .map(|name| admin.metric(name));
        if left[..2] == [0, 0] || deadline < Instant::now() {
            return left;
        }
        std::thread::sleep(GLANCE);
    }
}

fn check_positions(admin: &Admin, tally: &Tally) {
    let found = NAMES.map(|name| ten_thousandths(&admin.position(name)));
    assert_eq!(found, [tally.position, -tally.position], "{tally:?}");
}

/// The log must confirm the result.
fn end(home: &Home, switch: Switch, tally: &Tally) {
    switch.stop(Signal::TERM);
    let proof = home.verify().succeeds().json();
    let figures = ["committed", "transfers_in_flight", "notices_owed", "dead_letters"];
    assert_eq!(
        figures.map(|name| proof[name].as_u64()),
        [Some(tally.committed), Some(0), Some(0), Some(0)]
    );
    assert_eq!(proof["ok"], true);
}

/// The transfer of an entry, whose number is the end of its id.
fn of(number: u64, entry: &Entry) -> Transfer {
    let (payer, payee) = (NAMES[entry.payer], NAMES[1 - entry.payer]);
    let Entry { amount, expires_ms, .. } = entry;
    let fraction = format!("{:04}", amount % 10_000);
    let amount = format!("{}.{fraction}", amount / 10_000);
    let amount = amount.trim_end_matches('0').trim_end_matches('.');
    let expires = jiff::Timestamp::from_millisecond(*expires_ms as i64).expect("a moment");
    Transfer {
        id: format!("0b5ec534-ee48-4575-b6a9-{number:012x}"),
        payer: payer.to_owned(),
        payee: payee.to_owned(),
        expiration: format!("{expires:.3}"),
        ..Transfer::of(amount)
    }
}

fn number_of(callback: &Callback) -> u64 {
    let id = match callback.path.strip_prefix("/transfers/") {
        Some(rest) => rest.trim_end_matches("/error").to_owned(),
        None => callback.json()["transferId"].as_str().expect("an id").to_owned(),
    };
    let number = id.rsplit('-').next().expect("the end of an id");
    u64::from_str_radix(number, 16).expect("a number")
}

/// The content of a PUT or PATCH about a transfer.
fn parse_response(callback: &Callback) -> TransferResponse {
    let body = callback.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(error) = body.get("errorInformation") {
        let (code, words) = (text(&error["errorCode"]), text(&error["errorDescription"]));
        return match &*code {
            "3208" => TransferResponse::Unknown,
            _ => TransferResponse::Aborted(format!("{code}: {words}")),
        };
    }
    match &*text(&body["transferState"]) {
        "COMMITTED" => TransferResponse::Committed,
        "ABORTED" => {
            TransferResponse::Aborted(text(&body["extensionList"]["extension"][0]["value"]))
        }
        other => TransferResponse::Other(other.to_owned()),
    }
}

fn ask_for(party: &str) -> Message {
    Message::new("GET", &format!("/participants/MSISDN/{party}"), NAMES[0])
}

/// Ports external the range of ephemeral ports. An outgoing connection could otherwise take the
/// switch's port while it is down.
pub(crate) fn ports_to_come_back_to() -> Ports {
    let first = 20_000 + std::process::id() as u16 % 10_000;
    let mut free = (first..32_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let mut next = || free.find(|address| TcpListener::bind(address).is_ok()).expect("a port");
    Ports { fspiop: next(), admin: next() }
}

fn ten_thousandths(text: &str) -> i128 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{fraction:0<4}").parse().expect("a decimal")
}

pub(crate) fn setting<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// Writes past the capture of the test harness, so that a proof is visible.
pub(crate) fn print_line(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("standard error is open");
}

/// A small seeded generator (SplitMix64).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn between(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.below(most - least + 1)
    }
}
