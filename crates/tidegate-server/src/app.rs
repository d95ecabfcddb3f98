//! What all connections share.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::{Mutex, RwLock};
use tidegate::wire::Memory;
use tidegate::{Config, Gate};
use tokio::sync::watch;
use tracing::warn;

use crate::auth::{Caller, Tokens};
use crate::body::Body;
use crate::came::Came;
use crate::descriptors::Descriptors;
use crate::events::{Event, Events};
use crate::guard::{Guard, Turned};
use crate::listen::{Door, Phase};
use crate::live::{Changes, NoChange, Wanted};
use crate::permits::Permits;
use crate::proxy::Client;
use crate::reload::Reloads;
use crate::route::{Route, route};
use crate::server::{StartError, log_ignored};
use crate::services::{Service, Services};
use crate::shape::{self, Shape};
use crate::timeouts::Timeouts;
use crate::v1;

#[derive(Debug)]
pub(crate) struct App {
    pub gate: Gate,
    pub client: Arc<Client>,
    pub upgrades: Arc<Client>,
    pub memory: Arc<Memory>,
    pub timeouts: Timeouts,
    pub started: Instant,
    /// For those whose connections are not the listener's any more.
    pub phase: watch::Sender<Phase>,
    /// What wall-clock time is ahead of the gate's, if upstreams are told when calls were let go.
    pub stamped: Option<u64>,
    guard: Guard,
    pub permits: Arc<Permits>,
    pub events: Events,
    pub came: Came,
    pub reloads: Mutex<Reloads>,
    /// Where others reach it, who must then show a token.
    exposed: Option<SocketAddr>,
    in_force: RwLock<Arc<InForce>>,
    calls: AtomicUsize,
    connections: AtomicUsize,
    stopping: AtomicBool,
    refusing: AtomicBool,
}

/// What a config comes to.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    /// With the changes over it.
    pub config: Config,
    /// As it was written.
    file: Config,
    pub changes: Changes,
    pub services: Arc<Services>,
    pub tokens: Arc<Tokens>,
}

impl InForce {
    fn new(config: Config, services: Services) -> InForce {
        let tokens = Arc::new(Tokens::new(&config));
        InForce {
            file: config.clone(),
            config,
            changes: Changes::default(),
            services: Arc::new(services),
            tokens,
        }
    }
}

impl InForce {
    fn changed(file: Config, mut changes: Changes, services: Services) -> InForce {
        let config = changes.over(&file);
        InForce { config, changes, ..InForce::new(file, services) }
    }
}

impl App {
    #[allow(clippy::too_many_arguments, reason = "the parts of a server, each of its own type")]
    pub fn new(
        gate: Gate,
        config: Config,
        changes: Changes,
        services: Services,
        guard: Guard,
        timeouts: Timeouts,
        phase: watch::Sender<Phase>,
    ) -> App {
        let exposed = guard.exposed();
        let memory = Arc::new(Memory::new(config.buffer_memory));
        let descriptors = Arc::new(Descriptors::default());
        let client = Arc::new(Client::new(timeouts, descriptors.clone()));
        let upgrades = Arc::new(Client::for_upgrades(timeouts, descriptors.clone()));
        descriptors.add(&client);
        descriptors.add(&upgrades);
        App {
            gate,
            client,
            upgrades,
            phase,
            memory,
            timeouts,
            started: Instant::now(),
            stamped: None,
            guard,
            permits: Arc::new(Permits::new()),
            events: Events::new(),
            came: Came::default(),
            reloads: Mutex::default(),
            exposed,
            in_force: RwLock::new(Arc::new(InForce::changed(config, changes, services))),
            calls: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            refusing: AtomicBool::new(false),
        }
    }

    /// Answers one request. Whoever waits in the queue holds on to this future, so it is to be small: the request is
    /// boxed and gone once it is read, and is not part of it twice as an async function's arguments are.
    #[allow(clippy::manual_async_fn, reason = "an async fn would hold the request twice")]
    pub fn answer(
        self: Arc<App>,
        door: Door,
        request: Box<Request<Incoming>>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + Send {
        async move {
            if let Err((status, code, message)) = self.let_in(door, &request) {
                return Ok(shape::plain(status, code, message));
            }
            let path = request.uri().path().to_owned();
            let (service, mut prepared, prefix) = match route(&path) {
                // Boxed, since it is larger than what waits behind a proxied call.
                Ok(Route::Own) => {
                    let mut answer = Box::pin(v1::answer(&self, door, *request));
                    let answered = poll_fn(|context| self.unless_refusing(answer.as_mut(), context)).await;
                    return Ok(answered.unwrap_or_else(|| too_late(Shape::Plain)));
                }
                Err(message) => return Ok(shape::plain(StatusCode::BAD_REQUEST, "bad_hint", &message)),
                Ok(Route::Service { who, service, path: rest }) => {
                    if let Some(loop_id) = &who.loop_id {
                        self.came.count(loop_id);
                    }
                    let (found, caller) = self.meet(door, service, request.headers());
                    let caller = match caller {
                        Ok(caller) => caller,
                        Err((status, code, message)) => {
                            let shape = found.map_or(Shape::Plain, |found| found.shape());
                            return Ok(shape.error(status, code, message));
                        }
                    };
                    let Some(found) = found else {
                        let message = format!("no service named `{service}` in the config");
                        return Ok(shape::plain(StatusCode::NOT_FOUND, "unknown_service", &message));
                    };
                    let prepared = {
                        let mut prepare = pin!(found.prepare(&self, &caller, &who, service, rest, *request));
                        poll_fn(|context| self.unless_refusing(prepare.as_mut(), context)).await
                    };
                    let Some(prepared) = prepared else { return Ok(too_late(found.shape())) };
                    (found, prepared, path.len() - rest.len())
                }
            };
            Ok(match &mut prepared {
                Ok(prepared) => {
                    let mut go = pin!(prepared.go(&self, &service, &path[..prefix]));
                    let gone = poll_fn(|context| self.unless_refusing(go.as_mut(), context)).await;
                    gone.unwrap_or_else(|| too_late(service.shape()))
                }
                Err((status, code, message)) => service.shape().error(*status, code, message),
            })
        }
    }

    /// Polls what leads to an answer, unless it is too late for that. It costs one load: waiting calls are many, and each
    /// of them is woken by its connection when the phase changes.
    fn unless_refusing<F: Future>(
        &self,
        future: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<Option<F::Output>> {
        if self.refusing.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        future.poll(context).map(Some)
    }

    fn let_in(&self, door: Door, request: &Request<Incoming>) -> Result<(), Turned> {
        let any_host = door == Door::Unix || self.in_force.read().tokens.are_asked_for();
        self.guard.check(request, any_host)
    }

    /// The service that is asked for, and who asks.
    fn meet(
        &self,
        door: Door,
        service: &str,
        headers: &HeaderMap,
    ) -> (Option<Arc<Service>>, Result<Caller, Turned>) {
        let in_force = self.in_force();
        let found = in_force.services.get(service).cloned();
        let key_headers = found.as_ref().map_or(&[][..], |found| found.key_headers());
        let caller = match door {
            // Whoever may open the socket is who started the sidecar.
            Door::Unix => Ok(Caller::without_token(door.origin())),
            Door::Tcp(_) => in_force.tokens.caller(door.origin(), headers, key_headers),
        };
        (found, caller)
    }

    pub fn in_force(&self) -> Arc<InForce> {
        self.in_force.read().clone()
    }

    pub fn reconfigure(&self, config: Config) -> Result<(), StartError> {
        let services = Services::new(&config)?;
        if let Some(exposed) = self.exposed.filter(|_| config.auth.tokens.is_empty()) {
            return Err(StartError::Exposed(exposed));
        }
        // Held meanwhile, so that of two configs that come at once both sides keep the same one.
        let mut in_force = self.in_force.write();
        if config.listen != in_force.file.listen || config.listen_unix != in_force.file.listen_unix {
            warn!("where it listens changes with a restart only");
        }
        let mut next = InForce::new(config, services);
        next.changes = in_force.changes.clone();
        next.config = next.changes.over(&next.file);
        if let Err(error) = self.gate.reconfigure(&next.config) {
            // What was changed by hand must not be in the way of a file that is right.
            self.gate.reconfigure(&next.file)?;
            warn!(%error, "changes of limits are dropped: they do not go with the new config");
            (next.changes, next.config) = (Changes::default(), next.file.clone());
        }
        self.memory.resize(next.config.buffer_memory);
        self.gate.keep_changes(next.changes.kept());
        log_ignored(&next.file);
        *in_force = Arc::new(next);
        Ok(())
    }

    /// Changes a limit until the file says something else of it.
    pub fn change(&self, name: &str, wanted: &Wanted) -> Result<(), NoChange> {
        let mut in_force = self.in_force.write();
        let mut next = InForce::clone(&in_force);
        next.changes.set(&next.file, name, wanted)?;
        next.config = next.changes.over(&next.file);
        self.gate.reconfigure(&next.config).map_err(|error| NoChange::Wrong(error.to_string()))?;
        self.gate.keep_changes(next.changes.kept());
        *in_force = Arc::new(next);
        Ok(())
    }

    /// From now on calls whose reply has not begun are answered with 503.
    pub fn refuse(&self) {
        self.refusing.store(true, Ordering::Relaxed);
    }

    /// From now on it is not ready for more.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.events.tell(|| Event::Stopping);
    }

    /// Whether it takes calls.
    pub fn is_ready(&self) -> bool {
        !self.stopping.load(Ordering::SeqCst)
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

/// The answer to a call that was still open when the sidecar's patience was over.
fn too_late(shape: Shape) -> Response<Body> {
    let message = "tidegate is stopping, and the call was not answered in time";
    shape.error(StatusCode::SERVICE_UNAVAILABLE, "stopping", message)
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
