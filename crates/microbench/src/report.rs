//! Results: tables of figures.

use serde::Serialize;

/// Everything one run measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The tables, in the order of measuring.
    pub sections: Vec<Section>,
    /// What the figures leave out, one sentence each.
    pub not_measured: Vec<&'static str>,
}

/// One table.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// A short name: `kernel`, `durable`, `arrivals`, `store`, `log`, `codec`, `fspiop`,
    /// `messages`, `jws`, `stream`.
    pub name: &'static str,
    /// What was measured, and how.
    pub about: String,
    /// Names of the figures, with their units.
    pub columns: Vec<&'static str>,
    /// One row per case.
    pub rows: Vec<Row>,
}

/// One row of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case.
    pub case: String,
    /// One figure per column.
    pub figures: Vec<f64>,
}
