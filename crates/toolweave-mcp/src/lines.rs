//! Newline-delimited messages over any byte stream, bounded.
//!
//! Knows nothing about JSON-RPC beyond the fact that one line is one message.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest message that is read whole: above the largest program result plus its text copy.
pub(crate) const MAX_LINE_BYTES: usize = 160 * 1024 * 1024;
/// What is kept of both ends of a longer one, to find out which request it answered.
const KEPT_OF_LONG_LINE: usize = 256;
const READ_BYTES: usize = 64 * 1024;
/// Buffer capacity that is kept between lines.
const KEPT_CAPACITY: usize = 1024 * 1024;

/// One line, without its terminator.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// Longer than the limit; only its two ends were kept.
    TooLong {
        head: Vec<u8>,
        tail: Vec<u8>,
        bytes: usize,
    },
}

/// Reads lines. [`LineReader::next`] may be dropped at any await without losing bytes.
pub(crate) struct LineReader<R> {
    read: R,
    limit: usize,
    chunk: Box<[u8]>,
    chunk_at: usize,
    chunk_end: usize,
    line: Vec<u8>,
    long: Option<LongLine>,
    ended: bool,
}

#[derive(Default)]
struct LongLine {
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(read: R) -> Self {
        Self::with_limit(read, MAX_LINE_BYTES)
    }

    pub(crate) fn with_limit(read: R, limit: usize) -> Self {
        Self {
            read,
            limit,
            chunk: vec![0; READ_BYTES].into_boxed_slice(),
            chunk_at: 0,
            chunk_end: 0,
            line: Vec::new(),
            long: None,
            ended: false,
        }
    }

    /// Returns the next line, or `None` at the end. Text after the last newline counts as a line.
    ///
    /// # Errors
    /// What the stream says.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let rest = &self.chunk[self.chunk_at..self.chunk_end];
            if let Some(length) = rest.iter().position(|&b| b == b'\n') {
                let (from, to) = (self.chunk_at, self.chunk_at + length);
                self.chunk_at = to + 1;
                self.take(from, to);
                return Ok(Some(self.finish()));
            }
            let (from, to) = (self.chunk_at, self.chunk_end);
            self.chunk_at = to;
            self.take(from, to);
            if self.ended {
                return Ok(None);
            }
            // The only await: nothing has been taken from the stream if it is dropped here.
            let count = self.read.read(&mut self.chunk).await?;
            (self.chunk_at, self.chunk_end) = (0, count);
            if count == 0 {
                self.ended = true;
                if !self.line.is_empty() || self.long.is_some() {
                    return Ok(Some(self.finish()));
                }
            }
        }
    }

    /// Moves part of the chunk into the line.
    fn take(&mut self, from: usize, to: usize) {
        let bytes = &self.chunk[from..to];
        if let Some(long) = &mut self.long {
            long.push(bytes);
        } else if self.line.len() + bytes.len() > self.limit {
            let mut long = LongLine::default();
            long.push(&self.line);
            long.push(bytes);
            self.line = Vec::new();
            self.long = Some(long);
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn finish(&mut self) -> Line {
        if let Some(long) = self.long.take() {
            return Line::TooLong {
                head: long.head,
                tail: long.tail,
                bytes: long.bytes,
            };
        }
        let line = if self.line.capacity() > KEPT_CAPACITY {
            std::mem::take(&mut self.line)
        } else {
            let copy = self.line.clone();
            self.line.clear();
            copy
        };
        Line::Whole(line)
    }
}

impl LongLine {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        let missing = KEPT_OF_LONG_LINE - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT_OF_LONG_LINE)..]);
        let surplus = self.tail.len().saturating_sub(KEPT_OF_LONG_LINE);
        self.tail.drain(..surplus);
    }
}

/// Writes whole lines, one at a time.
pub(crate) struct LineWriter<W> {
    write: tokio::sync::Mutex<Option<W>>,
}

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    pub(crate) fn new(write: W) -> Self {
        Self {
            write: tokio::sync::Mutex::new(Some(write)),
        }
    }

    /// Writes one line and flushes.
    ///
    /// # Errors
    /// What the stream says; `NotConnected` after [`LineWriter::close`].
    pub(crate) async fn send(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let mut guard = self.write.lock().await;
        let Some(write) = guard.as_mut() else {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the stream was closed",
            ));
        };
        write.write_all(&line).await?;
        write.flush().await
    }

    /// Closes the stream, which tells the other side that nothing more comes.
    pub(crate) async fn close(&self) {
        if let Some(mut write) = self.write.lock().await.take() {
            let _ = write.shutdown().await;
        }
    }
}

/// Returns the text of a line without a byte order mark, carriage return or blanks at its ends.
pub(crate) fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8], limit: usize) -> Vec<Line> {
        let mut reader = LineReader::with_limit(text, limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.expect("memory") {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_are_cut_at_newlines_only() {
        assert_eq!(
            lines(b"a\n\nb\r\nlast", 100).await,
            [&b"a"[..], b"", b"b\r", b"last"].map(|line| Line::Whole(line.to_vec()))
        );
        assert_eq!(lines(b"", 100).await, []);
        assert_eq!(trimmed(b"\xEF\xBB\xBF {} \r"), b"{}");
    }

    #[tokio::test]
    async fn a_long_line_keeps_its_ends_and_costs_only_itself() {
        let mut text = b"HEAD".to_vec();
        text.extend(std::iter::repeat_n(b'x', 300_000));
        text.extend_from_slice(b"TAIL\nnext\n");
        let got = lines(&text, 1000).await;
        let [Line::TooLong { head, tail, bytes }, Line::Whole(next)] = &got[..] else {
            panic!("{} lines", got.len());
        };
        assert_eq!((head.len(), tail.len(), *bytes), (256, 256, 300_008));
        assert!(head.starts_with(b"HEADx") && tail.ends_with(b"xTAIL"));
        assert_eq!(next, b"next");
    }

    #[tokio::test]
    async fn a_dropped_read_loses_nothing() {
        let (mut here, there) = tokio::io::duplex(64);
        let mut reader = LineReader::new(there);
        here.write_all(b"first ha").await.expect("room");
        tokio::select! {
            biased;
            line = reader.next() => panic!("{line:?}"),
            () = tokio::task::yield_now() => {}
        }
        here.write_all(b"lf\n").await.expect("room");
        assert_eq!(
            reader.next().await.expect("memory"),
            Some(Line::Whole(b"first half".to_vec()))
        );
    }
}
