//! The files of a session that `upesi login` stored, and the renewal of its token at an OpenID
//! provider.
//!
//! Next to the token is a file with the refresh token, `<session>.renewal`, which only its owner
//! can read. A command whose token ends within [`AHEAD`] renews it first. Commands that run at the
//! same time renew it once: the file is locked meanwhile.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::session_file;
use identity::{ProviderClient, ProviderTokens, RenewalError, TokenRequest};
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use crate::CliError;

/// Time before the end of a token from which on it is renewed.
const AHEAD: Duration = Duration::from_secs(30);

/// How the token of a session is renewed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Renewal {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) scope: Option<String>,
    pub(crate) audience: Option<String>,
    /// Authorities of the provider's certificate.
    pub(crate) issuer_ca: Option<PathBuf>,
    refresh_token: String,
    /// The end of the access token, in seconds since 1970.
    expires: u64,
}

impl Renewal {
    /// Of new tokens, if the provider gave a refresh token.
    pub(crate) fn new(
        request: &TokenRequest,
        issuer_ca: Option<&Path>,
        tokens: &ProviderTokens,
    ) -> Option<Self> {
        Some(Self {
            issuer: request.issuer.clone(),
            client_id: request.client_id.clone(),
            scope: request.scope.clone(),
            audience: request.audience.clone(),
            issuer_ca: issuer_ca.map(Path::to_owned),
            refresh_token: tokens.refresh.clone()?,
            expires: (now() + tokens.lifetime).as_secs(),
        })
    }

    fn read(file: &Path) -> Result<Option<Self>, CliError> {
        let failed = |why: String| CliError::new(format!("{}: {why}", file.display()));
        match fs::read(file) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| {
                failed(format!("{error}; log in again with `upesi login --issuer`"))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    fn is_due(&self) -> bool {
        self.ends_within(AHEAD)
    }

    fn ends_within(&self, time: Duration) -> bool {
        Duration::from_secs(self.expires) <= now() + time
    }

    /// New tokens of the provider.
    fn tokens(&self) -> Result<ProviderTokens, CliError> {
        let request = TokenRequest {
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret: None,
            scope: self.scope.clone(),
            audience: self.audience.clone(),
        };
        let issuer = &self.issuer;
        let client = ProviderClient::new("issuer", self.issuer_ca.clone());
        let client = client.map_err(|error| CliError::new(format!("{issuer}: {error}")))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CliError::new(error.to_string()))?;
        let renewed = runtime.block_on(client.renewed_token(&request, &self.refresh_token));
        renewed.map_err(|error| match error {
            RenewalError::Ended(error) => CliError::new(format!(
                "the session has ended: {issuer}: {error}; log in again with `upesi login --issuer \
                 {issuer} --client-id {}`",
                self.client_id
            )),
            RenewalError::Failed(error) => {
                CliError::new(format!("the session cannot be renewed: {issuer}: {error}"))
            }
        })
    }
}

/// Renews the token of the session with an admin API if it ends soon. Without a refresh token
/// nothing happens. While the token is valid, a failure is ignored.
///
/// # Errors
/// The token has expired, and the provider gave no other one.
pub(crate) fn renew(url: &str) -> Result<(), CliError> {
    let Some(session) = session_file(url) else { return Ok(()) };
    let file = renewal_file(&session);
    if !Renewal::read(&file)?.is_some_and(|renewal| renewal.is_due()) {
        return Ok(());
    }
    let failed = |error: io::Error| CliError::new(format!("{}: {error}", file.display()));
    let lock = File::open(&file).map_err(failed)?;
    lock.lock().map_err(failed)?;
    // Another command may have renewed it, or logged out, meanwhile.
    let Some(renewal) = Renewal::read(&file)?.filter(Renewal::is_due) else { return Ok(()) };
    match renewal.tokens() {
        Ok(tokens) => {
            let refresh_token = tokens.refresh.clone().unwrap_or(renewal.refresh_token.clone());
            let expires = (now() + tokens.lifetime).as_secs();
            let renewed = Renewal { refresh_token, expires, ..renewal };
            store_session(&session, &tokens.access, Some(&renewed)).map_err(failed)
        }
        Err(_) if !renewal.ends_within(Duration::ZERO) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Stores the token of a session, and how it is renewed.
pub(crate) fn store_session(
    session: &Path,
    token: &str,
    renewal: Option<&Renewal>,
) -> io::Result<()> {
    // A refresh token can be used once: it is stored first.
    match renewal {
        None => remove(&renewal_file(session))?,
        Some(renewal) => {
            let text = serde_json::to_string(renewal).map_err(io::Error::other)?;
            store(&renewal_file(session), &format!("{text}\n"))?;
        }
    }
    store(session, &format!("{token}\n"))
}

/// Removes the token of a session, and its renewal. Returns whether there was one.
pub(crate) fn remove_session(session: &Path) -> io::Result<bool> {
    remove(&renewal_file(session))?;
    let existed = session.exists();
    remove(session)?;
    Ok(existed)
}

/// Removes a file, if it exists.
pub(crate) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a new file that only its owner can read, and renames it over an earlier one.
pub(crate) fn store(file: &Path, content: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let new = with_ending(file, ".new");
    remove(&new)?;
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    opened.write_all(content.as_bytes())?;
    opened.sync_all()?;
    fs::rename(&new, file)
}

fn renewal_file(session: &Path) -> PathBuf {
    with_ending(session, ".renewal")
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
