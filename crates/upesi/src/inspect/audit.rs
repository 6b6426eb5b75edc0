//! `upesi audit`: questions of an auditor about a log.

pub(crate) mod entries;
mod trail;
pub(crate) mod values;
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
    /// List administrative requests: changes, refused requests, reads of guarded data.
    ///
    /// Entries are records of the log. The newest are shown last. Needs the permission `audit`, or
    /// the data directory.
    #[command(after_help = trail::LIST_EXAMPLES)]
    List(trail::ListArguments),
    /// Show one administrative request.
    #[command(after_help = trail::SHOW_EXAMPLES)]
    Show(trail::ShowArguments),
    /// Write all administrative requests as JSON, one object per line, or as CSV.
    ///
    /// Each entry has the chain head of the log up to the record chainLogIndex. A signed chain head
    /// of that record contains it, which ties the entry to the signature.
    #[command(after_help = trail::EXPORT_EXAMPLES)]
    Export(trail::ExportArguments),
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
        AuditCommand::List(arguments) => trail::list(arguments),
        AuditCommand::Show(arguments) => trail::show(arguments),
        AuditCommand::Export(arguments) => trail::export(arguments),
        AuditCommand::Verify(arguments) => verify::run(arguments),
    }
}
