//! Whatever way the bundles of several nodes arrive in a topic (mixed, repeated, lost, late, at
//! times that jump), and wherever nodes stop and begin anew: all make the same frames of it.

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

/// Numbers that look random, the same for the same seed.
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
    /// Messages of the topic that it has taken.
    next: usize,
    /// On the way to the topic.
    outgoing: VecDeque<Vec<u8>>,
    instance: u64,
}

/// A topic and its nodes.
struct World {
    random: Random,
    topic: Vec<Message>,
    /// The brokers' clock.
    now: u64,
    nodes: Vec<Node>,
    /// Everything ever sent, to come again.
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
        let found = found.expect("what the copy ends with is in the topic");
        let bundle = Bundle::parse(&topic[found].bytes).expect("it was just read");
        let BundleHeader { node, wall, .. } = bundle.header;
        next = found + 1;
        last = Some(LastMessage { at: topic[found].at, node, wall });
    }
    (fixture::replica(copy, (number, instance), last), next)
}

fn founding(node: u32) -> Vec<u8> {
    let genesis = Genesis { seed: [node as u8; 16], hub: name("Hub") };
    GenesisMessage { identity: IDENTITY, genesis, node, wall: Stamp(100 * SECOND) }
        .bundle("founder")
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: Random(seed | 1 << 40),
            topic: Vec::new(),
            now: 100 * SECOND,
            nodes: Vec::new(),
            sent: Vec::new(),
        };
        // Two nodes begin the log, and one of them was quicker.
        world.arrive(founding(1));
        world.arrive(founding(2));
        for number in 1..=NODES as u32 {
            let disk = MemoryDisk::new(u64::from(number));
            let node = world.node(number, disk);
            world.nodes.push(node);
        }
        (0..NODES).for_each(|at| world.begin(at));
        world
    }

    fn node(&mut self, number: u32, disk: MemoryDisk) -> Node {
        let instance = self.random.below(u64::MAX);
        let (replica, next) = replica(&disk, number, instance, &self.topic);
        Node { number, disk, replica, next, outgoing: VecDeque::new(), instance }
    }

    /// Reads what there is, and begins a life.
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
            node.replica.deliver(&bundle, message.at).expect("nobody differs");
        }
    }

    fn propose(&mut self, at: usize) {
        let count = 1 + self.random.below(3);
        let mut commands = vec![Command::Tick; count as usize];
        if self.random.below(4) == 0 {
            commands.push(deactivate(self.random.below(30)));
        }
        // The clocks of nodes differ, and one of them by much now and then.
        let wrong = if self.random.below(40) == 0 { 600 * SECOND } else { 0 };
        let wall = Stamp(self.now + wrong + self.random.below(SECOND / 2));
        let mut bytes = Vec::new();
        let node = &mut self.nodes[at];
        node.replica.propose(&mut submissions(commands), &mut Vec::new(), wall, &mut bytes);
        node.outgoing.push_back(bytes);
    }

    /// A node proposes, and what it sent next is taken from its way.
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

    /// What a node sent next arrives, twice perhaps, or never.
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

    /// A node stops and begins anew: from its copy, or from nothing. What it sent may be on its
    /// way still.
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

    /// A node says its last word, which may arrive before what it said, and begins anew.
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
            95 => self.arrive(b"somebody else's".to_vec()),
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
        let mut world = World::new(seed);
        (0..600).for_each(|_| world.step());
        world.take_all();
        let first = &world.nodes[0].replica;
        assert!(100 < first.sequencer().state().log_index().0, "seed {seed}: little happened");
        let (tail, hash) = (first.sequencer().log().tail(), first.sequencer().state().hash());
        let there: Vec<_> = first.members().iter().map(|(node, one)| (node, one.epoch)).collect();
        for node in &world.nodes[1..] {
            let replica = &node.replica;
            assert_eq!(replica.sequencer().log().tail(), tail, "seed {seed}");
            assert_eq!(replica.sequencer().state().hash(), hash, "seed {seed}");
            let members = replica.members().iter();
            let members: Vec<_> = members.map(|(node, one)| (node, one.epoch)).collect();
            assert_eq!(members, there, "seed {seed}");
            assert_eq!(replica.held_us(), world.nodes[0].replica.held_us(), "seed {seed}");
        }
    }
}

/// Everybody knows at once that a node has left, and nothing of that life comes behind it.
#[test]
fn a_last_word_is_the_last() {
    let mut world = World::new(1);
    (0..NODES).for_each(|at| world.propose(at));
    (0..NODES).for_each(|at| {
        let bytes = world.sent_by(at);
        world.arrive(bytes);
    });
    let late = world.proposed(0);
    let mut last = Vec::new();
    let wall = Stamp(world.now);
    world.nodes[0].replica.propose_leave(wall, &mut last);
    world.arrive(last);
    world.take_all();
    for node in &mut world.nodes {
        let there: Vec<_> = node.replica.members().iter().map(|(number, _)| number).collect();
        assert_eq!(there, [2, 3]);
        let bundle = Bundle::parse(&late).expect("it is a bundle");
        let delivered = node.replica.deliver(&bundle, Stamp(world.now)).expect("it goes on");
        assert_eq!(delivered, AppliedMessage::Rejected(RejectedMessage::Repeat));
    }
    world.begin(0);
    let bytes = world.proposed(0);
    world.arrive(bytes);
    world.take_all();
    let member = world.nodes[1].replica.members().get(1).copied().expect("it is there");
    assert_eq!((member.epoch, member.replaced), (3, None), "no former life is waited for");
}

#[test]
fn what_is_no_part_of_the_log_is_passed_over() {
    let mut world = World::new(1);
    let bytes = world.proposed(0);
    let mut said = Vec::new();
    let replica = &mut world.nodes[1].replica;
    for (bytes, name) in [(&bytes, "first"), (&bytes, "again"), (&founding(3), "founding")] {
        let bundle = Bundle::parse(bytes).expect("it is a bundle");
        let delivered = replica.deliver(&bundle, Stamp(200 * SECOND)).expect("it goes on");
        said.push((name, matches!(delivered, AppliedMessage::Applied { .. }), delivered));
    }
    assert!(said[0].1, "{said:?}");
    assert_eq!(said[1].2, AppliedMessage::Rejected(RejectedMessage::Repeat));
    assert_eq!(said[2].2, AppliedMessage::Rejected(RejectedMessage::OutOfPlace));
    let mut strange = Bundle::parse(&bytes).expect("it is a bundle");
    strange.header.identity = LogIdentity([8; 16]);
    let delivered = replica.deliver(&strange, Stamp(200 * SECOND)).expect("it goes on");
    assert_eq!(delivered, AppliedMessage::Rejected(RejectedMessage::AnotherLog));
    // Another node meant to begin the log, and came too late: it is no stranger.
    let late = founding(3);
    let mut late = Bundle::parse(&late).expect("it is a bundle");
    late.header.identity = LogIdentity([8; 16]);
    let delivered = replica.deliver(&late, Stamp(200 * SECOND)).expect("it goes on");
    assert_eq!(delivered, AppliedMessage::Rejected(RejectedMessage::OutOfPlace));
}

/// Of three nodes the one that has decided otherwise stops, and says where; the others go on.
#[test]
fn a_node_that_decided_otherwise_stops() {
    let mut world = World::new(1);
    for at in 0..NODES {
        let bytes = world.proposed(at);
        world.arrive(bytes);
    }
    world.take_all();
    let from = [0, 1, 2].map(|at| world.proposed(at));
    let lie = |bytes: &[u8]| {
        let mut bundle = Bundle::parse(bytes).expect("it is a bundle");
        bundle.header.claim.digest.0[0] ^= 1;
        let mut out = Vec::new();
        bundle::write(&bundle.header, bundle.count, bundle.records, &mut out);
        out
    };
    let log_index = world.nodes[0].replica.sequencer().state().log_index();
    // To the first node the second one differs: it is one of three.
    let (second, third) = (lie(&from[1]), lie(&from[2]));
    let deliver = |world: &mut World, bytes: &[u8]| {
        let bundle = Bundle::parse(bytes).expect("it is a bundle");
        world.nodes[0].replica.deliver(&bundle, Stamp(200 * SECOND)).map(|_| ())
    };
    deliver(&mut world, &second).expect("one of three does not stop it");
    let against: Vec<_> = world.nodes[0].replica.contradicting().collect();
    assert_eq!(against, [(2, log_index)]);
    // And so does the third: it is this one that differs.
    match deliver(&mut world, &third) {
        Err(ReplicaError::Diverged { log_index: at, others }) => {
            assert_eq!((at, &*others), (log_index, "node-2, node-3"));
        }
        other => panic!("{other:?}"),
    }
}

/// All nodes write until a minute of the log begins: the states that they set aside then.
fn next_minute(world: &mut World) -> Vec<(LogIndex, Digest)> {
    let mut states = Vec::new();
    while states.is_empty() {
        world.now += 2 * SECOND;
        for at in 0..NODES {
            let bytes = world.proposed(at);
            world.arrive(bytes);
        }
        for at in (0..NODES).flat_map(|at| [at; NODES]) {
            world.take(at, 1);
            let state = world.nodes[at].replica.state_to_compare();
            states.extend(state.map(|state| (state.log_index(), state.hash())));
        }
    }
    states
}

/// Once a minute all nodes compare their whole states, in whatever order they are known; of three
/// the one that has another stops.
#[test]
fn a_node_with_another_state_stops() {
    let mut world = World::new(1);
    let states = next_minute(&mut world);
    assert_eq!(states, [states[0]; NODES], "the same record, and the same state");
    let own = |world: &mut World, at: usize, state| {
        world.nodes[at].replica.note_state(state).expect("nobody differs")
    };
    let [first, second, third] = [0, 1, 2].map(|at| own(&mut world, at, states[at]));
    let replica = &mut world.nodes[0].replica;
    assert_eq!(replica.agreed(), None);
    for stated in [&first, &second, &third] {
        replica.receive_attestation(stated).expect("nobody differs");
    }
    assert_eq!(replica.agreed(), Some(states[0].0));

    let (log_index, hash) = next_minute(&mut world)[0];
    let lie = |stated: &StateAttestation| StateAttestation {
        log_index,
        hash: Digest([9; 32]),
        ..*stated
    };
    // To the second node the first one differs, once it knows its own state: it is one of three.
    let replica = &mut world.nodes[1].replica;
    replica.receive_attestation(&lie(&first)).expect("there is nothing to hold it against");
    assert_eq!(replica.contradicting().next(), None);
    own(&mut world, 1, (log_index, hash));
    let against =
        |world: &World, at: usize| -> Vec<_> { world.nodes[at].replica.contradicting().collect() };
    assert_eq!(against(&world, 1), [(1, log_index)]);
    // To the first one both others do: it is this one that differs.
    own(&mut world, 0, (log_index, hash));
    let replica = &mut world.nodes[0].replica;
    replica.receive_attestation(&lie(&second)).expect("one of three does not stop it");
    match replica.receive_attestation(&lie(&third)) {
        Err(ReplicaError::Diverged { log_index: at, others }) => {
            assert_eq!((at, &*others), (log_index, "node-2, node-3"));
        }
        other => panic!("{other:?}"),
    }

    let (log_index, hash) = next_minute(&mut world)[0];
    own(&mut world, 1, (log_index, hash));
    let replica = &mut world.nodes[1].replica;
    replica
        .receive_attestation(&StateAttestation { log_index, hash, ..first })
        .expect("nobody differs");
    assert_eq!(against(&world, 1), [], "it has the same again");
}

#[test]
fn of_two_lives_that_begin_at_once_one_is_passed_over() {
    let mut world = World::new(1);
    let twin = MemoryDisk::new(5);
    let mut twin = world.node(1, twin);
    std::mem::swap(&mut world.nodes[1], &mut twin);
    world.begin(1);
    assert_ne!(world.nodes[0].instance, world.nodes[1].instance);
    for at in [0, 1] {
        world.propose(at);
    }
    let [first, second] = [0, 1].map(|at| world.sent_by(at));
    let replica = &mut world.nodes[1].replica;
    let mut deliver = |bytes: &[u8]| {
        let bundle = Bundle::parse(bytes).expect("it is a bundle");
        replica.deliver(&bundle, Stamp(200 * SECOND)).expect("it goes on")
    };
    assert!(matches!(deliver(&first), AppliedMessage::Applied { .. }));
    assert_eq!(deliver(&second), AppliedMessage::Rejected(RejectedMessage::Repeat));
    replica.begin_epoch();
    let third = world.proposed(1);
    let bundle = Bundle::parse(&third).expect("it is a bundle");
    assert_eq!(bundle.header.epoch, 3);
}
