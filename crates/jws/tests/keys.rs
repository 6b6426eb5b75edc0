//! Keys as texts and as files.

use std::fs;

use jws::{
    Algorithm, KeyDirectory, KeyError, KeyKind, KeyRing, ReloadReport, SigningKey, VerificationKey,
};
use ledger::FspName;
use proptest::prelude::*;
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/vectors.json")).expect("JSON")
}

fn text(vectors: &Value, key: &str, form: &str) -> String {
    vectors["keys"][key][form].as_str().expect(key).to_owned()
}

#[test]
fn public_keys_and_certificates_are_the_same_key() {
    let vectors = vectors();
    for (name, algorithms) in [
        ("rsa", [true, true, true, false]),
        ("rsa_next", [true, true, true, false]),
        ("ec", [false, false, false, true]),
    ] {
        let read = |form| VerificationKey::from_pem(text(&vectors, name, form).as_bytes());
        let (key, certificate) = (read("public").expect(name), read("certificate").expect(name));
        let private = text(&vectors, name, "private");
        let own = SigningKey::from_pem(private.as_bytes()).and_then(|key| key.verification_key());
        assert_eq!(key.fingerprint(), certificate.fingerprint(), "{name}");
        assert_eq!(key.fingerprint(), own.expect(name).fingerprint(), "{name}");
        assert_eq!(Algorithm::ALL.map(|algorithm| key.fits(algorithm)), algorithms, "{name}");
    }
}

#[test]
fn invalid_public_keys_are_refused() {
    let vectors = vectors();
    let of = |key, form| text(&vectors, key, form);
    let rsa = of("rsa", "public");
    let damaged = rsa.replacen("MIIB", "MIIC", 1);
    let other_label = of("rsa", "certificate").replace("CERTIFICATE", "PUBLIC KEY");
    for (name, text, expected) in [
        ("nothing", String::new(), KeyError::NoPublicKey),
        ("prose", "no key".to_owned(), KeyError::NoPublicKey),
        ("another label", rsa.replace("PUBLIC", "RSA PUBLIC"), KeyError::NoPublicKey),
        ("a private key", of("rsa", "private"), KeyError::Private),
        ("a private key too", rsa.clone() + &of("ec", "traditional"), KeyError::Private),
        ("two keys", rsa.clone() + &of("ec", "public"), KeyError::Several),
        ("key and certificate", rsa.clone() + &of("rsa", "certificate"), KeyError::Several),
        ("no end", rsa.replace("-----END", "---END"), KeyError::NotPem),
        ("no base64", rsa.replace("MIIB", "M*IB"), KeyError::NotPem),
        ("damaged", damaged, KeyError::Damaged),
        ("wrongly labelled", other_label, KeyError::Damaged),
        ("short", of("short", "public"), KeyError::Size { bits: 1_024 }),
        ("short certificate", of("short", "certificate"), KeyError::Size { bits: 1_024 }),
        ("another curve", of("p384", "public"), KeyError::Unsupported),
        ("long", "-".repeat(65_537), KeyError::TooLong),
    ] {
        assert_eq!(VerificationKey::from_pem(text.as_bytes()).err(), Some(expected), "{name}");
    }
    let chain = of("rsa", "certificate") + &of("ec", "certificate");
    assert!(VerificationKey::from_pem(chain.as_bytes()).is_ok(), "a chain of certificates");
    let windows = format!("Subject: payer\r\n{}", rsa.replace('\n', "\r\n"));
    assert!(VerificationKey::from_pem(windows.as_bytes()).is_ok(), "other line ends, a preface");
}

#[test]
fn invalid_private_keys_are_refused() {
    let vectors = vectors();
    let of = |key, form| text(&vectors, key, form);
    for (name, text, expected) in [
        ("nothing", String::new(), KeyError::NoPrivateKey),
        ("a public key", of("rsa", "public"), KeyError::NoPrivateKey),
        ("two keys", of("rsa", "private") + &of("ec", "private"), KeyError::Several),
        ("short", of("short", "private"), KeyError::Unsupported),
        ("another curve", of("p384", "private"), KeyError::Unsupported),
        ("another curve, SEC1", of("p384", "traditional"), KeyError::Unsupported),
    ] {
        assert_eq!(SigningKey::from_pem(text.as_bytes()).err(), Some(expected), "{name}");
    }
    let key = SigningKey::from_pem(of("ec", "private").as_bytes()).expect("a key");
    assert_eq!(format!("{key:?}"), "SigningKey(ES256)", "nothing secret is shown");
}

#[test]
fn a_directory_of_keys_is_read() {
    let vectors = vectors();
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).expect(name);
    };
    write("payer.pem", &text(&vectors, "rsa", "public"));
    write("payer.2.pem", &text(&vectors, "rsa_next", "certificate"));
    write("payer.3.pem", &text(&vectors, "rsa", "certificate"));
    write("bank.example.pem", &text(&vectors, "ec", "public"));
    write("README", "no key");
    write(".hidden.pem", "no key");
    fs::create_dir(directory.path().join("old.pem")).expect("a directory");
    let ring = KeyRing::load(directory.path()).expect("good files");
    let mut found: Vec<_> =
        ring.iter().map(|(name, keys)| (name.as_str().to_owned(), keys.len())).collect();
    found.sort();
    assert_eq!(found, [("bank.example".to_owned(), 1), ("payer".to_owned(), 2)]);
}

#[test]
fn errors_name_the_invalid_file() {
    let vectors = vectors();
    let key = text(&vectors, "rsa", "public");
    let private = text(&vectors, "rsa", "private");
    let short = text(&vectors, "short", "public");
    let long = "x".repeat(65_537);
    for (file, content, expected) in [
        ("a.pem", "x", "a.pem: the text holds no PEM block PUBLIC KEY or CERTIFICATE"),
        (
            "a.1.pem",
            &private,
            "a.1.pem: the text holds a private key; only the public key belongs here",
        ),
        ("a.pem", &short, "a.pem: the RSA key has 1024 bits; 2048 to 8192 are accepted"),
        ("a.pem", &long, "a.pem: the text is longer than 65536 bytes"),
        (
            "a-name-that-is-longer-than-32-bytes.pem",
            &key,
            "a-name-that-is-longer-than-32-bytes.pem: the name before .pem is not a \
             participant's (1 to 32 bytes)",
        ),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join(file), content).expect(file);
        let error = KeyRing::load(directory.path()).expect_err(file).to_string();
        let shown = error.rsplit('/').next().unwrap_or_default();
        assert_eq!(shown, expected);
    }
    let error = KeyRing::load("/no/such/place".as_ref()).expect_err("no directory").to_string();
    assert!(error.starts_with("/no/such/place: "), "{error}");
}

#[test]
fn a_participant_has_four_keys_at_most() {
    let vectors = vectors();
    let name = FspName::new("payer").expect("a name");
    let key = |key| VerificationKey::from_pem(text(&vectors, key, "public").as_bytes());
    let ring =
        KeyRing::new(["rsa", "rsa_next", "ec", "stranger"].map(|k| (name, key(k).expect(k))))
            .expect("four keys");
    assert_eq!(ring.of(&name).len(), 4);
    let again = ring.with(name, key("ec").expect("a key")).expect("a key it has");
    assert_eq!(again.of(&name).len(), 4);
    let fifth = concat!(
        "-----BEGIN PUBLIC KEY-----\n",
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n",
        "6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n",
        "-----END PUBLIC KEY-----\n",
    );
    let fifth = VerificationKey::from_pem(fifth.as_bytes()).expect("the generator of P-256");
    assert_eq!(ring.with(name, fifth).err(), Some(KeyError::TooMany));
}

proptest! {
    #[test]
    fn damaged_keys_never_panic(
        which in 0..3usize,
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let vectors = vectors();
        let (key, form) = [("rsa", "public"), ("ec", "certificate"), ("ec", "private")][which];
        let mut bytes = text(&vectors, key, form).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.drain(at..at + 1);
        }
        let public = VerificationKey::from_pem(&bytes);
        let private = SigningKey::from_pem(&bytes);
        prop_assert!(public.is_err() || private.is_err());
    }
}

#[test]
fn a_key_is_shown_as_it_was_read() {
    let vectors = vectors();
    for (name, kind) in [("rsa", KeyKind::Rsa { bits: 2_048 }), ("ec", KeyKind::P256)] {
        let pem = text(&vectors, name, "public");
        let key = VerificationKey::from_pem(pem.as_bytes()).expect(name);
        assert_eq!((key.to_pem(), key.kind()), (pem, kind));
        let again = VerificationKey::from_der(key.der()).expect(name);
        assert_eq!(again.fingerprint(), key.fingerprint());
    }
}

#[test]
fn reload_keeps_valid_keys() {
    let vectors = vectors();
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name);
    let write = |name: &str, key: &str| {
        fs::write(place(name), text(&vectors, key, "public")).expect(name);
    };
    write("payer.pem", "rsa");
    write("payee.pem", "ec");
    let keys = KeyDirectory::open(directory.path()).expect("good files");
    let fingerprints = |name: &str| -> Vec<String> {
        let name = FspName::new(name).expect("a name");
        let keys = keys.ring();
        keys.of(&name).iter().map(|key| key.fingerprint().to_string()).collect()
    };
    let (payer, payee) = (fingerprints("payer"), fingerprints("payee"));
    let counts = |found: ReloadReport| (found.keys, found.participants, found.faults.len());

    fs::write(place("payer.pem"), "half a k").expect("written");
    write("payer.2.pem", "rsa_next");
    let generation = keys.generation();
    assert_eq!(counts(keys.reload()), (3, 2, 1), "a broken file keeps its key");
    assert_eq!(keys.generation(), generation + 1);
    assert!(fingerprints("payer").contains(&payer[0]));

    fs::remove_file(place("payer.pem")).expect("removed");
    assert_eq!(counts(keys.reload()), (2, 2, 0), "a file that has gone takes its key along");
    assert!(!fingerprints("payer").contains(&payer[0]));

    fs::remove_dir_all(directory.path()).expect("removed");
    assert_eq!(counts(keys.reload()), (2, 2, 1), "a directory that has gone changes nothing");
    assert_eq!(fingerprints("payee"), payee);
    assert!(KeyDirectory::open(directory.path()).is_err());
}
