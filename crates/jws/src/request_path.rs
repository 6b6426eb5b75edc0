//! Compares `FSPIOP-URI` with the path and query of the request.

/// First segments of the paths of the API, including resources that this hub does not serve. A
/// signer's `FSPIOP-URI` may have a prefix of its own deployment before one of them.
const RESOURCES: [&str; 15] = [
    "authorizations",
    "bulkQuotes",
    "bulkTransfers",
    "consentRequests",
    "consents",
    "fxQuotes",
    "fxTransfers",
    "participants",
    "parties",
    "quotes",
    "services",
    "thirdpartyRequests",
    "transactionRequests",
    "transactions",
    "transfers",
];

/// Compares from the resource on, first as written, then with percent signs decoded part by part,
/// because signers sign a path before their HTTP client encodes it. A query must be present in both
/// or in neither, with its parameters in the same order.
pub(crate) fn matches(signed: &str, sent: &str) -> bool {
    if signed == sent {
        return true;
    }
    let ((signed, signed_query), (path, query)) = (split(signed), split(sent));
    let (signed, path) = (from_resource(signed), from_resource(path));
    let is_same_query = match (signed_query, query) {
        (None, None) => true,
        (Some(signed), Some(query)) => same_parts(signed, query, &['&', '=']),
        _ => false,
    };
    is_same_query && (signed == path || same_parts(signed, path, &['/']))
}

fn split(uri: &str) -> (&str, Option<&str>) {
    uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)))
}

/// The path from the first segment that is a resource, or all of it.
fn from_resource(path: &str) -> &str {
    let mut at = 0;
    for segment in path.split('/') {
        if RESOURCES.contains(&segment) {
            return &path[at..];
        }
        at += segment.len() + 1;
    }
    path
}

/// Whether both have the same decoded parts between the same separators.
fn same_parts(left: &str, right: &str, separators: &[char]) -> bool {
    let (mut left, mut right) =
        (left.split_inclusive(separators), right.split_inclusive(separators));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(left), Some(right)) if same_part(left, right, separators) => (),
            _ => return false,
        }
    }
}

fn same_part(left: &str, right: &str, separators: &[char]) -> bool {
    let (left_text, right_text) =
        (left.trim_end_matches(separators), right.trim_end_matches(separators));
    left[left_text.len()..] == right[right_text.len()..] && decode(left_text).eq(decode(right_text))
}

/// The bytes of a part. A percent sign without two digits is kept.
fn decode(segment: &str) -> impl Iterator<Item = u8> {
    let bytes = segment.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let byte = *bytes.get(at)?;
        let escaped = (byte == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let value = escaped.and_then(|digits| Some(hex(digits[0])? << 4 | hex(digits[1])?));
        at += if value.is_some() { 3 } else { 1 };
        Some(value.unwrap_or(byte))
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_from_the_resource_on() {
        for (signed, path, expected) in [
            ("/transfers", "/transfers", true),
            ("/transfers/1", "/transfers/1", true),
            ("/fsp/v1/transfers/1", "/transfers/1", true),
            ("http://hub:4000/transfers/1", "/transfers/1", true),
            ("transfers/1", "/transfers/1", true),
            ("/transfers/1", "/transfers/2", false),
            ("/transfers/1", "/transfers/1/error", false),
            ("/transfers/1/error", "/transfers/1", false),
            ("/transfers/1/", "/transfers/1", false),
            ("/transfers/1?x", "/transfers/1", false),
            ("/transfers/1", "/transfers/1?x", false),
            ("/transfers/1", "/transfers/1?", false),
            ("/participants/A/1?currency=USD", "/participants/A/1?currency=USD", true),
            ("/x/participants/A/1?currency=USD", "/participants/A/1?currency=USD", true),
            ("/participants/A/1?currency=USD", "/participants/A/1?currency=EUR", false),
            ("/participants/A/1?currency=USD", "/participants/A/2?currency=USD", false),
            ("/participants/A/1?currency=U%53D", "/participants/A/1?currency=USD", true),
            ("/participants/A/1?a=b%26c", "/participants/A/1?a=b&c", false),
            ("/participants/A/1?a=b&c=d", "/participants/A/1?c=d&a=b", false),
            ("/participants/A/1?a=b&", "/participants/A/1?a=b", false),
            ("/participants/A/1?a=b&=", "/participants/A/1?a=b=&", false),
            ("/participants/A/1?/transfers/2", "/transfers/2", false),
            ("/quotes/1", "/transfers/1", false),
            ("/parties/ALIAS/a/transfers/1", "/transfers/1", false),
            ("/parties/MSISDN/+46", "/parties/MSISDN/%2B46", true),
            ("/parties/MSISDN/%2b46", "/parties/MSISDN/%2B46", true),
            ("/parties/ALIAS/a%2Fb", "/parties/ALIAS/a/b", false),
            ("/parties/ALIAS/a%", "/parties/ALIAS/a%25", true),
            ("/parties/ALIAS/%zz%2", "/parties/ALIAS/%zz%2", true),
            ("", "/transfers", false),
            ("", "", true),
        ] {
            assert_eq!(matches(signed, path), expected, "{signed} {path}");
        }
    }
}
