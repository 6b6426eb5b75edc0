use expect_test::{ExpectFile, expect, expect_file};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::{Form, Rule};
use crate::test_table;

/// A valid body.
fn sample(text: &str) -> Value {
    serde_json::from_str(text).expect("a sample is JSON")
}

fn transfer() -> Value {
    sample(include_str!("test_tables/transfer.json"))
}

fn fulfil() -> Value {
    sample(include_str!("test_tables/fulfil.json"))
}

fn failure() -> Value {
    sample(include_str!("test_tables/error.json"))
}

fn quote() -> Value {
    sample(include_str!("test_tables/quote.json"))
}

fn quote_response() -> Value {
    sample(include_str!("test_tables/quote-response.json"))
}

fn batch() -> Value {
    sample(include_str!("test_tables/batch.json"))
}

/// `base` with the member at `pointer` set, or removed by null.
fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = base.pointer_mut(parent).expect("a parent");
    match parent {
        Value::Object(members) if value.is_null() => {
            members.remove(name).expect("a member");
        }
        Value::Object(members) => {
            members.insert(name.to_owned(), value);
        }
        Value::Array(items) => items[name.parse::<usize>().expect("an index")] = value,
        _ => panic!("{pointer} leads nowhere"),
    }
    base
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value is written")
}

/// Applies each change of a text on its own, and compares the verdict. In a value, `"a*3"` means
/// `"aaa"`, and `[1, "*3"]` for `[1, 1, 1]`.
fn check<T>(parse: impl Fn(&[u8]) -> Result<T, Refusal>, base: &Value, text: ExpectFile) {
    assert!(parse(&bytes(base)).is_ok(), "the base is good");
    let mut lines = String::new();
    for line in text.data().lines().filter(|line| line.starts_with('/')) {
        let (pointer, value) = line.split_once(" = ").expect("a member and its value");
        let value = serde_json::from_str(value).expect("a value is JSON");
        let verdict = match parse(&bytes(&with(base.clone(), pointer, expanded(value)))) {
            Ok(_) => "ok".to_owned(),
            Err(refusal) => format!("{}: {}", refusal.code, refusal.description),
        };
        lines.push_str(&format!("{line}\n    {verdict}\n"));
    }
    text.assert_eq(&lines);
}

fn expanded(value: Value) -> Value {
    let count = |text: &str| text.strip_prefix('*')?.parse().ok();
    match value {
        Value::String(text) => {
            let mut rest = text.chars();
            let repeated = rest.next().zip(count(rest.as_str()));
            repeated.map_or(text.clone(), |(one, count)| one.to_string().repeat(count)).into()
        }
        Value::Array(items) => match &items[..] {
            [one, Value::String(times)] if let Some(count) = count(times) => {
                vec![expanded(one.clone()); count].into()
            }
            _ => items.into_iter().map(expanded).collect(),
        },
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, expanded(value))).collect()
        }
        other => other,
    }
}

fn refusal<T>(parse: impl Fn(&[u8]) -> Result<T, Refusal>, body: &[u8]) -> String {
    match parse(body) {
        Ok(_) => "ok".to_owned(),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn a_transfer_is_read() {
    let prepare = Prepare::parse(&bytes(&transfer())).expect("a good transfer");
    assert_eq!(prepare.transfer.to_string(), "b51ec534-ee48-4575-b6a9-ead2955b8069");
    assert_eq!((prepare.payer.as_str(), prepare.payee.as_str()), ("payerfsp", "payeefsp"));
    assert_eq!(prepare.amount.amount, Amount::from_units(1_234_500));
    assert_eq!(prepare.amount.currency.as_str(), "USD");
    assert_eq!((prepare.condition[0], prepare.condition[31]), (0x7f, 0x70));
    assert_eq!(prepare.expiration_ms, 1_464_093_488_699);
}

#[test]
fn escapes_and_spacing_do_not_matter() {
    let plain = Prepare::parse(&bytes(&transfer())).expect("a good transfer");
    let spaced = serde_json::to_string_pretty(&transfer()).expect("a value is written");
    let escaped =
        spaced.replace("payerfsp", "p\\u0061yerfsp").replace("payeeFsp", "\\u0070ayeeFsp");
    assert_eq!(Prepare::parse(escaped.as_bytes()), Ok(plain));
}

#[test]
fn transfers_are_refused_by_the_first_rule_that_fails() {
    check(Prepare::parse, &transfer(), expect_file!["test_tables/transfer.txt"]);
}

/// An input is the kind of a body, and the body.
#[test]
fn bodies_match_their_expected_verdicts() {
    test_table::check(&expect_file!["test_tables/bodies.txt"], |input| {
        let (kind, body) = test_table::first_word(input);
        let body = body.as_bytes();
        match kind {
            "transfer" => refusal(Prepare::parse, body),
            "fulfil" => refusal(|body| Fulfil::parse(body).map(drop), body),
            "registration" => refusal(ParticipantRegistration::parse, body),
            "party" => refusal(check_party, body),
            other => panic!("{other:?} has no rule here"),
        }
    });
}

#[test]
fn invalid_utf8_and_deep_nesting_are_refused() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(400), "]".repeat(400));
    let missing = "/requestBody must have required property 'transferId'";
    for (body, expected) in
        [(&b"{\"a\": \"\xff\"}"[..], "/requestBody must be JSON"), (deep.as_bytes(), missing)]
    {
        let found = refusal(Prepare::parse, body);
        assert!(found.ends_with(expected), "{found}");
    }
}

#[test]
fn a_repeated_member_is_refused_even_when_both_are_good() {
    let good = String::from_utf8(bytes(&transfer())).expect("UTF-8");
    let repeated = good.replacen('{', r#"{"payerFsp":"other","#, 1);
    expect![
        "400 Bad Request, 3101: Malformed syntax - /requestBody must NOT repeat property 'payerFsp'"
    ]
    .assert_eq(&refusal(Prepare::parse, repeated.as_bytes()));
    let nested = good.replacen(r#""amount":{"#, r#""amount":{"amount":"1","#, 1);
    expect![
        "400 Bad Request, 3101: Malformed syntax - /requestBody must NOT repeat property 'amount'"
    ]
    .assert_eq(&refusal(Prepare::parse, nested.as_bytes()));
    let unknown = good.replacen('{', r#"{"x":1,"x":2,"#, 1);
    assert!(Prepare::parse(unknown.as_bytes()).is_ok());
}

#[test]
fn a_fulfil_is_read() {
    let body = bytes(&fulfil());
    let read = Fulfil::parse(&body).expect("a good fulfil");
    assert_eq!(read.state, TransferState::Committed);
    assert!(matches!(read.fulfilment, Some([0x58, 0xb7, ..])));
    assert_eq!(read.completed_ms, Some(1_464_079_088_699));
    let raw = read.extension_list.expect("a list");
    assert_eq!(raw, r#"{"extension":[{"key":"k","value":"v"}]}"#);
    let list = Extension::list(&raw);
    assert_eq!(list, [Extension { key: "k".to_owned(), value: "v".to_owned() }]);
    assert_eq!(Extension::list("nonsense"), []);
}

#[test]
fn fulfils_are_refused_by_the_first_rule_that_fails() {
    check(|body| Fulfil::parse(body).map(drop), &fulfil(), expect_file!["test_tables/fulfil.txt"]);
}

#[test]
fn optional_members_may_be_absent() {
    let read = Fulfil::parse(br#"{"transferState":"RESERVED"}"#).expect("it has its state");
    assert!(read.fulfilment.is_none() && read.completed_ms.is_none());
    assert!(read.extension_list.is_none());
}

#[test]
fn bits_beyond_the_bytes_of_a_fulfilment_do_not_count() {
    let texts = [
        "WLctttbu2HvTsa1XWvUoGRcQozHsqeu9Ahl2JW9Bsu8",
        "WLctttbu2HvTsa1XWvUoGRcQozHsqeu9Ahl2JW9Bsu_",
    ];
    let read = texts.map(|text| {
        let body = bytes(&with(fulfil(), "/fulfilment", json!(text)));
        Fulfil::parse(&body).expect("the pattern is met").fulfilment
    });
    assert!(read[0].is_some() && read[0] == read[1]);
}

#[test]
fn completed_timestamps_have_a_range() {
    let body = bytes(&fulfil());
    let read = Fulfil::parse(&body).expect("a good fulfil");
    let completed = read.completed_ms.expect("a timestamp");
    for (now, expected) in [
        (completed, "ok"),
        (completed - 200, "ok"),
        (completed - 201, "/requestBody/completedTimestamp is too far in the future"),
        (completed + 300_000, "ok"),
        (completed + 300_001, "/requestBody/completedTimestamp is too far in the past"),
        (0, "/requestBody/completedTimestamp is too far in the future"),
        (u64::MAX, "/requestBody/completedTimestamp is too far in the past"),
    ] {
        let verdict = match read.check_completed(now) {
            Ok(()) => "ok".to_owned(),
            Err(refusal) => refusal.description.replace("Generic validation error - ", ""),
        };
        assert_eq!(verdict, expected, "{now}");
    }
}

#[test]
fn errors_are_read_and_unknown_codes_replaced() {
    for (code, effective) in [
        ("5104", "5104 Payee rejected transaction"),
        ("5199", "5199 Payee rejected transaction"),
        ("7205", "7205 Payee rejected transaction"),
        ("9999", "3100 Generic validation error - API specification undefined errorCode"),
    ] {
        let body = bytes(&with(failure(), "/errorInformation/errorCode", json!(code)));
        let read = ErrorInformation::parse(&body).expect("a good error");
        assert_eq!(read.extension_list.as_deref().map(Extension::list).map(|l| l.len()), Some(1));
        let (code, description) = read.effective();
        assert_eq!(format!("{code} {description}"), effective);
    }
    check(
        |body| ErrorInformation::parse(body).map(drop),
        &failure(),
        expect_file!["test_tables/error.txt"],
    );
}

#[test]
fn a_quote_is_read() {
    let read = Quote::parse(&bytes(&quote())).expect("a good quote");
    assert_eq!(read.quote.to_string(), "01HV0000000000000000000000");
    assert_eq!(read.payer.map(|name| name.to_string()), Some("payerfsp".to_owned()));
    assert_eq!(read.payee.map(|name| name.to_string()), Some("payeefsp".to_owned()));
    assert_eq!(read.amount.amount.to_string(), "10.0001");
    assert_eq!(read.amount.currency.as_str(), "USD");
    let currencies: Vec<_> = read.payer_currencies.iter().map(Currency::as_str).collect();
    assert_eq!(currencies, ["USD", "XOF"]);
}

#[test]
fn a_quote_may_name_no_fsp_and_no_currencies() {
    let bare = with(quote(), "/payer/partyIdInfo/fspId", Value::Null);
    let bare = with(bare, "/payer/supportedCurrencies", Value::Null);
    let read = Quote::parse(&bytes(&bare)).expect("a good quote");
    assert!(read.payer.is_none() && read.payer_currencies.is_empty());
    assert!(read.payee.is_some());
}

#[test]
fn quotes_are_refused_by_the_first_rule_that_fails() {
    check(Quote::parse, &quote(), expect_file!["test_tables/quote.txt"]);
}

#[test]
fn a_quote_response_is_read() {
    let read = QuoteResponse::parse(&bytes(&quote_response())).expect("a good response");
    assert_eq!(read.transfer_amount.amount.to_string(), "124.45");
    assert_eq!(read.payee_currency().as_str(), "XOF");
    assert_eq!(read.expiration_ms, 1_464_079_088_699);
    let bare = with(quote_response(), "/payeeReceiveAmount", Value::Null);
    let read = QuoteResponse::parse(&bytes(&bare)).expect("a good response");
    assert_eq!(read.payee_currency().as_str(), "USD");
    check(QuoteResponse::parse, &quote_response(), expect_file!["test_tables/quote-response.txt"]);
}

#[test]
fn registrations_are_read() {
    let body = br#"{"fspId":"payerfsp","currency":"USD","other":1}"#;
    let read = ParticipantRegistration::parse(body).expect("a good registration");
    assert_eq!(read.fsp.as_str(), "payerfsp");
    assert_eq!(read.currency.map(|code| code.to_string()), Some("USD".to_owned()));
    let read = ParticipantRegistration::parse(br#"{"fspId":"payerfsp"}"#).expect("good");
    assert!(read.currency.is_none());
    let read = ParticipantUpdate::parse(b"{}").expect("nothing is required");
    assert!(read.fsp.is_none() && read.currency.is_none());
}

#[test]
fn a_batch_is_read() {
    let body = bytes(&batch());
    let read = BatchRegistration::parse(&body).expect("a good batch");
    assert_eq!(read.request, "b51ec534-ee48-4575-b6a9-ead2955b8069");
    assert_eq!(read.currency.map(|code| code.to_string()), Some("USD".to_owned()));
    assert_eq!(
        read.parties,
        [
            BatchParty {
                kind: PartyIdType::Msisdn,
                id: Cow::Borrowed("123"),
                sub_id: None,
                fsp: FspName::new("payerfsp"),
            },
            BatchParty {
                kind: PartyIdType::Business,
                id: Cow::Borrowed("ac\"me"),
                sub_id: Some(Cow::Borrowed("till")),
                fsp: None,
            },
        ]
    );
    check(
        |body| BatchRegistration::parse(body).map(drop),
        &batch(),
        expect_file!["test_tables/batch.txt"],
    );
}

/// Every rule of a message, with a valid message.
fn messages() -> [(&'static Rule, Value); 9] {
    [
        (&rules::TRANSFER_REQUEST, transfer()),
        (&rules::TRANSFER_RESPONSE, fulfil()),
        (&rules::ERROR_INFORMATION_OBJECT, failure()),
        (&rules::QUOTE_REQUEST, quote()),
        (&rules::QUOTE_RESPONSE, quote_response()),
        (&rules::PARTICIPANT_REGISTRATION, json!({"fspId": "a", "currency": "USD"})),
        (&rules::BATCH_REGISTRATION, batch()),
        (&rules::QUOTE_ERROR, failure()),
        (&rules::PARTY_RESPONSE, json!({"party": quote()["payee"]})),
    ]
}

fn parse_all(body: &[u8]) {
    let _ = Prepare::parse(body);
    let _ = Fulfil::parse(body);
    let _ = ErrorInformation::parse(body);
    let _ = Quote::parse(body);
    let _ = QuoteResponse::parse(body);
    let _ = ParticipantRegistration::parse(body);
    let _ = ParticipantUpdate::parse(body);
    let _ = BatchRegistration::parse(body);
    let _ = check_party(body);
}

/// Pointers to every value inside `value`.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let pointer = format!("{at}/{name}");
        pointers(child, &pointer, out);
        out.push(pointer);
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(-1.5)),
        Just(json!([])),
        Just(json!({})),
        Just(json!(["USD"])),
        Just(json!({"key": "k", "value": "v"})),
        "\\PC{0,40}".prop_map(Value::from),
        "[A-Z]{3}|[0-9]{1,4}|[0-9]{1,3}[.][0-9]{1,4}|[A-Za-z0-9_-]{43}".prop_map(Value::from),
        "[0-9]{4}-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9].[0-9]{3}Z"
            .prop_map(Value::from),
        (0..140usize).prop_map(|n| Value::from("é".repeat(n))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn both_walks_agree(
        message in 0..9usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_value(), any::<bool>()), 0..3),
    ) {
        let (rule, mut value) = messages()[message].clone();
        for (index, new, remove) in changes {
            let mut all = Vec::new();
            pointers(&value, "", &mut all);
            if all.is_empty() {
                continue;
            }
            let pointer = &all[index.index(all.len())];
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            match value.pointer_mut(parent).expect("a parent") {
                Value::Object(members) if remove => {
                    members.remove(name);
                }
                Value::Object(members) => {
                    members.insert(name.to_owned(), new);
                }
                Value::Array(items) => items[name.parse::<usize>().expect("an index")] = new,
                _ => {}
            }
        }
        let body = bytes(&value);
        let (fast, slow) = schema::verdicts(&body, rule);
        prop_assert_eq!(Some(fast), slow, "{}", value);
        parse_all(&body);
        let pretty = serde_json::to_vec_pretty(&value).expect("a value is written");
        prop_assert_eq!(schema::verdicts(&pretty, rule).0, fast);
    }
}

#[test]
fn a_truncated_message_is_always_3102() {
    for (rule, value) in messages() {
        let body = bytes(&value);
        for end in 0..body.len() {
            // A cut inside a multi-byte character is not UTF-8.
            if std::str::from_utf8(&body[..end]).is_ok() {
                let refused = schema::check(&body[..end], rule).err().expect("it is cut");
                assert_eq!(refused.code, ErrorCode::MISSING_ELEMENT, "{end}");
            }
        }
    }
}

/// A pattern for proptest: without anchors and look-ahead.
fn without_anchors(pattern: &str) -> String {
    let inner = pattern.trim_start_matches('^').trim_end_matches('$').replace("$|^", "|");
    inner.replace("9-_]", "9_-]").replace("\\d", "[0-9]").replace("[[0-9]]", "[0-9]")
}

#[test]
fn published_patterns_match_the_checks() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for (name, rule) in rules::NAMED_RULES {
        let Rule::Text(text) = rule else { continue };
        let accepts = |candidate: &str| {
            let body = serde_json::to_vec(candidate).expect("a text");
            crate::schema::verdicts(&body, rule) == (true, Some(true))
        };
        match &text.form {
            Form::OneOf(names) => assert!(names.iter().all(|name| accepts(name)), "{name}"),
            Form::Name { all, .. } => assert!(all().into_iter().all(accepts), "{name}"),
            Form::Any => assert!(accepts("a"), "{name}"),
            Form::Pattern { pattern, .. } => {
                let strategy = prop::string::string_regex(&without_anchors(pattern));
                let strategy = strategy.unwrap_or_else(|error| panic!("{name}: {error}"));
                for _ in 0..200 {
                    let tree = strategy.new_tree(&mut runner).expect("a text of the pattern");
                    let candidate = proptest::strategy::ValueTree::current(&tree);
                    let fits = candidate.chars().count() <= text.most;
                    assert_eq!(accepts(&candidate), fits, "{name}: {candidate:?}");
                }
            }
        }
        let is_open = matches!(text.form, Form::Any);
        assert_eq!(accepts("\u{1}"), is_open, "{name}");
        if text.most != usize::MAX {
            assert!(!accepts(&"1".repeat(text.most + 1)), "{name}");
        }
        if 0 < text.least {
            assert!(!accepts(""), "{name}");
        }
    }
}

#[test]
fn names_of_states_are_read_back() {
    for name in TransferState::NAMES {
        assert_eq!(TransferState::parse(name).map(TransferState::as_str), Some(*name));
    }
    assert_eq!(TransferState::parse("SETTLED"), None);
}
