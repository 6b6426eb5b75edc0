//! Steps of settlements: one participant, all accounts, or a whole run.

use serde_json::{Value, json};

use super::action::Action;
use super::api::{SettlementApi, State};
use crate::CliError;

/// Texts of a request that moves accounts.
#[derive(Clone, Copy)]
pub(super) struct StepTexts<'a> {
    pub(super) reason: &'a str,
    pub(super) reference: Option<&'a str>,
}

/// Moves the accounts of one participant to a state.
pub(super) fn advance_one(
    api: &mut SettlementApi,
    settlement: &Value,
    (name, to): (&str, State),
    texts: StepTexts<'_>,
    dry_run: bool,
) -> Result<Vec<Action>, CliError> {
    let owners = api.accounts()?;
    let is_owned = |account: &Value| {
        let owner = owners.get(&account["id"].as_u64().unwrap_or_default());
        owner.is_some_and(|owner| owner.participant == name)
    };
    let participants = steps_of(settlement, to, texts, is_owned);
    let id = settlement["id"].as_u64().unwrap_or_default();
    if participants.is_empty() {
        return Err(CliError::new(format!("settlement {id}: {name} has no account in it")));
    }
    let text = format!("{name} in settlement {id} to {}", to.name());
    if dry_run {
        return Ok(vec![Action::planned(format!("move {text}"))]);
    }
    let answer = moved(api.advance(id, &Value::Array(participants))?)?;
    Ok(vec![Action::new(format!("moved {text}"), answer)])
}

/// Moves all accounts of a settlement, step by step, up to a state.
pub(super) fn advance_to(
    api: &mut SettlementApi,
    mut settlement: Value,
    to: State,
    texts: StepTexts<'_>,
    dry_run: bool,
) -> Result<Vec<Action>, CliError> {
    let id = settlement["id"].as_u64().unwrap_or_default();
    let mut state = State::of(&settlement)?;
    let mut actions = Vec::new();
    while state < to {
        let Some(next) = state.next() else { break };
        let text = format!("settlement {id} to {}", next.name());
        if dry_run {
            actions.push(Action::planned(format!("move {text}")));
            state = next;
            continue;
        }
        let participants = steps_of(&settlement, next, texts, |_| true);
        let answer = moved(api.advance(id, &Value::Array(participants))?)?;
        actions.push(Action::new(format!("moved {text}"), answer));
        settlement = api.settlement(id as u32)?;
        let reached = State::of(&settlement)?;
        if reached == state {
            return Err(CliError::new(format!("settlement {id}: it stays {}", state.name())));
        }
        state = reached;
    }
    Ok(actions)
}

/// Closes the open window, unless it is empty, and settles all windows with every model.
pub(super) fn run(
    api: &mut SettlementApi,
    reason: &str,
    dry_run: bool,
) -> Result<Vec<Action>, CliError> {
    let texts = StepTexts { reason, reference: None };
    let mut actions = close_open(api, reason, dry_run)?;
    for settlement in api.settlements(None)? {
        if !State::of(&settlement)?.is_final() {
            let last = State::parse("SETTLED")?;
            actions.extend(advance_to(api, settlement, last, texts, dry_run)?);
        }
    }
    for model in api.net_models()? {
        actions.extend(settle(api, &model, texts, dry_run)?);
    }
    Ok(actions)
}

fn close_open(
    api: &mut SettlementApi,
    reason: &str,
    dry_run: bool,
) -> Result<Vec<Action>, CliError> {
    let window = api.open_window()?;
    if dry_run {
        return Ok(vec![Action::planned(format!("close window {window}, unless it is empty"))]);
    }
    match api.close(window, reason) {
        Ok(opened) => {
            let next = &opened["settlementWindowId"];
            let text = format!("closed window {window}; window {next} is open");
            Ok(vec![Action::new(text, opened)])
        }
        Err(error) if error.to_string().ends_with("is empty") => {
            let text = format!("window {window} has no transfers and stays open");
            Ok(vec![Action::new(text.clone(), json!({ "kept": text }))])
        }
        Err(error) => Err(error),
    }
}

/// Settles the windows that a model can settle.
fn settle(
    api: &mut SettlementApi,
    model: &str,
    texts: StepTexts<'_>,
    dry_run: bool,
) -> Result<Vec<Action>, CliError> {
    let mut windows = Vec::new();
    for state in ["CLOSED", "ABORTED", "PENDING_SETTLEMENT"] {
        windows.extend(api.windows(Some(state))?);
    }
    if dry_run {
        // A run would have closed it before.
        windows.extend(api.windows(Some("OPEN"))?);
    }
    let mut ids: Vec<u32> = windows
        .iter()
        .filter_map(|window| window["settlementWindowId"].as_u64())
        .filter_map(|id| u32::try_from(id).ok())
        .collect();
    ids.sort_unstable();
    let mut actions = Vec::new();
    for id in ids {
        if dry_run {
            let text = format!("settle window {id} with model {model}, if it serves the window");
            actions.push(Action::planned(text));
            continue;
        }
        match api.create(model, &[id], texts.reason) {
            Ok(created) => {
                let text = format!("created settlement {}: {model}, window {id}", created["id"]);
                actions.push(Action::new(text, created.clone()));
                let last = State::parse("SETTLED")?;
                actions.extend(advance_to(api, created, last, texts, false)?);
            }
            // The model serves nothing in this window, or all of it is settled already.
            Err(error) if error.to_string().contains("Inapplicable windows") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(actions)
}

/// The list of a request that moves the chosen accounts.
fn steps_of(
    settlement: &Value,
    to: State,
    texts: StepTexts<'_>,
    is_chosen: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    let step = |account: &Value| {
        let mut step = json!({
            "id": account["id"],
            "state": to.name(),
            "reason": texts.reason,
        });
        if let Some(reference) = texts.reference {
            step["externalReference"] = json!(reference);
        }
        step
    };
    let participants = settlement["participants"].as_array().into_iter().flatten();
    let chosen = participants.filter_map(|participant| {
        let accounts = participant["accounts"].as_array()?.iter();
        let accounts: Vec<_> = accounts.filter(|account| is_chosen(account)).map(step).collect();
        let is_any = !accounts.is_empty();
        is_any.then(|| json!({ "id": participant["id"], "accounts": accounts }))
    });
    chosen.collect()
}

/// The answer, unless an account could not be moved.
fn moved(answer: Value) -> Result<Value, CliError> {
    let participants = answer["participants"].as_array().into_iter().flatten();
    let accounts = participants.flat_map(|it| it["accounts"].as_array().into_iter().flatten());
    let faults: Vec<_> = accounts
        .filter_map(|account| {
            let fault = account["errorInformation"]["errorDescription"].as_str()?;
            Some(format!("account {}: {fault}", account["id"]))
        })
        .collect();
    match faults.is_empty() {
        true => Ok(answer),
        false => Err(CliError::new(faults.join("; "))),
    }
}
