//! What speaks HTTP to the server: one connection, one request after the other.

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// What says that a request without a token comes from no page of another site.
const NO_PAGE: &str = "x-anabranch";

/// A connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    pub(crate) async fn open(at: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(at).await.context("cannot reach the server")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = Builder::new().handshake(TokioIo::new(stream)).await?;
        // It ends with what is sent over it, and the sender says why.
        tokio::spawn(connection);
        Ok(Self { sender, host: at.to_string() })
    }

    /// Sends a body, and takes the answer whole.
    pub(crate) async fn post(&mut self, path: &str, body: String) -> anyhow::Result<()> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let response = self.send(request.body(Full::new(body.into()))?).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        let text = || String::from_utf8_lossy(&answer).into_owned();
        anyhow::ensure!(status.is_success(), "{path} answered {status}: {}", text());
        Ok(())
    }

    /// Asks for something that may have no end.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Incoming> {
        let response = self.send(Request::get(path).body(Full::default())?).await?;
        let status = response.status();
        anyhow::ensure!(status.is_success(), "{path} answered {status}");
        Ok(response.into_body())
    }

    async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> anyhow::Result<Response<Incoming>> {
        request.headers_mut().insert(HOST, self.host.parse()?);
        request.headers_mut().insert(NO_PAGE, "1".parse()?);
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}
