//! The configuration that `upesi init` writes.

use std::path::Path;

/// Its text, for files below `to`.
pub(super) fn text(scheme: &str, to: &Path) -> String {
    let file = |name: &str| format!("{:?}", to.join(name).display().to_string());
    format!(
        r#"# Configuration of the hub of {scheme}. `upesi check-config` explains every setting.

[fspiop]
listen = "0.0.0.0:4000"
# TLS with certificates on both sides. The name in a participant's certificate must equal
# FSPIOP-Source.
tls_certificate_file = {server}
tls_key_file = {server_key}
tls_client_ca_file = {ca}
callers = "certificate"
# Choose it above the busiest second of the largest participant.
participant_rate_max = 2000

[admin]
listen = "127.0.0.1:3001"
auth = "roles"
# Of one address: operators who use one gateway share it.
address_rate_max = 100
address_requests_max = 16
tls_certificate_file = {server}
tls_key_file = {server_key}

[jws]
validate = [
    "participants", "parties", "quotes", "bulkQuotes", "transactionRequests", "authorizations",
    "transactions", "transfers", "bulkTransfers",
]
sign = [
    "participants", "parties", "quotes", "bulkQuotes", "transactionRequests", "authorizations",
    "transactions", "transfers", "bulkTransfers",
]
signing_key = {hub_key}
# Public keys of participants, <fspId>.pem, in addition to those of the admin API.
keys = {keys}

[endpoints]
# Calls to participants over https use the hub's certificate.
tls_certificate_file = {client}
tls_key_file = {client_key}
tls_ca_file = {ca}

[transfers]
expiration_max = "24h"

[chain_heads]
# Better on another machine, or in a bucket of the auditor.
to = {heads}
key = {heads_key}

[logging]
format = "json"
audit_file = {audit}
"#,
        server = file("tls/server.pem"),
        server_key = file("tls/server.key"),
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
    let file = |name: &str| format!("{:?}", to.join(name).display().to_string());
    format!(
        r#"
[enrolment]
# The test authority signs requests of participants (`upesi certificate sign`).
ca_certificate_file = {}
ca_key_file = {}
"#,
        file("tls/ca.pem"),
        file("tls/ca.key"),
    )
}
