//! A whole I/O thread over connections in memory: real server, real node, a log in memory.

mod framing;
mod messages;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};

use journal::{FileLog, MemoryDisk};
use ledger::{
    AccountKind, Administer, Change, Command, CreateHubAccount, CreateParticipant, Currency,
    FspName, Genesis, Outcome,
};
use node::latency_trace::{LatencyTrace, TracedLog};
use node::{Handle, InboxLimits, Mailbox, Node, ReplyTo, SubmissionContext, SystemClock};
use ports::Clock;
use record::frame::LogIdentity;
use sequencer::{Durability, Sequencer, Submission};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::driver;
use crate::io_thread::{IoThread, IoThreadParams};
use crate::lent_calls::LentQueues;
use crate::measurements::Measurements;
use crate::message::ForwardedMessage;
use crate::options::IoThreadOptions;
use crate::server;

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
/// Bytes that a connection holds between its ends.
const PIPE: usize = 64 << 10;

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: hub\r\n\r\n";
const BODY: &str = "{ \"transferId\":\"b51ec534-ee48-4575-b6a9-ead2955b8069\",\
    \"payerFsp\":\"payerfsp\",\"payeeFsp\":\"payeefsp\",\
    \"amount\":{\"currency\":\"USD\",\"amount\":\"1\"},\"ilpPacket\":\"AYIBgQAAAAAAAASw\",\
    \"condition\":\"BeZFGxq2RPkY0IpxxIBaJSnr7jhPs8hPedGCgk16Uzc\",\
    \"expiration\":\"2099-01-01T00:00:00.000Z\",\"unknown\":[1,2.50,null]}";

/// One I/O thread and its node. `payerfsp` and `payeefsp` are participants.
struct Hub {
    parts: IoThread,
    handle: Handle<ForwardedMessage>,
}

/// Runs a test against a hub of its own.
fn play(test: impl AsyncFnOnce(&Hub)) {
    let clock = SystemClock::new();
    let mail = Arc::new(Notify::new());
    let waking = Arc::clone(&mail);
    let mailbox = Arc::new(Mailbox::new(move || waking.notify_one()));
    let node = start(clock, &mailbox);
    let handle = node.handle();
    onboard(&handle);
    let (queues, _) = LentQueues::new(&[Arc::clone(&mail)], 1, 100);
    let seat = IoThreadParams {
        number: 0,
        clock,
        started: clock.now().wall,
        mailbox,
        mail,
        counters: Arc::default(),
        measurements: Arc::new(Measurements::new(true)),
        shown: Arc::default(),
        breakers: Arc::default(),
        oracles: Arc::default(),
        seed: 1,
        queues,
        meter: Arc::default(),
    };
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(LocalOptions::default()).expect("a runtime");
    let parts_handle = handle.clone();
    runtime.block_on(async move {
        let parts = IoThread::new(seat, parts_handle.clone(), IoThreadOptions::default());
        driver::spawn(&parts.driver, parts.lanes());
        test(&Hub { parts, handle: parts_handle }).await;
    });
    drop(runtime);
    node.stop().expect("it stops in order");
}

fn start(clock: SystemClock, mailbox: &Arc<Mailbox<ForwardedMessage>>) -> Node<ForwardedMessage> {
    let options = journal::LogOptions { room_bytes: 0, ..journal::LogOptions::default() };
    let opened = FileLog::open_or_create(MemoryDisk::new(1), LogIdentity([9; 16]), options);
    let log = TracedLog::new(opened.expect("a new disk").0, Arc::new(LatencyTrace::new(1)));
    let mut sequencer = Sequencer::open(log, 0, clock.now(), &mut |_| ()).expect("an empty log");
    let genesis = Command::Genesis(Genesis { seed: [1; 16], hub: name("Hub") });
    let genesis = Submission::without_payload(genesis, Durability::Synced, ());
    let mut waiting = VecDeque::from([genesis.expect("it fits a record")]);
    sequencer.commit(&mut waiting, &mut Vec::new(), clock.now()).expect("there is room");
    let (directory, mailboxes) = (node::Directory::default(), vec![Arc::clone(mailbox)]);
    node::start(sequencer, clock, directory, mailboxes, InboxLimits::default()).expect("a thread")
}

fn onboard(handle: &Handle<ForwardedMessage>) {
    let currency = Currency::parse("USD").expect("a currency");
    let account = |kind| Change::CreateHubAccount(CreateHubAccount { currency, kind });
    let participant =
        |text| Change::CreateParticipant(CreateParticipant { name: name(text), currency });
    for change in [
        account(AccountKind::HubReconciliation),
        account(AccountKind::HubMultilateralSettlement),
        participant("payerfsp"),
        participant("payeefsp"),
    ] {
        let (answer, answered) = mpsc::sync_channel(1);
        let call = Box::new(move |result| answer.send(result).expect("the test waits"));
        let command = Administer { actor: "test".into(), reason: String::new(), change };
        let command = Command::Administer(Box::new(command));
        let attached = SubmissionContext { ticket: ReplyTo::Call(call), message: None };
        let submission = Submission::without_payload(command, Durability::Synced, attached);
        handle.submit(&mut vec![submission.expect("it fits")]).expect("there is room");
        let decided = answered.recv().expect("an answer");
        assert_eq!(decided.map(|reply| reply.outcome), Ok(Outcome::Accepted));
    }
}

fn name(text: &str) -> FspName {
    FspName::new(text).expect("a name")
}

impl Hub {
    /// Writes all to a connection, ends that half, and reads to the end.
    async fn converse(&self, bytes: &[u8]) -> Vec<String> {
        lines(&self.exchange(bytes).await)
    }

    /// The same, and returns the received bytes.
    async fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let (client, hub) = duplex(PIPE);
        let server = &self.parts.server;
        let place = server.connections.admit(CLIENT).expect("a place");
        let serving = spawn_local(server::serve_connection(Rc::clone(server), hub, place));
        let (mut reading, mut writing) = split(client);
        let write = async {
            // The hub may close before it has read everything.
            let _written = writing.write_all(bytes).await;
            let _closed = writing.shutdown().await;
        };
        let mut answers = Vec::new();
        let (_, read) = tokio::join!(write, reading.read_to_end(&mut answers));
        read.expect("whole answers");
        serving.await.expect("no panic");
        answers
    }

    /// How many records the log has.
    fn records(&self) -> u64 {
        let (answer, answered) = mpsc::sync_channel(1);
        let ask = move |state: &ledger::State| answer.send(state.log_index().0).expect("it waits");
        self.handle.ask(ask).expect("there is room");
        answered.recv().expect("an answer")
    }
}

/// Status and code of each answer: `400 3101`, or the status alone.
fn lines(mut bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let length = head.to_lowercase().split_once("content-length: ").map_or(0, |(_, rest)| {
            rest.split("\r\n").next().expect("a line").parse().expect("a length")
        });
        let body = String::from_utf8(bytes[end..end + length].to_vec()).expect("text");
        bytes = &bytes[end + length..];
        let status = head.split(' ').nth(1).expect("a status").to_owned();
        let code = body.split_once("\"errorCode\":\"").map(|(_, rest)| &rest[..4]);
        lines.push(
            [Some(status.as_str()), code].into_iter().flatten().collect::<Vec<_>>().join(" "),
        );
        for inside in ["panic", ".rs", "src/", "thread", "unwrap", "serde", "hyper", "0x"] {
            assert!(!body.contains(inside), "it speaks of {inside}: {body}");
        }
    }
    lines
}

/// A good prepare on the wire.
fn prepare() -> Vec<u8> {
    request("POST /transfers", BODY)
}

/// A good prepare with one text of it replaced.
fn edited(from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(prepare()).expect("text");
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

/// A request of `payerfsp` with the headers of a careful participant.
fn request(call: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let (body, path) = (body.as_ref(), call.split(' ').nth(1).expect("a path"));
    let resource = path.split('/').nth(1).expect("a resource");
    let media = format!("application/vnd.interoperability.{resource}+json;version=1.1");
    let head = format!(
        "{call} HTTP/1.1\r\nhost: hub\r\naccept: {media}\r\ncontent-type: {media}\r\n\
         date: Tue, 15 Nov 1994 08:12:31 GMT\r\nfspiop-source: payerfsp\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
