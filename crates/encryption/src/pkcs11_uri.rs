//! Names of keys in tokens: URIs of RFC 7512.

use std::path::{Path, PathBuf};

use crate::master_key::{MasterKeyError, read_private_file, short_name};

/// Longest file of a PIN, in bytes.
const PIN_BYTES_MAX: u64 = 256;

/// A key in a token, and the way to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyUri {
    /// The PKCS#11 module: a shared library.
    pub(crate) module: PathBuf,
    /// Label of the token.
    pub(crate) token: Option<String>,
    pub(crate) serial: Option<String>,
    pub(crate) manufacturer: Option<String>,
    pub(crate) model: Option<String>,
    /// Label of the key.
    pub(crate) object: Option<String>,
    /// Id of the key.
    pub(crate) id: Option<Vec<u8>>,
    pin: Option<PinSource>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PinSource {
    File(PathBuf),
    Variable(String),
}

impl KeyUri {
    /// Parses the text after `pkcs11:`.
    ///
    /// # Errors
    /// [`MasterKeyError::Source`], without values: one may be a PIN that was given by mistake.
    pub(crate) fn parse(text: &str) -> Result<Self, MasterKeyError> {
        let mut uri = Self::default();
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let attributes = path.split(';').map(|it| (it, true));
        let attributes = attributes.chain(query.split('&').map(|it| (it, false)));
        for (attribute, is_in_path) in attributes.filter(|(text, _)| !text.is_empty()) {
            let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            let value = decode(value).ok_or_else(|| failed(&format!("{name}: bad %-code")))?;
            uri.set((name, is_in_path), value)?;
        }
        if uri.module.as_os_str().is_empty() {
            return Err(failed("module-path is missing: the shared library of the token"));
        }
        if uri.object.is_none() && uri.id.is_none() {
            return Err(failed("object or id is missing: the label or the id of the key"));
        }
        Ok(uri)
    }

    fn set(&mut self, (name, is_in_path): (&str, bool), v: Vec<u8>) -> Result<(), MasterKeyError> {
        if is_in_path && name == "id" {
            self.id = Some(v);
            return Ok(());
        }
        let text = String::from_utf8(v).map_err(|_| failed(&format!("{name}: not UTF-8")))?;
        match (name, is_in_path) {
            ("token", true) => self.token = Some(text),
            ("serial", true) => self.serial = Some(text),
            ("manufacturer", true) => self.manufacturer = Some(text),
            ("model", true) => self.model = Some(text),
            ("object", true) => self.object = Some(text),
            ("type", true) if text == "secret-key" => {}
            ("type", true) => return Err(failed("type: expected secret-key, an AES key")),
            ("module-path", false) => self.module = text.into(),
            ("pin-source", false) => self.pin = Some(pin_source(&text)?),
            ("pin-value", false) => {
                return Err(failed("pin-value would show the PIN; use pin-source=file:PATH"));
            }
            _ => return Err(failed(&format!("attribute {name} is unknown in this place"))),
        }
        Ok(())
    }

    /// Reads the PIN, if a source is given.
    pub(crate) fn pin(&self) -> Result<Option<String>, MasterKeyError> {
        let text = match &self.pin {
            None => return Ok(None),
            Some(PinSource::File(path)) => read_private_file(path, PIN_BYTES_MAX)?,
            Some(PinSource::Variable(name)) => std::env::var(name)
                .map_err(|_| failed(&format!("environment variable {name} is not set")))?,
        };
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// The name that is stored with each data key that the key wrapped.
    pub(crate) fn name(label: &[u8], id: &[u8]) -> String {
        let length = (label.len() as u64).to_le_bytes();
        let identity = [&length[..], label, id].concat();
        let hash = blake3::derive_key("upesi 2026-11-28 name of a key in a token", &identity);
        format!("pkcs11-{}", short_name(&hash))
    }
}

fn pin_source(text: &str) -> Result<PinSource, MasterKeyError> {
    match text.split_once(':') {
        Some(("file", path)) => {
            // A URI may have an empty authority.
            let path = path.strip_prefix("//").unwrap_or(path);
            Ok(PinSource::File(Path::new(path).to_owned()))
        }
        Some(("env", name)) => Ok(PinSource::Variable(name.to_owned())),
        _ if text.starts_with('/') => Ok(PinSource::File(Path::new(text).to_owned())),
        _ => Err(failed("pin-source: expected file:PATH or env:NAME")),
    }
}

/// Decodes `%XX`.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    Some(decoded)
}

fn failed(what: &str) -> MasterKeyError {
    MasterKeyError::Source(format!("pkcs11: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_path_and_query_are_read() {
        let uri = KeyUri::parse(
            "token=The%20vault;object=upesi;id=%01%ff;type=secret-key?module-path=/lib/hsm.so\
             &pin-source=file:/etc/upesi/pin",
        );
        let expected = KeyUri {
            module: "/lib/hsm.so".into(),
            token: Some("The vault".into()),
            object: Some("upesi".into()),
            id: Some(vec![1, 255]),
            pin: Some(PinSource::File("/etc/upesi/pin".into())),
            ..KeyUri::default()
        };
        assert_eq!(uri, Ok(expected));
        let pin = |text: &str| pin_source(text).expect("a source");
        assert_eq!(pin("file:///etc/pin"), PinSource::File("/etc/pin".into()));
        assert_eq!(pin("/etc/pin"), PinSource::File("/etc/pin".into()));
        assert_eq!(pin("env:PIN"), PinSource::Variable("PIN".into()));
    }

    #[test]
    fn refusals_name_the_attribute_but_not_its_value() {
        for (text, expected) in [
            ("object=a", "module-path is missing"),
            ("?module-path=/lib/hsm.so", "object or id is missing"),
            ("object=%4g?module-path=/lib/hsm.so", "object: bad %-code"),
            ("object=%ff?module-path=/lib/hsm.so", "object: not UTF-8"),
            ("object=a;type=private?module-path=/lib/hsm.so", "expected secret-key"),
            ("object=a?module-path=/lib/hsm.so&pin-value=1234", "pin-value would show the PIN"),
            ("object=a?module-path=/lib/hsm.so&pin-source=1234", "expected file:PATH"),
            ("object=a;module-path=/lib/hsm.so", "attribute module-path is unknown in this place"),
            ("object=a?object=b", "attribute object is unknown in this place"),
        ] {
            let error = KeyUri::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected) && !error.contains("1234"), "{text}: {error}");
        }
    }

    #[test]
    fn names_differ_by_label_and_id() {
        let names: std::collections::BTreeSet<_> = [("ab", "c"), ("a", "bc"), ("a", "b"), ("", "")]
            .map(|(label, id)| KeyUri::name(label.as_bytes(), id.as_bytes()))
            .into();
        assert_eq!(names.len(), 4);
    }
}
