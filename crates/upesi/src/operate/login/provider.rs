//! Access tokens of an OpenID provider, for `upesi login --issuer`.

use std::path::{Path, PathBuf};

use identity::{DeviceCode, ProviderClient, ProviderError, TokenRequest};
use tokio::runtime::Builder;

use crate::CliError;
use crate::cli::password;
use crate::cli::session::Renewal;

/// The environment variable with the client's secret.
const SECRET_VARIABLE: &str = "UPESI_CLIENT_SECRET";

/// The provider and its client.
#[derive(clap::Args)]
pub(crate) struct ProviderArguments {
    /// Issuer of an OpenID provider: log in there instead of with a password.
    ///
    /// A client with a secret gets a token for itself (client credentials). Without a secret, a
    /// person enters a code at the provider (device code).
    #[arg(long, value_name = "URL", requires = "client_id", conflicts_with_all = ["name", "code"])]
    pub(super) issuer: Option<String>,
    /// Name of the client at the provider.
    #[arg(long, value_name = "ID", requires = "issuer")]
    client_id: Option<String>,
    /// File with the client's secret, instead of the variable UPESI_CLIENT_SECRET.
    #[arg(long, value_name = "FILE", requires = "issuer")]
    client_secret_file: Option<PathBuf>,
    /// Requested scopes, with spaces between them.
    #[arg(long, value_name = "SCOPES", requires = "issuer")]
    scope: Option<String>,
    /// Requested audience: the value of admin.oidc_audience.
    #[arg(long, value_name = "AUDIENCE", requires = "issuer")]
    audience: Option<String>,
    /// Authorities of the provider's certificate, in PEM [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "issuer")]
    issuer_ca: Option<PathBuf>,
}

impl ProviderArguments {
    /// The access token of the client, or of the person who enters the code.
    ///
    /// # Errors
    /// The provider refused, or gave no usable answer.
    pub(super) fn session(&self, issuer: &str) -> Result<ProviderSession, CliError> {
        let request = TokenRequest {
            issuer: issuer.to_owned(),
            client_id: self.client_id.clone().unwrap_or_default(),
            client_secret: secret(self.client_secret_file.as_deref())?,
            scope: self.scope.clone(),
            audience: self.audience.clone(),
        };
        let failed = |error: ProviderError| CliError::new(format!("{issuer}: {error}"));
        let client = ProviderClient::new("issuer", self.issuer_ca.clone()).map_err(failed)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CliError::new(error.to_string()))?;
        let tokens = match request.client_secret {
            Some(_) => runtime.block_on(client.client_token(&request)),
            None => runtime.block_on(client.device_token(&request, show)),
        };
        let tokens = tokens.map_err(failed)?;
        // A client with a secret logs in again by itself: its secret is stored nowhere.
        let is_person = request.client_secret.is_none();
        let renewal = Renewal::new(&request, self.issuer_ca.as_deref(), &tokens);
        Ok(ProviderSession { token: tokens.access, renewal: renewal.filter(|_| is_person) })
    }
}

/// An access token, and how it is renewed.
pub(super) struct ProviderSession {
    pub(super) token: String,
    pub(super) renewal: Option<Renewal>,
}

fn show(code: &DeviceCode) {
    eprintln!("open {} and enter the code {}", code.verification_uri, code.user_code);
}

fn secret(file: Option<&Path>) -> Result<Option<String>, CliError> {
    match file {
        Some(_) => password::read("client secret", file).map(Some),
        None => Ok(std::env::var(SECRET_VARIABLE).ok().filter(|secret| !secret.is_empty())),
    }
}
