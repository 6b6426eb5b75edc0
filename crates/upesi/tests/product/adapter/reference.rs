//! The scheme adapter of the reference as payer and as payee, with signatures. Hub and adapters
//! must understand each other in all combinations.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};

use super::bank::{Bank, Program, Scheme};
use super::{Keys, payment};
use crate::support::port::ReservedPort;
use crate::support::receivers::install;
use crate::support::switch::{Home, Printed, finish};

/// Times of our adapter. Programs of Node.js may be slow on a busy machine.
const FLOW: &str = "timeout_seconds = 50\nexpiry_seconds = 60\n";

/// The program in front of a bank's back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdapterKind {
    Reference,
    Own,
}

#[test]
fn reference_pays_reference() {
    check(AdapterKind::Reference, AdapterKind::Reference);
}

#[test]
fn reference_pays_ours() {
    check(AdapterKind::Reference, AdapterKind::Own);
}

#[test]
fn ours_pays_reference() {
    check(AdapterKind::Own, AdapterKind::Reference);
}

#[test]
fn ours_pays_ours() {
    check(AdapterKind::Own, AdapterKind::Own);
}

/// A payment that commits, one that the payee's back end refuses, and an unknown party.
fn check(payer: AdapterKind, payee: AdapterKind) {
    let keys = Keys::new(&[(); 3].map(|()| key_pair()));
    let scheme = Scheme::of_banks(Home::configured(&keys.hub()), |hub| {
        [("payerbank", payer), ("payeebank", payee)].map(|(name, kind)| match kind {
            // The reference of npm speaks 1.x.
            AdapterKind::Own => {
                Bank::start_version("1.1", name, hub, &format!("{FLOW}{}", keys.bank(name)), None)
            }
            AdapterKind::Reference => start_reference(name, hub, &keys),
        })
    });
    let (status, paid) = scheme.payer.post("/transfers", &payment("home-1", "12.5"));
    assert_eq!((status, &paid["currentState"]), (200, &json!("COMPLETED")), "{paid}");
    assert_eq!(paid["homeTransactionId"], "home-1");
    assert_eq!(paid["to"]["firstName"], "Neema");
    assert_eq!(paid["quoteResponse"]["body"]["payeeFspFee"]["amount"], "0.5", "{paid}");
    assert_eq!(paid["fulfil"]["body"]["transferState"], "COMMITTED", "{paid}");
    assert!(paid["fulfil"]["headers"]["fspiop-signature"].is_string(), "{paid}");
    assert_eq!(scheme.admin.position("payerbank"), "12.5");
    assert_eq!(scheme.admin.position("payeebank"), "-12.5");
    let asked = scheme.payee.requests();
    let lines: Vec<_> = asked.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(lines, ["GET /parties/MSISDN/222", "POST /quoterequests", "POST /transfers"]);
    assert_eq!(asked[1].1["from"]["displayName"], "Amani Juma", "{}", asked[1].1);
    assert_eq!(asked[2].1["transferId"], paid["transferId"]);

    let (status, error) = scheme.payer.post("/transfers", &payment("home-2", "123"));
    assert_eq!((status, &error["statusCode"]), (500, &json!("4001")), "{error}");
    assert_eq!(code_of(&error), &json!("4001"), "{error}");
    let mut unknown = payment("home-3", "10");
    unknown["to"]["idValue"] = "404".into();
    let (status, error) = scheme.payer.post("/transfers", &unknown);
    assert_eq!((status, code_of(&error)), (500, &json!("3204")), "{error}");
    assert_eq!(scheme.admin.position("payerbank"), "12.5");
    scheme.end();
}

fn code_of(error: &Value) -> &Value {
    &error["transferState"]["lastError"]["mojaloopError"]["errorInformation"]["errorCode"]
}

/// A private key and its public key.
fn key_pair() -> [String; 2] {
    let mut generate = Command::new("openssl");
    generate.args(["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("private.pem");
    finish({
        generate.arg("-out").arg(&file);
        generate
    })
    .succeeds();
    let mut public = Command::new("openssl");
    public.args(["pkey", "-pubout", "-in"]).arg(&file);
    let public = finish(public).succeeds().out();
    [std::fs::read_to_string(file).unwrap(), public]
}

/// A bank with the adapter of the reference and its Redis.
fn start_reference(name: &str, hub: SocketAddr, keys: &Keys) -> Bank {
    let directory = install("reference_adapter", &["adapter.cjs"]);
    let reserved = ReservedPort::new();
    let port = reserved.address.port();
    let mut redis = Command::new("redis-server");
    redis.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]);
    let cache = Program::start_until(&mut redis, "Ready to accept connections");
    Bank::with_adapter(name, (cache, reserved), |backend| {
        let mut node = Command::new("node");
        node.arg("adapter.cjs").current_dir(&directory);
        for port in ["INBOUND_LISTEN_PORT", "OUTBOUND_LISTEN_PORT", "METRICS_SERVER_LISTEN_PORT"] {
            node.env(port, "0");
        }
        node.env("PEER_ENDPOINT", hub.to_string())
            .env("BACKEND_ENDPOINT", backend.to_string())
            .env("DFSP_ID", name)
            .env("CACHE_URL", format!("redis://127.0.0.1:{port}"))
            .env("REQUEST_PROCESSING_TIMEOUT_SECONDS", "50")
            .env("VALIDATE_INBOUND_JWS", "true")
            .env("JWS_SIGN", "true")
            .env("JWS_SIGNING_KEY_PATH", keys.private(name))
            .env("JWS_VERIFICATION_KEYS_DIRECTORY", keys.public());
        node
    })
}
