//! What clients ask for: ordinary requests, and ones that are odd in one place.

use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;

use super::limits::{KEYS, LOOPS};
use super::records::{MARK, Meant};
use super::world::{ENDPOINT, MODELS, World};

/// A request that is yet to be sent.
pub struct Order {
    pub meant: Meant,
    pub timeout: Duration,
    method: &'static str,
    path: String,
    pub body: Vec<u8>,
    /// Whether it goes before ordinary calls: else most of what is odd would be refused in the queue, and never arrive.
    high: bool,
}

impl Order {
    /// The head, for the call of that number, and a body of that length.
    pub fn head(&self, world: &World, number: usize, length: usize) -> String {
        let mut head = format!(
            "{} /{}{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{MARK}: {number}\r\n",
            self.method, world.services[self.meant.service].name, self.path
        );
        let _ = write!(head, "x-tidegate-timeout: {}ms\r\n", self.timeout.as_millis());
        let _ = write!(head, "authorization: Bearer key-{}\r\n", self.meant.key);
        if let Some(number) = self.meant.loop_id {
            let _ = write!(head, "x-tidegate-loop: loop-{number}\r\n");
        }
        if self.meant.background {
            head += "x-tidegate-loop-type: background\r\n";
        }
        if self.high {
            head += "x-tidegate-priority: high\r\n";
        }
        if self.method != "GET" {
            let _ = write!(head, "content-type: application/json\r\ncontent-length: {length}\r\n");
        }
        head + "\r\n"
    }
}

/// What most programs send.
pub fn plain(rng: &mut Rng, service: usize) -> Order {
    let model = rng.choice([None, None, Some(0), Some(1)]).flatten();
    let loop_id = rng.bool().then(|| rng.usize(..LOOPS));
    let background = loop_id.is_some() && rng.u8(..3) == 0;
    let meant = Meant { background, loop_id, ..to(rng, service) };
    let timeout = Duration::from_millis(rng.choice([0, 200, 700, 1500, 1500]).expect("some"));
    match rng.u8(..3) {
        0 => {
            let path = format!("/v1/items/{}", rng.u32(..1000));
            Order { meant, timeout, method: "GET", path, body: Vec::new(), high: false }
        }
        1 => post(rng, meant, timeout, ENDPOINT, model),
        _ => post(rng, meant, timeout, "/v1/messages", model),
    }
}

/// A call to a service with one of the API keys.
fn to(rng: &mut Rng, service: usize) -> Meant {
    Meant { service, key: rng.usize(..KEYS), ..Meant::default() }
}

/// A request that waits for long.
pub fn patient(rng: &mut Rng, service: usize) -> Order {
    let path = format!("/v1/items/{}", rng.u32(..1000));
    let meant = to(rng, service);
    Order { meant, timeout: Duration::from_secs(10), method: "GET", path, body: Vec::new(), high: false }
}

fn post(rng: &mut Rng, mut meant: Meant, timeout: Duration, path: &str, model: Option<usize>) -> Order {
    meant.endpoint = path == ENDPOINT;
    meant.models.extend(model);
    let tokens = rng.choice([5, 20, 60]).expect("some");
    meant.tokens = Some(tokens);
    let name = model.map_or("m-other", |model| MODELS[model].1);
    let text = format!(
        r#"{{"model":"{name}","max_tokens":{tokens},"messages":[{{"role":"user","content":"hi"}}]}}"#
    );
    Order { meant, timeout, method: "POST", path: path.into(), body: text.into_bytes(), high: false }
}

/// An ordinary request to the endpoint with a limit, by another way to write its path.
pub fn alias(rng: &mut Rng, service: usize) -> Order {
    let meant = to(rng, service);
    let mut order = post(rng, meant, Duration::from_millis(700), ENDPOINT, None);
    order.high = true;
    order.path = rng
        .choice([
            "/v1/%63hat/completions",
            "//v1/chat/completions",
            "/v1//chat/completions",
            "/v1/chat/completions/",
            "/v1/chat/completions//",
            "/v1/./chat/completions",
            "/v1/chat/completion%73",
            "/%76%31/chat/completions",
            "/v1/chat/completions?a=b",
            "/v1/chat/completions/?a=b",
        ])
        .expect("some")
        .to_owned();
    order
}

/// A request with a model that has a limit, in a body that is odd in one place.
pub fn odd(rng: &mut Rng, service: usize) -> Order {
    let model = rng.usize(..MODELS.len());
    let name = MODELS[model].1;
    let other = MODELS[1 - model].1;
    let mut models = vec![model];
    let rest = r#""messages":[{"role":"user","content":"hi"}]"#;
    let field = |field: &str| format!(r#"{{"model":"{name}",{field},{rest}}}"#);
    let body = match rng.u8(..17) {
        0 => field(r#""max_tokens":100.0"#),
        1 => field(r#""max_tokens":1e2"#),
        2 => field(r#""max_tokens":-1"#),
        3 => field(r#""max_tokens":"100""#),
        4 => field(r#""n":1.0"#),
        5 => field(r#""stream":1"#),
        6 => field(r#""max_tokens":5,"max_tokens":7"#),
        7 => field(r#""generationConfig":null"#),
        8 => format!(r#"{{"model":"{name}","messages":[{{"role":"user","content":"cut \ud83d"}}]}}"#),
        9 => format!("\u{feff}{}", field(r#""max_tokens":5"#)),
        10 => field(r#""temperature":NaN"#),
        11 => field(&format!(r#""deep":{}{}"#, "[".repeat(200), "]".repeat(200))),
        12 => field(r#""max_tokens":99999999999999999999999999"#),
        13 => {
            models.push(1 - model);
            format!(r#"{{"model":"{name}","model":"{other}",{rest}}}"#)
        }
        14 => format!(r#"{{{rest},"max_tokens":5,"model":"{name}"}}"#),
        15 => format!(r#" {{ "model" : "m\u002d{}" , "user" : null , {rest} }} "#, &name[2..]),
        _ => field(r#""messages":"not a list","tools":7,"stop":{}"#),
    };
    let path = rng.choice([ENDPOINT, "/v1/embeddings", "/v1/messages"]).expect("some");
    let meant = Meant { endpoint: path == ENDPOINT, models, ..to(rng, service) };
    let timeout = Duration::from_millis(700);
    Order { meant, timeout, method: "POST", path: path.into(), body: body.into_bytes(), high: true }
}

/// A request whose body is too large to be kept, and that names its model early.
pub fn large(rng: &mut Rng, service: usize) -> Order {
    let (meant, model) = (to(rng, service), rng.choice([None, Some(0), Some(1)]).flatten());
    let path = rng.choice([ENDPOINT, "/v1/messages"]).expect("some");
    let mut order = post(rng, meant, Duration::from_millis(1500), path, model);
    order.high = true;
    // Its tokens are estimated by its length, and clamped to what fits.
    order.meant.tokens = None;
    order.body.truncate(order.body.len() - 1);
    order.body.extend(b",\"padding\":\"");
    order.body.resize((8 << 20) + rng.usize(1..1 << 20), b'a');
    order.body.extend(b"\"}");
    order
}
