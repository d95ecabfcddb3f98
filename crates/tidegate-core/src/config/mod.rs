//! The config model: what a `tidegate.toml` says, parsed and valid.
//!
//! Everything here is plain data with its defaults filled in. A value of these types has passed every check
//! that can be made without knowing the call: the engine takes it as it is.

mod adapting;
mod auth;
mod check;
mod error;
mod expand;
mod hint;
mod parse;
mod path;
mod preset;
pub mod presets;
mod requests;
pub mod units;
mod warnings;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::dimension::Dimension;
use crate::model::growth::Growth;
use crate::model::priority::Priority;
use crate::model::rate::{Algorithm, Rate};
use crate::vendors::Profiles;

pub use adapting::{Adaptation, AdaptiveConfig};
pub use auth::{AuthConfig, TokenConfig, TokenHash};
pub use check::Problem;
pub use error::{ConfigError, ConfigErrors};
pub use hint::nearest;
pub use parse::{Document, Field, Kind, Walk, schema};

pub use crate::model::ramp::RampConfig;
pub use crate::model::settle_rule::SettleRule;

/// A whole `tidegate.toml`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Where the sidecar listens.
    pub listen: String,
    /// The Unix socket that the sidecar also listens on.
    pub listen_unix: Option<String>,
    /// Who may use the sidecar.
    pub auth: AuthConfig,
    /// How long a permit that was asked for over HTTP lasts unless it is renewed.
    pub permit_lease: Duration,
    /// How many bytes the bodies of calls take in the sidecar, all together: requests that are kept, and what compressed
    /// replies are read with.
    pub buffer_memory: u64,
    /// Where state is kept.
    pub state: StateConfig,
    /// Limits over all calls.
    pub global: Limits,
    /// The services, by name.
    pub services: BTreeMap<String, ServiceConfig>,
    /// Loop types, by name.
    pub loop_types: BTreeMap<String, LoopTypeConfig>,
    /// What each single loop may spend.
    pub loops: Limits,
    /// When to raise an alert, and where to send it; absent means that none was asked for. Has no effect yet: see
    /// [`Config::ignored`].
    pub alerts: Option<AlertsConfig>,
    /// How upstreams that the vendor table does not know write their replies, by name.
    pub profiles: Profiles,
}

/// Where state is kept.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StateConfig {
    /// The folder of the state file.
    pub path: Option<String>,
    /// A Redis or Valkey URL for a fleet. Not supported yet: a config that has one is refused.
    pub redis: Option<String>,
    /// What to do while the file cannot be written.
    pub on_failure: StateFailure,
}

/// What to do while state cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateFailure {
    /// Calls go on; a crash meanwhile may spend some of the quota twice.
    #[default]
    Memory,
    /// Calls that need more of their quota are refused.
    Refuse,
}

/// The limits of one level (global, a service, an endpoint, a model, a loop type, a loop).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Rate limits; several on one dimension all hold.
    pub rates: Vec<RateLimit>,
    /// Calls in flight.
    pub concurrency: Option<u64>,
    /// Who says so of `concurrency`.
    pub concurrency_origin: Origin,
    /// How `concurrency`, which is the most then, follows what the upstream copes with; absent means that it is fixed.
    pub adaptive: Option<AdaptiveConfig>,
    /// Calls in flight while backing off.
    pub throttled_concurrency: Option<u64>,
    /// Bytes in flight.
    pub byte_budget: Option<u64>,
    /// Shares kept for a priority and above, for every limit of this level.
    pub reserve: Reserve,
}

/// Who says that a limit is so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The user: a ceiling, which headers may lower.
    #[default]
    Written,
    /// A preset: a guess, which headers may move both ways.
    Preset,
}

/// One rate limit.
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimit {
    /// What it counts.
    pub dimension: Dimension,
    /// N per W.
    pub rate: Rate,
    /// How it counts, if that was written or the preset says it: a plain rate leaves it to the default.
    pub algorithm: Option<Algorithm>,
    /// How much may go at once, if that was written or the preset says it.
    pub burst: Option<u64>,
    /// For calendar windows: the IANA time zone whose day, hour or minute bounds the window.
    pub calendar: Option<String>,
    /// Shares kept for a priority and above, for this limit; overrides the level's.
    pub reserve: Option<Reserve>,
    /// Who says so.
    pub origin: Origin,
}

impl RateLimit {
    /// A plain rate, as `"500/min"` is.
    #[must_use]
    pub fn plain(dimension: Dimension, rate: Rate) -> RateLimit {
        RateLimit {
            dimension,
            rate,
            algorithm: None,
            burst: None,
            calendar: None,
            reserve: None,
            origin: Origin::Written,
        }
    }

    /// How it counts, said or not.
    #[must_use]
    pub fn counts_by(&self) -> Algorithm {
        match (self.algorithm, &self.calendar) {
            (Some(algorithm), _) => algorithm,
            (None, Some(_)) => Algorithm::FixedWindow,
            (None, None) => Algorithm::SlidingWindow,
        }
    }
}

/// The share of a limit that is kept for a priority and all above it, by `Priority as usize`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reserve {
    /// `share[p]` is kept for `p` and above. Finite, not negative; the sum is below 1.
    pub share: [f64; 4],
}

impl Reserve {
    /// The share that a call of this priority must leave alone: all that is kept for higher ones.
    #[must_use]
    pub fn withheld_from(&self, priority: Priority) -> f64 {
        self.share[priority as usize + 1..].iter().sum()
    }
}

/// Whether a service's limits hold calls back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They do.
    #[default]
    Enforce,
    /// They decide and count, and hold nothing back.
    Observe,
}

/// What upstream headers may do to limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// Lower configured limits, move a preset's both ways.
    #[default]
    Follow,
    /// Lift configured limits too.
    Authoritative,
    /// Nothing.
    Ignore,
}

/// What becomes of a call whose body cannot be read as a whole: it is too large, compressed or not JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unread {
    /// Its tokens are not counted before its reply says what they were.
    Pass,
    /// Its tokens are taken from its length.
    #[default]
    Estimate,
    /// It is refused.
    Refuse,
}

impl Unread {
    /// All of them, by their name in the config.
    pub const NAMES: [(&str, Unread); 3] =
        [("pass", Unread::Pass), ("estimate", Unread::Estimate), ("refuse", Unread::Refuse)];
}

/// One service.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ServiceConfig {
    /// The preset it starts from, by name; a service of a file that is called as a preset starts from that one. What the
    /// preset says is already in the other fields.
    pub preset: Option<String>,
    /// The tier or plan of the preset whose limits it has.
    pub tier: Option<String>,
    /// The profile or vendor that its replies are read by, where it is not the preset's.
    pub profile: Option<String>,
    /// The base URL that calls are forwarded to.
    pub upstream: Option<String>,
    /// The environment variable that holds the API key to inject.
    pub api_key_env: Option<String>,
    /// Limits over all calls of the service.
    pub limits: Limits,
    /// Limits by endpoint pattern (`POST /v1/embeddings`, `* /v1/files/*`).
    pub endpoints: BTreeMap<String, Limits>,
    /// Limits by model pattern (`gpt-4o*`).
    pub models: BTreeMap<String, Limits>,
    /// Whether each API key has its own instance of the service's limits.
    pub per_key: bool,
    /// Whether limits hold calls back.
    pub mode: Mode,
    /// What upstream headers may do.
    pub headers: Headers,
    /// What a reservation above the actual cost does.
    pub settle: SettleRule,
    /// What becomes of a call whose body cannot be read.
    pub unread: Unread,
    /// Retry rules; what is not written is left to the preset or the user of the library.
    pub retry: RetryConfig,
    /// Circuit breaker; absent means none.
    pub breaker: Option<BreakerConfig>,
    /// What a call that was turned away means for those after it.
    pub backoff: BackoffConfig,
    /// Whether a call that the upstream turned away or failed counts there all the same.
    pub failures_count: bool,
    /// Queueing rules.
    pub queue: QueueConfig,
    /// How calls begin again after a time without any; absent means at once.
    pub ramp: Option<RampConfig>,
}

/// Retry rules as written.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RetryConfig {
    /// How often a call is tried again.
    pub max_retries: Option<u32>,
    /// The first delay.
    pub initial: Option<Duration>,
    /// The longest delay.
    pub max: Option<Duration>,
    /// How delays grow.
    pub backoff: Option<Growth>,
    /// Random spread, as a share of the delay.
    pub jitter: Option<f64>,
    /// In which direction delays are spread.
    pub jitter_kind: Option<JitterKind>,
    /// How long after its start a call may still be tried again.
    pub max_elapsed: Option<Duration>,
    /// Retries allowed, as a share of all calls.
    pub budget: Option<f64>,
}

/// In which direction delays are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterKind {
    /// Shorter or longer.
    #[default]
    Symmetric,
    /// Shorter.
    Factor,
    /// Longer.
    Additive,
    /// Anything from nothing to the delay.
    Full,
}

/// Circuit breaker rules.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BreakerConfig {
    /// Consecutive failures that open it.
    pub failures: u32,
    /// The share of failed calls that opens it; absent means that the share does not matter.
    pub failure_rate: Option<f64>,
    /// The share of slow calls that opens it; absent means that it does not matter how long calls take.
    pub slow_rate: Option<f64>,
    /// A call that takes this long is slow.
    pub slow_after: Option<Duration>,
    /// The stretch of time over which shares are counted.
    pub window: Duration,
    /// With fewer calls in that stretch, shares say nothing.
    pub min_calls: u32,
    /// How long it stays open at first; twice as long each time that its probes fail.
    pub open_for: Duration,
    /// How long it stays open at most, if that was written.
    pub max_open: Option<Duration>,
    /// How many calls try whether the upstream is well again.
    pub probes: u32,
    /// Whether a call that was rate limited is a failed one.
    pub count_rate_limits: bool,
    /// What has a breaker of its own.
    pub per: BreakerScope,
    /// What becomes of calls that wait when it opens.
    pub queued: Queued,
}

/// What has a breaker of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerScope {
    /// The service.
    #[default]
    Service,
    /// Every endpoint that the config names; all others share the service's.
    Endpoint,
}

/// What becomes of calls that wait when a breaker opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queued {
    /// They go on waiting.
    #[default]
    Wait,
    /// They are refused.
    Fail,
}

/// What a call that was turned away means for those after it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BackoffConfig {
    /// How long after the end of a backoff window calls still go throttled.
    pub window: Duration,
    /// How many times their bytes count meanwhile.
    pub byte_penalty_multiplier: u16,
    /// Whether calls wait for the end of a window; else they only go throttled from its beginning.
    pub waits: bool,
    /// The longest wait that a reply or a report can ask for. If absent, as long as the service's longest window, and at
    /// least an hour.
    pub max_wait: Option<Duration>,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        BackoffConfig {
            window: Duration::from_secs(10),
            byte_penalty_multiplier: 20,
            waits: true,
            max_wait: None,
        }
    }
}

impl Default for BreakerConfig {
    fn default() -> Self {
        BreakerConfig {
            failures: 5,
            failure_rate: None,
            slow_rate: None,
            slow_after: None,
            window: Duration::from_secs(60),
            min_calls: 20,
            open_for: Duration::from_secs(30),
            max_open: None,
            probes: 1,
            count_rate_limits: false,
            per: BreakerScope::default(),
            queued: Queued::default(),
        }
    }
}

/// Queueing rules of a service.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// How long a call may wait, if that was written.
    pub timeout: Option<Duration>,
    /// How many calls may wait.
    pub max_waiting: usize,
    /// Waiting this long raises a call's rank by one level.
    pub aging: Duration,
    /// The share of a limit's units that may go by age alone past a higher priority.
    pub aging_share: f64,
}

impl Default for QueueConfig {
    fn default() -> Self {
        QueueConfig { timeout: None, max_waiting: 10_000, aging: Duration::from_secs(30), aging_share: 0.1 }
    }
}

/// One loop type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoopTypeConfig {
    /// Limits over all loops of the type.
    pub limits: Limits,
    /// The priority of its calls, where the call itself states none.
    pub priority: Option<Priority>,
    /// The weight of each of its loops in the fair share. Finite and above 0.
    pub weight: f64,
}

impl Default for LoopTypeConfig {
    fn default() -> Self {
        LoopTypeConfig { limits: Limits::default(), priority: None, weight: 1.0 }
    }
}

/// Alerts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AlertsConfig {
    /// The used share of a limit at which "approaching" is raised.
    pub approaching: f64,
    /// Where alerts are posted.
    pub webhook: Option<String>,
}

impl Default for AlertsConfig {
    fn default() -> Self {
        AlertsConfig { approaching: 0.8, webhook: None }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: "127.0.0.1:8429".into(),
            listen_unix: None,
            auth: AuthConfig::default(),
            permit_lease: Duration::from_secs(300),
            buffer_memory: 256 << 20,
            state: StateConfig::default(),
            global: Limits::default(),
            services: BTreeMap::new(),
            loop_types: BTreeMap::new(),
            loops: Limits::default(),
            alerts: None,
            profiles: Profiles::default(),
        }
    }
}
