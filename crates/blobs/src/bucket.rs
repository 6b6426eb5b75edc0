//! A blob store in a bucket of an object store, or below a prefix of a bucket.
//!
//! The library is asynchronous, but callers are threads that may block, some of them with their own
//! runtime. So each bucket has a thread that makes the requests, and a call waits at most
//! [`PATIENCE`] for its result. The library retries failures of the network [`RETRIES`] times
//! within [`RETRY_FOR`].
//!
//! An object is stored by one request, or in parts that become an object with the last request.
//! Either way it is complete or absent, and as durable as the store promises. The parts of an
//! abandoned upload are removed. If the process is killed, a lifecycle rule of the bucket for
//! unfinished uploads must remove them.
//!
//! Sequential reads are prefetched one part at a time, because a request costs milliseconds.
//!
//! Error messages are built here from the status, code and text of a response. They never contain a
//! request URL, because some stores put signatures into it.

use std::fs;
use std::future::Future;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    Certificate, ClientOptions, Error, GetOptions, GetRange, MultipartUpload, ObjectStore,
    ObjectStoreExt, ObjectStoreScheme, PutPayload, RetryConfig,
};
use tls::HandshakeFault;
use tokio::runtime::{Builder, Runtime};
use url::Url;

use crate::{BlobError, BlobStore, PART_BYTES, Upload};

/// Time limit of a call. A part of an upload is retried within this time.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for removing the parts of an abandoned upload.
const GOODBYE: Duration = Duration::from_secs(5);
/// Time limit and maximum number of retries of a request.
const RETRY_FOR: Duration = Duration::from_secs(20);
const RETRIES: usize = 3;
/// Hosts that the cloud libraries ask for credentials when none are configured.
const METADATA: [&str; 2] = ["169.254.169.254", "metadata.google.internal"];

/// Opens a bucket with the settings of the environment. No request is made yet.
pub(crate) fn open(
    text: &str,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Arc<dyn BlobStore>, BlobError> {
    let bad = |what: String| BlobError::Url(text.to_owned(), what);
    let url = Url::parse(text).map_err(|error| bad(format!("no URL: {error}")))?;
    let (scheme, prefix) =
        ObjectStoreScheme::parse(&url).map_err(|error| bad(one_line(&error.to_string())))?;
    let kind = Kind::of(&scheme).ok_or_else(|| bad("not a bucket".to_owned()))?;
    let environment: Vec<(String, String)> = environment.collect();
    let client = kind.client(&environment).map_err(bad)?;
    let store = kind.store(text, client, environment).map_err(|error| bad(said(&error, kind)))?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("bucket")
        .enable_all()
        .build()
        .map_err(|error| bad(format!("cannot start a thread for it: {error}")))?;
    let reach = Reach { url: text.to_owned(), kind, store, prefix, runtime: Some(runtime) };
    let (present, window) = Default::default();
    Ok(Arc::new(Bucket { inner: Arc::new(Inner { reach, present, window }) }))
}

/// Provider of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    S3,
    Google,
    Azure,
}

impl Kind {
    fn of(scheme: &ObjectStoreScheme) -> Option<Self> {
        match scheme {
            ObjectStoreScheme::AmazonS3 => Some(Self::S3),
            ObjectStoreScheme::GoogleCloudStorage => Some(Self::Google),
            ObjectStoreScheme::MicrosoftAzure => Some(Self::Azure),
            _ => None,
        }
    }

    /// Creates the client. It reads the environment variables with the prefix of its cloud, and
    /// ignores those that it does not know.
    fn store(
        self,
        url: &str,
        client: ClientOptions,
        environment: Vec<(String, String)>,
    ) -> object_store::Result<Arc<dyn ObjectStore>> {
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_FOR,
            ..RetryConfig::default()
        };
        let settings = environment
            .into_iter()
            .filter(|(name, _)| name.starts_with(self.prefix()))
            .map(|(name, value)| (name.to_ascii_lowercase(), value));
        macro_rules! build {
            ($builder:ty) => {{
                let set = |builder: $builder, (name, value): (String, String)| match name.parse() {
                    Ok(key) => builder.with_config(key, value),
                    Err(_) => builder,
                };
                // Variables such as `AWS_ALLOW_HTTP` change these options.
                let builder = <$builder>::new().with_client_options(client);
                let builder = settings.fold(builder, set);
                Arc::new(builder.with_url(url).with_retry(retry).build()?)
            }};
        }
        Ok(match self {
            Self::S3 => build!(AmazonS3Builder),
            Self::Google => build!(GoogleCloudStorageBuilder),
            Self::Azure => build!(MicrosoftAzureBuilder),
        })
    }

    /// Options of the HTTP client: it trusts the authorities in the file that the environment
    /// names, or those of the system.
    fn client(self, environment: &[(String, String)]) -> Result<ClientOptions, String> {
        let name = self.authorities();
        let is_set = |(known, value): &&(String, String)| known == name && !value.is_empty();
        let Some((_, file)) = environment.iter().find(is_set) else {
            return Ok(ClientOptions::new());
        };
        let fault = |what: &str| format!("{name}: {file}: {what}");
        let pem = fs::read(file).map_err(|error| fault(&error.to_string()))?;
        let authorities = Certificate::from_pem_bundle(&pem).unwrap_or_default();
        if authorities.is_empty() {
            return Err(fault("no certificate in PEM"));
        }
        let options = ClientOptions::new().with_no_system_certificates(true);
        Ok(authorities.into_iter().fold(options, ClientOptions::with_root_certificate))
    }

    /// Setting that names a PEM file with the authorities of the server's certificate.
    fn authorities(self) -> &'static str {
        match self {
            Self::S3 => "AWS_CA_BUNDLE",
            Self::Google => "GOOGLE_CA_BUNDLE",
            Self::Azure => "AZURE_CA_BUNDLE",
        }
    }

    /// Prefix of the provider's environment variables.
    fn prefix(self) -> &'static str {
        match self {
            Self::S3 => "AWS_",
            Self::Google => "GOOGLE_",
            Self::Azure => "AZURE_",
        }
    }

    /// Settings that supply credentials.
    fn credentials(self) -> &'static str {
        match self {
            Self::S3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            Self::Google => "GOOGLE_SERVICE_ACCOUNT",
            Self::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        }
    }

    fn endpoint(self) -> &'static str {
        match self {
            Self::S3 => "AWS_ENDPOINT",
            Self::Google => "GOOGLE_BASE_URL",
            Self::Azure => "AZURE_STORAGE_ENDPOINT",
        }
    }
}

struct Bucket {
    inner: Arc<Inner>,
}

struct Inner {
    reach: Reach,
    /// The bucket is known to exist.
    present: OnceLock<()>,
    window: Mutex<Window>,
}

/// The store and the means to call it.
struct Reach {
    url: String,
    kind: Kind,
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Set until the drop.
    runtime: Option<Runtime>,
}

/// Prefetched bytes of one object.
#[derive(Default)]
struct Window {
    name: String,
    from: u64,
    bytes: Vec<u8>,
    /// End of the last read: a read that starts here is sequential.
    read_to: u64,
}

impl Window {
    /// The prefetched part of a range, if its beginning was prefetched.
    fn part(&self, name: &str, offset: u64, length: usize) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.from)?).ok()?;
        let end = at.checked_add(length)?;
        (self.name == name).then(|| self.bytes.get(at..end))?
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        // The dropping thread may belong to a runtime and must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Reach {
    fn at(&self, name: &str) -> Path {
        name.split('/')
            .filter(|part| !part.is_empty())
            .fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Makes a request and waits for the result.
    fn ask<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, Trouble> {
        let (answer, answered) = sync_channel(1);
        let runtime = self.runtime.as_ref().expect("it is there until the end");
        let running = runtime.spawn(async move {
            // After a timeout the receiver is gone.
            let _heard = answer.send(work.await);
        });
        match answered.recv_timeout(patience) {
            Ok(answered) => answered.map_err(Trouble::Store),
            Err(_) => {
                running.abort();
                Err(Trouble::Silent)
            }
        }
    }

    fn call<T: Send + 'static>(
        &self,
        (what, name): (&str, &str),
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, BlobError> {
        self.ask(PATIENCE, work).map_err(|trouble| self.failed(what, name, &trouble))
    }

    fn failed(&self, what: &str, name: &str, trouble: &Trouble) -> BlobError {
        let url = self.url.clone();
        let error = match trouble {
            Trouble::Silent => format!("no answer within {} s", PATIENCE.as_secs()),
            Trouble::Store(error) => said(error, self.kind),
        };
        BlobError::Failed { url, what: format!("{what} {name}").trim_end().to_owned(), error }
    }

    fn missing(&self, name: &str) -> BlobError {
        BlobError::NotFound { url: self.url.clone(), name: name.to_owned() }
    }
}

/// Why a request failed.
enum Trouble {
    Store(Error),
    Silent,
}

impl Trouble {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Store(Error::NotFound { .. }))
    }
}

impl Inner {
    /// Distinguishes a missing object from a missing bucket by listing the bucket.
    fn check_present(&self) -> Result<(), BlobError> {
        if self.present.get().is_none() {
            self.entries("")?;
        }
        Ok(())
    }

    fn entries(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        let (store, path) = (Arc::clone(&self.reach.store), self.reach.at(prefix));
        let listed = self
            .reach
            .call(("list", prefix), async move { store.list_with_delimiter(Some(&path)).await })?;
        let _first = self.present.set(());
        let paths = listed.objects.into_iter().map(|object| object.location);
        let names = paths.chain(listed.common_prefixes);
        let mut names: Vec<String> =
            names.filter_map(|path| path.filename().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }

    fn length(&self, name: &str) -> Result<Option<u64>, BlobError> {
        let (store, path) = (Arc::clone(&self.reach.store), self.reach.at(name));
        match self.reach.ask(PATIENCE, async move { store.head(&path).await }) {
            Ok(found) => Ok(Some(found.size)),
            Err(trouble) if trouble.is_missing() => self.check_present().map(|()| None),
            // The response to this request has no text; the response to a list has.
            Err(Trouble::Store(Error::PermissionDenied { .. } | Error::Unauthenticated { .. }))
                if self.present.get().is_none() =>
            {
                self.check_present().map(|()| None)
            }
            Err(trouble) => Err(self.reach.failed("read the length of", name, &trouble)),
        }
    }

    /// The bytes of a range, up to the end of the object.
    fn range(&self, name: &str, offset: u64, length: usize) -> Result<Vec<u8>, BlobError> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let (store, path) = (Arc::clone(&self.reach.store), self.reach.at(name));
        let range = Some(GetRange::Bounded(offset..offset.saturating_add(length as u64)));
        let options = GetOptions { range, ..GetOptions::default() };
        let got = self.reach.ask(PATIENCE, async move {
            let got = store.get_opts(&path, options).await?;
            got.bytes().await
        });
        match got {
            Ok(bytes) => Ok(bytes.into()),
            Err(trouble) if trouble.is_missing() => Err(self.reach.missing(name)),
            // Each store has its own error for a range after the end.
            Err(trouble) => match self.length(name)? {
                Some(end) if end <= offset => Ok(Vec::new()),
                Some(_) => Err(self.reach.failed("read", name, &trouble)),
                None => Err(self.reach.missing(name)),
            },
        }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, name: &str) {
        let mut window = self.window();
        if window.name == name {
            *window = Window::default();
        }
    }
}

impl BlobStore for Bucket {
    fn url(&self) -> &str {
        &self.inner.reach.url
    }

    fn upload(&self, name: &str) -> Result<Box<dyn Upload>, BlobError> {
        self.inner.forget(name);
        let (inner, name) = (Arc::clone(&self.inner), name.to_owned());
        Ok(Box::new(BucketUpload { inner, name, part: Vec::new(), parts: None }))
    }

    fn length(&self, name: &str) -> Result<Option<u64>, BlobError> {
        self.inner.length(name)
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, BlobError> {
        let mut window = self.inner.window();
        let in_order = window.name == name && window.read_to == offset;
        if let Some(part) = window.part(name, offset, buffer.len()) {
            buffer.copy_from_slice(part);
            window.read_to = offset + buffer.len() as u64;
            return Ok(buffer.len());
        }
        drop(window);
        let length = if in_order { buffer.len().max(PART_BYTES) } else { buffer.len() };
        let bytes = self.inner.range(name, offset, length)?;
        let read = bytes.len().min(buffer.len());
        buffer[..read].copy_from_slice(&bytes[..read]);
        let read_to = offset + read as u64;
        let bytes = if in_order { bytes } else { Vec::new() };
        *self.inner.window() = Window { name: name.to_owned(), from: offset, bytes, read_to };
        Ok(read)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        self.inner.entries(prefix)
    }

    fn remove(&self, name: &str) -> Result<(), BlobError> {
        self.inner.forget(name);
        let reach = &self.inner.reach;
        let (store, path) = (Arc::clone(&reach.store), reach.at(name));
        match reach.ask(PATIENCE, async move { store.delete(&path).await }) {
            Ok(()) => Ok(()),
            Err(trouble) if trouble.is_missing() => Ok(()),
            Err(trouble) => Err(reach.failed("remove", name, &trouble)),
        }
    }
}

struct BucketUpload {
    inner: Arc<Inner>,
    name: String,
    /// Bytes that were not sent yet.
    part: Vec<u8>,
    /// Started once a part is full.
    parts: Option<Box<dyn MultipartUpload>>,
}

impl BucketUpload {
    fn call<T: Send + 'static>(
        &self,
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, BlobError> {
        self.inner.reach.call(("write", &self.name), work)
    }

    fn send_part(&mut self) -> Result<(), BlobError> {
        let part = PutPayload::from(std::mem::take(&mut self.part));
        if self.parts.is_none() {
            let reach = &self.inner.reach;
            let (store, path) = (Arc::clone(&reach.store), reach.at(&self.name));
            self.parts = Some(self.call(async move { store.put_multipart(&path).await })?);
        }
        let parts = self.parts.as_mut().expect("they were begun");
        let sent = parts.put_part(part);
        self.call(sent)
    }
}

impl Upload for BucketUpload {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), BlobError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PART_BYTES - self.part.len()));
            self.part.extend_from_slice(now);
            bytes = later;
            if self.part.len() == PART_BYTES {
                self.send_part()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), BlobError> {
        if self.parts.is_none() {
            let reach = &self.inner.reach;
            let (store, path) = (Arc::clone(&reach.store), reach.at(&self.name));
            let payload = PutPayload::from(std::mem::take(&mut self.part));
            return self.call(async move { store.put(&path, payload).await.map(drop) });
        }
        if !self.part.is_empty() {
            self.send_part()?;
        }
        let mut parts = self.parts.take().expect("they were begun");
        let (parts, done) = self.call(async move {
            let done = parts.complete().await;
            Ok((parts, done))
        })?;
        done.map_err(|error| {
            self.parts = Some(parts);
            self.inner.reach.failed("write", &self.name, &Trouble::Store(error))
        })?;
        self.inner.forget(&self.name);
        Ok(())
    }
}

impl Drop for BucketUpload {
    fn drop(&mut self) {
        if let Some(mut parts) = self.parts.take() {
            // If they remain, they are invisible, and use space until a lifecycle rule removes
            // them.
            let _removed = self.inner.reach.ask(GOODBYE, async move { parts.abort().await });
        }
    }
}

/// Formats an error in one line, with advice.
fn said(error: &Error, kind: Kind) -> String {
    let (outer, inner) = (error.to_string(), innermost(error));
    if METADATA.iter().any(|host| outer.contains(host) || inner.contains(host)) {
        return format!("missing credentials: set {}", kind.credentials());
    }
    if let Some(fault) = handshake_fault(error) {
        let (text, authorities) = (fault.text(), kind.authorities());
        return format!("TLS: {text}: check {} and {authorities}", kind.endpoint());
    }
    let code = within(&outer, "<Code>", "</Code>");
    let status = within(&outer, "status code: ", ":");
    let answered = [status, code].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let refused = ["401", "403"].iter().any(|status| answered.starts_with(status));
    match () {
        () if refused => format!("refused ({answered}): check {}", kind.credentials()),
        // A missing object was handled before.
        () if answered.starts_with("404") => format!(
            "the bucket does not exist and is not created automatically ({answered}): check its \
             name and {}",
            kind.endpoint()
        ),
        () if !answered.is_empty() => answered,
        () => one_line(&inner),
    }
}

/// Why the handshake with the server failed, if it did.
fn handshake_fault(error: &(dyn std::error::Error + 'static)) -> Option<HandshakeFault> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let fault = error.downcast_ref().map(|error| HandshakeFault::from(deepest(error)));
        // These are not of TLS.
        let fault =
            fault.filter(|it| !matches!(it, HandshakeFault::Closed | HandshakeFault::TimedOut));
        if fault.is_some() {
            return fault;
        }
        cause = error.source();
    }
    None
}

/// An error in an error of I/O is not among its sources.
fn deepest(error: &io::Error) -> &io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    inner.map_or(error, deepest)
}

/// The text of the innermost cause.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

fn within<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    let found = rest.split_once(after).map_or(rest, |(found, _)| found);
    Some(found.trim()).filter(|found| found.len() < 80 && !found.contains('\n'))
}

/// The text in one line, without anything after a `?`, and shortened.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace().map(|word| word.split('?').next().unwrap_or_default());
    let line = words.collect::<Vec<_>>().join(" ");
    line.chars().take(300).collect()
}
