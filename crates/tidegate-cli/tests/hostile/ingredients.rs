//! What a world may be made of. Each ingredient can be played alone: `TIDEGATE_HOSTILE_ONLY=Kills,Gzip`.

macro_rules! ingredients {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Ingredient { $($(#[$doc])* $name,)* }

        pub const ALL: &[Ingredient] = &[$(Ingredient::$name,)*];
    };
}

ingredients! {
    // Upstreams.
    /// 429 with a hint of nothing at all: `Retry-After: 0`, `retry-after-ms: 0`, a date in the past, none.
    HintsOfNothing,
    /// 429 and 503 with a hint of years.
    HintsOfYears,
    /// Headers about another window: 5,000 an hour.
    OtherWindow,
    /// Headers that state the written limit, truly.
    SameWindow,
    /// Headers that lie: huge, negative, no number at all, nothing left.
    LyingHeaders,
    ServerErrors,
    /// Connections that are reset or closed before the reply, in its head, or in its body.
    Resets,
    /// No reply, ever.
    Silence,
    /// Replies that come byte by byte.
    DribbledReplies,
    /// Replies that are compressed although the sidecar asks for none of that.
    Gzip,
    HugeReplies,
    /// HTTP/2 with few streams at a time, and replies that take long.
    FewStreams,
    /// HTTP/2 streams that are refused.
    RefusedStreams,
    /// HTTP/2 connections that are shut down while they are used.
    GoAway,
    /// A server that accepts and never answers the TLS handshake.
    MuteTls,
    /// Nothing listens there.
    Unreachable,
    // Clients.
    HangUps,
    /// Clients that stop reading in the middle of a reply.
    StopReading,
    DribbledBodies,
    /// Clients that announce 8 MiB and stay silent.
    SilentBodies,
    /// Bodies that are odd in one field, under limits of models.
    OddBodies,
    /// Bodies above what is kept of one.
    LargeBodies,
    /// Other ways to write a path that has a limit of its own.
    PathAliases,
    /// Connections on which no request comes, or half of one.
    IdleConnections,
    /// Permits that are asked for, completed, deleted, renewed and forgotten.
    Permits,
    /// Permits that are completed with a usage and a wait beyond all measure.
    PermitAbuse,
    // What happens to the sidecar.
    /// A service is taken out of the config file and put back.
    Reloads,
    /// SIGSTOP and SIGCONT.
    Pauses,
    /// `kill -9` and a new start on the same state.
    Kills,
    /// The state files are removed while the sidecar runs; then it is killed and started again.
    StateRemoved,
}

impl Ingredient {
    pub fn named(name: &str) -> Option<Ingredient> {
        ALL.iter().copied().find(|ingredient| format!("{ingredient:?}").eq_ignore_ascii_case(name))
    }
}

/// Shares all of them out among so many worlds, so that these worlds have had them all.
pub fn dealt(rng: &mut fastrand::Rng, worlds: usize, of: &[Ingredient]) -> Vec<Vec<Ingredient>> {
    let mut shuffled = of.to_vec();
    rng.shuffle(&mut shuffled);
    let mut hands = vec![Vec::new(); worlds];
    for (number, ingredient) in shuffled.into_iter().enumerate() {
        hands[number % worlds].push(ingredient);
    }
    hands
}
