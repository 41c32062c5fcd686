//! Encryption: connections to servers that must prove who they are, and to those that need not.

mod untrusted;

use crate::encryption::{Authority, Mode, Place, Said};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::path::Path;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

pub(crate) use untrusted::why_not_trusted;

/// What makes connections encrypted.
pub(crate) type Connector = MakeRustlsConnect;

/// What connects a host in this mode. An error says why none of its kind can be trusted.
pub(crate) fn connector(
    (mode, _): (Mode, Place),
    said: &Said,
    _: &str,
) -> Result<Connector, String> {
    let provider = Arc::new(ring::default_provider());
    let trusted = match mode {
        Mode::Verify { name } => Some(Trusted::read(said.authority.as_ref(), name)?),
        Mode::Plain | Mode::Prefer => None,
    };
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { provider, trusted }))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Whose certificates are trusted.
#[derive(Debug)]
struct Trusted {
    roots: RootCertStore,
    /// The same, if a file of the URL's names them.
    named: Vec<CertificateDer<'static>>,
    /// Whether a certificate must be for the name of the host as well.
    name: bool,
}

impl Trusted {
    fn read(authority: Option<&Authority>, name: bool) -> Result<Self, String> {
        let Some(Authority::File(file)) = authority else {
            return Ok(Self { roots: roots_of_system()?, named: Vec::new(), name });
        };
        let wrong = |problem: &str| {
            format!(
                "the file that sslrootcert names, {}, {problem}; it is to be the authority's certificate (PEM), where \
                 this program may read it",
                file.display()
            )
        };
        let named = certificates(file).map_err(|problem| wrong(&problem))?;
        let mut roots = RootCertStore::empty();
        for certificate in &named {
            let added = roots.add(certificate.clone());
            added
                .map_err(|error| wrong(&format!("holds a certificate that is broken ({error})")))?;
        }
        Ok(Self { roots, named, name })
    }

    /// Whether a server is who it should be.
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        now: UnixTime,
        provider: &CryptoProvider,
    ) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = provider.signature_verification_algorithms.all;
        let signed =
            verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, chain, now, algorithms);
        match signed {
            // The server's own certificate is named, as people do with one that is self-signed; by default
            // `openssl` makes those as authorities.
            Err(error) if is_only_an_authority(&error) && self.named.contains(certificate) => {}
            signed => signed?,
        }
        if self.name { verify_server_name(&parsed, host) } else { Ok(()) }
    }
}

/// Whether nothing else is wrong with a certificate but that it may sign others. Its time is looked at before
/// that. The error has no name of its own here; a test tells if its text changes.
fn is_only_an_authority(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(other))
        if format!("{other:?}").contains("CaUsedAsEndEntity"))
}

/// The authorities that the machine trusts.
fn roots_of_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(format!(
            "this machine has no certificates of authorities{why}; install them (ca-certificates), or name a file \
             by sslrootcert=FILE"
        ));
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(file).map_err(|error| format!("cannot be read: {error}"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err("holds no certificate (-----BEGIN CERTIFICATE-----)".to_owned())
        }
        Ok(found) => Ok(found),
        Err(error) => Err(format!("is no PEM ({error})")),
    }
}

/// Decides about certificates: takes any, where none is to be verified, though the handshake must be signed by it.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trusted: Option<Trusted>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(trusted) = &self.trusted {
            trusted.verify(certificate, chain, host, now, &self.provider)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
