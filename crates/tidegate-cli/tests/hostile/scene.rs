//! The state that all parts of a world share: the address of the sidecar, the notes, and the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use super::records::Records;
use super::wire::{self, Head};
use super::world::World;

pub struct Scene {
    pub world: Arc<World>,
    pub records: Arc<Records>,
    /// Where the sidecar listens now; it changes with each start.
    pub port: AtomicU16,
    end: Instant,
}

impl Scene {
    pub fn new(world: Arc<World>, records: Arc<Records>, port: u16) -> Arc<Scene> {
        let end = Instant::now() + world.duration;
        Arc::new(Scene { world, records, port: AtomicU16::new(port), end })
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Sleeps for a random time, at most until the end.
    pub async fn rest(&self, rng: &mut Rng, millis: std::ops::Range<u64>) {
        tokio::time::sleep(Duration::from_millis(rng.u64(millis)).min(self.left())).await;
    }

    /// Waits until calls to a service come again.
    pub async fn flood(&self, service: usize) {
        if let Some(tide) = self.world.services[service].tide {
            let phase = self.records.now().as_millis() as u64 % tide;
            let ebb = if phase < tide / 2 { 0 } else { tide - phase };
            tokio::time::sleep(Duration::from_millis(ebb).min(self.left())).await;
        }
    }

    pub async fn connect(&self) -> Option<TcpStream> {
        self.connect_with(None).await
    }

    /// Connects with a receive buffer of that size.
    pub async fn connect_with(&self, receive: Option<u32>) -> Option<TcpStream> {
        let socket = TcpSocket::new_v4().ok()?;
        if let Some(size) = receive {
            socket.set_recv_buffer_size(size).ok()?;
        }
        let port = self.port.load(Ordering::Acquire);
        let stream = socket.connect(([127, 0, 0, 1], port).into()).await.ok()?;
        stream.set_nodelay(true).ok();
        Some(stream)
    }

    /// Makes a request of the sidecar itself; its status and body.
    pub async fn request(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        self.request_on(self.connect().await?, method, path, body).await
    }

    /// The same on a connection.
    pub async fn request_on(
        &self,
        stream: TcpStream,
        method: &str,
        path: &str,
        body: &str,
    ) -> Option<(u16, String)> {
        let mut stream = BufReader::new(stream);
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.get_mut().write_all(text.as_bytes()).await.ok()?;
        let head = wire::head(&mut stream).await?;
        let body = wire::body(&mut stream, &head, usize::MAX).await.ok()?;
        Some((status(&head)?, String::from_utf8_lossy(&body).into_owned()))
    }
}

/// The status of a reply.
pub fn status(head: &Head) -> Option<u16> {
    head.first.split(' ').nth(1)?.parse().ok()
}
