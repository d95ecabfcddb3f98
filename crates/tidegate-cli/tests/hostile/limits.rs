//! The limits that a world writes into its config, and the calls that each of them counts.

use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;

use super::records::Meant;

/// How many API keys calls come with.
pub const KEYS: usize = 3;
/// How many loops calls come from; the loop after the last one is that of permits.
pub const LOOPS: usize = 5;

/// A limit that the config states.
#[derive(Debug)]
pub struct Written {
    pub name: String,
    pub scope: Scope,
    /// The API key that has this instance of the limit, where each key has its own.
    pub key: Option<usize>,
    pub definition: Definition,
}

/// The calls that a limit counts.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    Global,
    Service(usize),
    Endpoint(usize),
    Model(usize, usize),
    Background,
    Loop(usize),
}

#[derive(Clone, Copy, Debug)]
pub enum Definition {
    Window {
        n: usize,
        window: Duration,
    },
    Bucket {
        n: usize,
        window: Duration,
        burst: usize,
    },
    /// N in each window, wherever windows begin.
    Fixed {
        n: usize,
        window: Duration,
    },
    /// A sliding window of tokens.
    Tokens {
        n: u64,
        window: Duration,
    },
    InFlight {
        n: usize,
    },
}

/// Which kinds of limits a world has beside those on the requests of services, endpoints and models.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    pub global: bool,
    pub loops: bool,
    /// Each API key has its own instance of a service's limits.
    pub keys: bool,
    pub tokens: bool,
    /// The endpoint's window is a fixed one.
    pub fixed: bool,
}

impl Extras {
    pub const ALL: Extras = Extras { global: true, loops: true, keys: true, tokens: true, fixed: true };

    /// Shares the kinds out by seed, so that a few worlds in a row have had them all.
    pub fn of(seed: u64) -> Extras {
        Extras {
            global: seed % 4 == 1,
            loops: seed.is_multiple_of(3),
            keys: seed % 3 == 1,
            tokens: seed.is_multiple_of(2),
            fixed: (seed / 2).is_multiple_of(2),
        }
    }
}

impl Written {
    pub fn covers(&self, meant: &Meant) -> bool {
        self.scope.covers(meant) && self.key.is_none_or(|key| meant.key == key)
    }
}

impl Scope {
    fn covers(self, meant: &Meant) -> bool {
        match self {
            Scope::Global => true,
            Scope::Service(service) => meant.service == service,
            Scope::Endpoint(service) => meant.service == service && meant.endpoint,
            Scope::Model(service, model) => meant.service == service && meant.models.contains(&model),
            Scope::Background => meant.background,
            Scope::Loop(number) => meant.loop_id == Some(number),
        }
    }
}

/// N, window in milliseconds, burst.
pub type Shape = (usize, u64, Option<usize>);

pub const SERVICE_SHAPES: [Shape; 8] = [
    (20, 2_000, None),
    (20, 2_000, Some(20)),
    (40, 20_000, Some(40)),
    (10, 1_000, None),
    (30, 3_000, Some(5)),
    (60, 60_000, Some(10)),
    (50, 4_000, Some(25)),
    (100, 10_000, Some(50)),
];
pub const NARROW_SHAPES: [Shape; 4] =
    [(6, 3_000, Some(6)), (5, 5_000, Some(2)), (8, 2_000, None), (4, 60_000, Some(4))];
pub const FIXED_SHAPES: [Shape; 3] = [(5, 700, None), (8, 1_500, None), (4, 2_000, None)];
pub const GLOBAL_SHAPES: [Shape; 3] = [(40, 2_000, None), (60, 3_000, Some(60)), (150, 10_000, Some(40))];
pub const LOOP_SHAPES: [Shape; 3] = [(6, 2_000, Some(6)), (8, 1_500, None), (20, 8_000, Some(10))];
/// Tokens, and the window in milliseconds.
pub const TOKEN_SHAPES: [(u64, u64); 3] = [(300, 2_000), (200, 1_000), (500, 5_000)];

/// Chooses a shape of which enough calls go in a world of that duration: with fewer, ingredients would meet no load.
pub fn service_shape(rng: &mut Rng, duration: Duration) -> Shape {
    const ENOUGH: u64 = 20;
    loop {
        let shape @ (n, window, burst) = rng.choice(SERVICE_SHAPES).expect("some");
        let flow = n as u64 * duration.as_millis() as u64 / window;
        if flow + burst.unwrap_or_default() as u64 >= ENOUGH {
            return shape;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Window,
    Bucket,
    Fixed,
}

/// A rate as the config writes it, and what it promises.
pub fn rate((n, millis, burst): Shape, counts: Counts) -> (String, Definition) {
    let window = Duration::from_millis(millis);
    let mut text = format!("{{ limit = \"{n}/{millis}ms\"");
    if let Some(burst) = burst {
        let _ = write!(text, ", burst = {burst}");
    }
    let definition = match counts {
        Counts::Window => Definition::Window { n, window },
        Counts::Bucket => {
            text += ", algorithm = \"token-bucket\"";
            Definition::Bucket { n, window, burst: burst.unwrap_or(n) }
        }
        Counts::Fixed => {
            text += ", algorithm = \"fixed-window\"";
            Definition::Fixed { n, window }
        }
    };
    (text + " }", definition)
}

/// The same of tokens.
pub fn tokens(rng: &mut Rng) -> (String, Definition) {
    let (n, millis) = rng.choice(TOKEN_SHAPES).expect("some");
    (format!("\"{n}/{millis}ms\""), Definition::Tokens { n, window: Duration::from_millis(millis) })
}
