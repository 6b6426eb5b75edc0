//! Tables for people: rows of text with aligned columns.

use std::fmt::{self, Display, Formatter};

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows below a heading, indented by two spaces. A column is as wide as its longest cell.
#[derive(Debug)]
pub(crate) struct Table<const COLUMNS: usize> {
    alignment: [Align; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(columns: [(&str, Align); COLUMNS]) -> Self {
        let heading = columns.map(|(name, _)| name.to_owned());
        Self { alignment: columns.map(|(_, align)| align), rows: vec![heading] }
    }

    pub(crate) fn add(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }
}

impl<const COLUMNS: usize> Display for Table<COLUMNS> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut widths = [0; COLUMNS];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(widths).zip(self.alignment) {
                line += &match align {
                    Align::Left => format!("  {cell:<width$}"),
                    Align::Right => format!("  {cell:>width$}"),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new([("name", Align::Left), ("USD", Align::Right)]);
        table.add(["dfsp1".to_owned(), "5000".to_owned()]);
        table.add([String::new(), "10".to_owned()]);
        assert_eq!(table.to_string(), "  name    USD\n  dfsp1  5000\n           10\n");
    }
}
