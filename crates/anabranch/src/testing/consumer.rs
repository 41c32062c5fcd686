//! What a kit can run.

use crate::{Projection, ReplicaSet, Rollup, Subscriber, View};

/// What a [`TestKit`](super::TestKit) can run: a projection, view, rollup, subscriber, pool, the
/// [`Workflows`](crate::workflow::Workflows) of a workflow, or a whole [`ReplicaSet`]. Which of these it is
/// (`Kind`) the compiler finds out.
///
/// A type that is several of these is added to a [`ReplicaSet`] as the one that is meant.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that a TestKit runs",
    note = "give it a Projection, View, Rollup, Subscriber, Pool or OutsidePool by value, `&Workflows`, or a \
            ReplicaSet with several of them"
)]
pub trait Testable<Kind> {
    /// The replica set that has it.
    fn into_set(self) -> ReplicaSet;
}

/// The kinds of consumers that a kit runs, which tell the implementations of [`Testable`] apart.
pub mod kind {
    macro_rules! kinds {
        ($($(#[$doc:meta])* $kind:ident),* $(,)?) => {
            $($(#[$doc])* #[derive(Clone, Copy, Debug)] pub enum $kind {})*
        };
    }

    kinds! {
        /// A projection.
        Projection,
        /// A view.
        View,
        /// A rollup.
        Rollup,
        /// A subscriber.
        Subscriber,
        /// A pool.
        Pool,
        /// A pool with effects outside.
        OutsidePool,
        /// A workflow.
        Workflow,
        /// A replica set.
        Set,
    }
}

fn set() -> ReplicaSet {
    ReplicaSet::new("test")
}

impl<P: Projection> Testable<kind::Projection> for P {
    fn into_set(self) -> ReplicaSet {
        set().projection(self)
    }
}

impl<V: View> Testable<kind::View> for V {
    fn into_set(self) -> ReplicaSet {
        set().view(self)
    }
}

impl<R: Rollup> Testable<kind::Rollup> for R {
    fn into_set(self) -> ReplicaSet {
        set().rollup(self)
    }
}

impl<S: Subscriber> Testable<kind::Subscriber> for S {
    fn into_set(self) -> ReplicaSet {
        set().subscriber(self)
    }
}

#[cfg(feature = "workpool")]
impl<P: crate::workpool::Pool> Testable<kind::Pool> for P {
    fn into_set(self) -> ReplicaSet {
        crate::workpool::PoolSet::pool(set(), self)
    }
}

#[cfg(feature = "workpool")]
impl<P: crate::workpool::OutsidePool> Testable<kind::OutsidePool> for P {
    fn into_set(self) -> ReplicaSet {
        crate::workpool::PoolSet::outside_pool(set(), self)
    }
}

#[cfg(feature = "workflow")]
impl<W: crate::workflow::Workflow> Testable<kind::Workflow> for &crate::workflow::Workflows<W> {
    fn into_set(self) -> ReplicaSet {
        crate::workflow::WorkflowSet::workflow(set(), self)
    }
}

impl Testable<kind::Set> for ReplicaSet {
    fn into_set(self) -> ReplicaSet {
        self
    }
}
