//! Rows as a test compares them.

use crate::Row;
use crate::value::{ColumnError, FromValue};

/// What a row of a query can be read as: a tuple with a type for each column, or the [`Row`] itself.
///
/// ```
/// # use anabranch::testing::{FromRow, TestError, TestKit};
/// # use anabranch::params;
/// # async fn f(kit: &TestKit) -> Result<(), TestError> {
/// let totals: Vec<(String, i64)> = kit.rows("SELECT id, total FROM totals", params![]).await?;
/// # Ok(()) }
/// ```
pub trait FromRow: Sized {
    /// How many columns it takes; any number, if that is `None`.
    const COLUMNS: Option<usize>;

    /// Reads a row.
    fn from_row(row: Row) -> Result<Self, ColumnError>;
}

impl FromRow for Row {
    const COLUMNS: Option<usize> = None;

    fn from_row(row: Row) -> Result<Self, ColumnError> {
        Ok(row)
    }
}

macro_rules! tuples {
    ($($count:literal: $($column:literal $name:ident)+;)*) => {$(
        impl<$($name: FromValue),+> FromRow for ($($name,)+) {
            const COLUMNS: Option<usize> = Some($count);

            fn from_row(row: Row) -> Result<Self, ColumnError> {
                Ok(($(row.get::<$name>($column)?,)+))
            }
        }
    )*};
}

tuples! {
    1: 0 A;
    2: 0 A 1 B;
    3: 0 A 1 B 2 C;
    4: 0 A 1 B 2 C 3 D;
    5: 0 A 1 B 2 C 3 D 4 E;
    6: 0 A 1 B 2 C 3 D 4 E 5 F;
    7: 0 A 1 B 2 C 3 D 4 E 5 F 6 G;
    8: 0 A 1 B 2 C 3 D 4 E 5 F 6 G 7 H;
}
