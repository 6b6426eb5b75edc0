//! Funds in and out: `POST /participants/{name}/accounts/{id}` and
//! `PUT /participants/{name}/accounts/{id}/transfers/{transferId}` (hub-semantics 4.4).
//! Corrections: `POST /participants/{name}/accounts/{id}/adjustments`.
//!
//! 202 means recorded and applied; the account's balance is final then. An identical request,
//! apart from white space, moves no funds and gets 202 again.

use fspiop::{ErrorCode, Refusal, body_hash};
use http::StatusCode;
use ledger::{
    AccountId, AdjustBalance, Amount, Currency, Digest, EndFundsOut, FspName, FundsDirection,
    MoveFunds, TransferId,
};
use openapi::schema::reference;
use serde_json::json;

use crate::accounts::ACCOUNT;
use crate::body::{
    CURRENCY, Choice, Custom, Decimal, Described, Object, Optional, TRANSFER_ID, Text, body,
};
use crate::body_reader::{BodyReader, TRANSFER_ID_FORM, refuse};
use crate::participants::NAME;
use crate::request::{AdminRequest, EXAMPLE_TRANSFER};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};

/// Longest external reference, in characters.
const REFERENCE_CHARACTERS_MAX: usize = 256;
/// Longest reason, in characters.
const REASON_CHARACTERS_MAX: usize = 1_024;
/// Maximum number of extensions of a request (hub-semantics 1.6).
const EXTENSIONS_MAX: usize = 16;

const STARTS: [(&str, FundsDirection); 2] =
    [("recordFundsIn", FundsDirection::In), ("recordFundsOutPrepareReserve", FundsDirection::Out)];
const ENDS: [(&str, bool); 2] = [("recordFundsOutCommit", true), ("recordFundsOutAbort", false)];

/// The funds-out transfer in a path.
const OUTFLOW: Parameter<TransferId> = Parameter::new(
    "transferId",
    "The `transferId` of the funds-out reservation.",
    || reference("TransferId"),
    |text| {
        let wrong = || refuse(ErrorCode::VALIDATION, "transferId", TRANSFER_ID_FORM);
        TransferId::parse(text).ok_or_else(wrong)
    },
)
.example(EXAMPLE_TRANSFER);

routes! {
    "/participants/{name}/accounts/{id}/transfers/{transferId}" [NAME, ACCOUNT, OUTFLOW] {
        change PUT endFundsOut = end(FundsEnd), "Commit or abort reserved funds out" {
            records: EndFundsOut,
            text: "\
                An identical request gets 202 again and changes nothing. A request that does not \
                fit the state of the reservation gets 400 with 3100.",
            example: {"action": "recordFundsOutCommit", "reason": "paid out"},
            responses: [202: () = "Recorded and applied."],
        }
    }
    "/participants/{name}/accounts/{id}/adjustments" [NAME, ACCOUNT] {
        change POST adjustBalance = adjust(Adjustment), "Correct the balance of an account" {
            records: AdjustBalance,
            text: "\
                Applies to POSITION and SETTLEMENT accounts, also to inactive ones, against the \
                hub's reconciliation account. A positive amount raises the balance. An identical \
                request, apart from white space, gets 202 again and changes nothing.",
            example: {
                "transferId": "01HV0000000000000000000009",
                "reason": "correction of advice 4711",
                "amount": {"amount": -12.5, "currency": "XOF"}
            },
            responses: [202: () = "Recorded and applied."],
        }
    }
}

body! {
    Closed Adjustment {
        transfer_id: TransferId = TRANSFER_ID,
        reason: String = Text(REASON_CHARACTERS_MAX),
        amount: SignedMoney = Object::<SignedMoney>::RULE,
    }
}

body! {
    Closed SignedMoney {
        amount: Amount = Decimal::Any,
        currency: Currency = CURRENCY,
    }
}

body! {
    Closed Funds {
        transfer_id: TransferId = TRANSFER_ID,
        external_reference: String = Text(REFERENCE_CHARACTERS_MAX),
        action: FundsDirection = Choice(&STARTS),
        reason: String = Text(REASON_CHARACTERS_MAX),
        amount: Money = Object::<Money>::RULE,
        /// Checked, not stored.
        _extension_list as "extensionList": Option<Extensions> =
            Optional(Described(Object::<Extensions>::RULE, "Checked, not stored.")),
    }
}

body! {
    Closed Money {
        amount: Amount = Decimal::AboveZero,
        currency: Currency = CURRENCY,
    }
}

body! {
    Closed Extensions {
        _extension as "extension": () = Custom {
            take: extensions,
            schema: || json!({"type": "array", "maxItems": EXTENSIONS_MAX, "items": {}}),
        },
    }
}

body! {
    Closed FundsEnd {
        action: bool = Choice(&ENDS),
        reason: String = Text(REASON_CHARACTERS_MAX),
    }
}

/// Funds in, or the reservation of funds out.
///
/// The external reference is recorded with the reason; extensions are checked but not stored.
pub(crate) async fn start(request: &AdminRequest<'_>, body: Funds) -> HandlerResult {
    let (account, name) = (request.path(&ACCOUNT)?, request.path(&NAME)?);
    let hash = request_hash(request, &name, account);
    let Money { amount, currency } = body.amount;
    let (id, direction) = (body.transfer_id, body.action);
    let funds = MoveFunds { id, name, account, direction, currency, amount, hash };
    let reason = format!("{} (externalReference {})", body.reason, body.external_reference);
    request.change_because(reason, funds).await?;
    Ok(AdminResponse::empty(StatusCode::ACCEPTED))
}

/// Commits or aborts reserved funds out.
async fn end(request: &AdminRequest<'_>, body: FundsEnd) -> HandlerResult {
    let id = request.path(&OUTFLOW)?;
    let (account, name) = (request.path(&ACCOUNT)?, request.path(&NAME)?);
    let hash = request_hash(request, &name, account);
    let end = EndFundsOut { id, name, account, commit: body.action, hash };
    request.change_because(body.reason, end).await?;
    Ok(AdminResponse::empty(StatusCode::ACCEPTED))
}

/// Corrects the balance of an account.
async fn adjust(call: &AdminRequest<'_>, body: Adjustment) -> HandlerResult {
    let (account, name) = (call.path(&ACCOUNT)?, call.path(&NAME)?);
    let hash = request_hash(call, &name, account);
    let SignedMoney { amount, currency } = body.amount;
    let change = AdjustBalance { id: body.transfer_id, name, account, currency, amount, hash };
    call.change_because(body.reason, change).await?;
    Ok(AdminResponse::empty(StatusCode::ACCEPTED))
}

/// Digest of the account's owner and of the body, which identifies a resend.
fn request_hash(request: &AdminRequest<'_>, name: &FspName, account: AccountId) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&account.0.to_le_bytes());
    hasher.update(&body_hash(&request.body));
    hasher.update(name.as_str().as_bytes());
    Digest(*hasher.finalize().as_bytes())
}

fn extensions(reader: &mut BodyReader<'_>, name: &str) -> Result<Option<()>, Refusal> {
    match reader.array(name)? {
        Some(items) if EXTENSIONS_MAX < items.len() => {
            let what = "must contain at most 16 items";
            Err(refuse(ErrorCode::VALIDATION, "extensionList.extension", what))
        }
        items => Ok(items.map(drop)),
    }
}
