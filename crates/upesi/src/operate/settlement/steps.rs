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
    let is_there = accounts_of(settlement).filter(|it| is_owned(it)).all(|it| is_in(it, to));
    let answer = moved(api.advance(id, &Value::Array(participants))?)?;
    if is_there {
        let text = format!(
            "{name} in settlement {id} is {} already; only reason and reference are new",
            to.name()
        );
        return Ok(vec![Action::unchanged(text)]);
    }
    let text = format!("{name} in settlement {id} to {}", to.name());
    Ok(vec![api.action(format!("move {text}"), format!("moved {text}"), answer)])
}

/// Moves all accounts of a settlement, step by step, up to a state. Steps that another client makes
/// meanwhile are left to it.
pub(super) fn advance_to(
    api: &mut SettlementApi,
    mut settlement: Value,
    to: State,
    texts: StepTexts<'_>,
) -> Result<Vec<Action>, CliError> {
    let id = settlement["id"].as_u64().unwrap_or_default();
    let mut state = State::of(&settlement)?;
    let mut actions = Vec::new();
    while state < to {
        let Some(next) = state.next() else { break };
        let text = format!("settlement {id} to {}", next.name());
        let participants = steps_of(&settlement, next, texts, |_| true);
        let answer = api.advance(id, &Value::Array(participants)).and_then(moved);
        settlement = api.settlement(id as u32)?;
        let reached = State::of(&settlement)?;
        match answer {
            Ok(answer) if reached != state => {
                actions.push(api.action(format!("move {text}"), format!("moved {text}"), answer));
            }
            Ok(_) => {
                return Err(CliError::new(format!("settlement {id}: it stays {}", state.name())));
            }
            Err(error) if reached == state => return Err(error),
            Err(_) => {
                let name = reached.name();
                let text = format!("settlement {id} is {name}: another client has moved it");
                actions.push(Action::unchanged(text));
            }
        }
        state = reached;
    }
    Ok(actions)
}

/// Closes the open window, unless it is empty, and settles all windows with every model.
pub(super) fn run(api: &mut SettlementApi, reason: &str) -> Result<Vec<Action>, CliError> {
    let texts = StepTexts { reason, reference: None };
    let mut actions = vec![close_open(api, reason)?];
    actions.extend(finish_all(api, texts)?);
    for model in api.net_models()? {
        actions.extend(settle(api, &model, texts)?);
    }
    // Another client may have created some meanwhile.
    actions.extend(finish_all(api, texts)?);
    Ok(actions)
}

/// Moves all settlements that are not final.
fn finish_all(api: &mut SettlementApi, texts: StepTexts<'_>) -> Result<Vec<Action>, CliError> {
    let mut actions = Vec::new();
    for settlement in api.settlements(None)? {
        if !State::of(&settlement)?.is_final() {
            let last = State::parse("SETTLED")?;
            actions.extend(advance_to(api, settlement, last, texts)?);
        }
    }
    Ok(actions)
}

fn close_open(api: &mut SettlementApi, reason: &str) -> Result<Action, CliError> {
    let window = api.open_window()?;
    match api.close(window, reason) {
        Ok(opened) => Ok(closed(api, window, opened)),
        Err(error) if error.to_string().ends_with("is empty") => {
            Ok(Action::unchanged(format!("window {window} has no transfers and stays open")))
        }
        Err(error) if error.to_string().ends_with("is not open") => Ok(Action::unchanged(format!(
            "window {window} is closed: another client has closed it"
        ))),
        Err(error) => Err(error),
    }
}

/// The action that has closed a window.
pub(super) fn closed(api: &SettlementApi, window: u32, opened: Value) -> Action {
    let made = format!("closed window {window}; window {} is open", opened["settlementWindowId"]);
    api.action(format!("close window {window}"), made, opened)
}

/// Settles the windows that a model can settle.
fn settle(
    api: &mut SettlementApi,
    model: &str,
    texts: StepTexts<'_>,
) -> Result<Vec<Action>, CliError> {
    let mut windows = Vec::new();
    for state in ["CLOSED", "ABORTED", "PENDING_SETTLEMENT"] {
        windows.extend(api.windows(Some(state))?);
    }
    let mut ids: Vec<u32> = windows
        .iter()
        .filter_map(|window| window["settlementWindowId"].as_u64())
        .filter_map(|id| u32::try_from(id).ok())
        .collect();
    ids.sort_unstable();
    let mut actions = Vec::new();
    for id in ids {
        match api.create(model, &[id], texts.reason) {
            Ok(created) => {
                let made = format!("created settlement {}: {model}, window {id}", created["id"]);
                let planned = format!("create a settlement: {model}, window {id}");
                actions.push(api.action(planned, made, created.clone()));
                let last = State::parse("SETTLED")?;
                actions.extend(advance_to(api, created, last, texts)?);
            }
            // The model serves nothing in this window, or all of it is settled already.
            Err(error) if error.to_string().contains("Inapplicable windows") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(actions)
}

fn accounts_of(settlement: &Value) -> impl Iterator<Item = &Value> {
    let participants = settlement["participants"].as_array().into_iter().flatten();
    participants.flat_map(|it| it["accounts"].as_array().into_iter().flatten())
}

fn is_in(account: &Value, state: State) -> bool {
    account["state"] == state.name()
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
    let faults: Vec<_> = accounts_of(&answer)
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
