//! Real brokers: started, stopped and restarted, with nothing left running.

use std::net::TcpStream;

use kafka_testkit::{Cluster, ClusterOptions};
use tempfile::TempDir;

#[test]
fn a_broker_comes_back_on_its_port_and_a_detached_one_is_found_again() {
    let home = TempDir::new().expect("a temporary directory");
    let directory = home.path().join("cluster");
    let mut heard = Vec::new();
    let options = ClusterOptions::new(1, &directory);
    let mut cluster = Cluster::start(options.clone(), &mut |line| heard.push(line.to_owned()))
        .expect("a broker starts");
    assert_eq!(heard.last().map(String::as_str), Some("starting 1 broker"));
    let address = cluster.address(1);
    assert_eq!(cluster.bootstrap(), address.to_string());
    cluster.kill(1);
    assert!(TcpStream::connect(address).is_err(), "nobody listens after a kill");
    cluster.restart(1).expect("it starts again");
    assert!(TcpStream::connect(address).is_ok());
    cluster.detach().expect("it is written down");

    assert_eq!(kafka_testkit::is_running(&directory), Some(address.to_string()));
    let again = Cluster::start(options, &mut |_| ()).expect_err("one directory, one cluster");
    let command = format!("cargo xtask kafka down --dir {}", directory.display());
    assert!(again.to_string().contains(&command), "{again}");
    let description = directory.join("cluster.json");
    let known = std::fs::read_to_string(&description).expect("it is written down");
    // A process that does not belong to the cluster.
    let strange = known.replace("\"process\": ", "\"process\": 9");
    std::fs::write(&description, strange).expect("it is changed");
    let stranger = kafka_testkit::stop(&directory).expect_err("somebody else's is left alone");
    assert!(stranger.to_string().contains("Nothing was stopped or deleted"), "{stranger}");
    assert!(TcpStream::connect(address).is_ok());
    std::fs::write(&description, known).expect("it is changed back");
    assert_eq!(kafka_testkit::stop(&directory).expect("it ends"), 1);
    assert!(TcpStream::connect(address).is_err());
    assert!(!directory.exists(), "everything is removed");
    let none = kafka_testkit::stop(&directory).expect_err("there is none");
    assert!(none.to_string().contains("holds no cluster"), "{none}");
}

#[test]
fn a_cluster_of_none_or_too_many_is_refused() {
    for brokers in [0, 10] {
        let refused = Cluster::start(ClusterOptions::new(brokers, "never-made"), &mut |_| ());
        let refused = refused.expect_err("refused").to_string();
        assert_eq!(refused, "a cluster has 1 to 9 brokers");
    }
}
