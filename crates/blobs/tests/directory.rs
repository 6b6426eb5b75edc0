//! A directory passes the contract of blob stores, and has properties of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use blobs::{BlobStore, contract, open_blob_store, put};
use tempfile::TempDir;

fn open(path: &Path) -> Arc<dyn BlobStore> {
    open_blob_store(&format!("file://{}", path.display())).expect("a place")
}

#[test]
fn a_directory_keeps_the_contract() {
    let root = TempDir::new().expect("a directory");
    contract::check(&|name| {
        let path = root.path().join(name);
        fs::create_dir_all(&path).expect("makes it");
        open(&path)
    });
}

#[test]
fn a_directory_is_never_made_and_its_files_are_nobody_elses() {
    let root = TempDir::new().expect("a directory");
    let path = root.path().join("share");
    let error = put(&*open(&path), "a/b", b"x").expect_err("it is not there").to_string();
    assert!(error.contains("open the directory"), "{error}");
    fs::create_dir(&path).expect("makes it");
    fs::create_dir(path.join("lost+found")).expect("makes it");
    let store = open(&path);
    put(&*store, "a/b", b"x").expect("it stores");
    let mode =
        |name: &str| fs::metadata(path.join(name)).expect("it is there").permissions().mode();
    assert_eq!((mode("a") & 0o777, mode("a/b") & 0o777), (0o700, 0o600));
    assert_eq!(store.list(""), Ok(vec!["a".to_owned()]));
}

/// Two processes that write the same object do not mix it.
#[test]
fn an_object_has_one_writer() {
    let root = TempDir::new().expect("a directory");
    let store = open(root.path());
    let mut first = store.upload("x").expect("it begins");
    first.write(b"first").expect("it takes bytes");
    assert!(store.upload("x").is_err(), "another upload of it is open");
    first.finish().expect("it ends");
    assert_eq!(blobs::get(&*store, "x", 10), Ok(b"first".to_vec()));
}
