//! A server that can be away: a proxy in front of the real one that cuts, refuses and swallows.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
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

/// The answer to the first question that holds this is lost, with its connection.
type Word = Arc<Mutex<Option<&'static str>>>;

/// One way to the server.
pub struct Proxy {
    pub url: String,
    mode: watch::Sender<Mode>,
    word: Word,
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
        let word = Word::default();
        let lost = Arc::clone(&word);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, server.clone(), modes.clone(), Arc::clone(&lost)));
            }
        });
        Self { url, mode, word, task }
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

    /// Loses the answer to the first question that holds a word, and cuts its connection: the server
    /// does what it was asked.
    pub fn lose_answer_to(&self, word: &'static str) {
        *self.word.lock().unwrap() = Some(word);
    }

    /// Whether that has happened.
    pub fn has_lost_answer(&self) -> bool {
        self.word.lock().unwrap().is_none()
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
async fn carry(
    mut client: TcpStream,
    server: String,
    mut modes: watch::Receiver<Mode>,
    word: Word,
) {
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
                    if is_in(&word, &asked[..count]) {
                        // Until it has answered all, and says no more.
                        let quiet = Duration::from_millis(300);
                        let mut read = async || tokio::time::timeout(quiet, server.read(&mut answered)).await;
                        while matches!(read().await, Ok(Ok(1..))) {}
                        return word.lock().unwrap().take().map_or((), drop);
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

/// Whether a question holds the word.
fn is_in(word: &Word, asked: &[u8]) -> bool {
    let word = *word.lock().unwrap();
    word.is_some_and(|word| asked.windows(word.len()).any(|part| part == word.as_bytes()))
}

/// Returns, and so cuts the connection: at once, or once nothing is swallowed any more.
async fn lose(mode: Mode, mut modes: watch::Receiver<Mode>) {
    if mode == Mode::Swallows {
        let _ = modes.wait_for(|mode| *mode != Mode::Swallows).await;
    }
}
