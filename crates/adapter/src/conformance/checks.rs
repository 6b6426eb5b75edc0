//! The checks in the order in which they are played.

/// One check: its requests and what FSPIOP requires.
#[derive(Clone, Copy)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) sent: &'static str,
    pub(super) required: &'static str,
    pub(super) section: &'static str,
    pub(super) step: CheckStep,
    pub(super) scope: Scope,
}

/// The targets of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Every target.
    Everywhere,
    /// Only the server of the DFSP: a hub answers such requests itself.
    DfspOnly,
    /// Only the server of the DFSP, and only with a signing key.
    Signed,
}

/// The work of a check.
#[derive(Clone, Copy)]
pub(super) enum CheckStep {
    KnownParty,
    UnknownParty,
    SlowHub,
    Quote,
    QuoteWithout(&'static str),
    NotJson,
    Transfer,
    Resend,
    Notice,
    WrongCondition,
    WrongAmount,
    WithoutQuote,
    Expired,
    ErrorCallback(&'static str),
    WithoutHeader(&'static str),
    RepeatedHeader(&'static str),
    UnknownPath,
    Unsigned,
    Tampered,
}

const fn check(
    name: &'static str,
    step: CheckStep,
    scope: Scope,
    [sent, required, section]: [&'static str; 3],
) -> Check {
    Check { name, sent, required, section, step, scope }
}

const REFUSED: &str = "400 with errorInformation";
const ACCEPTED: &str = "200";
const NO_FULFILMENT: &str = "an error, no fulfilment";

/// All checks.
pub(super) const CHECKS: &[Check] = &[
    check(
        "party",
        CheckStep::KnownParty,
        Scope::Everywhere,
        [
            "GET /parties of a known party",
            "202, then PUT /parties with the party and its fspId",
            "6.3.3.1, 6.3.4.1",
        ],
    ),
    check(
        "party-unknown",
        CheckStep::UnknownParty,
        Scope::DfspOnly,
        [
            "GET /parties of an unknown party",
            "202, then PUT /parties/.../error with 32xx",
            "6.3.5.1, 7.6.3",
        ],
    ),
    check(
        "slow-hub",
        CheckStep::SlowHub,
        Scope::DfspOnly,
        [
            "two GET /parties; callbacks are answered late",
            "202 to the second while the first callback waits",
            "3.2.3",
        ],
    ),
    check(
        "quote",
        CheckStep::Quote,
        Scope::Everywhere,
        [
            "POST /quotes",
            "202, then PUT /quotes with packet, condition and a future expiration",
            "6.5.3.2, 6.5.4.1, 6.5.2.3",
        ],
    ),
    check(
        "quote-incomplete",
        CheckStep::QuoteWithout("amountType"),
        Scope::DfspOnly,
        [
            "POST /quotes without amountType",
            "400 or PUT /quotes/{ID}/error, with 31xx",
            "6.5.3.2, 7.6.3",
        ],
    ),
    check(
        "quote-not-json",
        CheckStep::NotJson,
        Scope::DfspOnly,
        ["POST /quotes with a body that is not JSON", REFUSED, "3.1.5, 7.6.3"],
    ),
    check(
        "transfer",
        CheckStep::Transfer,
        Scope::Everywhere,
        [
            "POST /transfers with the terms of a quote",
            "202, then PUT /transfers with the fulfilment of the condition",
            "6.7.3.2, 6.7.4.1, 6.7.2.8",
        ],
    ),
    check(
        "transfer-resent",
        CheckStep::Resend,
        Scope::DfspOnly,
        ["the same POST /transfers again", "202, then the same PUT /transfers", "3.2.5"],
    ),
    check(
        "notice",
        CheckStep::Notice,
        Scope::DfspOnly,
        ["PATCH /transfers/{ID}: COMMITTED", ACCEPTED, "6.7.3.3, 6.7.2.6"],
    ),
    check(
        "wrong-condition",
        CheckStep::WrongCondition,
        Scope::Everywhere,
        ["POST /transfers with another condition", NO_FULFILMENT, "6.7.2.8"],
    ),
    check(
        "wrong-amount",
        CheckStep::WrongAmount,
        Scope::Everywhere,
        ["POST /transfers with another amount", NO_FULFILMENT, "6.7.2.8"],
    ),
    check(
        "no-quote",
        CheckStep::WithoutQuote,
        Scope::Everywhere,
        ["POST /transfers without a quote", NO_FULFILMENT, "6.7.2.8"],
    ),
    check(
        "expired",
        CheckStep::Expired,
        Scope::DfspOnly,
        [
            "POST /transfers after its expiration",
            "an error or silence, no fulfilment",
            "6.7.2.4, 7.6.3",
        ],
    ),
    check(
        "party-error",
        CheckStep::ErrorCallback("parties/MSISDN/1"),
        Scope::DfspOnly,
        ["PUT /parties/{Type}/{ID}/error", ACCEPTED, "6.3.5.1"],
    ),
    check(
        "quote-error",
        CheckStep::ErrorCallback("quotes"),
        Scope::DfspOnly,
        ["PUT /quotes/{ID}/error", ACCEPTED, "6.5.5.1"],
    ),
    check(
        "transfer-error",
        CheckStep::ErrorCallback("transfers"),
        Scope::DfspOnly,
        ["PUT /transfers/{ID}/error", ACCEPTED, "6.7.5.1"],
    ),
    check(
        "no-source",
        CheckStep::WithoutHeader("fspiop-source"),
        Scope::DfspOnly,
        ["POST /quotes without FSPIOP-Source", REFUSED, "3.2.1"],
    ),
    check(
        "no-content-type",
        CheckStep::WithoutHeader("content-type"),
        Scope::DfspOnly,
        ["POST /quotes without Content-Type", REFUSED, "3.2.1"],
    ),
    check(
        "two-sources",
        CheckStep::RepeatedHeader("fspiop-source"),
        Scope::DfspOnly,
        ["POST /quotes with FSPIOP-Source twice", REFUSED, "3.2.1"],
    ),
    check(
        "unknown-path",
        CheckStep::UnknownPath,
        Scope::DfspOnly,
        ["GET of an unknown path", "404", "3.2.4"],
    ),
    check(
        "unsigned",
        CheckStep::Unsigned,
        Scope::Signed,
        ["POST /quotes without a signature", "400 with 3105", "Signature 1.1; 7.6.3"],
    ),
    check(
        "tampered",
        CheckStep::Tampered,
        Scope::Signed,
        ["POST /quotes, changed after it was signed", "400 with 3105", "Signature 1.1; 7.6.3"],
    ),
];
