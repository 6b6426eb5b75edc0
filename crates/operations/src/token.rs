//! The bearer token that every change needs (DESIGN, contract 14).
//!
//! It is stored in a file that only its owner may read, created on first start. The file is read
//! for every change, so that replacing its content replaces the token. Changes are rare and the
//! file is one block. If the file is unreadable or accessible to others, changes are refused.
//!
//! An externally managed file is never written, and its group may read it, too: container
//! platforms often own secret files and share them with the container's group.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ::identity::SecretsKey;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Random bytes of a generated token.
const RANDOM_BYTES: usize = 32;
/// Minimum length of a token, in characters.
const CHARACTERS_MIN: usize = 32;
/// Maximum length of a token, in characters.
const CHARACTERS_MAX: usize = 256;
/// Forbidden permission bits of our own file: any for group and others.
const OWN_FILE_DENIED: u32 = 0o077;
/// Forbidden permission bits of an externally managed file: all but reading by the group.
const EXTERNAL_FILE_DENIED: u32 = 0o037;

/// The token's file. The secret itself stays in the file.
#[derive(Clone, Debug)]
pub struct Token {
    path: PathBuf,
    /// Permissions that make the file unfit.
    denied: u32,
}

/// Reads the token's file, or creates it with mode 0600 and 32 random bytes in base64url.
///
/// # Errors
/// Errors of the file system; `PermissionDenied` if others than the owner may access the file;
/// `InvalidData` if its content is not a token: 32 to 256 visible ASCII characters.
pub fn load_or_create_token(path: &Path) -> io::Result<Token> {
    let token = Token { path: path.to_owned(), denied: OWN_FILE_DENIED };
    if let Err(error) = token.read() {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        create(path)?;
        token.read()?;
    }
    Ok(token)
}

/// Reads an externally managed token file; never creates one.
///
/// # Errors
/// Errors of the file system; `PermissionDenied` if others may access the file, or its group may do
/// more than read it; `InvalidData` as for [`load_or_create_token`].
pub fn load_token(path: &Path) -> io::Result<Token> {
    let token = Token { path: path.to_owned(), denied: EXTERNAL_FILE_DENIED };
    token.read().map(|_| token)
}

/// Reads the key of sessions and secrets, or creates its file, as [`load_or_create_token`] does.
///
/// # Errors
/// As for [`load_or_create_token`].
pub fn load_or_create_secrets_key(path: &Path) -> io::Result<SecretsKey> {
    load_or_create_token(path)?.read().map(|text| SecretsKey::new(&text))
}

/// Reads the key of sessions and secrets from an externally managed file, as [`load_token`] does.
///
/// # Errors
/// As for [`load_token`].
pub fn load_secrets_key(path: &Path) -> io::Result<SecretsKey> {
    load_token(path)?.read().map(|text| SecretsKey::new(&text))
}

impl Token {
    /// Compares the token with the one that a client presented, in constant time. Returns the
    /// token's fingerprint if they are equal.
    pub(crate) fn verify(&self, presented: &[u8]) -> io::Result<Option<Fingerprint>> {
        let expected = blake3::hash(self.read()?.as_bytes());
        // Equality of BLAKE3 hashes is constant-time.
        Ok((blake3::hash(presented) == expected).then(|| Fingerprint::of(&expected)))
    }

    fn read(&self) -> io::Result<String> {
        let file = File::open(&self.path)?;
        if file.metadata()?.permissions().mode() & self.denied != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{}: accessible to others than its owner; restrict its permissions",
                    self.path.display()
                ),
            ));
        }
        let mut text = String::new();
        file.take(CHARACTERS_MAX as u64 + 2).read_to_string(&mut text)?;
        let token = text.trim_ascii_end();
        let fits = (CHARACTERS_MIN..=CHARACTERS_MAX).contains(&token.len());
        if !fits || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{}: invalid token: expected 32 to 256 visible ASCII characters",
                    self.path.display()
                ),
            ));
        }
        Ok(token.to_owned())
    }
}

/// The first four bytes of a token's hash: identifies the token without revealing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 4]);

impl Fingerprint {
    fn of(hash: &blake3::Hash) -> Self {
        let [a, b, c, d, ..] = *hash.as_bytes();
        Self([a, b, c, d])
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Writes a new token to a temporary file and renames it, so that no reader sees a partial token.
fn create(path: &Path) -> io::Result<()> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{}", URL_SAFE_NO_PAD.encode(random))?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &str, mode: u32, expected: Option<io::ErrorKind>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin-token");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = load_or_create_token(&path).err().map(|error| error.kind());
        assert_eq!(error, expected, "{content:?} with mode {mode:o}");
    }

    #[test]
    fn only_a_private_file_with_a_long_visible_token_is_accepted() {
        let token = "t".repeat(32);
        check(&token, 0o600, None);
        check(&format!("{token}\n"), 0o400, None);
        check(&token, 0o640, Some(io::ErrorKind::PermissionDenied));
        check(&token, 0o604, Some(io::ErrorKind::PermissionDenied));
        check("", 0o600, Some(io::ErrorKind::InvalidData));
        check(&"t".repeat(31), 0o600, Some(io::ErrorKind::InvalidData));
        check(&"t".repeat(257), 0o600, Some(io::ErrorKind::InvalidData));
        check(&format!("{token} {token}"), 0o600, Some(io::ErrorKind::InvalidData));
    }

    #[test]
    fn the_group_may_read_an_external_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let kind = || load_token(&path).err().map(|error| error.kind());
        assert_eq!(kind(), Some(io::ErrorKind::NotFound));
        assert!(!path.exists(), "none is created");
        fs::write(&path, "t".repeat(32)).unwrap();
        for (mode, expected) in [
            (0o400, None),
            (0o440, None),
            (0o460, Some(io::ErrorKind::PermissionDenied)),
            (0o444, Some(io::ErrorKind::PermissionDenied)),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(kind(), expected, "{mode:o}");
        }
    }

    #[test]
    fn a_token_is_created_once_and_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin-token");
        load_or_create_token(&path).unwrap();
        let first = fs::read_to_string(&path).unwrap();
        load_or_create_token(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
        assert_eq!(first.trim_end().len(), 43);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_replaced_token_applies_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin-token");
        let token = load_or_create_token(&path).unwrap();
        let first = fs::read_to_string(&path).unwrap();
        let verify = |presented: &str| token.verify(presented.as_bytes()).unwrap().is_some();
        assert!(verify(first.trim_end()));
        let second = "another-token-of-sufficient-length";
        fs::write(&path, second).unwrap();
        assert!(verify(second));
        assert!(!verify(first.trim_end()));
        assert!(!verify(""));
        fs::remove_file(&path).unwrap();
        assert!(token.verify(second.as_bytes()).is_err());
    }
}
