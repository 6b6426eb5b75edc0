//! The DFSPs of a process, and the one that a path belongs to.

use std::sync::Arc;

use crate::dfsp::Dfsp;

/// The DFSPs. With more than one, the first segment of a path names the DFSP.
#[derive(Clone)]
pub(crate) struct Tenants(Arc<[Arc<Dfsp>]>);

impl Tenants {
    pub(crate) fn new(dfsps: Vec<Arc<Dfsp>>) -> Self {
        Self(dfsps.into())
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Dfsp>> {
        self.0.iter()
    }

    /// The DFSP of a path, and the rest of the path, which begins with a slash.
    pub(crate) fn find<'a>(&self, path: &'a str) -> Option<(&Arc<Dfsp>, &'a str)> {
        if let [only] = &*self.0 {
            return Some((only, path));
        }
        let (name, _) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        let dfsp = self.0.iter().find(|dfsp| dfsp.policy.fsp_id == name)?;
        let rest = &path[1 + name.len()..];
        Some((dfsp, if rest.is_empty() { "/" } else { rest }))
    }
}
