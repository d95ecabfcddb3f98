//! What all connections share.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::RwLock;
use tidegate::{Config, Gate};

use crate::body::Body;
use crate::guard::Guard;
use crate::proxy::{Client, Memory, Services};
use crate::route::{Route, route};
use crate::server::{StartError, Times};
use crate::{shape, v1};

#[derive(Debug)]
pub(crate) struct App {
    pub gate: Gate,
    pub client: Client,
    pub memory: Arc<Memory>,
    pub times: Times,
    pub started: Instant,
    guard: Guard,
    in_force: RwLock<Arc<InForce>>,
    calls: AtomicUsize,
    connections: AtomicUsize,
    stopping: AtomicBool,
}

/// What a config comes to.
#[derive(Debug)]
pub(crate) struct InForce {
    pub config: Config,
    pub services: Services,
}

impl App {
    pub fn new(gate: Gate, config: Config, services: Services, guard: Guard, times: Times) -> App {
        let memory = Arc::new(Memory::new(config.buffer_memory));
        App {
            gate,
            client: Client::new(times.connect),
            memory,
            times,
            started: Instant::now(),
            guard,
            in_force: RwLock::new(Arc::new(InForce { config, services })),
            calls: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    /// Answers one request. Whoever waits in the queue holds on to this future, so it is to be small: the request is
    /// boxed and gone once it is read, and is not part of it twice as an async function's arguments are.
    #[allow(clippy::manual_async_fn, reason = "an async fn would hold the request twice")]
    pub fn answer(
        self: Arc<App>,
        request: Box<Request<Incoming>>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + Send {
        async move {
            if let Err((status, code, message)) = self.guard.check(&request) {
                return Ok(shape::plain(status, code, message));
            }
            let path = request.uri().path().to_owned();
            let (service, mut prepared) = match route(&path) {
                Ok(Route::Own) => return Ok(v1::answer(&self, &request)),
                Err(message) => return Ok(shape::plain(StatusCode::BAD_REQUEST, "bad_hint", &message)),
                Ok(Route::Service { who, service, path }) => {
                    let Some(found) = self.in_force().services.get(service).cloned() else {
                        let message = format!("no service named `{service}` in the config");
                        return Ok(shape::plain(StatusCode::NOT_FOUND, "unknown_service", &message));
                    };
                    let prepared = found.prepare(&self, &who, service, path, *request).await;
                    (found, prepared)
                }
            };
            Ok(match &mut prepared {
                Ok(prepared) => prepared.go(&self, service.shape()).await,
                Err((status, code, message)) => service.shape().error(*status, code, message),
            })
        }
    }

    pub fn in_force(&self) -> Arc<InForce> {
        self.in_force.read().clone()
    }

    pub fn reconfigure(&self, config: Config) -> Result<(), StartError> {
        let services = Services::new(&config)?;
        // Held meanwhile, so that of two configs that come at once both sides keep the same one.
        let mut in_force = self.in_force.write();
        self.gate.reconfigure(&config)?;
        self.memory.resize(config.buffer_memory);
        *in_force = Arc::new(InForce { config, services });
        Ok(())
    }

    /// From now on it is not ready for more.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether it takes calls.
    pub fn is_ready(&self) -> bool {
        !self.stopping.load(Ordering::Relaxed)
    }

    /// How many calls are under way, in the queue or at their upstreams.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// How many clients are connected.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts a call as long as what is returned lives.
    pub fn count_call(self: &Arc<App>) -> Counted {
        Counted::new(self, |app| &app.calls)
    }

    /// Counts a connection as long as what is returned lives.
    pub fn count_connection(self: &Arc<App>) -> Counted {
        Counted::new(self, |app| &app.connections)
    }
}

/// One of those who are counted.
#[derive(Debug)]
pub(crate) struct Counted {
    app: Arc<App>,
    count: fn(&App) -> &AtomicUsize,
}

impl Counted {
    fn new(app: &Arc<App>, count: fn(&App) -> &AtomicUsize) -> Counted {
        count(app).fetch_add(1, Ordering::Relaxed);
        Counted { app: app.clone(), count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.count)(&self.app).fetch_sub(1, Ordering::Relaxed);
    }
}
