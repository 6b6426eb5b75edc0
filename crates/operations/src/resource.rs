//! Paths of the admin API (hub-semantics 4.1) and the methods they know.

/// What a path names. Texts are decoded and otherwise as the client wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Participants,
    Parties,
    Party { kind: String, id: String },
    LimitsOfAll,
    Participant(String),
    Endpoints(String),
    InitialPositionAndLimits(String),
    Limits(String),
    Positions(String),
    Accounts(String),
    Account { name: String, account: String },
    AccountTransfer { name: String, account: String, transfer: String },
    Keys(String),
    Key { name: String, key: String },
    KeyDirectoryReload,
    LedgerAccountTypes,
    SettlementModels,
    SettlementModel(String),
    Transaction(String),
    Explanation(String),
    Enums,
    Oracles,
    Oracle(String),
    EndpointCache,
    State,
    DeadLetters,
    DeadLetterResend(String),
    Undeliverable,
    Snapshots,
    Health,
    Metrics,
    Storage,
    Cluster,
    Rules,
    Watching,
    Waterfall(String),
    FspiopDocument,
    AdminDocument,
    Documents,
}

/// Most segments that a known path has.
const SEGMENTS_MAX: usize = 6;

impl Resource {
    /// The resource of a path; `None` when there is none.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let decoded: Vec<String> = path
            .strip_prefix('/')?
            .split('/')
            .take(SEGMENTS_MAX + 1)
            .map(decode)
            .collect::<Option<_>>()?;
        if decoded.iter().any(String::is_empty) {
            return None;
        }
        let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["participants", rest @ ..] => Self::of_participants(rest),
            ["parties"] => Some(Self::Parties),
            ["parties", kind, id] => Some(Self::Party { kind: (*kind).into(), id: (*id).into() }),
            ["keyDirectory", "reload"] => Some(Self::KeyDirectoryReload),
            ["ledgerAccountTypes"] => Some(Self::LedgerAccountTypes),
            ["settlementModels"] => Some(Self::SettlementModels),
            ["settlementModels", name] => Some(Self::SettlementModel((*name).into())),
            ["transfers", id, "explanation"] => Some(Self::Explanation((*id).into())),
            ["transactions", id] => Some(Self::Transaction((*id).into())),
            ["oracles"] => Some(Self::Oracles),
            ["oracles", id] => Some(Self::Oracle((*id).into())),
            ["endpointcache"] => Some(Self::EndpointCache),
            ["state"] => Some(Self::State),
            ["enums"] => Some(Self::Enums),
            ["deadletters"] => Some(Self::DeadLetters),
            ["deadletters", id, "resend"] => Some(Self::DeadLetterResend((*id).into())),
            ["undeliverable"] => Some(Self::Undeliverable),
            ["snapshots"] => Some(Self::Snapshots),
            ["health"] => Some(Self::Health),
            ["metrics"] => Some(Self::Metrics),
            ["storage"] => Some(Self::Storage),
            ["cluster"] => Some(Self::Cluster),
            ["rules"] => Some(Self::Rules),
            ["waterfall"] => Some(Self::Watching),
            ["waterfall", transfer] => Some(Self::Waterfall((*transfer).into())),
            ["openapi", "fspiop.json"] => Some(Self::FspiopDocument),
            ["openapi", "admin.json"] => Some(Self::AdminDocument),
            ["documents"] => Some(Self::Documents),
            _ => None,
        }
    }

    /// The methods it knows, as the header `Allow` lists them.
    pub(crate) const fn methods(&self) -> &'static str {
        match self {
            Self::LimitsOfAll
            | Self::Party { .. }
            | Self::Positions(_)
            | Self::Transaction(_)
            | Self::Explanation(_)
            | Self::Enums
            | Self::State
            | Self::DeadLetters
            | Self::Undeliverable
            | Self::Health
            | Self::Metrics
            | Self::Storage
            | Self::Cluster
            | Self::Waterfall(_)
            | Self::FspiopDocument
            | Self::AdminDocument
            | Self::Documents => "GET, HEAD",
            Self::Participants
            | Self::Endpoints(_)
            | Self::Accounts(_)
            | Self::Keys(_)
            | Self::LedgerAccountTypes
            | Self::SettlementModels
            | Self::Oracles
            | Self::Snapshots => "GET, HEAD, POST",
            Self::Participant(_)
            | Self::Limits(_)
            | Self::SettlementModel(_)
            | Self::Rules
            | Self::Watching => "GET, HEAD, PUT",
            Self::Parties
            | Self::InitialPositionAndLimits(_)
            | Self::DeadLetterResend(_)
            | Self::KeyDirectoryReload => "POST",
            Self::Key { .. } => "GET, HEAD, DELETE",
            Self::Account { .. } => "POST, PUT",
            Self::AccountTransfer { .. } => "PUT",
            Self::Oracle(_) => "DELETE, PUT",
            Self::EndpointCache => "DELETE",
        }
    }

    fn of_participants(segments: &[&str]) -> Option<Self> {
        let resource = match *segments {
            [] => Self::Participants,
            ["limits"] => Self::LimitsOfAll,
            [name] => Self::Participant(name.into()),
            [name, "endpoints"] => Self::Endpoints(name.into()),
            [name, "initialPositionAndLimits"] => Self::InitialPositionAndLimits(name.into()),
            [name, "limits"] => Self::Limits(name.into()),
            [name, "positions"] => Self::Positions(name.into()),
            [name, "accounts"] => Self::Accounts(name.into()),
            [name, "keys"] => Self::Keys(name.into()),
            [name, "keys", key] => Self::Key { name: name.into(), key: key.into() },
            [name, "accounts", account] => {
                Self::Account { name: name.into(), account: account.into() }
            }
            [name, "accounts", account, "transfers", transfer] => Self::AccountTransfer {
                name: name.into(),
                account: account.into(),
                transfer: transfer.into(),
            },
            _ => return None,
        };
        Some(resource)
    }
}

/// The value of a query's parameter, the first one of that name.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    decode(&value.replace('+', " "))
}

/// Undoes percent-encoding; `None` when what comes out is not UTF-8 or an escape is incomplete.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => hexadecimal(bytes.next()?)? << 4 | hexadecimal(bytes.next()?)?,
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_and_decoded() {
        let account = |name: &str| Resource::Account { name: name.into(), account: "7".into() };
        for (path, expected) in [
            ("/participants", Some(Resource::Participants)),
            ("/participants/", None),
            ("/participants/limits", Some(Resource::LimitsOfAll)),
            ("/participants/a%20b/accounts/7", Some(account("a b"))),
            ("/participants/a%2Fb/accounts/7", Some(account("a/b"))),
            ("/participants/%ff/accounts/7", None),
            ("/participants/%2/accounts/7", None),
            ("/participants/a/accounts/7/transfers/t/more", None),
            ("/participants/a/b/c/d/e/f/g/h", None),
            ("/Participants", None),
            ("/", None),
            ("*", None),
        ] {
            assert_eq!(Resource::parse(path), expected, "{path}");
        }
    }

    #[test]
    fn parameters_are_found_by_name() {
        for (query, expected) in [
            ("", None),
            ("type", Some("")),
            ("type=a%26b+c", Some("a&b c")),
            ("kind=x&type=y&type=z", Some("y")),
            ("type=%", None),
        ] {
            assert_eq!(parameter(query, "type").as_deref(), expected, "{query}");
        }
    }
}
