//! Plays what a hub sends to the FSPIOP server of a DFSP, and compares each answer with FSPIOP.
//!
//! The program takes the place of the hub, or pays to the DFSP through a real hub as one of its
//! participants. Each check uses ids of its own and moves the amount of one transfer at most.
//! Requests of the hub's side are checked in the same way whether the DFSP has our adapter or
//! another program.

mod checks;
mod packet;
mod peer;
mod player;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jws::{KeyDirectory, SigningKey};
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::checks::CHECKS;
use self::peer::{Inbox, Peer};
use self::player::{Player, Stop};
use crate::config::HubConfig;
use crate::http_server::serve;
use crate::hub::HubClient;
use crate::start::Peers;

/// Connections of the listener.
const CONNECTIONS: usize = 100;

/// The settings of one run.
#[derive(Clone, Debug)]
pub struct ConformanceOptions {
    /// Base URL that gets the requests.
    pub url: String,
    /// Whether a hub answers there.
    pub target: TargetKind,
    /// Name of the DFSP that is checked.
    pub dfsp: String,
    /// Name of the paying DFSP.
    pub payer: String,
    /// Address for the callbacks.
    pub listen: SocketAddr,
    /// Type and id of a party of the DFSP.
    pub party: (String, String),
    /// An id of the same type that the DFSP does not know.
    pub unknown: String,
    /// Amount of each payment.
    pub amount: String,
    /// Its currency.
    pub currency: String,
    /// PEM: key that signs the requests.
    pub signing_key: Option<PathBuf>,
    /// Directory with public keys, `NAME.pem`, that verify the callbacks.
    pub keys: Option<PathBuf>,
    /// Longest wait for a callback.
    pub wait: Duration,
}

/// The receiver of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// The server of the DFSP.
    Dfsp,
    /// A hub, which forwards the requests.
    Hub,
}

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The answer is right.
    Passed,
    /// The answer is wrong.
    Failed,
    /// The check was not possible.
    Skipped,
}

/// One check and its result.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// Name of the check.
    pub name: &'static str,
    /// The requests.
    pub sent: &'static str,
    /// The answer that FSPIOP requires.
    pub required: &'static str,
    /// The section of the specification that requires it.
    pub section: &'static str,
    /// The answers.
    pub received: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason for a failure or an omission.
    pub why: String,
}

/// A run with an open listener.
pub struct Conformance {
    listener: TcpListener,
    player: Player,
}

impl Conformance {
    /// Reads the keys and opens the listener. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The first file, address or setting that cannot be used, in words.
    pub async fn start(options: ConformanceOptions) -> Result<Self, String> {
        let keys = options.keys.as_ref().map(|path| KeyDirectory::open(path)).transpose();
        let keys = keys.map_err(|error| error.to_string())?;
        let signing_key = options.signing_key.as_ref().map(|path| {
            let failed = |why: String| format!("{}: {why}", path.display());
            let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
            SigningKey::from_pem(&text).map_err(|error| failed(error.to_string()))
        });
        let signing_key = signing_key.transpose()?;
        let peers = Peers::new(&HubConfig::at(&options.url)).map_err(|error| error.to_string())?;
        let hub = HubClient {
            http: Arc::clone(&peers.http),
            targets: peers.targets,
            fsp_id: options.payer.clone(),
            version: "1.1".to_owned(),
            signing_key,
            signs_put_parties: true,
            tokens: None,
        };
        let listener = TcpListener::bind(options.listen).await;
        let listener =
            listener.map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
        let inbox = Arc::new(Inbox::new(keys));
        let player = Player::new(Peer { hub, inbox }, options);
        Ok(Self { listener, player })
    }

    /// The address for the callbacks.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Plays all checks.
    pub async fn run(self) -> Vec<CheckResult> {
        let Self { listener, mut player } = self;
        let (stop, stopped) = watch::channel(false);
        let inbox = Arc::clone(player.inbox());
        let server = tokio::spawn(serve(listener, None, CONNECTIONS, inbox, stopped));
        let mut results = Vec::with_capacity(CHECKS.len());
        for check in CHECKS {
            let (received, played) = player.play(check).await;
            let (verdict, why) = match played {
                Ok(()) => (Verdict::Passed, String::new()),
                Err(Stop::Failed(why)) => (Verdict::Failed, why),
                Err(Stop::Skipped(why)) => (Verdict::Skipped, why),
            };
            let checks::Check { name, sent, required, section, .. } = *check;
            results.push(CheckResult { name, sent, required, section, received, verdict, why });
        }
        // The server ends with the channel.
        let _heard = stop.send(true);
        let _ended = server.await;
        results
    }
}
