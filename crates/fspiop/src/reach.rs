//! Where the hub may be sent: which values a participant's endpoint may have, and which addresses
//! may be called.
//!
//! Endpoints are written by operators on behalf of participants, and the hub calls them from
//! inside the operator's network. So the form of a value is always checked, its port and its
//! address when the operator has said which are meant. A name is checked by what it resolves to,
//! each time a connection is made, for whoever owns it may point it elsewhere at any time.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;
use std::str::FromStr;

/// Never called once any network is named, not even inside an allowed one: this host as seen
/// from itself, link-local addresses, where clouds keep their metadata, and group addresses.
const NEVER: [&str; 10] = [
    "0.0.0.0/8",
    "169.254.0.0/16",
    "100.100.100.200/32",
    "192.0.0.192/32",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "fe80::/10",
    "ff00::/8",
    "fd00:ec2::254/128",
];

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network; write an address and the bits that count, such as 10.0.0.0/8")]
pub struct NoNetwork(String);

impl Network {
    /// Whether an address lies in it; an IPv4 address mapped into IPv6 counts as the former.
    #[must_use]
    pub fn contains_canonical(&self, address: IpAddr) -> bool {
        self.contains(address.to_canonical())
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

    /// Whether all of it lies in another one.
    fn lies_in(&self, other: &Self) -> bool {
        other.bits <= self.bits && other.contains(self.address)
    }
}

impl FromStr for Network {
    type Err = NoNetwork;

    /// `address/bits`, or an address alone, which is a network of one.
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

/// What may be called. The default allows every address and port.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Only addresses in these; empty for all.
    pub networks: Vec<Network>,
    /// No address in these, even if it is in one of the others.
    pub denied: Vec<Network>,
    /// Only these ports; empty for all.
    pub ports: Vec<u16>,
}

impl Reach {
    /// Whether no address at all may be called: each network that is allowed lies in a denied one.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let is_denied = |net: &Network| self.denied.iter().any(|denied| net.lies_in(denied));
        !self.networks.is_empty() && self.networks.iter().all(is_denied)
    }

    /// Whether an address may be called. An IPv4 address inside an IPv6 one is judged as both.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        if self.networks.is_empty() && self.denied.is_empty() {
            return true;
        }
        let address = address.to_canonical();
        if let IpAddr::V6(outer) = address
            && let Some(inner) = embedded(outer)
            && !self.allows(IpAddr::V4(inner))
        {
            return false;
        }
        let inside = |networks: &[Network]| networks.iter().any(|net| net.contains(address));
        let never = NEVER.iter().any(|text| {
            let network: Network = text.parse().expect("the list holds networks");
            network.contains(address)
        });
        !never && !inside(&self.denied) && (self.networks.is_empty() || inside(&self.networks))
    }

    /// Whether a port may be called.
    #[must_use]
    pub fn allows_port(&self, port: u16) -> bool {
        port != 0 && (self.ports.is_empty() || self.ports.contains(&port))
    }

    /// Checks a value before it is registered: what [`Target::parse`] asks, its port, and its
    /// host when that is an address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, value: &str) -> Result<(), Unreachable> {
        let target = Target::parse(value)?;
        if !has_whole_templates(&target.path) {
            return Err(Unreachable::Braces);
        }
        if !self.allows_port(target.port()) {
            return Err(Unreachable::Port);
        }
        match target.literal() {
            Some(address) if !self.allows(address) => Err(Unreachable::Network),
            _ => Ok(()),
        }
    }
}

/// Whether all braces belong to templates, `{{name}}` or `{{{name}}}`: others would be called as
/// they are, and the name with them.
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

/// The IPv4 address that a translator would make of an IPv6 one: NAT64 and 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

/// Why a value cannot be an endpoint. The texts follow the name of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// `https`.
    #[error("must begin with http://: the hub cannot call https yet, use a proxy that can")]
    Encrypted,
    /// Any other scheme, or none.
    #[error("must begin with http://")]
    Scheme,
    /// `name@host`.
    #[error("must not hold a user name or password before the host")]
    UserInfo,
    /// No host, or one that is not fixed.
    #[error("must name a host by letters, digits, dots and hyphens, without a template")]
    Host,
    /// What follows the host has blanks, control characters or a fragment.
    #[error("must hold no blank, control character, backslash or fragment in its path")]
    Path,
    /// Braces that are not those of a template.
    #[error("must hold braces only around a name, as in {{{{transferId}}}}")]
    Braces,
    /// Not one of the configured ports.
    #[error("names a port that the hub may not call (endpoints.ports)")]
    Port,
    /// Not in a configured network.
    #[error("names an address that the hub may not call (endpoints.networks)")]
    Network,
}

/// A value taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `host:port`.
    pub authority: String,
    /// What follows: a template, or the base of a path.
    pub path: String,
}

impl Target {
    /// Takes `http://host[:port][/path]` apart. Variables of a template can only stand behind the
    /// host, so that no identifier decides who is called.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn parse(value: &str) -> Result<Self, Unreachable> {
        let (scheme, rest) = value.trim().split_once("://").ok_or(Unreachable::Scheme)?;
        match scheme.to_ascii_lowercase().as_str() {
            "http" => {}
            "https" => return Err(Unreachable::Encrypted),
            _ => return Err(Unreachable::Scheme),
        }
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(Unreachable::UserInfo);
        }
        let unfit = |c: char| c.is_control() || c == '\\' || c == '#';
        if !(path.is_empty() || path.starts_with('/')) || path.contains(unfit) {
            return Err(Unreachable::Path);
        }
        let outside = path.split("{{").map(|part| part.rsplit("}}").next().unwrap_or(part));
        if outside.into_iter().any(|text| text.contains(char::is_whitespace)) {
            return Err(Unreachable::Path);
        }
        let authority = with_port(authority).ok_or(Unreachable::Host)?;
        Ok(Self { authority, path: path.to_owned() })
    }

    /// The port that is called.
    #[must_use]
    pub fn port(&self) -> u16 {
        let port = self.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port.expect("the authority was made with a port")
    }

    /// The address, when the host is one and no name.
    fn literal(&self) -> Option<IpAddr> {
        let (host, _) = self.authority.rsplit_once(':')?;
        host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

/// `host:port`, the port being 80 unless it is written; `None` for what is no host.
fn with_port(authority: &str) -> Option<String> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = match port {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => port.parse::<u16>().ok()?,
        Some(_) => return None,
        None => 80,
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
    use super::*;

    #[test]
    fn values_are_taken_apart_or_refused() {
        use Unreachable::{Encrypted, Host, Path, Scheme, UserInfo};
        for (value, expected) in [
            ("http://a.example:3000/x/{{transferId}}", Ok(("a.example:3000", "/x/{{transferId}}"))),
            ("http://a.example", Ok(("a.example:80", ""))),
            ("HTTP://127.0.0.1:9/{{ transferId }}/e", Ok(("127.0.0.1:9", "/{{ transferId }}/e"))),
            ("http://[::1]:9/p?a=b", Ok(("[::1]:9", "/p?a=b"))),
            ("http://[::1]", Ok(("[::1]:80", ""))),
            ("https://a.example/", Err(Encrypted)),
            ("HTTPS://a.example/", Err(Encrypted)),
            ("ftp://a.example/", Err(Scheme)),
            ("file:///etc/passwd", Err(Scheme)),
            ("a.example", Err(Scheme)),
            ("http:/a.example", Err(Scheme)),
            ("http://", Err(Host)),
            ("http://:80/", Err(Host)),
            ("http://a:b/", Err(Host)),
            ("http://a:+80/", Err(Host)),
            ("http://a:65536/", Err(Host)),
            ("http://::1/", Err(Host)),
            ("http://[zz]/", Err(Host)),
            ("http://a b/", Err(Host)),
            ("http://{{partyIdentifier}}/", Err(Host)),
            ("http://a{{partyIdentifier}}.example/", Err(Host)),
            ("http://a.example{{partyIdentifier}}", Err(Host)),
            ("http://user@host/", Err(UserInfo)),
            ("http://user:word@host/", Err(UserInfo)),
            ("http://host?{{partyIdentifier}}", Err(Path)),
            ("http://host\\@evil/", Err(Path)),
            ("http://host/#x", Err(Path)),
            ("http://host/a b", Err(Path)),
            ("http://host/a\r\nb", Err(Path)),
        ] {
            let target = Target::parse(value);
            let found = target.as_ref().map(|t| (t.authority.as_str(), t.path.as_str()));
            assert_eq!(found, expected.as_ref().map(|pair| *pair), "{value}");
        }
    }

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().expect("a network")).collect()
    }

    #[test]
    fn addresses_are_allowed_or_not() {
        let open = Reach::default();
        let inside = Reach {
            networks: networks(&["10.0.0.0/8", "169.254.0.0/16", "fd00::/8", "127.0.0.1"]),
            denied: networks(&["10.9.0.0/16"]),
            ports: vec![80],
        };
        let outside = Reach { denied: networks(&["10.0.0.0/8"]), ..Reach::default() };
        for (address, expected) in [
            ("10.1.2.3", [true, true, false]),
            ("10.9.2.3", [true, false, false]),
            ("11.1.2.3", [true, false, true]),
            ("127.0.0.1", [true, true, true]),
            ("127.0.0.2", [true, false, true]),
            ("169.254.169.254", [true, false, false]),
            ("0.0.0.0", [true, false, false]),
            ("224.0.0.1", [true, false, false]),
            ("fd00::1", [true, true, true]),
            ("fe80::1", [true, false, false]),
            ("::", [true, false, false]),
            ("::1", [true, false, true]),
            ("::ffff:10.1.2.3", [true, true, false]),
            ("::ffff:169.254.169.254", [true, false, false]),
            ("64:ff9b::169.254.169.254", [true, false, false]),
            ("2002:a9fe:a9fe::1", [true, false, false]),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            let found = [&open, &inside, &outside].map(|reach| reach.allows(address));
            assert_eq!(found, expected, "{address}");
        }
        for (value, expected) in [
            ("http://10.1.2.3/", Ok(())),
            ("http://names.are.resolved.later/", Ok(())),
            ("http://10.9.2.3/", Err(Unreachable::Network)),
            ("http://[::ffff:10.9.2.3]/", Err(Unreachable::Network)),
            ("http://10.1.2.3:81/", Err(Unreachable::Port)),
        ] {
            assert_eq!(inside.check(value), expected, "{value}");
        }
        assert_eq!(open.check("http://a:0/"), Err(Unreachable::Port));
    }

    #[test]
    fn braces_stand_around_names_only() {
        for (path, whole) in [
            ("", true),
            ("/a/{{partyIdType}}/{{ partyIdentifier }}/{{{x}}}/error", true),
            ("/{{partyIdType}", false),
            ("/{{{{transferId}}", false),
            ("/{{{{transferId}}}}", false),
            ("/{{{transferId}}", false),
            ("/{{transferId", false),
            ("/transferId}}", false),
            ("/{transferId}", false),
            ("/{{}}", false),
            ("/{{ }}", false),
            ("/{{a}}}", false),
        ] {
            let found = Reach::default().check(&format!("http://a{path}"));
            let expected = if whole { Ok(()) } else { Err(Unreachable::Braces) };
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "a/8", "10.0.0.0/-1", "10.0.0.0/"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        assert_eq!(format!("{:?}", networks(&["0.0.0.0/0", "::/0"])), "[0.0.0.0/0, ::/0]");
        assert!(networks(&["0.0.0.0/0"])[0].contains(IpAddr::from([1, 2, 3, 4])));
    }
}
