//! Results: tables of figures.

use serde::Serialize;

/// The results of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The tables, in the order of measuring.
    pub sections: Vec<Section>,
    /// Aspects that the figures do not cover, one sentence each.
    pub not_measured: Vec<&'static str>,
}

/// One table.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// A short name: `kernel`, `durable`, `arrivals`, `store`, `log`, `codec`, `fspiop`,
    /// `messages`, `jws`, `stream`.
    pub name: &'static str,
    /// The measured quantities and the method.
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
