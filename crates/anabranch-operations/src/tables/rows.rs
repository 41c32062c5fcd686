//! What the rows of plans and of the journal say.

use super::Tables;
use crate::basis::Basis;
use crate::journal::{JournalEntry, Stage};
use crate::plan::{Effect, Plan, PlanState};
use crate::request::Request;
use anabranch_core::{StoreError, time};
use anabranch_store::Row;
use anabranch_store::database::column;
use anabranch_store::value::FromValue;
use serde_json::value::RawValue;
use uuid::Uuid;

impl Tables {
    /// The time that [`clock`](Self::clock) answers.
    #[cfg(feature = "webhook")]
    pub(crate) fn time(&self, rows: &[Row]) -> Result<i64, StoreError> {
        let row = rows.first().ok_or_else(|| self.corrupt("no clock".to_owned()))?;
        self.column(row, "now_us")
    }

    fn column<T: FromValue>(&self, row: &Row, name: &str) -> Result<T, StoreError> {
        column(self.database.at(), row, name)
    }

    /// That something is stored that no version of this program has written so.
    pub(crate) fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt { at: self.database.at().to_owned(), what }
    }

    fn id(&self, row: &Row, name: &str) -> Result<Uuid, StoreError> {
        let text: String = self.column(row, name)?;
        text.parse().map_err(|_| self.corrupt(format!("`{name}` is no id: {text}")))
    }

    /// What a column holds as JSON, unless another version has written what this one does not know.
    fn known<T: serde::de::DeserializeOwned>(
        &self,
        row: &Row,
        name: &str,
        unreadable: &mut Option<String>,
    ) -> Result<Option<T>, StoreError> {
        let text: String = self.column(row, name)?;
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                unreadable.get_or_insert(format!("its {name}: {error}"));
                Ok(None)
            }
        }
    }

    /// A plan, and whether it has expired. One that another version has made, and this one cannot read, is shown as such:
    /// while versions change, it must not hide all the others.
    pub(crate) fn plan(&self, row: &Row) -> Result<(Plan, bool), StoreError> {
        let at = |micros: Option<i64>| micros.map(time::from_micros);
        let mut unreadable = None;
        let request: Option<Request> = self.known(row, "request", &mut unreadable)?;
        let basis: Option<Basis> = self.known(row, "basis", &mut unreadable)?;
        let effect: Option<Effect> = self.known(row, "effect", &mut unreadable)?;
        let hash = request.as_ref().zip(basis.as_ref()).map(|(request, basis)| basis.hash(request));
        let mut effect = effect.unwrap_or_default();
        if let Some(why) = &unreadable {
            let note = format!("another version made this plan, and this one cannot read {why}");
            if effect.says.is_empty() {
                effect.says.clone_from(&note);
            }
            effect.notes.push(note);
        }
        let state: String = self.column(row, "state")?;
        let state = PlanState::of(&state)
            .ok_or_else(|| self.corrupt(format!("a plan that is `{state}`")))?;
        let (expires_us, now_us): (i64, i64) =
            (self.column(row, "expires_us")?, self.column(row, "now_us")?);
        let plan = Plan {
            id: self.id(row, "id")?,
            verb: request.as_ref().map_or("unknown", Request::verb),
            target: self.column(row, "target")?,
            hash: hash.unwrap_or_default(),
            request,
            effect,
            who: self.column(row, "who")?,
            via: self.column(row, "via")?,
            applied_by: self.column(row, "applied_by")?,
            applied_via: self.column(row, "applied_via")?,
            state,
            made_at: time::from_micros(self.column(row, "made_us")?),
            expires_at: time::from_micros(expires_us),
            began_at: at(self.column(row, "began_us")?),
            ended_at: at(self.column(row, "ended_us")?),
            total: self.column(row, "total")?,
            done: self.column(row, "done")?,
            gone: self.column(row, "gone")?,
            problem: self.column(row, "problem")?,
            basis: basis.unwrap_or_default(),
            unreadable,
            runner: self.column(row, "runner")?,
            after: self.column(row, "after")?,
        };
        Ok((plan, expires_us <= now_us))
    }

    /// An entry of the journal.
    pub(crate) fn journal_entry(&self, row: &Row) -> Result<JournalEntry, StoreError> {
        let raw = |name: &str| {
            let text: Option<String> = self.column(row, name)?;
            let raw = text.map(RawValue::from_string).transpose();
            raw.map_err(|error| self.corrupt(format!("`{name}`: {error}")))
        };
        let some = |name: &str| {
            raw(name)?.ok_or_else(|| self.corrupt(format!("an entry without `{name}`")))
        };
        let stage: String = self.column(row, "stage")?;
        Ok(JournalEntry {
            seq: self.column(row, "seq")?,
            at: time::from_micros(self.column(row, "at_us")?),
            plan: self.id(row, "plan")?,
            stage: Stage::of(&stage)
                .ok_or_else(|| self.corrupt(format!("an entry of stage `{stage}`")))?,
            verb: self.column(row, "verb")?,
            target: self.column(row, "target")?,
            who: self.column(row, "who")?,
            via: self.column(row, "via")?,
            request: some("request")?,
            effect: some("effect")?,
            outcome: raw("outcome")?,
        })
    }
}
