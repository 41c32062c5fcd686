//! Where a new version has its place: beside the old one while it is built, and then under its own name.
//!
//! The program is the same before, during and after the switch. What is stored decides.

use super::{Consumer, NEXT};
use crate::run_error::RunError;
use crate::tables::Tables;
use crate::tables::consumers::Registered;
use crate::tx::Tx;
use anabranch_core::StoreError;
use anabranch_store::Log;
use std::sync::Arc;

/// How often a place is looked for that others change at the same moment.
const ATTEMPTS: usize = 5;

impl Consumer {
    /// The same, as the new version of one that may exist.
    pub(crate) fn rebuilding(mut self) -> Self {
        self.is_rebuild = true;
        self
    }

    /// Its name, whether or not it is built beside the old version.
    pub(crate) fn own_name(&self) -> &str {
        match self.is_beside() {
            true => self.name.strip_suffix(NEXT.0).unwrap_or(&self.name),
            false => &self.name,
        }
    }

    /// Whether it is being built beside the old version.
    pub(crate) fn is_beside(&self) -> bool {
        !self.suffix.is_empty()
    }

    /// Registers it where its place is, and returns it as it is called there.
    pub(crate) async fn take_place(
        self: &Arc<Self>,
        log: &Log,
        tables: &Tables,
    ) -> Result<Arc<Self>, RunError> {
        let mut placed = self.placed(tables).await?;
        for _ in 0..ATTEMPTS {
            let Err(error) = placed.register(log, tables).await else { return Ok(placed) };
            // Somebody may have switched, or begun, between the two looks.
            let again = self.placed(tables).await?;
            if again.name == placed.name {
                return Err(error);
            }
            placed = again;
        }
        placed.register(log, tables).await.map(|()| placed)
    }

    /// Under its own name if nothing is there or its own version is; beside an older version; refused
    /// where a newer one is.
    async fn placed(self: &Arc<Self>, tables: &Tables) -> Result<Arc<Self>, RunError> {
        if !self.is_rebuild {
            return Ok(Arc::clone(self));
        }
        let known = tables.registered(Some(self.own_name())).await?;
        let known = known.first().filter(|known| known.is_set_up);
        let is_older = known.is_some_and(|known| known.version < self.settings.version);
        if let Some(newer) = known.filter(|known| known.version > self.settings.version) {
            return Err(self.is_outdated(newer.version));
        }
        match is_older == self.is_beside() {
            true => Ok(Arc::clone(self)),
            false => Ok(Arc::new(self.moved(is_older))),
        }
    }

    fn moved(&self, beside: bool) -> Self {
        let mut moved = self.clone();
        (moved.name, moved.suffix) = match beside {
            true => (format!("{}{}", self.own_name(), NEXT.0), NEXT.1),
            false => (self.own_name().to_owned(), ""),
        };
        moved
    }

    /// Refuses to be built beside what is not older, in the transaction that registers it: the version
    /// beside which it is built must not be switched meanwhile.
    pub(super) async fn must_be_newer(&self, tables: &Tables, tx: &mut Tx) -> Result<(), RunError> {
        if !self.is_beside() {
            return Ok(());
        }
        let own = self.own_name();
        let known = tables.registered_in(tx.session(), own, tables.for_update).await?;
        match known {
            Some(Registered { version, .. }) if version < self.settings.version => Ok(()),
            _ => Err(RunError::refused(
                &self.name,
                format!("there is no older version of `{own}` to build it beside; start it again"),
            )),
        }
    }

    /// The refusal of a version whose place a newer one has taken.
    pub(crate) fn is_outdated(&self, newer: u32) -> RunError {
        let own = self.settings.version;
        RunError::refused(
            self.own_name(),
            format!(
                "version {newer} has taken the place of version {own}; run the program with that \
                 version"
            ),
        )
    }
}

/// Leaves out what the set has as an old version of a consumer whose new version is stored already: a
/// program may have both, so that the old one is served while the new one is built.
pub(crate) async fn leave_out_outdated(
    consumers: &mut Vec<Arc<Consumer>>,
    tables: &Tables,
) -> Result<(), StoreError> {
    let rebuilds: Vec<(String, u32)> = consumers
        .iter()
        .filter(|consumer| consumer.is_rebuild)
        .map(|consumer| (consumer.own_name().to_owned(), consumer.settings.version))
        .collect();
    for (name, version) in rebuilds {
        let known = tables.registered(Some(&name)).await?;
        let is_built_beside = known.iter().any(|known| known.is_set_up && known.version < version);
        if !is_built_beside {
            consumers.retain(|consumer| consumer.is_rebuild || consumer.name != name);
        }
    }
    Ok(())
}
