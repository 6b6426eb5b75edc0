//! The switch that a command talks to, and the files that both sides prove themselves with.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use harness::{Admin, HarnessError, session_file};
use tls::{ClientFiles, ClientTls, HandshakeFault, MinimumVersion};

use crate::CliError;
use crate::cli::session;
use crate::cli::terminal::show_wide_tables;

/// Names the file of authorities, like `--ca`.
const CA_VARIABLE: &str = "UPESI_CA";

/// The address of a switch's admin API, the token for it, and the files for TLS.
#[derive(Clone, clap::Args)]
pub(crate) struct AdminAddress {
    /// Address of the switch's admin API, http:// or https://.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001", global = true)]
    pub(crate) admin: String,
    /// Token file: of an operator, or admin-token [default: that of `upesi login`].
    ///
    /// Without it, the environment variable UPESI_TOKEN has the token, then the session of
    /// `upesi login`.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) token: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: TlsFiles,
    /// Show complete tables, like `--output wide`.
    #[arg(long, global = true)]
    wide: bool,
}

/// The files for an `https://` address.
#[derive(Clone, clap::Args)]
pub(crate) struct TlsFiles {
    /// Authorities of an https:// address, in PEM.
    ///
    /// Default: the file that the environment variable UPESI_CA names, then that of `upesi login`,
    /// then the authorities of the system.
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// Certificate and private key to present to an https:// address, in one PEM file.
    #[arg(long, value_name = "FILE", global = true)]
    client_certificate: Option<PathBuf>,
}

impl AdminAddress {
    /// A client of the admin API with the token.
    ///
    /// # Errors
    /// The address is invalid, a file cannot be read, or the stored session has ended.
    pub(crate) fn client(&self) -> Result<Admin, CliError> {
        if self.wide {
            show_wide_tables();
        }
        if self.token.is_none() && harness::token_of_environment().is_none() {
            session::renew(&self.admin)?;
        }
        self.files.apply(&self.admin, Admin::at(&self.admin, self.token.as_deref())?)
    }
}

impl TlsFiles {
    /// Uses the files if the address begins with `https://`.
    ///
    /// # Errors
    /// A file cannot be used, or was named for an address without TLS.
    pub(crate) fn apply(&self, url: &str, admin: Admin) -> Result<Admin, CliError> {
        if !url.starts_with("https://") {
            let named = [("--ca", &self.ca), ("--client-certificate", &self.client_certificate)];
            return match named.iter().find(|(_, file)| file.is_some()) {
                Some((option, _)) => {
                    Err(CliError::new(format!("{option}: {url} is not encrypted; use https://")))
                }
                None => Ok(admin),
            };
        }
        let certificate = self.client_certificate.as_ref();
        let files = ClientFiles {
            section: "admin",
            certificate: certificate.map(|file| (file.clone(), file.clone())),
            ca: self.ca(url),
            ca_directory: None,
            crl: None,
            minimum: MinimumVersion::Tls12,
            protocols: &[],
        };
        let tls = ClientTls::open(files).map_err(|error| self.named(&error))?;
        Ok(admin.over_tls(Arc::new(tls)))
    }

    /// The file with the authorities of an address; `None` for those of the system.
    pub(crate) fn ca(&self, url: &str) -> Option<PathBuf> {
        let variable = || env::var_os(CA_VARIABLE).filter(|value| !value.is_empty());
        let stored = || authorities_file(&session_file(url)?).filter(|file| file.exists());
        self.ca.clone().or_else(|| variable().map(PathBuf::from)).or_else(stored)
    }

    /// An error about a file, with the name of the option or of the variable.
    fn named(&self, error: &tls::TlsFileError) -> CliError {
        let is_own = self.client_certificate.as_ref() == Some(&error.path);
        let source = match (is_own, self.ca.is_some()) {
            (true, _) => "--client-certificate",
            (_, true) => "--ca",
            (_, false) => CA_VARIABLE,
        };
        CliError::new(format!("{source}: {}: {}", error.path.display(), error.reason))
    }
}

/// The file next to a stored session with the authorities that `upesi login` trusted.
pub(crate) fn authorities_file(session: &Path) -> Option<PathBuf> {
    let mut name = session.file_name()?.to_owned();
    name.push(".ca.pem");
    Some(session.with_file_name(name))
}

impl From<HarnessError> for CliError {
    fn from(error: HarnessError) -> Self {
        let text = error.to_string();
        let hint = match text.ends_with(HandshakeFault::Untrusted.text()) {
            true => "; use --ca FILE",
            false => "",
        };
        Self::new(text + hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(ca: Option<&str>) -> TlsFiles {
        TlsFiles { ca: ca.map(PathBuf::from), client_certificate: None }
    }

    #[test]
    fn unusable_files_are_named() {
        let refused = |files: &TlsFiles, url: &str| {
            let admin = Admin::at("http://127.0.0.1:1", None).expect("an address");
            files.apply(url, admin).map(drop).expect_err("refused").to_string()
        };
        let plain = refused(&files(Some("ca.pem")), "http://127.0.0.1:1");
        assert_eq!(plain, "--ca: http://127.0.0.1:1 is not encrypted; use https://");
        let missing = refused(&files(Some("/nowhere/ca.pem")), "https://127.0.0.1:1");
        assert!(missing.starts_with("--ca: /nowhere/ca.pem: "), "{missing}");
        let own = TlsFiles { client_certificate: Some("/nowhere/me.pem".into()), ..files(None) };
        let own = refused(&own, "https://127.0.0.1:1");
        assert!(own.starts_with("--client-certificate: /nowhere/me.pem: "), "{own}");
    }

    #[test]
    fn unknown_authorities_have_a_hint() {
        let error = |fault: HandshakeFault| HarnessError::Admin {
            request: "GET https://127.0.0.1:1/health".to_owned(),
            problem: format!("TLS: {}", fault.text()),
        };
        let text = CliError::from(error(HandshakeFault::Untrusted)).to_string();
        assert!(text.ends_with("not issued by a trusted authority; use --ca FILE"), "{text}");
        for fault in [HandshakeFault::WrongName, HandshakeFault::Expired] {
            assert!(CliError::from(error(fault)).to_string().ends_with(fault.text()));
        }
    }
}
