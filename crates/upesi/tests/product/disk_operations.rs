//! The real program is stopped at each change of its log directory in turn: each write (half done),
//! each sync, each rename, including those of a snapshot. After each it is restarted, verified, and
//! compared with an external record of every 2xx: accepted messages are present, uncertain ones are
//! resent and are present once. The same is done with a full disk.
//!
//! `UPESI_PROOF_SECONDS` repeats the script on a growing log for this time.

use std::process::Command;
use std::time::{Duration, Instant};

use journal::INJECTED_EXIT;
use rustix::process::Signal;
use testkit::http::Connection;
use testkit::server::{Reply, Server};

use crate::support::fsp::serve;
use crate::support::message::{Message, Transfer};
use crate::support::scheme::Admin;
use crate::support::switch::{Home, Ports, Printed, Switch};

/// Transfers in one run of the script.
const TRANSFERS: u64 = 4;
/// Minimum number of stop points of the script.
const POINTS_MIN: u64 = 22;
/// Minimum number of these that concern a snapshot: its file, its content, its name.
const POINTS_OF_SNAPSHOT_MIN: u64 = 4;
/// Longest duration of a snapshot of a small state.
const PATIENCE: Duration = Duration::from_secs(20);
/// More transfers than fit into the remaining space of the log.
const TOO_MANY: u64 = 200;
/// Space for the log, in blocks of 512 bytes.
const ROOM_BLOCKS: u64 = 40;

#[test]
fn log_creation_survives_a_crash_at_every_write() {
    for operations in 0.. {
        let home = Home::new();
        match home.serve_until(Ports::free(), operations) {
            Ok(_ready) => {
                assert!(2 < operations, "a log is made in several steps");
                return;
            }
            Err(status) => assert_eq!(status.code(), Some(INJECTED_EXIT)),
        }
        home.serve().stop(Signal::TERM);
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_at_any_write() {
    let server = serve(|_| Reply::Accept);
    let home = onboarded(&server);
    let mut record = Record::default();
    let (started, mut points, mut of_snapshot) = (Instant::now(), 0, 0);
    let long = std::env::var("UPESI_PROOF_SECONDS").ok().and_then(|text| text.parse().ok());
    let long = Duration::from_secs(long.unwrap_or(0));
    loop {
        points += points_of_one_script(&home, &mut record, &mut of_snapshot);
        if long <= started.elapsed() {
            break;
        }
    }
    assert!(POINTS_MIN <= points, "only {points} changes of the disk");
    assert!(POINTS_OF_SNAPSHOT_MIN <= of_snapshot, "only {of_snapshot} while one is taken");
    println!("{points} points, {of_snapshot} in a snapshot, {} transfers", record.sent);
}

/// A file size limit simulates a full disk for the log.
#[test]
fn nothing_acknowledged_is_lost_on_a_full_disk() {
    let server = serve(|_| Reply::Accept);
    let home = onboarded(&server);
    let mut record = Record::default();
    let switch = home.serve_within(ROOM_BLOCKS);
    let refused = send_all(&switch, &mut record, TOO_MANY);
    assert!(refused, "all of it found room");
    drop(switch);
    check(&home, &mut record);
}

/// The external record.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) sent: u64,
    /// Transfers with a message that received no 2xx.
    uncertain: Vec<Transfer>,
}

fn onboarded(server: &Server) -> Home {
    let home = Home::new();
    onboard(&home, server);
    home
}

/// Creates a log with a payer and a payee.
pub(crate) fn onboard(home: &Home, server: &Server) {
    let switch = home.serve();
    let admin = Admin::new(home, &switch);
    admin.prepare_hub();
    for name in ["payerfsp", "payeefsp"] {
        admin.onboard(name, &format!("http://{}", server.address()), "1000000", "1000000");
    }
    switch.stop(Signal::TERM);
}

/// Runs the script repeatedly, each time up to the next change of the disk, until it completes.
fn points_of_one_script(home: &Home, record: &mut Record, of_snapshot: &mut u64) -> u64 {
    for operations in 0.. {
        let status = match home.serve_until(Ports::free(), operations) {
            Err(status) => status,
            Ok(switch) => {
                let refused = send_all(&switch, record, TRANSFERS);
                if !refused && !take_snapshot(&Admin::new(home, &switch)) {
                    *of_snapshot += 1;
                }
                switch.signal(Signal::TERM);
                switch.end().0
            }
        };
        assert!(status.success() || status.code() == Some(INJECTED_EXIT), "{status}");
        check(home, record);
        if status.success() {
            return operations;
        }
    }
    unreachable!("a script has an end")
}

/// Requests a snapshot. Returns false if the switch ended meanwhile.
fn take_snapshot(admin: &Admin) -> bool {
    let deadline = Instant::now() + PATIENCE;
    if admin.try_call("POST", "/snapshots", "").is_err() {
        return false;
    }
    while let Ok(metrics) = admin.try_call("GET", "/metrics", "") {
        if metrics.text().contains("upesi_snapshots_taken_total 1\n") {
            return true;
        }
        assert!(Instant::now() < deadline, "no snapshot: {}", metrics.text());
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// Sends transfers until one is not accepted. Returns whether one was refused.
pub(crate) fn send_all(switch: &Switch, record: &mut Record, count: u64) -> bool {
    let Ok(mut connection) = Connection::open(switch.fspiop) else { return true };
    for _ in 0..count {
        let transfer = Transfer::of("1");
        record.sent += 1;
        let messages = [(transfer.prepare(), 202), (transfer.fulfil("RESERVED"), 200)];
        let accepted = |(message, status): &(Message, u16)| {
            connection.exchange(&message.render()).is_ok_and(|answer| answer.status == *status)
        };
        if !messages.iter().all(accepted) {
            record.uncertain.push(transfer);
            return true;
        }
    }
    false
}

/// Restarts the switch, resends uncertain transfers, and compares the counts.
pub(crate) fn check(home: &Home, record: &mut Record) {
    let switch = home.serve();
    let mut connection = Connection::open(switch.fspiop).unwrap();
    for transfer in record.uncertain.drain(..) {
        for (message, status) in [(transfer.prepare(), 202), (transfer.fulfil("RESERVED"), 200)] {
            assert_eq!(connection.exchange(&message.render()).unwrap().status, status);
        }
    }
    let admin = Admin::new(home, &switch);
    let found = ["payerfsp", "payeefsp"].map(|name| admin.position(name));
    let expected = match record.sent {
        0 => ["0".to_owned(), "0".to_owned()],
        sent => [sent.to_string(), format!("-{sent}")],
    };
    assert_eq!(found, expected, "positions, each transfer being of 1");
    switch.stop(Signal::TERM);
    home.verify().succeeds();
}

impl Home {
    /// Starts a switch whose log may grow by this number of blocks of 512 bytes, and no other file
    /// beyond the resulting size.
    pub(crate) fn serve_within(&self, blocks: u64) -> Switch {
        let files = std::fs::read_dir(self.data()).unwrap();
        let used = files.map(|file| file.unwrap().metadata().unwrap().len()).max().unwrap_or(0);
        let blocks = used / 512 + blocks;
        let limited = "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"";
        let mut command = Command::new("sh");
        command.arg("-c").arg(limited).arg(blocks.to_string());
        let serve = self.command(Ports::free());
        command.arg(serve.get_program()).args(serve.get_args());
        self.started(command)
    }
}
