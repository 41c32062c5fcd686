//! A server that can be away: a proxy in front of the real one that cuts, refuses and swallows.

use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// They arrive.
    Passes,
    /// Connections are cut as soon as they are there.
    Refuses,
    /// Nothing arrives, and nobody is told. A connection that this has happened to is cut once
    /// others pass again: some of its bytes are gone for good.
    Swallows,
    /// They arrive one at a time: whoever reads gets answers in pieces.
    Dribbles,
}

impl Mode {
    fn lets_through(self) -> bool {
        matches!(self, Self::Passes | Self::Dribbles)
    }
}

/// One way to the server.
pub struct Proxy {
    pub url: String,
    mode: watch::Sender<Mode>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy in front of the server of a URL.
    pub async fn before(url: &str) -> Self {
        let (user, rest) = url.rsplit_once('@').expect("postgres://user@host:port/database");
        let (server, database) = rest.split_once('/').unwrap();
        let server =
            if server.contains(':') { server.to_owned() } else { format!("{server}:5432") };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here: SocketAddr = listener.local_addr().unwrap();
        let url = format!("{user}@{here}/{database}");
        let (mode, modes) = watch::channel(Mode::Passes);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, server.clone(), modes.clone()));
            }
        });
        Self { url, mode, task }
    }

    /// Cuts all connections, and refuses new ones.
    pub fn refuse(&self) {
        self.mode.send_replace(Mode::Refuses);
    }

    /// Lets nothing through, without a word.
    pub fn swallow(&self) {
        self.mode.send_replace(Mode::Swallows);
    }

    /// What the server says comes in pieces from now on.
    pub fn dribble(&self) {
        self.mode.send_replace(Mode::Dribbles);
    }

    /// All is well again.
    pub fn pass(&self) {
        self.mode.send_replace(Mode::Passes);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Carries the bytes of one connection until either side closes it, or it is cut.
async fn carry(mut client: TcpStream, server: String, mut modes: watch::Receiver<Mode>) {
    let first = *modes.borrow_and_update();
    if !first.lets_through() {
        return lose(first, modes).await;
    }
    let _ = client.set_nodelay(true);
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            biased;
            Ok(()) = modes.changed() => {
                let mode = *modes.borrow_and_update();
                if !mode.lets_through() {
                    // Both ends stay open until it is over, and nothing is read.
                    return lose(mode, modes).await;
                }
            }
            read = client.read(&mut asked) => match read {
                Ok(count) if count > 0 => {
                    if server.write_all(&asked[..count]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            read = server.read(&mut answered) => match read {
                Ok(count) if count > 0 => {
                    let piece = if *modes.borrow() == Mode::Dribbles { 1 } else { count };
                    for piece in answered[..count].chunks(piece) {
                        if client.write_all(piece).await.is_err() {
                            return;
                        }
                        tokio::task::yield_now().await;
                    }
                }
                _ => return,
            },
        }
    }
}

/// Returns, and so cuts the connection: at once, or once nothing is swallowed any more.
async fn lose(mode: Mode, mut modes: watch::Receiver<Mode>) {
    if mode == Mode::Swallows {
        let _ = modes.wait_for(|mode| *mode != Mode::Swallows).await;
    }
}
