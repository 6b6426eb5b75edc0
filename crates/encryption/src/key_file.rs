//! The file with the wrapped data keys.
//!
//! A text file. The second line has the random identity of the set of keys, which each wrapped key
//! is bound to. Then comes a line per data key, oldest first: id, time of its creation in
//! microseconds, name of the master key that wrapped it, wrapped bytes, and for a key of a
//! participant its name. Keys that were destroyed follow: id, times of creation and destruction,
//! participant. The last line has the CRC-32C of everything before it. Without keys of
//! participants, the version is 1.
//!
//! ```text
//! upesi data keys, version 2
//! set 00112233445566778899aabbccddeeff
//! key 0123456789abcdef 1764316800000000 5f0e12cc90aa3d41 9f86d081884c7d65…
//! key 23456789abcdef01 1764316800000000 5f0e12cc90aa3d41 0a1b2c3d4e5f6071… bank-a
//! destroyed 456789abcdef0123 1764230400000000 1764316800000000 bank-a
//! end 4b7c0a11
//! ```

use std::fmt::Write as _;

use ledger::FspName;
use ports::{Disk, DiskError, DiskFile, KeyId};
use record::checksum::crc32c;

use crate::master_key::parse_hexadecimal;

/// Name of the file.
pub const KEY_FILE: &str = "data.keys";
/// Name of a new file until it is complete.
const NEW_FILE: &str = "data.keys.new";
const FIRST_LINE: &str = "upesi data keys, version 1";
/// The first line of a file that has, or had, keys of participants.
const FIRST_LINE_OF_PARTICIPANTS: &str = "upesi data keys, version 2";
/// Maximum length, in bytes: a data key for each hour of 50 years.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// Random identity of the set.
    pub set: [u8; 16],
    /// The data keys, oldest first.
    pub keys: Vec<WrappedKey>,
    /// The keys of participants that were destroyed.
    pub destroyed: Vec<DestroyedKey>,
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
    /// The participant whose contents it encrypts; `None` for the key of everything else.
    pub participant: Option<FspName>,
}

/// A data key of a participant without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestroyedKey {
    /// Its id.
    pub id: KeyId,
    /// When it was made, in microseconds since 1970.
    pub created_us: u64,
    /// When it was destroyed, in microseconds since 1970.
    pub destroyed_us: u64,
    /// The participant whose contents it encrypted.
    pub participant: FspName,
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

    /// The authenticated context of a wrapped key: its id, the time of its creation and its
    /// participant.
    pub(crate) fn context(&self, key: (KeyId, u64, Option<&FspName>)) -> Vec<u8> {
        let (id, created_us, participant) = key;
        let participant = participant.map_or(&[][..], FspName::as_bytes);
        let (id, created) = (id.0.to_le_bytes(), created_us.to_le_bytes());
        [b"upesi data key", &self.set[..], &id, &created, participant].concat()
    }

    /// Removes keys that were destroyed.
    pub(crate) fn drop_destroyed(&mut self) {
        let Self { keys, destroyed, .. } = self;
        keys.retain(|key| destroyed.iter().all(|it| it.id != key.id));
    }

    fn first_line(&self) -> &'static str {
        let of_participants = self.keys.iter().any(|key| key.participant.is_some());
        match of_participants || !self.destroyed.is_empty() {
            true => FIRST_LINE_OF_PARTICIPANTS,
            false => FIRST_LINE,
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("{}\nset {}\n", self.first_line(), hexadecimal(&self.set));
        for WrappedKey { id, created_us, master, wrapped, participant } in &self.keys {
            let wrapped = hexadecimal(wrapped);
            write!(text, "key {id} {created_us} {master} {wrapped}").expect("memory");
            if let Some(participant) = participant {
                write!(text, " {participant}").expect("memory");
            }
            text.push('\n');
        }
        for DestroyedKey { id, created_us, destroyed_us, participant } in &self.destroyed {
            writeln!(text, "destroyed {id} {created_us} {destroyed_us} {participant}")
                .expect("memory");
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
        if ![FIRST_LINE, FIRST_LINE_OF_PARTICIPANTS].map(Some).contains(&lines.next()) {
            return Err("it has another format version");
        }
        let set = lines.next().and_then(|line| parse_hexadecimal(line.strip_prefix("set ")?));
        let set = set.and_then(|set| set.try_into().ok()).ok_or("its second line is wrong")?;
        let mut file = Self { set, keys: Vec::new(), destroyed: Vec::new() };
        for line in lines {
            match (parse_key(line), parse_destroyed(line)) {
                (Some(key), _) => file.keys.push(key),
                (_, Some(key)) => file.destroyed.push(key),
                (None, None) => return Err("a line of a key is wrong"),
            }
        }
        Ok(file)
    }
}

fn parse_key(line: &str) -> Option<WrappedKey> {
    let mut words = line.strip_prefix("key ")?.split(' ');
    let id = KeyId(u64::from_str_radix(words.next()?, 16).ok()?);
    let created_us = words.next()?.parse().ok()?;
    let master = words.next()?.to_owned();
    let wrapped = parse_hexadecimal(words.next()?)?;
    let participant = match words.next() {
        Some(name) => Some(FspName::new(name)?),
        None => None,
    };
    let key = WrappedKey { id, created_us, master, wrapped, participant };
    words.next().is_none().then_some(key)
}

fn parse_destroyed(line: &str) -> Option<DestroyedKey> {
    let mut words = line.strip_prefix("destroyed ")?.split(' ');
    let id = KeyId(u64::from_str_radix(words.next()?, 16).ok()?);
    let created_us = words.next()?.parse().ok()?;
    let destroyed_us = words.next()?.parse().ok()?;
    let participant = FspName::new(words.next()?)?;
    let key = DestroyedKey { id, created_us, destroyed_us, participant };
    words.next().is_none().then_some(key)
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
            participant: None,
        };
        KeyFile { set: [7; 16], keys: vec![key(1), key(2)], destroyed: Vec::new() }
    }

    fn with_participants() -> KeyFile {
        let mut file = example();
        let participant = FspName::new("bank-a").expect("a name");
        file.keys[0].participant = Some(participant);
        let (created_us, destroyed_us) = (1, 2);
        let key = DestroyedKey { id: KeyId(3), created_us, destroyed_us, participant };
        file.destroyed.push(key);
        file
    }

    #[test]
    fn content_survives() {
        let file = example();
        assert_eq!(KeyFile::parse(file.to_text().as_bytes()), Ok(file));
        let empty = KeyFile { keys: Vec::new(), ..example() };
        assert_eq!(KeyFile::parse(empty.to_text().as_bytes()), Ok(empty));
        let file = with_participants();
        assert_eq!(KeyFile::parse(file.to_text().as_bytes()), Ok(file));
    }

    /// Earlier programs read the files of directories without keys of participants.
    #[test]
    fn version_tells_of_keys_of_participants() {
        assert!(example().to_text().starts_with(FIRST_LINE));
        assert!(with_participants().to_text().starts_with(FIRST_LINE_OF_PARTICIPANTS));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_detected() {
        let text = with_participants().to_text();
        for at in 0..text.len() - 1 {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert!(KeyFile::parse(&changed).is_err(), "byte {at}");
            assert!(KeyFile::parse(&text.as_bytes()[..at]).is_err(), "{at} bytes");
        }
    }
}
