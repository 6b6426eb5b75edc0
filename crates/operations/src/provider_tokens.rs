//! Operators with access tokens of an OpenID provider.
//!
//! The provider authenticates the person or machine. The configuration maps values of a claim to
//! roles, whose permissions are those of the hub. The name of the operator is a claim, too: an
//! operator of the log with the same name is the same person, and if it is disabled, the token is
//! refused. So the provider must not let a person choose the claim with the name.
//!
//! Costs: a signature per request, about 20 us for RSA.

use std::sync::Arc;

use fspiop::{ErrorCode, Refusal};
use identity::{Claims, IssuerKeys, TokenFault, TokenRules};
use ledger::{OperatorBook, Stamp};

use crate::auth::{BREAK_GLASS, Caller, Credential, forbidden, unauthorized};
use crate::operators::is_name;
use crate::permissions::Permissions;
use crate::provider_logins::BrowserLogin;

/// Longest part of a claim in an error text, in characters.
const SHOWN_MAX: usize = 64;

/// The operators of an OpenID provider.
#[derive(Clone, Debug)]
pub struct ProviderOperators {
    /// The keys of the provider.
    pub keys: IssuerKeys,
    /// Issuer and audience of a token.
    pub rules: TokenRules,
    /// The provider's host, with which changes are recorded.
    pub host: Arc<str>,
    /// Claims with the name; the first one that a token has counts.
    pub names: Vec<String>,
    /// The claim with groups or roles of the provider.
    pub claim: String,
    /// Values of this claim, each with the role that it grants.
    pub roles: Vec<(String, String)>,
    /// The login of browsers, if the console has a client at the provider.
    pub browser: Option<BrowserLogin>,
}

/// Whether a credential has the form of such a token. No other credential begins like this.
pub(crate) fn is_token(presented: &[u8]) -> bool {
    presented.starts_with(b"eyJ") && presented.iter().filter(|byte| **byte == b'.').count() == 2
}

impl ProviderOperators {
    /// The operator of a token.
    ///
    /// # Errors
    /// 401 for an invalid token, 403 without a usable name or for a disabled operator, 503 if the
    /// provider's keys were never read.
    pub(crate) async fn identify(
        &self,
        book: &OperatorBook,
        token: &[u8],
        now: Stamp,
    ) -> Result<Caller, Refusal> {
        let claims = self.claims(&self.rules, token, now).await?;
        let name = self.name(&claims)?;
        if book.operator(&name).is_some_and(|operator| !operator.active) {
            return Err(forbidden(&format!("the operator {name} is disabled")));
        }
        let roles = self.roles(&claims);
        Ok(Caller {
            name: Some(name),
            credential: Credential::Provider(Arc::clone(&self.host)),
            permissions: Permissions::of_roles(book, &roles),
            roles,
            expires: Some(Stamp(claims.expires().saturating_mul(1_000_000))),
        })
    }

    /// The claims of a token of the provider, whose keys are read again if it has another one.
    ///
    /// # Errors
    /// 401 for an invalid token, 503 if the provider's keys were never read.
    pub(crate) async fn claims(
        &self,
        rules: &TokenRules,
        token: &[u8],
        now: Stamp,
    ) -> Result<Claims, Refusal> {
        let mut keys = self.keys.clone();
        let mut verified = verify(&mut keys, (token, rules), now);
        if let Err(None | Some(TokenFault::UnknownKey)) = verified
            && let Some(refresh) = keys.refresh()
        {
            refresh.wait().await;
            verified = verify(&mut keys, (token, rules), now);
        }
        verified.map_err(|fault| match fault {
            Some(fault) => unauthorized(&fault.to_string()),
            None => {
                let detail = "the keys of the OpenID provider are not available";
                Refusal::new(ErrorCode::SERVICE_UNAVAILABLE, detail)
            }
        })
    }

    fn name(&self, claims: &Claims) -> Result<String, Refusal> {
        let found = self.names.iter().find_map(|claim| Some((claim, claims.text(claim)?)));
        let Some((claim, name)) = found else {
            let wanted = self.names.join(" or ");
            return Err(forbidden(&format!("the token has no claim {wanted}")));
        };
        match is_name(name) && name != BREAK_GLASS {
            true => Ok(name.to_owned()),
            false => {
                let shown: String = name.chars().take(SHOWN_MAX).collect();
                Err(forbidden(&format!("the token's {claim} {shown} is not a name of an operator")))
            }
        }
    }

    /// The granted roles, each once.
    fn roles(&self, claims: &Claims) -> Vec<String> {
        let values = claims.texts(&self.claim);
        let granted = self.roles.iter().filter(|(value, _)| values.contains(&value.as_str()));
        let mut roles: Vec<_> = granted.map(|(_, role)| role.clone()).collect();
        roles.sort_unstable();
        roles.dedup();
        roles
    }
}

/// `None` as error if there are no keys.
fn verify(
    keys: &mut IssuerKeys,
    (token, rules): (&[u8], &TokenRules),
    now: Stamp,
) -> Result<Claims, Option<TokenFault>> {
    let (keys, _) = keys.latest();
    keys.ok_or(None)?.verify(token, rules, now.0 / 1_000_000).map_err(Some)
}
