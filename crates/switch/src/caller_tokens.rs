//! Senders known by OAuth 2.0 access tokens, as one thread checks them.
//!
//! A verified token is remembered by its BLAKE3 hash until it expires or the issuer's keys change,
//! so that later requests with it cost one hash. At [`REMEMBERED_MAX`] tokens, expired ones are
//! forgotten, then all.
//!
//! Refused tokens are bounded per address: each has an allowance that refills over time. Beyond it,
//! tokens that are not remembered are refused with 429 without a look at them, because a signature
//! costs tens of microseconds.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use fspiop::{ErrorCode, Refusal};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use identity::{Claims, IssuerKeys, KeyRefresh, KeySet, TokenFault, TokenRules};
use ledger::FspName;

use crate::address_allowance::{AddressAllowances, Allowance};
use crate::caller_names::{NamePattern, refuse};
use crate::counters::Counters;

/// Maximum number of remembered tokens of a thread.
const REMEMBERED_MAX: usize = 8_192;
/// Refused tokens of an address before others are not looked at.
const REFUSED_TOKENS: Allowance = Allowance { most: 50, interval_us: 100_000 };
/// Longest part of a claim in an error text, in characters.
const SHOWN_MAX: usize = 64;

/// How a sender is known by its token.
#[derive(Clone, Debug)]
pub struct TokenCallers {
    /// The keys of the issuer.
    pub keys: IssuerKeys,
    /// Issuer and audience of a token.
    pub rules: TokenRules,
    /// Scopes that a token must have.
    pub scopes: Vec<String>,
    /// Claims with the name; the first one that a token has counts.
    pub claims: Vec<String>,
    /// The form of the claim.
    pub pattern: NamePattern,
}

/// The tokens of one thread.
pub(crate) struct CallerTokens {
    settings: TokenCallers,
    state: RefCell<TokenState>,
}

struct TokenState {
    keys: IssuerKeys,
    set: Option<Arc<KeySet>>,
    generation: u64,
    remembered: HashMap<[u8; 32], RememberedToken>,
    refused: AddressAllowances,
}

struct RememberedToken {
    name: FspName,
    /// End of its validity, in seconds since 1970.
    expires: u64,
}

/// A request whose token cannot be judged with the keys at hand.
pub(crate) enum TokenCheck {
    /// The sender of the request.
    Known(FspName),
    /// The keys are being read again: check the request after that.
    AfterRefresh(KeyRefresh),
}

/// Whether a request may wait for other keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It has not waited yet.
    MayWait,
    /// It has.
    Exhausted,
}

impl CallerTokens {
    pub(crate) fn new(settings: TokenCallers) -> Self {
        let state = TokenState {
            keys: settings.keys.clone(),
            set: None,
            generation: 0,
            remembered: HashMap::new(),
            refused: AddressAllowances::new(REFUSED_TOKENS),
        };
        Self { settings, state: RefCell::new(state) }
    }

    /// The sender that the token of a request names, at a time in milliseconds since 1970.
    ///
    /// # Errors
    /// 401, 403, 429 or 503 with the text of the refusal.
    pub(crate) fn check(
        &self,
        (headers, from): (&HeaderMap, IpAddr),
        (now_ms, patience): (u64, Patience),
        counters: &Counters,
    ) -> Result<TokenCheck, Refusal> {
        let token = bearer(headers).inspect_err(|_| counters.tokens_missing.add(1))?;
        let now = now_ms / 1_000;
        let state = &mut *self.state.borrow_mut();
        state.take_new_keys();
        let hash = *blake3::hash(token).as_bytes();
        if let Some(known) = state.remembered.get(&hash).filter(|known| now < known.expires) {
            return Ok(TokenCheck::Known(known.name));
        }
        if !state.refused.is_left(from, 1_000 * now_ms) {
            counters.tokens_limited.add(1);
            return Err(too_many());
        }
        let verified = match &state.set {
            Some(set) => set.verify(token, &self.settings.rules, now).map_err(Some),
            None => Err(None),
        };
        if let (Err(None | Some(TokenFault::UnknownKey)), Patience::MayWait) = (&verified, patience)
            && let Some(refresh) = state.keys.refresh()
        {
            return Ok(TokenCheck::AfterRefresh(refresh));
        }
        let named = match verified {
            Err(None) => {
                counters.tokens_without_keys.add(1);
                return Err(no_keys());
            }
            Err(Some(fault)) => {
                count(fault, counters);
                Err(invalid(fault))
            }
            Ok(claims) => self.name(&claims, counters).map(|name| (name, claims.expires())),
        };
        match named {
            Ok((name, expires)) => {
                state.remember(hash, RememberedToken { name, expires }, now);
                Ok(TokenCheck::Known(name))
            }
            Err(refusal) => {
                state.refused.count(from, 1_000 * now_ms);
                Err(refusal)
            }
        }
    }

    /// The participant that a verified token names.
    fn name(&self, claims: &Claims, counters: &Counters) -> Result<FspName, Refusal> {
        if let Some(scope) = self.settings.scopes.iter().find(|scope| !claims.has_scope(scope)) {
            counters.tokens_without_scope.add(1);
            let refusal = refuse(&format!("the token lacks the scope {scope}"));
            return Err(Refusal { challenge: Some(INSUFFICIENT_SCOPE), ..refusal });
        }
        let found =
            self.settings.claims.iter().find_map(|claim| Some((claim, claims.text(claim)?)));
        let Some((claim, value)) = found else {
            counters.callers_unknown.add(1);
            let wanted = self.settings.claims.join(" or ");
            return Err(refuse(&format!("the token has no claim {wanted}")));
        };
        self.settings.pattern.name(value).ok_or_else(|| {
            counters.callers_unknown.add(1);
            let shown: String = value.chars().take(SHOWN_MAX).collect();
            refuse(&format!("the token's {claim} {shown} names no participant"))
        })
    }
}

impl TokenState {
    /// Takes over keys that were read meanwhile. Tokens are verified again if they differ.
    fn take_new_keys(&mut self) {
        if self.set.is_some() && !self.keys.may_have_changed() {
            return;
        }
        let (set, generation) = self.keys.latest();
        if generation != self.generation {
            (self.set, self.generation) = (set, generation);
            self.remembered.clear();
        }
    }

    fn remember(&mut self, hash: [u8; 32], token: RememberedToken, now: u64) {
        if REMEMBERED_MAX <= self.remembered.len() {
            self.remembered.retain(|_, known| now < known.expires);
        }
        if REMEMBERED_MAX <= self.remembered.len() {
            self.remembered.clear();
        }
        self.remembered.insert(hash, token);
    }
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Result<&[u8], Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.as_bytes(),
        (None, _) => return Err(missing("the request has no access token")),
        (Some(_), Some(_)) => {
            return Err(Refusal::malformed("Header authorization must not be repeated"));
        }
    };
    let token = value.split_at_checked(7).filter(|(it, _)| it.eq_ignore_ascii_case(b"bearer "));
    let token = token.map(|(_, token)| token.trim_ascii()).filter(|token| !token.is_empty());
    token.ok_or_else(|| missing("the header authorization has no bearer token"))
}

/// Challenges of RFC 6750.
const MISSING: &str = "Bearer";
const INVALID: &str = "Bearer error=\"invalid_token\"";
const INSUFFICIENT_SCOPE: &str = "Bearer error=\"insufficient_scope\"";

fn unauthorized(text: &str, challenge: &'static str) -> Refusal {
    let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, text);
    Refusal { status: StatusCode::UNAUTHORIZED, challenge: Some(challenge), ..refusal }
}

fn missing(text: &str) -> Refusal {
    unauthorized(text, MISSING)
}

fn invalid(fault: TokenFault) -> Refusal {
    unauthorized(&fault.to_string(), INVALID)
}

fn too_many() -> Refusal {
    let detail = "too many invalid tokens from this address; retry after 1 s";
    let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, detail);
    Refusal { status: StatusCode::TOO_MANY_REQUESTS, ..refusal }
}

fn no_keys() -> Refusal {
    let detail = "the keys of the token's issuer are not available";
    Refusal::new(ErrorCode::SERVICE_UNAVAILABLE, detail)
}

fn count(fault: TokenFault, counters: &Counters) {
    let counter = match fault {
        TokenFault::TooLong
        | TokenFault::Malformed
        | TokenFault::Type
        | TokenFault::Critical
        | TokenFault::Claims
        | TokenFault::NoExpiry => &counters.tokens_malformed,
        TokenFault::Algorithm | TokenFault::KeyMismatch => &counters.tokens_of_other_algorithm,
        TokenFault::UnknownKey => &counters.tokens_of_unknown_key,
        TokenFault::Signature => &counters.tokens_with_wrong_signature,
        TokenFault::Issuer => &counters.tokens_of_other_issuer,
        TokenFault::Audience => &counters.tokens_for_other_audience,
        TokenFault::Expired => &counters.tokens_expired,
        TokenFault::NotYetValid => &counters.tokens_not_yet_valid,
    };
    counter.add(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_token_is_read_from_one_header() {
        let check = |values: &[&str], expected: Result<&str, u16>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().expect("a value"));
            }
            let token = bearer(&headers).map_err(|refusal| refusal.status.as_u16());
            assert_eq!(token, expected.map(str::as_bytes), "{values:?}");
        };
        check(&["Bearer a.b.c"], Ok("a.b.c"));
        check(&["bearer  a.b.c "], Ok("a.b.c"));
        check(&[], Err(401));
        check(&["Bearer"], Err(401));
        check(&["Bearer  "], Err(401));
        check(&["Basic YTpi"], Err(401));
        check(&["Bearer a", "Bearer a"], Err(400));
    }
}
