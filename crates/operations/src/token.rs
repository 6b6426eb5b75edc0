//! The bearer token that every change needs (DESIGN, contract 14).
//!
//! It lives in one file that only its owner may read, is made on first start, and is read again
//! for every change, so that replacing the file's content replaces the token. Changes are rare
//! and the file is one block; when it cannot be read or is open to others, changes are refused.
//!
//! A file that somebody else keeps is only read, and its group may read it too: what hands out
//! secrets to containers often owns them, and gives them to the container's group.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Random bytes of a token made here.
const RANDOM_BYTES: usize = 32;
/// Fewest characters of a token.
const CHARACTERS_MIN: usize = 32;
/// Most characters of a token.
const CHARACTERS_MAX: usize = 256;
/// What nobody but the owner may do with a file of ours.
const OURS: u32 = 0o077;
/// What may not be done with a file that we are given: its group may read it.
const GIVEN: u32 = 0o037;

/// Where the token is kept. The secret itself stays in the file.
#[derive(Clone, Debug)]
pub struct Token {
    path: PathBuf,
    /// Permissions that make the file unfit.
    denied: u32,
}

/// Reads the token's file, or makes one of mode 0600 with 32 random bytes in base64url.
///
/// # Errors
/// Whatever the file system says; `PermissionDenied` when others than the owner may use the
/// file; `InvalidData` when its content is no token: 32 to 256 visible ASCII characters.
pub fn load_or_create_token(path: &Path) -> io::Result<Token> {
    let token = Token { path: path.to_owned(), denied: OURS };
    if let Err(error) = token.read() {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        create(path)?;
        token.read()?;
    }
    Ok(token)
}

/// Reads a token's file that somebody else keeps, and never makes one.
///
/// # Errors
/// Whatever the file system says; `PermissionDenied` when anybody may use the file, or its group
/// may do more than read it; `InvalidData` as [`load_or_create_token`].
pub fn load_token(path: &Path) -> io::Result<Token> {
    let token = Token { path: path.to_owned(), denied: GIVEN };
    token.read().map(|_| token)
}

impl Token {
    /// Compares with what a client presented, in a time that does not depend on the content;
    /// answers with the token's fingerprint when they are the same.
    pub(crate) fn verify(&self, presented: &[u8]) -> io::Result<Option<Fingerprint>> {
        let expected = blake3::hash(self.read()?.as_bytes());
        // Equality of BLAKE3 hashes takes the same time wherever they differ.
        Ok((blake3::hash(presented) == expected).then(|| Fingerprint::of(&expected)))
    }

    fn read(&self) -> io::Result<String> {
        let file = File::open(&self.path)?;
        if file.metadata()?.permissions().mode() & self.denied != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{} may be used by others than its owner", self.path.display()),
            ));
        }
        let mut text = String::new();
        file.take(CHARACTERS_MAX as u64 + 2).read_to_string(&mut text)?;
        let token = text.trim_ascii_end();
        let fits = (CHARACTERS_MIN..=CHARACTERS_MAX).contains(&token.len());
        if !fits || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} holds no token", self.path.display()),
            ));
        }
        Ok(token.to_owned())
    }
}

/// The first four bytes of a token's hash: says which token was used, and nothing about it.
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

/// Writes a fresh token beside its place and moves it there, so that no reader sees half of it.
fn create(path: &Path) -> io::Result<()> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    writeln!(file, "{}", URL_SAFE_NO_PAD.encode(random))?;
    file.sync_all()?;
    fs::rename(&beside, path)
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
    fn only_a_private_file_with_a_long_visible_token_is_taken() {
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
    fn the_group_may_read_a_file_that_is_given() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let kind = || load_token(&path).err().map(|error| error.kind());
        assert_eq!(kind(), Some(io::ErrorKind::NotFound));
        assert!(!path.exists(), "none is made");
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
    fn a_token_is_made_once_and_is_private() {
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
    fn a_replaced_token_is_in_force_at_once() {
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
