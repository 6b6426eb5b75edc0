//! Protection against server-side request forgery: the valid endpoints of a participant, and the
//! addresses that the hub may call.
//!
//! Operators write endpoints on behalf of participants, and the hub calls them from inside the
//! operator's network. The form and the address of a value are therefore always checked.
//! Link-local, metadata, group and unspecified addresses are never called, loopback addresses only
//! if the operator allows them, and the hub's own listeners never. A host name is checked by its
//! resolved addresses at each connection, because its owner may change them at any time.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::fmt;
use std::str::FromStr;

/// Never called, not even inside an allowed network: unspecified addresses, link-local addresses,
/// metadata services of clouds, and group addresses.
const NEVER: [Network; 12] = [
    Network::v4([0, 0, 0, 0], 8),
    Network::v4([169, 254, 0, 0], 16),
    Network::v4([100, 100, 100, 200], 32),
    Network::v4([168, 63, 129, 16], 32),
    Network::v4([192, 0, 0, 192], 32),
    Network::v4([224, 0, 0, 0], 4),
    Network::v4([240, 0, 0, 0], 4),
    Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 128),
    Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
    Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128),
    Network::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
];
/// Called only if the operator allows it.
const LOOPBACK: [Network; 2] =
    [Network::v4([127, 0, 0, 0], 8), Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128)];

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text that is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a network; write an address and a prefix length, such as 10.0.0.0/8")]
pub struct NoNetwork(String);

impl Network {
    /// Whether it contains an address. An IPv4 address mapped into IPv6 counts as IPv4.
    #[must_use]
    pub fn contains_canonical(&self, address: IpAddr) -> bool {
        self.contains(address.to_canonical())
    }

    const fn v4([a, b, c, d]: [u8; 4], bits: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
    }

    const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], bits: u8) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), bits }
    }

    /// Whether it contains only loopback addresses.
    fn is_loopback(&self) -> bool {
        LOOPBACK.iter().any(|loopback| self.lies_in(loopback))
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (mine.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (mine.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }

    /// Whether it is contained in another network.
    fn lies_in(&self, other: &Self) -> bool {
        other.bits <= self.bits && other.contains(self.address)
    }
}

impl FromStr for Network {
    type Err = NoNetwork;

    /// `address/bits`, or an address alone, which is a network of one address.
    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let wrong = || NoNetwork(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if most < bits {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// The addresses and ports that may be called. The default denies loopback and the addresses that
/// are never called, and allows every other address and port.
#[derive(Clone, Debug, Default)]
pub struct EgressPolicy {
    /// Only addresses in these networks; empty for all but loopback. A network within
    /// `127.0.0.0/8`, or `::1`, allows its loopback addresses.
    pub networks: Vec<Network>,
    /// Addresses in these networks are denied, even if another network allows them.
    pub denied: Vec<Network>,
    /// Only these ports; empty for all.
    pub ports: Vec<u16>,
    /// Whether loopback addresses may be called without a network that allows them.
    pub loopback: Loopback,
    /// The hub's own listeners, which are never called.
    pub own: Vec<SocketAddr>,
    /// Whether `https` can or must be called.
    pub encrypted: EncryptedCalls,
}

/// Whether `https` can or must be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncryptedCalls {
    /// The program was built without TLS.
    #[default]
    Unsupported,
    /// It can.
    Supported,
    /// It must: `http` is never called.
    Required,
}

/// Whether loopback addresses may be called if [`EgressPolicy::networks`] is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loopback {
    /// Denied: local services that trust this machine are not meant for participants.
    #[default]
    Denied,
    /// Allowed: participants run on this machine, as in tests and demonstrations.
    Allowed,
}

impl EgressPolicy {
    /// Whether no address may be called, because each allowed network is also denied.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let is_denied =
            |net: &Network| self.denied.iter().chain(&NEVER).any(|denied| net.lies_in(denied));
        !self.networks.is_empty() && self.networks.iter().all(is_denied)
    }

    /// Whether a network allows loopback addresses.
    #[must_use]
    pub fn names_loopback(&self) -> bool {
        self.networks.iter().any(Network::is_loopback)
    }

    /// Whether loopback addresses are allowed without a network.
    #[must_use]
    pub fn assumes_loopback(&self) -> bool {
        let is_denied = |net: &Network| self.denied.iter().any(|denied| net.lies_in(denied));
        self.loopback == Loopback::Allowed
            && self.networks.is_empty()
            && !LOOPBACK.iter().all(is_denied)
    }

    /// Whether an address may be called. An IPv4 address inside an IPv6 one is checked as both.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        self.judge(address).is_ok()
    }

    /// Whether address and port may be called and are not the hub's own.
    #[must_use]
    pub fn allows_socket(&self, to: SocketAddr) -> bool {
        self.allows_port(to.port()) && self.allows(to.ip()) && !self.is_own(to)
    }

    /// Whether a new connection leads to a listener of the hub itself that listens on every
    /// address. Both ends then have the same address.
    #[must_use]
    pub fn is_loop(&self, here: SocketAddr, there: SocketAddr) -> bool {
        let [mine, other] = [here, there].map(|end| end.ip().to_canonical());
        mine == other && self.own.iter().any(|own| own.port() == there.port())
    }

    /// Whether a port may be called.
    #[must_use]
    pub fn allows_port(&self, port: u16) -> bool {
        port != 0 && (self.ports.is_empty() || self.ports.contains(&port))
    }

    /// Whether endpoints of a scheme may be called.
    #[must_use]
    pub fn allows_scheme(&self, scheme: CallScheme) -> bool {
        scheme == CallScheme::Https || self.encrypted != EncryptedCalls::Required
    }

    /// Checks a value before it is registered: [`CallTarget::parse`], its scheme and port, and its
    /// host if that is an address or always resolves to one.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn check(&self, value: &str) -> Result<(), ForbiddenTarget> {
        let target = CallTarget::parse(value)?;
        if (target.scheme, self.encrypted) == (CallScheme::Https, EncryptedCalls::Unsupported) {
            return Err(ForbiddenTarget::Encrypted);
        }
        if !self.allows_scheme(target.scheme) {
            return Err(ForbiddenTarget::Plain);
        }
        if !has_whole_templates(&target.path) {
            return Err(ForbiddenTarget::Braces);
        }
        if !self.allows_port(target.port()) {
            return Err(ForbiddenTarget::Port);
        }
        let Some(address) = target.literal() else { return Ok(()) };
        match self.is_own(SocketAddr::new(address, target.port())) {
            true => Err(ForbiddenTarget::Own),
            false => self.judge(address),
        }
    }

    fn judge(&self, address: IpAddr) -> Result<(), ForbiddenTarget> {
        let address = address.to_canonical();
        if let IpAddr::V6(outer) = address
            && let Some(inner) = embedded(outer)
        {
            self.judge(IpAddr::V4(inner))?;
        }
        let inside = |networks: &[Network]| networks.iter().any(|net| net.contains(address));
        if inside(&NEVER) {
            return Err(ForbiddenTarget::Reserved);
        }
        if inside(&self.denied) {
            return Err(ForbiddenTarget::Network);
        }
        let (listed, is_loopback) = (inside(&self.networks), inside(&LOOPBACK));
        let named = self.networks.iter().any(|net| net.is_loopback() && net.contains(address));
        match (is_loopback, self.networks.is_empty()) {
            (true, true) if self.loopback == Loopback::Allowed => Ok(()),
            (true, _) if named => Ok(()),
            (true, _) => Err(ForbiddenTarget::Loopback),
            (false, false) if !listed => Err(ForbiddenTarget::Network),
            (false, _) => Ok(()),
        }
    }

    /// Whether this is a known address of the hub's listeners. A listener on every address also has
    /// loopback addresses, and others that only a connection reveals.
    fn is_own(&self, to: SocketAddr) -> bool {
        let address = to.ip().to_canonical();
        let is_loopback = LOOPBACK.iter().any(|net| net.contains(address));
        self.own.iter().any(|own| {
            own.port() == to.port()
                && (own.ip() == address || own.ip().is_unspecified() && is_loopback)
        })
    }
}

/// Whether all braces belong to templates, `{{name}}` or `{{{name}}}`. Other braces would be sent
/// as they are.
fn has_whole_templates(path: &str) -> bool {
    let braces = ['{', '}'];
    let mut rest = path;
    while let Some((before, tail)) = rest.split_once("{{") {
        let (tail, end) = match tail.strip_prefix('{') {
            Some(tail) => (tail, "}}}"),
            None => (tail, "}}"),
        };
        let Some((name, after)) = tail.split_once(end) else { return false };
        if before.contains(braces) || name.trim().is_empty() || name.contains(braces) {
            return false;
        }
        rest = after;
    }
    !rest.contains(braces)
}

/// The IPv4 address embedded in an IPv6 one: NAT64, 6to4, and the obsolete compatible form.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high @ 1..=u16::MAX, low] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

/// The reasons why a value cannot be an endpoint. The texts follow the name of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenTarget {
    /// `https`, in a program without TLS.
    #[error("must begin with http://: this program was built without TLS")]
    Encrypted,
    /// `http`, if only `https` is called.
    #[error("must begin with https:// (endpoints.https_only)")]
    Plain,
    /// Any other scheme, or none.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// `name@host`.
    #[error("must not hold a user name or password before the host")]
    UserInfo,
    /// No host, or one with a template.
    #[error("must name a host by letters, digits, dots and hyphens, without a template")]
    Host,
    /// The path contains blanks, control characters or a fragment.
    #[error("must hold no blank, control character, backslash or fragment in its path")]
    Path,
    /// Braces outside a template.
    #[error("must hold braces only around a name, as in {{{{transferId}}}}")]
    Braces,
    /// Not one of the configured ports.
    #[error("names a port that the hub may not call (endpoints.ports)")]
    Port,
    /// Not in a configured network.
    #[error("names an address that the hub may not call (endpoints.networks)")]
    Network,
    /// A loopback address, which is not allowed.
    #[error("names a loopback address; endpoints.networks must allow it, as 127.0.0.0/8")]
    Loopback,
    /// Link-local, metadata, group or unspecified.
    #[error("names a link-local, metadata, group or unspecified address: never called")]
    Reserved,
    /// A listener of the hub.
    #[error("names a listener of the hub itself")]
    Own,
}

/// The scheme of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallScheme {
    /// `http`.
    #[default]
    Http,
    /// `https`.
    Https,
}

impl CallScheme {
    /// As written before `://`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A parsed endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTarget {
    /// Whether the connection uses TLS.
    pub scheme: CallScheme,
    /// `host:port`.
    pub authority: String,
    /// The path: a template, or the base of a path.
    pub path: String,
}

impl CallTarget {
    /// Parses `http://host[:port][/path]`, or the same with `https`. A template may only follow the
    /// host, so that no identifier determines the called host.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn parse(value: &str) -> Result<Self, ForbiddenTarget> {
        let (scheme, rest) = value.trim().split_once("://").ok_or(ForbiddenTarget::Scheme)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => CallScheme::Http,
            "https" => CallScheme::Https,
            _ => return Err(ForbiddenTarget::Scheme),
        };
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(ForbiddenTarget::UserInfo);
        }
        let unfit = |c: char| c.is_control() || c == '\\' || c == '#';
        if !(path.is_empty() || path.starts_with('/')) || path.contains(unfit) {
            return Err(ForbiddenTarget::Path);
        }
        let outside = path.split("{{").map(|part| part.rsplit("}}").next().unwrap_or(part));
        if outside.into_iter().any(|text| text.contains(char::is_whitespace)) {
            return Err(ForbiddenTarget::Path);
        }
        let authority = with_port(authority, scheme.default_port()).ok_or(ForbiddenTarget::Host)?;
        Ok(Self { scheme, authority, path: path.to_owned() })
    }

    /// The port to call.
    #[must_use]
    pub fn port(&self) -> u16 {
        let port = self.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port.expect("the authority was made with a port")
    }

    /// The address, if the host is an address or `localhost`.
    fn literal(&self) -> Option<IpAddr> {
        let (host, _) = self.authority.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        match name == "localhost" || name.ends_with(".localhost") {
            true => Some(Ipv4Addr::LOCALHOST.into()),
            false => host.parse().ok(),
        }
    }
}

/// `host:port`; `None` if the host is invalid.
fn with_port(authority: &str, default: u16) -> Option<String> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = match port {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => port.parse::<u16>().ok()?,
        Some(_) => return None,
        None => default,
    };
    let is_name = |host: &str| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    let is_address = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
    };
    (is_name(host) || is_address(host)).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;
    use crate::test_table;

    fn with_loopback() -> EgressPolicy {
        EgressPolicy { loopback: Loopback::Allowed, ..EgressPolicy::default() }
    }

    #[test]
    fn targets_are_parsed_or_refused() {
        test_table::check(&expect_file!["test_tables/endpoints.txt"], |value| {
            match CallTarget::parse(value) {
                Ok(target) => format!("{:?} {} {:?}", target.scheme, target.authority, target.path),
                Err(fault) => format!("{fault:?}"),
            }
        });
    }

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().expect("a network")).collect()
    }

    fn reach(name: &str) -> EgressPolicy {
        let inside = EgressPolicy {
            networks: networks(&["10.0.0.0/8", "169.254.0.0/16", "fd00::/8", "127.0.0.1"]),
            denied: networks(&["10.9.0.0/16"]),
            ports: vec![80],
            ..EgressPolicy::default()
        };
        let own = ["0.0.0.0:4000", "127.0.0.1:3001"].map(|it| it.parse().expect("an address"));
        match name {
            "default" => EgressPolicy::default(),
            "inside" => inside,
            "narrow" => EgressPolicy { networks: networks(&["10.0.0.0/8"]), ..inside },
            "open" => with_loopback(),
            "outside" => EgressPolicy { denied: networks(&["10.0.0.0/8"]), ..with_loopback() },
            "all" => EgressPolicy { networks: networks(&["0.0.0.0/0", "::/0"]), ..with_loopback() },
            "https" => EgressPolicy { encrypted: EncryptedCalls::Required, ..with_loopback() },
            "own" => EgressPolicy { own: own.to_vec(), ..with_loopback() },
            other => panic!("there is no {other:?}"),
        }
    }

    /// An input is an address, or the name of a policy and a value.
    #[test]
    fn addresses_and_values_match_their_expected_verdicts() {
        test_table::check(&expect_file!["test_tables/egress_policy.txt"], |input| {
            let (name, value) = test_table::first_word(input);
            if name == "address" {
                let address: IpAddr = value.parse().expect("an address");
                let allows = |name: &&str| reach(name).allows(address);
                let all = ["default", "inside", "outside", "all"].into_iter().filter(allows);
                let all: Vec<_> = all.collect();
                return if all.is_empty() { "none".to_owned() } else { all.join(" ") };
            }
            match reach(name).check(value) {
                Ok(()) => "ok".to_owned(),
                Err(fault) => format!("{fault:?}"),
            }
        });
    }

    #[test]
    fn the_hubs_own_listeners_are_never_called() {
        let reach = reach("own");
        let socket = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert!(!reach.allows_socket(socket("127.0.0.1:3001")));
        assert!(reach.allows_socket(socket("10.0.0.5:4000")), "only the connection shows it");
        assert!(reach.is_loop(socket("10.0.0.5:40312"), socket("10.0.0.5:4000")));
        assert!(!reach.is_loop(socket("10.0.0.5:40312"), socket("10.0.0.5:4001")));
        assert!(!reach.is_loop(socket("10.0.0.5:40312"), socket("10.0.0.6:4000")));
    }

    #[test]
    fn policy_without_allowed_addresses_is_closed() {
        for (allowed, denied, closed) in [
            (&[][..], &["0.0.0.0/0"][..], false),
            (&["10.0.0.0/8"], &["10.0.0.0/7"], true),
            (&["10.0.0.0/8"], &["10.0.0.0/9"], false),
            (&["169.254.0.0/16"], &[], true),
            (&["127.0.0.1"], &[], false),
        ] {
            let (networks, denied) = (networks(allowed), networks(denied));
            let reach = EgressPolicy { networks, denied, ..EgressPolicy::default() };
            assert_eq!(reach.is_closed(), closed, "{allowed:?}");
        }
    }

    #[test]
    fn invalid_networks_are_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "a/8", "10.0.0.0/-1", "10.0.0.0/"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        assert_eq!(format!("{:?}", networks(&["0.0.0.0/0", "::/0"])), "[0.0.0.0/0, ::/0]");
        assert!(networks(&["0.0.0.0/0"])[0].contains(IpAddr::from([1, 2, 3, 4])));
    }
}
