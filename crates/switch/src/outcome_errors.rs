//! FSPIOP error code and text of each outcome that a participant gets as an error (hub-semantics
//! 3.3,
//! 3.8). One exhaustive match, so that a new outcome needs its text.

use fspiop::ErrorCode;
use ledger::ErrorOutcome;

/// Verbatim text of the reference.
const ON_US: &str = "Payer FSP and Payee FSP should be different, unless on-us tranfers are \
                     allowed by the Scheme";

/// Fields of the prepare for error texts, as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrepareFields {
    pub(crate) payer: String,
    pub(crate) payee: String,
    pub(crate) amount: String,
    pub(crate) currency: String,
    pub(crate) expiration: String,
}

/// Code and complete `errorDescription` for an outcome.
pub(crate) fn error(outcome: ErrorOutcome, named: &PrepareFields) -> (ErrorCode, String) {
    use ErrorOutcome::*;
    let PrepareFields { payer, payee, amount, currency, expiration } = named;
    let account = |name: &str, what: &str| {
        validation(&format!("Participant {name} {currency} account {what}"))
    };
    let (code, detail) = match outcome {
        PrepareModified | ResponseModified | QuoteModified | TransactionRequestModified => {
            (ErrorCode::MODIFIED_REQUEST, String::new())
        }
        QuoteNotFound => (ErrorCode::QUOTE_NOT_FOUND, String::new()),
        QuoteExpired => (ErrorCode::QUOTE_EXPIRED, String::new()),
        TransactionRequestNotFound => (ErrorCode::TRANSACTION_REQUEST_NOT_FOUND, String::new()),
        TransactionRequestExpired => (ErrorCode::TRANSACTION_REQUEST_EXPIRED, String::new()),
        PrepareDiffersFromQuote => {
            validation("amount, ilpPacket, condition, payerFsp or payeeFsp differs from the quote")
        }
        PrepareSourceNotPayer => validation("FSPIOP-Source header should match Payer"),
        PrepareAmountPrecision => {
            validation(&format!("Amount {amount} exceeds allowed precision of 18"))
        }
        PreparePayerNotFound => validation(&format!("Participant {payer} not found")),
        PreparePayerInactive => validation(&format!("Participant {payer} is inactive")),
        PreparePayeeNotFound => validation(&format!("Participant {payee} not found")),
        PreparePayeeInactive => validation(&format!("Participant {payee} is inactive")),
        PrepareExpirationPast => {
            validation(&format!("Expiration date {expiration} is already in the past"))
        }
        PreparePayerIsPayee => validation(ON_US),
        PreparePayerAccountNotFound => account(payer, "not found"),
        PreparePayerAccountInactive => account(payer, "is inactive"),
        PreparePayeeAccountNotFound => account(payee, "not found"),
        PreparePayeeAccountInactive => account(payee, "is inactive"),
        PreparePayeeLaneFull => lane_full(payee),
        PrepareLiquidityInsufficient => (ErrorCode::PAYER_INSUFFICIENT_LIQUIDITY, String::new()),
        PrepareCapExceeded => (ErrorCode::PAYER_LIMIT, String::new()),
        ResponseTransferNotFound => (ErrorCode::INTERNAL_SERVER, "transfer not found".into()),
        ResponseNotFromPayee => validation("FSPIOP-Source does not match the transfer's payee"),
        ResponseNotToPayer => validation("FSPIOP-Destination does not match the transfer's payer"),
        ResponseAfterExpiry | Expired => (ErrorCode::TRANSFER_EXPIRED, String::new()),
        ResponseStateNotReserved => validation("non-RESERVED transfer state"),
        FulfilmentInvalid => validation("invalid fulfilment"),
        AbortedWithUnknownCode => validation("API specification undefined errorCode"),
        AbortedByPut => validation("the payee answered with transferState ABORTED"),
        Aborted => (ErrorCode::GENERIC_PAYEE, String::new()),
        FundsInsufficient => validation("Aborted due to insufficient funds"),
        FundsOutAborted => validation("the outflow was given back"),
        BulkItemNotFound => validation(
            "individualTransferResults names a transfer that is not RESERVED in the bulk",
        ),
        ResponseOfBulkItem => {
            validation("the transfer is an item of a bulk, to be answered by PUT /bulkTransfers")
        }
    };
    (code, code.describe(&detail))
}

/// Code and complete `errorDescription` for an outcome of a bulk transfer.
pub(crate) fn bulk_error(outcome: ErrorOutcome, named: &PrepareFields) -> (ErrorCode, String) {
    use ErrorOutcome::*;
    let PrepareFields { payer, payee, .. } = named;
    let (code, detail) = match outcome {
        PrepareSourceNotPayer => validation("FSPIOP-Source header should match Payer FSP"),
        PreparePayerIsPayee => validation("Payer and Payee FSPs should be different"),
        PreparePayerNotFound => {
            (ErrorCode::PAYER_FSP_NOT_FOUND, format!("Participant {payer} not found"))
        }
        PreparePayerInactive => {
            (ErrorCode::PAYER_FSP_NOT_FOUND, format!("Participant {payer} is inactive"))
        }
        PreparePayeeNotFound => {
            (ErrorCode::PAYEE_FSP_NOT_FOUND, format!("Participant {payee} not found"))
        }
        PreparePayeeInactive => {
            (ErrorCode::PAYEE_FSP_NOT_FOUND, format!("Participant {payee} is inactive"))
        }
        ResponseTransferNotFound => (ErrorCode::BULK_TRANSFER_NOT_FOUND, BULK_NOT_FOUND.to_owned()),
        ResponseNotFromPayee => validation("FSPIOP-Source header should match Payee FSP"),
        ResponseNotToPayer => validation("FSPIOP-Destination header should match Payer FSP"),
        ResponseStateNotReserved => validation("the bulk transfer is final"),
        _ => return error(outcome, named),
    };
    (code, code.describe(&detail))
}

/// `YYYY-MM-DDThh:mm:ss.sssZ`.
pub(crate) fn iso_text(millis: u64) -> String {
    let mut text = fspiop::time::date_time_whole_seconds(millis);
    let fraction = format!("{:03}", millis % 1_000);
    text[20..23].copy_from_slice(fraction.as_bytes());
    String::from_utf8_lossy(&text).into_owned()
}

/// Text about a bulk transfer that the hub does not know, as in the reference.
pub(crate) const BULK_NOT_FOUND: &str = "Provided Bulk Transfer ID was not found on the server.";

/// The error code of an outcome.
#[must_use]
pub fn error_code(outcome: ErrorOutcome) -> u16 {
    error(outcome, &PrepareFields::default()).0.number()
}

/// Whether the text of [`error`] for an outcome contains fields of the prepare.
pub(crate) const fn names_prepare(outcome: ErrorOutcome) -> bool {
    use ErrorOutcome::*;
    matches!(
        outcome,
        PrepareAmountPrecision
            | PreparePayerNotFound
            | PreparePayerInactive
            | PreparePayeeNotFound
            | PreparePayeeInactive
            | PrepareExpirationPast
            | PreparePayerAccountNotFound
            | PreparePayerAccountInactive
            | PreparePayeeAccountNotFound
            | PreparePayeeAccountInactive
            | PreparePayeeLaneFull
    )
}

fn lane_full(payee: &str) -> (ErrorCode, String) {
    let detail = format!("too many notices are owed to {payee}; try again later");
    (ErrorCode::SERVICE_UNAVAILABLE, detail)
}

fn validation(detail: &str) -> (ErrorCode, String) {
    (ErrorCode::VALIDATION, detail.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> PrepareFields {
        PrepareFields {
            payer: "dfsp1".into(),
            payee: "dfsp2".into(),
            amount: "1.5".into(),
            currency: "USD".into(),
            expiration: "2026-01-01T00:00:00.000Z".into(),
        }
    }

    fn words(outcome: ErrorOutcome) -> String {
        let (code, description) = error(outcome, &named());
        fspiop::hub_messages::cause(code, &description).value
    }

    #[test]
    fn prepare_is_read_only_for_texts_that_name_its_fields() {
        for outcome in ErrorOutcome::ALL.iter().copied() {
            let is_same = error(outcome, &PrepareFields::default()).1 == error(outcome, &named()).1;
            assert_eq!(names_prepare(outcome), !is_same, "{outcome:?}");
        }
    }

    #[test]
    fn texts_that_partners_compare() {
        for (outcome, expected) in [
            (
                ErrorOutcome::FulfilmentInvalid,
                "3100: Generic validation error - invalid fulfilment",
            ),
            (ErrorOutcome::Expired, "3303: Transfer expired"),
            (ErrorOutcome::PrepareModified, "3106: Modified request"),
            (ErrorOutcome::PrepareLiquidityInsufficient, "4001: Payer FSP insufficient liquidity"),
            (ErrorOutcome::PrepareCapExceeded, "4200: Payer limit error"),
            (
                ErrorOutcome::PreparePayeeAccountInactive,
                "3100: Generic validation error - Participant dfsp2 USD account is inactive",
            ),
            (
                ErrorOutcome::ResponseTransferNotFound,
                "2001: Internal server error - transfer not found",
            ),
        ] {
            assert_eq!(words(outcome), expected);
        }
    }
}
