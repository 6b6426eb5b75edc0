//! The hub that is measured: a switch started for the run, several nodes over brokers started for
//! it, or any other that is there already.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::admin::{Admin, resolve};
use crate::error::HarnessError;
use crate::nodes::{Nodes, NodesPlan};
use crate::proc_stats::{ProcessFigures, process_figures};
use crate::reconcile::Check;
use crate::switch_process::{SwitchCommand, SwitchProcess, read_token};

/// Which hub a run is about.
pub enum HubChoice<'a> {
    /// A switch of its own, on a fresh log unless a directory is given.
    Spawn {
        /// How it is started.
        command: &'a SwitchCommand,
        /// The directory of its log, kept after the run.
        data: Option<PathBuf>,
    },
    /// Several nodes of its own, over brokers of its own.
    Nodes {
        /// How each is started.
        command: &'a SwitchCommand,
        /// The directory of all nodes and brokers, kept after the run.
        data: Option<PathBuf>,
        plan: NodesPlan,
    },
    /// One that runs already.
    Remote(RemoteHub),
}

/// A hub that runs already.
#[derive(Clone, Debug)]
pub struct RemoteHub {
    pub fspiop: SocketAddr,
    /// Its admin API, with its token; nothing is onboarded or compared without it.
    pub admin: Option<(SocketAddr, Option<String>)>,
    /// Its process, when it is on this machine and to be watched.
    pub process: Option<u32>,
}

/// A hub in use.
pub struct Hub {
    kind: Kind,
    data: Option<Data>,
}

enum Kind {
    Switch(SwitchProcess),
    Nodes(Box<Nodes>),
    Remote(RemoteHub),
    Stopped,
}

impl HubChoice<'_> {
    /// The hub, started if it is to be.
    pub fn start(&self, say: &mut dyn FnMut(&str)) -> Result<Hub, HarnessError> {
        match self {
            Self::Spawn { command, data } => {
                say("starting the switch");
                let data = Data::new(data.clone());
                let switch = SwitchProcess::start(command, &data.path)?;
                Ok(Hub { kind: Kind::Switch(switch), data: Some(data) })
            }
            Self::Nodes { command, data, plan } => {
                let data = Data::new(data.clone());
                let nodes = Nodes::start(plan, command, &data.path, say)?;
                Ok(Hub { kind: Kind::Nodes(Box::new(nodes)), data: Some(data) })
            }
            Self::Remote(remote) => Ok(Hub { kind: Kind::Remote(remote.clone()), data: None }),
        }
    }

    pub fn is_spawned(&self) -> bool {
        !matches!(self, Self::Remote(_))
    }

    /// How many nodes and brokers, where there are several.
    pub fn nodes(&self) -> Option<&NodesPlan> {
        match self {
            Self::Nodes { plan, .. } => Some(plan),
            Self::Spawn { .. } | Self::Remote(_) => None,
        }
    }
}

impl RemoteHub {
    /// Reads the addresses and the token.
    pub fn new(hub: &str, admin: Option<&str>, token: Option<&Path>) -> Result<Self, HarnessError> {
        let token = token.map(read_token).transpose()?;
        let admin = admin.map(resolve).transpose()?.map(|address| (address, token));
        Ok(Self { fspiop: resolve(hub)?, admin, process: None })
    }
}

impl Hub {
    /// Its FSPIOP addresses, one of each node.
    pub fn fspiop(&self) -> Vec<SocketAddr> {
        match &self.kind {
            Kind::Switch(switch) => vec![switch.fspiop],
            Kind::Nodes(nodes) => nodes.fspiop(),
            Kind::Remote(remote) => vec![remote.fspiop],
            Kind::Stopped => Vec::new(),
        }
    }

    /// A client of its admin API, when that is known.
    pub fn admin(&self) -> Result<Option<Admin>, HarnessError> {
        match &self.kind {
            Kind::Switch(switch) => switch.admin().map(Some),
            Kind::Nodes(nodes) => nodes.admin().map(Some),
            Kind::Remote(remote) => {
                let known = remote.admin.clone();
                Ok(known.map(|(address, token)| Admin::new(address, token)))
            }
            Kind::Stopped => Ok(None),
        }
    }

    /// Resources used by its processes so far, if known.
    pub fn figures(&self) -> Option<ProcessFigures> {
        match &self.kind {
            Kind::Switch(switch) => Some(switch.figures()),
            Kind::Nodes(nodes) => Some(nodes.figures()),
            Kind::Remote(remote) => remote.process.map(process_figures),
            Kind::Stopped => None,
        }
    }

    /// The directory of its log, when it is ours.
    pub fn data(&self) -> Option<&Path> {
        self.data.as_ref().map(|data| &*data.path)
    }

    /// Its nodes, where there are several.
    pub fn nodes(&mut self) -> Option<&mut Nodes> {
        match &mut self.kind {
            Kind::Nodes(nodes) => Some(nodes),
            Kind::Switch(_) | Kind::Remote(_) | Kind::Stopped => None,
        }
    }

    /// Fails when a switch of ours has ended by itself.
    pub fn check_alive(&mut self) -> Result<(), HarnessError> {
        match &mut self.kind {
            Kind::Switch(switch) => switch.check_alive(),
            Kind::Nodes(nodes) => nodes.check_alive(),
            Kind::Remote(_) | Kind::Stopped => Ok(()),
        }
    }

    /// Stops a switch of ours; another hub is left as it is.
    pub fn stop(&mut self) -> Result<(), HarnessError> {
        match std::mem::replace(&mut self.kind, Kind::Stopped) {
            Kind::Switch(switch) => switch.stop(),
            Kind::Nodes(_) | Kind::Remote(_) | Kind::Stopped => Ok(()),
        }
    }
}

impl Hub {
    /// Stops a switch of ours and proves its log.
    pub fn stop_and_verify(&mut self, command: &SwitchCommand) -> Check {
        let stopped = self.stop().map_err(|error| error.to_string());
        let data = self.data().expect("a switch of ours has a directory");
        let problem = stopped.and_then(|()| command.verify(data)).err();
        Check::of("the switch stopped and its log was verified", problem.into_iter().collect())
    }
}

/// The data directory; a temporary one is removed in the end, however the run ends.
struct Data {
    path: PathBuf,
    temporary: bool,
}

impl Data {
    fn new(given: Option<PathBuf>) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let temporary = given.is_none();
        let own = || {
            let run = RUNS.fetch_add(1, Ordering::Relaxed);
            std::env::temp_dir().join(format!("upesi-run-{}-{run}", std::process::id()))
        };
        Self { path: given.unwrap_or_else(own), temporary }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if self.temporary {
            // The system cleans up its temporary directory.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
