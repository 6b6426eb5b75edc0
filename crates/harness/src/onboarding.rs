//! Onboards the scheme at a hub through its admin API (hub-semantics 4.3: the usual order).
//!
//! Idempotent: existing objects are left unchanged.

use std::time::{Duration, Instant};

use ledger::{Amount, Currency};

use crate::admin::{Account, Admin};
use crate::error::HarnessError;
use crate::interrupt::Interrupt;
use crate::simulators::BoundFsp;

/// Net debit cap and funds of each FSP, in the currency's unit.
pub(crate) const FUNDS: u64 = 1_000_000_000;
const FUNDS_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// Creates hub accounts, the settlement model, and FSPs with limits, funds and endpoints.
pub fn onboard(
    admin: &mut Admin,
    currency: Currency,
    fsps: &[BoundFsp],
    interrupt: &Interrupt,
) -> Result<(), HarnessError> {
    for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
        let body = format!(r#"{{"currency":"{currency}","type":"{kind}"}}"#);
        admin.must("POST", "/participants/Hub/accounts", Some(&body), &[201, 400])?;
    }
    let model = r#"{"name":"DEFAULTDEFERREDNET","settlementGranularity":"NET",
        "settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED",
        "requireLiquidityCheck":true,"ledgerAccountType":"POSITION","autoPositionReset":true,
        "settlementAccountType":"SETTLEMENT"}"#;
    admin.must("POST", "/settlementModels", Some(model), &[201, 400])?;
    for fsp in fsps {
        interrupt.check()?;
        onboard_fsp(admin, currency, fsp, FUNDS)?;
    }
    fsps.iter().try_for_each(|fsp| wait_for_funds(admin, currency, fsp, interrupt))
}

/// Finds the account of a type.
pub fn account<'a>(accounts: &'a [Account], kind: &str, currency: Currency) -> Option<&'a Account> {
    accounts.iter().find(|it| it.kind == kind && it.currency == currency.as_str())
}

/// Creates one FSP with a net debit cap, funds and endpoints.
pub(crate) fn onboard_fsp(
    admin: &mut Admin,
    currency: Currency,
    fsp: &BoundFsp,
    cap: u64,
) -> Result<(), HarnessError> {
    let name = &fsp.name;
    let body = format!(r#"{{"name":"{name}","currency":"{currency}"}}"#);
    let fresh = admin.must("POST", "/participants", Some(&body), &[201, 400])?.status == 201;
    if fresh {
        let limit = format!(r#"{{"type":"NET_DEBIT_CAP","value":{cap}}}"#);
        let body = format!(r#"{{"currency":"{currency}","limit":{limit},"initialPosition":0}}"#);
        let path = format!("/participants/{name}/initialPositionAndLimits");
        admin.must("POST", &path, Some(&body), &[201])?;
        put_funds_in(admin, currency, name)?;
    }
    for (kind, value) in &fsp.endpoints {
        let body = format!(r#"{{"type":"{kind}","value":"{value}"}}"#);
        let path = format!("/participants/{name}/endpoints");
        admin.must("POST", &path, Some(&body), &[201])?;
    }
    Ok(())
}

fn put_funds_in(admin: &mut Admin, currency: Currency, name: &str) -> Result<(), HarnessError> {
    let accounts = admin.accounts(name)?;
    let Some(settlement) = account(&accounts, "SETTLEMENT", currency) else {
        return Err(HarnessError::Simulator {
            fsp: name.to_owned(),
            problem: "has no SETTLEMENT account".to_owned(),
        });
    };
    let transfer = funds_id(name);
    let amount = format!(r#"{{"amount":"{FUNDS}","currency":"{currency}"}}"#);
    let why = format!(r#""externalReference":"funds of {name}","reason":"funds""#);
    let what = format!(r#""action":"recordFundsIn","amount":{amount}"#);
    let body = format!(r#"{{"transferId":"{transfer}",{why},{what}}}"#);
    let path = format!("/participants/{name}/accounts/{}", settlement.id);
    admin.must("POST", &path, Some(&body), &[202])?;
    Ok(())
}

/// The reference books funds after its response, so the account is polled until it shows them.
fn wait_for_funds(
    admin: &mut Admin,
    currency: Currency,
    fsp: &BoundFsp,
    interrupt: &Interrupt,
) -> Result<(), HarnessError> {
    let deadline = Instant::now() + FUNDS_WITHIN;
    loop {
        let accounts = admin.accounts(&fsp.name)?;
        let settlement = account(&accounts, "SETTLEMENT", currency);
        if settlement.is_some_and(|account| account.value < Amount::ZERO) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(HarnessError::Simulator {
                fsp: fsp.name.clone(),
                problem: "the funds do not appear on its SETTLEMENT account".to_owned(),
            });
        }
        interrupt.pause(POLL)?;
    }
}

/// A UUID derived from the current time and the FSP.
fn funds_id(name: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    let (high, low) = (RandomState::new().hash_one(name), RandomState::new().hash_one(name));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_funds_are_valid_and_distinct() {
        let ids = [funds_id("a"), funds_id("a"), funds_id("b")];
        for id in &ids {
            assert!(ledger::TransferId::parse(id).is_some(), "{id}");
        }
        assert!(ids[0] != ids[1] && ids[1] != ids[2]);
    }
}
