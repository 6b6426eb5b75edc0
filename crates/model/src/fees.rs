//! The model of interchange fees (settlement-and-bulk 1.8).
//!
//! It keeps the rule that each prepare named, and computes the fee from the transfer. Percentages
//! are computed on the decimals of a text, by long division.

use ledger::{
    AccountKind, CreateFeeRule, Currency, FEE_RULES_MAX, Fee, FeePayer, FeeRule, FspName, Outcome,
    PendingFee, Rounding, SetFeeRuleActive, SettlementModel, State, TransferId,
};

use super::{Model, Money, Predict};

/// The first version of the rules with fees.
pub(super) const FEE_RULES: u32 = 3;

/// A fee that is due when its transfer is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReservedFee {
    rule: usize,
    /// Indices of accounts.
    from: usize,
    to: usize,
    amount: Money,
}

impl Model {
    /// The fee of a transfer that a prepare reserves.
    pub(super) fn fee_to_reserve(
        &self,
        rule: Option<u32>,
        (payer, payee): (&FspName, &FspName),
        (currency, amount): (Currency, Money),
    ) -> Option<ReservedFee> {
        let at = rule?.checked_sub(1)? as usize;
        let rule = self.fee_rules.get(at)?;
        if !rule.active || rule.currency.is_some_and(|only| only != currency) || payer == payee {
            return None;
        }
        let account = |name| {
            let held = self.scheme.accounts_in(name, currency)?;
            self.scheme.account_of_kind(held.position, AccountKind::InterchangeFee)
        };
        let (payer, payee) = (account(payer)?, account(payee)?);
        let (from, to) = match rule.payer {
            FeePayer::Payer => (payer, payee),
            FeePayer::Payee => (payee, payer),
        };
        let amount = fee_of(&rule.fee, amount);
        (amount != 0).then_some(ReservedFee { rule: at, from, to, amount })
    }

    /// A committed transfer pays its fee, which joins the open window.
    pub(super) fn charge(&mut self, due: ReservedFee) {
        let ReservedFee { from, to, amount, .. } = due;
        self.scheme.add(from, amount);
        self.scheme.add(to, -amount);
        self.add_to_window([from, to], amount);
        self.fees_charged += 1;
    }

    pub(super) fn compare_fees(&self, state: &State) {
        assert_eq!(state.fees().rules(), self.fee_rules, "fee rules");
        for (id, transfer) in &self.transfers {
            let pending = state.fees().pending(id).copied();
            assert_eq!(pending, transfer.reserved_fee().map(ReservedFee::row), "fee of {id}");
        }
    }

    /// Whether the open transfer has a fee that is due.
    pub fn has_fee(&self, id: &TransferId) -> bool {
        self.transfers.get(id).is_some_and(|transfer| transfer.reserved_fee().is_some())
    }
}

impl ReservedFee {
    fn row(self) -> PendingFee {
        PendingFee {
            rule: ledger::FeeRuleId(self.rule as u32 + 1),
            from: ledger::AccountId(self.from as u32 + 1),
            to: ledger::AccountId(self.to as u32 + 1),
            amount: ledger::Amount::from_units(self.amount),
        }
    }
}

/// The fee of an amount in ten-thousandths.
fn fee_of(fee: &Fee, amount: Money) -> Money {
    let Fee::Percentage { parts_per_million, decimals, rounding } = *fee else {
        let Fee::Fixed { amount } = *fee else { unreachable!("a fee is fixed or a percentage") };
        return amount.units();
    };
    // The product has ten decimals: four of the amount and six of the share.
    let digits = format!("{:011}", amount * i128::from(parts_per_million));
    let kept = digits.len() - (10 - decimals as usize);
    let (head, tail) = digits.split_at(kept);
    let whole: Money = head.parse().expect("digits");
    let half = format!("5{}", "0".repeat(tail.len() - 1));
    let is_odd = head.ends_with(['1', '3', '5', '7', '9']);
    let up = match rounding {
        Rounding::Down => false,
        Rounding::Up => tail.bytes().any(|digit| digit != b'0'),
        Rounding::HalfUp => *half <= *tail,
        Rounding::HalfEven => *half < *tail || (*half == *tail && is_odd),
    };
    (whole + Money::from(up)) * 10_i128.pow(4 - decimals)
}

impl Predict for CreateFeeRule {
    fn predict(&self, model: &mut Model) -> Outcome {
        let FeeRule { name, currency, .. } = &*self.rule;
        if model.fee_rules.iter().any(|rule| rule.name == *name) {
            return Outcome::FeeRuleExists;
        }
        let kind = AccountKind::InterchangeFee;
        let serves = |it: &SettlementModel| match currency {
            None => it.ledger_account == kind,
            Some(only) => model.scheme.is_served_by(it, (kind, *only)),
        };
        let mut models = model.scheme.net_deferred_models();
        if model.rules < FEE_RULES || !models.any(serves) {
            return Outcome::SettlementModelMissing;
        }
        if FEE_RULES_MAX <= model.fee_rules.len() {
            return Outcome::RegistryFull;
        }
        model.fee_rules.push((*self.rule).clone());
        Outcome::Accepted
    }
}

impl Predict for SetFeeRuleActive {
    fn predict(&self, model: &mut Model) -> Outcome {
        let at = (self.rule.0 as usize).wrapping_sub(1);
        match model.fee_rules.get_mut(at) {
            None => Outcome::FeeRuleNotFound,
            Some(rule) => {
                rule.active = self.active;
                Outcome::Accepted
            }
        }
    }
}
