//! The switch that a command talks to, and how it proves who it is.

use std::path::PathBuf;

use harness::Admin;

use crate::CliError;

/// The address of a switch's admin API, and the token for it.
#[derive(Clone, clap::Args)]
pub(crate) struct AdminAddress {
    /// Address of the switch's admin API, http:// or https://.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001", global = true)]
    pub(crate) admin: String,
    /// Token file: of an operator, or admin-token [default: that of `upesi login`].
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) token: Option<PathBuf>,
}

impl AdminAddress {
    /// A client of the admin API.
    ///
    /// # Errors
    /// The address is invalid, or a file cannot be read.
    pub(crate) fn client(&self) -> Result<Admin, CliError> {
        Admin::at(&self.admin, self.token.as_deref())
            .map_err(|error| CliError::new(error.to_string()))
    }
}
