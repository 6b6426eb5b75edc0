//! The settings of the configuration file, each declared once.
//!
//! The table of `docs/configuration.md` is generated from them by a test with `UPDATE_EXPECT=1`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use events::EventKind;
use record::frame::FRAME_RECORDS_MAX;
use serde::{Deserialize, Serialize};
use switch::{ConnectionLimits, PoolLimits};

use crate::config::table::{Bounds, Number, Setting, TakesEffect, settings};
use crate::config::values::{
    AuditedReads, Auth, Callers, CertificateName, Envelope, EventStart, KindName, LogFormat,
    LogLevels, Mechanism, MojaloopNames, NetworkEntry, Ownership, PairText, ParticipantName,
    ProbeListener, Ratio, Resource, SampledFlag, SmtpTls, TimeSpan, TlsVersion, TraceProtocol,
    Watchdog,
};

const HOUR_MS: u64 = 3_600_000;
const DAY_SECONDS: u64 = 24 * 3_600;
/// 30 days: an older callback is useless.
const MONTH_SECONDS: u64 = 30 * 24 * 3_600;
const BATCH_RECORDS: NonZeroU32 = NonZeroU32::new(FRAME_RECORDS_MAX).expect("a frame has records");

fn connections() -> ConnectionLimits {
    ConnectionLimits::default()
}

fn kernel() -> ledger::Settings {
    ledger::Settings::default()
}

fn policy() -> delivery::Policy {
    delivery::Policy::default()
}

const fn milliseconds(span: Duration) -> u64 {
    span.as_millis() as u64
}

settings! {
    /// The listener for participants.
    fspiop: Fspiop {
        /// Address for participants. Port 0 selects a free one
        listen: SocketAddr = SocketAddr::from(([0, 0, 0, 0], 4000));
        /// I/O threads; 0 means half of the cores, rounded up
        threads: usize = 0, ..=64;
        /// Further I/O threads that help busy ones, at most `threads`; by default one for each, as
        /// far as there are cores
        helper_threads: Option<usize> = None, ..=64;
        /// Load of an I/O thread from which it leaves work to a helper thread, in percent; 0 means
        /// always
        busy_percent: u32 = 90, ..=100;
        /// Client connections per thread. At the limit a new connection replaces an idle one. If
        /// none is idle, it is refused with 503 and closed
        connections_max: usize = connections().total, 1..;
        /// Connections per thread from one address; 0 means half of `connections_max`. See
        /// [internals/edge.md](internals/edge.md)
        connections_per_address_max: usize = 0;
        /// Requests per second of one participant, over all its connections; 0 for no limit. Those
        /// of one second may come at once after a pause. Beyond it a request is refused with 429,
        /// 2003 and `Retry-After`. Each further row or item of a batch, and each further 4 KiB of
        /// a body, counts as one more; each 4 KiB as nine if the signature does not cover the body
        /// as sent
        participant_rate_max: u32 = 0;
        /// Requests of one participant that are being received or answered at a time; 0 for no
        /// limit. Beyond it a request is refused with 429, 2003
        participant_requests_max: u32 = 0;
        /// Networks that gateways connect from, such as `["10.0.0.0/8"]`. From any other address
        /// `X-Client-Id` is ignored, and with `callers = "gateway"` each request is refused. Empty:
        /// `X-Client-Id` is accepted from all addresses. It is neither forwarded nor stored in
        /// either case
        gateways: Vec<NetworkEntry> = Vec::new();
        /// Time limit from the first byte of a request to the end of its headers, and from a new
        /// connection to its first byte
        header_timeout_ms: u64 = milliseconds(connections().head), 1..=HOUR_MS;
        /// Time limit for a whole body
        body_timeout_ms: u64 = milliseconds(connections().body), 1..=HOUR_MS;
        /// Time after which a connection without a request is closed
        idle_timeout_ms: u64 = milliseconds(connections().idle), 1..=HOUR_MS;
        /// PEM file with the certificate of this listener, then those of its issuers without the
        /// root. With it, the listener speaks TLS only; without it, plain HTTP. All files of
        /// `fspiop.tls_...` are read again on SIGHUP and once a minute, without closing a
        /// connection. See [TLS](security/tls.md)
        tls_certificate_file: Option<PathBuf> = None => Reload;
        /// PEM file with the private key of the certificate, without a password, not readable by
        /// others
        tls_key_file: Option<PathBuf> = None => Reload;
        /// PEM file with the authorities of client certificates. With it, a client without a
        /// valid certificate is refused during the handshake
        tls_client_ca_file: Option<PathBuf> = None => Reload;
        /// PEM file with revocation lists, one of each authority that issues certificates of
        /// clients and of the authorities below a root. A certificate that no list covers is
        /// refused
        tls_crl_file: Option<PathBuf> = None => Reload;
        /// DER file with an OCSP response about the certificate, which clients get with it
        tls_ocsp_file: Option<PathBuf> = None => Reload;
        /// The lowest version of TLS: `"1.3"` or `"1.2"`
        tls_version_min: TlsVersion = TlsVersion::Tls13;
        /// Full TLS handshakes of one address, or of one /64 network for IPv6, per second and
        /// thread; 0 for no limit. Those of one second may come at once after a pause, and resumed
        /// sessions do not count. Beyond it a connection is closed before its handshake
        tls_handshakes_per_address: u32 = 500, ..=100_000;
        /// Refused requests of one address, or of one /64 network for IPv6, per second and thread
        /// that are answered at once, with those for `/health`; 0 for no limit. Beyond, each
        /// response on a connection comes a second after the one before. Accepted requests do not
        /// wait
        refusals_per_address: u32 = 0, ..=1_000_000;
        /// How the sender of a request is known. `"anyone"`: `FSPIOP-Source` is believed.
        /// `"certificate"`: it must be a name in the client's certificate. `"token"`: it must be
        /// the name in the request's access token. `"gateway"`: it must be the name in
        /// `gateway_header`, and the client one of `gateways`. It must also be a participant.
        /// Otherwise the request is refused with 401 or 403, 3000 before its body is read. See
        /// [who calls](security/tls.md#who-calls)
        callers: Callers = Callers::Anyone;
        /// Fields of the certificate that may contain the name: `"cn"` (common name of the subject,
        /// if there is one), `"san_dns"`, `"san_uri"`
        certificate_names: Vec<CertificateName> = CertificateName::ALL.to_vec();
        /// The form of these fields, with `{fsp}` for the participant's name, such as
        /// `"{fsp}.dfsp.example"`
        certificate_pattern: String = "{fsp}".into();
        /// Issuer of access tokens: the value of their claim `iss`
        token_issuer: Option<String> = None;
        /// Value of the tokens' claim `aud`, or one of its values
        token_audience: Option<String> = None;
        /// URL of the issuer's key set (JWKS), `https://`, or `http://` to a loopback address.
        /// Unset, its URL is read from the metadata of `token_issuer`. Read every 10 minutes, and
        /// when a token has an unknown key
        token_keys_url: Option<String> = None;
        /// File with the key set instead of a URL, read once a minute
        token_keys_file: Option<PathBuf> = None => Reload;
        /// PEM file with the authorities of the issuer's certificate; unset, the system's
        token_ca_file: Option<PathBuf> = None;
        /// Scopes that a token must have, all of them
        token_scopes: Vec<String> = Vec::new();
        /// Claims of a token with the participant's name; the first one that it has counts
        token_claims: Vec<String> = vec!["client_id".into(), "sub".into()];
        /// The form of this claim, with `{fsp}` for the participant's name
        token_pattern: String = "{fsp}".into();
        /// Header with the name that a gateway authenticated. `X-Forwarded-Client-Cert` is read as
        /// Envoy writes it, with the fields of `certificate_names`. The header is neither forwarded
        /// nor stored
        gateway_header: String = "X-Client-Name".into();
        /// The form of the name in this header, with `{fsp}` for the participant's name
        gateway_pattern: String = "{fsp}".into();
    }

    /// The listener for operators.
    admin: Admin {
        /// Address for operators
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 3001));
        /// `"token"`: a change needs the bearer token in `admin-token` in the data directory, and
        /// so do `GET /state`, `GET /transactions/{id}`, `GET /parties/{Type}/{ID}`, `GET
        /// /participants/{Type}/{ID}`, `GET /participants/{name}/statement`, `GET /transfers`, `GET
        /// /transfers/{transferId}/explanation`, `GET /transfers/{transferId}/messages`,
        /// `GET /traces/{traceId}`, `GET /erasures`, `GET /erasures/plan`, `GET
        /// /erasures/retention`,
        /// `GET /configuration`, `GET /operators`,
        /// `GET /operators/{name}`, `GET /roles`, `GET /roles/{role}`, `GET /tokens`,
        /// `GET /identity`, `GET /fourEyes`, `GET /proposals`, `GET /proposals/{id}`,
        /// `GET /events`, `GET /audit`, `GET /audit/{logIndex}`,
        /// `GET /api/dfsps/{dfspId}/enrollments/inbound` and
        /// `GET /api/dfsps/{dfspId}/enrollments/inbound/{enId}`.
        /// `"roles"`: every request needs a token of an operator and the permission of its route
        /// ([operators](security/operators.md)); the token in `admin-token` is for emergencies.
        /// `"none"`: every client that reaches the port may change everything
        auth: Auth = Auth::Token;
        /// File with the token, instead of `admin-token` in the data directory, for example a
        /// mounted secret. It must exist at the start and be readable by owner and group only. New
        /// content takes effect with the next request
        token_file: Option<PathBuf> = None => Reload;
        /// Time for which a proposed change can be approved ([four
        /// eyes](security/four-eyes.md)), at most 30 days
        proposal_seconds: u64 = DAY_SECONDS, 1..=MONTH_SECONDS;
        /// Requests per second of one address, or of one /64 network for IPv6. One more gets 429. A
        /// pause lets at most one second's requests come at once. Probes have a listener of their
        /// own. 0: no limit
        address_rate_max: u32 = 0;
        /// Requests of one address that are received or answered at a time. One more gets 429. 0:
        /// no limit
        address_requests_max: u32 = 0;
        /// The reads that are recorded in the log: `"sensitive"` (those that need another
        /// permission than `read`), `"all"` or `"none"`; never `/metrics`, `/health` and `/state`.
        /// Changes and refused requests are always recorded ([audit](security/audit.md))
        audit_reads: AuditedReads = AuditedReads::Sensitive;
        /// File with the key of sessions and second factors, instead of `admin-secrets-key` in the
        /// data directory; with `auth = "roles"` only. All nodes of a cluster need the same one
        secrets_key_file: Option<PathBuf> = None;
        /// Issuer of an OpenID provider whose access tokens are accepted; with `auth = "roles"`
        /// only. Its keys are read as those of `fspiop.token_issuer`
        oidc_issuer: Option<String> = None;
        /// Value of the tokens' claim `aud`, or one of its values
        oidc_audience: Option<String> = None;
        /// PEM file with the authorities of the provider's certificate; unset, the system's
        oidc_ca_file: Option<PathBuf> = None;
        /// Claims with the operator's name; the first one that a token has counts. A person must
        /// not be able to change it at the provider
        oidc_names: Vec<String> = vec!["preferred_username".into(), "sub".into()];
        /// Claim with groups or roles of the provider, such as `"realm_access.roles"`
        oidc_claim: String = "groups".into();
        /// Roles that values of this claim grant, such as `["hub-operators=operator"]`
        oidc_roles: Vec<String> = Vec::new();
        /// Name of the console's client at the provider: a public client with authorization codes
        /// and PKCE, whose redirect address is that of the console, such as
        /// `https://hub.example:3001/console/`. Unset, the console offers no login there
        oidc_client_id: Option<String> = None;
        /// Scopes that the console requests, with spaces between them; one must be `openid`
        oidc_scope: String = "openid".into();
        /// Names, without port, that the `Host` header may have. The names of the loopback
        /// interface and the address of the connection are always allowed
        hosts: Vec<String> = Vec::new();
        /// Origins that browsers may call from, such as `https://console.example`
        origins: Vec<String> = Vec::new();
        /// PEM file with the certificate of this listener, then those of its issuers without the
        /// root. With it, the listener speaks TLS only; without it, plain HTTP. All files of
        /// `admin.tls_...` are read again on SIGHUP and once a minute, without closing a
        /// connection. See [TLS](security/tls.md)
        tls_certificate_file: Option<PathBuf> = None => Reload;
        /// PEM file with the private key of the certificate, without a password, not readable by
        /// others
        tls_key_file: Option<PathBuf> = None => Reload;
        /// PEM file with the authorities of client certificates. With it, a client without a
        /// valid certificate is refused during the handshake; a token is needed as well
        tls_client_ca_file: Option<PathBuf> = None => Reload;
        /// PEM file with revocation lists, one of each authority that issues certificates of
        /// clients and of the authorities below a root. A certificate that no list covers is
        /// refused
        tls_crl_file: Option<PathBuf> = None => Reload;
        /// DER file with an OCSP response about the certificate, which clients get with it
        tls_ocsp_file: Option<PathBuf> = None => Reload;
        /// The lowest version of TLS: `"1.3"` or `"1.2"`
        tls_version_min: TlsVersion = TlsVersion::Tls13;
    }

    /// The identity of the hub.
    hub: Hub {
        /// The hub's own participant name, 2 to 32 bytes. Fixed by the first record of the log: a
        /// start with another name fails
        name: String = "Hub".into() => Never;
    }

    /// Scheme rules for transfers.
    transfers: Transfers {
        /// Notify the payee of the result after it fulfils with COMMITTED or aborts
        confirm_to_payee: bool = kernel().confirm_to_payee => Log;
        /// Allow transfers whose payer and payee are the same FSP
        on_us: bool = kernel().on_us_transfers => Log;
        /// `PUT /transfers/{id}` with ABORTED aborts the transfer. If `false`, it is ignored, as in
        /// the reference, and the transfer times out
        put_aborted_aborts: bool = kernel().put_aborted_aborts => Log;
        /// Funds out are limited to the liquidity cover less the position. `false` is the
        /// reference's rule: limited to the cover alone
        funds_out_covers_position: bool = kernel().funds_out_covers_position => Log;
        /// Callbacks owed to one participant. At the limit a new transfer to it is refused with
        /// 2003
        lane_capacity: u32 = kernel().lane_capacity, 1.. => Log;
        /// The longest time until a new transfer may expire, by the hub's clock, at least `"1s"`:
        /// `"90s"`, `"15m"`, `"24h"`, `"30d"`. A later `expiration` is refused with 400, 3100, and
        /// nothing is recorded. A resent transfer that was accepted under a higher limit is
        /// answered as before. Unset, there is no limit, and an unanswered transfer holds the
        /// payer's position until it expires. Set the same limit on all nodes of a cluster
        expiration_max: Option<TimeSpan> = None;
        /// Items of one bulk transfer. A bulk with more is refused with 400, 3100, and nothing is
        /// recorded. Its body has at most 5 MiB. Set the same limit on all nodes of a cluster
        bulk_items_max: u32 = 1_000, 1..=10_000;
    }

    /// Scheme rules for the party directory.
    parties: Parties {
        /// The FSPs that may register an identifier. `"owner-only"`: the FSP that has it, for
        /// itself, and operators; others are refused by callback until it is released.
        /// `"owner-per-currency"`: another FSP may register itself in another currency.
        /// `"latest-wins"`: every FSP, for any FSP; the latest registration counts, as in the
        /// reference. See [parties](parties.md#owners)
        ownership: Ownership = Ownership::OwnerOnly;
    }

    /// Quotes. See [quotes](quotes.md).
    quotes: Quotes {
        /// Whether quotes, their answers and their errors are recorded: duplicates are recognised,
        /// late answers are refused, and `GET /quotes/{ID}` is answered by the hub. Transaction
        /// requests too. `false`: they are forwarded, and nothing is stored. Set the same on all
        /// nodes of a cluster
        persist: bool = false;
        /// Time for which a recorded quote is kept in memory, from its request on. The log keeps
        /// all of them
        keep_seconds: u64 = 3_600, 60..=86_400;
        /// Whether a transfer must agree with a quote of its transaction: the `transactionId` is
        /// the `transferId`, and the amount, the ILP packet, the condition, payer and payee are
        /// those of an offer that has not ended. Needs `persist`. Bulk transfers are not compared
        bind_transfers: bool = false;
        /// File with rules that refuse quotes or send them to another FSP, in the form of the
        /// reference. None: no rules. See [quotes](quotes.md#rules-of-a-scheme)
        rules_file: Option<PathBuf> = None;
    }

    /// Services of participants that the hub names on request.
    services: Services {
        /// The participants that convert currencies, with their pairs:
        /// `{ fxp1 = ["USD/KES", "KES/USD"] }`. `GET /services/FXP` is answered with the active
        /// ones, and `GET /services/FXP/USD/KES` with those of this pair. Each node answers from
        /// its own file
        fxp: BTreeMap<ParticipantName, Vec<PairText>> = BTreeMap::new();
    }

    /// External oracles, which know the FSPs of identifiers. See [parties](parties.md#oracles).
    oracles: Oracles {
        /// Whether registered oracles are called. `false`: they are only listed, and the hub's own
        /// directory has all identifiers
        call: bool = true;
        /// Time to connect to an oracle
        connect_timeout_ms: u64 = 2_000, 1..=60_000;
        /// Time for its complete response
        answer_timeout_ms: u64 = 5_000, 1..=60_000;
        /// Calls to oracles in flight per I/O thread. Beyond, a look-up is refused with 503 unless
        /// the cache has its answer
        calls: u32 = 1_000, 1..=65_536;
        /// Time for which an oracle's answer is used again; 0 for never. A change through this
        /// switch ends it
        cache_seconds: u64 = 30, 0..=86_400;
        /// The same for the answer that no FSP serves the identifier
        negative_cache_seconds: u64 = 5, 0..=86_400;
        /// Answers that are kept; the oldest is dropped first
        cache_entries: u32 = 100_000, 0..=10_000_000;
    }

    /// The oracle API, with which other hubs use this hub's party directory. See
    /// [parties](parties.md#the-oracle-api).
    oracle_api: OracleApi {
        /// Address of the oracle API; unset, there is no listener. A client needs no token: it
        /// reads personal data and may register and release parties. Only other hubs may reach it.
        /// Certificates, hosts and limits of requests are those of `[admin]`
        listen: Option<SocketAddr> = None;
    }

    /// How callbacks are delivered.
    delivery: Delivery {
        /// Per participant: callbacks in flight, or delivered but not yet durably recorded as
        /// delivered. At most this number is repeated after a crash
        window: u32 = policy().window, 1..=65_536;
        /// How long a callback is retried, counted from its creation, restarts included. After that
        /// it becomes a dead letter, or is given up if its loss costs nothing
        /// ([internals/delivery.md](internals/delivery.md#how-deliveries-end))
        horizon_seconds: u64 = policy().horizon_micros / 1_000_000, 1..=MONTH_SECONDS;
        /// Pause after the first failure of a callback. It doubles with each failure, and its upper
        /// half is random; 1 to `backoff_max_ms`
        backoff_base_ms: u64 = policy().backoff_base_micros / 1_000;
        /// Longest pause between two attempts of one callback, and longest pause that a participant
        /// can ask for with `Retry-After`
        backoff_max_ms: u64 = policy().backoff_max_micros / 1_000, 1..=HOUR_MS;
        /// Time limit for connecting to a participant
        connect_timeout_ms: u64 = milliseconds(PoolLimits::default().connect), 1..=HOUR_MS;
        /// Time limit from sending a callback to the end of its answer
        answer_timeout_ms: u64 = milliseconds(PoolLimits::default().answer), 1..=HOUR_MS;
    }

    /// The addresses that the hub may call.
    endpoints: Endpoints {
        /// Networks, such as `"10.0.0.0/8"`, in which participants and oracles may be called; empty
        /// for all but loopback addresses. Loopback addresses are allowed if a network inside
        /// `127.0.0.0/8`, or `::1`, is listed, or if the list is empty and `fspiop.listen` is a
        /// loopback address. Link-local, metadata, group and unspecified addresses and the hub's
        /// own listeners are never called. See [internals/edge.md](internals/edge.md)
        networks: Vec<NetworkEntry> = Vec::new();
        /// Networks that are never called, even inside those above
        denied_networks: Vec<NetworkEntry> = Vec::new();
        /// Ports that may be called; empty for all
        ports: Vec<u16> = Vec::new();
        /// Participants and oracles are called over `https://` only. An `http://` endpoint is
        /// refused at its registration, and one that was registered before is not called
        https_only: bool = false;
        /// PEM file with the certificate that the hub presents to `https://` endpoints, then those
        /// of its issuers without the root. All files of `endpoints.tls_...` are read again on
        /// SIGHUP and once a minute, for new connections. See [TLS](security/tls.md)
        tls_certificate_file: Option<PathBuf> = None => Reload;
        /// PEM file with its private key, without a password, not readable by others
        tls_key_file: Option<PathBuf> = None => Reload;
        /// PEM file with the authorities of participants' server certificates; unset, the system's
        tls_ca_file: Option<PathBuf> = None => Reload;
        /// Directory of PEM files `<fspId>.pem`: the only authorities of this participant's server
        /// certificates, instead of `endpoints.tls_ca_file`
        tls_ca_directory: Option<PathBuf> = None => Reload;
        /// PEM file with revocation lists, one of each authority of participants' server
        /// certificates and of the authorities below a root. An endpoint with a revoked
        /// certificate, or with one that no list covers, is not called
        tls_crl_file: Option<PathBuf> = None => Reload;
        /// The lowest version of TLS: `"1.3"` or `"1.2"`
        tls_version_min: TlsVersion = TlsVersion::Tls13;
        /// Offer HTTP/2 to `https://` endpoints by ALPN; each participant's server chooses. `false`
        /// for HTTP/1.1 only. See [TLS](security/tls.md#calls-to-participants)
        http2: bool = true;
    }

    /// Signatures of messages.
    jws: Jws {
        /// Resources (`"participants"`, `"parties"`, `"quotes"`, `"bulkQuotes"`,
        /// `"transactionRequests"`, `"authorizations"`, `"transactions"`, `"transfers"`,
        /// `"bulkTransfers"`, `"services"`) whose messages are refused with 400, 3105 unless their
        /// signature is valid. A DELETE signs its empty body, or `{}`. GET is never validated. The
        /// reference's setting for `PUT /parties` corresponds to `"parties"`
        validate: Vec<Resource> = Vec::new();
        /// Accept a DELETE without a signature although its resource is in `jws.validate`, for SDKs
        /// that sign only messages with a body. Every client that can send in a participant's name
        /// can then delete entries of the directory. A signature that is present must be valid
        unsigned_delete: bool = false;
        /// Resources whose messages the hub signs if it creates them itself; needs
        /// `jws.signing_key`
        sign: Vec<Resource> = Vec::new();
        /// Directory of participants' public keys: PEM files `<fspId>.pem` and
        /// `<fspId>.<number>.pem`, public key or certificate, RSA of 2,048 to 8,192 bits or P-256.
        /// They are valid in addition to the keys of the admin API. An invalid file prevents the
        /// start
        keys: Option<PathBuf> = None => Reload;
        /// The hub's private key: a PEM file that others may not read. RSA signs RS256, P-256 signs
        /// ES256. Blocks `PUBLIC KEY` after it are only published, by
        /// `GET /participants/{hub}/keys`: the next and the former key
        /// ([security/tls.md](security/tls.md#change-the-key-of-the-hubs-signatures)). A changed
        /// file is read within a minute
        signing_key: Option<PathBuf> = None => Reload;
        /// Threads that sign; 0 means half of the cores, rounded up
        signing_threads: usize = 0, ..=64;
    }

    /// The log.
    log: Log {
        /// Size of a log segment
        segment_mib: u64 = 256, 1..=4_096;
        /// Maximum number of records in one batch, and so per sync. A batch never waits to become
        /// full. A lower number only costs syncs and is meant for measurements
        batch_records_max: NonZeroU32 = BATCH_RECORDS, 1..=FRAME_RECORDS_MAX.into();
    }

    /// TLS and authentication between node and brokers. The default is plain text.
    kafka: Kafka {
        /// With `--log`: use TLS to the brokers. Their certificates must contain the names in
        /// `--log`. Needs a build with `--features kafka-tls`, as do the six settings below;
        /// otherwise the start fails. See
        /// [installation](operating/install.md#tls-and-authentication-with-brokers)
        tls: bool = false;
        /// PEM file with the CA certificates for the brokers; unset, the system's
        ca: Option<PathBuf> = None;
        /// PEM file with this node's certificate, if brokers require one
        certificate: Option<PathBuf> = None;
        /// PEM file with its private key, without a password, not readable by others
        key: Option<PathBuf> = None;
        /// The user name of this node at the brokers
        user: Option<String> = None;
        /// File with its password on one line, not readable by others. It is read at the start
        password_file: Option<PathBuf> = None;
        /// SASL mechanism: `"SCRAM-SHA-512"`, `"SCRAM-SHA-256"`, or `"PLAIN"`, which sends the
        /// password itself and so needs `kafka.tls`
        mechanism: Mechanism = Mechanism::ScramSha512;
    }

    /// Events on Kafka. Off without `events.brokers`. See [events](events.md#events-on-kafka).
    events: Events {
        /// Brokers that events are published to: `"host:port,host:port"`. Unset, none are. They
        /// need not be those of the log. Needs a build with the feature `kafka`, which is on by
        /// default
        brokers: Option<String> = None;
        /// Kinds that are published, as in [events](events.md#an-event). `quotes` needs
        /// `quotes.persist`
        kinds: Vec<KindName> = EventKind::DEFAULT.map(KindName).to_vec();
        /// `"cloudevents"`, or `"mojaloop"`: the messages of the reference on its topics
        envelope: Envelope = Envelope::CloudEvents;
        /// The topic of CloudEvents
        topic: String = "upesi-events".into();
        /// Topics of single kinds: `{ positions = "upesi-positions" }`, in both envelopes
        topics: BTreeMap<KindName, String> = BTreeMap::new();
        /// Interval between two events with the counts of quotes and look-ups. 0: none
        counts_every_seconds: u64 = 60, 0..=86_400;
        /// The topic of these counts
        counts_topic: String = "upesi-events-counts".into();
        /// The topic of the position up to which events are published
        position_topic: String = "upesi-events-position".into();
        /// The place in the log after which its first publisher begins: `"beginning"` or `"end"`
        start: EventStart = EventStart::Beginning;
        /// Publish names of operators, their reasons and paths of their requests too
        personal_data: bool = false;
        /// Use TLS to these brokers. Needs a build with `--features kafka-tls`, as do the six
        /// settings below
        tls: bool = false;
        /// PEM file with the CA certificates for these brokers; unset, the system's
        ca: Option<PathBuf> = None;
        /// PEM file with this node's certificate, if these brokers require one
        certificate: Option<PathBuf> = None;
        /// PEM file with its private key, without a password, not readable by others
        key: Option<PathBuf> = None;
        /// The user name of this node at these brokers
        user: Option<String> = None;
        /// File with its password on one line, not readable by others. It is read at the start
        password_file: Option<PathBuf> = None;
        /// SASL mechanism, as `kafka.mechanism`
        mechanism: Mechanism = Mechanism::ScramSha512;
    }

    /// Health checks and the watchdog.
    health: Health {
        /// Address of health probes: `GET /live`, `/startup`, `/ready` and `/health`, without a
        /// token and with connections of their own. Unset, it is `"127.0.0.1:3002"` if
        /// `admin.listen` has its default, and no listener otherwise; `"none"` for no listener.
        /// `--health` on the command line overrides it
        listen: Option<ProbeListener> = None;
        /// How long a stage with work may make no progress before `/health` turns red and names it.
        /// See [operating](operating/README.md)
        stuck_seconds: u64 = 10, 2..=3_600;
        /// `"report"`: `/health` and standard error name a stuck stage. `"exit"`: the process then
        /// exits with code 70, so that a supervisor restarts it
        watchdog: Watchdog = Watchdog::Report;
    }

    /// Alerts about liquidity. Without a receiver none is sent.
    alerts: Alerts {
        /// URL that gets every alert as a signed webhook, `https://` or `http://`; needs
        /// `alerts.webhook_secret_file`. It is not restricted by `[endpoints]`. See
        /// [liquidity](operating/liquidity.md)
        webhook_url: Option<String> = None;
        /// File with the secret of the signatures on one line, not readable by others: `whsec_` and
        /// base64 of 24 to 64 bytes, as Standard Webhooks defines it. It is read at the start
        webhook_secret_file: Option<PathBuf> = None;
        /// Host and port of the relay for e-mails, such as `"mail.example:587"`; needs
        /// `alerts.mail_from`
        smtp_relay: Option<String> = None;
        /// Encryption towards the relay: `"starttls"`, `"tls"` (from the first byte), or `"none"`
        smtp_tls: SmtpTls = SmtpTls::StartTls;
        /// The user name at the relay; needs `alerts.smtp_password_file` and encryption
        smtp_user: Option<String> = None;
        /// File with its password on one line, not readable by others. It is read at the start
        smtp_password_file: Option<PathBuf> = None;
        /// Address that e-mails are sent from
        mail_from: Option<String> = None;
        /// Addresses of operators, which get every alert. The hub and each participant also get
        /// their own, at their endpoints of the types `..._EMAIL`
        mail_to: Vec<String> = Vec::new();
        /// PEM file with the CA certificates for webhook and relay; unset, the system's. A changed
        /// file is read again for webhooks, like the other `tls_...` files
        ca: Option<PathBuf> = None;
        /// PEM file with the certificate that the hub presents to an `https://` webhook, then those
        /// of its issuers. See [TLS](security/tls.md)
        tls_certificate_file: Option<PathBuf> = None => Reload;
        /// PEM file with its private key, without a password, not readable by others
        tls_key_file: Option<PathBuf> = None => Reload;
        /// How long an alert is retried. After that it is given up, with a line on standard error
        horizon_seconds: u64 = DAY_SECONDS, 1..=MONTH_SECONDS;
    }

    /// Messages to operators, on standard error, and the audit trail.
    logging: Logging {
        /// `"text"` or `"json"`: each message is a line with time, level, target and fields.
        /// `--log-format` on the command line overrides it
        format: LogFormat = LogFormat::Text;
        /// The lowest level of messages: `"error"` (act now), `"warn"` (look at it), `"info"`,
        /// `"debug"`, `"trace"`, or none with `"off"`; with exceptions by target:
        /// `"info,switch=debug"`. The audit trail is written at every level. `--log-level` on the
        /// command line overrides it
        level: LogLevels = LogLevels::default() => Reload;
        /// Log each FSPIOP request, at level `info` with the target `access`
        access: bool = false;
        /// File for the audit trail: one line of JSON per request to the admin API that changes
        /// something, needs the token or is refused. It is appended to before the request is
        /// answered, and opened again on SIGHUP. An entry that cannot be written becomes a message
        /// and is counted by `upesi_audit_entries_failed_total`; the request is answered. Unset,
        /// the trail is among the messages, with the target `audit`
        audit_file: Option<PathBuf> = None => Reload;
    }

    /// Metrics for Prometheus.
    metrics: Metrics {
        /// Names of the reference's metrics, for dashboards that were made for it:
        /// `"per-service"` with a prefix per service (`moja_cl_`, `moja_ml_`), `"common"` with the
        /// prefix `moja_`, `"both"`, or `"off"`. See
        /// [the list](operating/mojaloop-metrics.md)
        mojaloop_names: MojaloopNames = MojaloopNames::Both;
        /// Record durations of requests, callbacks and forwarded messages. Without them, the
        /// histograms of these and the reference's names for them are absent, and the alerts
        /// UpesiRequestsSlow and UpesiCallbacksRejected cannot fire. Counters stay
        histograms: bool = true;
    }

    /// Traces of payments, exported over OTLP to an OpenTelemetry collector. See
    /// [traces](operating/traces.md).
    traces: Traces {
        /// URL of the collector: `"http://otel:4318"`, `"https://otel:4318"`, or with
        /// `traces.protocol = "grpc"` `"http://otel:4317"`. Unset, it is that in the environment
        /// variable `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`; without
        /// both, nothing is exported. Needs a build with the feature `traces`, which is on by
        /// default
        endpoint: Option<String> = None;
        /// `"http"` (protobuf over HTTP/1.1) or `"grpc"`. Unset, it is that in
        /// `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` or `OTEL_EXPORTER_OTLP_PROTOCOL`, or `"http"`
        protocol: Option<TraceProtocol> = None;
        /// The part of all payments that is traced, `0.0` to `1.0`. It is selected by the trace id,
        /// so that all nodes select the same payments. Failures are exported at any ratio
        ratio: Ratio = Ratio(0.01) => Reload;
        /// The effect of the flag `sampled` in the `traceparent` of a participant. `"ratio"`: the
        /// ratio selects among these payments too. `"always"`: all of them are traced. Without the
        /// flag a payment is never traced
        sampled_flag: SampledFlag = SampledFlag::Ratio;
        /// `service.name` of the spans. Unset, it is `OTEL_SERVICE_NAME`, or `"upesi"`
        service_name: Option<String> = None;
        /// File with headers of each export, such as a token, one `name: value` per line, not
        /// readable by others. It is read at the start. `OTEL_EXPORTER_OTLP_HEADERS` adds to them
        headers_file: Option<PathBuf> = None;
        /// PEM file with the authorities of an `https://` collector; unset, the system's
        tls_ca_file: Option<PathBuf> = None => Reload;
        /// PEM file with the certificate that the hub presents to the collector, then those of its
        /// issuers. See [TLS](security/tls.md)
        tls_certificate_file: Option<PathBuf> = None => Reload;
        /// PEM file with its private key, without a password, not readable by others
        tls_key_file: Option<PathBuf> = None => Reload;
    }

    /// Snapshots of the state.
    snapshot: Snapshot {
        /// Take a snapshot after this number of records since the last one, so that a start
        /// continues from it; 0 for never
        every_records: u64 = 1_000_000;
        /// The same by length of the log, in MiB, counted from the last snapshot or the start of
        /// the switch; 0 for never
        every_mib: u64 = 1_024, ..=1 << 30;
        /// Share of one core that taking a snapshot may use. A lower share takes longer and
        /// disturbs less
        cpu_percent: u8 = 25, 1..=100;
    }

    /// The cold store.
    store: Store {
        /// Minimum time that a final transfer stays in memory; after that it is read from the cold
        /// store. It does not affect decisions: 0 saves memory, a higher value saves reads for
        /// resends
        keep_ended_seconds: u64 = 30, ..=86_400;
        /// Memory for blocks, indexes and filters of the cold store. A new transfer costs no disk
        /// access while the filters fit: about 1.3 MiB per million transfers and parties
        cache_mib: u64 = store::StoreOptions::default().cache_bytes >> 20, 8..=65_536;
    }

    /// Compression and archiving of closed segments.
    archive: Archive {
        /// Destination for closed segments, compressed: an existing directory as
        /// `"file:///mnt/archive"`, on another disk, empty or of this log; or a bucket as
        /// `"s3://bucket/prefix"` ([archive.md](internals/archive.md#buckets)). Keep it reachable:
        /// the switch reads segments from it, also in a start without a snapshot. Unset, segments
        /// stay in the data directory
        to: Option<String> = None;
        /// Number of newest closed segments that stay unchanged
        keep_segments: usize = 4, ..=1_000_000;
        /// Minimum age of a closed segment, in hours
        after_hours: u64 = 0, ..=1_000_000;
        /// Without `archive.to`: compress closed segments in place, on a low-priority thread
        compress: bool = false;
    }

    /// Continuous backup.
    backup: Backup {
        /// Destination for a continuous copy of the log: an existing directory as
        /// `"file:///mnt/backup"`, on another machine or disk, or a bucket. It may be the same as
        /// `archive.to`. `upesi restore` makes a data directory from it
        to: Option<String> = None;
        /// Interval between copies of new records. If the data directory is lost, records
        /// acknowledged in this interval and during a copy are lost
        every_seconds: u64 = 10, 1..=3_600;
    }

    /// Erasure by age. See [erasure](security/erasure.md#by-age).
    retention: Retention {
        /// Days after which contents of messages of payments, bulk transfers, quotes and requests
        /// to pay are erased: headers and bodies, with names, identifiers and notes. 0: they are
        /// kept. A payment in flight keeps its contents until it has ended. An erasure cannot be
        /// undone: run `upesi retention plan --config FILE` before you set it
        payments_days: u32 = 0, ..=36_500;
        /// The same for contents of registrations of parties. The party directory keeps its entries
        registrations_days: u32 = 0, ..=36_500;
    }

    /// Encryption of the data directory, its archives and copies.
    encryption: Encryption {
        /// Source of the master key: `"file:PATH"`, `"env:NAME"`, `"command:PROGRAM ARGUMENTS"` or
        /// a `pkcs11:` URI. With it, everything that is written is encrypted; earlier parts of a
        /// log stay as they are. The same source can be given with `--encryption-key` or in the
        /// environment variable `UPESI_ENCRYPTION_KEY`. See [encryption](security/encryption.md)
        key: Option<String> = None;
        /// Source of the master key before a change. It opens the data keys that it wrapped
        previous_key: Option<String> = None;
        /// Hours after which a new data key is used. Each start makes one too
        data_key_hours: u32 = 24, 1..=8_760;
        /// Participants whose contents have data keys of their own, at most 256. These are
        /// destroyed when `upesi erase --participant` has erased the contents. See
        /// [encryption](security/encryption.md#keys-of-participants)
        participant_keys: Vec<ParticipantName> = Vec::new();
    }

    /// Certificates of participants.
    enrolment: Enrolment {
        /// PEM file with the certificate of the authority that signs requests of participants, then
        /// those of its issuers ([security/enrolment.md](security/enrolment.md)). Unset, operators
        /// upload certificates of another authority
        ca_certificate_file: Option<PathBuf> = None;
        /// PEM file with its private key (PKCS#8), without a password, not readable by others
        ca_key_file: Option<PathBuf> = None;
        /// Days for which a certificate is valid, but not longer than that of the authority
        days: u32 = 365, 1..=3_650;
    }

    /// Signed chain heads, by which a third party verifies that the log was not changed.
    chain_heads: ChainHeads {
        /// Destination for signed chain heads: an existing directory as `"file:///mnt/heads"`, or a
        /// bucket, best where operators of the hub cannot delete. `upesi audit verify` compares a
        /// log with them ([security/signed-log.md](security/signed-log.md))
        to: Option<String> = None;
        /// Kafka topic for signed chain heads, such as `"kafka://broker:9092/chain-heads"`, instead
        /// of `chain_heads.to` or in addition. It must exist; let it keep messages for ever. TLS
        /// and login are those of `[kafka]`
        topic: Option<String> = None;
        /// Interval between two chain heads, if records were added
        every_seconds: u64 = 300, 1..=86_400;
        /// Private key that signs them, in PEM. Unset, `jws.signing_key` signs them
        key: Option<PathBuf> = None => Reload;
    }
}
