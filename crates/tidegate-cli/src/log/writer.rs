//! Writes the log on a thread of its own, so that a call never waits for the reader of the log.
//!
//! Standard error is often a pipe. When its reader stops, the pipe fills and a write to it blocks: without this thread the
//! first worker that logs would block, and with it every call. Lines wait in a bounded queue instead. A line that finds the
//! queue full is dropped and counted, and the count is logged as soon as there is room again.
//!
//! Written by hand because `tracing-appender` does not log how many lines it dropped, and brings file rotation that has no
//! use here.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// The most lines that wait for the reader.
const QUEUE: usize = 4_096;
/// How long the program waits at its end for lines that are still queued.
const LAST_WRITES: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// Answered once everything before it has been written.
    Flush(SyncSender<()>),
}

/// The formatter's output: each write is one line.
#[derive(Clone)]
pub struct Lines {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

/// Waits for queued lines when it is dropped, for a bounded time.
pub struct LastLines(SyncSender<Message>);

/// Starts the thread that writes lines to `out`.
pub fn start(out: impl Write + Send + 'static) -> io::Result<(Lines, LastLines)> {
    let (queue, lines) = sync_channel(QUEUE);
    let lost = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&lost);
    std::thread::Builder::new()
        .name("tidegate-log".into())
        .spawn(move || write_all(&lines, &counted, out))?;
    Ok((Lines { queue: queue.clone(), lost }, LastLines(queue)))
}

fn write_all(lines: &Receiver<Message>, lost: &AtomicU64, mut out: impl Write) {
    while let Ok(message) = lines.recv() {
        match message {
            // There is nowhere left to report a failure.
            Message::Line(line) => drop(out.write_all(&line)),
            Message::Flush(done) => drop((out.flush(), done.send(()))),
        }
        let lines = lost.swap(0, Ordering::Relaxed);
        if lines > 0 {
            // Queued as any other line, in the chosen format.
            tracing::warn!(lines, "log lines were dropped: their reader is too slow");
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Message::Line(line.to_vec())) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Lines;

    fn make_writer(&self) -> Lines {
        self.clone()
    }
}

impl Drop for LastLines {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        // A full queue means that the reader has stopped: waiting would not help.
        if self.0.try_send(Message::Flush(done)).is_ok() {
            written.recv_timeout(LAST_WRITES).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// A reader that reads nothing until it is released.
    #[derive(Clone, Default)]
    struct Reader(Arc<(Mutex<bool>, Condvar)>);

    impl Reader {
        fn read_on(&self) {
            *self.0.0.lock().expect("not poisoned") = true;
            self.0.1.notify_all();
        }
    }

    struct Pipe(Reader, Sender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let (reads, changed) = &*self.0.0;
            let guard = reads.lock().expect("not poisoned");
            drop(changed.wait_while(guard, |reads| !*reads).expect("not poisoned"));
            self.1.send(line.to_vec()).ok();
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_blocks_no_writer_and_dropped_lines_are_counted() {
        let (reader, (tell, read)) = (Reader::default(), channel());
        let (mut lines, last) = start(Pipe(reader.clone(), tell)).expect("a thread");
        // The thread holds at most one line beside those in the queue.
        for number in 0..QUEUE + 100 {
            lines.write_all(format!("{number}").as_bytes()).expect("never fails");
        }
        let lost = lines.lost.load(Ordering::Relaxed);
        assert!((99..=100).contains(&lost), "{lost}");
        reader.read_on();
        let read = read.iter().take(QUEUE + 100 - lost as usize).collect::<Vec<_>>();
        assert_eq!(read[0], b"0");
        drop(last);
    }

    #[test]
    fn the_last_lines_are_written_before_the_end() {
        let (reader, (tell, read)) = (Reader::default(), channel());
        reader.read_on();
        let (mut lines, last) = start(Pipe(reader, tell)).expect("a thread");
        for number in 0..1_000 {
            lines.write_all(format!("{number}").as_bytes()).expect("never fails");
        }
        drop(last);
        assert_eq!(read.try_iter().count(), 1_000);
    }
}
