//! Loads the keys that the section `[jws]` of the configuration names.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use jws::{KEY_TEXT_BYTES_MAX, KeyDirectory, ReloadReport, SigningKey, VerificationKey};
use operations::AdminKeys;
use switch::{Signatures, Signer};

use crate::CliError;
use crate::cli::stdout;
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
    /// Reads the directory and the hub's own key, and starts the threads that sign with it.
    ///
    /// Fails if either cannot be used: without its keys a hub would refuse valid messages or send
    /// unsigned ones.
    pub(crate) fn open(config: &Config) -> Result<Self, CliError> {
        let directory = match &config.jws.keys {
            None => None,
            Some(path) => Some(Arc::new(open_directory(path)?)),
        };
        let (mut hub, mut signer) = (None, None);
        if let Some(path) = &config.jws.signing_key {
            let (key, public) = read_signing_key(SIGNING_KEY, path)?;
            hub = Some(public);
            let started = Signer::start(key, config.signing_threads());
            signer = Some(started.map_err(|error| {
                CliError::new(format!("cannot start a signing thread: {error}"))
            })?);
        }
        let (policy, admin) = (config.jws.policy(), directory.clone());
        Ok(Self {
            signatures: Signatures { policy, directory, signer },
            admin: AdminKeys { hub, directory: admin },
        })
    }
}

/// Checks the key files as [`Keys::open`] does, without starting threads.
pub(crate) fn check(config: &Config) -> Result<(), CliError> {
    if let Some(path) = &config.jws.keys {
        open_directory(path)?;
    }
    if let Some(path) = &config.jws.signing_key {
        read_signing_key(SIGNING_KEY, path)?;
    }
    if let Some(path) = &config.chain_heads.key {
        read_signing_key("chain_heads.key", path)?;
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
        "jws.keys: {keys} keys of {participants} participants loaded"
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

/// Reads the private key that a setting names.
pub(super) fn read_signing_key(
    setting: &str,
    path: &Path,
) -> Result<(SigningKey, VerificationKey), CliError> {
    let name = path.display();
    let failed = |what: String| CliError::new(format!("{setting}: {name}: {what}"));
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
    let parsed = SigningKey::from_pem(&text).and_then(|key| {
        let public = key.verification_key()?;
        Ok((key, public))
    });
    parsed.map_err(|error| {
        failed(format!(
            "{error}; expected a PEM file without a password, with an RSA key of 2048 to 8192 bits \
             or a P-256 key"
        ))
    })
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
        let error = read_signing_key(SIGNING_KEY, &path)
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
        check(key("rsa", "public"), 0o600, "holds no PEM block PRIVATE KEY");
        check(key("short", "private"), 0o600, "2048 to 8192 bits");
        check("", 0o600, "holds no PEM block PRIVATE KEY");
    }
}
