//! Several nodes that share one log over brokers, all started for a run, and the faults injected
//! into them.
//!
//! The nodes are named a, b, c and so on. No fault affects node a, since the harness uses its admin
//! API. The node that serves most participants is killed or paused, and the last one is cut off. An
//! upgrade changes all nodes, a last. Dropping this stops all processes, and deletes the data
//! unless a directory was given.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kafka_testkit::Cluster;
use rustix::process::Signal;
use serde::Deserialize;

use crate::admin::Admin;
use crate::error::HarnessError;
use crate::faults::{ClusterFault, FaultPhase, FaultStep};
use crate::netns::Network;
use crate::proc_stats::{ProcessFigures, process_figures};
use crate::replica_check::ReplicaCopy;
use crate::switch_process::{SwitchCommand, SwitchProcess, free_addresses};

/// The topic that the nodes share.
const TOPIC: &str = "upesi";
const POLL: Duration = Duration::from_millis(20);
/// Longest wait for all nodes to know each other.
const JOINED_WITHIN: Duration = Duration::from_secs(30);
/// Replicas of a topic, if there are enough brokers.
const REPLICAS_MAX: u32 = 3;

/// Number of nodes and brokers, and the faults to inject.
#[derive(Clone, Debug)]
pub struct NodesPlan {
    pub nodes: u32,
    pub brokers: u32,
    pub fault_steps: Vec<FaultStep>,
    /// The program of upgraded nodes.
    pub next: Option<PathBuf>,
}

/// A fault that was injected or repaired.
#[derive(Clone, Debug)]
pub struct ExecutedFault {
    pub at: Instant,
    pub what: String,
    /// The fault that began with it.
    pub begins: Option<ClusterFault>,
}

/// The nodes and their brokers.
pub struct Nodes {
    nodes: Vec<Node>,
    cluster: Cluster,
    network: Option<Network>,
    due: VecDeque<FaultStep>,
    done: Vec<ExecutedFault>,
    /// The broker that was killed last.
    broker: u32,
    /// The node that was killed last.
    killed: usize,
    /// The node that was suspended last.
    paused: usize,
    /// The program of upgraded nodes, and the number of upgraded nodes.
    next: Option<PathBuf>,
    upgraded: usize,
    /// CPU time of nodes that have ended.
    spent: Duration,
    /// CPU time of brokers that have ended.
    brokers_spent: Duration,
}

struct Node {
    name: String,
    data: PathBuf,
    command: SwitchCommand,
    addresses: [SocketAddr; 2],
    switch: Option<SwitchProcess>,
    /// Whether it has been started and is not serving yet.
    is_starting: bool,
}

#[derive(Deserialize)]
struct ClusterInfo {
    nodes: Vec<serde::de::IgnoredAny>,
    lanes: Vec<LaneInfo>,
}

#[derive(Deserialize)]
struct LaneInfo {
    participant: String,
    node: String,
}

impl NodesPlan {
    /// The durability of an acknowledgement, as text.
    pub fn durability(&self) -> String {
        let (replicas, in_sync) = self.replicas();
        format!("acks=all, min ISR {in_sync} of {replicas}, brokers do not sync before they answer")
    }

    /// Replicas of the topic, and the number that must have a record before it is acknowledged.
    pub fn replicas(&self) -> (u32, u32) {
        let replicas = self.brokers.min(REPLICAS_MAX);
        (replicas, replicas / 2 + 1)
    }
}

impl Nodes {
    /// Starts brokers, then all nodes at once, and waits until they know each other.
    pub fn start(
        plan: &NodesPlan,
        command: &SwitchCommand,
        data: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, HarnessError> {
        if std::fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some()) {
            let what =
                format!("--data {}: not empty; nodes need an empty directory", data.display());
            return Err(HarnessError::Options(what));
        }
        let is_cut = plan.fault_steps.iter().any(|step| step.fault == ClusterFault::Cut);
        let network = if is_cut { Some(Network::new()?) } else { None };
        let mut options = kafka_testkit::ClusterOptions::new(plan.brokers, data.join("brokers"));
        options.listen = network.as_ref().map_or(options.listen, Network::brokers);
        let cluster = Cluster::start(options, progress)?;
        let log = format!("kafka://{}/{TOPIC}", cluster.bootstrap());
        let mut nodes = Vec::new();
        for name in ('a'..).take(plan.nodes as usize) {
            nodes.push(Node::new(name, command, &log, data)?);
        }
        if let (Some(network), Some(last)) = (&network, nodes.last_mut()) {
            last.move_into(network);
        }
        let due = plan.fault_steps.iter().copied().collect();
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
        progress(&format!("starting {} nodes", plan.nodes));
        all.nodes.iter_mut().try_for_each(Node::begin)?;
        all.wait_until_joined()?;
        Ok(all)
    }

    /// The FSPIOP addresses of all nodes.
    pub fn fspiop(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.addresses[0]).collect()
    }

    /// The address that participants must listen on, if it is restricted.
    pub fn participants(&self) -> Option<IpAddr> {
        self.network.as_ref().map(Network::participants)
    }

    /// The admin API of node a, which no fault affects.
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

    /// CPU time of the brokers, including those that were killed.
    pub fn brokers_cpu(&self) -> Duration {
        let running = self.cluster.processes().map(|process| process_figures(process).cpu);
        self.brokers_spent + running.sum::<Duration>()
    }

    /// Fails if a node has exited that should be running.
    pub fn check_alive(&mut self) -> Result<(), HarnessError> {
        let mut running = self.nodes.iter_mut().filter_map(|node| node.switch.as_mut());
        running.try_for_each(SwitchProcess::check_alive)
    }

    /// Injects the faults that are due at this time of the measured part, and checks which nodes
    /// serve again. Returns the lines to print.
    pub fn inject_due_faults(&mut self, elapsed: Duration) -> Result<Vec<String>, HarnessError> {
        let before = self.done.len();
        while let Some(step) = self.due.pop_front_if(|step| step.at <= elapsed) {
            let at = Instant::now();
            let what = self.carry_out(step)?;
            let begins = (step.phase == FaultPhase::Inject).then_some(step.fault);
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

    /// Carries out the remaining repairs, and waits for started nodes.
    pub fn repair(&mut self) -> Result<(), HarnessError> {
        self.due.retain(|step| step.phase == FaultPhase::Repair);
        self.inject_due_faults(Duration::MAX)?;
        self.wait_until_joined()
    }

    /// Stops all nodes. Returns the problems.
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

    /// The command that verifies the copies. It must know the active rules.
    pub fn verify_command(&self, command: &SwitchCommand) -> SwitchCommand {
        let program = self.next.clone().filter(|_| 0 < self.upgraded);
        SwitchCommand { program: program.unwrap_or(command.program.clone()), ..command.clone() }
    }

    /// The copies of the log, one per node.
    pub fn copies(&self) -> Vec<ReplicaCopy<'_>> {
        self.nodes.iter().map(|node| ReplicaCopy { name: &node.name, data: &node.data }).collect()
    }

    fn carry_out(&mut self, step: FaultStep) -> Result<String, HarnessError> {
        match (step.fault, step.phase) {
            (ClusterFault::Node, FaultPhase::Inject) => self.kill_node(),
            (ClusterFault::Node, FaultPhase::Repair) => {
                let node = &mut self.nodes[self.killed];
                node.begin()?;
                Ok(format!("node {} is started again", node.name))
            }
            (ClusterFault::Broker, FaultPhase::Inject) => {
                self.broker = self.cluster.leader(TOPIC).unwrap_or(1);
                let before = self.brokers_cpu();
                self.cluster.kill(self.broker);
                self.brokers_spent += before.saturating_sub(self.brokers_cpu());
                Ok(format!("broker {}, the leader of the topic, is killed", self.broker))
            }
            (ClusterFault::Broker, FaultPhase::Repair) => {
                self.cluster.launch(self.broker)?;
                Ok(format!("broker {} is started again", self.broker))
            }
            (ClusterFault::Upgrade, _) => self.upgrade(),
            (ClusterFault::Rules, _) => self.activate_rules(),
            (ClusterFault::Pause, phase) => {
                if phase == FaultPhase::Inject {
                    self.paused = self.busiest()?.0;
                }
                Ok(self.nodes[self.paused].pause(phase))
            }
            (ClusterFault::Cut, phase) => {
                let network = self.network.as_ref().expect("a cut has a network");
                let name = &self.nodes[self.nodes.len() - 1].name;
                match phase {
                    FaultPhase::Inject => network.cut()?,
                    FaultPhase::Repair => network.repair()?,
                }
                let is = if phase == FaultPhase::Inject { "is cut off from" } else { "reaches" };
                Ok(format!("node {name} {is} all brokers"))
            }
        }
    }

    /// Kills the node that serves most participants.
    fn kill_node(&mut self) -> Result<String, HarnessError> {
        let (busiest, served) = self.busiest()?;
        self.killed = busiest;
        let node = &mut self.nodes[self.killed];
        if let Some(switch) = node.switch.take() {
            self.spent += switch.figures().cpu;
        }
        Ok(format!("node {}, which serves {}, is killed", node.name, served.join(", ")))
    }

    /// The running node other than a that serves most participants, and these participants.
    fn busiest(&self) -> Result<(usize, Vec<String>), HarnessError> {
        let mut served: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for lane in self.cluster_info()?.lanes {
            served.entry(lane.node).or_default().push(lane.participant);
        }
        let lanes = |at: &usize| served.get(&self.nodes[*at].name).map_or(0, Vec::len);
        let running = (1..self.nodes.len()).rev().filter(|at| self.nodes[*at].switch.is_some());
        let found = running.max_by_key(lanes).expect("one at most is killed at a time");
        Ok((found, served.remove(&self.nodes[found].name).unwrap_or_default()))
    }

    /// Stops the next node in order and starts it with the new program, the last one first.
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
        Ok(format!("node {} has stopped cleanly, and starts as {}", node.name, node.program()))
    }

    /// Activates the newest rules that all nodes know.
    fn activate_rules(&mut self) -> Result<String, HarnessError> {
        let mut admin = self.admin()?;
        let known = |body: &[u8]| -> Option<u64> {
            serde_json::from_slice::<serde_json::Value>(body).ok()?.get("rulesKnown")?.as_u64()
        };
        let answered = admin.must("GET", "/rules", None, &[200])?;
        let version = known(&answered.body).unwrap_or_default();
        let body = format!("{{\"rulesVersion\": {version}}}");
        admin.must("PUT", "/rules", Some(&body), &[200])?;
        Ok(format!("rules of version {version} are active"))
    }

    fn cluster_info(&self) -> Result<ClusterInfo, HarnessError> {
        let answered = self.admin()?.must("GET", "/cluster", None, &[200])?;
        serde_json::from_slice(&answered.body).map_err(|error| HarnessError::Admin {
            request: "GET /cluster".to_owned(),
            problem: error.to_string(),
        })
    }

    /// Waits until every node serves, and the first one knows all of them.
    fn wait_until_joined(&mut self) -> Result<(), HarnessError> {
        for node in &mut self.nodes {
            let Some(switch) = &mut node.switch else { continue };
            while !switch.is_healthy()? {
                std::thread::sleep(POLL);
            }
            node.is_starting = false;
        }
        let deadline = Instant::now() + JOINED_WITHIN;
        while self.cluster_info()?.nodes.len() < self.nodes.len() {
            if deadline < Instant::now() {
                let what = format!("does not know all nodes within {JOINED_WITHIN:?}");
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

    /// Makes it start in a separate network namespace.
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

    /// The file name of its program.
    fn program(&self) -> String {
        let name = self.command.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn pause(&self, phase: FaultPhase) -> String {
        let (signal, what) = match phase {
            FaultPhase::Inject => (Signal::STOP, "is suspended"),
            FaultPhase::Repair => (Signal::CONT, "is resumed"),
        };
        // A signal to a node that was killed has no effect.
        self.switch.iter().for_each(|switch| switch.signal(signal));
        format!("node {} {what}", self.name)
    }

    fn admin(&self) -> Result<Admin, HarnessError> {
        let gone = || HarnessError::Switch(format!("{} is not running", self.name));
        self.switch.as_ref().ok_or_else(gone)?.admin()
    }
}
