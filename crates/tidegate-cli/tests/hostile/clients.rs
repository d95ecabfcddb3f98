//! The clients of a world.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::ingredients::Ingredient;
use super::orders::{self, Order};
use super::records::{BodyEnd, CallEnd};
use super::scene::{Scene, status};
use super::wire;
use super::world::Kind;
use super::{permits, world};

/// How long a client waits for an answer beyond the time that it lets the call wait.
const PATIENCE: Duration = Duration::from_millis(2500);
/// The same where the sidecar tries in vain to connect, in worlds that last long enough.
const LONG_PATIENCE: Duration = Duration::from_secs(12);

/// All callers.
pub struct Clients {
    /// Their last answers are waited for.
    pub callers: JoinSet<()>,
    /// They are cut off at the end.
    pub intruders: JoinSet<()>,
}

impl Clients {
    pub fn start(scene: &Arc<Scene>, rng: &mut Rng) -> Clients {
        let mut clients = Clients { callers: JoinSet::new(), intruders: JoinSet::new() };
        let world = &scene.world;
        for (number, service) in world.called() {
            let callers = if matches!(service.kind, Kind::Mute | Kind::Closed) { 3 } else { 10 };
            for _ in 0..callers {
                clients.callers.spawn(call(
                    "plain",
                    scene.clone(),
                    rng.fork(),
                    number,
                    orders::plain,
                    30..150,
                ));
            }
            // So many always wait that every limit of the service is used up.
            for _ in 0..2 * callers {
                clients.intruders.spawn(call(
                    "patient",
                    scene.clone(),
                    rng.fork(),
                    number,
                    orders::patient,
                    30..200,
                ));
            }
        }
        for ingredient in &world.ingredients {
            clients.add(scene, rng, *ingredient);
        }
        clients
    }

    fn add(&mut self, scene: &Arc<Scene>, rng: &mut Rng, ingredient: Ingredient) {
        let (callers, intruders) = (&mut self.callers, &mut self.intruders);
        let services =
            scene.world.called().filter(|(_, service)| !matches!(service.kind, Kind::Mute | Kind::Closed));
        let services: Vec<usize> = services.map(|(number, _)| number).collect();
        let mut each = |how_many: usize, mut spawn: Box<dyn FnMut(Arc<Scene>, Rng, usize) + '_>| {
            for _ in 0..how_many {
                let service = rng.choice(services.iter().copied()).expect("some");
                spawn(scene.clone(), rng.fork(), service);
            }
        };
        match ingredient {
            Ingredient::OddBodies => each(
                10,
                Box::new(|scene, rng, service| {
                    callers.spawn(call("odd body", scene, rng, service, orders::odd, 30..150));
                }),
            ),
            Ingredient::LargeBodies => each(
                4,
                Box::new(|scene, rng, service| {
                    callers.spawn(call("large body", scene, rng, service, orders::large, 300..900));
                }),
            ),
            Ingredient::PathAliases => each(
                10,
                Box::new(|scene, rng, service| {
                    callers.spawn(call("alias", scene, rng, service, orders::alias, 30..150));
                }),
            ),
            Ingredient::HangUps => each(
                10,
                Box::new(|scene, rng, service| {
                    intruders.spawn(hang_up(scene, rng, service));
                }),
            ),
            Ingredient::HugeReplies => each(
                24,
                Box::new(|scene, rng, service| {
                    intruders.spawn(read_slowly(scene, rng, service));
                }),
            ),
            Ingredient::StopReading => each(
                8,
                Box::new(|scene, rng, service| {
                    intruders.spawn(stop_reading(scene, rng, service));
                }),
            ),
            Ingredient::DribbledBodies => each(
                8,
                Box::new(|scene, rng, service| {
                    intruders.spawn(dribble(scene, rng, service));
                }),
            ),
            Ingredient::SilentBodies => each(
                40,
                Box::new(|scene, rng, service| {
                    intruders.spawn(announce(scene, rng, service));
                }),
            ),
            Ingredient::IdleConnections => each(
                40,
                Box::new(|scene, rng, service| {
                    intruders.spawn(idle(scene, rng, service));
                }),
            ),
            Ingredient::Permits | Ingredient::PermitAbuse => {
                let name = if ingredient == Ingredient::Permits { "git" } else { "abused" };
                let number = scene
                    .world
                    .services
                    .iter()
                    .position(|service| service.name == name)
                    .expect("it is there");
                for _ in 0..8 {
                    let (scene, rng) = (scene.clone(), rng.fork());
                    callers.spawn(permits::ask(scene, rng, number, ingredient == Ingredient::PermitAbuse));
                }
            }
            _ => {}
        }
    }
}

/// Calls again and again, and waits for every answer.
async fn call(
    client: &'static str,
    scene: Arc<Scene>,
    mut rng: Rng,
    service: usize,
    order: fn(&mut Rng, usize) -> Order,
    pause: std::ops::Range<u64>,
) {
    scene.rest(&mut rng, 0..200).await;
    while !scene.is_over() {
        scene.flood(service).await;
        let order = order(&mut rng, service);
        if let Some((number, stream)) = send(client, &scene, &order, None).await {
            hear(&scene, &order, number, stream).await;
        }
        scene.rest(&mut rng, pause.clone()).await;
    }
}

/// Sends a whole request; its call and its connection. None if the sidecar does not listen, or closes meanwhile.
async fn send(
    client: &'static str,
    scene: &Scene,
    order: &Order,
    receive: Option<u32>,
) -> Option<(usize, TcpStream)> {
    let mut stream = scene.connect_with(receive).await?;
    let number = scene.records.call(client, order.meant.clone(), order.timeout);
    let head = order.head(&scene.world, number, order.body.len());
    let (read, mut write) = stream.split();
    let written = async {
        write.write_all(head.as_bytes()).await?;
        write.write_all(&order.body).await
    };
    let written = tokio::select! {
        biased;
        written = written => written.is_ok(),
        // The answer may be there before the whole body is written.
        _ = read.readable() => false,
        () = tokio::time::sleep(order.timeout + PATIENCE) => false,
    };
    if written {
        scene.records.call_sent(number);
    }
    Some((number, stream))
}

/// Waits for the answer and reads it to its end.
async fn hear(scene: &Scene, order: &Order, number: usize, stream: TcpStream) {
    let service = &scene.world.services[order.meant.service];
    let lasts = scene.world.duration > world::LONG && service.connects_in_vain().is_some();
    let patience = order.timeout + if lasts { LONG_PATIENCE } else { PATIENCE };
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    let head = tokio::time::timeout(patience, wire::head(&mut stream)).await;
    let Ok(head) = head else {
        return scene.records.call_ended(number, CallEnd::Left);
    };
    let Some(head) = head else {
        return scene.records.call_ended(number, CallEnd::Cut);
    };
    let status = status(&head).unwrap_or_default();
    scene.records.call_ended(number, |at| CallEnd::Answered(at, status));
    let body = tokio::time::timeout(PATIENCE, wire::body(&mut stream, &head, 0)).await;
    scene.records.body_ended(number, |at| match body {
        Ok(Ok(_)) => BodyEnd::Whole,
        Ok(Err(_)) => BodyEnd::Broken(at),
        Err(_) => BodyEnd::Stalled(at),
    });
}

/// Asks as fast as it is answered, on one connection, and never waits: most of it is refused at once. One call stands for
/// all of them.
pub async fn hammer(scene: Arc<Scene>, mut rng: Rng, service: usize) {
    let mut order = orders::patient(&mut rng, service);
    order.timeout = Duration::ZERO;
    let number = scene.records.call("hammer", order.meant.clone(), order.timeout);
    // It is not judged by when its answer comes: each of its requests has one.
    scene.records.call_ended(number, CallEnd::Left);
    let head = order.head(&scene.world, number, 0).replace("connection: close\r\n", "");
    while let Some(stream) = scene.connect().await {
        let mut stream = BufReader::new(stream);
        while stream.get_mut().write_all(head.as_bytes()).await.is_ok() {
            let Some(head) = wire::head(&mut stream).await else { break };
            if wire::body(&mut stream, &head, 0).await.is_err() {
                break;
            }
        }
    }
}

async fn hang_up(scene: Arc<Scene>, mut rng: Rng, service: usize) {
    while !scene.is_over() {
        let order = orders::plain(&mut rng, service);
        if let Some((number, stream)) = send("hang-up", &scene, &order, None).await {
            scene.rest(&mut rng, 0..400).await;
            if rng.bool() {
                stream.set_zero_linger().ok();
            }
            scene.records.call_ended(number, CallEnd::Left);
        }
        scene.rest(&mut rng, 5..60).await;
    }
}

async fn stop_reading(scene: Arc<Scene>, mut rng: Rng, service: usize) {
    while !scene.is_over() {
        let order = orders::plain(&mut rng, service);
        if let Some((number, stream)) = send("stops reading", &scene, &order, Some(4096)).await {
            let mut stream = BufReader::with_capacity(512, stream);
            let head = tokio::time::timeout(order.timeout + PATIENCE, wire::head(&mut stream)).await;
            scene.records.call_ended(number, |at| match &head {
                Ok(Some(head)) => CallEnd::Answered(at, status(head).unwrap_or_default()),
                Ok(None) => CallEnd::Cut(at),
                Err(_) => CallEnd::Left(at),
            });
            scene.rest(&mut rng, 500..3_000).await;
        }
    }
}

/// Reads a few MiB a second, so that many replies are under way at the same time.
async fn read_slowly(scene: Arc<Scene>, mut rng: Rng, service: usize) {
    while !scene.is_over() {
        let order = orders::patient(&mut rng, service);
        let Some((number, stream)) = send("reads slowly", &scene, &order, None).await else { continue };
        let mut stream = BufReader::with_capacity(64 << 10, stream);
        let head = wire::head(&mut stream).await;
        scene.records.call_ended(number, |at| match &head {
            Some(head) => CallEnd::Answered(at, status(head).unwrap_or_default()),
            None => CallEnd::Cut(at),
        });
        while let Ok(bytes) = stream.fill_buf().await {
            let there = bytes.len();
            if there == 0 {
                break;
            }
            stream.consume(there);
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
}

async fn dribble(scene: Arc<Scene>, mut rng: Rng, service: usize) {
    while !scene.is_over() {
        let order = orders::odd(&mut rng, service);
        let Some(mut stream) = scene.connect().await else { continue };
        let number = scene.records.call("dribbled body", order.meant.clone(), order.timeout);
        let head = order.head(&scene.world, number, order.body.len());
        let mut written = stream.write_all(head.as_bytes()).await.is_ok();
        let gives_up = rng.usize(..2 * order.body.len());
        let step = rng.usize(1..30);
        for (sent, bytes) in order.body.chunks(step).enumerate() {
            scene.rest(&mut rng, 5..60).await;
            written = written && sent * step < gives_up && stream.write_all(bytes).await.is_ok();
        }
        if !written || scene.is_over() {
            scene.records.kept_back(number);
            scene.records.call_ended(number, CallEnd::Left);
            continue;
        }
        scene.records.call_sent(number);
        hear(&scene, &order, number, stream).await;
    }
}

/// Announces 8 MiB, sends a few bytes, and stays.
async fn announce(scene: Arc<Scene>, mut rng: Rng, service: usize) {
    scene.rest(&mut rng, 0..300).await;
    while !scene.is_over() {
        let order = orders::plain(&mut rng, service);
        if order.body.is_empty() {
            continue;
        }
        let Some(mut stream) = scene.connect().await else { continue };
        let number = scene.records.call("silent body", order.meant.clone(), order.timeout);
        scene.records.kept_back(number);
        let head = order.head(&scene.world, number, 8 << 20);
        let few = rng.usize(1..order.body.len());
        stream.write_all(head.as_bytes()).await.ok();
        stream.write_all(&order.body[..few]).await.ok();
        // Until the sidecar has had enough of it.
        let mut stream = BufReader::new(stream);
        let head = tokio::time::timeout(scene.left(), wire::head(&mut stream)).await;
        scene.records.call_ended(number, |at| match &head {
            Ok(Some(head)) => CallEnd::Answered(at, status(head).unwrap_or_default()),
            Ok(None) => CallEnd::Cut(at),
            Err(_) => CallEnd::Left(at),
        });
        scene.rest(&mut rng, 50..200).await;
    }
}

async fn idle(scene: Arc<Scene>, mut rng: Rng, _service: usize) {
    while !scene.is_over() {
        let Some(mut stream) = scene.connect().await else { continue };
        let half = rng.choice([
            "",
            "G",
            "GET /alpha/v1/items/1 HTTP/1.1\r\nhost: loc",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ]);
        stream.write_all(half.expect("some").as_bytes()).await.ok();
        scene.records.seen().idle += 1;
        let mut stream = BufReader::new(stream);
        tokio::time::timeout(scene.left(), wire::head(&mut stream)).await.ok();
        scene.rest(&mut rng, 50..200).await;
    }
}
