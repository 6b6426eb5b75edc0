//! Variables of a conversation: names of its own participants, fresh ids, times.
//!
//! `dfsp1` to `dfsp9` become names that no other conversation has, also in upper case. Output
//! shows the original names. `{name}` is a placeholder; `{{name}}`, the hub's own template, is left
//! as it is.

use std::cell::RefCell;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::keys;

const BASE32: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const SUFFIX_DIGITS: usize = 7;

/// Placeholders for values that are only known on receipt: see `expect`.
pub(crate) const MATCHERS: [&str; 6] = ["any", "time", "whole-time", "http-date", "number", "uuid"];

/// The words of one conversation.
pub(crate) struct Variables {
    suffix: String,
    fresh: RefCell<BTreeMap<String, String>>,
}

impl Variables {
    pub(crate) fn new() -> Self {
        let digits = "0123456789abcdefghijkmnpqrstuvwx";
        let digit = |byte: u8| char::from(digits.as_bytes()[usize::from(byte % 32)]);
        let suffix: String = random::<SUFFIX_DIGITS>().into_iter().map(digit).collect();
        Self { suffix: format!("z{suffix}"), fresh: RefCell::default() }
    }

    /// The name a participant has at the hub.
    pub(crate) fn real(&self, name: &str) -> String {
        self.with_names(name)
    }

    /// The text with the participants' names as they are written in conversations.
    pub(crate) fn shown(&self, text: &str) -> String {
        text.replace(&self.suffix, "").replace(&self.suffix.to_ascii_uppercase(), "")
    }

    /// The text with all its words filled in, but those of [`MATCHERS`].
    ///
    /// # Errors
    /// When it names a placeholder that does not exist.
    pub(crate) fn fill(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            out.push_str(&rest[..at]);
            let tail = &rest[at..];
            if tail.starts_with("{{") {
                let end = tail.find("}}").map_or(tail.len(), |at| at + 2);
                out.push_str(&tail[..end]);
                rest = &tail[end..];
                continue;
            }
            match placeholder(tail) {
                Some(name) if MATCHERS.contains(&name) => {
                    out.push_str(&tail[..name.len() + 2]);
                    rest = &tail[name.len() + 2..];
                }
                Some(name) => {
                    out.push_str(&self.value(name)?);
                    rest = &tail[name.len() + 2..];
                }
                None => {
                    out.push('{');
                    rest = &tail[1..];
                }
            }
        }
        out.push_str(rest);
        Ok(self.with_names(&out))
    }

    fn with_names(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("dfsp").into_iter().chain(rest.find("DFSP")).min() {
            let upper = rest[at..].starts_with('D');
            let end = at + "dfsp".len();
            let is_name = rest[end..].starts_with(|digit: char| digit.is_ascii_digit())
                && !rest[end + 1..].starts_with(char::is_alphanumeric);
            let end = if is_name { end + 1 } else { end };
            out.push_str(&rest[..end]);
            match (is_name, upper) {
                (true, true) => out.push_str(&self.suffix.to_ascii_uppercase()),
                (true, false) => out.push_str(&self.suffix),
                (false, _) => (),
            }
            rest = &rest[end..];
        }
        out + rest
    }

    fn value(&self, name: &str) -> Result<String, String> {
        if let Some(moment) = moment(name) {
            return Ok(moment);
        }
        if let Some(value) = self.fresh.borrow().get(name) {
            return Ok(value.clone());
        }
        if let Some((what, key)) = name.split_once('.') {
            match what {
                "public" | "private" => return keys::pem(key, what).map(|it| escaped(&it)),
                "key-id" => return keys::id(key),
                _ => (),
            }
        }
        let stem = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let value = match stem {
            "transfer" | "quote" | "request" | "transaction" => uuid(),
            "ulid" => base32_id(),
            "hex" => hexadecimal(&random::<13>()).to_ascii_uppercase(),
            "msisdn" => random::<12>().map(|byte| char::from(b'0' + byte % 10)).iter().collect(),
            "word" => format!("w{}", hexadecimal(&random::<6>())),
            "trace" => hexadecimal(&random::<16>()),
            "fulfilment" | "wrong-fulfilment" => URL_SAFE_NO_PAD.encode(random::<32>()),
            "condition" => {
                let fulfilment = self.value(&name.replace("condition", "fulfilment"))?;
                let bytes = URL_SAFE_NO_PAD.decode(fulfilment).unwrap_or_default();
                URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
            }
            "ilp" => URL_SAFE_NO_PAD.encode(random::<48>()),
            _ => return Err(format!("there is no placeholder {{{name}}}")),
        };
        self.fresh.borrow_mut().insert(name.to_owned(), value.clone());
        Ok(value)
    }

    /// Gives a word its value.
    pub(crate) fn set(&self, name: &str, value: String) {
        self.fresh.borrow_mut().insert(name.to_owned(), value);
    }
}

/// A text as written within the quotation marks of JSON.
fn escaped(text: &str) -> String {
    text.replace('\n', "\\n")
}

/// The name of the placeholder that `text` begins with, if it begins with one.
pub(crate) fn placeholder(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('{')?.split_once('}')?.0;
    let is_name = inside.starts_with(|first: char| first.is_ascii_lowercase())
        && inside.chars().all(|one| one.is_ascii_alphanumeric() || "-+._".contains(one));
    is_name.then_some(inside)
}

/// `now`, `now+2s`, `now-301s`, `now+1y`, and `date` for the form of the header.
fn moment(name: &str) -> Option<String> {
    let now = Timestamp::now();
    if name == "date" {
        return Some(now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
    }
    let shift = name.strip_prefix("now")?;
    let seconds = match shift.char_indices().next_back() {
        None => 0,
        Some((at, unit)) => {
            let count: i64 = shift[..at].parse().ok()?;
            count
                * match unit {
                    's' => 1,
                    'd' => 86_400,
                    'y' => 365 * 86_400,
                    _ => return None,
                }
        }
    };
    let then = now.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    Some(then.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

fn uuid() -> String {
    let mut bytes = random::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hexadecimal(&bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

/// A ULID: 26 characters, of which the first is at most 7.
fn base32_id() -> String {
    let digits = random::<26>().map(|byte| BASE32[usize::from(byte % 32)]);
    let first = BASE32[usize::from(digits[0] % 8)];
    let rest = digits[1..].iter().copied();
    std::iter::once(first).chain(rest).map(char::from).collect()
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system always has random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_keep_their_values() {
        let scope = Variables::new();
        let fill = |text: &str| scope.fill(text).expect("known words");
        assert_eq!(fill("{transfer}"), fill("{transfer}"));
        assert_ne!(fill("{transfer}"), fill("{transfer2}"));
        assert_eq!(fill("{ulid}").len(), 26);
        assert_eq!(fill("{{transferId}}/{any}"), "{{transferId}}/{any}");
        assert_eq!(fill("{\"a\": {}}"), "{\"a\": {}}");
        assert_eq!(scope.shown(&fill("dfsp1 dfsp12 dfspx")), "dfsp1 dfsp12 dfspx");
        assert_ne!(fill("dfsp1"), "dfsp1");
        assert!(scope.fill("{nonsense}").is_err());
    }

    #[test]
    fn the_condition_is_that_of_its_fulfilment() {
        let scope = Variables::new();
        let condition = scope.fill("{condition2}").expect("a word");
        let fulfilment = scope.fill("{fulfilment2}").expect("a word");
        let bytes = URL_SAFE_NO_PAD.decode(fulfilment).expect("base64url");
        assert_eq!(condition, URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)));
    }

    #[test]
    fn times_have_the_api_format() {
        for (name, length) in [("now", 24), ("now+2s", 24), ("now-301s", 24), ("date", 29)] {
            assert_eq!(moment(name).expect("a moment").len(), length, "{name}");
        }
        assert!(moment("now+2x").is_none());
        assert!(moment("now-301s") < moment("now+1y"));
    }
}
