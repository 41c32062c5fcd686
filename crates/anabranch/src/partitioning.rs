//! Slots and partitions as values, for programs that compute with them.
//!
//! ```
//! use anabranch::HashRule;
//! use anabranch::partitioning::SLOTS;
//!
//! let slot = HashRule::Fnv1a.slot("ord-123");
//! assert!(slot.get() < SLOTS);
//! ```

pub use anabranch_core::partition::{Answers, Recommendation, classify};
pub use anabranch_core::rescale::Extent;
pub use anabranch_core::{
    Cursor, Rates, SLOTS, ScopeKey, Slot, SlotColumn, SlotSet, Slots, Strategy, Weights,
};
