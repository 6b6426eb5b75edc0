//! Checks of a configuration and of the peers that it names: files, reachability, certificates,
//! access tokens, clock and registration. Nothing is changed and no money moves.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::DATE;
use http::{HeaderMap, Method};

use crate::config::AdapterConfig;
use crate::dfsp::Dfsp;
use crate::hub::HubAnswer;
use crate::ids::{now_ms, random};
use crate::outbound::HubRequest;
use crate::start::{self, Peers};
use crate::store::Store;

/// Difference of the clocks that is a problem, in milliseconds. Quotes live for seconds.
const CLOCK_DIFFERENCE_MS: u64 = 2_000;
/// Remaining life of a certificate that is a problem, in seconds.
const CERTIFICATE_SECONDS: i64 = 7 * 86_400;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The object that was checked.
    pub check: String,
    /// Whether it can be used.
    pub is_good: bool,
    /// The result in words, with the remedy of a problem.
    pub text: String,
}

impl Finding {
    fn good(check: impl Into<String>, text: impl Into<String>) -> Self {
        Self { check: check.into(), is_good: true, text: text.into() }
    }

    fn bad(check: impl Into<String>, text: impl Into<String>) -> Self {
        Self { check: check.into(), is_good: false, text: text.into() }
    }
}

/// Checks everything that `config` names. The adapter may be running.
pub async fn check(config: &AdapterConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    let peers = match Peers::new(&config.hub) {
        Ok(peers) => peers,
        Err(error) => return vec![Finding::bad("hub", error.to_string())],
    };
    certificates(config, &peers, &mut findings);
    findings.push(hub(&peers).await);
    if let Some(tokens) = &peers.tokens {
        findings.push(match tokens.token().await {
            Ok(_) => Finding::good("access token", "the token endpoint gave a token"),
            Err(why) => Finding::bad("access token", format!("{why}; check hub.oauth2")),
        });
    }
    // A scratch store: the real one may be in use.
    let scratch = std::env::temp_dir().join(format!("upesi-adapter-doctor-{:032x}", random()));
    match Store::open(&scratch) {
        Ok(store) => {
            let store = Arc::new(store);
            for dfsp in &config.dfsp {
                match start::open(dfsp, config, &peers, &store) {
                    Ok(opened) => check_dfsp(&opened, &mut findings).await,
                    Err(error) => findings.push(Finding::bad(&dfsp.id, error.to_string())),
                }
            }
        }
        Err(error) => findings.push(Finding::bad("temporary directory", error.to_string())),
    }
    // It may not exist.
    let _removed = std::fs::remove_dir_all(&scratch);
    findings.push(data(config));
    findings
}

fn certificates(config: &AdapterConfig, peers: &Peers, findings: &mut Vec<Finding>) {
    let mut status = Vec::new();
    if let Some(tls) = &peers.tls {
        status.extend(tls.status().iter().map(|one| ("hub.tls", one.clone())));
    }
    match config.inbound_tls.as_ref().map(start::server_tls) {
        Some(Ok(tls)) => status.extend(tls.status().iter().map(|one| ("inbound_tls", one.clone()))),
        Some(Err(error)) => findings.push(Finding::bad("inbound_tls", error.to_string())),
        None => {}
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs() as i64);
    for (section, one) in status {
        let days = (one.expires - now) / 86_400;
        let check = format!("{section} {}", one.kind);
        let text = format!("{} is valid for {days} days", one.subject);
        findings.push(match one.expires - now < CERTIFICATE_SECONDS {
            true => Finding::bad(check, format!("{text}; renew it")),
            false => Finding::good(check, text),
        });
    }
}

/// Whether the hub answers, and whether its clock agrees.
async fn hub(peers: &Peers) -> Finding {
    let target = &peers.targets.others;
    let request = (Method::GET, "/health");
    match peers.http.call(target, request, HeaderMap::new(), Bytes::new()).await {
        Err(error) => Finding::bad("hub", format!("{error}; check hub.url and the network")),
        Ok(reply) => {
            let date = reply.headers.get(DATE).and_then(|date| date.to_str().ok());
            match date.and_then(|date| fspiop::time::retry_after_ms(date.as_bytes(), 0)) {
                Some(theirs) if CLOCK_DIFFERENCE_MS < theirs.abs_diff(now_ms() / 1_000 * 1_000) => {
                    let seconds = theirs.abs_diff(now_ms()) / 1_000;
                    let text =
                        format!("the clocks differ by {seconds} s; synchronize this machine");
                    Finding::bad("clock", text)
                }
                Some(_) => Finding::good("hub", "it answers, and the clocks agree"),
                None => Finding::good("hub", format!("it answers with {}", reply.status)),
            }
        }
    }
}

async fn check_dfsp(dfsp: &Dfsp, findings: &mut Vec<Finding>) {
    let name = &dfsp.policy.fsp_id;
    findings.push(Finding::good(format!("{name}: files"), "secret and keys can be read"));
    let backend = &dfsp.backend;
    let reply =
        backend.http.call(&backend.target, (Method::GET, "/"), HeaderMap::new(), Bytes::new());
    findings.push(match reply.await {
        Ok(_) => Finding::good(format!("{name}: back end"), "it answers"),
        Err(error) => {
            let text = format!("{error}; check dfsp.backend");
            Finding::bad(format!("{name}: back end"), text)
        }
    });
    // The answer about this party goes to the adapter if it is running.
    let request = HubRequest {
        method: Method::GET,
        path: "/parties/ALIAS/upesi-doctor".to_owned(),
        destination: None,
        body: None,
    };
    let check = format!("{name}: registration");
    findings.push(match dfsp.hub.send(&request, random().to_be_bytes()).await {
        HubAnswer::Accepted => Finding::good(check, "the hub accepts requests of this DFSP"),
        HubAnswer::Refused(status, body) => {
            let text = format!("the hub answered {status}: {body}; ask its operator");
            Finding::bad(check, text)
        }
        HubAnswer::Unanswered(why) => Finding::bad(check, why),
    });
    if let Some(keys) = &dfsp.keys {
        let hub = ledger::FspName::new(&dfsp.hub_name);
        let is_known = hub.is_some_and(|hub| !keys.ring().of(&hub).is_empty());
        let check = format!("{name}: keys");
        findings.push(match is_known {
            true => Finding::good(check, "the key of the hub is known"),
            false => {
                let text =
                    format!("no {}.pem: signed messages of the hub are refused", dfsp.hub_name);
                Finding::bad(check, text)
            }
        });
    }
}

/// Whether the data directory can be written.
fn data(config: &AdapterConfig) -> Finding {
    let path = &config.data;
    let probe = path.join(format!("doctor-{:032x}", random()));
    let written = std::fs::create_dir_all(path).and_then(|()| std::fs::write(&probe, b"probe"));
    match written.and_then(|()| std::fs::remove_file(&probe)) {
        Ok(()) => Finding::good("data", format!("{} can be written", path.display())),
        Err(error) => Finding::bad("data", format!("{}: {error}", path.display())),
    }
}
