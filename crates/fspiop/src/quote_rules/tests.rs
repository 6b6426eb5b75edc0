use http::{HeaderMap, HeaderValue};
use ledger::{Currency, FspName};
use serde_json::{Value, json};

use super::{QuoteFacts, QuoteRules, RuleDecision, participant_fact};
use crate::error::ErrorCode;

/// The facts about a quote of 99.90 USD from `dfsp1` to `dfsp2`, which has no account in EUR.
fn facts() -> QuoteFacts {
    let body = json!({
        "amount": {"amount": "99.90", "currency": "USD"},
        "amountType": "SEND",
        "payer": {"partyIdInfo": {"fspId": "dfsp1"}, "personalInfo": {"dateOfBirth": "1980-01-01"}},
        "extensionList": {"extension": [
            {"key": "tier", "value": "1"}, {"key": "other", "value": "2"},
        ]},
    });
    let mut headers = HeaderMap::new();
    headers.insert("fspiop-source", HeaderValue::from_static("dfsp1"));
    let participant = |name: &str, accounts: &[(&str, bool)]| {
        let accounts = accounts.iter().map(|(code, active)| (currency(code), *active));
        participant_fact(&fsp(name), true, &accounts.collect::<Vec<_>>())
    };
    let payer = participant("dfsp1", &[("USD", true), ("EUR", true)]);
    let payee = participant("dfsp2", &[("USD", true), ("EUR", false)]);
    QuoteFacts::new(body.to_string().as_bytes(), &headers, [payer, payee])
}

fn fsp(name: &str) -> FspName {
    FspName::new(name).expect("a name")
}

fn currency(code: &str) -> Currency {
    Currency::parse(code).expect("a currency")
}

/// A rule that refuses a quote for which these conditions hold.
fn rule(conditions: &Value) -> Value {
    let params = json!({"FSPIOPError": "PAYER_ERROR", "message": "refused"});
    json!({"conditions": conditions, "event": {"type": "INVALID_QUOTE_REQUEST", "params": params}})
}

fn reroute(to: &str) -> Value {
    let params = json!({"rerouteToFsp": to, "sourceCurrency": "USD",
        "additionalHeaders": {"x-fspiop-sourcecurrency": "USD"}});
    json!({
        "conditions": {"all": []},
        "event": {"type": "INTERCEPT_QUOTE", "params": params},
    })
}

fn decide(rules: &[Value]) -> RuleDecision {
    let text = Value::from(rules.to_vec()).to_string();
    QuoteRules::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}")).decide(&facts())
}

/// Whether the condition holds for the quote.
#[track_caller]
fn check(condition: &Value, expected: bool) {
    let found = decide(&[rule(&json!({"all": [condition]}))]) != RuleDecision::Forward;
    assert_eq!(found, expected, "{condition}");
}

fn condition(path: &str, operator: &str, value: &Value) -> Value {
    json!({"fact": "payload", "path": path, "operator": operator, "value": value})
}

/// Each operator, with values for which it holds, does not hold, and that are absent.
#[test]
fn operators_compare_as_the_reference_does() {
    let usd = json!("USD");
    for (path, operator, value, expected) in [
        ("$.amount.currency", "equal", usd.clone(), true),
        ("$.amount.currency", "equal", json!("EUR"), false),
        ("$.none", "equal", usd.clone(), false),
        ("$.amount.currency", "notEqual", usd.clone(), false),
        ("$.none", "notEqual", usd.clone(), true),
        ("$.amount.currency", "in", json!(["EUR", "USD"]), true),
        ("$.amount.currency", "in", json!([]), false),
        ("$.none", "in", json!(["USD"]), false),
        ("$.amount.currency", "notIn", json!(["EUR"]), true),
        ("$.none", "notIn", json!(["USD"]), true),
        ("$.extensionList.extension[*].key", "contains", json!("tier"), true),
        ("$.extensionList.extension[*].key", "contains", json!("none"), false),
        ("$.extensionList.extension[*].key", "doesNotContain", json!("none"), true),
        ("$.none", "contains", json!("tier"), false),
        ("$.none", "doesNotContain", json!("tier"), false),
        ("$.amount.amount", "lessThan", json!(100), true),
        ("$.amount.amount", "lessThan", json!("99.9"), false),
        ("$.amount.amount", "lessThanInclusive", json!(99.9), true),
        ("$.amount.amount", "greaterThan", json!(9), true),
        ("$.amount.amount", "greaterThan", json!(100), false),
        ("$.amount.amount", "greaterThanInclusive", json!("99.900"), true),
        ("$.amount.currency", "greaterThan", json!(1), false),
        ("$.none", "lessThan", json!(1), false),
        ("$.payer.partyIdInfo", "deepEqual", json!({"fspId": "dfsp1"}), true),
        ("$.payer.partyIdInfo", "equal", json!({"fspId": "dfsp1"}), false),
        ("$.payer.partyIdInfo", "notDeepEqual", json!({"fspId": "dfsp2"}), true),
        ("$.payer.personalInfo", "isObject", json!(true), true),
        ("$.payer.personalInfo.dateOfBirth", "isString", json!(false), false),
        ("$.none", "isString", json!(false), true),
        ("$.extensionList.extension", "isArray", json!(true), true),
    ] {
        check(&condition(path, operator, &value), expected);
    }
}

/// Values of other facts, filters, the fact `json-path`, and combinations.
#[test]
fn conditions_combine_facts() {
    let active = "$.accounts[?(@.ledgerAccountType == 'POSITION' && @.isActive  == 1)].currency";
    let account = |fact: &str| json!({"fact": fact, "path": active});
    let of_quote = |operator: &str, value: &Value| condition("$.amount.currency", operator, value);
    check(&of_quote("in", &account("payee")), true);
    check(&of_quote("notIn", &account("payer")), false);
    let euro = |fact: &str| {
        let value = json!("EUR");
        json!({"fact": fact, "path": active, "operator": "contains", "value": value})
    };
    check(&euro("payer"), true);
    check(&euro("payee"), false);
    check(&json!({"not": euro("payee")}), true);
    check(&json!({"any": [euro("payee"), euro("payer")]}), true);
    check(&json!({"all": [euro("payee"), euro("payer")]}), false);
    let source = json!({"fact": "headers", "path": "$.fspiop-source"});
    check(&condition("$.payer.partyIdInfo.fspId", "equal", &source), true);
    let document = |path: &str, value: &Value| {
        let params = json!({"fact": "payload", "path": path});
        json!({"fact": "json-path", "params": params, "operator": "deepEqual", "value": value})
    };
    let tier = "$.payload.extensionList.extension[?(@.key === 'tier')].value";
    check(&document(tier, &json!(["1"])), true);
    check(&document("$.payload.none", &json!([])), true);
    let params = json!({"fact": "headers", "path": "$.headers['fspiop-source']"});
    let source = json!({"fact": "json-path", "params": params});
    check(&document("$.payload.payer.partyIdInfo.fspId", &source), true);
    let operation = json!({"fact": "operation", "operator": "equal", "value": "quoteRequest"});
    check(&operation, true);
}

/// The rule with the highest priority refuses; a refusal comes before a reroute; two reroutes are
/// an error.
#[test]
fn rules_have_an_order() {
    let always = json!({"all": []});
    let mut later = rule(&always);
    later["priority"] = json!(7);
    later["event"]["params"] = json!({"FSPIOPError": "5106", "message": "first"});
    let code = ErrorCode::PAYEE_UNSUPPORTED_CURRENCY;
    let refusal = RuleDecision::Refuse(code, "Payee unsupported currency - first".into());
    assert_eq!(decide(&[reroute("dfsp3"), rule(&always), later]), refusal);
    let RuleDecision::Reroute(one) = decide(&[reroute("dfsp3")]) else { panic!("no reroute") };
    assert_eq!((one.to, one.headers.len()), (fsp("dfsp3"), 1));
    assert_eq!(decide(&[reroute("dfsp3"), reroute("dfsp4")]), RuleDecision::Ambiguous);
    assert_eq!(decide(&[]), RuleDecision::Forward);
}

/// A fault is named with its place.
#[test]
fn faults_are_named_with_their_place() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut rule = rule(&json!({"all": [condition("$.a", "equal", &json!(1))]}));
        change(&mut rule);
        QuoteRules::parse(&json!([reroute("dfsp3"), rule]).to_string()).expect_err("a fault")
    };
    let wrong = |pointer: &'static str, value: Value| {
        with(&|rule| *rule.pointer_mut(pointer).expect("it is there") = value.clone())
    };
    for (found, expected) in [
        (wrong("/conditions", json!({})), "[1].conditions: expected \"all\", \"any\" or \"not\""),
        (
            wrong("/conditions/all/0/operator", json!("equals")),
            "[1].conditions.all[0].operator: unknown operator \"equals\": use equal, notEqual",
        ),
        (
            wrong("/conditions/all/0/fact", json!("quote")),
            "[1].conditions.all[0].fact: unknown fact \"quote\": use operation, payload",
        ),
        (
            wrong("/conditions/all/0/path", json!("$.a[1:2]")),
            "[1].conditions.all[0].path: expected \"]\" before \":2]\"",
        ),
        (
            wrong("/conditions/all/0/path", json!("$.a[?(@.b == usd)]")),
            "[1].conditions.all[0].path: \"usd\" is no text, number, true, false or null",
        ),
        (
            with(&|rule| {
                drop(rule["conditions"]["all"][0].as_object_mut().unwrap().remove("value"))
            }),
            "[1].conditions.all[0]: \"value\" is missing",
        ),
        (
            with(&|rule| rule["conditions"]["all"][0]["pathh"] = json!("$")),
            "[1].conditions.all[0]: unknown member \"pathh\"",
        ),
        (wrong("/event/type", json!("LOG")), "[1].event.type: unknown type \"LOG\""),
        (
            wrong("/event/params/FSPIOPError", json!("NO_SUCH_ERROR")),
            "[1].event.params.FSPIOPError: expected a name of the reference",
        ),
        (
            with(&|rule| {
                rule["event"] = reroute("dfsp3")["event"].clone();
                rule["event"]["params"]["additionalHeaders"] = json!({"fspiop-source": "dfsp9"});
            }),
            "[1].event.params.additionalHeaders.fspiop-source: expected a header whose name",
        ),
    ] {
        assert!(found.starts_with(expected), "{found}");
    }
    let deep = (0..20).fold(condition("$.a", "equal", &json!(1)), |inner, _| json!({"not": inner}));
    let error = QuoteRules::parse(&json!([rule(&deep)]).to_string()).expect_err("too deep");
    assert!(error.ends_with("more than 16 levels of conditions"), "{error}");
    assert!(QuoteRules::parse("{}").is_err() && QuoteRules::parse("[").is_err());
}
