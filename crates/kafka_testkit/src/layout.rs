//! Configuration of a broker: its listeners, and settings for a shared machine.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;

use crate::cluster::Secure;

/// Ports of a broker.
pub(crate) struct Listeners {
    /// For all clients and the other brokers.
    pub(crate) broker: SocketAddr,
    /// For other controllers and brokers.
    pub(crate) controller: SocketAddr,
    /// For authenticated clients, if there is such a listener.
    pub(crate) secure: SocketAddr,
}

/// Free ports. Another process may take one before a broker does; the broker's start then fails.
pub(crate) fn free_ports(listen: IpAddr, count: usize) -> std::io::Result<Vec<u16>> {
    let bound: Result<Vec<_>, _> = (0..count).map(|_| TcpListener::bind((listen, 0))).collect();
    bound?.iter().map(|listener| listener.local_addr().map(|address| address.port())).collect()
}

/// Settings of a broker. A dead or lagging broker is detected after 3 s instead of 9 s. If it led
/// the controllers, a new controller leader follows after 1 s instead of 2 to 3 s. Replicas query a
/// new leader again after 0.1 s instead of 1 s. Commits of consumers are answered at once, as by
/// brokers before version 4, instead of being gathered for 5 ms.
pub(crate) fn properties(
    number: u32,
    listeners: &Listeners,
    (voters, home): (&str, &Path),
) -> String {
    let Listeners { broker, controller, .. } = listeners;
    format!(
        "process.roles=broker,controller\n\
         node.id={number}\n\
         controller.quorum.voters={voters}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://{broker},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{broker}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=PLAINTEXT\n\
         log.dirs={}\n\
         num.network.threads=1\n\
         num.io.threads=1\n\
         background.threads=2\n\
         log.cleaner.enable=false\n\
         auto.create.topics.enable=false\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=1\n\
         group.coordinator.append.linger.ms=0\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=1\n\
         initial.broker.registration.timeout.ms=180000\n\
         broker.session.timeout.ms=3000\n\
         broker.heartbeat.interval.ms=500\n\
         replica.lag.time.max.ms=3000\n\
         replica.fetch.backoff.ms=100\n\
         metadata.max.idle.interval.ms=250\n\
         controller.quorum.fetch.timeout.ms=800\n\
         controller.quorum.election.timeout.ms=500\n\
         controller.quorum.election.backoff.max.ms=250\n\
         controlled.shutdown.max.retries=1\n",
        home.join("data").display()
    )
}

/// The settings of the second listener: later lines win.
pub(crate) fn secured(secure: &Secure, listeners: &Listeners) -> String {
    let Listeners { broker, controller, secure: at } = listeners;
    let Secure { key_and_certificate, clients, .. } = secure;
    let (own, clients) = (key_and_certificate.display(), clients.display());
    format!(
        "listeners=PLAINTEXT://{broker},SECURE://{at},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{broker},SECURE://{at}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT\n\
         sasl.enabled.mechanisms=SCRAM-SHA-512\n\
         listener.name.secure.scram-sha-512.sasl.jaas.config=\
         org.apache.kafka.common.security.scram.ScramLoginModule required;\n\
         listener.name.secure.ssl.keystore.type=PEM\n\
         listener.name.secure.ssl.keystore.location={own}\n\
         listener.name.secure.ssl.truststore.type=PEM\n\
         listener.name.secure.ssl.truststore.location={clients}\n\
         listener.name.secure.ssl.client.auth=required\n"
    )
}

pub(crate) const LOGGING: &str = "\
rootLogger.level = INFO
rootLogger.appenderRefs = out
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c{1})%n
";
