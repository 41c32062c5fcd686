//! Times as they stand on the command line.

use jiff::SignedDuration;
use std::time::Duration;

/// A time such as `5s`, `10m` or `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    let parsed = parsed.map_err(|_| "use a time such as 5s, 10m or 1h30m".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "it must not be negative".to_owned())
}
