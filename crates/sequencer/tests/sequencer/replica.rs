//! Bundles of several nodes arrive in a topic mixed, repeated, lost, late and at times that jump,
//! and nodes stop and restart. All nodes make the same frames.

use std::collections::VecDeque;

use journal::MemoryDisk;
use ledger::{Command, Digest, Genesis, LogIndex, Stamp};
use ports::Log;
use record::bundle::{self, Bundle, BundleHeader};
use record::frame::LogIdentity;
use record::topic_message::StateAttestation;
use sequencer::{
    AppliedMessage, GenesisMessage, LastMessage, RejectedMessage, Replica, ReplicaError,
};

use crate::fixture::{self, Copy, IDENTITY, SECOND, deactivate, name, open_log, submissions};

const NODES: usize = 3;

/// Pseudo-random numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

struct Message {
    at: Stamp,
    bytes: Vec<u8>,
}

struct Node {
    number: u32,
    disk: MemoryDisk,
    replica: Replica<Copy>,
    /// Messages of the topic that it has applied.
    next: usize,
    /// Bundles on the way to the topic.
    outgoing: VecDeque<Vec<u8>>,
    instance: u64,
}

/// A topic and its nodes.
struct TestCluster {
    random: Random,
    topic: Vec<Message>,
    /// The brokers' clock.
    now: u64,
    nodes: Vec<Node>,
    /// Everything ever sent, to be repeated.
    sent: Vec<Vec<u8>>,
}

fn replica(
    disk: &MemoryDisk,
    number: u32,
    instance: u64,
    topic: &[Message],
) -> (Replica<Copy>, usize) {
    let mut copy = open_log(disk).into_copy();
    let (mut next, mut last) = (0, None);
    let mut header = None;
    let end = copy.tail().end;
    copy.replay(end, &mut |frame| {
        header = Some(*frame.header());
        Ok(())
    })
    .expect("it reads");
    if let Some(header) = header {
        let found = topic.iter().position(|message| {
            Bundle::parse(&message.bytes).is_ok_and(|bundle| {
                let BundleHeader { node, epoch, sequence, .. } = bundle.header;
                let batch = header.batch;
                (node, epoch, sequence) == (batch.node, batch.epoch, batch.sequence)
            })
        });
        let found = found.expect("the last bundle of the copy is in the topic");
        let bundle = Bundle::parse(&topic[found].bytes).expect("it was just read");
        let BundleHeader { node, wall, .. } = bundle.header;
        next = found + 1;
        last = Some(LastMessage { at: topic[found].at, node, wall });
    }
    (fixture::replica(copy, (number, instance), last), next)
}

fn genesis_bundle(node: u32) -> Vec<u8> {
    let genesis = Genesis { seed: [node as u8; 16], hub: name("Hub") };
    GenesisMessage { identity: IDENTITY, genesis, node, wall: Stamp(100 * SECOND) }
        .bundle("founder")
}

impl TestCluster {
    fn new(seed: u64) -> Self {
        let mut cluster = Self {
            random: Random(seed | 1 << 40),
            topic: Vec::new(),
            now: 100 * SECOND,
            nodes: Vec::new(),
            sent: Vec::new(),
        };
        // Two nodes create the log; the first message wins.
        cluster.arrive(genesis_bundle(1));
        cluster.arrive(genesis_bundle(2));
        for number in 1..=NODES as u32 {
            let disk = MemoryDisk::new(u64::from(number));
            let node = cluster.node(number, disk);
            cluster.nodes.push(node);
        }
        (0..NODES).for_each(|at| cluster.begin(at));
        cluster
    }

    fn node(&mut self, number: u32, disk: MemoryDisk) -> Node {
        let instance = self.random.below(u64::MAX);
        let (replica, next) = replica(&disk, number, instance, &self.topic);
        Node { number, disk, replica, next, outgoing: VecDeque::new(), instance }
    }

    /// Applies the whole topic and begins an epoch.
    fn begin(&mut self, at: usize) {
        self.take(at, usize::MAX);
        self.nodes[at].replica.begin_epoch();
    }

    fn arrive(&mut self, bytes: Vec<u8>) {
        self.topic.push(Message { at: Stamp(self.now / 1_000 * 1_000), bytes });
    }

    fn take(&mut self, at: usize, count: usize) {
        let node = &mut self.nodes[at];
        for message in self.topic.iter().skip(node.next).take(count) {
            node.next += 1;
            let Ok(bundle) = Bundle::parse(&message.bytes) else { continue };
            node.replica.deliver(&bundle, message.at).expect("all agree");
        }
    }

    fn propose(&mut self, at: usize) {
        let count = 1 + self.random.below(3);
        let mut commands = vec![Command::Tick; count as usize];
        if self.random.below(4) == 0 {
            commands.push(deactivate(self.random.below(30)));
        }
        // The clocks of the nodes differ, now and then by much.
        let wrong = if self.random.below(40) == 0 { 600 * SECOND } else { 0 };
        let wall = Stamp(self.now + wrong + self.random.below(SECOND / 2));
        let mut bytes = Vec::new();
        let node = &mut self.nodes[at];
        node.replica.propose(&mut submissions(commands), &mut Vec::new(), wall, &mut bytes);
        node.outgoing.push_back(bytes);
    }

    /// Lets a node propose, and returns its next bundle instead of sending it.
    fn proposed(&mut self, at: usize) -> Vec<u8> {
        self.propose(at);
        self.sent_by(at)
    }

    fn sent_by(&mut self, at: usize) -> Vec<u8> {
        self.nodes[at].outgoing.pop_front().expect("it proposed")
    }

    fn take_all(&mut self) {
        (0..NODES).for_each(|at| self.take(at, usize::MAX));
    }

    /// The next bundle of a node arrives, perhaps twice, or is lost.
    fn deliver(&mut self, at: usize) {
        let Some(bytes) = self.nodes[at].outgoing.pop_front() else { return };
        match self.random.below(20) {
            0 => {}
            1 => {
                self.arrive(bytes.clone());
                self.arrive(bytes);
            }
            _ => {
                self.sent.push(bytes.clone());
                self.arrive(bytes);
            }
        }
    }

    /// Restarts a node from its copy, or without data. Its bundles may still be on the way.
    fn restart(&mut self, at: usize) {
        let disk = match self.random.below(3) {
            0 => MemoryDisk::new(99),
            _ => self.nodes[at].disk.clone(),
        };
        let number = self.nodes[at].number;
        let late = std::mem::take(&mut self.nodes[at].outgoing);
        let keep = self.random.below(2) == 0;
        let node = self.node(number, disk);
        self.nodes[at] = node;
        self.begin(at);
        if keep {
            late.into_iter().for_each(|bytes| self.arrive(bytes));
        }
    }

    /// Lets a node leave, in a bundle that may overtake earlier ones, and restarts it.
    fn leave(&mut self, at: usize) {
        let mut bytes = Vec::new();
        let wall = Stamp(self.now);
        self.nodes[at].replica.propose_leave(wall, &mut bytes);
        self.sent.push(bytes.clone());
        self.arrive(bytes);
        self.restart(at);
    }

    fn step(&mut self) {
        self.now += self.random.below(SECOND / 5);
        let at = self.random.below(NODES as u64) as usize;
        match self.random.below(100) {
            0..35 => self.propose(at),
            35..65 => self.deliver(at),
            65..90 => {
                let count = self.random.below(5) as usize;
                self.take(at, count);
            }
            90..93 => self.restart(at),
            93..95 if !self.sent.is_empty() => {
                let which = self.random.below(self.sent.len() as u64) as usize;
                let bytes = self.sent[which].clone();
                self.arrive(bytes);
            }
            95 => self.arrive(b"a foreign message".to_vec()),
            96 => self.now += 20 * SECOND,
            97 => self.now -= SECOND,
            98 => self.leave(at),
            _ => {}
        }
    }
}

#[test]
fn every_node_makes_the_same_frames() {
    for seed in 1..=60 {
        let mut cluster = TestCluster::new(seed);
        (0..600).for_each(|_| cluster.step());
        cluster.take_all();
        let first = &cluster.nodes[0].replica;
        assert!(100 < first.sequencer().state().log_index().0, "seed {seed}: little happened");
        let (tail, hash) = (first.sequencer().log().tail(), first.sequencer().state().hash());
        let live: Vec<_> = first.members().iter().map(|(node, one)| (node, one.epoch)).collect();
        for node in &cluster.nodes[1..] {
            let replica = &node.replica;
            assert_eq!(replica.sequencer().log().tail(), tail, "seed {seed}");
            assert_eq!(replica.sequencer().state().hash(), hash, "seed {seed}");
            let members = replica.members().iter();
            let members: Vec<_> = members.map(|(node, one)| (node, one.epoch)).collect();
            assert_eq!(members, live, "seed {seed}");
            assert_eq!(replica.held_us(), cluster.nodes[0].replica.held_us(), "seed {seed}");
        }
    }
}

/// All nodes know at once that a node has left, and nothing of that epoch follows.
#[test]
fn a_leave_is_the_last_bundle_of_its_epoch() {
    let mut cluster = TestCluster::new(1);
    (0..NODES).for_each(|at| cluster.propose(at));
    (0..NODES).for_each(|at| {
        let bytes = cluster.sent_by(at);
        cluster.arrive(bytes);
    });
    let late = cluster.proposed(0);
    let mut last = Vec::new();
    let wall = Stamp(cluster.now);
    cluster.nodes[0].replica.propose_leave(wall, &mut last);
    cluster.arrive(last);
    cluster.take_all();
    for node in &mut cluster.nodes {
        let live: Vec<_> = node.replica.members().iter().map(|(number, _)| number).collect();
        assert_eq!(live, [2, 3]);
        let bundle = Bundle::parse(&late).expect("it is a bundle");
        let delivered = node.replica.deliver(&bundle, Stamp(cluster.now)).expect("it continues");
        assert_eq!(delivered, AppliedMessage::Rejected(RejectedMessage::Repeat));
    }
    cluster.begin(0);
    let bytes = cluster.proposed(0);
    cluster.arrive(bytes);
    cluster.take_all();
    let member = cluster.nodes[1].replica.members().get(1).copied().expect("it is there");
    assert_eq!((member.epoch, member.replaced), (3, None), "no earlier epoch delays it");
}

#[test]
fn foreign_and_late_messages_are_rejected() {
    let mut cluster = TestCluster::new(1);
    let bytes = cluster.proposed(0);
    let mut results = Vec::new();
    let replica = &mut cluster.nodes[1].replica;
    for (bytes, name) in [(&bytes, "first"), (&bytes, "again"), (&genesis_bundle(3), "genesis")] {
        let bundle = Bundle::parse(bytes).expect("it is a bundle");
        let delivered = replica.deliver(&bundle, Stamp(200 * SECOND)).expect("it continues");
        results.push((name, matches!(delivered, AppliedMessage::Applied { .. }), delivered));
    }
    assert!(results[0].1, "{results:?}");
    assert_eq!(results[1].2, AppliedMessage::Rejected(RejectedMessage::Repeat));
    assert_eq!(results[2].2, AppliedMessage::Rejected(RejectedMessage::OutOfPlace));
    let mut strange = Bundle::parse(&bytes).expect("it is a bundle");
    strange.header.identity = LogIdentity([8; 16]);
    let delivered = replica.deliver(&strange, Stamp(200 * SECOND)).expect("it continues");
    assert_eq!(delivered, AppliedMessage::Rejected(RejectedMessage::AnotherLog));
    // A node that tried to create the log and came too late is not foreign.
    let late = genesis_bundle(3);
    let mut late = Bundle::parse(&late).expect("it is a bundle");
    late.header.identity = LogIdentity([8; 16]);
    let delivered = replica.deliver(&late, Stamp(200 * SECOND)).expect("it continues");
    assert_eq!(delivered, AppliedMessage::Rejected(RejectedMessage::OutOfPlace));
}

/// Of three nodes, the one that decided differently stops with the record; the others continue.
#[test]
fn a_node_that_decided_differently_stops() {
    let mut cluster = TestCluster::new(1);
    for at in 0..NODES {
        let bytes = cluster.proposed(at);
        cluster.arrive(bytes);
    }
    cluster.take_all();
    let from = [0, 1, 2].map(|at| cluster.proposed(at));
    let alter_claim = |bytes: &[u8]| {
        let mut bundle = Bundle::parse(bytes).expect("it is a bundle");
        bundle.header.claim.digest.0[0] ^= 1;
        let mut out = Vec::new();
        bundle::write(&bundle.header, bundle.count, bundle.records, &mut out);
        out
    };
    let log_index = cluster.nodes[0].replica.sequencer().state().log_index();
    // The first node sees one of three contradict it.
    let (second, third) = (alter_claim(&from[1]), alter_claim(&from[2]));
    let deliver = |cluster: &mut TestCluster, bytes: &[u8]| {
        let bundle = Bundle::parse(bytes).expect("it is a bundle");
        cluster.nodes[0].replica.deliver(&bundle, Stamp(200 * SECOND)).map(|_| ())
    };
    deliver(&mut cluster, &second).expect("one of three does not stop it");
    let against: Vec<_> = cluster.nodes[0].replica.contradicting().collect();
    assert_eq!(against, [(2, log_index)]);
    // The third contradicts as well, so the first node is the one that differs.
    match deliver(&mut cluster, &third) {
        Err(ReplicaError::Diverged { log_index: at, others }) => {
            assert_eq!((at, &*others), (log_index, "node-2, node-3"));
        }
        other => panic!("{other:?}"),
    }
}

/// All nodes write until a minute of the log begins. Returns the states frozen then.
fn next_minute(cluster: &mut TestCluster) -> Vec<(LogIndex, Digest)> {
    let mut states = Vec::new();
    while states.is_empty() {
        cluster.now += 2 * SECOND;
        for at in 0..NODES {
            let bytes = cluster.proposed(at);
            cluster.arrive(bytes);
        }
        for at in (0..NODES).flat_map(|at| [at; NODES]) {
            cluster.take(at, 1);
            let state = cluster.nodes[at].replica.state_to_compare();
            states.extend(state.map(|state| (state.log_index(), state.hash())));
        }
    }
    states
}

/// Once a minute all nodes compare their states, in any order of arrival. Of three nodes, the one
/// with another state stops.
#[test]
fn a_node_with_another_state_stops() {
    let mut cluster = TestCluster::new(1);
    let states = next_minute(&mut cluster);
    assert_eq!(states, [states[0]; NODES], "the same record, and the same state");
    let own = |cluster: &mut TestCluster, at: usize, state| {
        cluster.nodes[at].replica.note_state(state).expect("all agree")
    };
    let [first, second, third] = [0, 1, 2].map(|at| own(&mut cluster, at, states[at]));
    let replica = &mut cluster.nodes[0].replica;
    assert_eq!(replica.agreed(), None);
    for stated in [&first, &second, &third] {
        replica.receive_attestation(stated).expect("all agree");
    }
    assert_eq!(replica.agreed(), Some(states[0].0));

    let (log_index, hash) = next_minute(&mut cluster)[0];
    let alter_hash = |stated: &StateAttestation| StateAttestation {
        log_index,
        hash: Digest([9; 32]),
        ..*stated
    };
    // The second node sees that the first one differs, once it knows its own state.
    let replica = &mut cluster.nodes[1].replica;
    replica.receive_attestation(&alter_hash(&first)).expect("its own state is unknown");
    assert_eq!(replica.contradicting().next(), None);
    own(&mut cluster, 1, (log_index, hash));
    let against = |cluster: &TestCluster, at: usize| -> Vec<_> {
        cluster.nodes[at].replica.contradicting().collect()
    };
    assert_eq!(against(&cluster, 1), [(1, log_index)]);
    // The first node sees both others differ, so it is the one that differs.
    own(&mut cluster, 0, (log_index, hash));
    let replica = &mut cluster.nodes[0].replica;
    replica.receive_attestation(&alter_hash(&second)).expect("one of three does not stop it");
    match replica.receive_attestation(&alter_hash(&third)) {
        Err(ReplicaError::Diverged { log_index: at, others }) => {
            assert_eq!((at, &*others), (log_index, "node-2, node-3"));
        }
        other => panic!("{other:?}"),
    }

    let (log_index, hash) = next_minute(&mut cluster)[0];
    own(&mut cluster, 1, (log_index, hash));
    let replica = &mut cluster.nodes[1].replica;
    replica.receive_attestation(&StateAttestation { log_index, hash, ..first }).expect("all agree");
    assert_eq!(against(&cluster, 1), [], "the states are equal again");
}

#[test]
fn one_of_two_processes_with_the_same_name_is_rejected() {
    let mut cluster = TestCluster::new(1);
    let twin = MemoryDisk::new(5);
    let mut twin = cluster.node(1, twin);
    std::mem::swap(&mut cluster.nodes[1], &mut twin);
    cluster.begin(1);
    assert_ne!(cluster.nodes[0].instance, cluster.nodes[1].instance);
    for at in [0, 1] {
        cluster.propose(at);
    }
    let [first, second] = [0, 1].map(|at| cluster.sent_by(at));
    let replica = &mut cluster.nodes[1].replica;
    let mut deliver = |bytes: &[u8]| {
        let bundle = Bundle::parse(bytes).expect("it is a bundle");
        replica.deliver(&bundle, Stamp(200 * SECOND)).expect("it continues")
    };
    assert!(matches!(deliver(&first), AppliedMessage::Applied { .. }));
    assert_eq!(deliver(&second), AppliedMessage::Rejected(RejectedMessage::Repeat));
    replica.begin_epoch();
    let third = cluster.proposed(1);
    let bundle = Bundle::parse(&third).expect("it is a bundle");
    assert_eq!(bundle.header.epoch, 3);
}
