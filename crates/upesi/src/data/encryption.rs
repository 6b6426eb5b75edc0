//! Finds the master key of an encrypted data directory and opens its data keys.
//!
//! All commands look in the same places: `--encryption-key`, then the environment variable
//! [`KEY_VARIABLE`], then `encryption.key` of the settings file if the command reads one. A place
//! names the *source* of the key, never the key itself: `file:PATH`, `env:NAME`, `command:PROGRAM
//! ARGUMENTS` or `pkcs11:…`.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use encryption::{
    KEY_FILE, KeyFile, Keyring, LocalKey, MasterKey, MasterKeyError, MasterKeys, SourcedKey,
    TokenKey,
};
use journal::{RealDisk, TieredDisk};
use ports::Cipher;

use crate::CliError;
use crate::config::Encryption;

/// Environment variable with the source of the master key.
const KEY_VARIABLE: &str = "UPESI_ENCRYPTION_KEY";
/// Environment variable with the source of the master key before a change.
const PREVIOUS_KEY_VARIABLE: &str = "UPESI_ENCRYPTION_PREVIOUS_KEY";

/// The source on the command line.
static ARGUMENT: OnceLock<String> = OnceLock::new();

/// Use of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing is written. Unencrypted parts are readable without a key.
    Read,
    /// New content would be unencrypted without a key, so that a missing key is an error.
    Write,
}

/// Data keys of a directory.
pub(crate) type DataKeys = Keyring<RealDisk>;

/// Keeps the source on the command line.
pub(crate) fn note_argument(source: Option<String>) {
    if let Some(source) = source {
        // A process has one command line.
        let _noted = ARGUMENT.set(source);
    }
}

/// The source on the command line, for a program that this one starts.
pub(crate) fn argument() -> Option<String> {
    ARGUMENT.get().cloned()
}

/// Adds the cipher to a disk, if a master key is given. Returns the data keys too.
///
/// # Errors
/// The key cannot be read, is not that of this directory, or is missing.
pub(crate) fn unlock(
    disk: TieredDisk<RealDisk>,
    access: Access,
    settings: Option<&Encryption>,
) -> Result<(TieredDisk<RealDisk>, Option<DataKeys>), CliError> {
    let participants = settings.map_or_else(|| Ok(Vec::new()), Encryption::participants)?;
    let Some(masters) = master_keys(settings)? else {
        if !participants.is_empty() {
            return Err(CliError::new(
                "encryption.participant_keys needs a master key: name it with encryption.key",
            ));
        }
        if access == Access::Write {
            refuse_without_key(disk.below())?;
        }
        return Ok((disk, None));
    };
    let keys = Keyring::with_participants(disk.below().clone(), masters, participants);
    let keys = keys.map_err(failure)?;
    let cipher: Arc<dyn Cipher> = Arc::new(keys.clone());
    Ok((disk.with_cipher(Some(cipher)), Some(keys)))
}

/// [`unlock`] for a command that reads no settings file and needs the disk alone.
pub(crate) fn unlocked(
    disk: TieredDisk<RealDisk>,
    access: Access,
) -> Result<TieredDisk<RealDisk>, CliError> {
    unlock(disk, access, None).map(|(disk, _)| disk)
}

fn refuse_without_key(disk: &RealDisk) -> Result<(), CliError> {
    let Some(file) = KeyFile::read(disk).map_err(failure)? else { return Ok(()) };
    let Some(newest) = file.keys.last() else { return Ok(()) };
    Err(CliError::new(format!(
        "{KEY_FILE}: this directory is encrypted with master key {}, and no master key is given; \
         name it with encryption.key in the settings file, with --encryption-key or with \
         {KEY_VARIABLE}",
        newest.master
    )))
}

/// The given master keys; `None` if there is no key.
pub(crate) fn master_keys(settings: Option<&Encryption>) -> Result<Option<MasterKeys>, CliError> {
    let key = ARGUMENT.get().map(|source| ("--encryption-key", source.clone()));
    let key = key.or_else(|| from_environment(KEY_VARIABLE));
    let of_settings = |source: &String| ("encryption.key", source.clone());
    let key = key.or_else(|| settings.and_then(|it| it.key.as_ref().map(of_settings)));
    let previous = from_environment(PREVIOUS_KEY_VARIABLE);
    let of_settings = |source: &String| ("encryption.previous_key", source.clone());
    let previous =
        previous.or_else(|| settings.and_then(|it| it.previous_key.as_ref().map(of_settings)));
    let open = |(place, source): (&'static str, String)| open_source(place, &source);
    let Some(current) = key.map(open).transpose()? else { return Ok(None) };
    Ok(Some(MasterKeys { current, previous: previous.map(open).transpose()? }))
}

/// The master key before a change, named on the command line.
pub(crate) fn previous_from(source: &str) -> Result<Arc<dyn MasterKey>, CliError> {
    open_source("--previous-key", source)
}

fn from_environment(name: &'static str) -> Option<(&'static str, String)> {
    let source = std::env::var(name).ok().filter(|source| !source.is_empty())?;
    Some((name, source))
}

/// Opens the master key of a source.
fn open_source(place: &str, source: &str) -> Result<Arc<dyn MasterKey>, CliError> {
    let failed = |what: &dyn Display| CliError::new(format!("{place}: {what}"));
    let sourced = |key: Result<SourcedKey, MasterKeyError>| match key {
        Ok(key) => Ok(Arc::new(key) as Arc<dyn MasterKey>),
        Err(error) => Err(failed(&error)),
    };
    match source.split_once(':') {
        Some(("file", path)) => sourced(SourcedKey::from_file(Path::new(path))),
        Some(("command", text)) => sourced(SourcedKey::from_command(text)),
        Some(("env", name)) => {
            let text = std::env::var(name)
                .map_err(|_| failed(&format!("environment variable {name} is not set")))?;
            let key = LocalKey::parse(&text);
            Ok(Arc::new(key.map_err(|error| failed(&format!("{name}: {error}")))?))
        }
        Some(("pkcs11", uri)) => match TokenKey::open(uri) {
            Ok(key) => Ok(Arc::new(key)),
            Err(error) => Err(failed(&error)),
        },
        // The text may be a key that was given by mistake; it is not repeated.
        _ => Err(failed(&"expected file:PATH, env:NAME, command:PROGRAM ARGUMENTS or pkcs11:URI")),
    }
}

fn failure(error: impl Display) -> CliError {
    CliError::new(error.to_string())
}
