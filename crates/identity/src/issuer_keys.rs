//! The keys of an issuer, read in the background.
//!
//! One thread reads them at the start, then every [`REFRESH_INTERVAL`] (a file every
//! [`FILE_INTERVAL`]), after a failure every [`RETRY_INTERVAL`], and when a token has an unknown
//! key, but not within [`REFRESH_REST`] of the last attempt. If they cannot be read, the keys that
//! were read before stay in use.
//!
//! Costs for a reader: one atomic load per look, and a read lock after a change.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;

use crate::key_set::{KEY_SET_BYTES_MAX, KeySet};
use crate::provider::{ProviderClient, ProviderError};

/// Time between two reads of keys from a URL.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(600);
/// Time between two reads of a file.
pub const FILE_INTERVAL: Duration = Duration::from_secs(60);
/// Time until the next read after one that failed.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum time after a read until an unknown key causes another one.
pub const REFRESH_REST: Duration = Duration::from_secs(10);
/// Maximum time that a request with an unknown key waits for a read.
pub const REFRESH_PATIENCE: Duration = Duration::from_secs(3);

/// The place of an issuer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In a file.
    File(PathBuf),
    /// At a URL.
    Url(String),
    /// At the URL `jwks_uri` in the metadata of this issuer.
    Discovery(String),
}

/// The keys of an issuer, for readers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct IssuerKeys {
    published: watch::Receiver<Published>,
    wanted: Arc<Notify>,
}

/// The result of the reads so far.
#[derive(Clone, Debug, Default)]
struct Published {
    keys: Option<Arc<KeySet>>,
    /// Number of changes of the keys.
    generation: u64,
    /// Number of reads, and when the last one ended.
    attempts: u64,
    attempted: Option<Instant>,
    /// End of the last successful read.
    read: Option<Instant>,
    has_failed: bool,
}

/// A read of the keys that a request waits for.
#[derive(Debug)]
pub struct KeyRefresh {
    published: watch::Receiver<Published>,
    attempts: u64,
}

/// The thread that reads the keys, which ends when this is dropped.
#[derive(Debug)]
pub struct IssuerKeysThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(url),
            Self::Discovery(issuer) => f.write_str(issuer),
        }
    }
}

impl KeySource {
    fn interval(&self) -> Duration {
        match self {
            Self::File(_) => FILE_INTERVAL,
            Self::Url(_) | Self::Discovery(_) => REFRESH_INTERVAL,
        }
    }

    /// Reads the text of the key set.
    async fn read(&self, client: &ProviderClient) -> Result<Vec<u8>, ProviderError> {
        match self {
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                let read = read.map_err(|error| ProviderError::new(error.to_string()))?;
                read.map_err(|error| ProviderError::new(error.to_string()))
            }
            Self::Url(url) => client.get(url).await.map(|body| body.to_vec()),
            Self::Discovery(issuer) => {
                let found = client.discover(issuer).await?;
                let url = found.get("jwks_uri").and_then(serde_json::Value::as_str);
                let missing = || ProviderError::new("the metadata of the issuer have no jwks_uri");
                client.get(url.ok_or_else(missing)?).await.map(|body| body.to_vec())
            }
        }
    }
}

impl IssuerKeys {
    /// Starts the thread that reads the keys. Returns without waiting for them.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn start(
        source: KeySource,
        client: ProviderClient,
    ) -> io::Result<(Self, IssuerKeysThread)> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (publish, published) = watch::channel(Published::default());
        let (stop, stopped) = oneshot::channel();
        let wanted = Arc::new(Notify::new());
        let reader = Reader { source, client, publish, wanted: Arc::clone(&wanted), text: None };
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = reader.run() => {}
                }
            });
        };
        let thread = thread::Builder::new().name("issuer-keys".into()).spawn(run)?;
        let thread = IssuerKeysThread { stop: Some(stop), thread: Some(thread) };
        Ok((Self { published, wanted }, thread))
    }

    /// Whether there may be other keys than at the last call of [`IssuerKeys::latest`].
    #[must_use]
    pub fn may_have_changed(&self) -> bool {
        // An error means that the thread has ended: the keys stay.
        self.published.has_changed().unwrap_or_default()
    }

    /// The keys, if they were ever read, and a number that rises with each change.
    #[must_use]
    pub fn latest(&mut self) -> (Option<Arc<KeySet>>, u64) {
        let published = self.published.borrow_and_update();
        (published.keys.clone(), published.generation)
    }

    /// Asks for a read. `None` if one ended within [`REFRESH_REST`].
    #[must_use]
    pub fn refresh(&self) -> Option<KeyRefresh> {
        let (attempts, attempted) = {
            let published = self.published.borrow();
            (published.attempts, published.attempted)
        };
        if attempted.is_some_and(|ended| ended.elapsed() < REFRESH_REST) {
            return None;
        }
        self.wanted.notify_one();
        Some(KeyRefresh { published: self.published.clone(), attempts })
    }

    /// Time since the keys were last read; `None` if they never were.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.published.borrow().read.map(|read| read.elapsed())
    }

    /// Whether the last read failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.published.borrow().has_failed
    }
}

impl KeyRefresh {
    /// Waits for the end of the read, at most [`REFRESH_PATIENCE`].
    pub async fn wait(mut self) {
        let is_read = |published: &Published| published.attempts != self.attempts;
        // Late or not, the caller looks again.
        let _result = timeout(REFRESH_PATIENCE, self.published.wait_for(is_read)).await;
    }
}

impl Drop for IssuerKeysThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// The state of the thread.
struct Reader {
    source: KeySource,
    client: ProviderClient,
    publish: watch::Sender<Published>,
    wanted: Arc<Notify>,
    /// The text of the keys in use.
    text: Option<Vec<u8>>,
}

impl Reader {
    async fn run(mut self) {
        let mut was_read = true;
        loop {
            let is_read = self.read().await;
            let interval = match is_read {
                true => self.source.interval(),
                false => RETRY_INTERVAL,
            };
            if is_read && !was_read {
                tracing::info!(source = %self.source, "the keys of the issuer can be read again");
            }
            was_read = is_read;
            let _late = timeout(interval, self.wanted_after_rest()).await;
        }
    }

    /// Waits until a reader wants other keys. Wishes during the rest are satisfied already. The
    /// rest begins at the published time, as for readers: a later begin would lose a wish.
    async fn wanted_after_rest(&self) {
        let attempted = self.publish.borrow().attempted;
        loop {
            self.wanted.notified().await;
            if attempted.is_none_or(|ended| REFRESH_REST <= ended.elapsed()) {
                return;
            }
        }
    }

    /// Returns whether the keys could be read.
    async fn read(&mut self) -> bool {
        let read = self.source.read(&self.client).await.and_then(|text| {
            let keys = match self.text.as_deref() == Some(&*text) {
                true => None,
                false => {
                    Some(KeySet::parse(&text).map_err(|it| ProviderError::new(it.to_string()))?)
                }
            };
            Ok(keys.map(|keys| (text, keys)))
        });
        let had_failed = self.publish.borrow().has_failed;
        if let (Err(error), false) = (&read, had_failed) {
            let source = &self.source;
            tracing::warn!(%source, %error, "cannot read the keys of the issuer");
        }
        let is_read = read.is_ok();
        let changed = read.ok().flatten().map(|(text, keys)| {
            self.text = Some(text);
            keys
        });
        self.publish.send_modify(|published| {
            let now = Instant::now();
            published.attempts += 1;
            published.attempted = Some(now);
            published.has_failed = !is_read;
            if is_read {
                published.read = Some(now);
            }
            if let Some(keys) = changed {
                published.keys = Some(Arc::new(keys));
                published.generation += 1;
            }
        });
        is_read
    }
}

fn read_file(path: &std::path::Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;

    let mut text = Vec::new();
    let most = KEY_SET_BYTES_MAX as u64 + 1;
    std::fs::File::open(path)?.take(most).read_to_end(&mut text)?;
    Ok(text)
}
