//! One random world: the services with their written limits, and what happens to them.

use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;

use super::ingredients::Ingredient;
use super::limits::{
    Counts, Definition, Extras, FIXED_SHAPES, GLOBAL_SHAPES, KEYS, LOOP_SHAPES, LOOPS, NARROW_SHAPES, Scope,
    Written, rate, service_shape, tokens,
};
use super::reactions::{Lie, Reaction};

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
    /// The tables of the config that belong to no service.
    tables: String,
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

impl World {
    pub fn new(seed: u64, ingredients: &[Ingredient], duration: Duration) -> World {
        World::with(seed, ingredients, duration, Extras::of(seed))
    }

    pub fn with(seed: u64, ingredients: &[Ingredient], duration: Duration, extras: Extras) -> World {
        let mut rng = Rng::with_seed(seed);
        // A body that is too large to be read counts as a whole window of tokens, and would hardly ever go.
        let extras =
            Extras { tokens: extras.tokens && !ingredients.contains(&Ingredient::LargeBodies), ..extras };
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
            tables: String::new(),
        };
        world.add(&mut rng, "alpha", Kind::Http1, extras);
        let beta = rng.choice([Kind::Http1, Kind::Tls1]).expect("some");
        // Of one service the keys have limits of their own.
        let shared = Extras { keys: false, ..extras };
        world.add(&mut rng, "beta", beta, shared);
        if [Ingredient::FewStreams, Ingredient::RefusedStreams, Ingredient::GoAway].into_iter().any(has) {
            world.add(&mut rng, "gamma", Kind::Http2, shared);
        }
        for (ingredient, name, kind) in [
            (Ingredient::MuteTls, "mute", Kind::Mute),
            (Ingredient::Unreachable, "closed", Kind::Closed),
            (Ingredient::Permits, "git", Kind::Permits),
            (Ingredient::PermitAbuse, "abused", Kind::Permits),
        ] {
            if has(ingredient) {
                world.add(&mut rng, name, kind, shared);
            }
        }
        world.services.push(Service::new("probe", Kind::Probe));
        world.add_levels(&mut rng, extras);
        for ingredient in ingredients {
            world.season(&mut rng, *ingredient);
        }
        world
    }

    /// Adds the limits that belong to no service.
    fn add_levels(&mut self, rng: &mut Rng, extras: Extras) {
        let shape = rng.choice([(12, 4_000, None), (30, 10_000, None)]).expect("some");
        let (text, definition) = rate(shape, Counts::Window);
        let _ = write!(self.tables, "[loop_types.background]\nrequests = {text}\n");
        self.written(format!("loop_type:background/requests {text}"), Scope::Background, definition);
        if extras.global {
            let (text, definition) = rate(rng.choice(GLOBAL_SHAPES).expect("some"), Counts::Window);
            let _ = write!(self.tables, "[global]\nrequests = {text}\n");
            self.written(format!("global/requests {text}"), Scope::Global, definition);
        }
        if extras.loops {
            let (text, definition) = rate(rng.choice(LOOP_SHAPES).expect("some"), Counts::Window);
            let _ = write!(self.tables, "[loops]\nrequests = {text}\n");
            for number in 0..=LOOPS {
                self.written(format!("loop:{number}/requests {text}"), Scope::Loop(number), definition);
            }
        }
    }

    /// Adds a service with random limits.
    fn add(&mut self, rng: &mut Rng, name: &'static str, kind: Kind, extras: Extras) {
        let number = self.services.len();
        let mut service = Service::new(name, kind);
        let first = self.limits.len();
        let mut rates = Vec::new();
        let mut shapes = vec![service_shape(rng, self.duration)];
        if rng.u8(..4) == 0 {
            let other = service_shape(rng, self.duration);
            if other.1 != shapes[0].1 {
                shapes.push(other);
            }
        }
        // Headers can state a window truly only where there is one.
        let as_bucket = shapes.len() == 1 && rng.u8(..5) == 0 && !self.has(Ingredient::SameWindow);
        for shape in shapes {
            let (text, definition) = rate(shape, if as_bucket { Counts::Bucket } else { Counts::Window });
            self.written(format!("{name}/requests {text}"), Scope::Service(number), definition);
            rates.push(text);
        }
        let _ = writeln!(service.keys, "requests = [{}]", rates.join(", "));
        if rng.bool() {
            // Clients that read slowly hold slots: enough are left for others.
            let held = self.has(Ingredient::HugeReplies) || self.has(Ingredient::StopReading);
            let n = rng.usize(2..8) + if held { 6 } else { 0 };
            let _ = writeln!(service.keys, "concurrency = {n}");
            self.written(format!("{name}/concurrency"), Scope::Service(number), Definition::InFlight { n });
        }
        if name == "abused" {
            service.keys += "tokens = \"1000/10s\"\n";
        }
        // Replies and reports may close a service for half a second, so that more of them follow.
        service.keys += "backoff = { max_wait = \"500ms\" }\n";
        if matches!(kind, Kind::Http1 | Kind::Tls1 | Kind::Http2) {
            self.narrow(rng, &mut service, extras);
        }
        if extras.keys {
            service.keys += "per_key = true\n";
            for limit in self.limits.split_off(first) {
                for key in 0..KEYS {
                    let Written { name, scope, definition, .. } = &limit;
                    let name = format!("{name} of key {key}");
                    self.limits.push(Written {
                        name,
                        scope: *scope,
                        key: Some(key),
                        definition: *definition,
                    });
                }
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

    /// Adds limits of tokens, of an endpoint and of models.
    fn narrow(&mut self, rng: &mut Rng, service: &mut Service, extras: Extras) {
        let (name, number) = (service.name, self.services.len());
        service.preset =
            rng.choice([None, None, Some("openai"), Some("anthropic"), Some("github")]).flatten();
        if extras.tokens {
            let (text, definition) = tokens(rng);
            let _ = writeln!(service.keys, "tokens = {text}");
            self.written(format!("{name}/tokens {text}"), Scope::Service(number), definition);
        }
        let (text, definition) = if extras.fixed {
            rate(rng.choice(FIXED_SHAPES).expect("some"), Counts::Fixed)
        } else {
            rate(rng.choice(NARROW_SHAPES).expect("some"), Counts::Window)
        };
        let table = format!("endpoints.\"POST {ENDPOINT}\"");
        let _ = write!(service.tables, "[services.{name}.{table}]\nrequests = {text}\n");
        self.written(format!("{name}/{table}/requests {text}"), Scope::Endpoint(number), definition);
        for (model, (pattern, _)) in MODELS.iter().enumerate() {
            let table = format!("models.\"{pattern}\"");
            let scope = Scope::Model(number, model);
            let (text, definition) = rate(rng.choice(NARROW_SHAPES).expect("some"), Counts::Window);
            let _ = write!(service.tables, "[services.{name}.{table}]\nrequests = {text}\n");
            self.written(format!("{name}/{table}/requests {text}"), scope, definition);
            if extras.tokens && model == 0 {
                let (text, definition) = tokens(rng);
                let _ = writeln!(service.tables, "tokens = {text}");
                self.written(format!("{name}/{table}/tokens {text}"), scope, definition);
            }
        }
    }

    fn written(&mut self, name: String, scope: Scope, definition: Definition) {
        self.limits.push(Written { name, scope, key: None, definition });
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
            Ingredient::HintsOfYears => react(4, Reaction::HintOfYears),
            Ingredient::ServerErrors => react(5, Reaction::Error),
            Ingredient::Resets => {
                for reaction in [Reaction::Reset, Reaction::CutHead, Reaction::CutBody, Reaction::Half] {
                    react(2, reaction);
                }
            }
            Ingredient::Silence => react(4, Reaction::Silence),
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
        text += &self.tables;
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

    pub fn has_global_limit(&self) -> bool {
        self.limits.iter().any(|limit| matches!(limit.scope, Scope::Global))
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
