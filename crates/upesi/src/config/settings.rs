//! The settings of the configuration file, each declared once.
//!
//! A change of the declaration changes the table of `docs/configuration.md`, which a test writes
//! anew with `UPDATE_EXPECT=1`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use record::frame::FRAME_RECORDS_MAX;
use serde::{Deserialize, Serialize};
use switch::{ConnectionLimits, PoolLimits};

use crate::config::table::{Bounds, Change, Number, Setting, settings};
use crate::config::values::{Auth, Listed, Mechanism, Probes, Resource, Span, Watchdog};

const HOUR_MS: u64 = 3_600_000;
/// 30 days: a callback that is older is of no use.
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
    /// Where participants connect.
    fspiop: Fspiop {
        /// Address for participants. Port 0 takes a free one
        listen: SocketAddr = SocketAddr::from(([0, 0, 0, 0], 4000));
        /// Threads that accept, parse and send; 0 takes half of the cores, at least 1
        threads: usize = 0, ..=64;
        /// Connections from clients, per thread. One more takes the place of a silent one. If
        /// requests are being answered on all of them, it is refused with 503 and closed
        connections_max: usize = connections().total, 1..;
        /// Of these from one address, per thread; 0 takes the half. See
        /// [internals/edge.md](internals/edge.md)
        connections_per_address_max: usize = 0;
        /// Networks that gateways connect from, such as `["10.0.0.0/8"]`. From any other address
        /// `X-Client-Id` is ignored. Empty: the header is accepted from all addresses. It is
        /// neither forwarded nor stored in either case
        gateways: Vec<Listed> = Vec::new();
        /// Time from the first byte of a request to the end of its headers; also from a new
        /// connection to its first byte
        header_timeout_ms: u64 = milliseconds(connections().head), 1..=HOUR_MS;
        /// Time for a whole body
        body_timeout_ms: u64 = milliseconds(connections().body), 1..=HOUR_MS;
        /// Time that a connection may stay without a request
        idle_timeout_ms: u64 = milliseconds(connections().idle), 1..=HOUR_MS;
    }

    /// Where operators connect (DESIGN contract 14).
    admin: Admin {
        /// Address for operators
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 3001));
        /// `"token"`: a change needs the bearer token in `admin-token` in the data directory, and
        /// so do `GET /state`, `GET /transactions/{id}`, `GET /parties/{Type}/{ID}` and
        /// `GET /transfers/{transferId}/explanation`.
        /// `"none"`: whoever reaches the port may change everything
        auth: Auth = Auth::Token;
        /// File that holds the token instead of `admin-token` in the data directory: kept by
        /// somebody else, such as what mounts secrets into containers. It must be there at the
        /// start, its group may read it and nobody else; a new content is in force with the next
        /// request
        token_file: Option<PathBuf> = None => Reload;
        /// Names, without port, that the `Host` header may carry beside those of the loopback
        /// interface and the address itself that the request came to
        hosts: Vec<String> = Vec::new();
        /// Origins, such as `https://console.example`, from which a browser may call
        origins: Vec<String> = Vec::new();
    }

    /// Who the hub is.
    hub: Hub {
        /// The hub's own participant name, 2 to 32 bytes. Fixed by the first record of the log:
        /// another name is refused at start
        name: String = "Hub".into() => Never;
    }

    /// Scheme rules for transfers.
    transfers: Transfers {
        /// A payee that fulfils with COMMITTED, or aborts, hears from the hub how it ended
        confirm_to_payee: bool = kernel().confirm_to_payee => Log;
        /// Payer and payee may be the same FSP
        on_us: bool = kernel().on_us_transfers => Log;
        /// `PUT /transfers/{id}` with ABORTED aborts the transfer; otherwise it is ignored, as
        /// the reference does, and the transfer times out
        put_aborted_aborts: bool = kernel().put_aborted_aborts => Log;
        /// Funds out are limited to the cover less what the participant owes; `false` is the
        /// reference's rule, which looks at the cover alone
        funds_out_covers_position: bool = kernel().funds_out_covers_position => Log;
        /// Callbacks owed to one participant beyond which a new transfer to it is refused with
        /// 2003
        lane_capacity: u32 = kernel().lane_capacity, 1.. => Log;
        /// How far ahead of the hub's clock a new transfer may expire, at least `"1s"`: `"90s"`,
        /// `"15m"`, `"24h"`, `"30d"`. A later `expiration` is refused at once with 400, 3100, and
        /// nothing is recorded. A resent transfer that was accepted under a higher limit is
        /// answered as before. Without this setting there is no limit, and a transfer that is
        /// never answered holds the payer's position until it expires. Nodes that share a log
        /// should have the same limit
        expiration_max: Option<Span> = None;
    }

    /// How callbacks are delivered.
    delivery: Delivery {
        /// Per participant: callbacks in flight, and delivered ones not yet durably noted. At
        /// most so many are repeated after a crash
        window: u32 = policy().window, 1..=65_536;
        /// How long a callback is tried, from when it became owed, restarts included. Then it
        /// becomes a dead letter, or is given up if its loss costs nothing
        /// ([internals/delivery.md](internals/delivery.md#how-deliveries-end))
        horizon_seconds: u64 = policy().horizon_micros / 1_000_000, 1..=MONTH_SECONDS;
        /// Pause after the first failure of a callback; it doubles with each further one, and its
        /// upper half is random; 1 to `backoff_max_ms`
        backoff_base_ms: u64 = policy().backoff_base_micros / 1_000;
        /// Longest pause between two attempts of one callback, and longest pause that a
        /// participant can ask for with `Retry-After`
        backoff_max_ms: u64 = policy().backoff_max_micros / 1_000, 1..=HOUR_MS;
        /// Time to connect to a participant
        connect_timeout_ms: u64 = milliseconds(PoolLimits::default().connect), 1..=HOUR_MS;
        /// Time from sending a callback to the whole answer
        answer_timeout_ms: u64 = milliseconds(PoolLimits::default().answer), 1..=HOUR_MS;
    }

    /// Where participants may be called.
    endpoints: Endpoints {
        /// Networks, such as `"10.0.0.0/8"`, in which participants and oracles may be called;
        /// empty for all but loopback addresses. Loopback addresses are allowed where a network
        /// inside `127.0.0.0/8`, or `::1`, is listed, or where the list is empty and
        /// `fspiop.listen` is a loopback address. Link-local, metadata, group and unspecified
        /// addresses and the hub's own listeners are never called. See
        /// [internals/edge.md](internals/edge.md)
        networks: Vec<Listed> = Vec::new();
        /// Networks in which nobody is called, even inside those above
        denied_networks: Vec<Listed> = Vec::new();
        /// Ports that may be called; empty for all
        ports: Vec<u16> = Vec::new();
    }

    /// Signatures of messages.
    jws: Jws {
        /// Resources (`"participants"`, `"parties"`, `"quotes"`, `"transfers"`) whose messages
        /// are refused with 400, 3105 unless their signature is good; a DELETE signs its empty
        /// body, or `{}`. GET is never validated. The reference's switch for `PUT /parties` is
        /// `"parties"`
        validate: Vec<Resource> = Vec::new();
        /// A DELETE without a signature is accepted although its resource is in `jws.validate`,
        /// for SDKs that sign only what has a body: anybody who can send in a participant's name
        /// can then release entries of the directory. A signature that is there must be good
        unsigned_delete: bool = false;
        /// Resources of which the hub signs the messages that it makes itself; needs
        /// `jws.signing_key`
        sign: Vec<Resource> = Vec::new();
        /// Directory of participants' public keys: PEM files `<fspId>.pem` and
        /// `<fspId>.<number>.pem`, public key or certificate, RSA of 2,048 to 8,192 bits or
        /// P-256. They are good beside the keys of the admin API. A file that is no key refuses
        /// the start
        keys: Option<PathBuf> = None => Reload;
        /// The hub's private key: a PEM file that not everybody may read. RSA signs RS256, P-256
        /// signs ES256. `GET /participants/{hub}/keys` shows the public key
        signing_key: Option<PathBuf> = None;
        /// Threads that sign; 0 takes half of the cores, at least 1
        signing_threads: usize = 0, ..=64;
    }

    /// How the log is kept.
    log: Log {
        /// Length of a segment of the log
        segment_mib: u64 = 256, 1..=4_096;
        /// Most records in one batch of the log, and so under one sync. A batch never waits to
        /// become full; a lower number only costs syncs, and is for measurements
        batch_records_max: NonZeroU32 = BATCH_RECORDS, 1..=FRAME_RECORDS_MAX.into();
    }

    /// How a node and the brokers know each other: by default in plain text, on a network of their
    /// own.
    kafka: Kafka {
        /// With `--log`: speak to the brokers with TLS. Their certificates must carry the names
        /// by which they are addressed. Needs a build with `--features kafka-tls`, as do the six
        /// settings below; without it the start is refused. See
        /// [installation](operating/install.md#brokers-that-ask-who-you-are)
        tls: bool = false;
        /// PEM file with the certificates of who signs those of the brokers; none takes the
        /// system's
        ca: Option<PathBuf> = None;
        /// PEM file with this node's own certificate, where brokers ask for one
        certificate: Option<PathBuf> = None;
        /// PEM file with its private key, without a password, that not everybody may read
        key: Option<PathBuf> = None;
        /// The user that this node is to the brokers
        user: Option<String> = None;
        /// File with its password on one line, that not everybody may read. It is read at the
        /// start
        password_file: Option<PathBuf> = None;
        /// How the password is shown: `"SCRAM-SHA-512"`, `"SCRAM-SHA-256"`, or `"PLAIN"`, which
        /// says it as it is and so needs `kafka.tls`
        mechanism: Mechanism = Mechanism::ScramSha512;
    }

    /// When the switch calls itself ill, and what follows.
    health: Health {
        /// Address of health probes: `GET /live`, `/ready` and `/health`, without a token and
        /// with connections of their own. Unset, it is `"127.0.0.1:3002"` where `admin.listen`
        /// has its default, and no listener otherwise; `"none"` for no listener. `--health` on
        /// the command line wins
        listen: Option<Probes> = None;
        /// How long a stage may have work and do none of it before `/health` turns red and names
        /// it. See [operating](operating/README.md)
        stuck_seconds: u64 = 10, 2..=3_600;
        /// `"report"`: a stuck stage is named by `/health` and on standard error. `"exit"`: the
        /// process then ends with code 70, so that a supervisor starts it again
        watchdog: Watchdog = Watchdog::Report;
    }

    /// When the state is stored beside the log, and how fast.
    snapshot: Snapshot {
        /// The state is stored beside the log once so many records were written since the last
        /// time, so that a start goes on from there; 0 for never
        every_records: u64 = 1_000_000;
        /// The same by length of the log, in MiB, counted from the last time or the start of the
        /// switch; 0 for never
        every_mib: u64 = 1_024, ..=1 << 30;
        /// Share of one core that storing the state may use: with less it takes longer and
        /// disturbs less
        cpu_percent: u8 = 25, 1..=100;
    }

    /// How transfers that ended are kept.
    store: Store {
        /// For how long at least a transfer that ended stays in memory; after that it is read
        /// from the cold store. Decides nothing: 0 saves memory, more saves reads for resends
        keep_ended_seconds: u64 = 30, ..=86_400;
        /// Memory for blocks, indexes and filters of the cold store. A new transfer costs no disk
        /// access while the filters fit: about 1.3 MiB for each million of transfers and parties
        cache_mib: u64 = store::Options::default().cache_bytes >> 20, 8..=65_536;
    }

    /// What becomes of closed segments.
    archive: Archive {
        /// Where closed segments of the log are moved, compressed: an existing directory as
        /// `"file:///mnt/archive"`, on another disk, empty or of this log; or a bucket as
        /// `"s3://bucket/prefix"` ([archive.md](internals/archive.md#buckets)). They are read
        /// there when they are needed, also by a start without a snapshot: keep it reachable.
        /// Without it, segments stay
        to: Option<String> = None;
        /// Closed segments, the newest, that stay as they are
        keep_segments: usize = 4, ..=1_000_000;
        /// Only segments that were closed so many hours ago go
        after_hours: u64 = 0, ..=1_000_000;
        /// Without `archive.to`: compress closed segments where they are, on a thread of low
        /// priority
        compress: bool = false;
    }

    /// The copy that is kept while the log grows.
    backup: Backup {
        /// Where a copy of the log is kept while it grows: an existing directory as
        /// `"file:///mnt/backup"`, on another machine or disk, or a bucket. It may be the same as
        /// `archive.to`. `upesi restore` makes a data directory of it
        to: Option<String> = None;
        /// How often what is new is copied. When the data directory is lost, so is what was
        /// acknowledged in this time and in the time of a copy
        every_seconds: u64 = 10, 1..=3_600;
    }
}
