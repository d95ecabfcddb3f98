//! The upstreams of a world: each stamps what arrives, and then does as its mixture says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fastrand::Rng;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::ingredients::Ingredient;
use super::reactions::{self, Reaction, Reply};
use super::records::{MARK, Open, Records};
use super::world::{Kind, World};
use super::{http1, http2};

/// How often an upstream with few streams stands still, in milliseconds, for half of that time.
const STALL: u64 = 2_400;

/// At first a service does each thing that it may do so often, in turn: so each happens also where few requests arrive.
const ROUNDS: usize = 2;

/// All upstreams of a world. Their connections close when they are stopped.
pub struct Upstreams {
    pub ports: Vec<u16>,
    tasks: Vec<JoinHandle<()>>,
    connections: Arc<AtomicUsize>,
    /// Sockets that are bound and never looked at.
    _mute: Vec<std::net::TcpListener>,
}

impl Upstreams {
    pub async fn start(world: &Arc<World>, records: &Arc<Records>) -> Upstreams {
        let mut upstreams = Upstreams {
            ports: Vec::new(),
            tasks: Vec::new(),
            connections: Arc::default(),
            _mute: Vec::new(),
        };
        for (number, service) in world.services.iter().enumerate() {
            let port = match service.kind {
                Kind::Permits => 0,
                Kind::Mute | Kind::Closed => {
                    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
                    let port = listener.local_addr().expect("bound").port();
                    if service.kind == Kind::Mute {
                        // The kernel accepts connections for it.
                        upstreams._mute.push(listener);
                    }
                    port
                }
                _ => {
                    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                    let address: SocketAddr = listener.local_addr().expect("bound");
                    let connections = upstreams.connections.clone();
                    let part =
                        Part { world: world.clone(), records: records.clone(), service: number, connections };
                    upstreams.tasks.push(tokio::spawn(accept(listener, part)));
                    address.port()
                }
            };
            upstreams.ports.push(port);
        }
        upstreams
    }

    /// Closes every connection; how many there were.
    pub async fn stop(&mut self) -> usize {
        let connections = self.connections.load(Ordering::Relaxed);
        for task in self.tasks.drain(..) {
            task.abort();
            task.await.ok();
        }
        connections
    }
}

/// What a connection needs to know about its upstream.
#[derive(Clone)]
pub struct Part {
    world: Arc<World>,
    records: Arc<Records>,
    service: usize,
    connections: Arc<AtomicUsize>,
}

/// Counts a connection for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(connections: &Arc<AtomicUsize>) -> Counted {
        connections.fetch_add(1, Ordering::Relaxed);
        Counted(connections.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What an upstream does with one request.
pub struct Plan {
    pub reaction: Reaction,
    pub reply: Reply,
    pub latency: Duration,
    pub open: Option<Open>,
    pub rng: Rng,
}

impl Part {
    /// Stamps a request, by the number of its call, and decides what becomes of it. Must be called when the head is there.
    pub fn arrived(&self, mark: Option<&str>) -> Plan {
        let service = &self.world.services[self.service];
        let call = mark.and_then(|mark| mark.trim().parse().ok());
        let mut rng =
            Rng::with_seed(self.world.seed ^ (call.unwrap_or(0) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if service.kind == Kind::Probe {
            let reply = reactions::reply(&mut rng, Reaction::Fine, None, reactions::Lie::None, |_| 0);
            return Plan { reaction: Reaction::Fine, reply, latency: Duration::ZERO, open: None, rng };
        }
        let open = self.records.arrival(self.service, call);
        // Attempts of one call differ.
        let (attempts, before) = {
            let arrivals = &self.records.seen().arrivals;
            (
                arrivals.len() as u64,
                arrivals.iter().filter(|arrival| arrival.service == self.service).count() - 1,
            )
        };
        rng = Rng::with_seed(rng.u64(..) ^ attempts);
        let all: u32 = service.mix.iter().map(|(weight, _)| weight).sum();
        let mut drawn = rng.u32(..all);
        let chosen = service.mix.iter().find(|(weight, _)| {
            let found = drawn < *weight;
            drawn = drawn.wrapping_sub(*weight);
            found
        });
        let mut reaction = chosen.expect("the weights add up").1;
        if before < ROUNDS * service.mix.len() {
            reaction = service.mix[before % service.mix.len()].1;
        }
        let known = call.and_then(|call| self.records.seen().calls.get(call).cloned());
        let client = known.as_ref().map(|call| call.client);
        if matches!(client, Some("reads slowly" | "stops reading")) {
            reaction = Reaction::Huge;
        }
        let lie = rng.choice(service.lies.iter().copied()).expect("some");
        let used = |window| self.used(window);
        let most = known.and_then(|call| call.meant.tokens);
        let reply = reactions::reply(&mut rng, reaction, most, lie, used);
        open.fate(&format!("{reaction:?} {} tells {lie:?}", reply.status));
        let unanswered = [Reaction::Silence, Reaction::Reset, Reaction::CutHead, Reaction::RefusedStream]
            .contains(&reaction);
        open.serves(if unanswered { 0 } else { reply.tokens });
        let mut latency = Duration::from_millis(rng.u64(service.latency.clone()));
        if service.max_streams.is_some() {
            // For half of the time no reply comes, so that calls pile up before the few streams there are.
            let phase = self.records.now().as_millis() as u64 % STALL;
            latency += Duration::from_millis((STALL / 2).saturating_sub(phase));
        }
        Plan { reaction, reply, latency, open: Some(open), rng }
    }

    /// How many requests came in the last stretch of time.
    fn used(&self, window: Duration) -> usize {
        let now = self.records.now();
        let seen = self.records.seen();
        let recent = seen.arrivals.iter().rev().take_while(|arrival| arrival.at + window > now);
        recent.filter(|arrival| arrival.service == self.service).count()
    }

    /// Whether connections may be shut down with replies that are not written yet.
    pub fn goes_away(&self) -> bool {
        self.world.has(Ingredient::GoAway)
    }

    pub fn max_streams(&self) -> Option<u32> {
        self.world.services[self.service].max_streams
    }
}

/// The mark that a request carries.
pub fn mark_of(headers: &http::HeaderMap) -> Option<&str> {
    headers.get(MARK)?.to_str().ok()
}

async fn accept(listener: TcpListener, part: Part) {
    let kind = part.world.services[part.service].kind;
    let tls = TlsAcceptor::from(if kind == Kind::Http2 { tls().http2.clone() } else { tls().http1.clone() });
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true).ok();
        connections.spawn(serve(stream, kind, tls.clone(), part.clone()));
    }
}

async fn serve(stream: TcpStream, kind: Kind, tls: TlsAcceptor, part: Part) {
    let _counted = Counted::new(&part.connections);
    match kind {
        Kind::Http2 => {
            if let Ok(stream) = tls.accept(stream).await {
                http2::serve(stream, part).await;
            }
        }
        Kind::Tls1 => {
            if let Ok(stream) = tls.accept(stream).await {
                http1::serve(stream, part).await;
            }
        }
        _ => http1::serve(stream, part).await,
    }
}

/// The certificates of TLS upstreams.
pub struct Tls {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
    /// What the sidecar has to trust.
    pub certificate: String,
}

/// One certificate for all worlds.
pub fn tls() -> &'static Tls {
    static TLS: OnceLock<Tls> = OnceLock::new();
    TLS.get_or_init(|| {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
        let config = |protocol: &[u8]| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("ring knows them")
                .with_no_client_auth()
                .with_single_cert(vec![signed.cert.der().clone()], key.clone_key())
                .expect("the key fits the certificate");
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config)
        };
        Tls { http1: config(b"http/1.1"), http2: config(b"h2"), certificate: signed.cert.pem() }
    })
}
