//! The configuration that `upesi init` writes.

use std::path::Path;

/// Its text, for files below `to`. `names` are those of the admin API apart from this machine's.
/// With `is_local`, participants on this machine are called: the hub calls loopback addresses only
/// if it listens on one.
pub(super) fn text(scheme: &str, to: &Path, names: &[&str], is_local: bool) -> String {
    let hosts = if names.is_empty() { String::new() } else { format!("hosts = {names:?}\n") };
    let listen = if is_local { "127.0.0.1" } else { "0.0.0.0" };
    let supervision = if is_local { "" } else { SUPERVISION };
    listeners(scheme, to, listen, &hosts) + &messages(to) + supervision
}

/// A trial on one machine has no supervisor.
const SUPERVISION: &str = r#"
[health]
# A process with a stuck stage exits with code 70, and its supervisor restarts it, as
# deploy/systemd/upesi.service does. Without a supervisor choose "report".
watchdog = "exit"
"#;

/// A path below `to`, in quotes.
fn quoted(to: &Path, name: &str) -> String {
    format!("{:?}", to.join(name).display().to_string())
}

fn listeners(scheme: &str, to: &Path, listen: &str, hosts: &str) -> String {
    let file = |name: &str| quoted(to, name);
    format!(
        r#"# Configuration of the hub of {scheme}. `upesi check-config` explains every setting.

[fspiop]
listen = "{listen}:4000"
# TLS with certificates on both sides; FSPIOP-Source must be a name in the certificate.
tls_certificate_file = {server}
tls_key_file = {server_key}
tls_client_ca_file = {ca}
callers = "certificate"
# Choose it above the busiest second of the largest participant.
participant_rate_max = 2000
participant_requests_max = 1000
refusals_per_address = 500

[admin]
listen = "127.0.0.1:3001"
auth = "roles"
{hosts}# Of one address: operators who use one gateway share it.
address_rate_max = 100
address_requests_max = 16
tls_certificate_file = {server}
tls_key_file = {server_key}
"#,
        server = file("tls/server.pem"),
        server_key = file("tls/server.key"),
        ca = file("tls/ca.pem"),
    )
}

/// The settings of signatures, of calls to participants, and of records.
fn messages(to: &Path) -> String {
    let file = |name: &str| quoted(to, name);
    format!(
        r#"
[jws]
validate = [
    "participants", "parties", "quotes", "bulkQuotes", "transactionRequests", "authorizations",
    "transactions", "transfers", "bulkTransfers",
]
sign = [
    "participants", "parties", "quotes", "bulkQuotes", "transactionRequests", "authorizations",
    "transactions", "transfers", "bulkTransfers", "services",
]
signing_key = {hub_key}
# Public keys of participants, <fspId>.pem, in addition to those of the admin API.
keys = {keys}

[endpoints]
# Participants and oracles are called over https, with the hub's certificate.
https_only = true
tls_certificate_file = {client}
tls_key_file = {client_key}
tls_ca_file = {ca}

[encryption]
# Without this file, nothing in the data directory can be read: keep a copy apart from all copies of
# the data. Better, the key is in a vault or a token (docs/security/encryption.md).
key = {master}

[transfers]
expiration_max = "24h"

[chain_heads]
# Better in a bucket of the auditor.
to = {heads}
key = {heads_key}

[logging]
format = "json"
audit_file = {audit}
"#,
        master = format_args!("{:?}", format!("file:{}", to.join("master.key").display())),
        client = file("tls/client.pem"),
        client_key = file("tls/client.key"),
        ca = file("tls/ca.pem"),
        hub_key = file("jws/hub.key"),
        keys = file("jws/participants"),
        heads = format_args!("{:?}", format!("file://{}", to.join("chain-heads").display())),
        heads_key = file("jws/chain-heads.key"),
        audit = file("audit.log"),
    )
}

/// The section of the test authority, which signs requests of participants.
pub(super) fn enrolment(to: &Path) -> String {
    format!(
        r#"
[enrolment]
# The test authority signs requests of participants (`upesi certificate sign`).
ca_certificate_file = {}
ca_key_file = {}
"#,
        quoted(to, "tls/ca.pem"),
        quoted(to, "tls/ca.key"),
    )
}
