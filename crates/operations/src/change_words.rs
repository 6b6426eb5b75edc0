//! Changes in words, with amounts and units, for operators who decide about a proposal. Hashes of
//! secrets are left out. A change without words does not compile.

use ledger::{
    AccountStep, Change, Fee, FundsDirection, PartyBinding, for_each_change, is_hashed_identifier,
    shown_identifier,
};

use crate::contents::masked_identifier;

/// A change in words.
pub(crate) trait InWords {
    fn in_words(&self) -> String;
}

macro_rules! words_of_each {
    ($($change:ident),*) => {
        impl InWords for Change {
            fn in_words(&self) -> String {
                match self {
                    $( Self::$change(change) => change.in_words(), )*
                }
            }
        }
    };
}
for_each_change!(words_of_each);

/// The same with identifiers of parties masked.
pub(crate) fn masked_words(change: &Change) -> String {
    let mut change = change.clone();
    let in_clear = |party: &&mut PartyBinding| !is_hashed_identifier(&party.id);
    let parties = change.named_parties_mut().iter_mut().filter(in_clear);
    parties.for_each(|party| party.id = masked_identifier(&party.id));
    change.in_words()
}

/// Changes that are never proposed: their names are enough.
macro_rules! named {
    ($($change:ident),*) => { $(
        impl InWords for ledger::$change {
            fn in_words(&self) -> String {
                Self::DECLARATION.name.to_owned()
            }
        }
    )* };
}
named!(Configure, CheckLiquidity, FinishAlerts, RecordAudit);

impl InWords for ledger::Activate {
    fn in_words(&self) -> String {
        format!("rules version {}", self.rules_version)
    }
}

/// A party and its FSP.
fn describe_party(party: &PartyBinding) -> String {
    format!("party {} {} of {}", party.id_type, shown_identifier(&party.id), party.fsp)
}

impl InWords for ledger::RegisterParties {
    fn in_words(&self) -> String {
        match &*self.parties {
            [party] => describe_party(party),
            parties => format!("{} parties", parties.len()),
        }
    }
}

impl InWords for ledger::AssignParties {
    fn in_words(&self) -> String {
        let verb = match self.form {
            ledger::PartyChangeForm::Delete => "release ",
            ledger::PartyChangeForm::Single | ledger::PartyChangeForm::Batch => "",
        };
        match &*self.parties {
            [party] => format!("{verb}{}", describe_party(party)),
            parties => format!("{verb}{} parties", parties.len()),
        }
    }
}

impl InWords for ledger::Propose {
    fn in_words(&self) -> String {
        format!("propose: {}", self.change.in_words())
    }
}

impl InWords for ledger::ApproveProposal {
    fn in_words(&self) -> String {
        format!("approve proposal {}: {}", self.proposal.0, self.change.in_words())
    }
}

impl InWords for ledger::RejectProposal {
    fn in_words(&self) -> String {
        format!("reject proposal {}", self.proposal.0)
    }
}

impl InWords for ledger::MoveFunds {
    fn in_words(&self) -> String {
        let kind = match self.direction {
            FundsDirection::In => "funds in",
            FundsDirection::Out => "funds out, reservation",
        };
        let (amount, currency, name) = (self.amount, self.currency, self.name);
        format!(
            "{kind}: {amount} {currency} of {name}, account {}, transfer {}",
            self.account.0, self.id
        )
    }
}

impl InWords for ledger::EndFundsOut {
    fn in_words(&self) -> String {
        let end = if self.commit { "commit" } else { "abort" };
        format!(
            "funds out, {end}: transfer {} of {}, account {}",
            self.id, self.name, self.account.0
        )
    }
}

impl InWords for ledger::AdjustBalance {
    fn in_words(&self) -> String {
        let (amount, currency, name) = (self.amount, self.currency, self.name);
        format!("adjustment: {amount} {currency} on account {} of {name}", self.account.0)
    }
}

impl InWords for ledger::SetInitialPositionAndLimits {
    fn in_words(&self) -> String {
        format!(
            "net debit cap {0} {1} and initial position {2} {1} of {3}",
            self.net_debit_cap, self.currency, self.position, self.name
        )
    }
}

impl InWords for ledger::SetLimit {
    fn in_words(&self) -> String {
        format!(
            "net debit cap {} {} of {}, alarm at {} %",
            self.net_debit_cap, self.currency, self.name, self.alarm_percentage
        )
    }
}

impl InWords for ledger::CloseWindow {
    fn in_words(&self) -> String {
        format!("close settlement window {}", self.window.0)
    }
}

impl InWords for ledger::CreateSettlement {
    fn in_words(&self) -> String {
        let windows: Vec<_> = self.windows.iter().map(|window| window.0.to_string()).collect();
        format!("settlement of windows {} by model {}", windows.join(", "), self.model)
    }
}

impl InWords for ledger::AdvanceSettlement {
    fn in_words(&self) -> String {
        format!("settlement {}: {}", self.settlement.0, describe_steps(&self.steps))
    }
}

impl InWords for ledger::AbortSettlement {
    fn in_words(&self) -> String {
        format!("abort settlement {}: {}", self.settlement.0, self.reason)
    }
}

impl InWords for ledger::CreateHubAccount {
    fn in_words(&self) -> String {
        format!("hub account {} in {}", self.kind.name().unwrap_or_default(), self.currency)
    }
}

impl InWords for ledger::CreateParticipant {
    fn in_words(&self) -> String {
        format!("participant {} in {}", self.name, self.currency)
    }
}

impl InWords for ledger::SetParticipantActive {
    fn in_words(&self) -> String {
        format!("{} participant {}", activity(self.active), self.name)
    }
}

impl InWords for ledger::SetAccountActive {
    fn in_words(&self) -> String {
        format!("{} account {} of {}", activity(self.active), self.account.0, self.name)
    }
}

impl InWords for ledger::SetEndpoint {
    fn in_words(&self) -> String {
        format!("endpoint {} of {}: {}", self.endpoint, self.name, self.value)
    }
}

impl InWords for ledger::CreateSettlementModel {
    fn in_words(&self) -> String {
        let kind = if self.model.net { "net" } else { "gross" };
        let account = self.model.ledger_account.name().unwrap_or_default();
        format!("settlement model {}: {kind}, {account}", self.model.name)
    }
}

impl InWords for ledger::SetSettlementModelActive {
    fn in_words(&self) -> String {
        format!("{} settlement model {}", activity(self.active), self.name)
    }
}

impl InWords for ledger::CreateFeeRule {
    fn in_words(&self) -> String {
        format!("interchange fee rule {}: {}", self.rule.name, describe_fee(&self.rule.fee))
    }
}

impl InWords for ledger::SetFeeRuleActive {
    fn in_words(&self) -> String {
        format!("{} interchange fee rule {}", activity(self.active), self.rule.0)
    }
}

impl InWords for ledger::AddKey {
    fn in_words(&self) -> String {
        format!("public key {} of {}", self.id, self.name)
    }
}

impl InWords for ledger::RemoveKey {
    fn in_words(&self) -> String {
        format!("remove public key {} of {}", self.id, self.name)
    }
}

impl InWords for ledger::BeginEnrolment {
    fn in_words(&self) -> String {
        format!("enrolment of {}", self.name)
    }
}

impl InWords for ledger::EndEnrolment {
    fn in_words(&self) -> String {
        let end = if self.certificate.is_some() { "certificate for" } else { "reject" };
        format!("{end} enrolment {} of {}", self.enrolment.0, self.name)
    }
}

impl InWords for ledger::Erase {
    fn in_words(&self) -> String {
        let (what, in_range) = match self.form {
            ledger::ErasureForm::Transfer => ("messages of transfer", false),
            ledger::ErasureForm::Party => {
                ("messages about a party with an identifier of type", false)
            }
            ledger::ErasureForm::Before => ("all messages", true),
            ledger::ErasureForm::Participant => ("messages of participant", false),
            ledger::ErasureForm::RetainedPayments => ("messages of payments", true),
            ledger::ErasureForm::RetainedRegistrations => ("registrations", true),
        };
        let (count, subject) = (self.contents, &self.subject);
        match (in_range, count) {
            (true, _) => format!("erase the contents of {what} before {subject}: {count}"),
            (false, 1) => {
                format!(
                    "erase the contents of 1 {} {subject}",
                    what.replacen("messages", "message", 1)
                )
            }
            (false, _) => format!("erase the contents of {count} {what} {subject}"),
        }
    }
}

impl InWords for ledger::Redeliver {
    fn in_words(&self) -> String {
        format!("send dead letter {} again", self.notice.0)
    }
}

impl InWords for ledger::DropDeadLetter {
    fn in_words(&self) -> String {
        format!("drop dead letter {}", self.notice.0)
    }
}

impl InWords for ledger::CreateOracle {
    fn in_words(&self) -> String {
        format!("oracle of {}: {}", self.oracle.id_type, self.oracle.endpoint)
    }
}

impl InWords for ledger::UpdateOracle {
    fn in_words(&self) -> String {
        format!("change oracle {}", self.id.0)
    }
}

impl InWords for ledger::DeleteOracle {
    fn in_words(&self) -> String {
        format!("delete oracle {}", self.id.0)
    }
}

impl InWords for ledger::CreateLedgerAccountType {
    fn in_words(&self) -> String {
        format!("ledger account type {}", self.account_type.name)
    }
}

impl InWords for ledger::SetRole {
    fn in_words(&self) -> String {
        format!("role {}: {}", self.role.name, listed(&self.role.permissions))
    }
}

impl InWords for ledger::RemoveRole {
    fn in_words(&self) -> String {
        format!("remove role {}", self.name)
    }
}

impl InWords for ledger::SetOperator {
    fn in_words(&self) -> String {
        format!("operator {}, {}: {}", self.name, activity(self.active), listed(&self.roles))
    }
}

impl InWords for ledger::CreateToken {
    fn in_words(&self) -> String {
        let roles =
            if self.roles.is_empty() { "all its roles".into() } else { self.roles.join(", ") };
        format!("token of operator {} with {roles}: {}", self.operator, self.description)
    }
}

impl InWords for ledger::RevokeToken {
    fn in_words(&self) -> String {
        format!("revoke token {}", crate::operator_token::id_text(self.id))
    }
}

impl InWords for ledger::SetPassword {
    fn in_words(&self) -> String {
        format!("password of operator {}", self.operator)
    }
}

impl InWords for ledger::SetSecondFactor {
    fn in_words(&self) -> String {
        format!("second factor of operator {}", self.operator)
    }
}

impl InWords for ledger::SetFourEyes {
    fn in_words(&self) -> String {
        let is_listed = |number: &u8| self.changes.contains(number);
        let all = Change::DECLARATIONS.iter().filter(|declared| is_listed(&declared.number));
        let names: Vec<_> = all.map(|declared| declared.name.to_owned()).collect();
        format!("changes that need a second operator: {}", listed(&names))
    }
}

const fn activity(is_active: bool) -> &'static str {
    if is_active { "activate" } else { "deactivate" }
}

fn listed(texts: &[String]) -> String {
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

/// At most three accounts by number, and the count of the others.
fn describe_steps(steps: &[AccountStep]) -> String {
    let text = |step: &AccountStep| format!("account {} to {}", step.account.0, step.state.name());
    let mut texts: Vec<_> = steps.iter().take(3).map(text).collect();
    if texts.len() < steps.len() {
        texts.push(format!("{} more", steps.len() - texts.len()));
    }
    texts.join(", ")
}

fn describe_fee(fee: &Fee) -> String {
    match fee {
        Fee::Percentage { parts_per_million, .. } => {
            let (whole, rest) = (parts_per_million / 10_000, parts_per_million % 10_000);
            format!("{whole}.{rest:04} %")
        }
        Fee::Fixed { amount } => amount.to_string(),
    }
}
