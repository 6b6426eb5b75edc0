//! Precedence of checks: of two broken rules, the earlier one determines the outcome.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::scenario::last_outcome;
use crate::*;

/// A way to break one rule: earlier commands, and the faulty part of the prepare.
struct Violation {
    outcome: Outcome,
    before: &'static str,
    words: &'static [(PrepareField, &'static str)],
}

/// A part of the prepare. Two violations that need the same part cannot be combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrepareField {
    Source,
    Payer,
    Payee,
    Amount,
    Currency,
    Expiration,
}

use PrepareField::*;

/// In the order of the checks.
const VIOLATIONS: [Violation; 17] = [
    violation(Outcome::SenderNotFound, "", &[(Source, "ghost")]),
    violation(Outcome::PrepareModified, "prepare t1 dfsp3 dfsp2 0 body=other", &[]),
    violation(Outcome::PrepareSourceNotPayer, "", &[(Source, "dfsp3")]),
    violation(Outcome::PrepareAmountPrecision, "", &[(Amount, "100000000000000.0001")]),
    violation(Outcome::PreparePayerNotFound, "", &[(Payer, "DFSP1")]),
    violation(Outcome::PreparePayerInactive, "participant-active dfsp1 off", &[]),
    violation(Outcome::PreparePayeeNotFound, "", &[(Payee, "no-one")]),
    violation(Outcome::PreparePayeeInactive, "participant-active dfsp2 off", &[(Payee, "dfsp2")]),
    violation(Outcome::PrepareExpirationPast, "", &[(Expiration, "4s")]),
    violation(Outcome::PreparePayerIsPayee, "", &[(Payee, "dfsp1")]),
    violation(Outcome::PreparePayerAccountNotFound, "", &[(Currency, "EUR")]),
    violation(Outcome::PreparePayerAccountInactive, "account-active dfsp1 POSITION.USD off", &[]),
    violation(Outcome::PreparePayeeAccountNotFound, "", &[(Payee, "eurofsp")]),
    violation(
        Outcome::PreparePayeeAccountInactive,
        "account-active dfsp2 POSITION.USD off",
        &[(Payee, "dfsp2")],
    ),
    violation(Outcome::PreparePayeeLaneFull, "settings lane=0", &[]),
    violation(
        Outcome::PrepareLiquidityInsufficient,
        "funds-out f5 dfsp1 SETTLEMENT.USD 1000 USD",
        &[],
    ),
    violation(Outcome::PrepareCapExceeded, "limit dfsp1 USD 1", &[]),
];

/// Pairs of neighbours that no prepare can break together.
const EXCLUSIVE: [(Outcome, Outcome); 6] = [
    // An unknown participant or account cannot be disabled.
    (Outcome::PreparePayerNotFound, Outcome::PreparePayerInactive),
    (Outcome::PreparePayeeNotFound, Outcome::PreparePayeeInactive),
    (Outcome::PreparePayerAccountNotFound, Outcome::PreparePayerAccountInactive),
    (Outcome::PreparePayeeAccountNotFound, Outcome::PreparePayeeAccountInactive),
    // A payee that is the payer has the payer's accounts, and is known if the payer is.
    (Outcome::PreparePayerNotFound, Outcome::PreparePayerIsPayee),
    (Outcome::PreparePayerIsPayee, Outcome::PreparePayeeAccountNotFound),
];

#[test]
fn earlier_of_two_broken_rules_is_the_outcome() {
    for (at, first) in VIOLATIONS.iter().enumerate() {
        assert_eq!(outcome_of(&[first]), first.outcome, "alone");
        for second in &VIOLATIONS[at + 1..] {
            if combinable(first, second) {
                let outcome = outcome_of(&[first, second]);
                assert_eq!(outcome, first.outcome, "together with {:?}", second.outcome);
            }
        }
    }
}

#[test]
fn every_pair_of_neighbours_is_combined_or_exclusive() {
    for pair in VIOLATIONS.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        let exclusive = EXCLUSIVE.contains(&(first.outcome, second.outcome));
        assert!(
            combinable(first, second) || exclusive,
            "{:?} and {:?}",
            first.outcome,
            second.outcome
        );
    }
}

#[test]
fn violations_have_the_declared_order_of_the_outcomes() {
    let mut declared = PrepareOutcome::ALL.iter().map(|outcome| outcome.outcome());
    for violation in &VIOLATIONS {
        assert!(declared.any(|it| it == violation.outcome), "{:?}", violation.outcome);
    }
}

/// Outcomes that a few commands cannot produce: a table is full, or the hub lost an account.
const UNREACHED: [(u8, AdminOutcome); 17] = [
    (CreateHubAccount::DECLARATION.number, AdminOutcome::RegistryFull),
    (CreateSettlementModel::DECLARATION.number, AdminOutcome::RegistryFull),
    (CreateParticipant::DECLARATION.number, AdminOutcome::RegistryFull),
    (SetEndpoint::DECLARATION.number, AdminOutcome::RegistryFull),
    (MoveFunds::DECLARATION.number, AdminOutcome::HubAccountsMissing),
    (CreateOracle::DECLARATION.number, AdminOutcome::RegistryFull),
    (CreateLedgerAccountType::DECLARATION.number, AdminOutcome::RegistryFull),
    (AdjustBalance::DECLARATION.number, AdminOutcome::HubAccountsMissing),
    (CloseWindow::DECLARATION.number, AdminOutcome::RegistryFull),
    (CreateSettlement::DECLARATION.number, AdminOutcome::RegistryFull),
    (CreateFeeRule::DECLARATION.number, AdminOutcome::RegistryFull),
    (Propose::DECLARATION.number, AdminOutcome::RegistryFull),
    (SetRole::DECLARATION.number, AdminOutcome::RegistryFull),
    (SetOperator::DECLARATION.number, AdminOutcome::RegistryFull),
    (CreateToken::DECLARATION.number, AdminOutcome::RegistryFull),
    (BeginEnrolment::DECLARATION.number, AdminOutcome::RegistryFull),
    (Erase::DECLARATION.number, AdminOutcome::RegistryFull),
];

/// For each change, earlier commands, then commands that each give the next declared outcome. A
/// command breaks the rule of its outcome and, where possible, those of the later ones.
const STAIRS: &[(ChangeDeclaration, &str, &[&str])] = &[
    (Configure::DECLARATION, "", &["settings on-us=on"]),
    (Activate::DECLARATION, "", &["activate 99", "activate 5"]),
    (
        CreateHubAccount::DECLARATION,
        "",
        &[
            "hub-account USD POSITION",
            "hub-account USD HUB_RECONCILIATION",
            "hub-account XOF HUB_RECONCILIATION",
        ],
    ),
    (
        CreateSettlementModel::DECLARATION,
        "",
        &[
            "model DEFAULTDEFERREDNET settlement=HUB_RECONCILIATION",
            "model OTHER settlement=HUB_RECONCILIATION",
            "model OTHER currency=USD",
        ],
    ),
    (
        SetSettlementModelActive::DECLARATION,
        "",
        &["model-active NONE on", "model-active DEFAULTDEFERREDNET on"],
    ),
    (
        CreateParticipant::DECLARATION,
        "model-active DEFAULTDEFERREDNET off",
        &[
            "participant DFSP1 XOF",
            "participant new XOF",
            "participant new USD",
            "model-active DEFAULTDEFERREDNET on\nparticipant new USD",
        ],
    ),
    (
        SetParticipantActive::DECLARATION,
        "",
        &["participant-active ghost on", "participant-active dfsp1 on"],
    ),
    (
        SetAccountActive::DECLARATION,
        "",
        &[
            "account-active ghost dfsp2/SETTLEMENT.USD on",
            "account-active dfsp1 dfsp2/SETTLEMENT.USD on",
            "account-active dfsp1 SETTLEMENT.USD on",
            "account-active dfsp1 POSITION.USD on",
        ],
    ),
    (
        SetInitialPositionAndLimits::DECLARATION,
        "participant new USD",
        &["initial ghost EUR 1", "initial dfsp1 EUR 1", "initial dfsp1 USD 1", "initial new USD 1"],
    ),
    (
        SetLimit::DECLARATION,
        "participant new USD",
        &["limit ghost EUR 1", "limit new EUR 1", "limit new USD 1", "limit dfsp1 USD 1"],
    ),
    (SetEndpoint::DECLARATION, "", &["endpoint ghost T http://a", "endpoint dfsp1 T http://a"]),
    (
        AddKey::DECLARATION,
        "key dfsp1 a\nkey dfsp1 b\nkey dfsp1 c\nkey dfsp1 d",
        &["key ghost e", "key dfsp1 e", "key dfsp2 e"],
    ),
    (
        RemoveKey::DECLARATION,
        "key dfsp1 a",
        &["key-removed ghost b", "key-removed dfsp1 b", "key-removed dfsp1 a"],
    ),
    (
        MoveFunds::DECLARATION,
        "participant new USD",
        &[
            "funds-out f1 ghost dfsp2/POSITION.USD 5000 EUR",
            "participant-active new off\nfunds-out f1 new dfsp2/POSITION.USD 5000 EUR",
            "funds-out f1 new dfsp2/POSITION.USD 5000 EUR",
            "funds-out f1 new POSITION.USD 5000 EUR",
            "funds-out f1 new SETTLEMENT.USD 5000 EUR",
            "funds-out f1 dfsp1 SETTLEMENT.USD 5000 EUR",
            "funds-in f1 dfsp1 SETTLEMENT.USD 1000 USD",
            "funds-out f1 dfsp1 SETTLEMENT.USD 5000 USD",
            "funds-out f9 dfsp1 SETTLEMENT.USD 5000 USD",
            "funds-out f9 dfsp1 SETTLEMENT.USD 5 USD",
        ],
    ),
    (
        EndFundsOut::DECLARATION,
        "participant new USD\nfunds-out f9 dfsp1 SETTLEMENT.USD 5 USD",
        &[
            "funds-commit f8 ghost dfsp2/POSITION.USD",
            "participant-active new off\nfunds-commit f8 new dfsp2/POSITION.USD",
            "funds-commit f8 new dfsp2/POSITION.USD",
            "funds-commit f8 new POSITION.USD",
            "funds-commit f8 new SETTLEMENT.USD",
            "funds-commit f9 dfsp1 SETTLEMENT.USD\nfunds-commit f9 dfsp1 SETTLEMENT.USD",
            "funds-commit f8 dfsp1 SETTLEMENT.USD",
            "funds-commit f9 dfsp1 SETTLEMENT.USD",
        ],
    ),
    (
        Redeliver::DECLARATION,
        "prepare t1 dfsp1 dfsp2 10\ndeliver 1 dead",
        &["redeliver 9", "redeliver 1"],
    ),
    (
        DropDeadLetter::DECLARATION,
        "prepare t1 dfsp1 dfsp2 10\ndeliver 1 dead",
        &["drop 9", "drop 1"],
    ),
    (
        CreateOracle::DECLARATION,
        "oracle MSISDN http://a",
        &["oracle MSISDN http://b", "oracle EMAIL http://b"],
    ),
    (
        UpdateOracle::DECLARATION,
        "oracle MSISDN http://a currency=USD\noracle MSISDN http://b",
        &[
            "oracle-change 9 currency=USD",
            "oracle-change 2 currency=USD",
            "oracle-change 2 url=http://e",
        ],
    ),
    (DeleteOracle::DECLARATION, "", &["oracle-delete 1"]),
    (
        CreateLedgerAccountType::DECLARATION,
        "account-type A1",
        &["account-type A1", "account-type B1"],
    ),
    (
        CloseWindow::DECLARATION,
        CLOSED,
        &["close 9", "close 1", "close 2", "prepare t2 dfsp1 dfsp2 10\nfulfil t2 dfsp2\nclose 2"],
    ),
    (
        CreateSettlement::DECLARATION,
        CLOSED,
        &[
            "settle NONE 2",
            "model GROSS style=gross currency=KES\nsettle GROSS 2",
            "settle DEFAULTDEFERREDNET 2",
            "settle DEFAULTDEFERREDNET 1",
        ],
    ),
    (
        AdvanceSettlement::DECLARATION,
        "",
        &[
            "advance 1 SETTLED",
            "settle-rounds 101\nadvance 1 SETTLED",
            "settle-rounds 101\nadvance 2 SETTLED",
        ],
    ),
    (
        CheckLiquidity::DECLARATION,
        "participant new USD",
        &[
            "check ghost EUR",
            "check new EUR",
            "check new USD",
            "check dfsp1 USD",
            "prepare t1 dfsp1 dfsp2 900\ncheck dfsp1 USD",
        ],
    ),
    (FinishAlerts::DECLARATION, "", &["finish-alerts 1"]),
    (
        AdjustBalance::DECLARATION,
        "prepare t1 dfsp1 dfsp2 10\nadjust a1 dfsp1 POSITION.USD 5 USD",
        &[
            "adjust a1 ghost dfsp2/INTERCHANGE_FEE.USD 7 EUR",
            "adjust a1 dfsp1 dfsp2/POSITION.USD 7 EUR",
            "adjust a1 Hub HUB_RECONCILIATION.USD 7 EUR",
            "adjust a1 dfsp1 POSITION.USD 5 EUR",
            "adjust a1 dfsp1 POSITION.USD 5 USD",
            "adjust t1 dfsp1 POSITION.USD 5 USD",
            "adjust a2 dfsp1 POSITION.USD 5 USD",
        ],
    ),
    (
        CreateFeeRule::DECLARATION,
        "model FEES ledger=INTERCHANGE_FEE currency=USD\nfee-rule A 1 currency=USD",
        &["fee-rule A 1 currency=EUR", "fee-rule B 1 currency=EUR", "fee-rule B 1"],
    ),
    (
        SetFeeRuleActive::DECLARATION,
        "model FEES ledger=INTERCHANGE_FEE\nfee-rule A 1",
        &["fee-rule-active 2 on", "fee-rule-active 1 off"],
    ),
    (SetRole::DECLARATION, "", &["role treasury finance"]),
    (
        RemoveRole::DECLARATION,
        "role A read\nrole B read\noperator anna B",
        &["role-removed C", "role-removed B", "role-removed A"],
    ),
    (SetOperator::DECLARATION, "", &["operator anna viewer"]),
    (
        CreateToken::DECLARATION,
        "operator anna viewer\ntoken 1 anna",
        &["token 1 bert", "token 1 anna", "token 2 anna"],
    ),
    (
        RevokeToken::DECLARATION,
        "operator anna viewer\ntoken 1 anna",
        &["token-revoked 2", "token-revoked 1"],
    ),
    (
        SetPassword::DECLARATION,
        "operator anna viewer",
        &["password bert secret", "password anna secret"],
    ),
    (
        SetSecondFactor::DECLARATION,
        "operator anna viewer",
        &["second-factor bert seed", "second-factor anna seed"],
    ),
    (RecordAudit::DECLARATION, "", &["audit /participants 401"]),
    (
        BeginEnrolment::DECLARATION,
        "enrol dfsp1 a\nenrol dfsp1 b\nenrol dfsp1 c\nenrol dfsp1 d",
        &["enrol ghost e", "enrol dfsp1 e", "enrol dfsp2 e"],
    ),
    (
        EndEnrolment::DECLARATION,
        "enrol dfsp1 a\nenrol dfsp1 b\nenrolled dfsp1 a A",
        &["enrolled dfsp2 a", "enrolled dfsp1 a B", "enrolled dfsp1 b B"],
    ),
    (RegisterParties::DECLARATION, "", &["register-parties ghost", "register-parties dfsp1"]),
    (AssignParties::DECLARATION, "", &["assign-parties ghost", "assign-parties dfsp1"]),
    (Erase::DECLARATION, "", &["erase t1 999", "erase t1 1"]),
    (SetFourEyes::DECLARATION, "", &["four-eyes 41 40", "four-eyes 40 41"]),
    (
        Propose::DECLARATION,
        "four-eyes SetLimit AdvanceSettlement",
        &[
            "propose amina : endpoint dfsp1 T http://a",
            "propose-large amina",
            "propose amina : limit dfsp1 USD 5\npropose amina : limit dfsp1 USD 5",
            "propose amina : limit dfsp1 USD 5",
        ],
    ),
    (
        ApproveProposal::DECLARATION,
        "four-eyes SetLimit\npropose amina : limit dfsp1 USD 5",
        &[
            "approve amina 2 : limit dfsp1 USD 6",
            "reject benta 1\nat 60s\napprove amina 1 : limit dfsp1 USD 6",
            "at 60s\napprove amina 1 : limit dfsp1 USD 6",
            "approve amina 1 : limit dfsp1 USD 6",
            "approve benta 1 : limit dfsp1 USD 6",
            "approve benta 1",
        ],
    ),
    (
        RejectProposal::DECLARATION,
        "four-eyes SetLimit\npropose amina : limit dfsp1 USD 5",
        &[
            "reject benta 2",
            "reject benta 1\nat 60s\nreject benta 1",
            "at 60s\nreject benta 1",
            "reject benta 1",
        ],
    ),
    (
        AbortSettlement::DECLARATION,
        "",
        &[
            "abort-settlement 1",
            "settle-rounds 101\nabort-settlement 1",
            "settle-rounds 101\nabort-settlement 2",
            concat!(
                "prepare t1 dfsp1 dfsp2 10\nfulfil t1 dfsp2\nclose 1\nsettle DEFAULTDEFERREDNET 1\n",
                "advance 1 PS_TRANSFERS_RECORDED dfsp1/POSITION.USD dfsp2/POSITION.USD\n",
                "advance 1 PS_TRANSFERS_RESERVED dfsp1/POSITION.USD dfsp2/POSITION.USD\n",
                "advance 1 PS_TRANSFERS_COMMITTED dfsp1/POSITION.USD\nabort-settlement 1"
            ),
            concat!(
                "prepare t1 dfsp1 dfsp2 10\nfulfil t1 dfsp2\nclose 1\n",
                "settle DEFAULTDEFERREDNET 1\nabort-settlement 1"
            ),
        ],
    ),
];

/// One closed window with a transfer.
const CLOSED: &str = "prepare t1 dfsp1 dfsp2 10\nfulfil t1 dfsp2\nclose 1";

#[test]
fn changes_have_the_declared_order_of_their_outcomes() {
    for declaration in Change::DECLARATIONS {
        let stair = STAIRS.iter().find(|(it, ..)| it.number == declaration.number);
        let (_, before, lines) = stair.expect("every change has its lines");
        let outcomes: Vec<_> =
            lines.iter().map(|line| last_outcome(&format!("{before}\n{line}"))).collect();
        let is_reached = |it: &&AdminOutcome| !UNREACHED.contains(&(declaration.number, **it));
        let reached = declaration.outcomes.iter().filter(is_reached);
        let declared: Vec<_> = reached.map(|outcome| outcome.outcome()).collect();
        assert_eq!(outcomes, declared, "{}", declaration.name);
    }
}

const fn violation(
    outcome: Outcome,
    before: &'static str,
    words: &'static [(PrepareField, &'static str)],
) -> Violation {
    Violation { outcome, before, words }
}

fn combinable(first: &Violation, second: &Violation) -> bool {
    let shares =
        |(word, _): &(PrepareField, &str)| second.words.iter().any(|(other, _)| other == word);
    !first.words.iter().any(shares) && !EXCLUSIVE.contains(&(first.outcome, second.outcome))
}

fn outcome_of(violations: &[&Violation]) -> Outcome {
    let before: Vec<&str> = violations.iter().map(|violation| violation.before).collect();
    let word = |word, default: &'static str| -> &'static str {
        let mut all = violations.iter().flat_map(|violation| violation.words);
        all.find(|(other, _)| *other == word).map_or(default, |(_, value)| *value)
    };
    let payer = word(Payer, "dfsp1");
    let prepare: String = format!(
        "prepare t1 {payer} {} {} source={} currency={} exp={}",
        word(Payee, "dfsp2"),
        word(Amount, "10"),
        word(Source, payer),
        word(Currency, "USD"),
        word(Expiration, "60s"),
    );
    last_outcome(&format!("{}\nat 5s\n{prepare}", before.join("\n")))
}
