//! Which strategy fits, from five questions.

use super::Strategy;

/// Yes/no answers about what a consumer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Does each effect depend on one entity only?
    pub one_entity: bool,
    /// Must the events of one customer stay in order across entities?
    pub customer_order: bool,
    /// Do the events of one business process, which share a correlation, belong together?
    pub process: bool,
    /// Must all events be handled in one total order?
    pub total_order: bool,
    /// Do events of different keys write the same row, such as a sum for each day?
    pub shared_rows: bool,
}

/// The strategy that fits, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// The strategy.
    pub strategy: Strategy,
    /// How many lanes to begin with.
    pub lanes: usize,
    /// Why.
    pub reason: &'static str,
    /// What to mind beside it.
    pub caution: Option<&'static str>,
}

/// Recommends a strategy. The most restrictive yes wins, because order that was lost is not found
/// again, while parallelism is.
///
/// ```
/// use anabranch_core::partition::{Answers, Strategy, classify};
/// let advice = classify(Answers { one_entity: true, ..Answers::default() });
/// assert_eq!((advice.strategy, advice.lanes), (Strategy::Entity, 10));
/// ```
#[must_use]
pub fn classify(answers: Answers) -> Recommendation {
    let (strategy, reason) = match answers {
        Answers { total_order: true, .. } => (
            Strategy::Global,
            "All events must be handled in one total order, so there is one sequence and one lane.",
        ),
        Answers { process: true, .. } => (
            Strategy::Saga,
            "The events of one business process belong together, so they share the slot of their \
             correlation.",
        ),
        Answers { customer_order: true, .. } => (
            Strategy::Customer,
            "The events of one customer must stay in order across entities, so they share the slot \
             of the customer.",
        ),
        Answers { one_entity: true, .. } => (
            Strategy::Entity,
            "Each effect depends on one entity only, so entities can go side by side: the most \
             parallel choice.",
        ),
        Answers { one_entity: false, .. } => (
            Strategy::Entity,
            "Nothing asks for order beyond one entity; since effects touch several, they must not \
             depend on the order between those.",
        ),
    };
    // In one sequence nobody else writes.
    let is_shared = answers.shared_rows && strategy != Strategy::Global;
    let caution = is_shared.then_some(
        "Events of different keys write the same row, so two lanes may write it at once: let the \
         database add (SET total = total + 1), make it a Rollup, or partition by what the row is \
         (custom). Reading a row and writing it back would lose updates.",
    );
    Recommendation { strategy, lanes: strategy.recommended_lanes(), reason, caution }
}
