//! The plans that this process carries out: of those that go step by step, so many at the same time.

use crate::problem::Problem;
use anabranch::errors::ErrorCode;
use anabranch::operations::{OperationError, Operations, Plan};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// How many plans may be carried out step by step at the same time.
const MOST: usize = 16;

/// Places for plans that go step by step.
pub(crate) struct Applying {
    places: Arc<Semaphore>,
    /// Those that have a place: nobody here goes on with one of them, however long it keeps silent.
    plans: Mutex<HashSet<Uuid>>,
}

/// Why a plan has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All are taken.
    Full,
    /// It has one.
    Running(Uuid),
}

/// The place of a plan, until it is dropped.
pub(crate) struct Place {
    applying: Arc<Applying>,
    plan: Uuid,
    _permit: OwnedSemaphorePermit,
}

impl Applying {
    pub(crate) fn new() -> Arc<Self> {
        let places = Arc::new(Semaphore::new(MOST));
        Arc::new(Self { places, plans: Mutex::default() })
    }

    /// A place for a plan.
    pub(crate) fn begin(self: &Arc<Self>, plan: Uuid) -> Result<Place, NoPlace> {
        let permit = Arc::clone(&self.places).try_acquire_owned().map_err(|_| NoPlace::Full)?;
        let is_new = self.plans.lock().unwrap_or_else(PoisonError::into_inner).insert(plan);
        match is_new {
            true => Ok(Place { applying: Arc::clone(self), plan, _permit: permit }),
            false => Err(NoPlace::Running(plan)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut plans = self.applying.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.remove(&self.plan);
    }
}

impl From<NoPlace> for Problem {
    fn from(none: NoPlace) -> Self {
        match none {
            NoPlace::Full => {
                let said = "this server carries out as many plans as it can at the same time; try again when one has ended";
                Self::new(ErrorCode::TooManyRequests, said).after_seconds(5)
            }
            NoPlace::Running(id) => OperationError::Running { id }.into(),
        }
    }
}

/// Carries out a plan in a task of its own: a client that goes away ends nothing that it has begun.
pub(crate) fn carry_out(
    operations: Operations,
    id: Uuid,
    place: Option<Place>,
) -> JoinHandle<Result<Plan, OperationError>> {
    tokio::spawn(async move {
        let applied = operations.apply(id, |_| {}).await;
        match &applied {
            // Somebody else carries it out, or did.
            Ok(_) | Err(OperationError::Running { .. } | OperationError::Used { .. }) => {}
            // Whoever asked may be gone by now.
            Err(error) => {
                tracing::warn!(target: "anabranch::server", "plan {id} was not carried out to its end: {error}");
            }
        }
        drop(place);
        applied
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_one_place_and_there_are_so_many() {
        let applying = Applying::new();
        let plan = Uuid::now_v7();
        let place = applying.begin(plan).map_err(drop).unwrap();
        assert_eq!(applying.begin(plan).err(), Some(NoPlace::Running(plan)));
        let others: Vec<_> = (1..MOST).map(|_| applying.begin(Uuid::now_v7())).collect();
        assert!(others.iter().all(Result::is_ok), "what was refused takes no place");
        assert_eq!(applying.begin(Uuid::now_v7()).err(), Some(NoPlace::Full));
        drop(place);
        assert!(applying.begin(plan).is_ok());
    }
}
