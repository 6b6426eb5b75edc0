//! The contract of both stores.

use record::frame::LogIdentity;
use store::contract::{Subject, check};
use store::{Disk, Memory, StoreOptions};
use tempfile::TempDir;

const IDENTITY: LogIdentity = LogIdentity([3; 16]);

struct InMemory;

impl Subject for InMemory {
    type Store = Memory;

    fn make(&mut self) -> Memory {
        Memory::default()
    }

    fn reopen(&mut self, store: Memory) -> Memory {
        store.clone()
    }
}

struct OnDisk(TempDir);

impl Subject for OnDisk {
    type Store = Disk;

    fn make(&mut self) -> Disk {
        self.0 = TempDir::new().expect("a temporary directory");
        Disk::begin(&self.0.path().join("store"), IDENTITY, StoreOptions::default())
            .expect("it begins")
    }

    fn reopen(&mut self, store: Disk) -> Disk {
        drop(store);
        let opened = Disk::open(&self.0.path().join("store"), IDENTITY, StoreOptions::default());
        let (store, rebuilt) = opened.expect("it opens");
        assert_eq!(rebuilt, None, "a sound store is used");
        store
    }
}

#[test]
fn the_store_in_memory_keeps_the_contract() {
    check(&mut InMemory);
}

#[test]
fn the_store_on_disk_keeps_the_contract() {
    check(&mut OnDisk(TempDir::new().expect("a temporary directory")));
}
