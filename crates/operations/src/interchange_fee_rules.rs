//! `/interchangeFeeRules`: the rules by which the FSP of one party pays the FSP of the other
//! (settlement-and-bulk 1.8). The reference has scripts in their place.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{
    AdminOutcome, Amount, CreateFeeRule, Currency, FEE_DECIMALS_MAX, FEE_WHOLE, Fee, FeeConditions,
    FeePayer, FeeRule, FeeRuleId, FspName, Rounding, SetFeeRuleActive, State,
};
use serde_json::json;

use crate::body::{
    Activity, CURRENCY_OR_NULL, Choice, Custom, Decimal, FLAG, NUMBER, Object, Optional,
    PatternText, body, single_line,
};
use crate::body_reader::refuse;
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

const SCENARIOS: [(&str, &str); 5] = [
    ("DEPOSIT", "DEPOSIT"),
    ("WITHDRAWAL", "WITHDRAWAL"),
    ("TRANSFER", "TRANSFER"),
    ("PAYMENT", "PAYMENT"),
    ("REFUND", "REFUND"),
];
const INITIATORS: [(&str, &str); 2] = [("PAYER", "PAYER"), ("PAYEE", "PAYEE")];
const INITIATOR_TYPES: [(&str, &str); 4] =
    [("CONSUMER", "CONSUMER"), ("AGENT", "AGENT"), ("BUSINESS", "BUSINESS"), ("DEVICE", "DEVICE")];
const ROUNDINGS: [(&str, Rounding); 4] = [
    ("HALF_UP", Rounding::HalfUp),
    ("DOWN", Rounding::Down),
    ("UP", Rounding::Up),
    ("HALF_EVEN", Rounding::HalfEven),
];
const PAYERS: [(&str, FeePayer); 2] = [("PAYER", FeePayer::Payer), ("PAYEE", FeePayer::Payee)];

/// The number of a rule in a path; a text that cannot be one names none.
const ID: Parameter<Option<FeeRuleId>> =
    Parameter::new("id", "The rule's number, as the list shows it.", schema::some_text, |text| {
        let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        Ok(number.map(FeeRuleId))
    })
    .example("\"1\"");

routes! {
    "/interchangeFeeRules" {
        read GET listInterchangeFeeRules = list, "List the rules for interchange fees" {
            dry_run: true,
            responses: [200: Vec<FeeRuleResponse> = "Rules, in the order in which they are tried."],
        }
        change POST createInterchangeFeeRule = create(NewFeeRule), "Add a rule for a fee" {
            permission: Finance,
            dry_run: true,
            records: CreateFeeRule,
            text: "\
                The first active rule that matches the transaction object in the ILP packet of a \
                transfer decides its fee. An absent condition matches every transfer between two \
                FSPs. The fee is a percentage of the amount, rounded to `decimals`, or a fixed \
                amount. It is posted with the commit, and settled by a net deferred settlement \
                model of INTERCHANGE_FEE, which must exist. Rules are never removed, at most 100.",
            example: {
                "name": "wallet to wallet",
                "conditions": {
                    "scenario": "TRANSFER",
                    "initiator": "PAYER",
                    "initiatorType": "CONSUMER",
                    "payerExtension": {"key": "accountType", "value": "Wallet"},
                    "payeeExtension": {"key": "accountType", "value": "Wallet"}
                },
                "fee": {"percentage": "0.6", "decimals": 2}
            },
            responses: [201: FeeRuleResponse = "The rule."],
            refusals: [400 ID_NOT_FOUND],
        }
    }
    "/interchangeFeeRules/{id}" [ID] {
        read GET showInterchangeFeeRule = show, "Show a rule for interchange fees" {
            dry_run: true,
            responses: [200: FeeRuleResponse = "The rule."],
            refusals: [400 ID_NOT_FOUND],
        }
        change PUT switchInterchangeFeeRule = update(Activity), "Activate or deactivate a rule" {
            permission: Finance,
            dry_run: true,
            records: SetFeeRuleActive,
            text: "Transfers that are already reserved keep their fees.",
            example: {"isActive": false},
            responses: [200: FeeRuleResponse = "The rule after the change."],
        }
    }
}

body! {
    Closed NewFeeRule {
        name: String = single_line(30),
        currency: Option<Currency> = Optional(CURRENCY_OR_NULL),
        conditions: Option<Conditions> = Optional(Object::<Conditions>::RULE),
        fee: NewFee = Object::<NewFee>::RULE,
        payer: Option<FeePayer> = Optional(Choice(&PAYERS)),
        is_active: Option<bool> = Optional(FLAG),
    }
}

body! {
    Closed Conditions {
        scenario: Option<&'static str> = Optional(Choice(&SCENARIOS)),
        sub_scenario: Option<String> = Optional(PatternText(
            1..=32,
            |character| character.is_ascii_uppercase() || character == '_',
            "^[A-Z_]+$",
        )),
        initiator: Option<&'static str> = Optional(Choice(&INITIATORS)),
        initiator_type: Option<&'static str> = Optional(Choice(&INITIATOR_TYPES)),
        payer_fsp: Option<FspName> = Optional(FSP),
        payee_fsp: Option<FspName> = Optional(FSP),
        payer_extension: Option<Extension> = Optional(Object::<Extension>::RULE),
        payee_extension: Option<Extension> = Optional(Object::<Extension>::RULE),
    }
}

body! {
    Closed Extension {
        key: String = single_line(32),
        value: String = single_line(128),
    }
}

body! {
    Closed NewFee {
        percentage: Option<Amount> = Optional(Decimal::AboveZero),
        decimals: Option<u32> = Optional(NUMBER),
        rounding: Option<Rounding> = Optional(Choice(&ROUNDINGS)),
        amount: Option<Amount> = Optional(Decimal::AboveZero),
    }
}

pub(crate) const FSP: Custom<FspName> = Custom {
    take: |reader, name| {
        let Some(text) = reader.text(name, 1..=32)? else { return Ok(None) };
        FspName::new(&text).map(Some).ok_or_else(|| reader.invalid(name, "must be an FspId"))
    },
    schema: || schema::text(1, 32),
};

response_type! {
    pub(crate) struct FeeRuleResponse as "InterchangeFeeRule" {
        interchange_fee_rule_id: usize,
        name: String,
        is_active: bool,
        currency: Option<String> = schema::currency_or_null(),
        conditions: ConditionsResponse,
        fee: FeeResponse,
        payer: &'static str = schema::one_of(&schema::names(&PAYERS)),
    }
}

response_type! {
    pub(crate) struct ConditionsResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        scenario: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sub_scenario: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        initiator: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        initiator_type: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        payer_fsp: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        payee_fsp: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        payer_extension: Option<ExtensionResponse>,
        #[serde(skip_serializing_if = "Option::is_none")]
        payee_extension: Option<ExtensionResponse>,
    }
}

response_type! {
    pub(crate) struct ExtensionResponse {
        key: String,
        value: String,
    }
}

response_type! {
    /// A percentage with decimals and rounding, or an amount.
    pub(crate) struct FeeResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        percentage: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        decimals: Option<u32> = json!({"type": "integer", "minimum": 0, "maximum": 4}),
        #[serde(skip_serializing_if = "Option::is_none")]
        rounding: Option<&'static str> = schema::one_of(&schema::names(&ROUNDINGS)),
        #[serde(skip_serializing_if = "Option::is_none")]
        amount: Option<String>,
    }
}

/// `GET /interchangeFeeRules`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let all = request.query_state(|state| {
        let rules = state.fees().rules().iter().zip(1..);
        rules.map(|(rule, number)| FeeRuleResponse::of(number, rule)).collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&all.await?))
}

/// `POST /interchangeFeeRules`.
async fn create(request: &AdminRequest<'_>, body: NewFeeRule) -> HandlerResult {
    let rule = FeeRule {
        fee: body.fee.checked()?,
        name: body.name.clone(),
        currency: body.currency,
        conditions: body.conditions.map_or_else(FeeConditions::default, Conditions::into_ledger),
        payer: body.payer.unwrap_or(FeePayer::Payer),
        active: body.is_active.unwrap_or(true),
    };
    must_name_participants(request, &rule.conditions).await?;
    let reason = request.identity.reason.clone();
    let change = CreateFeeRule { rule: Box::new(rule) };
    match request.decide(reason, change).await?.0 {
        AdminOutcome::SettlementModelMissing => return Err(not_settled(body.currency)),
        outcome => outcome_errors::from_outcome(outcome).map_or(Ok(()), Err)?,
    }
    let created = request.query_state(move |state| {
        let at = state.fees().rules().iter().position(|rule| rule.name == body.name);
        at.and_then(|at| FeeRuleResponse::find(state, FeeRuleId(at as u32 + 1)))
    });
    let created = created.await?.ok_or_else(not_found)?;
    Ok(AdminResponse::json(StatusCode::CREATED, &created))
}

/// The FSPs of the conditions must be participants. They are never removed.
async fn must_name_participants(
    request: &AdminRequest<'_>,
    conditions: &FeeConditions,
) -> Result<(), Refusal> {
    let named = [
        ("conditions.payerFsp", conditions.payer_fsp),
        ("conditions.payeeFsp", conditions.payee_fsp),
    ];
    let unknown = request.query_state(move |state| {
        let is_unknown = |name: &FspName| state.registry().find(name).is_none();
        named.into_iter().find(|(_, name)| name.as_ref().is_some_and(is_unknown))
    });
    unknown.await?.map_or(Ok(()), |(member, _)| {
        Err(refuse(ErrorCode::ID_NOT_FOUND, member, "is not a participant"))
    })
}

fn not_settled(currency: Option<Currency>) -> Refusal {
    let only = currency.map_or_else(String::new, |currency| format!(" in {currency}"));
    let detail = format!(
        "no active settlement model that is NET and DEFERRED settles INTERCHANGE_FEE accounts{only}"
    );
    Refusal::new(ErrorCode::GENERIC_SETTLEMENT, &detail)
}

/// `GET /interchangeFeeRules/{id}`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let id = request.path(&ID)?.ok_or_else(not_found)?;
    let found = request.query_state(move |state| FeeRuleResponse::find(state, id)).await?;
    Ok(AdminResponse::ok(&found.ok_or_else(not_found)?))
}

/// `PUT /interchangeFeeRules/{id}`: activates or deactivates the rule.
async fn update(request: &AdminRequest<'_>, body: Activity) -> HandlerResult {
    let rule = request.path(&ID)?.ok_or_else(not_found)?;
    request.change(SetFeeRuleActive { rule, active: body.is_active }).await?;
    show(request).await
}

fn not_found() -> Refusal {
    outcome_errors::from_outcome(AdminOutcome::FeeRuleNotFound)
        .expect("a missing fee rule is a refusal")
}

impl Conditions {
    fn into_ledger(self) -> FeeConditions {
        let pair = |extension: Extension| (extension.key, extension.value);
        FeeConditions {
            scenario: self.scenario.map(str::to_owned),
            sub_scenario: self.sub_scenario,
            initiator: self.initiator.map(str::to_owned),
            initiator_type: self.initiator_type.map(str::to_owned),
            payer_fsp: self.payer_fsp,
            payee_fsp: self.payee_fsp,
            payer_extension: self.payer_extension.map(pair),
            payee_extension: self.payee_extension.map(pair),
        }
    }
}

impl NewFee {
    /// Exactly one of percentage and amount; decimals and rounding belong to the percentage.
    fn checked(&self) -> Result<Fee, Refusal> {
        let missing = |name| refuse(ErrorCode::MISSING_ELEMENT, name, "is required");
        let invalid = |name, what| refuse(ErrorCode::VALIDATION, name, what);
        let code = ErrorCode::TOO_MANY_ELEMENTS;
        let extra = |name| Err(refuse(code, name, "is not allowed with an amount"));
        match (self.percentage, self.amount) {
            (None, None) => Err(missing("fee.percentage")),
            (Some(_), Some(_)) => extra("fee.percentage"),
            (None, Some(_)) if self.decimals.is_some() => extra("fee.decimals"),
            (None, Some(_)) if self.rounding.is_some() => extra("fee.rounding"),
            (None, Some(amount)) => Ok(Fee::Fixed { amount }),
            (Some(share), None) => {
                let parts = u32::try_from(share.units()).ok().filter(|parts| *parts <= FEE_WHOLE);
                let parts_per_million = parts.ok_or_else(|| {
                    invalid("fee.percentage", "must be less than or equal to 100")
                })?;
                let decimals = self.decimals.ok_or_else(|| missing("fee.decimals"))?;
                if FEE_DECIMALS_MAX < decimals {
                    return Err(invalid("fee.decimals", "must be less than or equal to 4"));
                }
                let rounding = self.rounding.unwrap_or(Rounding::HalfUp);
                Ok(Fee::Percentage { parts_per_million, decimals, rounding })
            }
        }
    }
}

impl FeeRuleResponse {
    fn find(state: &State, id: FeeRuleId) -> Option<Self> {
        state.fees().rule(id).map(|rule| Self::of(id.0 as usize, rule))
    }

    fn of(number: usize, rule: &FeeRule) -> Self {
        Self {
            interchange_fee_rule_id: number,
            name: rule.name.clone(),
            is_active: rule.active,
            currency: rule.currency.map(|currency| currency.to_string()),
            conditions: ConditionsResponse::of(&rule.conditions),
            fee: FeeResponse::of(&rule.fee),
            payer: name_of(&PAYERS, rule.payer),
        }
    }
}

impl ConditionsResponse {
    fn of(conditions: &FeeConditions) -> Self {
        let extension = |pair: &Option<(String, String)>| {
            let (key, value) = pair.clone()?;
            Some(ExtensionResponse { key, value })
        };
        Self {
            scenario: conditions.scenario.clone(),
            sub_scenario: conditions.sub_scenario.clone(),
            initiator: conditions.initiator.clone(),
            initiator_type: conditions.initiator_type.clone(),
            payer_fsp: conditions.payer_fsp.map(|name| name.to_string()),
            payee_fsp: conditions.payee_fsp.map(|name| name.to_string()),
            payer_extension: extension(&conditions.payer_extension),
            payee_extension: extension(&conditions.payee_extension),
        }
    }
}

impl FeeResponse {
    fn of(fee: &Fee) -> Self {
        match *fee {
            Fee::Fixed { amount } => Self {
                percentage: None,
                decimals: None,
                rounding: None,
                amount: Some(amount.to_string()),
            },
            Fee::Percentage { parts_per_million, decimals, rounding } => Self {
                percentage: Some(Amount::from_units(parts_per_million.into()).to_string()),
                decimals: Some(decimals),
                rounding: Some(name_of(&ROUNDINGS, rounding)),
                amount: None,
            },
        }
    }
}

fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    let found = names.iter().find(|(_, known)| *known == value);
    found.expect("every value has a name").0
}
