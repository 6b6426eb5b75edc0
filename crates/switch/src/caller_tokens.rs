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

use fspiop::admission::network_of;
use fspiop::{ErrorCode, Refusal};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use identity::{Claims, IssuerKeys, KeyRefresh, KeySet, TokenFault, TokenRules};
use ledger::FspName;

use crate::caller_names::{NamePattern, refuse};
use crate::counters::Counters;

/// Maximum number of remembered tokens of a thread.
const REMEMBERED_MAX: usize = 8_192;
/// Refused tokens of an address, or of a /64 network for IPv6, before others are not looked at.
const ALLOWANCE_MAX: u32 = 50;
/// Time until one more is looked at, in milliseconds.
const ALLOWANCE_MS: u64 = 100;
/// Maximum number of addresses with an allowance of their own; others share one.
const ADDRESSES_MAX: usize = 1_024;
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
    refused: RefusedTokens,
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
            refused: RefusedTokens::default(),
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
        if !state.refused.may_try(from, now_ms) {
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
                state.refused.count(from, now_ms);
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

/// The refused tokens by address.
#[derive(Default)]
struct RefusedTokens {
    addresses: HashMap<IpAddr, Allowance>,
    /// The shared allowance of addresses beyond the bound.
    others: Allowance,
}

/// Used parts of an allowance at a time, in milliseconds since 1970.
#[derive(Clone, Copy, Default)]
struct Allowance {
    used: u32,
    since_ms: u64,
}

impl Allowance {
    /// The used parts now.
    fn used(self, now_ms: u64) -> u32 {
        let refilled = now_ms.saturating_sub(self.since_ms) / ALLOWANCE_MS;
        self.used.saturating_sub(u32::try_from(refilled).unwrap_or(u32::MAX))
    }
}

impl RefusedTokens {
    fn may_try(&self, from: IpAddr, now_ms: u64) -> bool {
        let own = self.addresses.get(&network_of(from));
        let allowance = match own {
            None if self.addresses.len() < ADDRESSES_MAX => return true,
            None => self.others,
            Some(own) => *own,
        };
        allowance.used(now_ms) < ALLOWANCE_MAX
    }

    fn count(&mut self, from: IpAddr, now_ms: u64) {
        let network = network_of(from);
        if ADDRESSES_MAX <= self.addresses.len() && !self.addresses.contains_key(&network) {
            self.addresses.retain(|_, allowance| 0 < allowance.used(now_ms));
        }
        let has_place =
            self.addresses.len() < ADDRESSES_MAX || self.addresses.contains_key(&network);
        let allowance = match has_place {
            true => self.addresses.entry(network).or_default(),
            false => &mut self.others,
        };
        *allowance = Allowance { used: allowance.used(now_ms) + 1, since_ms: now_ms };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_tokens_of_an_address_are_bounded_and_forgotten() {
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        let mut refused = RefusedTokens::default();
        let mut tried = 0;
        while refused.may_try(address(1), 0) {
            refused.count(address(1), 0);
            tried += 1;
        }
        assert_eq!(tried, ALLOWANCE_MAX);
        assert!(refused.may_try(address(2), 0), "another address has its own allowance");
        assert!(!refused.may_try(address(1), ALLOWANCE_MS - 1));
        assert!(refused.may_try(address(1), ALLOWANCE_MS));
        (2..5_000).for_each(|number| refused.count(address(number), 1));
        assert_eq!(refused.addresses.len(), ADDRESSES_MAX);
        assert!(!refused.may_try(address(9_000), 1), "further addresses share an allowance");
        let later = 1 + ALLOWANCE_MS * u64::from(ALLOWANCE_MAX);
        assert!(refused.may_try(address(9_000), 1 + ALLOWANCE_MS * 5_000));
        refused.count(address(9_000), later);
        assert_eq!(refused.addresses.len(), 1, "unused allowances make room");
    }

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
