//! `upesi settlement`: windows and settlements of a running switch, through its admin API.

mod action;
mod api;
mod fees;
mod print;
mod steps;

use action::Action;
use api::{SettlementApi, State};
use fees::FeesCommand;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi settlement windows
  upesi settlement close --reason 'end of day'
  upesi settlement create --model DEFAULTDEFERREDNET --window 3
  upesi settlement advance 1 --to PS_TRANSFERS_COMMITTED
  upesi settlement fees add wallet --percentage 0.6 --initiator-type CONSUMER
  upesi settlement run --dry-run --token data/admin-token
  upesi settlement run --reason 'end of day' --token data/admin-token";

/// Arguments of `settlement`.
#[derive(clap::Args)]
pub(crate) struct SettlementArguments {
    #[command(subcommand)]
    command: SettlementCommand,
    #[command(flatten)]
    switch: AdminAddress,
    /// Print the answers of the switch as JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum SettlementCommand {
    /// List settlement windows, newest change first.
    Windows(WindowsArguments),
    /// Close a window; the next one opens in the same step.
    Close(CloseArguments),
    /// List settlements.
    List(ListArguments),
    /// Show a settlement with its participants and windows.
    Show(IdArgument),
    /// Create a settlement over closed windows.
    Create(CreateArguments),
    /// Move all accounts of a settlement, or those of one participant.
    Advance(AdvanceArguments),
    /// Abort a settlement; its windows can be settled again.
    Abort(AbortArguments),
    /// Close the open window and settle it with every model, in all steps.
    ///
    /// An interrupted run is continued by the next one: a window that is closed but not settled is
    /// settled, and a settlement that is not final is moved on.
    Run(RunArguments),
    /// List, add and switch the rules for interchange fees.
    #[command(subcommand)]
    Fees(FeesCommand),
}

#[derive(clap::Args)]
struct WindowsArguments {
    /// Only windows in this state.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
}

#[derive(clap::Args)]
struct CloseArguments {
    /// Number of the window [default: the open one].
    #[arg(value_name = "WINDOW")]
    window: Option<u32>,
    /// Reason, for participants and the audit trail.
    #[arg(long, value_name = "TEXT", default_value = "closed by the operator")]
    reason: String,
    /// Let the switch answer as it would, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
struct ListArguments {
    /// Only settlements in this state.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
}

#[derive(clap::Args)]
struct IdArgument {
    /// Number of the settlement.
    #[arg(value_name = "SETTLEMENT")]
    id: u32,
}

#[derive(clap::Args)]
struct CreateArguments {
    /// Name of the settlement model.
    #[arg(long, value_name = "NAME")]
    model: String,
    /// Number of a closed window; can be given several times.
    #[arg(long = "window", value_name = "WINDOW", required = true)]
    windows: Vec<u32>,
    /// Reason, for participants and the audit trail.
    #[arg(long, value_name = "TEXT", default_value = "created by the operator")]
    reason: String,
    /// Let the switch answer as it would, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
struct AdvanceArguments {
    #[command(flatten)]
    settlement: IdArgument,
    /// State to reach [default: the next one].
    ///
    /// One of `PS_TRANSFERS_RECORDED`, `PS_TRANSFERS_RESERVED`, `PS_TRANSFERS_COMMITTED` and
    /// `SETTLED`, which cannot be undone.
    #[arg(long, value_name = "STATE")]
    to: Option<String>,
    /// Only the accounts of this participant; one step.
    #[arg(long, value_name = "NAME")]
    participant: Option<String>,
    /// Reason, for participants and the audit trail.
    #[arg(long, value_name = "TEXT", default_value = "moved by the operator")]
    reason: String,
    /// Reference of the payment.
    #[arg(long, value_name = "TEXT")]
    reference: Option<String>,
    /// Let the switch answer as it would, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
struct AbortArguments {
    #[command(flatten)]
    settlement: IdArgument,
    /// Reason, for participants and the audit trail.
    #[arg(long, value_name = "TEXT", default_value = "aborted by the operator")]
    reason: String,
    /// Let the switch answer as it would, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
struct RunArguments {
    /// Reason, for participants and the audit trail.
    #[arg(long, value_name = "TEXT", default_value = "settlement run by the operator")]
    reason: String,
    /// Let the switch answer as it would, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn settlement(arguments: &SettlementArguments) -> Result<(), CliError> {
    let SettlementArguments { command, switch, json } = arguments;
    let mut api = SettlementApi::at(switch)?;
    if !command.is_dry_run() {
        return perform(&mut api, command, *json);
    }
    let name = api.begin_dry_run();
    let result = perform(&mut api, command, *json);
    SettlementApi::at(switch)?.end_dry_run(&name);
    result
}

fn perform(
    api: &mut SettlementApi,
    command: &SettlementCommand,
    json: bool,
) -> Result<(), CliError> {
    let answer = match command {
        SettlementCommand::Windows(WindowsArguments { state }) => {
            let windows = api.windows(state.as_deref())?;
            return print::windows(&windows, json);
        }
        SettlementCommand::List(ListArguments { state }) => {
            let settlements = api.settlements(state.as_deref())?;
            return print::settlements(&settlements, json);
        }
        SettlementCommand::Show(IdArgument { id }) => {
            let (settlement, accounts) = (api.exact_settlement(*id)?, api.accounts()?);
            return print::settlement(&settlement, &accounts, json);
        }
        SettlementCommand::Fees(command) => return fees::fees(api, command, json),
        SettlementCommand::Close(arguments) => close(api, arguments)?,
        SettlementCommand::Create(arguments) => create(api, arguments)?,
        SettlementCommand::Advance(arguments) => advance(api, arguments)?,
        SettlementCommand::Abort(arguments) => abort(api, arguments)?,
        SettlementCommand::Run(arguments) => steps::run(api, &arguments.reason)?,
    };
    print::actions(&answer, json);
    Ok(())
}

impl SettlementCommand {
    const fn is_dry_run(&self) -> bool {
        match self {
            Self::Windows(_) | Self::List(_) | Self::Show(_) => false,
            Self::Close(CloseArguments { dry_run, .. })
            | Self::Create(CreateArguments { dry_run, .. })
            | Self::Advance(AdvanceArguments { dry_run, .. })
            | Self::Abort(AbortArguments { dry_run, .. })
            | Self::Run(RunArguments { dry_run, .. }) => *dry_run,
            Self::Fees(command) => command.is_dry_run(),
        }
    }
}

fn close(api: &mut SettlementApi, arguments: &CloseArguments) -> Result<Vec<Action>, CliError> {
    let window = arguments.window.map_or_else(|| api.open_window(), Ok)?;
    let opened = api.close(window, &arguments.reason)?;
    Ok(vec![steps::closed(api, window, opened)])
}

fn create(api: &mut SettlementApi, arguments: &CreateArguments) -> Result<Vec<Action>, CliError> {
    let CreateArguments { model, windows, reason, .. } = arguments;
    let numbers: Vec<_> = windows.iter().map(u32::to_string).collect();
    let text = format!("a settlement of model {model} over windows {}", numbers.join(", "));
    let created = api.create(model, windows, reason)?;
    let made = format!("created settlement {}: {text}", created["id"]);
    Ok(vec![api.action(format!("create {text}"), made, created)])
}

fn advance(api: &mut SettlementApi, arguments: &AdvanceArguments) -> Result<Vec<Action>, CliError> {
    let target = arguments.to.as_deref().map(State::target).transpose()?;
    let id = arguments.settlement.id;
    let settlement = api.settlement(id)?;
    let before = State::of(&settlement)?;
    let is_over = before.is_final() && !target.is_some_and(|to| before.is_at_or_after(to));
    let to = target.or(before.next()).filter(|_| !is_over).ok_or_else(|| {
        CliError::new(format!("settlement {id}: it is {} and cannot be moved on", before.name()))
    })?;
    let reference = arguments.reference.as_deref();
    let change = steps::StepTexts { reason: &arguments.reason, reference };
    match &arguments.participant {
        Some(name) => steps::advance_one(api, &settlement, (name, to), change),
        None if before.is_at_or_after(to) => {
            let text = format!("settlement {id} is {} already", before.name());
            Ok(vec![Action::unchanged(text)])
        }
        None => steps::advance_to(api, settlement, to, change),
    }
}

fn abort(api: &mut SettlementApi, arguments: &AbortArguments) -> Result<Vec<Action>, CliError> {
    let id = arguments.settlement.id;
    let answer = api.abort(id, &arguments.reason)?;
    let (planned, made) = (format!("abort settlement {id}"), format!("aborted settlement {id}"));
    Ok(vec![api.action(planned, made, answer)])
}
