//! Interchange fees: what the FSP of one party pays the FSP of the other for a committed transfer
//! (settlement-and-bulk 1.8).
//!
//! A [`FeeRule`] is state. The edge reads the transaction object of a transfer, chooses the first
//! active rule that matches it, and names that rule in the prepare. The kernel computes the fee
//! when it reserves, posts it between the INTERCHANGE_FEE accounts of payer and payee when it
//! commits, and adds it to the open window in the same step. An aborted or expired transfer has no
//! fee.
//!
//! Costs: one check for a transfer without a fee; one B-tree operation each at the prepare and at
//! the end of a transfer with a fee. Bounds: [`FEE_RULES_MAX`] rules, and one pending fee per
//! transfer in flight.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::field::{AtMost, NonNegative, Optional, Pair, SHORT, Text, choices, numbered, stored};
use crate::ids::{AccountId, FeeRuleId, FspName, TransferId};
use crate::money::{Amount, Currency, SCALE};

/// Maximum number of fee rules. They are never removed.
pub const FEE_RULES_MAX: usize = 100;
/// Parts per million in the whole: 100 %.
pub const FEE_WHOLE: u32 = 1_000_000;
/// Maximum number of decimals of a fee.
pub const FEE_DECIMALS_MAX: u32 = SCALE;

numbered! {
    /// How the last decimal of a percentage is rounded. Amounts are never negative.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Rounding: u8 {
        /// To the nearest value, upwards from half.
        HalfUp = 1,
        /// Downwards.
        Down = 2,
        /// Upwards.
        Up = 3,
        /// To the nearest value, from half to the even one.
        HalfEven = 4,
    }
}

numbered! {
    /// The party whose FSP pays the fee to the FSP of the other one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FeePayer: u8 {
        /// The payer.
        Payer = 1,
        /// The payee.
        Payee = 2,
    }
}

choices! {
    /// The amount of a fee.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fee: u8 {
        /// A share of the amount of the transfer.
        1 Percentage {
            /// The share, in ten-thousandths of a percent; at most [`FEE_WHOLE`].
            parts_per_million: u32 as AtMost<1_000_000>,
            /// Number of decimals to which it is rounded; at most [`FEE_DECIMALS_MAX`].
            decimals: u32 as AtMost<4>,
            /// How it is rounded.
            rounding: Rounding,
        },
        /// A fixed amount, in the currency of the transfer.
        2 Fixed {
            /// The amount.
            amount: Amount as NonNegative,
        },
    }
}

stored! {
    /// The transfers to which a rule applies. An absent condition applies to all of them.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FeeConditions {
        /// `transactionType.scenario`.
        pub scenario: Option<String> as Optional<Text<SHORT>>,
        /// `transactionType.subScenario`.
        pub sub_scenario: Option<String> as Optional<Text<SHORT>>,
        /// `transactionType.initiator`.
        pub initiator: Option<String> as Optional<Text<SHORT>>,
        /// `transactionType.initiatorType`.
        pub initiator_type: Option<String> as Optional<Text<SHORT>>,
        /// FSP of the payer.
        pub payer_fsp: Option<FspName>,
        /// FSP of the payee.
        pub payee_fsp: Option<FspName>,
        /// Key and value in `payer.partyIdInfo.extensionList`.
        pub payer_extension: Option<(String, String)> as Optional<Pair<Text<SHORT>, Text<SHORT>>>,
        /// Key and value in `payee.partyIdInfo.extensionList`.
        pub payee_extension: Option<(String, String)> as Optional<Pair<Text<SHORT>, Text<SHORT>>>,
    }
}

stored! {
    /// A rule for interchange fees. Its number is its place, from 1.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FeeRule {
        /// Its name, unique among the rules.
        pub name: String as Text<SHORT>,
        /// The only currency of its transfers; `None` for every currency.
        pub currency: Option<Currency>,
        /// The transfers to which it applies.
        pub conditions: FeeConditions,
        /// The amount.
        pub fee: Fee,
        /// The party that pays.
        pub payer: FeePayer,
        /// Whether it applies to new transfers.
        pub active: bool,
    }
}

stored! {
    /// The fee of a reserved transfer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PendingFee {
        /// The rule that it follows.
        pub rule: FeeRuleId,
        /// The INTERCHANGE_FEE account that pays.
        pub from: AccountId,
        /// The INTERCHANGE_FEE account that receives.
        pub to: AccountId,
        /// The fee, above zero.
        pub amount: Amount,
    }
}

/// The facts of a transfer that the conditions of a rule name. They come from the transfer and from
/// the transaction object in its ILP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionFacts<'a> {
    /// Currency of the transfer.
    pub currency: Currency,
    /// FSP of the payer.
    pub payer_fsp: FspName,
    /// FSP of the payee.
    pub payee_fsp: FspName,
    /// `transactionType.scenario`.
    pub scenario: &'a str,
    /// `transactionType.subScenario`.
    pub sub_scenario: Option<&'a str>,
    /// `transactionType.initiator`.
    pub initiator: &'a str,
    /// `transactionType.initiatorType`.
    pub initiator_type: &'a str,
    /// Keys and values of `payer.partyIdInfo.extensionList`.
    pub payer_extensions: Vec<(&'a str, &'a str)>,
    /// Keys and values of `payee.partyIdInfo.extensionList`.
    pub payee_extensions: Vec<(&'a str, &'a str)>,
}

impl FeeConditions {
    fn match_facts(&self, facts: &TransactionFacts<'_>) -> bool {
        let fits = |wanted: &Option<String>, found: Option<&str>| {
            wanted.is_none() || wanted.as_deref() == found
        };
        let is_of = |wanted: &Option<FspName>, found: &FspName| {
            wanted.as_ref().is_none_or(|wanted| wanted.matches(found))
        };
        let has = |wanted: &Option<(String, String)>, found: &[(&str, &str)]| {
            let fits = |(key, value): &(String, String)| found.contains(&(key, value));
            wanted.as_ref().is_none_or(fits)
        };
        fits(&self.scenario, Some(facts.scenario))
            && fits(&self.sub_scenario, facts.sub_scenario)
            && fits(&self.initiator, Some(facts.initiator))
            && fits(&self.initiator_type, Some(facts.initiator_type))
            && is_of(&self.payer_fsp, &facts.payer_fsp)
            && is_of(&self.payee_fsp, &facts.payee_fsp)
            && has(&self.payer_extension, &facts.payer_extensions)
            && has(&self.payee_extension, &facts.payee_extensions)
    }
}

impl FeeRule {
    /// Whether it is active and applies to a transfer. No rule applies to a transfer within one
    /// FSP.
    #[must_use]
    pub fn matches(&self, facts: &TransactionFacts<'_>) -> bool {
        self.serves(facts.currency)
            && !facts.payer_fsp.matches(&facts.payee_fsp)
            && self.conditions.match_facts(facts)
    }

    /// Whether it is active and applies to transfers in a currency.
    #[must_use]
    pub fn serves(&self, currency: Currency) -> bool {
        self.active && self.currency.is_none_or(|only| only == currency)
    }

    /// The fee of a transfer.
    #[must_use]
    pub fn fee_of(&self, amount: Amount) -> Amount {
        match self.fee {
            Fee::Fixed { amount } => amount,
            Fee::Percentage { parts_per_million, decimals, rounding } => {
                let place = 10_i128.pow(SCALE - decimals);
                let product = amount.units().checked_mul(parts_per_million.into());
                let product = product.expect("an amount and a share are within their bounds");
                let places = rounding.divide(product, place * i128::from(FEE_WHOLE));
                Amount::from_units(places * place)
            }
        }
    }
}

impl Rounding {
    /// Divides a number that is not negative.
    const fn divide(self, number: i128, by: i128) -> i128 {
        let (whole, twice) = (number / by, number % by * 2);
        let is_up = match self {
            Self::Down => false,
            Self::Up => 0 < twice,
            Self::HalfUp => by <= twice,
            Self::HalfEven => by < twice || (by == twice && whole % 2 == 1),
        };
        whole + is_up as i128
    }
}

/// All fee rules, and the fees of transfers in flight.
#[derive(Clone, Debug, Default)]
pub struct FeeBook {
    pub(crate) rules: Vec<FeeRule>,
    pub(crate) pending: BTreeMap<TransferId, PendingFee>,
}

impl FeeBook {
    /// All rules, in order of number.
    #[must_use]
    pub fn rules(&self) -> &[FeeRule] {
        &self.rules
    }

    /// The rule with this number.
    #[must_use]
    pub fn rule(&self, id: FeeRuleId) -> Option<&FeeRule> {
        self.rules.get((id.0 as usize).checked_sub(1)?)
    }

    /// The fee of a transfer in flight.
    #[must_use]
    pub fn pending(&self, id: &TransferId) -> Option<&PendingFee> {
        self.pending.get(id)
    }

    pub(crate) fn rule_mut(&mut self, id: FeeRuleId) -> Option<&mut FeeRule> {
        self.rules.get_mut((id.0 as usize).checked_sub(1)?)
    }

    /// Whether a transfer in flight has a fee.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Removes the fee of a transfer that ends.
    pub(crate) fn take(&mut self, id: &TransferId) -> Option<PendingFee> {
        self.pending.remove(id)
    }
}

/// The first rule that matches, in order of number.
#[must_use]
pub fn first_match(rules: &[FeeRule], facts: &TransactionFacts<'_>) -> Option<FeeRuleId> {
    let at = rules.iter().position(|rule| rule.matches(facts))?;
    Some(FeeRuleId(at as u32 + 1))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn usd() -> Currency {
        Currency::parse("USD").expect("a currency")
    }

    fn name(text: &str) -> FspName {
        FspName::new(text).expect("a name")
    }

    fn text(text: &str) -> Option<String> {
        Some(text.into())
    }

    /// The published rule of the reference: 0.6 % with 2 decimals between wallets of consumers.
    fn published() -> FeeRule {
        let wallet = || Some(("accountType".into(), "Wallet".into()));
        FeeRule {
            name: "WALLET".into(),
            currency: None,
            conditions: FeeConditions {
                scenario: text("TRANSFER"),
                initiator: text("PAYER"),
                initiator_type: text("CONSUMER"),
                payer_extension: wallet(),
                payee_extension: wallet(),
                ..FeeConditions::default()
            },
            fee: percentage(6_000, 2, Rounding::HalfUp),
            payer: FeePayer::Payer,
            active: true,
        }
    }

    const fn percentage(parts_per_million: u32, decimals: u32, rounding: Rounding) -> Fee {
        Fee::Percentage { parts_per_million, decimals, rounding }
    }

    fn facts() -> TransactionFacts<'static> {
        TransactionFacts {
            currency: usd(),
            payer_fsp: name("dfsp1"),
            payee_fsp: name("dfsp2"),
            scenario: "TRANSFER",
            sub_scenario: None,
            initiator: "PAYER",
            initiator_type: "CONSUMER",
            payer_extensions: vec![("accountType", "Wallet")],
            payee_extensions: vec![("other", "Wallet"), ("accountType", "Wallet")],
        }
    }

    #[test]
    fn rule_matches_if_all_of_its_conditions_do() {
        type Change = fn(&mut FeeRule, &mut TransactionFacts<'static>);
        let cases: [(bool, Change); 19] = [
            (true, |_, _| {}),
            (true, |rule, _| rule.currency = Some(usd())),
            (true, |rule, _| rule.conditions = FeeConditions::default()),
            (true, |rule, _| rule.conditions.payer_fsp = Some(name("DFSP1"))),
            (true, |rule, _| rule.conditions.payee_fsp = Some(name("dfsp2"))),
            (true, |rule, facts| {
                rule.conditions.sub_scenario = text("LOCAL");
                facts.sub_scenario = Some("LOCAL");
            }),
            (true, |_, facts| facts.sub_scenario = Some("LOCAL")),
            (false, |rule, _| rule.active = false),
            (false, |rule, _| rule.currency = Currency::parse("EUR")),
            (false, |rule, _| rule.conditions.sub_scenario = text("LOCAL")),
            (false, |_, facts| facts.scenario = "PAYMENT"),
            (false, |_, facts| facts.initiator = "PAYEE"),
            (false, |_, facts| facts.initiator_type = "BUSINESS"),
            (false, |rule, _| rule.conditions.payer_fsp = Some(name("dfsp2"))),
            (false, |rule, _| rule.conditions.payee_fsp = Some(name("dfsp1"))),
            (false, |_, facts| facts.payer_extensions.clear()),
            (false, |_, facts| facts.payee_extensions[1].0 = "x"),
            (false, |_, facts| facts.payee_extensions[1].1 = "Bank"),
            (false, |rule, facts| {
                rule.conditions = FeeConditions::default();
                facts.payee_fsp = name("DFSP1");
            }),
        ];
        for (at, (expected, change)) in cases.into_iter().enumerate() {
            let (mut rule, mut facts) = (published(), facts());
            change(&mut rule, &mut facts);
            assert_eq!(rule.matches(&facts), expected, "case {at}");
        }
    }

    #[test]
    fn first_active_rule_decides() {
        let inactive = FeeRule { active: false, ..published() };
        let rules = [inactive.clone(), published(), published()];
        assert_eq!(first_match(&rules, &facts()), Some(FeeRuleId(2)));
        assert_eq!(first_match(&[inactive], &facts()), None);
        let book = FeeBook { rules: rules.to_vec(), ..FeeBook::default() };
        assert_eq!(
            [0, 1, 3, 4].map(|id| book.rule(FeeRuleId(id)).is_some()),
            [false, true, true, false]
        );
    }

    #[test]
    fn fees_are_rounded() {
        use Rounding::{Down, HalfEven, HalfUp, Up};
        let cases = [
            ("100", percentage(6_000, 2, HalfUp), "0.6"),
            ("0.83", percentage(6_000, 2, HalfUp), "0"),
            ("0.84", percentage(6_000, 2, HalfUp), "0.01"),
            ("0.84", percentage(6_000, 2, Down), "0"),
            ("0.01", percentage(6_000, 2, Up), "0.01"),
            ("0", percentage(6_000, 2, Up), "0"),
            ("2.5", percentage(10_000, 2, HalfUp), "0.03"),
            ("2.5", percentage(10_000, 2, HalfEven), "0.02"),
            ("3.5", percentage(10_000, 2, HalfEven), "0.04"),
            ("2.51", percentage(10_000, 2, HalfEven), "0.03"),
            ("2.49", percentage(10_000, 2, HalfEven), "0.02"),
            ("1", percentage(500_000, 0, HalfUp), "1"),
            ("1", percentage(500_000, 0, Down), "0"),
            ("0.0001", percentage(1_000_000, 4, Down), "0.0001"),
            ("1", percentage(1, 4, Up), "0.0001"),
            ("1", percentage(0, 4, Up), "0"),
            ("999999999999999999.9999", percentage(1_000_000, 4, Up), "999999999999999999.9999"),
            ("7", Fee::Fixed { amount: Amount::from_units(12_500) }, "1.25"),
        ];
        let amount = |text| Amount::parse_decimal(text).expect("an amount");
        for (of, fee, expected) in cases {
            let rule = FeeRule { fee, ..published() };
            assert_eq!(rule.fee_of(amount(of)), amount(expected), "{of} {fee:?}");
        }
    }
}
