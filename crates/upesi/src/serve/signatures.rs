//! Loads the keys that the section `[jws]` of the configuration names.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jws::{HubKeys, KEY_TEXT_BYTES_MAX, KeyDirectory, KeyError, ReloadReport};
use operations::AdminKeys;
use switch::{Signatures, Signer};

use crate::CliError;
use crate::cli::stdout;
use crate::cli::units::counted;
use crate::config::Config;

/// The setting that names the hub's private key.
const SIGNING_KEY: &str = "jws.signing_key";

/// The loaded keys.
pub(crate) struct Keys {
    /// For the I/O threads.
    pub(crate) signatures: Signatures,
    /// For the admin API.
    pub(crate) admin: AdminKeys,
}

impl Keys {
    /// Reads the directory, and starts the threads that sign with the hub's own key.
    ///
    /// Fails if the directory cannot be used: a hub without keys would refuse valid messages.
    pub(crate) fn open(config: &Config, own: Option<&SigningKeyFile>) -> Result<Self, CliError> {
        let directory = match &config.jws.keys {
            None => None,
            Some(path) => Some(Arc::new(open_directory(path)?)),
        };
        let hub = own.map(|file| Arc::clone(&file.keys));
        let signer = hub.as_ref().map(|keys| Signer::start(keys, config.signing_threads()));
        let signer = signer
            .transpose()
            .map_err(|error| CliError::new(format!("cannot start a signing thread: {error}")))?;
        let (policy, admin) = (config.jws.policy(), directory.clone());
        Ok(Self {
            signatures: Signatures { policy, directory, signer },
            admin: AdminKeys { hub, directory: admin },
        })
    }
}

/// A file with a private key that signs, which may be replaced while the switch runs.
#[derive(Debug)]
pub(crate) struct SigningKeyFile {
    setting: &'static str,
    path: PathBuf,
    keys: Arc<HubKeys>,
    /// Why the file could not be used when it was last read.
    fault: Mutex<Option<String>>,
}

impl SigningKeyFile {
    /// The file of `jws.signing_key`, if it is set.
    pub(super) fn of_hub(config: &Config) -> Result<Option<Self>, CliError> {
        config.jws.signing_key.as_deref().map(|path| Self::open(SIGNING_KEY, path)).transpose()
    }

    /// Reads a file for the first time.
    pub(super) fn open(setting: &'static str, path: &Path) -> Result<Self, CliError> {
        let keys = read_key_file(setting, path).and_then(|text| {
            HubKeys::from_pem(text).map_err(|error| unusable(setting, path, error))
        })?;
        let (path, fault) = (path.to_owned(), Mutex::default());
        Ok(Self { setting, path, keys: Arc::new(keys), fault })
    }

    /// The keys as last read.
    pub(super) fn keys(&self) -> &HubKeys {
        &self.keys
    }

    /// Reads the file again. If it cannot be used, the keys stay. Returns whether it has changed.
    pub(super) fn reload(&self) -> Result<bool, CliError> {
        let replaced = read_key_file(self.setting, &self.path).and_then(|text| {
            self.keys.replace(text).map_err(|error| unusable(self.setting, &self.path, error))
        });
        *self.fault() = replaced.as_ref().err().map(ToString::to_string);
        replaced
    }

    /// Reads the file again and reports the result: with a signal always, with a timer a change.
    pub(super) fn reload_and_report(&self, is_asked: bool) {
        let before = self.fault().clone();
        match self.reload() {
            Ok(is_replaced) if is_replaced || is_asked => stdout::print_message(self.describe()),
            Ok(_) => {}
            Err(error) => {
                let error = error.to_string();
                if is_asked || before.as_ref() != Some(&error) {
                    tracing::error!(%error, "the key read before stays in use");
                }
            }
        }
    }

    /// Whether the file could not be used when it was last read.
    pub(super) fn has_failed(&self) -> bool {
        self.fault().is_some()
    }

    fn fault(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self) -> String {
        let keys = self.keys.published();
        let signing = keys.first().map(|key| key.fingerprint().to_string()).unwrap_or_default();
        format!("{}: key {signing} signs, {} keys are published", self.setting, keys.len())
    }
}

/// Checks the key files as [`Keys::open`] does, without starting threads.
pub(crate) fn check(config: &Config) -> Result<(), CliError> {
    if let Some(path) = &config.jws.keys {
        open_directory(path)?;
    }
    SigningKeyFile::of_hub(config)?;
    if let Some(path) = &config.chain_heads.key {
        SigningKeyFile::open("chain_heads.key", path)?;
    }
    Ok(())
}

/// Reloads the directory and reports the result.
pub(crate) async fn reload(directory: Arc<KeyDirectory>) {
    let reading = tokio::task::spawn_blocking(move || directory.reload());
    // An error means that the runtime ends, and the program with it.
    let Ok(ReloadReport { keys, participants, faults }) = reading.await else { return };
    for fault in faults {
        tracing::warn!(%fault, "jws.keys: the previous keys stay in force");
    }
    stdout::print_message(format_args!(
        "jws.keys: loaded {} of {}",
        counted(keys as u64, "key"),
        counted(participants as u64, "participant")
    ));
}

fn open_directory(path: &Path) -> Result<KeyDirectory, CliError> {
    KeyDirectory::open(path).map_err(|fault| {
        CliError::new(format!(
            "jws.keys: {fault}; it must be a directory of public keys as PEM files, <fspId>.pem \
             or <fspId>.<number>.pem; repair or remove the named file"
        ))
    })
}

/// Reads a file with a private key that a setting names.
fn read_key_file(setting: &str, path: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |what: String| failed(setting, path, &what);
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mode = file.metadata().map_err(|error| failed(error.to_string()))?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(failed(format!(
            "private key readable by all users (mode {:03o}); chmod 600 it, and replace the key if \
             others could have read it",
            mode & 0o777
        )));
    }
    let mut text = Vec::new();
    file.take(KEY_TEXT_BYTES_MAX as u64 + 1)
        .read_to_end(&mut text)
        .map_err(|error| failed(error.to_string()))?;
    Ok(text)
}

fn unusable(setting: &str, path: &Path, error: KeyError) -> CliError {
    let expected = "expected a PEM file without a password, with an RSA key of 2048 to 8192 bits \
                    or a P-256 key";
    failed(setting, path, &format!("{error}; {expected}"))
}

fn failed(setting: &str, path: &Path, what: &str) -> CliError {
    CliError::new(format!("{setting}: {}: {what}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(content: &str, mode: u32, expected: &str) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("hub.pem");
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        let error = SigningKeyFile::open(SIGNING_KEY, &path)
            .err()
            .map_or_else(String::new, |it| it.to_string());
        assert!(error.contains(expected), "{mode:o}: {error}");
        assert_eq!(error.is_empty(), expected.is_empty(), "{mode:o}: {error}");
        assert!(!error.contains("BEGIN"), "the error does not quote the file");
    }

    #[test]
    fn only_a_private_file_with_a_private_key_is_accepted() {
        let vectors = include_str!("../../../jws/tests/vectors/vectors.json");
        let vectors: serde_json::Value = serde_json::from_str(vectors).expect("JSON");
        let key = |name: &str, form: &str| vectors["keys"][name][form].as_str().expect("a text");
        check(key("rsa", "private"), 0o600, "");
        check(key("ec", "private"), 0o640, "");
        check(key("rsa", "private"), 0o604, "mode 604");
        let with = |more: &[&str]| format!("{}{}", key("ec", "private"), more.concat());
        let next = [key("rsa", "public"), key("rsa_next", "public")];
        check(&with(&next), 0o600, "");
        check(&with(&[key("short", "public")]), 0o600, "2048 to 8192");
        check(&with(&[key("rsa", "private")]), 0o600, "more than one key");
        check(key("rsa", "public"), 0o600, "holds no PEM block PRIVATE KEY");
        check(key("short", "private"), 0o600, "2048 to 8192 bits");
        check("", 0o600, "holds no PEM block PRIVATE KEY");
    }
}
