//! The file with the wrapped data keys.
//!
//! A text file. The second line has the random identity of the set of keys, which each wrapped key
//! is bound to. Then comes a line per data key, oldest first: id, time of its creation in
//! microseconds, name of the master key that wrapped it, wrapped bytes. The last line has the
//! CRC-32C of everything before it.
//!
//! ```text
//! upesi data keys, version 1
//! set 00112233445566778899aabbccddeeff
//! key 0123456789abcdef 1764316800000000 5f0e12cc90aa3d41 9f86d081884c7d65…
//! end 4b7c0a11
//! ```

use std::fmt::Write as _;

use ports::{Disk, DiskError, DiskFile, KeyId};
use record::checksum::crc32c;

use crate::master_key::parse_hexadecimal;

/// Name of the file.
pub const KEY_FILE: &str = "data.keys";
/// Name of a new file until it is complete.
const NEW_FILE: &str = "data.keys.new";
const FIRST_LINE: &str = "upesi data keys, version 1";
/// Maximum length, in bytes: a data key for each hour of 50 years.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// Random identity of the set.
    pub set: [u8; 16],
    /// The data keys, oldest first.
    pub keys: Vec<WrappedKey>,
}

/// A data key as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// Its id.
    pub id: KeyId,
    /// When it was made, in microseconds since 1970.
    pub created_us: u64,
    /// The master key that wrapped it.
    pub master: String,
    /// The wrapped key.
    pub wrapped: Vec<u8>,
}

/// Why the file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// It is damaged.
    #[error(
        "{KEY_FILE} is damaged ({0}); restore it from a copy of this directory, because without \
         it nothing encrypted can be read"
    )]
    Damaged(&'static str),
    /// The disk failed.
    #[error("{KEY_FILE}: {0}")]
    Disk(#[from] DiskError),
}

impl KeyFile {
    /// Reads the file; `None` if there is no such file.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn read(disk: &impl Disk) -> Result<Option<Self>, KeyFileError> {
        let file = match disk.open(KEY_FILE) {
            Err(DiskError::NotFound(_)) => return Ok(None),
            opened => opened?,
        };
        let length = file.length()?;
        if FILE_BYTES_MAX < length {
            return Err(KeyFileError::Damaged("it is too long"));
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(0, &mut bytes)?;
        Self::parse(&bytes[..read]).map(Some).map_err(KeyFileError::Damaged)
    }

    /// Replaces the file. It is durable when this returns.
    ///
    /// # Errors
    /// [`DiskError`]; the old file is unchanged, unless the last sync of the directory failed.
    pub fn write(&self, disk: &impl Disk) -> Result<(), DiskError> {
        match disk.remove(NEW_FILE) {
            Ok(()) | Err(DiskError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let file = disk.create(NEW_FILE)?;
        file.write_at(0, self.to_text().as_bytes())?;
        file.sync()?;
        disk.rename(NEW_FILE, KEY_FILE)?;
        disk.sync_directory()
    }

    /// The authenticated context of a wrapped key.
    pub(crate) fn context(&self, key: (KeyId, u64)) -> Vec<u8> {
        let (id, created_us) = key;
        let parts: [&[u8]; 4] =
            [b"upesi data key", &self.set, &id.0.to_le_bytes(), &created_us.to_le_bytes()];
        parts.concat()
    }

    fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nset {}\n", hexadecimal(&self.set));
        for WrappedKey { id, created_us, master, wrapped } in &self.keys {
            let wrapped = hexadecimal(wrapped);
            writeln!(text, "key {id} {created_us} {master} {wrapped}").expect("memory");
        }
        let sum = crc32c(text.as_bytes());
        writeln!(text, "end {sum:08x}").expect("memory");
        text
    }

    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = str::from_utf8(bytes).map_err(|_| "it is not text")?;
        let (content, end) = text.trim_end().rsplit_once('\n').ok_or("it was cut short")?;
        let content = &text[..=content.len()];
        let sum = end.strip_prefix("end ").ok_or("its last line is missing")?;
        if sum != format!("{:08x}", crc32c(content.as_bytes())) {
            return Err("its checksum is wrong");
        }
        let mut lines = content.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("it has another format version");
        }
        let set = lines.next().and_then(|line| parse_hexadecimal(line.strip_prefix("set ")?));
        let set = set.and_then(|set| set.try_into().ok()).ok_or("its second line is wrong")?;
        let keys = lines.map(|line| parse_key(line).ok_or("a line of a key is wrong"));
        Ok(Self { set, keys: keys.collect::<Result<_, _>>()? })
    }
}

fn parse_key(line: &str) -> Option<WrappedKey> {
    let mut words = line.strip_prefix("key ")?.split(' ');
    let id = KeyId(u64::from_str_radix(words.next()?, 16).ok()?);
    let created_us = words.next()?.parse().ok()?;
    let master = words.next()?.to_owned();
    let wrapped = parse_hexadecimal(words.next()?)?;
    words.next().is_none().then_some(WrappedKey { id, created_us, master, wrapped })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> KeyFile {
        let key = |id| WrappedKey {
            id: KeyId(id),
            created_us: 1_764_316_800_000_000 + id,
            master: "5f0e12cc90aa3d41".into(),
            wrapped: vec![id as u8; 60],
        };
        KeyFile { set: [7; 16], keys: vec![key(1), key(2)] }
    }

    #[test]
    fn content_survives() {
        let file = example();
        assert_eq!(KeyFile::parse(file.to_text().as_bytes()), Ok(file));
        let empty = KeyFile { keys: Vec::new(), ..example() };
        assert_eq!(KeyFile::parse(empty.to_text().as_bytes()), Ok(empty));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_detected() {
        let text = example().to_text();
        for at in 0..text.len() - 1 {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert!(KeyFile::parse(&changed).is_err(), "byte {at}");
            assert!(KeyFile::parse(&text.as_bytes()[..at]).is_err(), "{at} bytes");
        }
    }
}
