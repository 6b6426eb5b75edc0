//! How the sender of a request is known, from the section `[fspiop]`, and the provider of
//! operators, from `[admin]`.

use std::path::PathBuf;

use http::{HeaderName, Uri};
use identity::{IssuerKeys, KeySource, ProviderClient, TokenRequest, TokenRules};
use operations::{BrowserLogin, ProviderOperators};
use switch::{
    CallerPolicy, CertificateField, CertificateNames, GatewayCallers, NamePattern, TokenCallers,
};

use super::settings::{Admin, Config, Fspiop};
use super::values::{Auth, Callers, CertificateName};

/// Headers that have a meaning of their own, so that no gateway can put a name there. So have those
/// that begin with `fspiop-`.
const RESERVED: [&str; 11] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "traceparent",
    "tracestate",
    "transfer-encoding",
];

/// An issuer of access tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issuer {
    pub(crate) source: KeySource,
    /// Authorities of the issuer's certificate.
    pub(crate) ca: Option<PathBuf>,
}

impl Config {
    /// The contradiction between settings of callers, if there is one.
    pub(super) fn callers_fault(&self) -> Option<String> {
        let Fspiop { callers, tls_client_ca_file, certificate_names, .. } = &self.fspiop;
        if *callers == Callers::Certificate && tls_client_ca_file.is_none() {
            let text = "fspiop.callers = \"certificate\" needs fspiop.tls_client_ca_file, the \
                        authorities of the participants' certificates";
            return Some(text.to_owned());
        }
        if certificate_names.is_empty() {
            return Some("fspiop.certificate_names must have at least one entry".to_owned());
        }
        let patterns = [
            ("certificate_pattern", &self.fspiop.certificate_pattern),
            ("token_pattern", &self.fspiop.token_pattern),
            ("gateway_pattern", &self.fspiop.gateway_pattern),
        ];
        let invalid = patterns.iter().find(|(_, pattern)| NamePattern::new(pattern).is_none());
        if let Some((name, _)) = invalid {
            return Some(format!("fspiop.{name} must contain {{fsp}} once"));
        }
        match callers {
            Callers::Token => self.fspiop.token_fault(),
            Callers::Gateway => self.fspiop.gateway_fault(),
            Callers::Anyone | Callers::Certificate => None,
        }
        .or_else(|| self.admin.provider_fault())
    }

    /// Whether the sender of a request is identified.
    pub(crate) fn identifies_callers(&self) -> bool {
        self.fspiop.callers != Callers::Anyone
    }

    /// The issuer of participants' tokens, if they are known by tokens.
    pub(crate) fn fspiop_issuer(&self) -> Option<Issuer> {
        let Fspiop { token_issuer, token_keys_file, token_keys_url, token_ca_file, .. } =
            &self.fspiop;
        let issuer = token_issuer.as_ref().filter(|_| self.fspiop.callers == Callers::Token)?;
        let source = match (token_keys_file, token_keys_url) {
            (Some(path), _) => KeySource::File(path.clone()),
            (None, Some(url)) => KeySource::Url(url.clone()),
            (None, None) => KeySource::Discovery(issuer.clone()),
        };
        Some(Issuer { source, ca: token_ca_file.clone() })
    }

    /// How senders are identified, with the keys of their issuer. The configuration was checked.
    pub(crate) fn callers(&self, keys: Option<&IssuerKeys>) -> CallerPolicy {
        let policy = match self.fspiop.callers {
            Callers::Anyone => None,
            Callers::Certificate => self
                .certificate_names(&self.fspiop.certificate_pattern)
                .map(CallerPolicy::Certificate),
            Callers::Token => self.fspiop.token_callers(keys),
            Callers::Gateway => self.gateway_callers().map(CallerPolicy::Gateway),
        };
        policy.unwrap_or_default()
    }

    /// The provider of operators, if one is configured.
    pub(crate) fn admin_issuer(&self) -> Option<Issuer> {
        let issuer = self.admin.oidc_issuer.clone()?;
        Some(Issuer { source: KeySource::Discovery(issuer), ca: self.admin.oidc_ca_file.clone() })
    }

    /// The operators of the provider, with its keys. The configuration was checked.
    pub(crate) fn provider_operators(
        &self,
        keys: Option<&IssuerKeys>,
    ) -> Option<ProviderOperators> {
        let Admin { oidc_issuer, oidc_audience, oidc_names, oidc_claim, .. } = &self.admin;
        let (issuer, audience) = (oidc_issuer.clone()?, oidc_audience.clone()?);
        let host = issuer.parse::<Uri>().ok()?.authority()?.host().into();
        Some(ProviderOperators {
            keys: keys?.clone(),
            rules: TokenRules { issuer, audience },
            host,
            names: oidc_names.clone(),
            claim: oidc_claim.clone(),
            roles: self.admin.provider_roles().into_iter().flatten().collect(),
            browser: self.browser_login(),
        })
    }

    /// The console's client at the provider. Its certificates were checked.
    fn browser_login(&self) -> Option<BrowserLogin> {
        let Admin { oidc_issuer, oidc_audience, oidc_client_id, oidc_scope, .. } = &self.admin;
        let request = TokenRequest {
            issuer: oidc_issuer.clone()?,
            client_id: oidc_client_id.clone()?,
            client_secret: None,
            scope: Some(oidc_scope.clone()),
            audience: oidc_audience.clone(),
        };
        let client = ProviderClient::new("admin", self.admin.oidc_ca_file.clone()).ok()?;
        Some(BrowserLogin { client, request })
    }

    fn gateway_callers(&self) -> Option<GatewayCallers> {
        let header = self.fspiop.gateway_header.parse().ok()?;
        Some(GatewayCallers {
            header,
            names: self.certificate_names(&self.fspiop.gateway_pattern)?,
        })
    }

    fn certificate_names(&self, pattern: &str) -> Option<CertificateNames> {
        let field = |name: &CertificateName| match name {
            CertificateName::Cn => CertificateField::CommonName,
            CertificateName::SanDns => CertificateField::DnsName,
            CertificateName::SanUri => CertificateField::Uri,
        };
        let fields = self.fspiop.certificate_names.iter().map(field).collect();
        CertificateNames::new(fields, pattern)
    }
}

impl Admin {
    fn provider_fault(&self) -> Option<String> {
        let Some(issuer) = self.oidc_issuer.as_ref() else {
            let is_alone = self.oidc_client_id.is_some();
            return is_alone.then(|| "admin.oidc_client_id needs admin.oidc_issuer".to_owned());
        };
        let needs = |what: &str| Some(format!("admin.oidc_issuer needs admin.{what}"));
        if self.auth != Auth::Roles {
            return needs("auth = \"roles\"");
        }
        if self.oidc_audience.is_none() {
            return needs("oidc_audience, the value of the tokens' claim aud");
        }
        if self.oidc_names.is_empty() {
            return Some("admin.oidc_names must have at least one entry".to_owned());
        }
        if self.oidc_roles.is_empty() {
            return needs("oidc_roles, such as [\"hub-operators=operator\"]");
        }
        let has_openid = self.oidc_scope.split(' ').any(|scope| scope == "openid");
        if self.oidc_client_id.is_some() && !has_openid {
            return Some("admin.oidc_scope must have openid".to_owned());
        }
        if self.provider_roles().contains(&None) {
            let text = "admin.oidc_roles must have entries VALUE=ROLE";
            return Some(text.to_owned());
        }
        identity::check_url(issuer).err().map(|error| format!("admin.oidc_issuer: {error}"))
    }

    /// Values of the claim with their roles. `None` for an entry of another form.
    fn provider_roles(&self) -> Vec<Option<(String, String)>> {
        let pair = |entry: &String| {
            let (value, role) = entry.rsplit_once('=')?;
            (!value.is_empty() && !role.is_empty()).then(|| (value.to_owned(), role.to_owned()))
        };
        self.oidc_roles.iter().map(pair).collect()
    }
}

impl Fspiop {
    fn token_fault(&self) -> Option<String> {
        let needs = |name: &str, what: &str| {
            Some(format!("fspiop.callers = \"token\" needs fspiop.{name}, {what}"))
        };
        let Some(issuer) = &self.token_issuer else {
            return needs("token_issuer", "the value of the tokens' claim iss");
        };
        if self.token_audience.is_none() {
            return needs("token_audience", "the value of the tokens' claim aud");
        }
        if self.token_claims.is_empty() {
            return Some("fspiop.token_claims must have at least one entry".to_owned());
        }
        match (&self.token_keys_file, &self.token_keys_url) {
            (Some(_), Some(_)) => {
                Some("fspiop.token_keys_file and fspiop.token_keys_url exclude each other".into())
            }
            (Some(_), None) => None,
            (None, Some(url)) => url_fault("token_keys_url", url),
            (None, None) => url_fault("token_issuer", issuer),
        }
    }

    fn gateway_fault(&self) -> Option<String> {
        if self.gateways.is_empty() {
            let text = "fspiop.callers = \"gateway\" needs fspiop.gateways, the networks that \
                        gateways connect from";
            return Some(text.to_owned());
        }
        let header: Option<HeaderName> = self.gateway_header.parse().ok();
        let is_usable = header.is_some_and(|header| {
            !RESERVED.contains(&header.as_str()) && !header.as_str().starts_with("fspiop-")
        });
        let text = "fspiop.gateway_header must be the name of a header without another meaning";
        (!is_usable).then(|| text.to_owned())
    }

    fn token_callers(&self, keys: Option<&IssuerKeys>) -> Option<CallerPolicy> {
        let (issuer, audience) = (self.token_issuer.clone()?, self.token_audience.clone()?);
        Some(CallerPolicy::Token(Box::new(TokenCallers {
            keys: keys?.clone(),
            rules: TokenRules { issuer, audience },
            scopes: self.token_scopes.clone(),
            claims: self.token_claims.clone(),
            pattern: NamePattern::new(&self.token_pattern)?,
        })))
    }
}

fn url_fault(name: &str, url: &str) -> Option<String> {
    identity::check_url(url).err().map(|error| format!("fspiop.{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_callers_that_need_another_one_name_it() {
        let check = |settings: &str, expected: Option<&str>| {
            let config: Config =
                toml::from_str(&format!("[fspiop]\n{settings}")).expect("known names");
            assert_eq!(config.callers_fault().as_deref(), expected, "{settings}");
        };
        for name in ["certificate_pattern", "token_pattern", "gateway_pattern"] {
            let fault = format!("fspiop.{name} must contain {{fsp}} once");
            check(&format!("{name} = \"fsp\""), Some(&fault));
        }
        let token = "callers = \"token\"\n";
        let needs =
            |name: &str| format!("fspiop.callers = \"token\" needs fspiop.{name}, the value");
        check(token, Some(&format!("{} of the tokens' claim iss", needs("token_issuer"))));
        let issuer = format!("{token}token_issuer = \"https://idp.example\"\n");
        check(&issuer, Some(&format!("{} of the tokens' claim aud", needs("token_audience"))));
        let whole = format!("{issuer}token_audience = \"hub\"\n");
        check(&whole, None);
        check(&format!("{whole}token_keys_url = \"https://idp.example/keys\""), None);
        check(
            &format!("{whole}token_keys_url = \"https://a/\"\ntoken_keys_file = \"keys.json\""),
            Some("fspiop.token_keys_file and fspiop.token_keys_url exclude each other"),
        );
        check(
            &format!("{whole}token_keys_url = \"http://idp.example/keys\""),
            Some(
                "fspiop.token_keys_url: \"http://idp.example/keys\": expected https://, or http:// \
                 to a loopback address",
            ),
        );
        check(
            &format!("{whole}token_claims = []"),
            Some("fspiop.token_claims must have at least one entry"),
        );
        let admin = |settings: &str, expected: Option<&str>| {
            check(&format!("[admin]\noidc_issuer = \"https://idp.example\"\n{settings}"), expected);
        };
        admin("", Some("admin.oidc_issuer needs admin.auth = \"roles\""));
        let roles = "auth = \"roles\"\n";
        let audience =
            "admin.oidc_issuer needs admin.oidc_audience, the value of the tokens' claim aud";
        admin(roles, Some(audience));
        let whole = format!("{roles}oidc_audience = \"hub\"\n");
        let none = "admin.oidc_issuer needs admin.oidc_roles, such as [\"hub-operators=operator\"]";
        admin(&whole, Some(none));
        admin(&format!("{whole}oidc_roles = [\"a=viewer\", \"b=c=admin\"]"), None);
        for entry in ["viewer", "=viewer", "a="] {
            let form = Some("admin.oidc_roles must have entries VALUE=ROLE");
            admin(&format!("{whole}oidc_roles = [\"{entry}\"]"), form);
        }
        let gateway = "callers = \"gateway\"\n";
        check(
            gateway,
            Some(
                "fspiop.callers = \"gateway\" needs fspiop.gateways, the networks that gateways \
                 connect from",
            ),
        );
        let gateway = format!("{gateway}gateways = [\"10.0.0.0/8\"]\n");
        check(&gateway, None);
        for header in ["fspiop-source", "Host", "a b", ""] {
            check(
                &format!("{gateway}gateway_header = \"{header}\""),
                Some("fspiop.gateway_header must be the name of a header without another meaning"),
            );
        }
    }
}
