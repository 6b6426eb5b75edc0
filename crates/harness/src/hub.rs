//! The hub that is measured: a switch started for the run, or any other that is there already.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::admin::{Admin, resolve};
use crate::child::{Switch, SwitchCommand, read_token};
use crate::error::HarnessError;
use crate::machine::{ProcessFigures, process_figures};

/// Which hub a run is about.
pub(crate) enum HubChoice<'a> {
    /// A switch of its own, on a fresh log unless a directory is given.
    Spawn {
        /// How it is started.
        command: &'a SwitchCommand,
        /// Where its log is kept, and left.
        data: Option<PathBuf>,
    },
    /// One that runs already.
    Remote(RemoteHub),
}

/// A hub that runs already.
#[derive(Clone, Debug)]
pub(crate) struct RemoteHub {
    pub(crate) fspiop: SocketAddr,
    /// Its admin API, with its token; nothing is onboarded or compared without it.
    pub(crate) admin: Option<(SocketAddr, Option<String>)>,
    /// Its process, when it is on this machine and to be watched.
    pub(crate) process: Option<u32>,
}

/// A hub in use.
pub(crate) struct Hub {
    switch: Option<Switch>,
    remote: Option<RemoteHub>,
    data: Option<Data>,
}

impl HubChoice<'_> {
    /// The hub's admin API and FSPIOP address, the switch started if it is to be.
    pub(crate) fn start(&self) -> Result<Hub, HarnessError> {
        match self {
            Self::Spawn { command, data } => {
                let data = Data::new(data.clone());
                let switch = Switch::start(command, &data.path)?;
                Ok(Hub { switch: Some(switch), remote: None, data: Some(data) })
            }
            Self::Remote(remote) => {
                Ok(Hub { switch: None, remote: Some(remote.clone()), data: None })
            }
        }
    }

    pub(crate) fn is_spawned(&self) -> bool {
        matches!(self, Self::Spawn { .. })
    }
}

impl RemoteHub {
    /// Reads the addresses and the token.
    pub(crate) fn new(
        hub: &str,
        admin: Option<&str>,
        token: Option<&Path>,
    ) -> Result<Self, HarnessError> {
        let token = token.map(read_token).transpose()?;
        let admin = admin.map(resolve).transpose()?.map(|address| (address, token));
        Ok(Self { fspiop: resolve(hub)?, admin, process: None })
    }
}

impl Hub {
    pub(crate) fn fspiop(&self) -> SocketAddr {
        let spawned = self.switch.as_ref().map(|switch| switch.fspiop);
        let remote = self.remote.as_ref().map(|remote| remote.fspiop);
        spawned.or(remote).expect("a hub is one or the other")
    }

    /// A client of its admin API, when that is known.
    pub(crate) fn admin(&self) -> Result<Option<Admin>, HarnessError> {
        match &self.switch {
            Some(switch) => switch.admin().map(Some),
            None => {
                let known = self.remote.as_ref().and_then(|remote| remote.admin.clone());
                Ok(known.map(|(address, token)| Admin::new(address, token)))
            }
        }
    }

    /// What its process used so far, when that is known.
    pub(crate) fn figures(&self) -> Option<ProcessFigures> {
        let process = self.remote.as_ref().and_then(|remote| remote.process);
        self.switch.as_ref().map(Switch::figures).or_else(|| process.map(process_figures))
    }

    /// The directory of its log, when it is a switch of ours.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.data.as_ref().map(|data| &*data.path)
    }

    /// Fails when a switch of ours has ended by itself.
    pub(crate) fn check_alive(&mut self) -> Result<(), HarnessError> {
        self.switch.as_mut().map_or(Ok(()), Switch::check_alive)
    }

    /// Stops a switch of ours; another hub is left as it is.
    pub(crate) fn stop(&mut self) -> Result<(), HarnessError> {
        self.switch.take().map_or(Ok(()), Switch::stop)
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
            // What cannot be removed from the temporary directory, the system will.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
