//! A stalled stage is named by both health pages, and stops the process if configured. A stage that
//! is idle, or waits for a participant, is not reported.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use testkit::http::{Connection, PATIENCE};

use crate::faults::fill_up;
use crate::support::message::{Message, Transfer};
use crate::support::namespaces::{Mounted, Need, apart, make_image, run};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, Ports};

const GLANCE: Duration = Duration::from_millis(20);
/// A table of this size in the store has blocks that a start does not read.
const SEVERAL_BLOCKS: usize = 16 << 10;
const REPORT: &str = "[health]\nstuck_seconds = 2\n";
const EXIT: &str = "[health]\nstuck_seconds = 2\nwatchdog = \"exit\"\n";

/// A switch whose `stage` is stalled.
fn with_stalled_stage(configuration: &str, stage: &'static str) -> Home {
    Home::configured(configuration).with_stalled_stage(stage)
}

/// A scheme whose `stage` is stalled, with a transfer in flight that expires at once.
fn stalled_scheme(configuration: &str, stage: &'static str) -> Scheme {
    let scheme = Scheme::at(with_stalled_stage(configuration, stage));
    scheme.send(&Transfer::of("10").expiring(1_500).prepare(), 202);
    scheme
}

/// The failed services, once the page reports a failure.
fn down(read: impl Fn() -> (u16, String)) -> (Vec<String>, Value) {
    down_with(None, read)
}

/// The failed services, once they include this one.
fn down_with(wanted: Option<&str>, read: impl Fn() -> (u16, String)) -> (Vec<String>, Value) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, text) = read();
        let page: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(page["status"] == "OK", status == 200, "{status}: {text}");
        if status == 502 {
            let services = page["services"].as_array().unwrap();
            let down = services.iter().filter(|one| one["status"] == "DOWN");
            let names: Vec<_> = down.map(|one| one["name"].as_str().unwrap().to_owned()).collect();
            if wanted.is_none_or(|wanted| names.iter().any(|name| name == wanted)) {
                return (names, page);
            }
        }
        assert!(Instant::now() < deadline, "it stays well, or something else is ill: {text}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[track_caller]
fn check(admin: &Admin, greeting: &str, stage: &str, expected: &str) {
    assert!(greeting.contains(&format!("INJECTED: {stage} will be stuck")), "{greeting}");
    let (names, page) = down(|| {
        let answer = admin.call("GET", "/health", "");
        (answer.status, answer.text())
    });
    assert_eq!(names, [expected], "{page}");
    let stuck = &page["stuck"][0];
    assert_eq!(stuck["stage"], expected, "{page}");
    assert!(2 <= stuck["seconds"].as_u64().unwrap(), "{page}");
    assert!(10 < stuck["detail"].as_str().unwrap().len(), "{page}");
}

/// Standard error is a file on the full disk. The switch continues without its log lines.
#[test]
fn switch_with_blocked_standard_error_continues() {
    let home = with_stalled_stage(REPORT, "sequencer");
    let ports = Ports { fspiop: free(), admin: free() };
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut command = home.command(ports);
    let mut switch =
        Ended(command.stdin(Stdio::null()).stdout(full()).stderr(full()).spawn().unwrap());
    let health = || {
        let mut connection = Connection::open(ports.fspiop).ok()?;
        let answer = connection.exchange(&Message::new("GET", "/health", "a").render()).ok()?;
        Some((answer.status, answer.text()))
    };
    let deadline = Instant::now() + PATIENCE;
    while health().is_none() {
        assert_eq!(switch.0.try_wait().unwrap(), None, "it goes on without a word");
        assert!(Instant::now() < deadline, "it does not start");
        thread::sleep(GLANCE);
    }
    // A stall is shown after it was logged, or could not be.
    down(|| health().expect("it goes on, and answers"));
    assert_eq!(switch.0.try_wait().unwrap(), None, "it goes on");
}

/// Killed at the end of the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn stalled_sequencer_is_named() {
    let home = Home::configured(REPORT);
    home.serve().stop(Signal::TERM);
    let proof = home.offline(&["verify", "--json"]).stdout;
    let last = serde_json::from_slice::<Value>(&proof).unwrap()["records"].as_u64().unwrap();
    assert!(0 < last);
    let home = home.with_stalled_stage("sequencer");
    let switch = home.serve();
    check(&Admin::new(&home, &switch), &switch.greeting, "sequencer", "sequencer");
    let (names, _) = down(|| {
        let message = Message::new("GET", "/health", "payerfsp");
        let answer = Connection::open(switch.fspiop).unwrap().exchange(&message.render()).unwrap();
        (answer.status, answer.text())
    });
    assert_eq!(names, ["sequencer"]);
    switch.wait_for_complaint(&format!("the last record is {last}"));
}

#[test]
fn stalled_io_thread_is_named() {
    let home = with_stalled_stage(REPORT, "io");
    let switch = home.serve();
    check(&Admin::new(&home, &switch), &switch.greeting, "io", "io-1");
}

#[test]
fn stalled_lane_is_named_and_its_participant_only_to_operators() {
    let scheme = Scheme::at(with_stalled_stage(REPORT, "lane"));
    scheme.send(&Transfer::of("10").prepare(), 202);
    check(&scheme.admin, &scheme.switch.greeting, "lane", "lane payeefsp");
    let message = Message::new("GET", "/health", "payerfsp");
    let (names, page) = down(|| {
        let answer = scheme.ask(&message);
        (answer.status, answer.text())
    });
    assert_eq!(names, ["lane"], "{page}");
    scheme.switch.wait_for_complaint("stage=lane payeefsp");
}

#[test]
fn missed_deadline_is_named() {
    let scheme = stalled_scheme(REPORT, "expiry");
    check(&scheme.admin, &scheme.switch.greeting, "expiry", "expiry");
    // The next batch uses it, and the switch is healthy again.
    scheme.admin.set_limit("otherfsp", "900");
    scheme.admin.wait_for("upesi_transfers_expired_total", |expired| expired == 1);
    wait_until_well(&scheme.admin);
    assert!(scheme.switch.messages().contains("makes progress again stage=\"expiry\"\n"));
}

fn wait_until_well(admin: &Admin) {
    let deadline = Instant::now() + PATIENCE;
    while admin.call("GET", "/health", "").status != 200 {
        assert!(Instant::now() < deadline, "it stays ill");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A start does not read the data of explanations. The next start rebuilds the store.
#[test]
fn damaged_store_is_named_when_read() {
    let scheme = Scheme::at(Home::configured(REPORT));
    // A table has several blocks, of which the start reads one.
    let transfers: Vec<_> = (0..300).map(|_| Transfer::of("1")).collect();
    for transfer in &transfers {
        scheme.send(&transfer.prepare(), 202);
        scheme.send(&transfer.fulfil("COMMITTED"), 200);
    }
    scheme.admin.wait_for("upesi_transfers_in_flight", |count| count == 0);
    scheme.admin.wait_for("upesi_transfers_ended_in_memory", |count| count == 0);
    let Scheme { switch, home, .. } = scheme;
    switch.stop(Signal::TERM);
    // The keyspace of decision records.
    let tables = home.data().join("store/rows/keyspaces/4/tables");
    let mut damaged = 0;
    for table in fs::read_dir(tables).unwrap().map(|entry| entry.unwrap().path()) {
        let mut bytes = fs::read(&table).unwrap();
        if SEVERAL_BLOCKS <= bytes.len() {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 100].fill(7);
            fs::write(table, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(0 < damaged, "no table is that long");
    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    assert!(!switch.greeting.contains("rebuilt"), "{}", switch.greeting);
    let explained = |admin: &Admin, transfer: &Transfer| {
        admin.call("GET", &format!("/transfers/{}/explanation", transfer.id), "").status
    };
    let unread = transfers.iter().find(|transfer| explained(&admin, transfer) != 200);
    let unread = unread.expect("the middle of a table is not read");
    let (names, page) = down(|| {
        let answer = admin.call("GET", "/health", "");
        (answer.status, answer.text())
    });
    assert_eq!(names, ["store"], "{page}");
    assert!(page["stuck"][0]["detail"].as_str().unwrap().contains("is damaged"), "{page}");
    drop((admin, switch));
    let switch = home.serve();
    assert!(switch.greeting.contains("it was found damaged"), "{}", switch.greeting);
    assert_eq!(explained(&Admin::new(&home, &switch), unread), 200);
}

/// The disk of the store stalls. Transfers continue meanwhile, and the store continues with the
/// disk.
#[test]
fn stalled_store_is_named() {
    apart("watchdog::stalled_store_is_named", Need::Disk, || {
        let home = Home::configured(REPORT);
        // An existing store is opened.
        home.serve().stop(Signal::TERM);
        let store = home.data().join("store");
        let _mounted = move_to_a_disk_of_its_own(&store, &home);
        let scheme = Scheme::at(home);
        let commit = || {
            let transfer = Transfer::of("10");
            scheme.send(&transfer.prepare(), 202);
            scheme.payee.wait("POST", "/transfers");
            scheme.send(&transfer.fulfil("COMMITTED"), 200);
            scheme.payer.wait("PUT", &transfer.path());
        };
        commit();
        let frozen = Frozen::freeze(&store);
        commit();
        let (names, page) = down(|| {
            let answer = scheme.admin.call("GET", "/health", "");
            (answer.status, answer.text())
        });
        assert_eq!(names, ["store"], "{page}");
        let detail = page["stuck"][0]["detail"].as_str().unwrap();
        assert!(detail.contains("the cold store is not written"), "{page}");
        commit();
        drop(frozen);
        wait_until_well(&scheme.admin);
        commit();
        scheme.positions("40", "-40");
        assert!(scheme.switch.messages().contains("makes progress again stage=\"store\"\n"));
        scheme.switch.signal(Signal::TERM);
        let (status, output_text) = scheme.switch.end();
        assert!(status.success(), "{output_text}");
    });
}

/// All commands are refused, so the last log index does not change. A restart would not help, so
/// the process continues, and recovers with free space.
#[test]
fn log_on_a_full_disk_is_named_and_stops_nothing() {
    apart("watchdog::log_on_a_full_disk_is_named_and_stops_nothing", Need::Memory, || {
        let home = Home::configured(&format!("[log]\nsegment_mib = 1\n{EXIT}"));
        let _mounted = Mounted::memory(&home.data(), 96);
        let scheme = Scheme::at(home);
        let fill = scheme.home.data().join("ballast");
        fill_up(&fill);
        let prepare = || scheme.ask(&Transfer::of("1").prepare()).status;
        let deadline = Instant::now() + PATIENCE;
        let log = loop {
            // Uses up the free space of the current segment.
            while prepare() == 202 {}
            let (answer, page) = agreeing(&scheme.admin);
            let stuck = page["stuck"].as_array().into_iter().flatten();
            if let Some(log) = stuck.into_iter().find(|one| one["stage"] == "log") {
                break log.clone();
            }
            assert!(Instant::now() < deadline, "the log stays well: {answer}");
            thread::sleep(GLANCE);
        };
        assert!(log["detail"].as_str().unwrap().contains("the disk is full"), "{log}");
        fs::remove_file(&fill).unwrap();
        while prepare() != 202 {
            assert!(Instant::now() < deadline, "it does not go on: {}", scheme.switch.complaints());
        }
        wait_until_well(&scheme.admin);
        while agreeing(&scheme.admin).1["storage"] == "FULL" {
            assert!(Instant::now() < deadline, "there is room");
        }
        assert!(scheme.switch.messages().contains("makes progress again stage=\"log\"\n"));
    });
}

/// `/health`, which must not contradict `/storage`: common figures are equal, and a log without
/// disk space is down.
fn agreeing(admin: &Admin) -> (String, Value) {
    let read = |path: &str| {
        let text = admin.call("GET", path, "").text();
        let page: Value = serde_json::from_str(&text).unwrap();
        (text, page)
    };
    let (before, (text, health), after) = (read("/storage"), read("/health"), read("/storage"));
    let [before, after] = [&before.1["status"], &after.1["status"]];
    let shown = &health["storage"];
    assert!(shown == before || shown == after, "{before}, {after} and {text}");
    let broker = &health["services"][1];
    assert_eq!(broker["name"], "broker", "{text}");
    assert!(shown != "FULL" || broker["status"] == "DOWN", "{text}");
    let stuck = health["stuck"].as_array().into_iter().flatten();
    let full = |one: &Value| one["detail"].as_str().unwrap().contains("the disk is full");
    assert!(shown == "FULL" || !{ stuck }.any(full), "{text}");
    (text, health)
}

/// A stalled disk blocks the thread that waits for it.
#[test]
fn stalled_log_is_named() {
    apart("watchdog::stalled_log_is_named", Need::Disk, || {
        let home = Home::configured(REPORT);
        let image = home.configuration().with_file_name("image");
        make_image(&image, 96);
        let data = home.data();
        let _mounted = Mounted::image(&image, &data);
        let scheme = Scheme::at(home);
        let frozen = Frozen::freeze(&data);
        let transfer = Transfer::of("10");
        thread::scope(|scope| {
            let (fspiop, prepare) = (scheme.switch.fspiop, transfer.prepare().render());
            let send = move || Connection::open(fspiop).unwrap().exchange(&prepare).unwrap();
            let sending = scope.spawn(move || send().status);
            // The store may be reported first, since it is on the same disk.
            down_with(Some("sequencer"), || {
                let answer = scheme.admin.call("GET", "/health", "");
                (answer.status, answer.text())
            });
            assert!(!sending.is_finished(), "nothing is acknowledged meanwhile");
            drop(frozen);
            assert_eq!(sending.join().unwrap(), 202);
        });
        scheme.payee.wait("POST", "/transfers");
        wait_until_well(&scheme.admin);
    });
}

/// Moves the files to a separate file system.
fn move_to_a_disk_of_its_own(directory: &Path, home: &Home) -> Mounted {
    let beside = |name: &str| home.configuration().with_file_name(name);
    let (image, outside) = (beside("image"), beside("outside"));
    make_image(&image, 64);
    let mounted = Mounted::image(&image, &outside);
    let from = directory.join(".");
    run("cp", &["-a", from.to_str().unwrap(), outside.to_str().unwrap()]);
    drop(mounted);
    Mounted::image(&image, directory)
}

/// A file system whose writes are blocked until this is dropped.
struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    fn freeze(at: &'a Path) -> Self {
        run("fsfreeze", &["--freeze", at.to_str().unwrap()]);
        Self(at)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        run("fsfreeze", &["--unfreeze", self.0.to_str().unwrap()]);
    }
}

#[test]
fn watchdog_stops_a_process_with_a_stalled_thread() {
    for (stage, named) in [("sequencer", "sequencer"), ("io", "io-1")] {
        let home = with_stalled_stage(EXIT, stage);
        bites(home.serve().end(), named);
        assert!(home.verify().status.success(), "the log is whole");
    }
}

#[test]
fn watchdog_stops_a_process_with_unfinished_work() {
    for (stage, named) in [("lane", "lane"), ("expiry", "expiry")] {
        let Scheme { switch, home, .. } = stalled_scheme(EXIT, stage);
        bites(switch.end(), named);
        assert!(home.verify().status.success(), "the log is whole");
    }
}

/// Each component has its time limit. After that a stalled one has two more seconds.
#[test]
fn stalled_thread_does_not_delay_a_stop() {
    for (stage, named, seconds) in
        [("sequencer", "the sequencer", 17), ("io", "a connection or its thread", 7)]
    {
        let home = with_stalled_stage(REPORT, stage);
        let switch = home.serve();
        switch.signal(Signal::TERM);
        let (status, output_text) = switch.end();
        assert_eq!(status.code(), Some(70), "{output_text}");
        assert!(
            output_text.contains(&format!("part={named:?} seconds={seconds}")),
            "{output_text}"
        );
        assert!(home.verify().status.success(), "the log is whole");
    }
}

#[track_caller]
fn bites((status, output_text): (std::process::ExitStatus, String), named: &str) {
    assert_eq!(status.code(), Some(70), "{output_text}");
    let why = format!("a supervisor should restart it stage={named}");
    assert!(output_text.contains(&why), "{output_text}");
}

/// Nothing listens at the payee's address for longer than the stall timeout.
#[test]
fn dead_participant_does_not_make_the_switch_unhealthy() {
    let scheme = Scheme::configured(EXIT);
    let closed = "http://127.0.0.1:9";
    for kind in ["TRANSFER_POST", "TRANSFER_ERROR", "TRANSFER_PUT"] {
        scheme.admin.set_endpoint("payeefsp", kind, closed);
    }
    let started = Instant::now();
    scheme.send(&Transfer::of("10").prepare(), 202);
    let mut attempts = 0;
    while started.elapsed() < std::time::Duration::from_secs(5) {
        // Pauses between attempts grow, so the state is checked throughout that time.
        attempts = scheme.admin.wait_for("upesi_attempts_total", |now| attempts < now);
        assert_eq!(scheme.admin.call("GET", "/health", "").status, 200);
    }
    // Its lane is reported, and nothing else.
    let complaints = scheme.switch.complaints();
    let lane = |line: &str| line.contains("lane stalled") && line.contains("\"payeefsp\"");
    assert!(complaints.lines().count() <= 1 && complaints.lines().all(lane), "{complaints}");
}
