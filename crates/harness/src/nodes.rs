//! Several nodes that share one log over brokers, all started for a run, and what is done to them.
//!
//! The nodes are called a, b, c and so on. Nothing goes wrong with node a, for the harness asks it;
//! a node is killed or paused that sends to participants, and the last one is cut off. An upgrade
//! goes through all of them, a at last. Everything is ended and, but for a directory that was
//! named, deleted when this is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kafka_testkit::Cluster;
use rustix::process::Signal;
use serde::Deserialize;

use crate::admin::Admin;
use crate::error::HarnessError;
use crate::faults::{Act, Fault, Turn};
use crate::netns::Network;
use crate::proc_stats::{ProcessFigures, process_figures};
use crate::replica_check::ReplicaCopy;
use crate::switch_process::{SwitchCommand, SwitchProcess, free_addresses};

/// The topic that the nodes share.
const TOPIC: &str = "upesi";
const POLL: Duration = Duration::from_millis(20);
/// Longest wait for all nodes to know of each other.
const JOINED_WITHIN: Duration = Duration::from_secs(30);
/// Replicas that a topic is given where there are brokers enough.
const REPLICAS_MAX: u32 = 3;

/// How many of what, and what goes wrong.
#[derive(Clone, Debug)]
pub struct NodesPlan {
    pub nodes: u32,
    pub brokers: u32,
    pub acts: Vec<Act>,
    /// The program that upgraded nodes start as.
    pub next: Option<PathBuf>,
}

/// Something that was done.
#[derive(Clone, Debug)]
pub struct ExecutedFault {
    pub at: Instant,
    pub what: String,
    /// The fault that began with it.
    pub begins: Option<Fault>,
}

/// The nodes and their brokers.
pub struct Nodes {
    nodes: Vec<Node>,
    cluster: Cluster,
    network: Option<Network>,
    due: VecDeque<Act>,
    done: Vec<ExecutedFault>,
    /// The broker that was killed last.
    broker: u32,
    /// The node that was killed last.
    killed: usize,
    /// The node that was suspended last.
    paused: usize,
    /// The program that upgraded nodes start as, and the number of upgraded nodes.
    next: Option<PathBuf>,
    upgraded: usize,
    /// Resources used by processes that have ended.
    spent: Duration,
    /// The same of brokers.
    brokers_spent: Duration,
}

struct Node {
    name: String,
    data: PathBuf,
    command: SwitchCommand,
    addresses: [SocketAddr; 2],
    switch: Option<SwitchProcess>,
    /// Whether it has been started and does not serve yet.
    is_starting: bool,
}

#[derive(Deserialize)]
struct ClusterShown {
    nodes: Vec<serde::de::IgnoredAny>,
    lanes: Vec<LaneShown>,
}

#[derive(Deserialize)]
struct LaneShown {
    participant: String,
    node: String,
}

impl NodesPlan {
    /// The durability of an acknowledgement, in words.
    pub fn durability(&self) -> String {
        let (replicas, in_sync) = self.replicas();
        format!("acks=all, min ISR {in_sync} of {replicas}, brokers do not sync before they answer")
    }

    /// Replicas of the topic, and how many of them must have a record first.
    pub fn replicas(&self) -> (u32, u32) {
        let replicas = self.brokers.min(REPLICAS_MAX);
        (replicas, replicas / 2 + 1)
    }
}

impl Nodes {
    /// Starts brokers, then all nodes at once, and waits until they know of each other.
    pub fn start(
        plan: &NodesPlan,
        command: &SwitchCommand,
        data: &Path,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, HarnessError> {
        if std::fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some()) {
            let what = format!("--data {}: nodes begin with an empty directory", data.display());
            return Err(HarnessError::Options(what));
        }
        let is_cut = plan.acts.iter().any(|act| act.fault == Fault::Cut);
        let network = if is_cut { Some(Network::new()?) } else { None };
        let mut options = kafka_testkit::Options::new(plan.brokers, data.join("brokers"));
        options.listen = network.as_ref().map_or(options.listen, Network::brokers);
        let cluster = Cluster::start(options, say)?;
        let log = format!("kafka://{}/{TOPIC}", cluster.bootstrap());
        let mut nodes = Vec::new();
        for name in ('a'..).take(plan.nodes as usize) {
            nodes.push(Node::new(name, command, &log, data)?);
        }
        if let (Some(network), Some(last)) = (&network, nodes.last_mut()) {
            last.move_into(network);
        }
        let due = plan.acts.iter().copied().collect();
        let (done, spent) = (Vec::new(), Duration::ZERO);
        let mut all = Self {
            nodes,
            cluster,
            network,
            due,
            done,
            broker: 1,
            killed: 1,
            paused: 1,
            next: plan.next.clone(),
            upgraded: 0,
            spent,
            brokers_spent: spent,
        };
        say(&format!("starting {} nodes", plan.nodes));
        all.nodes.iter_mut().try_for_each(Node::begin)?;
        all.wait_until_joined()?;
        Ok(all)
    }

    /// Where participants send to: every node.
    pub fn fspiop(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.addresses[0]).collect()
    }

    /// The address that participants must listen on, if it matters.
    pub fn participants(&self) -> Option<IpAddr> {
        self.network.as_ref().map(Network::participants)
    }

    /// The admin API of the node that is never touched.
    pub fn admin(&self) -> Result<Admin, HarnessError> {
        self.nodes[0].admin()
    }

    /// The admin API of every node, by name.
    pub fn admins(&self) -> Result<Vec<(String, Admin)>, HarnessError> {
        self.nodes.iter().map(|node| Ok((node.name.clone(), node.admin()?))).collect()
    }

    /// The faults injected so far.
    pub fn done(&self) -> &[ExecutedFault] {
        &self.done
    }

    /// Resources used by the processes of all nodes so far.
    pub fn figures(&self) -> ProcessFigures {
        let mut sum = ProcessFigures { cpu: self.spent, ..ProcessFigures::default() };
        for figures in
            self.nodes.iter().filter_map(|node| node.switch.as_ref()).map(SwitchProcess::figures)
        {
            sum.cpu += figures.cpu;
            sum.resident_bytes_max = sum.resident_bytes_max.max(figures.resident_bytes_max);
            sum.resident_bytes = sum.resident_bytes.max(figures.resident_bytes);
            sum.reads += figures.reads;
            sum.writes += figures.writes;
            sum.switches_voluntary += figures.switches_voluntary;
            sum.switches_involuntary += figures.switches_involuntary;
        }
        sum
    }

    /// Processor time of the brokers, of those that were killed too.
    pub fn brokers_cpu(&self) -> Duration {
        let running = self.cluster.processes().map(|process| process_figures(process).cpu);
        self.brokers_spent + running.sum::<Duration>()
    }

    /// Fails when a node that should run has ended by itself.
    pub fn check_alive(&mut self) -> Result<(), HarnessError> {
        let mut running = self.nodes.iter_mut().filter_map(|node| node.switch.as_mut());
        running.try_for_each(SwitchProcess::check_alive)
    }

    /// Does what is due so long after the begin of the measured part, and notes who is back. Gives
    /// what there is to tell.
    pub fn disturb(&mut self, elapsed: Duration) -> Result<Vec<String>, HarnessError> {
        let before = self.done.len();
        while let Some(act) = self.due.pop_front_if(|act| act.at <= elapsed) {
            let at = Instant::now();
            let what = self.act(act)?;
            let begins = (act.turn == Turn::Break).then_some(act.fault);
            self.done.push(ExecutedFault { at, what, begins });
        }
        for node in self.nodes.iter_mut().filter(|node| node.is_starting) {
            let Some(switch) = &mut node.switch else { continue };
            if switch.is_healthy()? {
                node.is_starting = false;
                let what = format!(
                    "node {} serves again, {:.1} s after its start",
                    node.name,
                    switch.ready_after.as_secs_f64()
                );
                self.done.push(ExecutedFault { at: Instant::now(), what, begins: None });
            }
        }
        Ok(self.done[before..].iter().map(|done| done.what.clone()).collect())
    }

    /// Does what was still to come, so that all is whole again, and waits for who was started.
    pub fn mend(&mut self) -> Result<(), HarnessError> {
        self.due.retain(|act| act.turn == Turn::Mend);
        self.disturb(Duration::MAX)?;
        self.wait_until_joined()
    }

    /// Asks every node to stop, and gives what did not go in order.
    pub fn stop(&mut self) -> Vec<String> {
        let mut problems = Vec::new();
        for node in &mut self.nodes {
            let stopped = node.switch.take().map(SwitchProcess::stop);
            if let Some(Err(error)) = stopped {
                problems.push(format!("node {}: {error}", node.name));
            }
        }
        problems
    }

    /// What proves the copies: it must know the rules that decided last.
    pub fn proving(&self, command: &SwitchCommand) -> SwitchCommand {
        let program = self.next.clone().filter(|_| 0 < self.upgraded);
        SwitchCommand { program: program.unwrap_or(command.program.clone()), ..command.clone() }
    }

    /// The copies that the nodes keep.
    pub fn copies(&self) -> Vec<ReplicaCopy<'_>> {
        self.nodes.iter().map(|node| ReplicaCopy { name: &node.name, data: &node.data }).collect()
    }

    fn act(&mut self, act: Act) -> Result<String, HarnessError> {
        match (act.fault, act.turn) {
            (Fault::Node, Turn::Break) => self.kill_node(),
            (Fault::Node, Turn::Mend) => {
                let node = &mut self.nodes[self.killed];
                node.begin()?;
                Ok(format!("node {} is started again", node.name))
            }
            (Fault::Broker, Turn::Break) => {
                self.broker = self.cluster.leader(TOPIC).unwrap_or(1);
                let before = self.brokers_cpu();
                self.cluster.kill(self.broker);
                self.brokers_spent += before.saturating_sub(self.brokers_cpu());
                Ok(format!("broker {}, which led the topic, is killed", self.broker))
            }
            (Fault::Broker, Turn::Mend) => {
                self.cluster.launch(self.broker)?;
                Ok(format!("broker {} is started again", self.broker))
            }
            (Fault::Upgrade, _) => self.upgrade(),
            (Fault::Rules, _) => self.activate_rules(),
            (Fault::Pause, turn) => {
                if turn == Turn::Break {
                    self.paused = self.busiest()?.0;
                }
                Ok(self.nodes[self.paused].pause(turn))
            }
            (Fault::Cut, turn) => {
                let network = self.network.as_ref().expect("a cut has a network");
                let name = &self.nodes[self.nodes.len() - 1].name;
                match turn {
                    Turn::Break => network.cut()?,
                    Turn::Mend => network.mend()?,
                }
                let is = if turn == Turn::Break { "is cut off from" } else { "reaches" };
                Ok(format!("node {name} {is} all brokers"))
            }
        }
    }

    /// Kills the node that sends to most participants.
    fn kill_node(&mut self) -> Result<String, HarnessError> {
        let (busiest, served) = self.busiest()?;
        self.killed = busiest;
        let node = &mut self.nodes[self.killed];
        if let Some(switch) = node.switch.take() {
            self.spent += switch.figures().cpu;
        }
        Ok(format!("node {}, which sends to {}, is killed", node.name, served.join(", ")))
    }

    /// Of those that run, but for a, the node that sends to most participants; and these.
    fn busiest(&self) -> Result<(usize, Vec<String>), HarnessError> {
        let mut served: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for lane in self.cluster_shown()?.lanes {
            served.entry(lane.node).or_default().push(lane.participant);
        }
        let lanes = |at: &usize| served.get(&self.nodes[*at].name).map_or(0, Vec::len);
        let running = (1..self.nodes.len()).rev().filter(|at| self.nodes[*at].switch.is_some());
        let found = running.max_by_key(lanes).expect("one at most is killed at a time");
        Ok((found, served.remove(&self.nodes[found].name).unwrap_or_default()))
    }

    /// Has the next node leave in order and start as the other program: the last one first.
    fn upgrade(&mut self) -> Result<String, HarnessError> {
        let at = self.nodes.len() - 1 - self.upgraded;
        self.upgraded += 1;
        let node = &mut self.nodes[at];
        if let Some(switch) = node.switch.take() {
            self.spent += switch.figures().cpu;
            switch.stop()?;
        }
        node.command.program = self.next.clone().expect("an upgrade has a program");
        node.begin()?;
        Ok(format!("node {} has left in order, and starts as {}", node.name, node.program()))
    }

    /// Has the newest rules decide that all nodes know.
    fn activate_rules(&mut self) -> Result<String, HarnessError> {
        let mut admin = self.admin()?;
        let known = |body: &[u8]| -> Option<u64> {
            serde_json::from_slice::<serde_json::Value>(body).ok()?.get("rulesKnown")?.as_u64()
        };
        let shown = admin.must("GET", "/rules", None, &[200])?;
        let version = known(&shown.body).unwrap_or_default();
        let body = format!("{{\"rulesVersion\": {version}}}");
        admin.must("PUT", "/rules", Some(&body), &[200])?;
        Ok(format!("rules of version {version} decide"))
    }

    fn cluster_shown(&self) -> Result<ClusterShown, HarnessError> {
        let answered = self.admin()?.must("GET", "/cluster", None, &[200])?;
        serde_json::from_slice(&answered.body).map_err(|error| HarnessError::Admin {
            request: "GET /cluster".to_owned(),
            problem: error.to_string(),
        })
    }

    /// Waits until every node serves, and the first one knows of all.
    fn wait_until_joined(&mut self) -> Result<(), HarnessError> {
        for node in &mut self.nodes {
            let Some(switch) = &mut node.switch else { continue };
            while !switch.is_healthy()? {
                std::thread::sleep(POLL);
            }
            node.is_starting = false;
        }
        let deadline = Instant::now() + JOINED_WITHIN;
        while self.cluster_shown()?.nodes.len() < self.nodes.len() {
            if deadline < Instant::now() {
                let what = format!("does not know of all nodes within {JOINED_WITHIN:?}");
                return Err(HarnessError::Hub(what));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Node {
    fn new(
        name: char,
        command: &SwitchCommand,
        log: &str,
        data: &Path,
    ) -> Result<Self, HarnessError> {
        let mut command = command.clone();
        let name = name.to_string();
        command.serve.extend(["--log", log, "--node", &name].map(Into::into));
        let addresses = free_addresses().map_err(HarnessError::file("127.0.0.1"))?;
        let data = data.join(format!("node-{name}"));
        Ok(Self { name, data, command, addresses, switch: None, is_starting: false })
    }

    /// Has it run in a network of its own from its start on.
    fn move_into(&mut self, network: &Network) {
        let [program, within] = network.entry();
        let own = std::mem::replace(&mut self.command.program, program.into());
        self.command.serve.splice(0..0, [within.into(), own.into()]);
        self.addresses.iter_mut().for_each(|address| address.set_ip(network.node()));
    }

    fn begin(&mut self) -> Result<(), HarnessError> {
        self.switch = Some(SwitchProcess::begin(&self.command, &self.data, self.addresses)?);
        self.is_starting = true;
        Ok(())
    }

    /// The file name of what it runs as.
    fn program(&self) -> String {
        let name = self.command.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn pause(&self, turn: Turn) -> String {
        let (signal, what) = match turn {
            Turn::Break => (Signal::STOP, "stands still"),
            Turn::Mend => (Signal::CONT, "goes on"),
        };
        // One that was killed meanwhile does not mind.
        self.switch.iter().for_each(|switch| switch.signal(signal));
        format!("node {} {what}", self.name)
    }

    fn admin(&self) -> Result<Admin, HarnessError> {
        let gone = || HarnessError::Switch(format!("{} does not run", self.name));
        self.switch.as_ref().ok_or_else(gone)?.admin()
    }
}
