//! The network namespace of a node, with one virtual cable to the participants and one to the
//! brokers, so that either can be disconnected. Requires an unshared network: the program must be
//! started under `unshare --net`, and all changes disappear with it.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::HarnessError;

/// The address of participants as the node sees it.
const PARTICIPANTS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 8);
/// The address of brokers.
const BROKERS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);
/// The node's end of the cable to the participants.
const NODE: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
/// The names of the cables in the outer namespace: to the participants, to the brokers.
const CABLES: [&str; 2] = ["to-participants", "to-brokers"];
/// Directories of administration tools, which not every PATH contains.
const MORE_PATH: &str = ":/usr/sbin:/sbin";
const MADE_WITHIN: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// The network of one node. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    /// A process that keeps the namespace alive until its standard input closes.
    holder: Child,
    /// Removed after the holder has exited.
    _addresses: Addresses,
}

/// Addresses of the loopback interface, removed when this is dropped.
#[derive(Debug)]
struct Addresses;

impl Network {
    /// Creates the namespace and its cables.
    pub(crate) fn new() -> Result<Self, HarnessError> {
        refuse_a_shared_one()?;
        ip("link set lo up")?;
        let addresses = Addresses::add()?;
        let mut holder = program("unshare");
        let holder = holder.args(["--net", "cat"]).stdin(Stdio::piped()).spawn();
        let holder = holder.map_err(HarnessError::file("unshare"))?;
        let network = Self { holder, _addresses: addresses };
        network.wait_until_made()?;
        network.inside("ip link set lo up")?;
        let [to_participants, to_brokers] = CABLES;
        network.lay(to_participants, [Ipv4Addr::new(10, 78, 0, 1), NODE], PARTICIPANTS)?;
        let ends = [Ipv4Addr::new(10, 79, 0, 1), Ipv4Addr::new(10, 79, 0, 2)];
        network.lay(to_brokers, ends, BROKERS)?;
        Ok(network)
    }

    /// The address that brokers must listen on.
    pub(crate) const fn brokers(&self) -> IpAddr {
        IpAddr::V4(BROKERS)
    }

    /// The address that participants must listen on.
    pub(crate) const fn participants(&self) -> IpAddr {
        IpAddr::V4(PARTICIPANTS)
    }

    /// The address that the node must listen on.
    pub(crate) const fn node(&self) -> IpAddr {
        IpAddr::V4(NODE)
    }

    /// Disconnects the brokers.
    pub(crate) fn cut(&self) -> Result<(), HarnessError> {
        ip(&format!("link set {} down", CABLES[1]))
    }

    /// Reconnects the brokers.
    pub(crate) fn repair(&self) -> Result<(), HarnessError> {
        ip(&format!("link set {} up", CABLES[1]))
    }

    /// The prefix of a command that runs inside the namespace.
    pub(crate) fn entry(&self) -> [String; 2] {
        ["nsenter".to_owned(), format!("--net={}", self.path())]
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    fn wait_until_made(&self) -> Result<(), HarnessError> {
        let name = |path: &str| std::fs::read_link(path).map_err(HarnessError::file(path));
        let here = name("/proc/self/ns/net")?;
        let deadline = Instant::now() + MADE_WITHIN;
        while name(&self.path())? == here {
            if deadline < Instant::now() {
                return Err(HarnessError::Network(
                    "the namespace of the node was not created".to_owned(),
                ));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Creates a cable with these ends, over which the node reaches `far`.
    fn lay(&self, name: &str, ends: [Ipv4Addr; 2], far: Ipv4Addr) -> Result<(), HarnessError> {
        let [outside, inside] = ends;
        let id = self.holder.id();
        ip(&format!("link add {name} type veth peer name eth netns {id}"))?;
        self.inside(&format!("ip link set eth name {name}"))?;
        ip(&format!("address add {outside}/24 dev {name}"))?;
        self.inside(&format!("ip address add {inside}/24 dev {name}"))?;
        self.inside(&format!("ip link set {name} up"))?;
        ip(&format!("link set {name} up"))?;
        self.inside(&format!("ip route add {far}/32 via {outside}"))
    }

    fn inside(&self, command: &str) -> Result<(), HarnessError> {
        let [nsenter, within] = self.entry();
        run(program(&nsenter).arg(within).args(command.split(' ')))
    }
}

impl Addresses {
    /// They may exist already if an earlier run was killed.
    fn add() -> Result<Self, HarnessError> {
        let added = Self;
        for address in [PARTICIPANTS, BROKERS] {
            ip(&format!("address replace {address}/32 dev lo"))?;
        }
        Ok(added)
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        for address in [PARTICIPANTS, BROKERS] {
            // An address that could not be added does not exist.
            let _gone = ip(&format!("address delete {address}/32 dev lo"));
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The kernel removes the cables only some time after the namespace has ended.
        for cable in CABLES {
            let _gone = ip(&format!("link delete {cable}"));
        }
        drop(self.holder.stdin.take());
        // The process exits when its input closes.
        let _ended = self.holder.wait();
    }
}

/// Rejects a shared network. Addresses and cables must disappear with the run, so the network must
/// not be the initial one of the machine, and must have no route out of it. The initial network
/// cannot always be identified without privileges.
fn refuse_a_shared_one() -> Result<(), HarnessError> {
    let name = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let is_first = name("1").is_some_and(|first| name("self") == Some(first));
    if !is_first && !leads_out(&output_of(program("ip").args(["-oneline", "link", "show", "up"]))?)
    {
        return Ok(());
    }
    Err(HarnessError::Network(
        "a cut needs a separate network namespace: run the same command under \
         `unshare --user --map-root-user --net`"
            .to_owned(),
    ))
}

/// Whether an interface is up other than loopback and those that an earlier run may have left.
fn leads_out(interfaces: &str) -> bool {
    let names = interfaces.lines().filter_map(|line| line.split([':', '@']).nth(1));
    names.map(str::trim).any(|name| name != "lo" && !CABLES.contains(&name))
}

fn ip(command: &str) -> Result<(), HarnessError> {
    run(program("ip").args(command.split(' ')))
}

fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", std::env::var("PATH").unwrap_or_default() + MORE_PATH);
    command
}

fn run(command: &mut Command) -> Result<(), HarnessError> {
    output_of(command).map(drop)
}

/// The output of a program that must succeed.
fn output_of(command: &mut Command) -> Result<String, HarnessError> {
    let name = command.get_program().to_owned();
    let output = command.output().map_err(HarnessError::file(name))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(HarnessError::Network(format!("{command:?}: {}", complaint.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_with_a_route_out_is_detected() {
        let loopback = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue\\    link/loopback\n";
        assert!(!leads_out(""));
        assert!(!leads_out(loopback));
        let left = "7: to-brokers@if2: <BROADCAST,UP> mtu 1500\\    link/ether 02:fc:00:00:00:02\n";
        assert!(!leads_out(&format!("{loopback}{left}")));
        let out = "4: eth0@if9: <BROADCAST,UP> mtu 1400\\    link/ether 02:fc:00:00:00:01\n";
        assert!(leads_out(&format!("{loopback}{out}")));
    }
}
