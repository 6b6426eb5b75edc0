//! Callback addresses: a registered template, filled in with values from a client.

use fspiop::endpoint::{EndpointType, expand};
use fspiop::{MatchedRoute, PartyPath, Route, percent_encode};
use http::{Method, Uri};
use regex::Regex;
use std::sync::LazyLock;

/// Longest registered value (hub-semantics 4.1: the admin API takes no longer one).
const VALUE_BYTES_MAX: usize = 4 * 1024;

static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{\{([A-Za-z]+)\}\}").expect("a pattern"));

/// Four lines: an endpoint type, a registered value, an identifier and a sub-identifier as in a
/// path.
///
/// The rendered address keeps the host, and the client's values add neither a segment nor a query.
/// A name is filled in wherever its placeholder is.
pub fn endpoint(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.splitn(4, '\n');
    let kind = lines.next().unwrap_or_default();
    let value = lines.next().unwrap_or_default();
    let id = lines.next().unwrap_or_default();
    let sub_id = lines.next().unwrap_or_default();
    let kind = EndpointType::parse(kind)
        .unwrap_or(EndpointType::ALL[kind.len() % EndpointType::ALL.len()]);
    assert_eq!(EndpointType::parse(kind.as_str()), Some(kind));
    let _free = expand(value, &[("transferId", id), ("partyIdentifier", sub_id)]);
    if VALUE_BYTES_MAX < value.len() {
        return;
    }
    let Ok(uri) = format!("/parties/ALIAS/{id}/{sub_id}").parse::<Uri>() else { return };
    let Ok(MatchedRoute::Api(found)) = fspiop::find(&Method::GET, uri.path()) else { return };
    let Ok(Route::PartiesGet(party)) = found.route(None) else { return };
    render(kind, value, &party, uri.path());
}

fn render(kind: EndpointType, value: &str, party: &PartyPath<'_>, path: &str) {
    let sub_id = party.sub_id.as_ref();
    let encoded = percent_encode(&party.id.text);
    let variables = [
        ("partyIdType", party.kind.as_str()),
        ("partyIdentifier", party.id.raw),
        ("partySubIdOrType", sub_id.map_or("", |sub_id| sub_id.raw)),
        ("transferId", party.id.raw),
        ("requestId", &*encoded),
    ];
    for (name, variable) in variables {
        check_segment(name, variable);
    }
    let address = kind.address(value, &variables, path);
    if let Some((host, _)) = host_and_rest(value)
        && !host.contains("{{")
    {
        let (found, rest) = host_and_rest(&address).expect("the scheme stays");
        assert_eq!(found, host, "the host stays: {address}");
        assert!(rest.is_empty() || rest.starts_with(['/', '?', '#']));
    }
    let plain = NAME.replace_all(value, "");
    let is_template = !kind.is_base_url() || value.contains("{{");
    if is_template && !plain.contains(['{', '}']) {
        let expected = NAME.replace_all(value, |found: &regex::Captures<'_>| {
            let variable = variables.iter().find(|(name, _)| *name == &found[1]);
            variable.map_or("", |(_, value)| value).to_owned()
        });
        assert_eq!(address, expected);
        for mark in ['/', '?', '#'] {
            let count = |text: &str| text.matches(mark).count();
            assert_eq!(count(&address), count(&plain), "{mark} in {address}");
        }
    }
    if !is_template {
        assert!(address.ends_with(path), "{address}");
    }
}

/// A variable fills at most the segment it is put into.
pub(crate) fn check_segment(name: &str, variable: &str) {
    let leaves = |c: char| "/?#\\".contains(c) || c.is_whitespace() || c.is_control();
    assert!(!variable.contains(leaves), "{name} leaves its segment: {variable:?}");
    assert!(!matches!(variable, "." | ".."), "{name} means another place: {variable:?}");
}

fn host_and_rest(value: &str) -> Option<(&str, &str)> {
    let rest = value.strip_prefix("http://")?;
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    (0 < at).then(|| rest.split_at(at))
}
