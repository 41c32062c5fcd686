//! Connections: to the addresses of a name that may be reached, and to no other.

use crate::address::is_private;
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower_service::Service;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// How long a connection may take to be there.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// Connects to the addresses of a host. The address that is looked at is the one that is connected to: nobody looks the
/// name up a second time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connect {
    /// Whether addresses that are not of the public internet may be reached.
    pub(crate) allows_private: bool,
}

impl Connect {
    async fn connect(self, uri: Uri) -> Result<Stream> {
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        let may_reach = |address: &&SocketAddr| self.allows_private || !is_private(address.ip());
        let addresses: Vec<SocketAddr> = found.iter().filter(may_reach).copied().collect();
        if addresses.is_empty() {
            return Err(match found.first() {
                Some(address) => Error::new(ErrorKind::PermissionDenied, Forbidden(*address)),
                None => Error::new(ErrorKind::NotFound, format!("`{host}` has no address")),
            });
        }
        let mut failed = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Stream(TokioIo::new(stream)));
                }
                Err(error) => {
                    failed = Some(Error::new(error.kind(), format!("{address}: {error}")));
                }
            }
        }
        Err(failed.unwrap_or_else(|| ErrorKind::NotFound.into()))
    }
}

/// An address that a webhook may not reach.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is no address of the public internet, and a webhook reaches no other; if it is meant, allow it: \
     private_addresses = true",
    .0.ip()
)]
pub(crate) struct Forbidden(SocketAddr);

impl Service<Uri> for Connect {
    type Response = Stream;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.connect(uri))
    }
}

/// Connects within a time, the agreement about encryption included: until then nothing was sent.
#[derive(Clone, Debug)]
pub(crate) struct Within<C> {
    pub(crate) connector: C,
    pub(crate) patience: Duration,
}

impl<C> Service<Uri> for Within<C>
where
    C: Service<Uri>,
    C::Error: Into<Cause>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = Cause;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<C::Response, Cause>> + Send>>;

    fn poll_ready(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<std::result::Result<(), Self::Error>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, patience) = (self.connector.call(uri), self.patience);
        Box::pin(async move {
            match tokio::time::timeout(patience, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => {
                    let said = format!("no connection within {patience:?}");
                    Err(Error::new(ErrorKind::TimedOut, said).into())
                }
            }
        })
    }
}

/// A connection.
pub(crate) struct Stream(TokioIo<TcpStream>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, bytes)
    }
}
