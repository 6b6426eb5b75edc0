//! Disk usage of a data directory by purpose.

use std::path::Path;

use serde::Serialize;

/// Bytes of the files of a data directory. Files that vanish during the scan do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Segments of the log.
    pub log: u64,
    /// Archived segments, usually compressed.
    pub archive: u64,
    /// The cold store.
    pub store: u64,
    /// Snapshots of the state.
    pub snapshots: u64,
    /// Everything else: the token, small files, the switch's output.
    pub other: u64,
}

impl Footprint {
    /// Measures the directory.
    #[must_use]
    pub fn of(data: &Path) -> Self {
        let mut found = Self::default();
        found.add(data, Path::new(""));
        found
    }

    /// The sum of all purposes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.log + self.archive + self.store + self.snapshots + self.other
    }

    fn add(&mut self, data: &Path, within: &Path) {
        let entries = std::fs::read_dir(data.join(within)).into_iter().flatten().flatten();
        for entry in entries {
            let path = within.join(entry.file_name());
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => self.add(data, &path),
                Ok(metadata) => *self.part(&path) += metadata.len(),
                Err(_) => {}
            }
        }
    }

    /// The counter of a file, by the names of its directory and its own.
    fn part(&mut self, path: &Path) -> &mut u64 {
        let directory = path.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let of = |word: &str| path.iter().count() > 1 && directory.starts_with(word);
        if of("archive") || name.ends_with(".packed") {
            &mut self.archive
        } else if of("store") {
            &mut self.store
        } else if of("snapshot") || name.ends_with(".snapshot") {
            &mut self.snapshots
        } else if name.ends_with(".segment") {
            &mut self.log
        } else {
            &mut self.other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_classified_by_their_names() {
        let mut found = Footprint::default();
        for (bytes, path) in [
            (1, "00000000000000000001.segment"),
            (10, "00000000000000000001.packed"),
            (20, "archive/segments/00000000000000000001.packed"),
            (100, "store/parties/1.sst"),
            (1_000, "snapshots/17"),
            (10_000, "admin-token"),
            (10_000, "store"),
        ] {
            *found.part(Path::new(path)) += bytes;
        }
        let expected =
            Footprint { log: 1, archive: 30, store: 100, snapshots: 1_000, other: 20_000 };
        assert_eq!(found, expected);
        assert_eq!(found.total(), 21_131);
    }

    #[test]
    fn missing_directory_has_size_zero() {
        assert_eq!(Footprint::of(Path::new("/nowhere/at/all")).total(), 0);
    }
}
