//! Funds in and out: `POST /participants/{name}/accounts/{id}` and
//! `PUT /participants/{name}/accounts/{id}/transfers/{transferId}` (hub-semantics 4.4).
//! Corrections: `POST /participants/{name}/accounts/{id}/adjustments`.
//!
//! 202 means recorded and applied; the account's balance is final then. An identical request,
//! apart from white space, moves no funds and gets 202 again.

use fspiop::{ErrorCode, Refusal, body_hash};
use http::StatusCode;
use ledger::snapshot::Outflow;
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
use crate::request::{AdminRequest, EXAMPLE_TRANSFER, participant_name};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{JsonNumber, Timestamp};
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

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

/// Maximum number of reservations in a response.
const RESERVATIONS_MAX: usize = 1_000;

const ONLY_PARTICIPANT: Parameter<FspName> =
    Parameter::new("participant", "Only this participant.", schema::some_text, participant_name);

response_type! {
    /// Reserved funds out that are neither committed nor aborted.
    struct FundsOutResponse as "FundsOutInProgress" {
        transfer_id: String = reference("TransferId"),
        participant: String,
        account_id: u32,
        currency: String = schema::currency(),
        amount: JsonNumber,
        reserved_date: Timestamp,
        log_index: u64,
    }
}

routes! {
    "/fundsOut" {
        read GET listFundsOut = list, "List reserved funds out" {
            text: "\
                Funds out that are prepared, and neither committed nor aborted; oldest first, at \
                most 1,000. They lower the liquidity cover.",
            query: [ONLY_PARTICIPANT],
            responses: [200: Vec<FundsOutResponse> = "Reservations, oldest first."],
            refusals: [400 ID_NOT_FOUND],
        }
    }
    "/participants/{name}/accounts/{id}/transfers/{transferId}" [NAME, ACCOUNT, OUTFLOW] {
        change PUT endFundsOut = end(FundsEnd), "Commit or abort reserved funds out" {
            permission: Finance,
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
            permission: Finance,
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

/// `GET /fundsOut`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let wanted = request.query(&ONLY_PARTICIPANT)?;
    if let Some(name) = wanted {
        request.query_participant(name, |_, _| ()).await?;
    }
    let found = request.query_state(move |state| {
        let all = state.funds_out_in_progress().map(|(id, outflow)| {
            let name = state.registry().get(outflow.participant).name;
            let account = state.accounts().get(outflow.settlement);
            let currency = account.map(|account| account.currency.to_string());
            (name, currency.unwrap_or_default(), *id, outflow.clone())
        });
        let mut all: Vec<_> =
            all.filter(|(name, ..)| wanted.is_none_or(|wanted| wanted == *name)).collect();
        all.sort_by_key(|(_, _, _, outflow)| outflow.record);
        all.truncate(RESERVATIONS_MAX);
        all
    });
    let response =
        |(name, currency, id, outflow): (FspName, String, TransferId, Outflow)| FundsOutResponse {
            transfer_id: id.to_string(),
            participant: name.to_string(),
            account_id: outflow.settlement.0,
            currency,
            amount: JsonNumber(outflow.amount),
            reserved_date: Timestamp(outflow.reserved_at),
            log_index: outflow.record.0,
        };
    Ok(AdminResponse::ok(&found.await?.into_iter().map(response).collect::<Vec<_>>()))
}

/// Corrects the balance of an account.
async fn adjust(call: &AdminRequest<'_>, body: Adjustment) -> HandlerResult {
    let (account, name) = (call.path(&ACCOUNT)?, call.path(&NAME)?);
    let hash = request_hash(call, &name, account);
    let SignedMoney { amount, currency } = body.amount;
    if amount == Amount::ZERO {
        return Err(refuse(ErrorCode::VALIDATION, "amount.amount", "must not be 0"));
    }
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
    match reader.array(name, EXTENSIONS_MAX)? {
        Some(items) if EXTENSIONS_MAX < items.len() => {
            let what = "must contain at most 16 items";
            Err(refuse(ErrorCode::VALIDATION, "extensionList.extension", what))
        }
        items => Ok(items.map(drop)),
    }
}
