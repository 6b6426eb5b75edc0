//! The hub that is measured: a switch or several nodes that are started for the run, or a running
//! hub.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::admin::{Admin, resolve};
use crate::error::HarnessError;
use crate::nodes::{Nodes, NodesPlan};
use crate::proc_stats::{ProcessFigures, process_figures, thread_times};
use crate::reconcile::Check;
use crate::switch_process::{SwitchCommand, SwitchProcess, read_token};

/// The hub of a run.
pub enum HubChoice<'a> {
    /// A new switch, on a new log unless a directory is given.
    Spawn {
        /// The command that starts it.
        command: &'a SwitchCommand,
        /// The directory of its log, kept after the run.
        data: Option<PathBuf>,
    },
    /// Several new nodes, with new brokers.
    Nodes {
        /// The command that starts each node.
        command: &'a SwitchCommand,
        /// The directory of all nodes and brokers, kept after the run.
        data: Option<PathBuf>,
        plan: NodesPlan,
    },
    /// A running hub.
    Remote(RemoteHub),
}

/// A running hub.
#[derive(Clone, Debug)]
pub struct RemoteHub {
    pub fspiop: SocketAddr,
    /// Its admin API, with its token. Without it, nothing is onboarded or compared.
    pub admin: Option<(SocketAddr, Option<String>)>,
    /// Its process, if it is on this machine and measured.
    pub process: Option<u32>,
}

/// A hub in use.
pub struct ActiveHub {
    kind: HubKind,
    data: Option<DataDirectory>,
}

enum HubKind {
    Switch(SwitchProcess),
    Nodes(Box<Nodes>),
    Remote(RemoteHub),
    Stopped,
}

impl HubChoice<'_> {
    /// Returns the hub, and starts it if necessary.
    pub fn start(&self, progress: &mut dyn FnMut(&str)) -> Result<ActiveHub, HarnessError> {
        match self {
            Self::Spawn { command, data } => {
                progress("starting the switch");
                let data = DataDirectory::new(data.clone());
                let switch = SwitchProcess::start(command, &data.path)?;
                Ok(ActiveHub { kind: HubKind::Switch(switch), data: Some(data) })
            }
            Self::Nodes { command, data, plan } => {
                let data = DataDirectory::new(data.clone());
                let nodes = Nodes::start(plan, command, &data.path, progress)?;
                Ok(ActiveHub { kind: HubKind::Nodes(Box::new(nodes)), data: Some(data) })
            }
            Self::Remote(remote) => {
                Ok(ActiveHub { kind: HubKind::Remote(remote.clone()), data: None })
            }
        }
    }

    pub fn is_spawned(&self) -> bool {
        !matches!(self, Self::Remote(_))
    }

    /// The numbers of nodes and brokers, if there are several nodes.
    pub fn nodes(&self) -> Option<&NodesPlan> {
        match self {
            Self::Nodes { plan, .. } => Some(plan),
            Self::Spawn { .. } | Self::Remote(_) => None,
        }
    }
}

impl RemoteHub {
    /// Parses the addresses and reads the token.
    pub fn new(hub: &str, admin: Option<&str>, token: Option<&Path>) -> Result<Self, HarnessError> {
        let token = token.map(read_token).transpose()?;
        let admin = admin.map(resolve).transpose()?.map(|address| (address, token));
        Ok(Self { fspiop: resolve(hub)?, admin, process: None })
    }
}

impl ActiveHub {
    /// Its FSPIOP addresses, one per node.
    pub fn fspiop(&self) -> Vec<SocketAddr> {
        match &self.kind {
            HubKind::Switch(switch) => vec![switch.fspiop],
            HubKind::Nodes(nodes) => nodes.fspiop(),
            HubKind::Remote(remote) => vec![remote.fspiop],
            HubKind::Stopped => Vec::new(),
        }
    }

    /// A client of its admin API, if that is known.
    pub fn admin(&self) -> Result<Option<Admin>, HarnessError> {
        match &self.kind {
            HubKind::Switch(switch) => switch.admin().map(Some),
            HubKind::Nodes(nodes) => nodes.admin().map(Some),
            HubKind::Remote(remote) => {
                let known = remote.admin.clone();
                Ok(known.map(|(address, token)| Admin::new(address, token)))
            }
            HubKind::Stopped => Ok(None),
        }
    }

    /// The address of the console of a switch of this run, and the file with its token.
    pub fn console(&self) -> Option<(String, PathBuf)> {
        let HubKind::Switch(switch) = &self.kind else { return None };
        Some((format!("http://{}/console/", switch.admin), switch.token_file().to_owned()))
    }

    /// Resources used by its processes so far, if known.
    pub fn figures(&self) -> Option<ProcessFigures> {
        match &self.kind {
            HubKind::Switch(switch) => Some(switch.figures()),
            HubKind::Nodes(nodes) => Some(nodes.figures()),
            HubKind::Remote(remote) => remote.process.map(process_figures),
            HubKind::Stopped => None,
        }
    }

    /// CPU time of the threads of its process so far, by name; empty with several nodes.
    pub fn thread_times(&self) -> BTreeMap<String, Duration> {
        match &self.kind {
            HubKind::Switch(switch) => thread_times(switch.process()),
            HubKind::Remote(remote) => remote.process.map(thread_times).unwrap_or_default(),
            HubKind::Nodes(_) | HubKind::Stopped => BTreeMap::new(),
        }
    }

    /// The directory of its log, if it was started for the run.
    pub fn data(&self) -> Option<&Path> {
        self.data.as_ref().map(|data| &*data.path)
    }

    /// Its nodes, if there are several.
    pub fn nodes(&mut self) -> Option<&mut Nodes> {
        match &mut self.kind {
            HubKind::Nodes(nodes) => Some(nodes),
            HubKind::Switch(_) | HubKind::Remote(_) | HubKind::Stopped => None,
        }
    }

    /// Fails if a switch of this run has exited.
    pub fn check_alive(&mut self) -> Result<(), HarnessError> {
        match &mut self.kind {
            HubKind::Switch(switch) => switch.check_alive(),
            HubKind::Nodes(nodes) => nodes.check_alive(),
            HubKind::Remote(_) | HubKind::Stopped => Ok(()),
        }
    }

    /// Stops a switch of this run. A remote hub is left unchanged.
    pub fn stop(&mut self) -> Result<(), HarnessError> {
        match std::mem::replace(&mut self.kind, HubKind::Stopped) {
            HubKind::Switch(switch) => switch.stop(),
            HubKind::Nodes(_) | HubKind::Remote(_) | HubKind::Stopped => Ok(()),
        }
    }
}

impl ActiveHub {
    /// Stops a switch of this run and verifies its log.
    pub fn stop_and_verify(&mut self, command: &SwitchCommand) -> Check {
        let stopped = self.stop().map_err(|error| error.to_string());
        let data = self.data().expect("a switch of ours has a directory");
        let problem = stopped.and_then(|()| command.verify(data)).err();
        Check::of("the switch stopped and its log was verified", problem.into_iter().collect())
    }
}

/// The data directory. A temporary one is removed at the end, also after a failure.
pub(crate) struct DataDirectory {
    pub(crate) path: PathBuf,
    temporary: bool,
}

impl DataDirectory {
    pub(crate) fn new(given: Option<PathBuf>) -> Self {
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

impl Drop for DataDirectory {
    fn drop(&mut self) {
        if self.temporary {
            // The system cleans up its temporary directory.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
