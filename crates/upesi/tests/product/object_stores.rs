//! Archives and backups in a bucket, as used by operators: a real S3 server over sockets, and a
//! connection that fails.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::s3::{SECRET, Server, Wire};

use crate::archive::{names, stopped_scheme, text};
use crate::support::scheme::Admin;
use crate::support::switch::{PROGRAM, Ports, Printed, finish};

struct Scene {
    _server: Server,
    wire: Wire,
    root: TempDir,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("served")).unwrap();
        let server = Server::start(&root.path().join("served")).unwrap();
        server.make_bucket("bucket").unwrap();
        let wire = Wire::to(server.address()).unwrap();
        Self { _server: server, wire, root }
    }

    /// The objects with a prefix in the bucket.
    fn objects(&self, prefix: &str) -> Vec<std::path::PathBuf> {
        names(&self.root.path().join("served/bucket").join(prefix), "")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run_with(arguments, &Server::environment(self.wire.address()))
    }

    /// Runs a command that must succeed and print JSON.
    #[track_caller]
    fn answer(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", output.err());
        output.json()
    }

    /// Runs a command that must fail with this message in one line.
    #[track_caller]
    fn refused(&self, arguments: &[&str], named: &str) {
        check_refused(&self.run(arguments), named);
    }
}

fn run_with(arguments: &[&str], environment: &[(&str, String)]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    for (name, value) in environment {
        command.env(name, value);
    }
    finish(command)
}

#[track_caller]
fn check_refused(output: &Output, named: &str) {
    let output_text = output.err();
    // Progress lines may precede it.
    let last = output_text.trim_end().lines().last().unwrap_or_default();
    assert!(!output.status.success() && last.contains(named), "{output_text}");
    assert!(!output_text.contains(SECRET), "{output_text}");
}

fn segments(data: &str) -> usize {
    names(Path::new(data), ".segment").len()
}

#[test]
fn archive_in_a_bucket_is_read_as_part_of_the_log() {
    let scene = Scene::new();
    let (home, transfer) = stopped_scheme();
    let data = home.data();
    let data = text(&data);
    let place = "s3://bucket/hub/archive";
    let plain = scene.answer(&["verify", "--json", "--data", data]);
    let (all, archive) = (segments(data), ["archive", "--json", "--data", data, "--to", place]);

    // The network fails in the middle of a segment. The segment is kept, and the next attempt
    // continues.
    scene.wire.cut_after(3_000);
    scene.refused(&archive, place);
    assert_eq!(segments(data), all, "nothing left the directory");
    scene.wire.mend();
    let moved = scene.answer(&archive);
    assert_eq!(moved["segments"].as_array().unwrap().len(), all - 1, "{moved}");
    assert_eq!(segments(data), 1);

    let again = scene.answer(&["verify", "--json", "--data", data]);
    assert_eq!(again["state_hash"], plain["state_hash"]);
    let life = scene.answer(&["explain", &transfer.id, "--json", "--data", data]);
    assert!(life.to_string().contains(&transfer.id), "{life}");
    let mut command = home.command(Ports::free());
    command.envs(Server::environment(scene.wire.address()));
    let switch = home.started(command);
    assert!(switch.greeting.contains(&format!("from {place}")), "{}", switch.greeting);
    let state = Admin::new(&home, &switch).quiet_state();
    assert_eq!(state["stateHash"], plain["state_hash"]);
    switch.stop(Signal::TERM);

    scene.wire.cut_after(0);
    scene.refused(&["verify", "--data", data], place);
    scene.wire.mend();
    let object = scene.objects("hub/archive/segments").remove(1);
    let name = object.file_name().unwrap().to_str().unwrap().to_owned();
    fs::remove_file(object).unwrap();
    scene.refused(&["verify", "--data", data], &name);
}

/// Restore drill with a bucket.
#[test]
fn backup_in_a_bucket_restores_the_same_state() {
    let scene = Scene::new();
    let (home, _) = stopped_scheme();
    let data = home.data();
    let place = "s3://bucket/hub/copy";
    let backup = ["backup", "--json", "--data", text(&data), "--to", place];
    scene.wire.cut_after(20_000);
    scene.refused(&backup, place);
    scene.wire.mend();
    let copied = scene.answer(&backup);
    assert_eq!(scene.answer(&backup)["bytes"], 0, "nothing is new");
    let proof = scene.answer(&["verify", "--json", "--data", text(&data)]);
    let other = scene.root.path().join("restored");
    let restore = ["restore", "--json", "--from", place, "--data", text(&other)];
    scene.wire.cut_after(2_000);
    scene.refused(&restore, place);
    assert!(!other.exists(), "a directory is whole or not there");
    scene.wire.mend();
    let restored = scene.answer(&restore);
    assert_eq!(restored["chain_head"], copied["chain_head"]);
    assert_eq!(restored["state_hash"], proof["state_hash"]);

    let foreign = stopped_scheme().0;
    let taken = ["backup", "--data", text(&foreign.data()), "--to", place].map(str::to_owned);
    let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
    scene.refused(&taken, "give each hub its own");
}

#[test]
fn bucket_errors_are_reported_and_change_nothing() {
    let scene = Scene::new();
    let (home, _) = stopped_scheme();
    let data = home.data();
    let data = text(&data);
    let to = |url: &'static str| ["archive", "--data", data, "--to", url];
    let before = segments(data);
    scene.refused(&to("s3://nowhere/x"), "s3://nowhere/x: list: the bucket does not exist");
    scene.refused(&to("ftp://host/x"), "not the location of a blob store");
    scene.refused(
        &to("s3://key:secret@bucket/x"),
        "belong in environment variables, not in the URL",
    );
    let address: SocketAddr = scene.wire.address();
    let mut wrong = Server::environment(address);
    wrong[4].1 = "another".to_owned();
    check_refused(&run_with(&to("s3://bucket/x"), &wrong), "refused (40");
    scene.wire.cut_after(0);
    scene.refused(&to("s3://bucket/x"), "s3://bucket/x");
    assert_eq!(segments(data), before);
    assert_eq!(scene.objects(""), Vec::<std::path::PathBuf>::new(), "nothing came of it");
}
