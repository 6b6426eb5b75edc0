//! The values before and after a change, for the audit trail.
//!
//! The rows of the parts that a change [touches](ledger::ChangeDeclaration::touches) are compared
//! before and after it, whatever the change is. Secrets are compared and not shown. Tables of
//! payments and their notices are left out: `upesi explain` shows them.
//!
//! Costs: a copy of the stored rows of these parts per change. Bounds: [`ROWS_MAX`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;

use ledger::field::{Field, Reader, Row};
use ledger::snapshot::{Table, TableVisitor};
use ledger::{
    AssignParties, Change, Description, Outcome, ParticipantIndex, PartyBinding, PartyChangeForm,
    State, StatePart, is_hashed_identifier, shown_identifier,
};
use serde_json::{Map, Value};

use crate::responses::Timestamp;
use crate::schema::{self, Extent, json_name, response_type};

/// Maximum number of changed rows that are shown.
const ROWS_MAX: usize = 1_000;
/// Tables of payments.
const LEFT_OUT: [Table; 4] =
    [Table::ReservedTransfers, Table::FinalTransfers, Table::PendingFees, Table::Notices];
/// Shown for a value that authenticates an operator.
const SECRET: &str = "(secret)";

/// The rows of the touched parts before a change.
#[derive(Debug)]
pub struct ValuesBefore {
    parts: Vec<StatePart>,
    rows: StoredRows,
}

/// The decision on a change, and the rows that it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditValues {
    outcome: Outcome,
    rows: Vec<ChangedRow>,
    left_out: usize,
}

/// A row with the fields that a change changed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChangedRow {
    table: String,
    key: Value,
    before: Option<Value>,
    after: Option<Value>,
}

response_type! {
    /// The decision on a change, and the rows that it changed.
    pub(crate) struct ValuesResponse as "AuditValues" {
        decision: String,
        rows: Vec<ChangedRowResponse>,
        /// Number of further changed rows.
        left_out: usize,
    }
}

response_type! {
    /// A changed row of the state.
    pub(crate) struct ChangedRowResponse as "AuditRow" {
        /// Its table.
        table: String,
        /// The fields that name the row.
        key: Value = any_object(),
        /// The changed fields before the change; absent for a new row.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<Value> = any_object(),
        /// The changed fields after it; absent for a removed row.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<Value> = any_object(),
    }
}

fn any_object() -> Value {
    schema::object([], Extent::Open)
}

/// Stored rows by table, and the settings and rules in force.
#[derive(Debug)]
struct StoredRows {
    header: Description,
    tables: Vec<(Table, Vec<Vec<u8>>)>,
}

/// Collects the rows of some parts of a state.
struct RowCollector<'p> {
    parts: &'p [StatePart],
    tables: Vec<(Table, Vec<Vec<u8>>)>,
}

impl TableVisitor for RowCollector<'_> {
    type Error = Infallible;

    fn table<R: Row>(
        &mut self,
        table: Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), Infallible> {
        let is_wanted = table.parts().iter().any(|part| self.parts.contains(part));
        if is_wanted && !LEFT_OUT.contains(&table) {
            let stored = |row: R| {
                let mut bytes = Vec::new();
                row.write_row(&mut bytes);
                bytes
            };
            self.tables.push((table, rows.into_iter().map(stored).collect()));
        }
        Ok(())
    }
}

impl StoredRows {
    fn of(state: &State, parts: &[StatePart]) -> Self {
        let mut collector = RowCollector { parts, tables: Vec::new() };
        if !parts.is_empty() {
            let Ok(()) = state.tables().visit(&mut collector);
        }
        let header = state.tables().header();
        let header = Description::Fields(vec![
            ("settings", header.settings.describe()),
            ("rules_version", header.rules_version.describe()),
        ]);
        Self { header, tables: collector.tables }
    }
}

impl ValuesBefore {
    /// The rows that a change can touch, before it is decided.
    #[must_use]
    pub fn of(state: &State, change: &Change) -> Self {
        let touched = [change, change.decided()].map(|it| it.declaration().touches);
        let parts = touched.concat();
        Self { rows: StoredRows::of(state, &parts), parts }
    }

    /// Compares the rows with those after the change.
    #[must_use]
    pub fn compare(self, state: &State, (change, outcome): (&Change, Outcome)) -> AuditValues {
        let after = StoredRows::of(state, &self.parts);
        let names = Names(state);
        let mut values = AuditValues { outcome, rows: Vec::new(), left_out: 0 };
        if self.rows.header != after.header {
            let both = (Some(&self.rows.header), Some(&after.header));
            values.rows.push(names.changed_row("Settings", 0, both));
        }
        for ((table, before), (_, after)) in self.rows.tables.iter().zip(&after.tables) {
            values.add_rows(&names, *table, (before, after));
        }
        if let (Change::RegisterParties(change), Outcome::Accepted) = (change.decided(), outcome) {
            values.add_parties(&change.parties);
        }
        if let (Change::AssignParties(change), Outcome::Accepted) = (change.decided(), outcome) {
            values.assign_parties(change);
        }
        values
    }
}

impl AuditValues {
    /// Adds the new entries of a change of the party directory. Earlier ones are not in the state.
    fn add_parties(&mut self, parties: &[PartyBinding]) {
        for party in parties {
            self.push(|| ChangedRow {
                table: "Parties".to_owned(),
                key: Value::Object(Map::new()),
                before: None,
                after: Some(to_json(&party.describe(), &|index| index.0.to_string())),
            });
        }
    }

    /// Adds the entries that an operator registered or released, and their former FSPs.
    fn assign_parties(&mut self, change: &AssignParties) {
        for (number, party) in (0..).zip(&change.parties) {
            let entry = || Some(to_json(&party.describe(), &|index| index.0.to_string()));
            let former = change.former.iter().filter(|owner| owner.party == number);
            let former: Vec<_> = former.map(|owner| owner.fsp.to_string()).collect();
            self.push(|| ChangedRow {
                table: "Parties".to_owned(),
                key: Value::Object(Map::new()),
                before: match change.form {
                    PartyChangeForm::Delete => entry(),
                    _ if former.is_empty() => None,
                    _ => Some(serde_json::json!({"fsp": former.join(", ")})),
                },
                after: if change.form == PartyChangeForm::Delete { None } else { entry() },
            });
        }
    }

    /// Replaces hashes of parties by the identifiers that are known by them. Others were erased.
    pub(crate) fn reveal(&mut self, names: &BTreeMap<String, String>) {
        for row in &mut self.rows {
            let parts = [&mut row.before, &mut row.after].into_iter().flatten();
            parts.chain([&mut row.key]).for_each(|value| reveal(value, names));
        }
    }

    pub(crate) fn response(&self) -> ValuesResponse {
        let row = |row: &ChangedRow| ChangedRowResponse {
            table: row.table.clone(),
            key: row.key.clone(),
            before: row.before.clone(),
            after: row.after.clone(),
        };
        ValuesResponse {
            decision: format!("{:?}", self.outcome),
            rows: self.rows.iter().map(row).collect(),
            left_out: self.left_out,
        }
    }

    fn push(&mut self, row: impl FnOnce() -> ChangedRow) {
        match self.rows.len() < ROWS_MAX {
            true => self.rows.push(row()),
            false => self.left_out += 1,
        }
    }

    /// Adds the rows that differ. Rows with the same key are one row before and after.
    fn add_rows(
        &mut self,
        names: &Names<'_>,
        table: Table,
        (before, after): (&[Vec<u8>], &[Vec<u8>]),
    ) {
        let differing = |rows: &[Vec<u8>], others: &[Vec<u8>]| {
            let others: HashSet<&Vec<u8>> = others.iter().collect();
            let rows = rows.iter().filter(|row| !others.contains(row));
            rows.map(|row| describe(table, row)).collect::<Vec<_>>()
        };
        let (removed, added) = (differing(before, after), differing(after, before));
        let places = added.iter().enumerate().map(|(at, row)| (key_of(table, row), at));
        let mut places: HashMap<_, _> = places.collect();
        let mut new = vec![true; added.len()];
        for row in &removed {
            let place = places.remove(&key_of(table, row));
            if let Some(place) = place {
                new[place] = false;
            }
            let both = (Some(row), place.map(|place| &added[place]));
            self.push(|| names.changed_row(&format!("{table:?}"), table.key_fields(), both));
        }
        for (row, _) in added.iter().zip(new).filter(|(_, is_new)| *is_new) {
            let both = (None, Some(row));
            self.push(|| names.changed_row(&format!("{table:?}"), table.key_fields(), both));
        }
    }
}

fn reveal(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::String(text) if is_hashed_identifier(text) => {
            let name = names.get(text).cloned();
            *text = name.unwrap_or_else(|| shown_identifier(text).into_owned());
        }
        Value::Array(items) => items.iter_mut().for_each(|item| reveal(item, names)),
        Value::Object(members) => members.values_mut().for_each(|item| reveal(item, names)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn describe(table: Table, row: &[u8]) -> Description {
    table.describe(Reader(row)).expect("a row of the state is readable")
}

/// The fields that name a row.
fn key_of(table: Table, row: &Description) -> &[(&'static str, Description)] {
    let fields = fields_of(row);
    &fields[..table.key_fields().min(fields.len())]
}

fn fields_of(row: &Description) -> &[(&'static str, Description)] {
    if let Description::Fields(fields) = row { fields } else { &[] }
}

/// The names of participants.
struct Names<'s>(&'s State);

impl Names<'_> {
    fn changed_row(
        &self,
        table: &str,
        keys: usize,
        (before, after): (Option<&Description>, Option<&Description>),
    ) -> ChangedRow {
        let json = |value: &Description| to_json(value, &|index| self.name(index));
        let shown = before.or(after).map_or(&[][..], fields_of);
        let key = Description::Fields(shown[..keys.min(shown.len())].to_vec());
        let rest = |row: &Description| Description::Fields(fields_of(row)[keys..].to_vec());
        let (before, after) = match (before.map(rest), after.map(rest)) {
            (Some(before), Some(after)) => {
                let (before, after) = changed_fields(&before, &after);
                (Some(before), Some(after))
            }
            one => one,
        };
        ChangedRow {
            table: table.to_owned(),
            key: json(&key),
            before: before.as_ref().map(json),
            after: after.as_ref().map(json),
        }
    }

    fn name(&self, index: ParticipantIndex) -> String {
        self.0.registry().get(index).name.to_string()
    }
}

/// The parts of two values that differ. Of two lists, the entries that only one of them has.
fn changed_fields(before: &Description, after: &Description) -> (Description, Description) {
    match (before, after) {
        (Description::Fields(old), Description::Fields(new))
            if old.iter().map(|(name, _)| name).eq(new.iter().map(|(name, _)| name)) =>
        {
            let both = old.iter().zip(new).filter(|(old, new)| old != new);
            let changed = both.map(|((name, old), (_, new))| {
                let (old, new) = changed_fields(old, new);
                ((*name, old), (*name, new))
            });
            let (old, new) = changed.unzip();
            (Description::Fields(old), Description::Fields(new))
        }
        (Description::List(old), Description::List(new)) => {
            let only = |list: &[Description], other: &[Description]| -> Vec<_> {
                list.iter().filter(|entry| !other.contains(entry)).cloned().collect()
            };
            let (left, right) = (only(old, new), only(new, old));
            match left.is_empty() && right.is_empty() {
                true => (before.clone(), after.clone()),
                false => (Description::List(left), Description::List(right)),
            }
        }
        _ => (before.clone(), after.clone()),
    }
}

fn to_json(value: &Description, name: &dyn Fn(ParticipantIndex) -> String) -> Value {
    match value {
        Description::Absent => Value::Null,
        Description::Flag(flag) => (*flag).into(),
        Description::Number(number) => (*number).into(),
        Description::Text(text) => text.clone().into(),
        Description::Time(stamp) => Timestamp(*stamp).to_string().into(),
        Description::Participant(index) => name(*index).into(),
        Description::List(list) => list.iter().map(|entry| to_json(entry, name)).collect(),
        Description::Fields(fields) => {
            let member = |(field, value): &(&'static str, Description)| {
                (json_name(field, &[]), to_json(value, name))
            };
            Value::Object(fields.iter().map(member).collect())
        }
        Description::Secret(_) => SECRET.into(),
    }
}
