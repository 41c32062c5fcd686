//! The code of an error whose type is not known where it is printed.

use crate::{
    AuditError, ImportError, MissingEvents, OperateError, RebuildError, ReplayError, RunError,
    TuningError,
};
use anabranch_core::{ErrorCode, code_among};
use anabranch_store::value::{ColumnError, ValueError};
use std::error::Error;

/// The code of an error, not of its causes, if it is of this crate or those below.
#[doc(hidden)]
#[must_use]
pub fn code_of_runtime(error: &(dyn Error + 'static)) -> Option<ErrorCode> {
    let here = || {
        code_among!(
            error;
            RunError, OperateError, ReplayError, MissingEvents, RebuildError, ImportError, ColumnError,
            ValueError, TuningError, AuditError,
        )
    };
    ErrorCode::of_core(error).or_else(here)
}
