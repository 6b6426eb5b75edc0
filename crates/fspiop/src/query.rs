//! The query of a request. FSPIOP 1.1 defines `currency`, in requests about a party (6.2.3), and
//! the four parameters of an authorization (6.6.3.1). Other parameters are ignored.

use std::borrow::Cow;

use ledger::{Amount, Currency};

use crate::currency::is_known_currency;
use crate::error::Refusal;
use crate::route::percent_decode;

/// Reads the parameter `currency`; `None` if it is absent.
///
/// # Errors
/// 3100 for an unknown currency, 3101 for a parameter that occurs twice.
pub(crate) fn currency(query: Option<&str>) -> Result<Option<Currency>, Refusal> {
    let mut found = None;
    for pair in query.unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if percent_decode(name).as_deref() != Some("currency") {
            continue;
        }
        let code = percent_decode(value).filter(|code| is_known_currency(code));
        let currency = code.and_then(|code| Currency::parse(&code)).ok_or_else(|| {
            Refusal::invalid("/query/currency must be equal to one of the allowed values")
        })?;
        if found.replace(currency).is_some() {
            return Err(Refusal::malformed("/query/currency must not be repeated"));
        }
    }
    Ok(found)
}

/// Kinds of authentication in a request for an authorization.
pub(crate) const AUTHENTICATION_TYPES: &[&str] = &["OTP", "QRCODE", "U2F"];

/// Checks the query of `GET /authorizations/{ID}`, which is forwarded as it was sent.
///
/// # Errors
/// 3102 for a missing parameter, 3101 for one that occurs twice or is not an integer, 3100 for
/// other invalid values. The first failure in the order of the published document.
pub(crate) fn check_authorization(query: Option<&str>) -> Result<(), Refusal> {
    const VALUES: &str = "must be equal to one of the allowed values";
    let query = query.unwrap_or_default();
    let invalid = |name: &str, rule: &str| Refusal::invalid(&format!("/query/{name} {rule}"));
    if !AUTHENTICATION_TYPES.contains(&&*parameter(query, "authenticationType")?) {
        return Err(invalid("authenticationType", VALUES));
    }
    let retries = parameter(query, "retriesLeft")?;
    let digits = retries.strip_prefix('-').unwrap_or(&retries);
    let is_integer = (1..=RETRIES_DIGITS_MAX).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_integer {
        return Err(Refusal::malformed("/query/retriesLeft must be integer"));
    }
    if Amount::parse(&parameter(query, "amount")?).is_none() {
        return Err(invalid("amount", "must match the pattern of an amount"));
    }
    if !is_known_currency(&parameter(query, "currency")?) {
        return Err(invalid("currency", VALUES));
    }
    Ok(())
}

/// Maximum number of digits of `retriesLeft`.
const RETRIES_DIGITS_MAX: usize = 9;

/// The decoded value of a required parameter.
fn parameter<'a>(query: &'a str, name: &str) -> Result<Cow<'a, str>, Refusal> {
    let mut found = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if percent_decode(key).as_deref() != Some(name) {
            continue;
        }
        let value = percent_decode(value)
            .ok_or_else(|| Refusal::malformed(&format!("/query/{name} has an invalid escape")))?;
        if found.replace(value).is_some() {
            return Err(Refusal::malformed(&format!("/query/{name} must not be repeated")));
        }
    }
    found.ok_or_else(|| Refusal::missing(&format!("/query must have required property '{name}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_of_an_authorization_needs_four_valid_parameters() {
        let good = "authenticationType=OTP&retriesLeft=2&amount=12.5&currency=USD";
        assert_eq!(check_authorization(Some(good)), Ok(()));
        for (from, to, code, detail) in [
            ("", "", "3102", "/query must have required property 'authenticationType'"),
            ("OTP", "PIN", "3100", "authenticationType must be equal to one of the allowed values"),
            ("&retriesLeft=2", "", "3102", "must have required property 'retriesLeft'"),
            ("Left=2", "Left=two", "3101", "/query/retriesLeft must be integer"),
            ("Left=2", "Left=-", "3101", "/query/retriesLeft must be integer"),
            ("Left=2", "Left=2&retriesLeft=2", "3101", "retriesLeft must not be repeated"),
            ("12.5", "12.50", "3100", "/query/amount must match the pattern of an amount"),
            ("12.5", "%zz", "3101", "/query/amount has an invalid escape"),
            ("USD", "usd", "3100", "/query/currency must be equal to one of the allowed values"),
            ("&currency=USD", "", "3102", "must have required property 'currency'"),
        ] {
            let query = if from.is_empty() { String::new() } else { good.replace(from, to) };
            let refusal = check_authorization(Some(&query)).expect_err("a bad query");
            assert_eq!(refusal.code.to_string(), code, "{query}");
            assert!(refusal.description.ends_with(detail), "{query}: {}", refusal.description);
        }
    }

    #[test]
    fn one_known_currency_or_none() {
        for (query, expected) in [
            (None, "none"),
            (Some(""), "none"),
            (Some("page=2&Currency=EUR"), "none"),
            (Some("currency=EUR"), "EUR"),
            (Some("page=2&currency=EUR&"), "EUR"),
            (Some("c%75rrency=%45UR"), "EUR"),
            (Some("currency=eur"), "3100"),
            (Some("currency=ABC"), "3100"),
            (Some("currency=E"), "3100"),
            (Some("currency="), "3100"),
            (Some("currency"), "3100"),
            (Some("currency=%zz"), "3100"),
            (Some("currency=EUR&currency=EUR"), "3101"),
        ] {
            let found = match currency(query) {
                Ok(currency) => currency.map_or("none".to_owned(), |it| it.to_string()),
                Err(refusal) => refusal.code.to_string(),
            };
            assert_eq!(found, expected, "{query:?}");
        }
    }
}
