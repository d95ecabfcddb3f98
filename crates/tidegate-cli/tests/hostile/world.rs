//! One random world: the services with their written limits, and what happens to them.

use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;

use super::ingredients::Ingredient;
use super::reactions::{Lie, Reaction};
use super::records::Meant;

/// The endpoint that may have a limit of its own.
pub const ENDPOINT: &str = "/v1/chat/completions";
/// The models that may have limits of their own, as the config names them and as calls do.
pub const MODELS: [(&str, &str); 2] = [("m-small*", "m-small-1"), ("m-large*", "m-large-1")];
/// From this duration on, a world lasts long enough to wait for connections that are never made.
pub const LONG: Duration = Duration::from_secs(20);
/// How long a permit lasts.
pub const LEASE: Duration = Duration::from_millis(1500);

pub struct World {
    pub seed: u64,
    pub ingredients: Vec<Ingredient>,
    pub services: Vec<Service>,
    pub limits: Vec<Written>,
    /// MiB.
    pub buffer_memory: u64,
    pub workers: usize,
    pub duration: Duration,
    /// The limits hold nothing back: for a judge that has to say no.
    pub observe: bool,
}

pub struct Service {
    pub name: &'static str,
    pub kind: Kind,
    pub preset: Option<&'static str>,
    /// How often each reaction is chosen, by weight.
    pub mix: Vec<(u32, Reaction)>,
    pub lies: Vec<Lie>,
    /// How long a reply takes at least, in milliseconds.
    pub latency: std::ops::Range<u64>,
    pub max_streams: Option<u32>,
    /// Calls come for half of this time, in milliseconds, and then none for the other half, so that what was saved up
    /// meanwhile is used at once. Steadily where it is absent.
    pub tide: Option<u64>,
    /// The lines of its table, and the tables of its endpoint and models.
    keys: String,
    tables: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Http1,
    /// HTTP/1.1 over TLS.
    Tls1,
    /// HTTP/2 over TLS.
    Http2,
    /// Accepts, and says nothing.
    Mute,
    /// Does not listen.
    Closed,
    /// Has no upstream.
    Permits,
    /// Answers at once, under no limit.
    Probe,
}

/// A limit that the config states.
pub struct Written {
    pub name: String,
    pub scope: Scope,
    pub definition: Definition,
}

/// The calls that a limit counts.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    Service(usize),
    Endpoint(usize),
    Model(usize, usize),
    Background,
}

#[derive(Clone, Copy, Debug)]
pub enum Definition {
    Window { n: usize, window: Duration },
    Bucket { n: usize, window: Duration, burst: usize },
    InFlight { n: usize },
}

impl Scope {
    pub fn covers(self, meant: &Meant) -> bool {
        match self {
            Scope::Service(service) => meant.service == service,
            Scope::Endpoint(service) => meant.service == service && meant.endpoint,
            Scope::Model(service, model) => meant.service == service && meant.models.contains(&model),
            Scope::Background => meant.background,
        }
    }
}

/// N, window in milliseconds, burst.
type Shape = (usize, u64, Option<usize>);

const SERVICE_SHAPES: [Shape; 8] = [
    (20, 2_000, None),
    (20, 2_000, Some(20)),
    (40, 20_000, Some(40)),
    (10, 1_000, None),
    (30, 3_000, Some(5)),
    (60, 60_000, Some(10)),
    (50, 4_000, Some(25)),
    (100, 10_000, Some(50)),
];
const NARROW_SHAPES: [Shape; 4] =
    [(6, 3_000, Some(6)), (5, 5_000, Some(2)), (8, 2_000, None), (4, 60_000, Some(4))];

impl World {
    pub fn new(seed: u64, ingredients: &[Ingredient], duration: Duration) -> World {
        let mut rng = Rng::with_seed(seed);
        let has = |ingredient| ingredients.contains(&ingredient);
        let mut world = World {
            seed,
            ingredients: ingredients.to_vec(),
            services: Vec::new(),
            limits: Vec::new(),
            buffer_memory: if has(Ingredient::HugeReplies) || has(Ingredient::SilentBodies) {
                16
            } else {
                rng.choice([8, 16, 64]).expect("some")
            },
            workers: rng.choice([1, 2, 4, 8]).expect("some"),
            duration,
            observe: false,
        };
        world.add(&mut rng, "alpha", Kind::Http1);
        let beta = rng.choice([Kind::Http1, Kind::Tls1]).expect("some");
        world.add(&mut rng, "beta", beta);
        if [Ingredient::FewStreams, Ingredient::RefusedStreams, Ingredient::GoAway].into_iter().any(has) {
            world.add(&mut rng, "gamma", Kind::Http2);
        }
        for (ingredient, name, kind) in [
            (Ingredient::MuteTls, "mute", Kind::Mute),
            (Ingredient::Unreachable, "closed", Kind::Closed),
            (Ingredient::Permits, "git", Kind::Permits),
            (Ingredient::PermitAbuse, "abused", Kind::Permits),
        ] {
            if has(ingredient) {
                world.add(&mut rng, name, kind);
            }
        }
        world.services.push(Service::new("probe", Kind::Probe));
        let (n, window) = rng.choice([(12, 4_000), (30, 10_000)]).expect("some");
        world.limits.push(Written {
            name: format!("loop_type:background/requests {n}/{window}ms"),
            scope: Scope::Background,
            definition: Definition::Window { n, window: Duration::from_millis(window) },
        });
        for ingredient in ingredients {
            world.season(&mut rng, *ingredient);
        }
        world
    }

    /// Adds a service with random limits.
    fn add(&mut self, rng: &mut Rng, name: &'static str, kind: Kind) {
        let number = self.services.len();
        let mut service = Service::new(name, kind);
        let mut rates = Vec::new();
        let mut shapes = vec![rng.choice(SERVICE_SHAPES).expect("some")];
        if rng.u8(..4) == 0 {
            let other = rng.choice(SERVICE_SHAPES).expect("some");
            if other.1 != shapes[0].1 {
                shapes.push(other);
            }
        }
        let as_bucket = shapes.len() == 1 && rng.u8(..5) == 0;
        for shape in shapes {
            let (text, definition) = rate(shape, as_bucket);
            self.written(format!("{name}/requests {text}"), Scope::Service(number), definition);
            rates.push(text);
        }
        let _ = writeln!(service.keys, "requests = [{}]", rates.join(", "));
        if rng.bool() {
            let n = rng.usize(2..8);
            let _ = writeln!(service.keys, "concurrency = {n}");
            self.written(format!("{name}/concurrency"), Scope::Service(number), Definition::InFlight { n });
        }
        if name == "abused" {
            // Reports may close it for half a second, so that more of them follow.
            service.keys += "tokens = \"1000/10s\"\nbackoff = { max_wait = \"500ms\" }\n";
        }
        if matches!(kind, Kind::Http1 | Kind::Tls1 | Kind::Http2) {
            service.preset =
                rng.choice([None, None, Some("openai"), Some("anthropic"), Some("github")]).flatten();
            let mut narrow = |table: String, scope: Scope| {
                let (text, definition) = rate(rng.choice(NARROW_SHAPES).expect("some"), false);
                let _ = write!(service.tables, "[services.{name}.{table}]\nrequests = {text}\n");
                self.written(format!("{name}/{table}/requests {text}"), scope, definition);
            };
            narrow(format!("endpoints.\"POST {ENDPOINT}\""), Scope::Endpoint(number));
            for (model, (pattern, _)) in MODELS.iter().enumerate() {
                narrow(format!("models.\"{pattern}\""), Scope::Model(number, model));
            }
        }
        service.tide = rng.choice([None, Some(1_600), Some(2_800), Some(5_000)]).flatten();
        let retries = if kind == Kind::Mute { 0 } else { rng.u32(1..6) };
        let _ = writeln!(
            service.keys,
            "retry = {{ max_retries = {retries}, initial = \"50ms\", max = \"500ms\" }}"
        );
        self.services.push(service);
    }

    fn written(&mut self, name: String, scope: Scope, definition: Definition) {
        self.limits.push(Written { name, scope, definition });
    }

    /// Adds what an ingredient does to the upstreams. Those of clients and of the sidecar itself are played elsewhere.
    fn season(&mut self, rng: &mut Rng, ingredient: Ingredient) {
        let number = rng.usize(..2);
        let same = ingredient == Ingredient::SameWindow;
        let http2 =
            matches!(ingredient, Ingredient::FewStreams | Ingredient::RefusedStreams | Ingredient::GoAway);
        let number = if http2 { 2 } else { number };
        let truth = self.limits.iter().find_map(|limit| match (limit.scope, limit.definition) {
            (Scope::Service(of), Definition::Window { n, window }) if of == number => Some((n, window)),
            _ => None,
        });
        let service = &mut self.services[number];
        let mut react = |weight, reaction| service.mix.push((weight, reaction));
        match ingredient {
            Ingredient::HintsOfNothing => react(30, Reaction::HintOfNothing(rng.u8(..6))),
            Ingredient::HintsOfYears => react(1, Reaction::HintOfYears),
            Ingredient::ServerErrors => react(5, Reaction::Error),
            Ingredient::Resets => {
                for reaction in [Reaction::Reset, Reaction::CutHead, Reaction::CutBody, Reaction::Half] {
                    react(2, reaction);
                }
            }
            Ingredient::Silence => react(2, Reaction::Silence),
            Ingredient::DribbledReplies => react(4, Reaction::Dribble),
            Ingredient::Gzip => react(6, Reaction::Gzip),
            // Nearly all of them go to clients that read slowly: else the machine has nothing else to do.
            Ingredient::HugeReplies => react(1, Reaction::Huge),
            Ingredient::RefusedStreams => react(5, Reaction::RefusedStream),
            Ingredient::GoAway => react(2, Reaction::GoAway),
            Ingredient::FewStreams => {
                service.max_streams = Some(rng.u32(1..5));
            }
            Ingredient::OtherWindow => service.lies = vec![Lie::OtherWindow],
            Ingredient::LyingHeaders => service.lies.extend(Lie::ALL),
            Ingredient::SameWindow => service.lies.extend(truth.map(|(n, window)| Lie::Truth(n, window))),
            _ => {}
        }
        if let (true, Some((n, window))) = (same, truth) {
            // Headers that state this N and W may establish a bucket, whose definition is in force from then on.
            for limit in &mut self.limits {
                let of_service = matches!(limit.scope, Scope::Service(of) if of == number);
                if of_service && matches!(limit.definition, Definition::Window { n: same, .. } if same == n) {
                    limit.definition = Definition::Bucket { n, window, burst: n };
                }
            }
        }
    }

    /// The config file, with the addresses of the upstreams, and without one of the services where that is taken out.
    pub fn config(&self, ports: &[u16], without: Option<usize>) -> String {
        let mut text = format!(
            "permit_lease = \"{}ms\"\nbuffer_memory = \"{}MiB\"\n",
            LEASE.as_millis(),
            self.buffer_memory
        );
        for limit in &self.limits {
            if let (Scope::Background, Definition::Window { n, window }) = (limit.scope, limit.definition) {
                let _ =
                    write!(text, "[loop_types.background]\nrequests = \"{n}/{}ms\"\n", window.as_millis());
            }
        }
        for (number, service) in self.services.iter().enumerate() {
            if without == Some(number) {
                continue;
            }
            let _ = write!(text, "[services.{}]\n{}", service.name, service.keys);
            if self.observe {
                text += "mode = \"observe\"\n";
            }
            let scheme = match service.kind {
                Kind::Tls1 | Kind::Http2 | Kind::Mute => "https://localhost",
                _ => "http://127.0.0.1",
            };
            if service.kind != Kind::Permits {
                let _ = writeln!(text, "upstream = \"{scheme}:{}\"", ports[number]);
            }
            if let Some(preset) = service.preset {
                let _ = writeln!(text, "preset = \"{preset}\"");
            }
            text += &service.tables;
        }
        text
    }

    pub fn has(&self, ingredient: Ingredient) -> bool {
        self.ingredients.contains(&ingredient)
    }

    /// The services that calls are made to, with their numbers.
    pub fn called(&self) -> impl Iterator<Item = (usize, &Service)> {
        self.services
            .iter()
            .enumerate()
            .filter(|(_, service)| !matches!(service.kind, Kind::Permits | Kind::Probe))
    }
}

impl Service {
    fn new(name: &'static str, kind: Kind) -> Service {
        Service {
            name,
            kind,
            preset: None,
            mix: vec![(10, Reaction::Fine)],
            lies: vec![Lie::None],
            latency: if kind == Kind::Probe { 0..1 } else { 0..60 },
            max_streams: None,
            tide: None,
            keys: String::new(),
            tables: String::new(),
        }
    }

    /// How often a call may try in vain to connect for as long as it may, if it does at all.
    pub fn connects_in_vain(&self) -> Option<u32> {
        (self.kind == Kind::Mute).then_some(1)
    }
}

/// A rate as the config writes it, and what it promises.
fn rate((n, millis, burst): Shape, as_bucket: bool) -> (String, Definition) {
    let window = Duration::from_millis(millis);
    let mut text = format!("{{ limit = \"{n}/{millis}ms\"");
    if let Some(burst) = burst {
        let _ = write!(text, ", burst = {burst}");
    }
    let definition = match (as_bucket, burst) {
        (true, _) => {
            text += ", algorithm = \"token-bucket\"";
            Definition::Bucket { n, window, burst: burst.unwrap_or(n) }
        }
        (false, _) => Definition::Window { n, window },
    };
    (text + " }", definition)
}
