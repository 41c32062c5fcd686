//! Encrypted connections: a certificate and its key from files.

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The certificate of a server and its key. They are read once, when the server starts.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Why a certificate cannot be used.
#[derive(Debug, Error)]
#[error("{}: {why}", path.display())]
pub struct TlsError {
    path: PathBuf,
    why: String,
}

impl Tls {
    /// A certificate with its chain, and its key, both as PEM.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let at = |path: &Path, why: &dyn fmt::Display| TlsError {
            path: path.to_owned(),
            why: why.to_string(),
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
            .map_err(|error| at(certificate, &error))?
            .collect();
        let chain = chain.map_err(|error| at(certificate, &error))?;
        if chain.is_empty() {
            return Err(at(certificate, &"it holds no certificate (-----BEGIN CERTIFICATE-----)"));
        }
        // The error must not quote the key.
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|_| at(key, &"it cannot be read as a private key (PEM)"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| at(certificate, &error))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| {
                at(certificate, &format!("it does not go with {}: {error}", key.display()))
            })?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(super) async fn accept<T: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: T,
    ) -> io::Result<TlsStream<T>> {
        self.0.accept(stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}
