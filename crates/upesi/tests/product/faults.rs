//! Faults of the machine: the file system becomes read-only under a running switch, it is full, the
//! network to a participant is lost. After each the switch continues or is restarted, `upesi
//! verify` verifies the log, and an external record of every 2xx agrees.
//!
//! Each test runs in a separate mount or network namespace ([`crate::support::apart`]).

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use rustix::process::Signal;
use testkit::http::{Connection, PATIENCE};
use testkit::server::{Reply, Server};

use crate::cold::replace;
use crate::disk_operations::{Record, check, onboard, send_all};
use crate::support::fsp::{Callback, serve};
use crate::support::message::{Message, Transfer};
use crate::support::namespaces::{Mounted, Need, apart, make_image, run};
use crate::support::scheme::Admin;
use crate::support::switch::{Home, Ports, Printed, Switch};

/// Limits for a small file system.
const SMALL: &str = "[log]\nsegment_mib = 1\n[snapshot]\nevery_records = 50\ncpu_percent = 100\n";
const MEBIBYTES: u32 = 96;
/// Minimum number of transfers before the fault.
const BEFORE: u64 = 25;
/// Number of transfers by which the store is behind the log.
const MANY: u64 = 3_000;
/// More than the number that is accepted before the fault.
const TOO_MANY: u64 = 1_000_000;

#[test]
fn nothing_acknowledged_is_lost_when_the_file_system_turns_read_only() {
    let test = "faults::nothing_acknowledged_is_lost_when_the_file_system_turns_read_only";
    apart(test, Need::Disk, || {
        let server = serve(|_| Reply::Accept);
        let home = Home::configured(SMALL);
        let image = home.configuration().with_file_name("image");
        make_image(&image, MEBIBYTES);
        let mounted = Mounted::image(&image, &home.data());
        onboard(&home, &server);
        let mut record = Record::default();
        let switch = home.serve();
        let accepted = send_until(&switch, &mut record, || mounted.abort());
        assert!(BEFORE <= accepted, "{accepted}");

        let (status, output_text) = switch.end();
        assert!(!status.success(), "a log that cannot be written ends the switch: {output_text}");
        assert!(output_text.contains("log"), "it says what is wrong: {output_text}");
        drop(mounted);

        let _mounted = Mounted::image(&image, &home.data());
        check(&home, &mut record);
        prove(&home);
    });
}

#[test]
fn nothing_acknowledged_is_lost_when_the_file_system_is_full() {
    let test = "faults::nothing_acknowledged_is_lost_when_the_file_system_is_full";
    apart(test, Need::Memory, || {
        let server = serve(|_| Reply::Accept);
        let home = Home::configured(SMALL);
        let _mounted = Mounted::memory(&home.data(), MEBIBYTES);
        onboard(&home, &server);
        let mut record = Record::default();
        let switch = home.serve();
        let fill = home.data().join("ballast");
        let accepted = send_until(&switch, &mut record, || fill_up(&fill));
        assert!(BEFORE <= accepted, "{accepted}");

        // With free space again, the same process accepts what it refused.
        fs::remove_file(&fill).unwrap();
        let mut goes_on = || !send_all(&switch, &mut record, BEFORE);
        let deadline = Instant::now() + PATIENCE;
        while !goes_on() {
            assert!(Instant::now() < deadline, "it does not go on: {}", switch.complaints());
        }
        let stored = || {
            let admin = Admin::new(&home, &switch);
            (admin.metric("upesi_store_log_index"), admin.metric("upesi_log_index"))
        };
        let (_, refused_at) = stored();
        while stored().0 < refused_at {
            assert!(Instant::now() < deadline, "{:?}: {}", stored(), switch.complaints());
            assert!(!send_all(&switch, &mut record, 1), "{}", switch.complaints());
        }
        let output_text = switch.complaints();
        // If the log is refused space before the store needs any, the store prints no message.
        assert!(
            output_text.matches("final transfers stay in memory").count() <= 1,
            "{output_text}"
        );
        switch.signal(Signal::KILL);
        drop(switch);
        check(&home, &mut record);
        prove(&home);
    });
}

/// If a start cannot write to the store, final rows stay in memory or the start fails. The existing
/// store is not discarded.
#[test]
fn start_on_a_full_disk_keeps_the_store() {
    let test = "faults::start_on_a_full_disk_keeps_the_store";
    apart(test, Need::Memory, || {
        let server = serve(|_| Reply::Accept);
        let home = Home::configured(SMALL);
        let _mounted = Mounted::memory(&home.data(), MEBIBYTES);
        onboard(&home, &server);
        let mut record = Record::default();
        let [store, aside] = ["store", "store-before"].map(|name| home.data().join(name));
        replace(&store, &aside);
        let switch = home.serve();
        assert!(!send_all(&switch, &mut record, MANY), "{}", switch.complaints());
        switch.kill();
        replace(&aside, &store);
        let fill = home.data().join("ballast");
        fill_up(&fill);

        let kept = |switch: &Switch| {
            assert!(!switch.greeting.contains("rebuilt"), "{}", switch.greeting);
        };
        if let Ok(switch) = home.serve_or_not() {
            kept(&switch);
            switch.signal(Signal::KILL);
        }
        fs::remove_file(&fill).unwrap();
        let switch = home.serve();
        kept(&switch);
        switch.kill();
        check(&home, &mut record);
    });
}

/// Sends transfers and calls `fault` in the middle of them, until one is not accepted. Returns the
/// number sent.
fn send_until(switch: &Switch, record: &mut Record, fault: impl FnOnce()) -> u64 {
    assert!(!send_all(switch, record, BEFORE), "{}", switch.complaints());
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_all(switch, record, TOO_MANY));
        fault();
        assert!(sending.join().unwrap(), "all of it was accepted");
    });
    record.sent
}

/// Writes to a new file until its file system is full.
pub(crate) fn fill_up(path: &std::path::Path) {
    let mut file = fs::File::create(path).unwrap();
    for length in [1 << 16, 1 << 12] {
        while file.write_all(&vec![1; length]).is_ok() {}
    }
}

fn prove(home: &Home) {
    home.verify().succeeds();
}

/// Timeouts of one second, so that a lost network is noticed quickly.
const QUICK: &str = "[delivery]\nconnect_timeout_ms = 1000\nanswer_timeout_ms = 1000\n";
const SIDES: [&str; 2] = ["payerfsp", "payeefsp"];
const PAYER: usize = 0;
const PAYEE: usize = 1;

#[test]
fn nothing_acknowledged_is_lost_when_the_network_to_participants_is_gone() {
    let test = "faults::nothing_acknowledged_is_lost_when_the_network_to_participants_is_gone";
    apart(test, Need::Network, || {
        let network = Network::new();
        let external = Arc::new(ExternalRecord::default());
        let servers = [PAYER, PAYEE].map(|side| {
            let external = Arc::clone(&external);
            Server::start(address(side, FSP), move |callback| {
                external.record_callback(side, callback)
            })
            .unwrap()
        });
        let home = Home::configured(QUICK);
        let mut switch = network.serve(&home);
        let mut admin = Admin::new(&home, &switch);
        admin.prepare_hub();
        for (name, server) in SIDES.iter().zip(&servers) {
            admin.onboard(name, &format!("http://{}", server.address()), "1000000", "1000000");
        }

        // No fault yet, so that connections are open.
        let mut transfers = prepare(&switch, 10, 600_000);
        external.wait(PAYEE, &transfers, "prepare");
        fulfil(&switch, &transfers);
        external.wait(PAYER, &transfers, "COMMITTED");

        // The payee is unreachable. Its notices wait, and unanswered transfers expire.
        network.link(PAYEE, "down");
        let late = prepare(&switch, 10, 2_000);
        let mut waiting = prepare(&switch, 20, 600_000);
        external.wait(PAYER, &late, "3303");
        external.has_not(PAYEE, &late);
        external.has_not(PAYEE, &waiting);

        // It is still unreachable when the switch is killed and restarted.
        switch.kill();
        switch = network.serve(&home);
        waiting.extend(prepare(&switch, 20, 600_000));
        external.has_not(PAYEE, &waiting);
        network.link(PAYEE, "up");
        external.wait(PAYEE, &waiting, "prepare");

        // The payer is unreachable while the payee answers. One response to it is lost on the way.
        network.link(PAYER, "down");
        let (last, others) = waiting.split_last().unwrap();
        fulfil(&switch, others);
        let uncertain = last.fulfil("RESERVED");
        let mut connection = Connection::open(door(&switch, PAYEE)).unwrap();
        connection.write(&uncertain.render()).unwrap();
        network.link(PAYEE, "down");
        external.has_not(PAYER, &waiting);
        network.link(PAYER, "up");
        network.link(PAYEE, "up");
        fulfil(&switch, std::slice::from_ref(last));
        external.wait(PAYER, &waiting, "COMMITTED");

        transfers.extend(waiting);
        admin = Admin::new(&home, &switch);
        admin.wait_for("upesi_notices_owed", |owed| owed == 0);
        assert_eq!(admin.metric("upesi_dead_letters"), 0);
        let count = transfers.len();
        assert_eq!(
            SIDES.map(|name| admin.position(name)),
            [count.to_string(), format!("-{count}")],
            "each transfer that was committed is of 1"
        );
        external.nobody_heard_both_ends();
        switch.stop(Signal::TERM);
        prove(&home);
    });
}

/// The end of a link.
const FSP: u8 = 1;
const HUB: u8 = 2;

fn address(side: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, side as u8, end)
}

/// The address at which a participant reaches the switch.
fn door(switch: &Switch, side: usize) -> SocketAddr {
    SocketAddr::from((address(side, HUB), switch.fspiop.port()))
}

/// A network namespace for the switch, which persists across its restarts, and a cable from it to
/// each participant.
struct Network {
    /// Keeps the namespace alive until its standard input closes.
    holder: Child,
}

impl Network {
    fn new() -> Self {
        run("ip", &["link", "set", "lo", "up"]);
        let mut holder = Command::new("unshare");
        let holder = holder.args(["--net", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let network = Self { holder };
        let deadline = Instant::now() + PATIENCE;
        let here = fs::read_link("/proc/self/ns/net").unwrap();
        while fs::read_link(network.path()).unwrap() == here {
            assert!(Instant::now() < deadline, "there is no other network");
            std::thread::yield_now();
        }
        let id = network.holder.id().to_string();
        for (side, name) in SIDES.iter().enumerate() {
            let far = format!("to-{name}");
            run("ip", &["link", "add", name, "type", "veth", "peer", "name", &far, "netns", &id]);
            let [fsp, hub] = [FSP, HUB].map(|end| format!("{}/24", address(side, end)));
            run("ip", &["address", "add", &fsp, "dev", name]);
            network.run(&["ip", "address", "add", &hub, "dev", &far]);
            network.run(&["ip", "link", "set", &far, "up"]);
            network.link(side, "up");
        }
        network
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// Disconnects or reconnects a participant.
    fn link(&self, side: usize, state: &str) {
        run("ip", &["link", "set", SIDES[side], state]);
    }

    /// Runs a command inside the namespace.
    fn run(&self, command: &[&str]) {
        let within = format!("--net={}", self.path());
        run("nsenter", &[&[&*within], command].concat());
    }

    fn serve(&self, home: &Home) -> Switch {
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let serve = home.command(Ports { fspiop: everywhere, admin: everywhere });
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(serve.get_program());
        command.args(serve.get_args());
        let mut switch = home.started(command);
        switch.admin.set_ip(address(PAYER, HUB).into());
        switch
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // It exits when its input closes.
        let _ended = self.holder.wait();
    }
}

/// Received callbacks: side, transfer, and gist.
#[derive(Default)]
struct ExternalRecord {
    received: Mutex<BTreeSet<(usize, String, String)>>,
    changed: Condvar,
}

impl ExternalRecord {
    fn record_callback(&self, side: usize, callback: &Callback) -> Reply {
        let body = callback.json();
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let id = callback.path.split('/').nth(2).map(str::to_owned);
        let id = id.or_else(|| text(&body["transferId"])).expect("it is about a transfer");
        let gist = text(&body["transferState"])
            .or_else(|| text(&body["errorInformation"]["errorCode"]))
            .unwrap_or_else(|| "prepare".to_owned());
        self.received.lock().unwrap().insert((side, id, gist));
        self.changed.notify_all();
        Reply::Accept
    }

    /// Waits until a side has received this gist for all transfers.
    #[track_caller]
    fn wait(&self, side: usize, transfers: &[Transfer], gist: &str) {
        let misses = |received: &mut BTreeSet<(usize, String, String)>| {
            let mut keys = transfers.iter().map(|one| (side, one.id.clone(), gist.to_owned()));
            !keys.all(|key| received.contains(&key))
        };
        let waited =
            self.changed.wait_timeout_while(self.received.lock().unwrap(), PATIENCE, misses);
        let (received, waited) = waited.unwrap();
        assert!(!waited.timed_out(), "{} of {gist} for: {received:#?}", SIDES[side]);
    }

    /// Asserts that a side has received no final notice of any of them, and the payee no prepare.
    #[track_caller]
    fn has_not(&self, side: usize, transfers: &[Transfer]) {
        let received = self.received.lock().unwrap();
        let about = |id: &String| transfers.iter().any(|one| one.id == *id);
        assert!(!received.iter().any(|(who, id, _)| *who == side && about(id)), "{received:#?}");
    }

    fn nobody_heard_both_ends(&self) {
        let received = self.received.lock().unwrap();
        for (side, id, _) in received.iter().filter(|(.., gist)| gist == "COMMITTED") {
            assert!(!received.contains(&(*side, id.clone(), "3303".to_owned())), "{id}");
        }
    }
}

/// Prepares transfers of 1, each of which must be accepted.
fn prepare(switch: &Switch, count: usize, life_ms: i64) -> Vec<Transfer> {
    let transfers: Vec<_> = (0..count).map(|_| Transfer::of("1").expiring(life_ms)).collect();
    send(door(switch, PAYER), transfers.iter().map(Transfer::prepare), 202);
    transfers
}

fn fulfil(switch: &Switch, transfers: &[Transfer]) {
    send(door(switch, PAYEE), transfers.iter().map(|one| one.fulfil("RESERVED")), 200);
}

fn send(door: SocketAddr, messages: impl Iterator<Item = Message>, status: u16) {
    let mut connection = Connection::open(door).unwrap();
    for message in messages {
        assert_eq!(connection.exchange(&message.render()).unwrap().status, status);
    }
}
