//! Reads the fields of a file and collects every fault with its line.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::document::{FileFault, Node, Value};

/// Faults found so far.
#[derive(Default)]
pub(super) struct Faults(RefCell<Vec<FileFault>>);

/// The fields of one table that have not been read yet.
pub(super) struct Fields<'n> {
    /// Line of the table, for missing fields.
    pub(super) line: usize,
    path: String,
    left: BTreeMap<&'n str, &'n Node>,
    faults: &'n Faults,
}

impl Faults {
    pub(super) fn add(&self, line: usize, text: String) {
        self.0.borrow_mut().push(FileFault { line, text });
    }

    /// All faults, by line.
    pub(super) fn sorted(self) -> Vec<FileFault> {
        let mut all = self.0.into_inner();
        all.sort_by_key(|fault| fault.line);
        all
    }
}

impl<'n> Fields<'n> {
    /// The fields of a table. Anything else is a fault.
    pub(super) fn of(node: &'n Node, path: String, faults: &'n Faults) -> Option<Self> {
        let Value::Table(members) = &node.value else {
            let name = if path.is_empty() { "the file" } else { &path };
            faults.add(node.line, format!("{name}: must be a table"));
            return None;
        };
        let is_set = |node: &Node| !matches!(node.value, Value::Null);
        let left = members.iter().filter(|(_, node)| is_set(node));
        let left = left.map(|(name, node)| (name.as_str(), node)).collect();
        Some(Self { line: node.line, path, left, faults })
    }

    /// A field that must be set.
    pub(super) fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'n Node) -> Result<T, String>,
    ) -> Option<T> {
        if !self.left.contains_key(name) {
            self.faults.add(self.line, format!("{}: missing", self.path_of(name)));
        }
        self.optional(name, read)
    }

    /// A field that may be left out.
    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'n Node) -> Result<T, String>,
    ) -> Option<T> {
        let node = self.left.remove(name)?;
        let read = read(node);
        read.map_err(|text| self.fault(node.line, name, &text)).ok()
    }

    /// The elements of a list; empty if it is left out.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        read: impl Fn(&'n Node) -> Result<T, String>,
    ) -> Vec<(usize, T)> {
        let Some(node) = self.left.remove(name) else { return Vec::new() };
        let Value::List(list) = &node.value else {
            self.fault(node.line, name, "must be a list");
            return Vec::new();
        };
        let mut elements = Vec::new();
        for (at, node) in list.iter().enumerate() {
            match read(node) {
                Ok(element) => elements.push((node.line, element)),
                Err(text) => self.fault(node.line, &format!("{name}[{at}]"), &text),
            }
        }
        elements
    }

    /// The tables of a list; empty if it is left out.
    pub(super) fn tables(&mut self, name: &str) -> Vec<Self> {
        let nodes = self.list(name, Ok);
        let path = self.path_of(name);
        let table = |(at, (_, node))| Self::of(node, format!("{path}[{at}]"), self.faults);
        nodes.into_iter().enumerate().filter_map(table).collect()
    }

    /// The members of a table whose names are data, with their lines; empty if it is left out.
    pub(super) fn members(&mut self, name: &str) -> Vec<(&'n str, &'n Node)> {
        let Some(node) = self.left.remove(name) else { return Vec::new() };
        let fields = Self::of(node, self.path_of(name), self.faults);
        fields.map(|fields| fields.left.into_iter().collect()).unwrap_or_default()
    }

    /// Reports a fault of a field.
    pub(super) fn fault(&self, line: usize, name: &str, text: &str) {
        self.faults.add(line, format!("{}: {text}", self.path_of(name)));
    }

    /// Reports the fields that nothing has read.
    pub(super) fn end(self) {
        for (name, node) in &self.left {
            self.fault(node.line, name, "unknown field");
        }
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// A text.
pub(super) fn text(node: &Node) -> Result<&str, String> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => Err("must be a text".to_owned()),
    }
}

/// A flag.
pub(super) fn flag(node: &Node) -> Result<bool, String> {
    match node.value {
        Value::Flag(flag) => Ok(flag),
        _ => Err("must be true or false".to_owned()),
    }
}

/// One of the names.
pub(super) fn one_of<'t>(names: &[&'t str], node: &Node) -> Result<&'t str, String> {
    let text = text(node)?;
    let found = names.iter().find(|name| **name == text);
    found.copied().ok_or_else(|| format!("must be one of {}", names.join(", ")))
}
