//! The output of `cargo metadata` about our crates and external ones.

use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The resolved workspace, for all platforms and features.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) members: Vec<Member>,
    pub(crate) externals: Vec<External>,
}

/// One of our crates.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// From the root, with `/`.
    pub(crate) manifest: String,
    /// Its dependencies, for building, running or testing.
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) for_tests: bool,
}

/// A crate of someone else.
#[derive(Debug)]
pub(crate) struct External {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression; empty when the crate states none.
    pub(crate) licence: String,
    pub(crate) source: String,
}

impl Workspace {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(program)
            .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("cargo metadata did not start: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "cargo metadata failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        let metadata = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata is no JSON: {error}"))?;
        Ok(Self::parse(&metadata))
    }

    pub(crate) fn parse(metadata: &Value) -> Self {
        let root = text(&metadata["workspace_root"]);
        let mut workspace = Self::default();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            if package["source"].is_null() {
                workspace.members.push(Member {
                    name: text(&package["name"]),
                    manifest: from_root(&text(&package["manifest_path"]), &root),
                    dependencies: dependencies(package),
                });
            } else {
                workspace.externals.push(External {
                    name: text(&package["name"]),
                    version: text(&package["version"]),
                    licence: text(&package["license"]),
                    source: text(&package["source"]),
                });
            }
        }
        workspace
    }
}

fn dependencies(package: &Value) -> Vec<Dependency> {
    let listed = package["dependencies"].as_array().into_iter().flatten();
    listed
        .map(|dependency| Dependency {
            name: text(&dependency["name"]),
            for_tests: dependency["kind"] == "dev",
        })
        .collect()
}

fn from_root(path: &str, root: &str) -> String {
    path.strip_prefix(root).unwrap_or(path).trim_start_matches('/').to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_split_into_ours_and_theirs() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [
                { "name": "ledger", "source": null, "manifest_path": "/w/crates/ledger/Cargo.toml",
                  "dependencies": [
                    { "name": "blake3", "kind": null }, { "name": "proptest", "kind": "dev" },
                  ] },
                { "name": "blake3", "version": "1.0.0", "license": "CC0-1.0 OR Apache-2.0",
                  "source": "registry+https://example.org" },
            ],
        });
        let workspace = Workspace::parse(&metadata);
        let member = &workspace.members[0];
        assert_eq!(member.manifest, "crates/ledger/Cargo.toml");
        let dependencies: Vec<_> = member
            .dependencies
            .iter()
            .map(|found| (found.name.as_str(), found.for_tests))
            .collect();
        assert_eq!(dependencies, [("blake3", false), ("proptest", true)]);
        assert_eq!(workspace.externals[0].licence, "CC0-1.0 OR Apache-2.0");
    }
}
