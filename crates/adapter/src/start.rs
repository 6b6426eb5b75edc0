//! Assembly: reads the files of a configuration, opens listeners, and continues transfers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fspiop::ilp::Secret;
use jws::{KeyDirectory, SigningKey};
use tls::{
    ClientCertificates, ClientFiles, ClientTls, MinimumVersion, ReloadOutcome, ServerFiles,
    ServerTls, TlsFileError,
};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::backend::Backend;
use crate::config::{AdapterConfig, DfspConfig, HubConfig, HubTlsConfig, InboundTlsConfig};
use crate::dfsp::{Counts, Dfsp};
use crate::http_client::{HttpClient, Target};
use crate::http_server::serve;
use crate::hub::{HubClient, HubTargets};
use crate::ids::now_ms;
use crate::inbound::{InboundEvent, InboundTransfer};
use crate::inbound_api::InboundApi;
use crate::inbound_bulk;
use crate::inbound_flow::InboundFlow;
use crate::monitoring::Monitoring;
use crate::oauth::TokenSource;
use crate::outbound::{Event, OutboundTransfer};
use crate::outbound_api::OutboundApi;
use crate::outbound_flow::OutboundFlow;
use crate::store::{RowKind, Store};
use crate::tenants::Tenants;
use crate::waits::Waits;

/// Shortest secret of fulfilments in bytes.
const SECRET_BYTES_MIN: usize = 16;
/// Pause between two removals of old rows.
const SWEEP_PAUSE: Duration = Duration::from_secs(60);
const DAY_MS: u64 = 86_400_000;

/// The reason why an adapter cannot start, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

/// The addresses of a running adapter.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// API for back ends.
    pub outbound: SocketAddr,
    /// API for the hub.
    pub inbound: SocketAddr,
    /// Health and metrics.
    pub monitoring: SocketAddr,
}

/// An adapter with open listeners.
pub struct Adapter {
    tenants: Tenants,
    store: Arc<Store>,
    listeners: [TcpListener; 3],
    tls: TlsFiles,
    connections: usize,
    keep_ms: u64,
    /// Transfers that were continued.
    pub continued: usize,
}

/// The TLS files of a running adapter.
#[derive(Clone)]
pub struct TlsFiles {
    server: Option<Arc<ServerTls>>,
    client: Option<Arc<ClientTls>>,
}

impl TlsFiles {
    /// Reads the files again. Later connections use changed ones. An unusable file changes
    /// nothing. Returns a report for each direction; it blocks.
    #[must_use]
    pub fn reload(&self) -> Vec<String> {
        let server = self.server.as_ref().map(|tls| report("inbound_tls", tls.reload()));
        let client = self.client.as_ref().map(|tls| report("hub.tls", tls.reload()));
        server.into_iter().chain(client).collect()
    }
}

fn report(section: &str, result: Result<ReloadOutcome, TlsFileError>) -> String {
    match result {
        Ok(ReloadOutcome::Replaced) => format!("{section}: changed files are in use"),
        Ok(ReloadOutcome::Unchanged) => format!("{section}: no file has changed"),
        Err(error) => format!("{section}: {error}; the files before it stay in use"),
    }
}

impl Adapter {
    /// Its TLS files.
    #[must_use]
    pub fn tls_files(&self) -> TlsFiles {
        self.tls.clone()
    }

    /// Opens store, keys and listeners, and continues the transfers of an earlier run. Must be
    /// called within a tokio runtime of one thread.
    ///
    /// # Errors
    /// The first file, address or setting that cannot be used.
    pub async fn start(config: &AdapterConfig) -> Result<Self, StartError> {
        let of_store = |error: crate::store::StoreError| StartError(error.to_string());
        let store = Arc::new(Store::open(&config.data).map_err(of_store)?);
        let peers = Peers::new(&config.hub)?;
        let dfsps = config.dfsp.iter().map(|dfsp| open(dfsp, config, &peers, &store));
        let tenants = Tenants::new(dfsps.collect::<Result<_, _>>()?);
        let server = config.inbound_tls.as_ref().map(server_tls).transpose()?;
        let tls = TlsFiles { server, client: peers.tls.clone() };
        let listeners = [
            listen(config.outbound).await?,
            listen(config.inbound).await?,
            listen(config.monitoring).await?,
        ];
        let continued = continue_all(&tenants, &store)?;
        let keep_ms = config.limits.keep_days * DAY_MS;
        let connections = config.limits.connections;
        Ok(Self { tenants, store, listeners, tls, connections, keep_ms, continued })
    }

    /// The addresses of the listeners.
    ///
    /// # Errors
    /// Those of the sockets.
    pub fn addresses(&self) -> std::io::Result<Addresses> {
        let [outbound, inbound, monitoring] = &self.listeners;
        Ok(Addresses {
            outbound: outbound.local_addr()?,
            inbound: inbound.local_addr()?,
            monitoring: monitoring.local_addr()?,
        })
    }

    /// Serves until `shutdown` is ready. Transfers in progress continue at the next start.
    pub async fn run(self, shutdown: impl Future) {
        let Self { tenants, store, listeners, tls, connections, keep_ms, .. } = self;
        let (stop, stopped) = watch::channel(false);
        let [outbound, inbound, monitoring] = listeners;
        let back_ends = Arc::new(OutboundApi { tenants: tenants.clone() });
        let hub = Arc::new(InboundApi { tenants: tenants.clone() });
        let monitor = Arc::new(Monitoring { tenants });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(outbound, None, connections, back_ends, stopped.clone()));
        tasks.spawn(serve(inbound, tls.server, connections, hub, stopped.clone()));
        tasks.spawn(serve(monitoring, None, connections, monitor, stopped));
        tasks.spawn(sweep(store, keep_ms));
        shutdown.await;
        // The listeners may have ended before.
        let _heard = stop.send(true);
    }
}

/// The hub's addresses and the connections that all DFSPs share.
pub(crate) struct Peers {
    pub(crate) http: Arc<HttpClient>,
    pub(crate) targets: HubTargets,
    pub(crate) tokens: Option<Arc<TokenSource>>,
    pub(crate) tls: Option<Arc<ClientTls>>,
}

impl Peers {
    pub(crate) fn new(hub: &HubConfig) -> Result<Self, StartError> {
        let uses_tls = hub.url.starts_with("https:") || hub.tls.is_some();
        let tls = hub.tls.clone().unwrap_or_default();
        let tls = if uses_tls { Some(client_tls(&tls)?) } else { None };
        let time = Duration::from_secs(hub.request_seconds);
        let http = Arc::new(HttpClient::new(tls.clone(), time));
        let target = |url: Option<&String>| {
            Target::parse(url.unwrap_or(&hub.url)).map_err(|why| StartError(format!("hub: {why}")))
        };
        let targets = HubTargets {
            parties: target(hub.parties_url.as_ref())?,
            quotes: target(hub.quotes_url.as_ref())?,
            transfers: target(hub.transfers_url.as_ref())?,
            others: target(None)?,
        };
        let tokens = match &hub.oauth2 {
            None => None,
            Some(oauth) => {
                let secret = read(&oauth.client_secret_file, "hub.oauth2.client_secret_file")?;
                let secret = String::from_utf8_lossy(&secret).trim().to_owned();
                let refresh = Duration::from_secs(oauth.refresh_seconds);
                let credentials = (&*oauth.client_id, &*secret);
                let scope = oauth.scope.as_deref();
                let source = TokenSource::new(
                    Arc::clone(&http),
                    &oauth.token_url,
                    credentials,
                    scope,
                    refresh,
                );
                Some(Arc::new(source.map_err(StartError)?))
            }
        };
        Ok(Self { http, targets, tokens, tls })
    }
}

pub(crate) fn open(
    config: &DfspConfig,
    all: &AdapterConfig,
    peers: &Peers,
    store: &Arc<Store>,
) -> Result<Arc<Dfsp>, StartError> {
    let secret = read(&config.ilp_secret_file, "dfsp.ilp_secret_file")?;
    let secret = secret.trim_ascii();
    if secret.len() < SECRET_BYTES_MIN {
        let path = config.ilp_secret_file.display();
        return Err(StartError(format!("{path}: expected at least {SECRET_BYTES_MIN} bytes")));
    }
    let jws = config.jws.as_ref();
    let signing_key = match jws.and_then(|jws| jws.signing_key_file.as_ref()) {
        None => None,
        Some(path) => {
            let text = read(path, "dfsp.jws.signing_key_file")?;
            let key = SigningKey::from_pem(&text);
            Some(key.map_err(|error| StartError(format!("{}: {error}", path.display())))?)
        }
    };
    let keys = jws.and_then(|jws| jws.keys_directory.as_ref()).map(|path| KeyDirectory::open(path));
    let keys = keys.transpose().map_err(|error| StartError(error.to_string()))?;
    let target = Target::parse(&config.backend).map_err(StartError)?;
    let target = if all.dfsp.len() > 1 { target.join(&config.id) } else { target };
    let time = Duration::from_secs(config.retry.answer_seconds);
    let http = Arc::new(HttpClient::new(None, time));
    let places = || Arc::new(Semaphore::new(all.limits.transfers));
    Ok(Arc::new(Dfsp {
        policy: config.policy(),
        hub_name: all.hub.name.clone(),
        id_form: config.id_form,
        secret: Secret::new(secret),
        hub: HubClient {
            http: Arc::clone(&peers.http),
            targets: peers.targets.clone(),
            fsp_id: config.id.clone(),
            version: all.hub.version.clone(),
            signing_key,
            signs_put_parties: jws.is_some_and(|jws| jws.sign_put_parties),
            tokens: peers.tokens.clone(),
        },
        backend: Backend { http, target, retry: config.retry.clone() },
        keys,
        verifies_put_parties: jws.is_some_and(|jws| jws.verify_put_parties),
        store: Arc::clone(store),
        outbound: Arc::new(Waits::default()),
        inbound: Arc::new(Waits::default()),
        outbound_places: places(),
        inbound_places: places(),
        counts: Counts::default(),
    }))
}

fn read(path: &Path, setting: &str) -> Result<Vec<u8>, StartError> {
    std::fs::read(path)
        .map_err(|error| StartError(format!("{setting}: cannot read {}: {error}", path.display())))
}

fn client_tls(config: &HubTlsConfig) -> Result<Arc<ClientTls>, StartError> {
    let certificate = match (&config.certificate_file, &config.key_file) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        _ => {
            let what = "hub.tls: certificate_file and key_file belong together";
            return Err(StartError(what.to_owned()));
        }
    };
    let files = ClientFiles {
        section: "hub.tls",
        certificate,
        ca: config.ca_file.clone(),
        ca_directory: None,
        crl: None,
        minimum: MinimumVersion::Tls12,
        protocols: &[],
    };
    ClientTls::open(files).map(Arc::new).map_err(|error| StartError(error.to_string()))
}

pub(crate) fn server_tls(config: &InboundTlsConfig) -> Result<Arc<ServerTls>, StartError> {
    let files = ServerFiles {
        section: "inbound_tls",
        certificate: config.certificate_file.clone(),
        key: config.key_file.clone(),
        client_ca: config.client_ca_file.clone(),
        client_certificates: ClientCertificates::Required,
        crl: None,
        ocsp: None,
        minimum: MinimumVersion::Tls12,
        protocols: &[b"http/1.1"],
    };
    ServerTls::open(files).map(Arc::new).map_err(|error| StartError(error.to_string()))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| StartError(format!("cannot listen on {address}: {error}")))
}

/// Continues the unfinished transfers. Returns their number.
fn continue_all(tenants: &Tenants, store: &Store) -> Result<usize, StartError> {
    let unfinished = store.unfinished().map_err(|error| StartError(error.to_string()))?;
    let mut count = 0;
    for (key, value) in unfinished {
        let Some((fsp, kind, id)) = RowKind::parse(&key) else { continue };
        let Some(dfsp) = tenants.iter().find(|dfsp| dfsp.policy.fsp_id == fsp) else {
            tracing::warn!(dfsp = fsp, transfer = id, "unfinished transfer of an unknown DFSP");
            continue;
        };
        let damaged = |error| StartError(format!("store: transfer {id} of {fsp}: {error}"));
        match kind {
            RowKind::Outbound => {
                continue_outbound(dfsp, serde_json::from_slice(&value).map_err(damaged)?);
            }
            RowKind::Inbound => {
                continue_inbound(dfsp, serde_json::from_slice(&value).map_err(damaged)?);
            }
            RowKind::ReceivedBulk => {
                inbound_bulk::resume(dfsp, serde_json::from_slice(&value).map_err(damaged)?);
            }
            RowKind::Home
            | RowKind::Quote
            | RowKind::Request
            | RowKind::Requested
            | RowKind::SentBulk
            | RowKind::BulkQuote => continue,
        }
        count += 1;
    }
    Ok(count)
}

fn continue_outbound(dfsp: &Arc<Dfsp>, mut transfer: OutboundTransfer) {
    let effects = transfer.handle(Event::Restarted, &dfsp.policy, now_ms());
    if let Some(flow) = OutboundFlow::register(dfsp, transfer, None) {
        tokio::spawn(flow.run(effects));
    }
}

fn continue_inbound(dfsp: &Arc<Dfsp>, mut transfer: InboundTransfer) {
    dfsp.attach_quote(&mut transfer);
    let effects = transfer.handle(InboundEvent::Restarted, &dfsp.policy, now_ms());
    if let Some(flow) = InboundFlow::register(dfsp, transfer, None, None) {
        tokio::spawn(flow.run(effects));
    }
}

/// Removes rows that ended long ago.
async fn sweep(store: Arc<Store>, keep_ms: u64) {
    loop {
        if let Err(error) = store.sweep(now_ms().saturating_sub(keep_ms)) {
            tracing::error!("{error}");
        }
        tokio::time::sleep(SWEEP_PAUSE).await;
    }
}
