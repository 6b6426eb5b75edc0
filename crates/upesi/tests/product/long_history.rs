//! Years of transfers: old transfers are answered as on the first day, from the store, without it,
//! and from the archive, and a backup of all of them restores the same state.
//!
//! # Phases
//!
//! A directory is filled through the production path below HTTP ([`Years::new`]), killed in the
//! middle, and filled to the end. Ids are drawn from the log, one from each interval ([`Sample`]).
//! Each one is queried, and its prepare is resent, unchanged and changed. The payer must receive
//! the payee's fulfilment twice, and an error about the change once; the same bytes after `kill
//! -9`, without the store, and with nearly all of the log in the archive.
//!
//! `UPESI_PROOF_TRANSFERS` and `UPESI_PROOF_IDS` make the proof larger. The nightly run has a
//! million transfers, of which ten thousand are queried.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::RealDisk;
use ledger::{LogIndex, TransferId};
use record::frame::{Payload, Record};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::http::Connection;
use testkit::server::{Reply, Server};

use crate::kill::{Rng, ports_to_come_back_to, print_line, setting};
use crate::support::fsp::{Callback, serve};
use crate::support::scheme::Admin;
use crate::support::switch::{
    Home, Ports, Printed, Switch, files, finish_within, laboratory, program_of,
};

/// Default for continuous integration; [`TRANSFERS`] fill several segments of 1 MiB.
const TRANSFERS: u64 = 2_000;
const IDS: u64 = 100;
/// Time limit of a command per thousand transfers, in addition to [`LEAST`].
const PER_THOUSAND: Duration = Duration::from_millis(500);
const LEAST: Duration = Duration::from_secs(60);
const FSPS: &str = "4";
const ASKERS: usize = 4;
/// Number of ids that are queried before all callbacks are received, which keeps the lanes short.
const AT_ONCE: usize = 400;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
const GLANCE: Duration = Duration::from_millis(2);
const EXPIRED: &str = "\"errorCode\":\"3303\"";

#[test]
fn million_old_transfers_are_answered_as_on_the_first_day() {
    let years = Years::new();
    let sample = Sample::draw(&years.data(), years.transfers, years.ids);
    let payers = Payers::start(&sample);
    let ports = ports_to_come_back_to();

    let mut switch = years.serve(ports, "filled");
    payers.listen(&years.home, &switch, &sample);
    let first = years.ask(&switch, &payers, &sample, "from the store");
    sample.check(&first);

    switch.kill();
    switch = years.serve(ports, "after kill -9");
    let killed = years.ask(&switch, &payers, &sample, "after kill -9");
    assert_same(&killed, &first, "a kill changes no answer");

    switch.kill();
    fs::remove_dir_all(years.data().join("store")).unwrap();
    switch = years.serve(ports, "without its store");
    assert!(switch.greeting.contains("rebuilt from the log: it is empty"), "{}", switch.greeting);
    let rebuilt = years.ask(&switch, &payers, &sample, "store made anew");
    assert_same(&rebuilt, &first, "the store decides nothing");

    switch.stop(Signal::TERM);
    let archive = years.archive();
    fs::remove_dir_all(years.data().join("store")).unwrap();
    switch = years.serve(ports, "from the archive, without its store");
    assert!(switch.greeting.contains(&format!(" from {archive}")), "{}", switch.greeting);
    let archived = years.ask(&switch, &payers, &sample, "from the archive");
    assert_same(&archived, &first, "where the log is decides nothing");
    switch.kill();
    years.explain(&sample);
    switch = years.serve(ports, "archived, killed");
    let again = years.ask(&switch, &payers, &sample, "archived, killed");
    assert_same(&again, &first, "nor does a kill then");
    switch.stop(Signal::TERM);
}

/// Restore drill: a backup next to a running switch restores the same state elsewhere.
#[test]
fn backup_of_a_million_transfers_restores_the_same_state() {
    let years = Years::new();
    let (copy, data) = (years.place("copy"), years.beside.path().join("restored"));
    let switch = years.serve(Ports::free(), "to be copied");
    let before = state(&Admin::new(&years.home, &switch));
    let copied = years.timed("backup", &["--data", text(&years.data()), "--to", &copy]);
    assert_eq!(copied["end"], before["logIndex"], "{copied}");
    switch.stop(Signal::TERM);
    let hash = before["stateHash"].as_str().unwrap();
    let restore = ["--from", &copy, "--data", text(&data), "--state-hash", hash];
    let proof = years.timed("restore", &restore);
    assert_eq!(proof["state_hash"], before["stateHash"], "{proof}");
    let bytes = |path: &Path| files(path).iter().map(|it| it.metadata().unwrap().len()).sum();
    let (there, back): (u64, u64) = (bytes(&years.beside.path().join("copy")), bytes(&data));
    let each = |bytes: u64| bytes / years.transfers;
    print_line(&format!(
        "years: a copy has {} bytes for each transfer, restored {}",
        each(there),
        each(back)
    ));

    fs::remove_dir_all(years.data()).unwrap();
    fs::rename(&data, years.data()).unwrap();
    let switch = years.serve(Ports::free(), "restored");
    let after = state(&Admin::new(&years.home, &switch));
    assert_eq!(after["stateHash"], before["stateHash"]);
    switch.stop(Signal::TERM);
}

/// A directory with many final transfers.
struct Years {
    home: Home,
    beside: TempDir,
    transfers: u64,
    ids: u64,
}

impl Years {
    /// Fills a directory, and kills the process with SIGKILL about half-way.
    fn new() -> Self {
        let transfers = setting("UPESI_PROOF_TRANSFERS").unwrap_or(TRANSFERS);
        let ids = setting("UPESI_PROOF_IDS").unwrap_or(IDS).min(transfers);
        let segment_mib = (transfers / TRANSFERS).clamp(1, 256);
        let home = Home::with(&format!(
            "[store]\nkeep_ended_seconds = 1\n[fspiop]\nthreads = 2\n\
             [log]\nsegment_mib = {segment_mib}\n"
        ));
        let years = Self { home, beside: tempfile::tempdir().unwrap(), transfers, ids };
        let total = transfers.to_string();
        let (data, segment) = (years.data(), segment_mib.to_string());
        let fill = ["--data", text(&data), "--total", &total, "--fsps", FSPS];
        let fill = [&fill[..], &["--segment-mib", &segment]].concat();
        let mut command = laboratory();
        command.arg("preload").args(&fill).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let half = transfers * 1_100;
        while child.try_wait().unwrap().is_none() && log_bytes(&data) < half {
            std::thread::sleep(GLANCE);
        }
        // It may already have exited.
        let _killed = child.kill();
        child.wait().unwrap();
        let filled = years.timed("preload", &fill);
        assert_eq!(filled["stored"], transfers, "{filled}");
        years
    }

    fn data(&self) -> PathBuf {
        self.home.data()
    }

    /// An empty blob store next to the data.
    fn place(&self, name: &str) -> String {
        let path = self.beside.path().join(name);
        fs::create_dir(&path).unwrap();
        format!("file://{}", text(&path))
    }

    fn serve(&self, ports: Ports, how: &str) -> Switch {
        let started = Instant::now();
        let switch = self.home.serve_on(ports);
        print_line(&format!("years: {how}: ready after {:.2} s", started.elapsed().as_secs_f64()));
        switch
    }

    /// Runs a command that prints JSON, and prints its duration.
    fn timed(&self, command: &str, arguments: &[&str]) -> Value {
        let started = Instant::now();
        let within = LEAST + PER_THOUSAND * u32::try_from(self.transfers / 1_000).unwrap();
        let mut run = program_of(command);
        run.arg(command).arg("--json").args(arguments);
        let output = finish_within(run, within);
        let errors = output.err();
        assert!(output.status.success(), "{command} {arguments:?}: {errors}");
        let took = started.elapsed().as_secs_f64();
        let rate = self.transfers as f64 / took;
        print_line(&format!("years: {command}: {took:.2} s, {rate:.0} transfers a second"));
        let printed = output.out();
        serde_json::from_str(&printed[printed.find('{').unwrap()..]).unwrap()
    }

    /// Moves all closed segments to another blob store.
    fn archive(&self) -> String {
        let (place, before) = (self.place("archive"), log_bytes(&self.data()));
        let moved = self.timed("archive", &["--data", text(&self.data()), "--to", &place]);
        assert!(1 < moved["segments"].as_array().unwrap().len(), "{moved}");
        let (packed, plain) = (&moved["packed_bytes"], &moved["plain_bytes"]);
        let each = |bytes: &Value| bytes.as_u64().unwrap() / self.transfers;
        print_line(&format!(
            "years: log {} bytes for each transfer; archived {} of {}",
            before / self.transfers,
            each(packed),
            each(plain)
        ));
        place
    }

    /// Queries each id and resends it, unchanged and changed. Returns the received callbacks.
    fn ask(
        &self,
        switch: &Switch,
        payers: &Payers,
        sample: &Sample,
        how: &str,
    ) -> ReceivedMessages {
        // A new connection each time, since an idle one may be closed meanwhile.
        let admin = || Admin::new(&self.home, switch);
        self.wait_for_eviction(&admin());
        let started = Instant::now();
        let found = admin().metric("upesi_store_reads_found_total");
        for part in sample.0.chunks(AT_ONCE) {
            std::thread::scope(|scope| {
                for share in part.chunks(part.len().div_ceil(ASKERS)) {
                    scope.spawn(move || {
                        let mut connection = Connection::open(switch.fspiop).unwrap();
                        share.iter().for_each(|old| old.ask(&mut connection));
                    });
                }
            });
            admin().wait_for("upesi_notices_owed", |owed| owed == 0);
        }
        let read = admin().metric("upesi_store_reads_found_total") - found;
        assert!(sample.0.len() as u64 <= read, "the answers came from the store: {read} reads");
        let rate = 3.0 * sample.0.len() as f64 / started.elapsed().as_secs_f64();
        print_line(&format!("years: {how}: {} ids, {rate:.0} questions a second", sample.0.len()));
        payers.wait_for(3 * sample.0.len());
        payers.take()
    }

    /// Waits until no final transfer is in memory. Eviction needs no further traffic.
    fn wait_for_eviction(&self, admin: &Admin) {
        let within = LEAST + PER_THOUSAND * u32::try_from(self.transfers / 1_000).unwrap();
        let deadline = Instant::now() + within;
        while admin.metric("upesi_transfers_ended_in_memory") > 0 {
            assert!(Instant::now() < deadline, "what has ended stays in memory");
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Explains a few of them from the archived log.
    fn explain(&self, sample: &Sample) {
        let asked = sample.0.len().div_ceil(3);
        for old in sample.0.iter().step_by(asked) {
            let life = self.timed("explain", &[&old.id, "--data", text(&self.data())]);
            assert_eq!(life["state"], "COMMITTED", "{life}");
        }
    }
}

/// Received bodies by path, in order of their text.
type ReceivedMessages = HashMap<String, Vec<String>>;

/// Fails with the first difference from the earlier callbacks.
#[track_caller]
fn assert_same(now: &ReceivedMessages, before: &ReceivedMessages, why: &str) {
    let paths: BTreeSet<_> = now.keys().chain(before.keys()).collect();
    let mut other = paths.into_iter().filter(|path| now.get(*path) != before.get(*path));
    let first = other.next().map(|path| (path, now.get(path), before.get(path)));
    assert!(first.is_none(), "{why}: {} others and {first:?}", other.count());
}

/// All payers, listening at one address.
struct Payers {
    server: Server,
    received: Arc<Mutex<ReceivedMessages>>,
}

impl Payers {
    /// Transfers that were reserved when the process was killed expire at some time. Their
    /// callbacks are not recorded.
    fn start(sample: &Sample) -> Self {
        let received = Arc::new(Mutex::new(ReceivedMessages::new()));
        let recording = Arc::clone(&received);
        let ours: HashSet<_> = sample.0.iter().map(Old::error_path).collect();
        let server = serve(move |callback: &Callback| {
            let Callback { method, path, .. } = callback;
            let text = callback.text();
            if ours.contains(path) || !text.contains(EXPIRED) {
                let line = format!("{method} {path} to {}", callback.header("fspiop-destination"));
                recording.lock().unwrap().entry(line).or_default().push(text);
            }
            Reply::Accept
        });
        Self { server, received }
    }

    /// Registers the address at the hub, and discards callbacks of the killed process.
    fn listen(&self, home: &Home, switch: &Switch, sample: &Sample) {
        let admin = Admin::new(home, switch);
        let base = format!("http://{}", self.server.address());
        let names: BTreeSet<_> =
            sample.0.iter().flat_map(|old| [&old.prepare.source, &old.fulfil.source]).collect();
        for name in names {
            for (kind, path) in [
                ("TRANSFER_POST", "/transfers"),
                ("TRANSFER_PUT", "/transfers/{{transferId}}"),
                ("TRANSFER_ERROR", "/transfers/{{transferId}}/error"),
            ] {
                admin.set_endpoint(name, kind, &format!("{base}{path}"));
            }
        }
        admin.wait_for("upesi_notices_owed", |owed| owed == 0);
        self.take();
    }

    /// Waits until this number of bodies was received, with a timeout, since responses to queries
    /// are not owed.
    fn wait_for(&self, bodies: usize) {
        let deadline = Instant::now() + LEAST / 4;
        let received = || self.received.lock().unwrap().values().map(Vec::len).sum::<usize>();
        while received() < bodies && Instant::now() < deadline {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Takes the callbacks received since the last call.
    fn take(&self) -> ReceivedMessages {
        let mut received = std::mem::take(&mut *self.received.lock().unwrap());
        received.values_mut().for_each(|bodies| bodies.sort());
        received
    }
}

/// Transfers drawn from the log.
struct Sample(Vec<Old>);

/// An old transfer and its messages.
struct Old {
    id: String,
    prepare: Said,
    fulfil: Said,
}

/// A message as stored in the log.
#[derive(Clone, Default)]
struct Said {
    source: String,
    /// Header lines with their line ends.
    lines: String,
    body: String,
}

impl Sample {
    /// Draws transfers with a fulfilment at random, one from each interval.
    fn draw(data: &Path, transfers: u64, ids: u64) -> Self {
        let (stride, mut rng) = (transfers / ids, Rng(transfers));
        let (mut seen, mut due) = (0, rng.below(stride));
        let mut drawn: HashMap<TransferId, (Said, Option<Said>)> = HashMap::new();
        let disk = RealDisk::open_to_read(data).unwrap();
        let walked = journal::walk(&disk, &mut |placed| {
            for record in placed.frame.records() {
                let command =
                    record::command::read_fields(record.kind, record.version, record.fields);
                match command.unwrap() {
                    ledger::Command::Prepare(prepare) => {
                        if seen == due {
                            drawn.insert(prepare.id, (Said::of(&record), None));
                        }
                        seen += 1;
                        if seen.is_multiple_of(stride) {
                            due = seen + rng.below(stride);
                        }
                    }
                    ledger::Command::Fulfil(fulfil) => {
                        if let Some((_, end)) = drawn.get_mut(&fulfil.id) {
                            *end = Some(Said::of(&record));
                        }
                    }
                    ledger::Command::Genesis(_)
                    | ledger::Command::Tick
                    | ledger::Command::Abort(_)
                    | ledger::Command::PrepareBulk(_)
                    | ledger::Command::FulfilBulk(_)
                    | ledger::Command::AbortBulk(_)
                    | ledger::Command::FinishDeliveries(_)
                    | ledger::Command::ChangeParties(_)
                    | ledger::Command::Administer(_)
                    | ledger::Command::RecordQuote(_)
                    | ledger::Command::RecordQuoteAnswer(_)
                    | ledger::Command::RecordRequestToPay(_) => {}
                }
            }
            Ok(())
        });
        assert!(LogIndex(transfers) < walked.unwrap().tail.end);
        let old = |(id, (prepare, fulfil)): (TransferId, (Said, Option<Said>))| {
            Some(Old { id: id.to_string(), prepare, fulfil: fulfil? })
        };
        let mut all: Vec<_> = drawn.into_iter().filter_map(old).collect();
        // Transfers that were reserved when the process was killed are not final.
        assert!(ids * 9 / 10 <= all.len() as u64, "{} of {ids}", all.len());
        all.truncate(ids as usize);
        Self(all)
    }

    /// Each payer received the payee's own fulfilment twice with the same bytes, and once the error
    /// about the changed message under a known id. There are no other callbacks.
    fn check(&self, received: &ReceivedMessages) {
        for old in &self.0 {
            let path = format!("PUT /transfers/{}", old.id);
            let payer = &old.prepare.source;
            let bodies = &received[&format!("{path} to {payer}")];
            let [first, second] = &bodies[..] else { panic!("{path}: {bodies:?}") };
            assert_eq!(first, second, "{path}: asked and sent again");
            let (notice, fulfil): (Value, Value) = (json(first), json(&old.fulfil.body));
            assert_eq!(notice["transferState"], "COMMITTED", "{path}");
            assert_eq!(notice["fulfilment"], fulfil["fulfilment"], "{path}");
            let modified = &received[&format!("{path}/error to {payer}")];
            let [modified] = &modified[..] else { panic!("{path}: {modified:?}") };
            assert_eq!(json(modified)["errorInformation"]["errorCode"], "3106", "{path}");
        }
        assert_eq!(received.len(), 2 * self.0.len(), "no other callbacks");
    }
}

impl Old {
    /// Path of the error if the transfer was not committed.
    fn error_path(&self) -> String {
        format!("/transfers/{}/error", self.id)
    }

    /// The three requests, each accepted with an empty body.
    fn ask(&self, connection: &mut Connection) {
        let Self { id, prepare, .. } = self;
        let get = format!(
            "GET /transfers/{id} HTTP/1.1\r\nhost: hub\r\nfspiop-source: {}\r\n\
             date: Tue, 15 Nov 1994 08:12:31 GMT\r\n\
             accept: application/vnd.interoperability.transfers+json;version=1.1\r\n\
             content-type: application/vnd.interoperability.transfers+json;version=1.1\r\n\
             content-length: 0\r\n\r\n",
            prepare.source
        );
        let changed = prepare.body.replacen("\"amount\":\"", "\"amount\":\"1", 1);
        assert_ne!(changed, prepare.body);
        for request in [get, prepare.post(&prepare.body), prepare.post(&changed)] {
            let answer = connection.exchange(request.as_bytes()).unwrap();
            assert_eq!((answer.status, &*answer.text()), (202, ""), "{request}");
        }
    }
}

impl Said {
    fn of(record: &Record<'_>) -> Self {
        let Payload::Stored(stored) = record.payload else { panic!("it has a message") };
        let payload = fspiop::stored_message::decode(&Bytes::copy_from_slice(stored)).unwrap();
        let mut output_text = Self { body: utf8(&payload.body), ..Self::default() };
        for (name, value) in &payload.headers {
            let value = utf8(value.as_bytes());
            match name.as_str() {
                "content-length" | "host" => continue,
                "fspiop-source" => output_text.source.clone_from(&value),
                _ => {}
            }
            output_text.lines += &format!("{name}: {value}\r\n");
        }
        output_text
    }

    fn post(&self, body: &str) -> String {
        let (lines, length) = (&self.lines, body.len());
        format!(
            "POST /transfers HTTP/1.1\r\nhost: hub\r\n{lines}content-length: {length}\r\n\r\n{body}"
        )
    }
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn state(admin: &Admin) -> Value {
    admin.quiet_state()
}

/// Bytes of the uncompressed segments; 0 while the directory does not exist.
fn log_bytes(data: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(data) else { return 0 };
    let segments = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|ending| ending == "segment"));
    segments.filter_map(|entry| entry.metadata().ok()).map(|it| it.len()).sum()
}
