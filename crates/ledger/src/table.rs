//! `tables!` declares the tables of a state: number, name, row type, whether the order of the rows
//! is part of the logical state, and the maximum number of rows.
//!
//! It derives the enum of tables, the visit of all rows for snapshots and the state hash, and the
//! builder's reader with its bounds, and the descriptions of rows. Each row type needs a
//! `TableRow`: the rows of a state, and how a builder adds the next one.

macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        $number:literal $table:ident: $row:ty, $order:ident, at most $bound:expr;
    )*) => {
        $crate::field::numbered! {
            /// The tables of a state, in the order in which a [`StateBuilder`] takes them.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub enum Table: u16 {
                $( $(#[$doc])* $table = $number, )*
            }
        }

        impl Table {
            /// Whether the order of the rows is part of the logical state.
            #[must_use]
            pub const fn is_ordered(self) -> bool {
                match self {
                    $( Self::$table => $crate::table::tables!(@$order), )*
                }
            }

            const fn rows_max(self) -> usize {
                match self {
                    $( Self::$table => $bound, )*
                }
            }
        }

        $( impl InTable for $row {
            const TABLE: Table = Table::$table;
        } )*

        impl StateTables<'_> {
            /// Passes every table to a visitor, in order.
            ///
            /// # Errors
            /// Those of the visitor.
            pub fn visit<V: TableVisitor>(self, visitor: &mut V) -> Result<(), V::Error> {
                $( visitor.table(Table::$table, <$row as TableRow>::all(self.0))?; )*
                Ok(())
            }
        }

        impl Table {
            /// Describes the stored form of a row.
            ///
            /// # Errors
            /// [`FieldError`] if the bytes are not a row of this table.
            pub fn describe(self, mut row: Reader<'_>) -> Result<Description, FieldError> {
                match self {
                    $( Self::$table => row.value::<$row>().map(|row| row.describe()), )*
                }
            }
        }

        impl StateBuilder {
            /// Reads the next row of a table.
            ///
            /// # Errors
            /// [`RowError`] if the bytes are not a valid row, or the row contradicts earlier ones.
            pub fn row(&mut self, table: Table, from: &mut Reader<'_>) -> Result<(), RowError> {
                match table {
                    $( Table::$table => self.add_row(from.value::<$row>()?)?, )*
                }
                Ok(())
            }
        }
    };
    (@ordered) => { true };
    (@unordered) => { false };
}

pub(crate) use tables;
