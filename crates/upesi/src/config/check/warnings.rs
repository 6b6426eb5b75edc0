//! Dangerous combinations of settings, each with a safer value.

use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;

use crate::config::{Auth, Config, Watchdog};

/// A dangerous combination of settings, and a safer value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Warning {
    pub(super) what: &'static str,
    pub(super) instead: &'static str,
}

/// The warnings about a configuration, in the order of their declaration.
pub(super) fn warnings(config: &Config) -> Vec<Warning> {
    let applying = WARNINGS.iter().filter(|(applies, _)| applies(config));
    applying.map(|(_, warning)| *warning).collect()
}

const MINUTE_MS: u64 = 60_000;
/// Shorter timeouts end requests over a network or of a busy participant too early.
const SHORT_MS: u64 = 1_000;
/// A backup or an alarm that comes later is of little use.
const LATE_SECONDS: u64 = 300;
/// A participant that is down for longer does not recover without intervention.
const WEEK_SECONDS: u64 = 7 * 24 * 3_600;
/// Owed callbacks of one participant that take gigabytes of memory.
const LANE_MANY: u32 = 10_000_000;
/// Minimum number of connections for a gateway.
const CONNECTIONS_FEW: usize = 16;

/// Builds the table: condition, danger, and safer value.
macro_rules! warnings {
    ($config:ident; $($applies:expr => $what:literal, $instead:literal;)*) => {
        &[$((
            |$config: &Config| $applies,
            Warning { what: $what, instead: $instead },
        ),)*]
    };
}

/// A condition and its warning.
type Rule = (fn(&Config) -> bool, Warning);

static WARNINGS: &[Rule] = warnings! { config;
    // Access.
    is_open(config.admin.listen) && config.admin.auth == Auth::None =>
        "admin.auth = \"none\" on an address that other machines can reach: any client can create \
         participants and move funds",
        "admin.auth = \"token\", or admin.listen on 127.0.0.1 with a gateway that authenticates \
         operators";
    is_open(config.admin.listen)
        && config.admin.auth != Auth::None
        && config.admin_tls().is_none() =>
        "admin.listen accepts plain HTTP from other machines: the bearer token can be read on the \
         network",
        "admin.tls_certificate_file, or admin.listen = \"127.0.0.1:3001\" and a gateway";
    is_open(config.fspiop.listen) && !config.identifies_callers() =>
        "fspiop.listen accepts requests from other machines: FSPIOP-Source is trusted unless a \
         gateway sets X-Client-Id",
        "fspiop.callers = \"certificate\" or \"token\"; or \"gateway\" with a gateway that \
         authenticates participants; jws.validate if participants sign";
    is_open(config.fspiop.listen)
        && config.fspiop_issuer().is_some()
        && config.fspiop_tls().is_none() =>
        "fspiop.listen accepts plain HTTP from other machines: access tokens can be read on the \
         network",
        "fspiop.tls_certificate_file, or fspiop.listen on an address that only a gateway with TLS \
         reaches";
    is_open(config.fspiop.listen)
        && config.gateways().is_empty()
        && !config.identifies_callers() =>
        "fspiop.gateways is empty: X-Client-Id is trusted from any address, so a caller that \
         bypasses the gateway can choose its identity",
        "fspiop.gateways = [\"10.0.0.0/8\"] with the addresses that the gateway connects from";
    is_open(config.fspiop.listen)
        && config.fspiop_tls().is_some()
        && !config.endpoints.https_only =>
        "endpoints.https_only is not set: what participants send over TLS is forwarded as plain \
         text to each http:// endpoint",
        "endpoints.https_only = true, unless a gateway on this machine encrypts calls";
    config.jws.allows_unsigned_delete() =>
        "jws.unsigned_delete: directory entries are deleted without the signature that \
         jws.validate requires of all other messages",
        "jws.unsigned_delete = false, unless an SDK cannot sign a DELETE";
    config.alerts.has_plain_webhook() =>
        "alerts.webhook_url is not https: anyone who can read the network to the receiver sees \
         positions and caps",
        "an https:// URL";
    config.alerts.has_plain_relay() =>
        "alerts.smtp_tls = \"none\": anyone who can read the network to the relay sees positions \
         and caps",
        "alerts.smtp_tls = \"starttls\", or a relay on this machine";
    config.kafka.access().is_unencrypted() =>
        "kafka.user without kafka.tls: anyone who can read the network between node and brokers \
         can read every transfer and may take over the connection",
        "kafka.tls = true, and a listener of the brokers with SASL_SSL";
    config.events.access().is_unencrypted() =>
        "events.user without events.tls: anyone who can read the network between node and brokers \
         can read every event and may take over the connection",
        "events.tls = true, and a listener of the brokers with SASL_SSL";

    // Needless refusals, waits and losses.
    cores() < config.threads() =>
        "fspiop.threads is above the number of cores: threads compete for them",
        "fspiop.threads = 0, which uses half of the cores";
    config.transfers.lane_capacity < config.delivery.window =>
        "transfers.lane_capacity is below delivery.window: prepares are refused while callbacks \
         are only in flight",
        "transfers.lane_capacity well above delivery.window (default 50000)";
    config.transfers.expiration_max.is_none() =>
        "transfers.expiration_max is not set: an unanswered transfer may hold the payer's \
         position for years",
        "transfers.expiration_max = \"24h\", or the longest life that the scheme rules allow";
    config.delivery.horizon_seconds < 3_600 =>
        "delivery.horizon_seconds is below an hour: callbacks to a participant that is down for \
         maintenance become dead letters",
        "delivery.horizon_seconds = 86400";
    60_000 < config.delivery.answer_timeout_ms =>
        "delivery.answer_timeout_ms is above a minute: a silent participant occupies its \
         window that long",
        "delivery.answer_timeout_ms = 20000";

    // A slow log.
    config.log.segment_mib < 16 =>
        "log.segment_mib is below 16: at full rate a new segment every second",
        "log.segment_mib = 256";
    config.log.batch_records_max.get() < 256 =>
        "log.batch_records_max is below 256: few records share a sync, so the disk limits the \
         rate",
        "log.batch_records_max = 8192; a batch never waits to become full";
    config.health.watchdog == Watchdog::Exit && config.health.stuck_seconds < 5 =>
        "health.stuck_seconds is below 5 with health.watchdog = \"exit\": a slow disk, or GET \
         /state of a long log, ends the process",
        "health.stuck_seconds = 10";
    config.snapshot.every_records == 0 && config.snapshot.every_mib == 0 =>
        "snapshot.every_records and snapshot.every_mib are 0: the start time grows with \
         every transfer, unless snapshots are requested",
        "snapshot.every_records = 1000000";

    // Limits that are too high.
    MINUTE_MS < config.fspiop.header_timeout_ms =>
        "fspiop.header_timeout_ms is above a minute: clients that never finish their headers hold \
         connections that long",
        "fspiop.header_timeout_ms = 15000";
    MINUTE_MS < config.fspiop.body_timeout_ms =>
        "fspiop.body_timeout_ms is above a minute: clients that never finish a body hold memory \
         that long",
        "fspiop.body_timeout_ms = 15000";
    10 * MINUTE_MS < config.fspiop.idle_timeout_ms =>
        "fspiop.idle_timeout_ms is above ten minutes: abandoned connections count against \
         fspiop.connections_max that long",
        "fspiop.idle_timeout_ms = 75000";
    MINUTE_MS < config.delivery.connect_timeout_ms =>
        "delivery.connect_timeout_ms is above a minute: an unreachable participant \
         occupies its window that long",
        "delivery.connect_timeout_ms = 5000";
    WEEK_SECONDS < config.delivery.horizon_seconds =>
        "delivery.horizon_seconds is above a week: callbacks to a participant that has left \
         stay owed that long and fill its lane",
        "delivery.horizon_seconds = 86400; upesi callback resend resends callbacks";
    15 * MINUTE_MS < config.delivery.backoff_max_ms =>
        "delivery.backoff_max_ms is above 15 minutes: a failed callback arrives up to that \
         long after its participant has recovered",
        "delivery.backoff_max_ms = 300000";
    LANE_MANY < config.transfers.lane_capacity =>
        "transfers.lane_capacity is above 10000000: the callbacks owed to one participant can fill \
         the memory before prepares to it are refused",
        "transfers.lane_capacity = 50000";

    // Timeouts that are too short.
    config.fspiop.header_timeout_ms < SHORT_MS =>
        "fspiop.header_timeout_ms is below a second: clients with retransmitted packets are \
         disconnected",
        "fspiop.header_timeout_ms = 15000";
    config.fspiop.body_timeout_ms < SHORT_MS =>
        "fspiop.body_timeout_ms is below a second: clients with retransmitted packets are \
         disconnected",
        "fspiop.body_timeout_ms = 15000";
    config.fspiop.idle_timeout_ms < SHORT_MS =>
        "fspiop.idle_timeout_ms is below a second: clients reconnect for nearly every \
         message, and a message sent during the close may be lost",
        "fspiop.idle_timeout_ms = 75000";
    config.delivery.connect_timeout_ms < SHORT_MS / 4 =>
        "delivery.connect_timeout_ms is below 250: remote or busy participants count as \
         unreachable",
        "delivery.connect_timeout_ms = 5000";
    config.delivery.answer_timeout_ms < SHORT_MS =>
        "delivery.answer_timeout_ms is below a second: callbacks that a busy participant has \
         accepted are resent, and transfers expire meanwhile",
        "delivery.answer_timeout_ms = 20000";

    // Memory, and reports that come too late.
    fills_memory(config.store.cache_mib << 20) =>
        "store.cache_mib is more than half of this machine's memory: the system may end the \
         process when it fills",
        "store.cache_mib = 32, and 1.3 more for each million of transfers";
    config.backup.to.is_some() && LATE_SECONDS < config.backup.every_seconds =>
        "backup.every_seconds is above five minutes: if the disk fails, records acknowledged since \
         the last copy are lost",
        "backup.every_seconds = 10";
    LATE_SECONDS < config.health.stuck_seconds =>
        "health.stuck_seconds is above five minutes: a stuck stage counts as healthy that long",
        "health.stuck_seconds = 10";
    config.delivery.window < 4 =>
        "delivery.window is below 4: callbacks to a participant wait for answers to others, and \
         its rate is that of its round trips",
        "delivery.window = 64";

    // Networks and funds.
    config.connections().per_address < CONNECTIONS_FEW =>
        "fspiop.connections_per_address_max, or half of fspiop.connections_max, is below 16: a \
         gateway connects all participants from one address, and they are refused",
        "fspiop.connections_per_address_max = 0, fspiop.connections_max = 8192";
    is_open(config.fspiop.listen) && config.reach(Vec::new()).names_loopback() =>
        "endpoints.networks allows loopback addresses, and fspiop.listen accepts requests from \
         other machines: an endpoint can make the hub call local services",
        "endpoints.networks without 127.0.0.0/8 and ::1, outside of tests";
    config.reach(Vec::new()).is_closed() =>
        "endpoints.denied_networks, or addresses that are never called, contain all of \
         endpoints.networks: every callback becomes a dead letter",
        "endpoints.denied_networks inside endpoints.networks, to exclude parts";
    !config.transfers.funds_out_covers_position =>
        "transfers.funds_out_covers_position = false: a participant can withdraw the cover of \
         its position",
        "transfers.funds_out_covers_position = true";

    // Missing directories and features.
    is_missing(&config.archive.to) =>
        "archive.to names a directory that does not exist: no segment is archived, and the disk of \
         the log fills up",
        "an existing directory, mounted before the switch starts";
    is_missing(&config.backup.to) =>
        "backup.to names a directory that does not exist: there is no backup",
        "an existing directory, mounted before the switch starts";
    is_missing(&config.chain_heads.to) =>
        "chain_heads.to names a directory that does not exist: no chain head is published",
        "an existing directory, mounted before the switch starts";
    config.kafka.tls && !cfg!(feature = "kafka-tls") =>
        "kafka.tls = true, but this binary was built without TLS: a start with --log is refused",
        "a build with `cargo build --profile dist --features kafka-tls`";
};

/// Whether other machines can reach an address.
fn is_open(address: SocketAddr) -> bool {
    !address.ip().is_loopback()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Whether a size is more than half of this machine's memory, if that is known.
fn fills_memory(bytes: u64) -> bool {
    let memory = harness::Origin::here(None).environment.memory_bytes;
    0 < memory && memory / 2 < bytes
}

/// Whether a URL names a directory that does not exist.
fn is_missing(url: &Option<String>) -> bool {
    let path = url.as_deref().and_then(|url| url.strip_prefix("file://"));
    path.is_some_and(|path| !Path::new(path).is_dir())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Settings of a hub on loopback with a limit on expirations, and the start of each warning.
    const CASES: &str = r#"
        |
        fspiop.listen = "0.0.0.0:4000" | fspiop.listen accepts | fspiop.gateways is empty
        fspiop.listen = "0.0.0.0:4000"; fspiop.callers = "token"; \
            fspiop.token_issuer = "https://idp.example" | fspiop.listen accepts plain HTTP
        fspiop.threads = 64 | fspiop.threads is above
        fspiop.header_timeout_ms = 3600000 | fspiop.header_timeout_ms is above
        fspiop.header_timeout_ms = 1 | fspiop.header_timeout_ms is below
        fspiop.body_timeout_ms = 3600000 | fspiop.body_timeout_ms is above
        fspiop.body_timeout_ms = 1 | fspiop.body_timeout_ms is below
        fspiop.idle_timeout_ms = 3600000 | fspiop.idle_timeout_ms is above
        fspiop.idle_timeout_ms = 1 | fspiop.idle_timeout_ms is below
        fspiop.connections_max = 30 | fspiop.connections_per_address_max
        fspiop.connections_per_address_max = 1 | fspiop.connections_per_address_max
        fspiop.listen = "0.0.0.0:4000"; fspiop.callers = "certificate"; \
            fspiop.tls_certificate_file = "a"; fspiop.tls_key_file = "b"; \
            fspiop.tls_client_ca_file = "c" | endpoints.https_only
        fspiop.listen = "0.0.0.0:4000"; fspiop.callers = "certificate"; \
            fspiop.tls_certificate_file = "a"; fspiop.tls_key_file = "b"; \
            fspiop.tls_client_ca_file = "c"; endpoints.https_only = true |
        admin.listen = "0.0.0.0:3001" | admin.listen accepts
        admin.listen = "0.0.0.0:3001"; admin.auth = "none" | admin.auth = "none"
        transfers.funds_out_covers_position = false | transfers.funds_out_covers_position = false
        transfers.lane_capacity = 9 | transfers.lane_capacity is below
        transfers.lane_capacity = 4000000000 | transfers.lane_capacity is above
        delivery.window = 1 | delivery.window is below 4
        delivery.horizon_seconds = 60 | delivery.horizon_seconds is below
        delivery.horizon_seconds = 2592000 | delivery.horizon_seconds is above
        delivery.backoff_max_ms = 3600000 | delivery.backoff_max_ms is above
        delivery.connect_timeout_ms = 3600000 | delivery.connect_timeout_ms is above
        delivery.connect_timeout_ms = 1 | delivery.connect_timeout_ms is below
        delivery.answer_timeout_ms = 3600000 | delivery.answer_timeout_ms is above
        delivery.answer_timeout_ms = 1 | delivery.answer_timeout_ms is below
        endpoints.networks = ["10.0.0.0/8"]; endpoints.denied_networks = ["10.1.0.0/16"] |
        endpoints.networks = ["127.0.0.0/8", "10.0.0.0/8"] |
        endpoints.networks = ["169.254.0.0/16"] | endpoints.denied_networks, or addresses
        endpoints.networks = ["10.1.0.0/16"]; endpoints.denied_networks = ["10.0.0.0/8"] \
            | endpoints.denied_networks, or addresses
        fspiop.listen = "0.0.0.0:0"; endpoints.networks = ["127.0.0.0/8", "10.0.0.0/8"] \
            | fspiop.listen accepts | fspiop.gateways is | endpoints.networks allows loopback
        jws.validate = ["participants"]; jws.unsigned_delete = true | jws.unsigned_delete
        log.segment_mib = 1 | log.segment_mib is below
        log.batch_records_max = 50 | log.batch_records_max is below
        alerts.webhook_url = "http://127.0.0.1:9/"; alerts.webhook_secret_file = "s" |
        alerts.webhook_url = "https://a.example/"; alerts.webhook_secret_file = "s" |
        alerts.webhook_url = "http://a.example/"; alerts.webhook_secret_file = "s" \
            | alerts.webhook_url is not https
        alerts.smtp_relay = "[::1]:25"; alerts.mail_from = "a@b"; alerts.smtp_tls = "none" |
        alerts.smtp_relay = "m.example:25"; alerts.mail_from = "a@b" |
        alerts.smtp_relay = "m.example:25"; alerts.mail_from = "a@b"; alerts.smtp_tls = "none" \
            | alerts.smtp_tls = "none"
        kafka.user = "hub"; kafka.password_file = "secret" | kafka.user without kafka.tls
        events.user = "hub"; events.password_file = "secret" | events.user without events.tls
        health.stuck_seconds = 2 |
        health.stuck_seconds = 2; health.watchdog = "exit" | health.stuck_seconds is below
        health.stuck_seconds = 3600 | health.stuck_seconds is above
        snapshot.every_records = 0 |
        snapshot.every_records = 0; snapshot.every_mib = 0 | snapshot.every_records and
        store.cache_mib = 10000000 | store.cache_mib is more than half
        archive.to = "file:///missing/directory" | archive.to names
        backup.to = "file:///missing/directory" | backup.to names
        chain_heads.to = "file:///missing/directory" | chain_heads.to names
        backup.to = "file:///tmp"; backup.every_seconds = 3600 | backup.every_seconds is above
    "#;

    #[test]
    fn each_warning_applies_to_its_settings_only() {
        let no_tls = "kafka.tls = true | kafka.tls = true, but this binary was built without TLS";
        let no_tls = if cfg!(feature = "kafka-tls") { "" } else { no_tls };
        let text = CASES.replace("\\\n", "");
        let cases = text.lines().chain([no_tls]).filter(|line| !line.trim().is_empty());
        let mut seen: BTreeSet<_> = warned("").iter().map(|warning| warning.what).collect();
        for case in cases {
            let (settings, wanted) = case.split_once('|').expect("settings and warnings");
            let mut text = settings.replace("; ", "\n");
            for set in ["fspiop.listen = \"127.0.0.1:0\"", "transfers.expiration_max = \"24h\""] {
                let (name, _) = set.split_once(" =").expect("a setting");
                if !text.contains(name) {
                    text = format!("{text}\n{set}");
                }
            }
            let found = warned(&text);
            let begins: Vec<_> =
                wanted.split('|').map(str::trim).filter(|it| !it.is_empty()).collect();
            assert_eq!(found.len(), begins.len(), "{case}: {found:?}");
            for (warning, begin) in found.iter().zip(begins) {
                assert!(warning.what.starts_with(begin), "{case}: {warning:?}");
                seen.insert(warning.what);
            }
        }
        let unseen: Vec<_> = WARNINGS.iter().filter(|(_, it)| !seen.contains(it.what)).collect();
        assert_eq!(
            unseen.len(),
            usize::from(cfg!(feature = "kafka-tls")),
            "a case for each warning"
        );
    }

    fn warned(text: &str) -> Vec<Warning> {
        warnings(&toml::from_str(text).expect("a good file"))
    }
}
