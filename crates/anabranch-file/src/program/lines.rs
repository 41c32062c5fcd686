//! What a program writes, line by line and bounded.

use std::ops::Range;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much a program may write for one batch.
pub(super) const MOST_BYTES: usize = 64 << 20;
/// How much is read at a time.
const CHUNK: usize = 128 << 10;

/// Lines of a pipe.
pub(super) struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    /// Where the next line begins.
    begin: usize,
    /// How far there is no end of a line.
    searched: usize,
    /// How much was written for this batch.
    written: usize,
}

/// What has been read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    More,
    /// The pipe has ended.
    End,
    /// It is more than a batch may have.
    TooMuch,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, buffer: Vec::with_capacity(CHUNK), begin: 0, searched: 0, written: 0 }
    }

    /// A new batch: it has all the room.
    pub(super) fn begin_batch(&mut self) {
        self.written = 0;
        self.buffer.drain(..self.begin);
        self.buffer.shrink_to(CHUNK * 2);
        (self.begin, self.searched) = (0, 0);
    }

    /// Takes the next line, if all of it is there: where it is, without its end.
    pub(super) fn take(&mut self) -> Option<Range<usize>> {
        let rest = &self.buffer[self.searched..];
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.begin..self.searched + length;
        (self.begin, self.searched) = (line.end + 1, line.end + 1);
        Some(line)
    }

    pub(super) fn get(&self, line: Range<usize>) -> &[u8] {
        &self.buffer[line]
    }

    /// What was read and is no part of a line that was taken.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.begin..]
    }

    /// What it is read from.
    pub(super) fn pipe(&mut self) -> &mut R {
        &mut self.from
    }

    /// Reads more. Nothing is lost if it is given up half-way.
    pub(super) async fn read(&mut self) -> std::io::Result<Read> {
        if self.written > MOST_BYTES {
            return Ok(Read::TooMuch);
        }
        if self.begin == self.buffer.len() {
            self.buffer.clear();
            (self.begin, self.searched) = (0, 0);
        } else if self.buffer.len() + CHUNK > self.buffer.capacity() && self.begin > 0 {
            self.buffer.drain(..self.begin);
            self.searched -= self.begin;
            self.begin = 0;
        }
        self.buffer.reserve(CHUNK);
        let chunk = &mut (&mut self.from).take(CHUNK as u64);
        let read = chunk.read_buf(&mut self.buffer).await?;
        self.written += read;
        Ok(if read == 0 { Read::End } else { Read::More })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    async fn next(lines: &mut Lines<impl AsyncRead + Unpin>) -> String {
        loop {
            if let Some(line) = lines.take() {
                return String::from_utf8(lines.get(line).to_vec()).unwrap();
            }
            assert_eq!(lines.read().await.unwrap(), Read::More);
        }
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_are_cut() {
        let (mut writer, reader) = duplex(7);
        let long = "x".repeat(3 * CHUNK);
        let text = format!("a\n\nbc\n{long}\nlast\nrest");
        let writing = tokio::spawn(async move { writer.write_all(text.as_bytes()).await });
        let mut lines = Lines::new(reader);
        for expected in ["a", "", "bc", &long, "last"] {
            assert_eq!(next(&mut lines).await, expected);
        }
        while lines.read().await.unwrap() == Read::More {}
        assert_eq!((lines.take(), lines.rest()), (None, &b"rest"[..]));
        lines.begin_batch();
        assert_eq!(lines.rest(), b"rest");
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_line_without_end_is_bounded() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'));
        while lines.read().await.unwrap() == Read::More {
            assert_eq!(lines.take(), None);
        }
        assert_eq!(lines.read().await.unwrap(), Read::TooMuch);
        assert!(lines.buffer.len() <= MOST_BYTES + 2 * CHUNK, "{}", lines.buffer.len());
        lines.begin_batch();
        assert!(lines.written == 0);
    }
}
