//! Interchange fees by this account: from the commands that declare rules, and from the prepares.
//! Only the numbers of accounts are looked up.

use fspiop::Transaction;
use ledger::{
    AccountId, AccountKind, Amount, Change, Currency, Fee, FeePayer, FeeRule, FeeRuleId,
    ParticipantIndex, Prepare, Rounding, State,
};

use super::windows::account_of;

/// Units of an amount in one unit of its currency.
const UNIT: i128 = 10_000;

/// The rules, in order of number.
#[derive(Default)]
pub(super) struct FeeRules(Vec<FeeRule>);

/// A fee that the commit of its transfer must move.
#[derive(Clone, Copy)]
pub(super) struct OpenFee {
    pub(super) from: AccountId,
    pub(super) to: AccountId,
    pub(super) amount: Amount,
}

impl FeeRules {
    /// Follows an accepted change.
    pub(super) fn follow(&mut self, change: &Change) -> Result<(), String> {
        let change = change.decided();
        if let Change::CreateFeeRule(create) = change {
            self.0.push((*create.rule).clone());
        } else if let Change::SetFeeRuleActive(switch) = change {
            let rule = place(switch.rule).and_then(|at| self.0.get_mut(at));
            let number = switch.rule.0;
            rule.ok_or(format!("fee rule {number} was switched before it was added"))?.active =
                switch.active;
        }
        Ok(())
    }

    fn rule(&self, id: FeeRuleId) -> Option<&FeeRule> {
        self.0.get(place(id)?)
    }

    /// The fee of a transfer that is reserved.
    pub(super) fn fee_of(
        &self,
        prepare: &Prepare,
        (payer, payee): (ParticipantIndex, ParticipantIndex),
        state: &State,
    ) -> Option<Box<OpenFee>> {
        let rule = self.rule(prepare.fee_rule?)?;
        let is_for = |only: Currency| only == prepare.currency;
        if !rule.active || !rule.currency.is_none_or(is_for) || payer == payee {
            return None;
        }
        let of = (AccountKind::InterchangeFee, prepare.currency);
        let (from, to) = match rule.payer {
            FeePayer::Payer => (payer, payee),
            FeePayer::Payee => (payee, payer),
        };
        let (from, to) = (account_of(state, from, of)?, account_of(state, to, of)?);
        let amount = amount_of(&rule.fee, prepare.amount);
        (amount != Amount::ZERO).then(|| Box::new(OpenFee { from, to, amount }))
    }

    /// Whether the rule that a prepare names applies to the transaction in its body. A rule that is
    /// unknown here applies to nothing, and is not compared.
    pub(super) fn are_named_rightly(&self, prepare: &Prepare, body: &[u8]) -> bool {
        let Some(rule) = prepare.fee_rule.and_then(|id| self.rule(id)) else { return true };
        // It was active when the edge looked, which may have been before its last switch.
        let rule = FeeRule { active: true, ..rule.clone() };
        Transaction::of_transfer(body).is_some_and(|transaction| {
            let facts = transaction.facts(prepare.currency, (prepare.payer, prepare.payee));
            rule.matches(&facts)
        })
    }
}

fn place(id: FeeRuleId) -> Option<usize> {
    (id.0 as usize).checked_sub(1)
}

/// A fixed amount, or a share of the amount to the nearest allowed one on the side of its rounding.
fn amount_of(fee: &Fee, amount: Amount) -> Amount {
    let (share, decimals, rounding) = match fee {
        Fee::Fixed { amount } => return *amount,
        Fee::Percentage { parts_per_million, decimals, rounding } => {
            (i128::from(*parts_per_million), *decimals, *rounding)
        }
    };
    let step = UNIT / 10_i128.pow(decimals);
    let exact = amount.units() * share;
    let below = exact / (step * 1_000_000) * step;
    let above = below + step;
    // Distances of the exact fee to both, in millionths of a unit.
    let (down, up) = (exact - below * 1_000_000, above * 1_000_000 - exact);
    let is_below = match rounding {
        _ if down == 0 => true,
        Rounding::Down => true,
        Rounding::Up => false,
        Rounding::HalfUp => down < up,
        Rounding::HalfEven => down < up || (down == up && below / step % 2 == 0),
    };
    Amount::from_units(if is_below { below } else { above })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_equal_those_of_the_kernel() {
        let mut rule = FeeRule {
            name: String::new(),
            currency: None,
            conditions: ledger::FeeConditions::default(),
            fee: Fee::Fixed { amount: Amount::from_units(7) },
            payer: FeePayer::Payer,
            active: true,
        };
        for units in (0..40_000).step_by(37).chain([10_i128.pow(21), 10_i128.pow(22) - 1]) {
            let amount = Amount::from_units(units);
            assert_eq!(amount_of(&rule.fee, amount), rule.fee_of(amount));
            for (parts_per_million, decimals) in
                [(6_000, 2), (5_000, 2), (500_000, 0), (250_000, 4), (1, 3), (1_000_000, 1)]
            {
                for rounding in Rounding::ALL.iter().copied() {
                    rule.fee = Fee::Percentage { parts_per_million, decimals, rounding };
                    assert_eq!(amount_of(&rule.fee, amount), rule.fee_of(amount), "{rule:?}");
                }
            }
            rule.fee = Fee::Fixed { amount: Amount::from_units(7) };
        }
    }
}
