//! Without the feature `tls`: connections are not encrypted, and a URL that asks for it is refused.

use thiserror::Error;
use tokio_postgres::NoTls;
use tokio_postgres::config::SslMode;

/// What makes connections encrypted: nothing.
pub(crate) type Connector = NoTls;

#[derive(Debug, Error)]
#[error(
    "the URL says sslmode=require, and this program was built without encryption; build it with the feature \
     `tls` of anabranch, or say sslmode=disable if nobody else can listen"
)]
pub(crate) struct NotBuilt;

pub(crate) fn connector(mode: SslMode) -> Result<Connector, NotBuilt> {
    match mode {
        SslMode::Require => Err(NotBuilt),
        _ => Ok(NoTls),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_encrypted_is_refused() {
        assert!(connector(SslMode::Prefer).is_ok() && connector(SslMode::Disable).is_ok());
        let error = connector(SslMode::Require).unwrap_err().to_string();
        assert!(error.contains("feature `tls`"), "{error}");
    }
}
