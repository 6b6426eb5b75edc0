//! Funds in and out: `POST /participants/{name}/accounts/{id}` and
//! `PUT /participants/{name}/accounts/{id}/transfers/{transferId}` (hub-semantics 4.4).
//!
//! 202 means recorded and applied; what the account shows afterwards is final. The same request
//! again, white space apart, moves nothing and is 202 again.

use fspiop::{ErrorCode, Refusal, significant_hash};
use http::StatusCode;
use ledger::{
    AccountId, Change, Digest, EndFundsOut, FspName, FundsDirection, MoveFunds, TransferId,
};

use crate::accounts::account_id;
use crate::answer::{Answer, Reply};
use crate::call::{Call, participant_name};
use crate::form::{Form, TRANSFER_ID_FORM, refuse};

/// Longest external reference, in characters.
pub(crate) const REFERENCE_CHARACTERS_MAX: usize = 256;
/// Longest reason, in characters.
pub(crate) const REASON_CHARACTERS_MAX: usize = 1_024;
/// Most extensions of a request (hub-semantics 1.6).
pub(crate) const EXTENSIONS_MAX: usize = 16;

pub(crate) const STARTS: [(&str, FundsDirection); 2] =
    [("recordFundsIn", FundsDirection::In), ("recordFundsOutPrepareReserve", FundsDirection::Out)];
pub(crate) const ENDS: [(&str, bool); 2] =
    [("recordFundsOutCommit", true), ("recordFundsOutAbort", false)];

/// Funds in, or the reservation of funds out.
///
/// The external reference is recorded with the reason; extensions are checked and let go.
pub(crate) async fn start(call: &Call<'_>, name: &str, account: &str) -> Reply {
    let mut form = call.form()?;
    let id = form.required("transferId", Form::transfer_id)?;
    let reference = form.required("externalReference", |form, name| {
        form.text(name, 1..=REFERENCE_CHARACTERS_MAX)
    })?;
    let direction = form.required("action", |form, name| form.choice(name, &STARTS))?;
    let reason = form.required("reason", reason)?;
    let mut money = form.required("amount", Form::object)?;
    let amount = money.required("amount", Form::decimal_above_zero)?;
    let currency = money.required("currency", Form::currency)?;
    money.finish()?;
    check_extensions(&mut form)?;
    form.finish()?;
    let account = account_id(account)?;
    let name = participant_name(name)?;
    let hash = request_hash(call, &name, account);
    let funds = MoveFunds { id, name, account, direction, currency, amount, hash };
    let reason = format!("{reason} (externalReference {reference})");
    call.change_because(reason, Change::MoveFunds(funds)).await?;
    Ok(Answer::empty(StatusCode::ACCEPTED))
}

/// The end of a reserved outflow.
pub(crate) async fn end(call: &Call<'_>, name: &str, account: &str, transfer: &str) -> Reply {
    let mut form = call.form()?;
    let commit = form.required("action", |form, name| form.choice(name, &ENDS))?;
    let reason = form.required("reason", reason)?;
    form.finish()?;
    let Some(id) = TransferId::parse(transfer) else {
        return Err(refuse(ErrorCode::VALIDATION, "transferId", TRANSFER_ID_FORM));
    };
    let account = account_id(account)?;
    let name = participant_name(name)?;
    let hash = request_hash(call, &name, account);
    let end = EndFundsOut { id, name, account, commit, hash };
    call.change_because(reason, Change::EndFundsOut(end)).await?;
    Ok(Answer::empty(StatusCode::ACCEPTED))
}

/// Digest of whose account it is and of the body, by which a resend is recognised.
fn request_hash(call: &Call<'_>, name: &FspName, account: AccountId) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&account.0.to_le_bytes());
    hasher.update(&significant_hash(&call.body));
    hasher.update(name.as_str().as_bytes());
    Digest(*hasher.finalize().as_bytes())
}

fn reason(form: &mut Form<'_>, name: &str) -> Result<Option<String>, Refusal> {
    form.text(name, 1..=REASON_CHARACTERS_MAX)
}

fn check_extensions(form: &mut Form<'_>) -> Result<(), Refusal> {
    let Some(mut list) = form.object("extensionList")? else { return Ok(()) };
    let extensions = list.required("extension", Form::array)?;
    if EXTENSIONS_MAX < extensions.len() {
        let what = "must contain at most 16 items";
        return Err(refuse(ErrorCode::VALIDATION, "extensionList.extension", what));
    }
    list.finish()
}
