//! A Kafka cluster on this machine that runs until it is stopped.

use std::env;
use std::path::{Path, PathBuf};

use kafka_testkit::{BROKERS_MAX, BrokersError, Cluster, ClusterOptions, default_cache};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Start brokers, each with a directory of its own, and leave them running. Kafka itself is
    /// fetched with Maven the first time, into ~/.cache/upesi or $UPESI_KAFKA_CACHE.
    Up {
        /// How many brokers.
        #[arg(long, default_value_t = 3,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(BROKERS_MAX)))]
        brokers: u32,
        /// Directory of the brokers' data; default: target/kafka.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// End the brokers and delete what they held; Kafka itself stays where `up` put it.
    Down {
        /// The directory given to `up`.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

pub(crate) fn run(root: &Path, command: &Command) -> bool {
    let done = match command {
        Command::Up { brokers, dir } => up(*brokers, directory(root, dir.as_ref())),
        Command::Down { dir } => down(&directory(root, dir.as_ref())),
    };
    if let Err(error) = &done {
        eprintln!("kafka: {error}");
    }
    done.is_ok()
}

fn directory(root: &Path, given: Option<&PathBuf>) -> PathBuf {
    let target = || env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    given.cloned().unwrap_or_else(|| target().join("kafka"))
}

fn up(brokers: u32, directory: PathBuf) -> Result<(), BrokersError> {
    let options = ClusterOptions::new(brokers, &directory);
    let cluster = Cluster::start(options, &mut |line| println!("kafka: {line}"))?;
    let bootstrap = cluster.bootstrap().to_owned();
    cluster.detach()?;
    println!("kafka: ready on {bootstrap}, in {}", directory.display());
    println!("kafka: `upesi serve --log kafka://{bootstrap}/upesi --node a --data DIR` uses it;");
    let at = directory.display();
    println!("kafka: `cargo xtask kafka down --dir {at}` ends it and deletes what it holds");
    Ok(())
}

fn down(directory: &Path) -> Result<(), BrokersError> {
    let ended = kafka_testkit::stop(directory)?;
    println!("kafka: ended {ended} brokers, and deleted what they held");
    println!("kafka: itself stays for the next time, in {}", default_cache().display());
    Ok(())
}
