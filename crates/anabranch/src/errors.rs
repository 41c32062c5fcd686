//! Stable codes of errors, whatever their type: see the page `docs/errors.md`.

pub use anabranch_core::{ErrorCode, ErrorKind, UnknownName};
use std::error::Error;

/// The stable code of the first error of Anabranch among an error and its causes: for a place that prints or
/// answers all errors alike. Where the type is known, its `code()` says the same.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let error: Box<dyn std::error::Error> = anabranch::connect("mysql://x").await.unwrap_err().into();
/// let code = anabranch::errors::error_code(error.as_ref()).unwrap();
/// assert_eq!((code.name(), code.kind().http_status()), ("invalid_url", 400));
/// # }
/// ```
///
/// All codes stand in `docs/errors.md`.
#[must_use]
pub fn error_code(error: &(dyn Error + 'static)) -> Option<ErrorCode> {
    std::iter::successors(Some(error), |error| (**error).source()).find_map(code_of)
}

fn code_of(error: &(dyn Error + 'static)) -> Option<ErrorCode> {
    let code = anabranch_runtime::code_of_runtime(error)
        .or_else(|| error.downcast_ref::<crate::testing::TestError>()?.code());
    #[cfg(feature = "workpool")]
    let code = code.or_else(|| {
        use crate::workpool::{DcbFailure, DcbRejected, TaskConditionError, TaskError};
        anabranch_core::code_among!(error; TaskError, DcbRejected, DcbFailure, TaskConditionError)
    });
    #[cfg(feature = "operations")]
    let code = code.or_else(|| {
        use crate::operations::OperationError;
        anabranch_core::code_among!(error; OperationError)
    });
    #[cfg(feature = "workflow")]
    let code = code.or_else(|| {
        use crate::workflow::{LifecycleError, LoadError};
        anabranch_core::code_among!(error; LoadError, LifecycleError)
    });
    #[cfg(feature = "batch")]
    let code = code.or_else(|| {
        use crate::batch::{BatchError, PartError};
        anabranch_core::code_among!(error; BatchError, PartError)
    });
    code
}

#[cfg(test)]
mod tests;
