//! The tests that every [`BlobStore`] must pass.

use std::sync::Arc;

use record::frame::LogIdentity;

use crate::{
    BlobError, BlobStore, Expected, MARKER, PART_BYTES, Upload, claim, get, owner,
    parse_hexadecimal, put,
};

/// Runs the whole contract. `make` returns an empty blob store for each name, and for a name used
/// before the same store again, as another process would open it.
///
/// # Panics
/// If the store breaks it.
pub fn check(make: &dyn Fn(&str) -> Arc<dyn BlobStore>) {
    check_empty(&*make("empty"));
    check_whole(make);
    check_long(make);
    check_ranges(&*make("ranges"));
    check_lists(&*make("lists"));
    check_removal(&*make("removal"));
    check_given_up(make);
    check_many_at_once(&*make("many"));
    check_owner(make);
}

/// Bytes without a pattern that could hide a defect of a compressor or a blob store.
#[must_use]
pub fn sample(length: usize, seed: u64) -> Vec<u8> {
    let mut noise = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn check_empty(store: &dyn BlobStore) {
    assert_eq!(store.length("a"), Ok(None));
    assert_eq!(store.length("a/b/c"), Ok(None));
    assert_eq!(store.list(""), Ok(Vec::new()));
    assert_eq!(store.list("a"), Ok(Vec::new()));
    assert_eq!(store.remove("a"), Ok(()));
    let missing = Err(BlobError::NotFound { url: store.url().into(), name: "a".into() });
    assert_eq!(store.read_at("a", 0, &mut [0; 4]), missing);
    assert_eq!(get(store, "a", 10).map(|_| 0), missing);
}

/// An object becomes visible to every client when it is finished, and replaces the old one.
fn check_whole(make: &dyn Fn(&str) -> Arc<dyn BlobStore>) {
    let (store, other) = (make("whole"), make("whole"));
    for (round, length) in [0, 1, 5_000].into_iter().enumerate() {
        let bytes = sample(length, round as u64);
        let before = other.length("a/b").expect("it answers");
        let mut upload = store.upload("a/b").expect("it begins");
        for piece in bytes.chunks(777) {
            upload.write(piece).expect("it takes bytes");
        }
        assert_eq!(other.length("a/b"), Ok(before), "an unfinished upload is invisible");
        upload.finish().expect("it ends");
        for store in [&store, &other] {
            assert_eq!(get(&**store, "a/b", 5_000), Ok(bytes.clone()));
        }
    }
    assert!(get(&*store, "a/b", 4_999).is_err(), "it is longer");
}

/// Longer than one request of a bucket takes, by one byte and exactly.
fn check_long(make: &dyn Fn(&str) -> Arc<dyn BlobStore>) {
    let (store, other) = (make("long"), make("long"));
    for length in [PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 12_345] {
        let bytes = sample(length, length as u64);
        put_in(&*store, "long", &bytes, 1 << 20);
        assert_eq!(other.length("long"), Ok(Some(length as u64)));
        assert!(get(&*other, "long", length as u64) == Ok(bytes.clone()), "{length}: whole");
        let mut at = 0;
        let mut buffer = vec![0; 300_007];
        while at < length {
            let read = other.read_at("long", at as u64, &mut buffer).expect("it reads");
            assert_eq!(read, buffer.len().min(length - at), "{length}: in order");
            assert!(buffer[..read] == bytes[at..at + read], "{length}: at {at}");
            at += read;
        }
    }
}

fn put_in(store: &dyn BlobStore, name: &str, bytes: &[u8], piece: usize) {
    let mut upload = store.upload(name).expect("it begins");
    bytes.chunks(piece).for_each(|piece| upload.write(piece).expect("it takes bytes"));
    upload.finish().expect("it ends");
}

fn check_ranges(store: &dyn BlobStore) {
    let bytes = sample(1_000, 3);
    put(store, "x", &bytes).expect("it stores");
    for (offset, length) in
        [(0, 1_000), (0, 2_000), (999, 1), (1_000, 1), (1_001, 5), (500, 0), (10, 20), (30, 20)]
    {
        let mut buffer = vec![0; length];
        let read = store.read_at("x", offset as u64, &mut buffer).expect("it reads");
        let end = (offset + length).min(bytes.len());
        assert_eq!(buffer[..read], *bytes.get(offset..end).unwrap_or_default(), "{offset}");
    }
    // A replaced object is not read from the prefetched bytes.
    let changed = sample(1_000, 4);
    put(store, "x", &changed).expect("it stores");
    let mut buffer = [0; 20];
    assert_eq!(store.read_at("x", 50, &mut buffer), Ok(20));
    assert_eq!(buffer, changed[50..70]);
}

fn check_lists(store: &dyn BlobStore) {
    for name in ["b", "a", "deep/2", "deep/1", "deep/er/3", "deeply"] {
        put(store, name, b"x").expect("it stores");
    }
    assert_eq!(store.list("").expect("it lists"), ["a", "b", "deep", "deeply"]);
    assert_eq!(store.list("deep").expect("it lists"), ["1", "2", "er"]);
    assert_eq!(store.list("deep/er").expect("it lists"), ["3"]);
}

fn check_removal(store: &dyn BlobStore) {
    put(store, "d/x", b"x").expect("it stores");
    put(store, "d/y", b"y").expect("it stores");
    for _ in 0..2 {
        assert_eq!(store.remove("d/x"), Ok(()));
        assert_eq!(store.length("d/x"), Ok(None));
    }
    assert_eq!(store.list("d").expect("it lists"), ["y"]);
}

/// A dropped upload leaves the old objects unchanged and adds nothing.
fn check_given_up(make: &dyn Fn(&str) -> Arc<dyn BlobStore>) {
    let store = make("given up");
    put(&*store, "kept", b"kept").expect("it stores");
    for (name, length) in [("kept", 10), ("new", 10), ("new", PART_BYTES + 1)] {
        let mut upload: Box<dyn Upload> = store.upload(name).expect("it begins");
        upload.write(&sample(length, 5)).expect("it takes bytes");
        drop(upload);
    }
    for store in [&store, &make("given up")] {
        assert_eq!(get(&**store, "kept", 10), Ok(b"kept".to_vec()));
        assert_eq!(store.list("").expect("it lists"), ["kept"]);
    }
    put(&*store, "new", b"new").expect("a later attempt stores");
    assert_eq!(get(&*store, "new", 10), Ok(b"new".to_vec()));
}

/// Several threads read and write concurrently.
fn check_many_at_once(store: &dyn BlobStore) {
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                for at in 0..5_u64 {
                    let (name, bytes) =
                        (format!("{thread}/{at}"), sample(70_000, thread * 10 + at));
                    put(store, &name, &bytes).expect("it stores");
                    assert!(get(store, &name, 70_000) == Ok(bytes), "{name}");
                }
            });
        }
    });
    assert_eq!(store.list("").expect("it lists"), ["0", "1", "2", "3"]);
}

fn check_owner(make: &dyn Fn(&str) -> Arc<dyn BlobStore>) {
    let store = make("owner");
    let identity = |digit: &str| LogIdentity(parse_hexadecimal(&digit.repeat(32)).expect("digits"));
    let (own, other) = (identity("1"), identity("2"));
    assert_eq!(owner(&*store), Ok(None));
    let emptied = claim(&*store, own, Expected::InUse).expect_err("it is empty");
    assert!(matches!(emptied, BlobError::Empty(_)), "{emptied}");
    claim(&*store, own, Expected::Any).expect("an empty one is taken");
    assert_eq!(owner(&*make("owner")), Ok(Some(own)));
    claim(&*store, own, Expected::InUse).expect("it is ours");
    let foreign = claim(&*store, other, Expected::Any).expect_err("it is taken");
    assert!(matches!(foreign, BlobError::OtherLog { .. }), "{foreign}");
    let fresh = make("fresh");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| claim(&*fresh, own, Expected::Any).expect("all are of one log"));
        }
    });
    assert_eq!(fresh.list(""), Ok(vec![MARKER.to_owned()]));
    let strange = make("strange");
    put(&*strange, "holiday.jpg", b"x").expect("it stores");
    assert_eq!(owner(&*strange), Err(BlobError::NoMarker(strange.url().to_owned())));
    assert_eq!(store.list(""), Ok(vec![MARKER.to_owned()]));
}
