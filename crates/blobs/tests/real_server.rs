//! A bucket of a real server passes the contract of blob stores, and its errors take one line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use blobs::{BlobError, BlobStore, Location, PART_BYTES, contract, get, owner, put};
use tempfile::TempDir;
use testkit::s3::{SECRET, Server, Wire};

struct Scene {
    server: Server,
    _root: TempDir,
}

impl Scene {
    fn new() -> Self {
        let root = TempDir::new().expect("a directory");
        let server = Server::start(root.path()).expect("it starts");
        server.make_bucket("bucket").expect("makes it");
        Self { server, _root: root }
    }

    fn open(&self, url: &str) -> Arc<dyn BlobStore> {
        open(url, self.server.address(), &[])
    }
}

/// Opens a blob store with the server's environment and some changed variables.
fn open(url: &str, by_way_of: SocketAddr, changed: &[(&str, &str)]) -> Arc<dyn BlobStore> {
    let own = Server::environment(by_way_of).map(|(name, value)| (name.to_owned(), value));
    let changed = changed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let all = own.into_iter().chain(changed).filter(|(_, value)| !value.is_empty());
    Location::parse(url).and_then(|it| it.open_in(all)).expect("a place")
}

/// An error is one short line without secrets.
#[track_caller]
fn check_error<T: std::fmt::Debug>(result: Result<T, BlobError>, named: &[&str]) {
    let error = result.expect_err("it fails").to_string();
    assert!(named.iter().all(|named| error.contains(named)), "{error}");
    assert!(!error.contains(SECRET) && !error.contains('\n') && error.len() < 400, "{error}");
}

#[test]
fn a_bucket_keeps_the_contract() {
    let scene = Scene::new();
    contract::check(&|name| scene.open(&format!("s3://bucket/below/{}", name.replace(' ', "-"))));
}

#[test]
fn a_whole_bucket_is_a_place() {
    let scene = Scene::new();
    for url in ["s3://bucket", "s3://bucket/"] {
        let store = scene.open(url);
        put(&*store, "a/b", b"x").expect("it stores");
        assert_eq!(store.list(""), Ok(vec!["a".to_owned()]));
        assert_eq!(get(&*scene.open("s3://bucket/a"), "b", 10), Ok(b"x".to_vec()));
    }
}

#[test]
fn what_is_wrong_with_bucket_or_credentials_is_said() {
    let scene = Scene::new();
    let address = scene.server.address();
    let missing = scene.open("s3://nowhere/x");
    let named = ["s3://nowhere/x", "the bucket does not exist", "AWS_ENDPOINT"];
    // This server would create one for an object; a writer reads the owner first.
    check_error(owner(&*missing), &named);
    check_error(missing.length("a"), &named);
    for wrong in [("AWS_SECRET_ACCESS_KEY", "another"), ("AWS_ACCESS_KEY_ID", "NOBODY")] {
        let store = open("s3://bucket/x", address, &[wrong]);
        let named = ["s3://bucket/x", "refused (403", "AWS_SECRET_ACCESS_KEY"];
        check_error(put(&*store, "a", b"x"), &named);
        check_error(owner(&*store), &named);
    }
    assert_eq!(scene.open("s3://bucket/x").list(""), Ok(Vec::new()), "nothing came of it");
}

#[test]
fn a_server_that_is_away_is_said_soon() {
    let scene = Scene::new();
    let address = scene.server.address();
    let store = scene.open("s3://bucket/x");
    put(&*store, "a", b"x").expect("it stores");
    drop(scene);
    let started = Instant::now();
    for result in [put(&*store, "b", b"x"), get(&*store, "a", 10).map(drop)] {
        check_error(result, &["s3://bucket/x", "onnect"]);
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    let no_tls = open("s3://bucket/x", address, &[("AWS_ALLOW_HTTP", "false")]);
    check_error(put(&*no_tls, "b", b"x"), &["s3://bucket/x"]);
}

/// The network fails during an upload: no part becomes visible, the old object stays, and a later
/// attempt succeeds.
#[test]
fn an_upload_that_is_cut_changes_nothing() {
    let scene = Scene::new();
    let wire = Wire::to(scene.server.address()).expect("it listens");
    let store = open("s3://bucket/x", wire.address(), &[]);
    put(&*store, "object", b"before").expect("it stores");
    let bytes = contract::sample(3 * PART_BYTES, 1);
    for part in [0, 1, 2] {
        wire.cut_after(part * PART_BYTES as u32 + 1_000_000);
        check_error(put(&*store, "object", &bytes), &["s3://bucket/x: write object"]);
        wire.mend();
        assert_eq!(get(&*store, "object", 10), Ok(b"before".to_vec()), "part {part}");
    }
    assert_eq!(store.list(""), Ok(vec!["object".to_owned()]));
    put(&*store, "object", &bytes).expect("it stores");
    assert!(get(&*store, "object", bytes.len() as u64) == Ok(bytes), "whole");
}
