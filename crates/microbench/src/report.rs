//! Results, as tables and as JSON.

use std::fmt;

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

/// Widest name of a case.
const CASE_WIDTH: usize = 46;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for section in &self.sections {
            writeln!(f, "{section}")?;
        }
        writeln!(f, "Not measured here:")?;
        self.not_measured.iter().try_for_each(|what| writeln!(f, "  {what}"))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.about)?;
        write!(f, "  {:CASE_WIDTH$}", self.name)?;
        for column in &self.columns {
            write!(f, "  {column:>11}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "  {:CASE_WIDTH$}", row.case)?;
            for (figure, column) in row.figures.iter().zip(&self.columns) {
                write!(f, "  {:>width$}", number(*figure), width = column.len().max(11))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Three digits at least, thousands apart.
pub(crate) fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.*}", if value < 10.0 { 2 } else { 1 });
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        for (value, expected) in [
            (0.0, "0.00"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1_234.0, "1,234"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn a_table_has_its_figures_under_their_names() {
        let row = Row { case: "one".into(), figures: vec![1.0, 2_000.0] };
        let (about, columns) = ("A thing.".into(), vec!["ns", "commands/s"]);
        let sections = vec![Section { name: "kernel", about, columns, rows: vec![row] }];
        let text = Report { sections, not_measured: vec!["sockets"] }.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1].len(), lines[2].len(), "{text}");
        assert!(lines[1].ends_with("commands/s") && lines[2].ends_with("2,000"), "{text}");
    }
}
