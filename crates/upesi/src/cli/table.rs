//! Tables for people: rows of text with aligned columns.
//!
//! A printed table fits the terminal: the widest texts are cut, and if that is not enough, columns
//! on the right are left out. Other outputs, `--output wide` and `--wide` get the complete table.

use std::fmt::{self, Display, Formatter};

use crate::cli::printable::printable;
use crate::cli::terminal::table_width;

/// Least width to which a text is cut.
const CUT_MIN: usize = 8;
/// Columns between two cells.
const GAP: usize = 2;

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

    /// Adds a row, whose cells may be texts from outside.
    pub(crate) fn add(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row.map(|cell| printable(&cell).replace(['\n', '\t'], " ")));
    }
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// Prints the table, fitted to the terminal.
    pub(crate) fn print(&self) {
        print!("{}", self.fitted(table_width()));
    }

    /// The table within a width.
    pub(crate) fn fitted(&self, width: Option<usize>) -> String {
        let mut widths = [0; COLUMNS];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let shown = width.map_or(COLUMNS, |width| self.fit(&mut widths, width));
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            let cells = row.iter().zip(widths).zip(self.alignment);
            for ((cell, width), align) in cells.take(shown) {
                let cell = cut(cell, width);
                line += &match align {
                    Align::Left => format!("  {cell:<width$}"),
                    Align::Right => format!("  {cell:>width$}"),
                };
            }
            text += line.trim_end();
            text += "\n";
        }
        text
    }

    /// Narrows columns of texts until the table fits. Returns the number of columns to show.
    fn fit(&self, widths: &mut [usize; COLUMNS], most: usize) -> usize {
        let total = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
        while most < total(widths) {
            let texts = (0..COLUMNS).filter(|at| self.alignment[*at] == Align::Left);
            let widest = texts.max_by_key(|at| widths[*at]);
            match widest.filter(|at| CUT_MIN < widths[*at]) {
                Some(at) => widths[at] -= 1,
                None => break,
            }
        }
        let fits = |shown: &usize| total(&widths[..*shown]) <= most;
        (1..=COLUMNS).rev().find(fits).unwrap_or(1)
    }
}

/// A text that is cut at a width, with a sign where it was cut.
fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

impl<const COLUMNS: usize> Display for Table<COLUMNS> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fitted(None))
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
    #[test]
    fn tables_fit_a_width() {
        let left = |name| (name, Align::Left);
        let mut table = Table::new([left("name"), ("USD", Align::Right), left("text"), left("x")]);
        table.add(["dfsp1".into(), "5000".into(), "a long explanation".into(), "yes".into()]);
        for (width, expected) in [
            (80, "  name    USD  text                x\n  dfsp1  5000  a long explanation  yes\n"),
            (32, "  name    USD  text          x\n  dfsp1  5000  a long expl…  yes\n"),
            (24, "  name    USD  text\n  dfsp1  5000  a long …\n"),
            (1, "  name\n  dfsp1\n"),
        ] {
            assert_eq!(table.fitted(Some(width)), expected, "{width}");
        }
    }
}
