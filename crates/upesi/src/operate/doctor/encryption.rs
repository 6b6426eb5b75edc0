//! Encryption at rest: an unfinished change of the master key, and files that stay plain.

use std::path::Path;

use encryption::{KEY_FILE, KeyFile};
use journal::RealDisk;

use super::finding::Finding;
use crate::cli::units::counted;
use crate::config::Config;
use crate::data::encryption::master_keys;

const CHECK: &str = "encryption";

/// Whether all data keys are wrapped by the master key; nothing without data keys.
pub(super) fn rotation(config: &Config, data: &Path) -> Option<Finding> {
    let failed = |error: String| {
        let remedy = "run doctor as the user of the switch; see docs/security/encryption.md";
        Finding::warning(CHECK, error, remedy)
    };
    let disk = RealDisk::open_live(data).ok()?;
    let keys = match KeyFile::read(&disk) {
        Ok(file) => file?.keys,
        Err(error) => return Some(failed(error.to_string())),
    };
    let master = match master_keys(Some(&config.encryption)) {
        Ok(Some(masters)) => masters.current.name().to_owned(),
        // The newest data key was wrapped by the master key of that time.
        Ok(None) => keys.last()?.master.clone(),
        Err(error) => return Some(failed(error.to_string())),
    };
    let others = keys.iter().filter(|key| key.master != master).count();
    if others == 0 {
        let all = counted(keys.len() as u64, "data key");
        return Some(Finding::ok(CHECK, format!("{all}, wrapped by master key {master}")));
    }
    let found = format!(
        "change of the master key to {master} not finished: another one wraps {others} of {} in \
         {KEY_FILE}",
        counted(keys.len() as u64, "data key")
    );
    let remedy = format!(
        "stop the switch; upesi keys rewrap --data {} --encryption-key NEW --previous-key OLD",
        data.display()
    );
    Some(Finding::warning(CHECK, found, remedy))
}

/// Files with personal data that are written without encryption, although the log is encrypted.
pub(super) fn plain_files(config: &Config, data: &Path) -> Option<Finding> {
    let is_encrypted = config.encryption.key.is_some() || data.join(KEY_FILE).exists();
    let file = config.logging.audit_file.as_deref().filter(|_| is_encrypted)?;
    let found = format!("logging.audit_file {} is not encrypted", file.display());
    let remedy = "encrypt its disk, or remove the setting: the log has the audit trail too";
    Some(Finding::warning(CHECK, found, remedy))
}
