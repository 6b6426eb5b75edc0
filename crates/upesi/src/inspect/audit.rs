//! `upesi audit`: questions of an auditor about a log.

mod verify;

use crate::CliError;

/// Arguments of `audit`.
#[derive(clap::Args)]
pub(crate) struct AuditArguments {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(clap::Subcommand)]
enum AuditCommand {
    /// Compare a log with the chain heads that its switch signed.
    ///
    /// A chain head covers every byte of the log before it. The switch publishes one at intervals
    /// where its operators cannot delete them (`chain_heads` in the configuration). If the log
    /// matches them, nothing was changed, removed or inserted up to the last one.
    ///
    /// Only the log, the signed chain heads and the public key are needed: a copy of the log, made
    /// by `upesi restore`, is as good as the log itself. `upesi verify` checks in addition that
    /// the decisions in the log follow the rules.
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArguments),
}

pub(crate) fn run(arguments: &AuditArguments) -> Result<(), CliError> {
    match &arguments.command {
        AuditCommand::Verify(arguments) => verify::run(arguments),
    }
}
