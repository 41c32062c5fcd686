//! Who has claims on rows of a part.

use crate::part::Part;
use anabranch_core::StoreError;
use anabranch_store::Row;
use anabranch_store::database::column;

/// Whose a claim is, as the tables say it.
pub(crate) mod whose {
    pub(crate) const OWN: &str = "own";
    pub(crate) const OTHERS: &str = "others";
    /// Of an instance whose lease is over.
    pub(crate) const NOBODYS: &str = "nobodys";
}

/// Who has claims on rows of a part.
#[derive(Default)]
pub(crate) struct Claims {
    /// Whether this instance still handles some.
    in_work: bool,
    /// Whether its session has some in the log.
    pub(crate) own: bool,
    others: bool,
    /// Whether instances have left some behind.
    pub(crate) nobodys: bool,
}

impl Claims {
    /// From the rows of [`Tables::claims`](crate::tables::Tables::claims).
    pub(crate) fn of(
        in_work: bool,
        part: Part,
        at: &str,
        rows: &[Row],
    ) -> Result<Self, StoreError> {
        let mut claims = Self { in_work, ..Self::default() };
        for row in rows {
            if !part.has(&column::<String>(at, row, "key")?) {
                continue;
            }
            match column::<String>(at, row, "whose")?.as_str() {
                whose::OWN => claims.own = true,
                whose::OTHERS => claims.others = true,
                _ => claims.nobodys = true,
            }
        }
        Ok(claims)
    }

    /// Whether nobody is at work, here or elsewhere, or has left something behind.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.in_work && !self.others && !self.nobodys
    }
}
