//! What the command itself refuses, and how errors are printed.

use anabranch::errors::{ErrorCode, ErrorKind, error_code};
use anabranch_terminal::output::harmless;
use serde::Serialize;
use std::error::Error;
use std::fmt;

/// What the command refuses, with the code of it.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: ErrorCode,
    said: String,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, said: impl Into<String>) -> Self {
        Self { code, said: said.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl Error for Refusal {}

/// Ends with a [`Refusal`].
macro_rules! refuse {
    ($code:ident, $($said:tt)*) => {
        return Err($crate::refusal::Refusal::new(::anabranch::errors::ErrorCode::$code, format!($($said)*)).into())
    };
}

/// The same, unless something is true.
macro_rules! refuse_unless {
    ($holds:expr, $code:ident, $($said:tt)*) => {
        if !$holds {
            $crate::refusal::refuse!($code, $($said)*);
        }
    };
}

pub(crate) use {refuse, refuse_unless};

/// An error as it is printed.
#[derive(Serialize)]
pub(crate) struct Printed {
    code: Option<ErrorCode>,
    kind: Option<&'static str>,
    message: String,
}

impl Printed {
    /// What happened, and why. Our own errors name their cause in their text, and then have no source.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let own = error.chain().find_map(|cause| cause.downcast_ref::<Refusal>());
        let code = own.map(|refusal| refusal.code).or_else(|| error_code(error.as_ref()));
        let kind = code.map(|code| ErrorKind::name(code.kind()));
        Self { code, kind, message: format!("{error:#}") }
    }

    /// Whether it lies in how the command was called.
    pub(crate) fn is_not_confirmed(&self) -> bool {
        self.code == Some(ErrorCode::NotConfirmed)
    }
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", harmless(self.message.clone()))?;
        match self.code {
            Some(code) => write!(f, " [{code}]"),
            None => Ok(()),
        }
    }
}
