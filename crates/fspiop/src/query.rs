//! The query of a request. FSPIOP 1.1 defines one parameter: `currency`, in requests about a party
//! (6.2.3). Other parameters are ignored.

use ledger::Currency;

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

#[cfg(test)]
mod tests {
    use super::*;

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
