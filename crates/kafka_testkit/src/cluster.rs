//! A cluster of brokers. Each is also a controller (KRaft's combined mode).

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::BrokersError;
use crate::install::{Installation, default_cache, install};
use crate::layout::{LOGGING, Listeners, free_ports, properties, secured};
use crate::process::{is_broker, last_lines, last_lines_of, signal, wait_until};

/// Most brokers of a cluster.
pub const BROKERS_MAX: u32 = 9;

/// Time limit for a broker's start: one start takes seconds, nine at once on a busy machine one to
/// two minutes.
const START_MAX: Duration = Duration::from_secs(180);
/// Time limit for an orderly stop of a broker.
const STOP_MAX: Duration = Duration::from_secs(20);
/// The line that a broker logs when it is ready.
const READY: &str = "Kafka Server started";
const DESCRIPTION: &str = "cluster.json";

/// Options of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Number of brokers, 1 to [`BROKERS_MAX`].
    pub brokers: u32,
    /// Directory of the cluster's data; created if missing.
    pub directory: PathBuf,
    /// Maximum heap of each broker, in MiB.
    pub heap_mib: u32,
    /// Cache directory of Kafka's packages.
    pub cache: PathBuf,
    /// The local address on which they listen.
    pub listen: IpAddr,
    /// Additional environment variables of the brokers.
    pub environment: Vec<(&'static str, String)>,
    /// A second listener of each broker, for authenticated clients.
    pub secure: Option<Secure>,
}

/// A TLS listener that requires a client certificate and a password (SCRAM-SHA-512).
#[derive(Clone, Debug)]
pub struct Secure {
    /// File with the brokers' private key and certificate (PEM).
    pub key_and_certificate: PathBuf,
    /// File with the certificate of the clients' certificate authority (PEM).
    pub clients: PathBuf,
    /// The only user.
    pub user: String,
    /// The user's password.
    pub password: String,
}

impl ClusterOptions {
    /// This many brokers in a directory, with small heaps and the default cache.
    #[must_use]
    pub fn new(brokers: u32, directory: impl Into<PathBuf>) -> Self {
        let (directory, cache) = (directory.into(), default_cache());
        let listen = IpAddr::from([127, 0, 0, 1]);
        let (environment, secure) = (Vec::new(), None);
        Self { brokers, directory, heap_mib: 256, cache, listen, environment, secure }
    }
}

/// Stored description of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Description {
    kafka: String,
    bootstrap: String,
    /// Addresses of the listeners for authenticated clients; empty without any.
    #[serde(default)]
    secure: String,
    brokers: Vec<Broker>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Broker {
    number: u32,
    port: u16,
    /// Process id; 0 while it does not run.
    process: i32,
}

/// Running brokers. Dropping it kills them, unless it was detached.
#[derive(Debug)]
pub struct Cluster {
    options: ClusterOptions,
    installation: Installation,
    description: Description,
    /// Child process of each broker; `None` while it does not run.
    children: Vec<Option<Child>>,
    detached: bool,
}

impl Cluster {
    /// Starts a cluster and waits until every broker is ready.
    ///
    /// # Errors
    /// [`BrokersError`]. No broker is left running then.
    pub fn start(options: ClusterOptions, say: &mut dyn FnMut(&str)) -> Result<Self, BrokersError> {
        if !(1..=BROKERS_MAX).contains(&options.brokers) {
            let what = format!("a cluster has 1 to {BROKERS_MAX} brokers");
            return Err(BrokersError::Refused(what));
        }
        if options.directory.join(DESCRIPTION).exists() {
            return Err(BrokersError::Refused(format!(
                "{} already holds a cluster: end it with `cargo xtask kafka down --dir {0}`, or \
                 choose another directory",
                options.directory.display()
            )));
        }
        fs::create_dir_all(&options.directory).map_err(BrokersError::file(&options.directory))?;
        let directory =
            fs::canonicalize(&options.directory).map_err(BrokersError::file(&options.directory))?;
        let options = ClusterOptions { directory, ..options };
        let installation = install(&options.cache, say)?;
        let description = lay_out(&options)?;
        let children = description.brokers.iter().map(|_| None).collect();
        let mut cluster = Self { options, installation, description, children, detached: false };
        cluster.format()?;
        let plural = if cluster.options.brokers == 1 { "" } else { "s" };
        say(&format!("starting {} broker{plural}", cluster.options.brokers));
        for number in 1..=cluster.options.brokers {
            cluster.spawn(number)?;
        }
        for number in 1..=cluster.options.brokers {
            cluster.wait_for(number)?;
        }
        Ok(cluster)
    }

    /// Addresses of all brokers in the form that clients take: `127.0.0.1:PORT,...`.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.description.bootstrap
    }

    /// Addresses of the listeners of [`ClusterOptions::secure`].
    #[must_use]
    pub fn secure_bootstrap(&self) -> &str {
        &self.description.secure
    }

    /// Address of a broker.
    ///
    /// # Panics
    /// If there is no such broker; numbers start at 1.
    #[must_use]
    pub fn address(&self, number: u32) -> SocketAddr {
        (self.options.listen, self.broker(number).port).into()
    }

    /// Kills a broker, as in a crash.
    pub fn kill(&mut self, number: u32) {
        self.end(number, Signal::KILL);
    }

    /// Stops a broker in an orderly way: it hands over its partitions first.
    pub fn stop(&mut self, number: u32) {
        self.end(number, Signal::TERM);
    }

    /// Suspends a broker until [`Cluster::resume`]. Its connections stay open.
    pub fn pause(&self, number: u32) {
        signal(self.broker(number).process, Signal::STOP);
    }

    /// Resumes a suspended broker.
    pub fn resume(&self, number: u32) {
        signal(self.broker(number).process, Signal::CONT);
    }

    /// Restarts all brokers at once, running or not: none becomes ready without the others.
    ///
    /// # Errors
    /// [`BrokersError`] when a broker does not become ready.
    pub fn restart_all(&mut self) -> Result<(), BrokersError> {
        let numbers = 1..=self.options.brokers;
        numbers.clone().for_each(|number| self.kill(number));
        for number in numbers.clone() {
            self.spawn(number)?;
        }
        numbers.into_iter().try_for_each(|number| self.wait_for(number))
    }

    /// Restarts a stopped broker with its data, and waits until it is ready.
    ///
    /// # Errors
    /// [`BrokersError`].
    pub fn restart(&mut self, number: u32) -> Result<(), BrokersError> {
        self.spawn(number)?;
        self.wait_for(number)
    }

    /// Starts a stopped broker without waiting.
    ///
    /// # Errors
    /// [`BrokersError`].
    pub fn launch(&mut self, number: u32) -> Result<(), BrokersError> {
        self.spawn(number)
    }

    /// The leader of the first partition of a topic, according to the logs of the running brokers.
    #[must_use]
    pub fn leader(&self, topic: &str) -> Option<u32> {
        let running = self.description.brokers.iter().filter(|broker| broker.process != 0);
        let said = running.filter_map(|broker| {
            let log = fs::read_to_string(self.home(broker.number).join("broker.log")).ok()?;
            Some((leader_epoch(&log, topic)?, broker.number))
        });
        said.max().map(|(_, number)| number)
    }

    /// The process ids of the running brokers.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        let processes = self.description.brokers.iter().map(|broker| broker.process);
        processes.filter_map(|process| u32::try_from(process).ok()).filter(|process| 0 < *process)
    }

    /// Leaves the brokers running when this program ends, until [`stop`].
    ///
    /// # Errors
    /// [`BrokersError::File`] when the description cannot be written; the brokers are stopped then.
    pub fn detach(mut self) -> Result<(), BrokersError> {
        self.describe()?;
        self.detached = true;
        Ok(())
    }

    fn broker(&self, number: u32) -> &Broker {
        let found = self.description.brokers.iter().find(|broker| broker.number == number);
        found.expect("brokers are numbered from 1")
    }

    fn home(&self, number: u32) -> PathBuf {
        home(&self.options.directory, number)
    }

    /// Formats the storage of all brokers in parallel: each needs its own Java process.
    fn format(&self) -> Result<(), BrokersError> {
        let mut formatting = Vec::new();
        for broker in &self.description.brokers {
            let mut command = self.java(broker.number);
            command.arg("kafka.tools.StorageTool").arg("format");
            command.args(["--cluster-id", CLUSTER_ID, "--config"]);
            command.arg(self.home(broker.number).join("server.properties"));
            if let Some(Secure { user, password, .. }) = &self.options.secure {
                let user = format!("SCRAM-SHA-512=[name={user},password={password}]");
                command.arg("--add-scram").arg(user);
            }
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            formatting.push(command.spawn().map_err(no_java)?);
        }
        for child in formatting {
            let output = child.wait_with_output().map_err(no_java)?;
            if !output.status.success() {
                let output = last_lines(&[&output.stdout[..], &output.stderr].concat());
                let what = "formatting a broker's storage".to_owned();
                return Err(BrokersError::Failed { what, output });
            }
        }
        Ok(())
    }

    fn spawn(&mut self, number: u32) -> Result<(), BrokersError> {
        let path = self.home(number).join("broker.log");
        let log = File::create(&path).map_err(BrokersError::file(&path))?;
        let errors = log.try_clone().map_err(BrokersError::file(&path))?;
        let mut command = self.java(number);
        command.envs(self.options.environment.iter().map(|(name, value)| (name, value)));
        command.arg("kafka.Kafka").arg(self.home(number).join("server.properties"));
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        // A process group of its own: an interrupt at the keyboard must not reach it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(no_java)?;
        let at = number as usize - 1;
        let process = i32::try_from(child.id()).expect("numbers of processes are small");
        self.description.brokers[at].process = process;
        self.children[at] = Some(child);
        Ok(())
    }

    fn wait_for(&mut self, number: u32) -> Result<(), BrokersError> {
        let log = self.home(number).join("broker.log");
        let address = self.address(number);
        let mut ended = false;
        let child = &mut self.children[number as usize - 1];
        wait_until(START_MAX, || {
            ended = child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            let said = fs::read_to_string(&log).is_ok_and(|text| text.contains(READY));
            ended || (said && TcpStream::connect(address).is_ok())
        })
        .then_some(())
        .filter(|()| !ended)
        .ok_or_else(|| match ended {
            true => BrokersError::Failed {
                what: format!("broker {number}"),
                output: last_lines_of(&log),
            },
            false => BrokersError::Late {
                number,
                seconds: START_MAX.as_secs(),
                output: last_lines_of(&log),
            },
        })
    }

    fn end(&mut self, number: u32, by: Signal) {
        let at = number as usize - 1;
        let Some(mut child) = self.children[at].take() else { return };
        signal(self.description.brokers[at].process, by);
        self.description.brokers[at].process = 0;
        if !wait_until(STOP_MAX, || !matches!(child.try_wait(), Ok(None))) {
            // It has ended already, or ends by this signal.
            let _gone = child.kill();
        }
        let _ended = child.wait();
    }

    fn java(&self, number: u32) -> Command {
        let mut command = Command::new("java");
        command
            .arg(format!("-Xmx{}m", self.options.heap_mib))
            // ClusterOptions for a quick start and a small process: throughput is secondary here.
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
            .arg(format!("-Dlog4j2.configurationFile={}", self.logging(number).display()))
            .arg("-cp")
            .arg(self.installation.libraries.join("*"));
        command
    }

    fn logging(&self, number: u32) -> PathBuf {
        self.home(number).join("log4j2.properties")
    }

    fn describe(&self) -> Result<(), BrokersError> {
        let path = self.options.directory.join(DESCRIPTION);
        let text = serde_json::to_vec_pretty(&self.description).expect("it is plain data");
        fs::write(&path, text).map_err(BrokersError::file(path))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.detached {
            return;
        }
        // Signal all brokers before waiting for any.
        for broker in &self.description.brokers {
            signal(broker.process, Signal::KILL);
        }
        for child in self.children.iter_mut().flatten() {
            let _ended = child.wait();
        }
    }
}

/// Addresses of the brokers that run in a directory; `None` if it has no cluster.
#[must_use]
pub fn is_running(directory: &Path) -> Option<String> {
    let directory = fs::canonicalize(directory).ok()?;
    let description = description_in(&directory).ok()?;
    let runs = |broker: &Broker| is_broker(broker.process, &directory);
    description.brokers.iter().any(runs).then_some(description.bootstrap)
}

/// Stops a detached cluster and deletes its directory, if that holds nothing else. Returns the
/// number of brokers that were running.
///
/// # Errors
/// [`BrokersError::Refused`] when the directory holds no cluster; [`BrokersError::File`].
pub fn stop(directory: &Path) -> Result<usize, BrokersError> {
    let Ok(directory) = fs::canonicalize(directory) else {
        return Err(no_cluster(directory));
    };
    let description = description_in(&directory)?;
    let runs = |broker: &&Broker| is_broker(broker.process, &directory);
    let running: Vec<_> = description.brokers.iter().filter(runs).collect();
    let addresses = description.bootstrap.split(',').zip(&description.brokers);
    let mut strangers = addresses.filter(|(_, broker)| !runs(broker)).map(|(address, _)| address);
    if let Some(address) = strangers.find(|address| TcpStream::connect(address).is_ok()) {
        let what = format!(
            "another program listens on {address}, the port of a broker of this cluster: stop \
             that program first. Nothing was stopped or deleted"
        );
        return Err(BrokersError::Refused(what));
    }
    for by in [Signal::TERM, Signal::KILL] {
        running.iter().filter(|broker| runs(broker)).for_each(|it| signal(it.process, by));
        if wait_until(STOP_MAX, || !running.iter().copied().any(|broker| runs(&broker))) {
            break;
        }
    }
    for broker in &description.brokers {
        let home = home(&directory, broker.number);
        fs::remove_dir_all(&home).map_err(BrokersError::file(&home))?;
    }
    let path = directory.join(DESCRIPTION);
    fs::remove_file(&path).map_err(BrokersError::file(path))?;
    // Other files in the directory belong to the user.
    let _others = fs::remove_dir(&directory);
    Ok(running.len())
}

fn description_in(directory: &Path) -> Result<Description, BrokersError> {
    let text = fs::read(directory.join(DESCRIPTION)).map_err(|_| no_cluster(directory))?;
    serde_json::from_slice(&text).map_err(|error| {
        BrokersError::Refused(format!("{}: {DESCRIPTION}: {error}", directory.display()))
    })
}

fn no_cluster(directory: &Path) -> BrokersError {
    BrokersError::Refused(format!("{} holds no cluster", directory.display()))
}

fn no_java(error: std::io::Error) -> BrokersError {
    let mend = "install a Java runtime of version 17 or later";
    BrokersError::Missing { program: "java", error, mend }
}

fn home(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("broker-{number}"))
}

/// 16 bytes in Kafka's encoding; clusters on one machine never communicate.
const CLUSTER_ID: &str = "dXBlc2ktb24tbG9vcGJhYw";

/// Chooses ports and writes the configuration of every broker.
fn lay_out(options: &ClusterOptions) -> Result<Description, BrokersError> {
    let (count, listen) = (options.brokers as usize, options.listen);
    let ports = free_ports(listen, 3 * count).map_err(BrokersError::file(listen.to_string()))?;
    let addresses: Vec<_> = ports.iter().map(|port| SocketAddr::new(listen, *port)).collect();
    let (brokers, others) = addresses.split_at(count);
    let (controllers, secure) = others.split_at(count);
    let voters: Vec<_> =
        (1..).zip(controllers).map(|(number, at)| format!("{number}@{at}")).collect();
    let mut all = Vec::new();
    for (number, at) in (1..).zip(0..count) {
        let home = home(&options.directory, number);
        fs::create_dir_all(&home).map_err(BrokersError::file(&home))?;
        let (broker, controller) = (brokers[at], controllers[at]);
        let listeners = Listeners { broker, controller, secure: secure[at] };
        let mut text = properties(number, &listeners, (&voters.join(","), &home));
        text += &options.secure.as_ref().map(|it| secured(it, &listeners)).unwrap_or_default();
        for (name, text) in [("server.properties", &*text), ("log4j2.properties", LOGGING)] {
            let path = home.join(name);
            fs::write(&path, text).map_err(BrokersError::file(path))?;
        }
        all.push(Broker { number, port: broker.port(), process: 0 });
    }
    let listed = |addresses: &[SocketAddr]| -> String {
        let texts: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
        texts.join(",")
    };
    let kafka = crate::KAFKA_VERSION.to_owned();
    let secure = options.secure.as_ref().map(|_| listed(secure)).unwrap_or_default();
    Ok(Description { kafka, bootstrap: listed(brokers), secure, brokers: all })
}

/// The last epoch in which a broker became leader of the first partition of a topic, from its log.
fn leader_epoch(log: &str, topic: &str) -> Option<u64> {
    let begin = format!(" Leader {topic}-0 with topic id ");
    let said = log.lines().rev().find_map(|line| Some(line.split_once(&begin)?.1));
    let (_, epoch) = said?.split_once(" starts at leader epoch ")?;
    epoch.split(' ').next()?.parse().ok()
}
