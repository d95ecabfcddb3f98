//! The second pass: what the collected headers mean, now that the vendor and the reply's date are known.

use std::borrow::Cow;

use super::collect::{Collected, Fact, MAX_LIMITS, Tag};
use super::draft::{self, Policy};
use super::names::{Origin, clip};
use super::reading::Limit;
use super::value::{self, Base, amount, difference, grouped};
use crate::vendors::kind::Kind;
use crate::vendors::reset::ResetForm;
use crate::vendors::words::{Field, period_ms};
use crate::vendors::{Lens, RetryUnit, ZeroLimit};

/// The limits that the headers describe, in the order they came.
pub(super) fn limits(
    collected: &mut Collected<'_>,
    lens: &Lens<'_>,
    base: &Base<'_>,
    refused: bool,
    zero: bool,
) -> Vec<Limit> {
    let mut limits = std::mem::take(&mut collected.limits);
    let mut policies = Vec::new();
    fill(&mut limits, collected, lens, base, &mut policies);
    let mut tags = collected.tags;
    if !collected.rate_limits.as_slice().is_empty() || !collected.policies.as_slice().is_empty() {
        add_drafts(&mut limits, &mut tags, collected, &mut policies);
    }
    for limit in &mut limits {
        complete(limit, lens);
    }
    attach_costs(&mut limits);
    tidy(&mut limits, &mut tags);
    name_plain(&mut limits, collected.plain_name);
    name_origins(&mut limits, &tags);
    merge_twins(&mut limits, &mut tags);
    join_policies(&mut limits, &policies);
    drop_summary(&mut limits);
    for limit in &mut limits {
        judge_kind(limit, lens, refused, zero);
    }
    limits
}

/// When to come back, by the headers: the most precise that can be read, and of several lines the latest.
pub(super) fn retry_after(collected: &Collected<'_>, base: &Base<'_>) -> Option<u64> {
    const ORDER: [RetryUnit; 4] =
        [RetryUnit::Millis, RetryUnit::OtherMillis, RetryUnit::Standard, RetryUnit::OtherSeconds];
    // Whoever is behind a gateway knows better than the gateway.
    [Origin::Upstream, Origin::Sender].into_iter().find_map(|from| {
        ORDER.into_iter().find_map(|unit| {
            let lines = collected.hints.as_slice().iter().flatten();
            lines
                .filter(|(of, origin, _)| *of == unit && *origin == from)
                .filter_map(|(_, _, text)| hint(text, unit, base))
                .max()
        })
    })
}

fn hint(text: &str, unit: RetryUnit, base: &Base<'_>) -> Option<u64> {
    let read = |text: &str| match unit {
        RetryUnit::Millis | RetryUnit::OtherMillis => value::retry_after_millis(text),
        RetryUnit::Standard | RetryUnit::OtherSeconds => value::retry_after(text, base),
    };
    // A date has a comma of its own, so the text is taken apart only when it says nothing as a whole.
    read(text).or_else(|| {
        let parts = text.contains(',').then(|| text.split(',').take(8));
        parts?.map(read).collect::<Option<Vec<_>>>()?.into_iter().max()
    })
}

/// Puts every header's value where it belongs.
fn fill(
    limits: &mut [Limit],
    collected: &Collected<'_>,
    lens: &Lens<'_>,
    base: &Base<'_>,
    policies: &mut Vec<Policy>,
) {
    let mut seen = [0u16; MAX_LIMITS];
    let mut lists = 0u32;
    for fact in collected.facts.as_slice() {
        let slot = usize::from(fact.slot);
        let limit = &mut limits[slot];
        let bit = 1u16 << (fact.field as u16 % 16);
        let again = seen[slot] & bit != 0;
        seen[slot] |= bit;
        if again || !set(limit, fact, lens, base) {
            lists |= 1 << slot;
        }
    }
    if lists != 0 {
        for (slot, limit) in limits.iter_mut().enumerate() {
            if lists & (1 << slot) != 0 {
                untangle(limit, slot, collected.facts.as_slice(), lens, base, policies);
            }
        }
    }
}

/// Takes in a value that stands for itself; `false` if it may be a list.
fn set(limit: &mut Limit, fact: &Fact<'_>, lens: &Lens<'_>, base: &Base<'_>) -> bool {
    let text = fact.text;
    let number = || amount(text).or_else(|| text.contains(',').then(|| grouped(text))?);
    match fact.field {
        Field::Limit => match number() {
            Some(value) => limit.limit = Some(value),
            // AspNetCoreRateLimit puts the period where the limit should be.
            None => match period_ms(text) {
                Some(period) if text.len() <= 8 => limit.window_ms = limit.window_ms.or(Some(period)),
                _ => return !text.contains([',', ';']),
            },
        },
        Field::Remaining => match number() {
            Some(value) => limit.remaining = Some(value),
            None => return !text.contains([',', ';']),
        },
        Field::Used => limit.used = number().or(limit.used),
        Field::Cost => limit.cost = number().or(limit.cost),
        Field::Fill => limit.fill = number().or(limit.fill),
        Field::Utilization => {
            limit.limit = Some(1.0);
            limit.remaining = number().map(|used| difference(1.0, used)).or(limit.remaining);
        }
        // A time that needs no clock wins over a moment, and the moment over its repetition as a date.
        Field::ResetAfter => limit.reset_ms = value::reset(text, ResetForm::Seconds, base).or(limit.reset_ms),
        Field::Reset | Field::ResetTime if limit.reset_ms.is_some() => {}
        Field::Reset | Field::ResetTime => match value::reset(text, lens.reset(), base) {
            Some(ms) => limit.reset_ms = Some(ms),
            None => return !text.contains(','),
        },
        Field::WindowSeconds => {
            limit.window_ms = number().filter(|w| *w > 0.0).map(draft::seconds).or(limit.window_ms)
        }
        Field::WindowMillis => {
            limit.window_ms =
                number().filter(|w| *w > 0.0).map(|ms| draft::seconds(ms / 1000.0)).or(limit.window_ms);
        }
        Field::IntervalSeconds => limit.interval_ms = number().filter(|w| *w > 0.0).map(draft::seconds),
        Field::Name => limit.name = (!text.is_empty()).then(|| Cow::Owned(clip(text).to_owned())),
        Field::RetryAfter => {}
    }
    true
}

/// Several values for one field: repeated lines, lines joined by commas, or the policies of draft -03.
fn untangle(
    limit: &mut Limit,
    slot: usize,
    facts: &[Fact<'_>],
    lens: &Lens<'_>,
    base: &Base<'_>,
    policies: &mut Vec<Policy>,
) {
    let lines = |field: Field| {
        facts
            .iter()
            .filter(move |fact| usize::from(fact.slot) == slot && fact.field == field)
            .map(|fact| fact.text)
    };
    let items = |field: Field| lines(field).flat_map(draft::old_items).take(16).collect::<Vec<_>>();
    let resets: Vec<Option<u64>> = lines(Field::Reset)
        .flat_map(|line| match value::reset(line, lens.reset(), base) {
            Some(ms) => vec![Some(ms)],
            None => line.split(',').take(16).map(|part| value::reset(part, lens.reset(), base)).collect(),
        })
        .take(16)
        .collect();
    let limits = items(Field::Limit);
    let remaining = items(Field::Remaining);
    if limits.iter().chain(&remaining).any(|item| item.window_ms.is_some()) {
        // Draft -03: the first is the one about to run out, the others are the policies behind it.
        let first = limits.first().copied();
        limit.limit = first.map(|first| first.limit);
        limit.remaining = remaining.first().map(|left| left.limit);
        limit.window_ms = limit.window_ms.or(first.and_then(|first| first.window_ms));
        limit.window_ms = limit.window_ms.or(remaining.first().and_then(|left| left.window_ms));
        policies
            .extend(limits.iter().skip(1).filter(|policy| policy.window_ms.is_some() && policy.limit >= 0.0));
        limit.reset_ms = limit.reset_ms.or(resets.first().copied().flatten());
        return;
    }
    // Buckets inside each other: what counts is the one with the least left, with its own limit and reset.
    let least = (0..remaining.len()).min_by(|a, b| remaining[*a].limit.total_cmp(&remaining[*b].limit));
    if let Some(least) = least {
        limit.remaining = Some(remaining[least].limit);
        let same = |count: usize| count == remaining.len();
        if same(limits.len()) {
            limit.limit = Some(limits[least].limit);
        }
        if same(resets.len()) && limits.len() <= remaining.len() {
            limit.reset_ms = resets[least].or(limit.reset_ms);
        }
    }
    if least.is_none() || limits.len() != remaining.len() {
        limit.limit = limits.iter().map(|item| item.limit).min_by(f64::total_cmp).or(limit.limit);
    }
    limit.reset_ms = limit.reset_ms.or(resets.iter().flatten().min().copied());
}

/// Adds what the structured fields say.
fn add_drafts(
    limits: &mut Vec<Limit>,
    tags: &mut [Tag; MAX_LIMITS],
    collected: &Collected<'_>,
    policies: &mut Vec<Policy>,
) {
    let drafts = draft::read(collected.rate_limits.as_slice(), collected.policies.as_slice());
    policies.extend(drafts.policies);
    for limit in drafts.plain.into_iter().chain(drafts.named) {
        let place = limits.len();
        if let Some(tag) = tags.get_mut(place) {
            // A family of its own, so that it may be the twin of any other.
            *tag = Tag { family: u16::MAX - 1, origin: Origin::Sender };
            limits.push(limit);
        }
    }
}

/// Fills in what follows from the rest, and puts right what cannot be.
fn complete(limit: &mut Limit, lens: &Lens<'_>) {
    // Limit and remaining of −1 together are a way to say "unknown".
    if limit.limit == Some(-1.0) && limit.remaining.is_none_or(|left| left == -1.0) {
        limit.limit = None;
        limit.remaining = None;
    }
    limit.limit = limit.limit.filter(|value| *value >= 0.0);
    limit.used = limit.used.filter(|value| *value >= 0.0);
    match (limit.limit, limit.remaining, limit.used) {
        (Some(most), Some(left), _) if left > most => limit.remaining = Some(most),
        (Some(most), None, Some(used)) => limit.remaining = Some(difference(most, used)),
        (None, Some(left), Some(used)) if left >= 0.0 => limit.limit = Some(left + used),
        _ => {}
    }
    // Two numbers of 300 digits are each finite; what follows from them need not be.
    limit.limit = limit.limit.filter(|value| value.is_finite());
    limit.remaining = limit.remaining.filter(|value| value.is_finite());
    if limit.window_ms.is_none() && limit.limit.is_some() && limit.name.is_none() {
        limit.window_ms = lens.window_ms(&limit.kind);
    }
}

/// Gives the plain limits the name that a header of its own tells (`x-ratelimit-resource`, `-bucket`, …).
fn name_plain(limits: &mut [Limit], name: Option<&str>) {
    let Some(name) = name.map(clip).filter(|name| !name.is_empty()) else { return };
    for limit in limits.iter_mut().filter(|limit| limit.name.is_none()) {
        limit.name = Some(Cow::Owned(name.to_owned()));
    }
}

/// Behind a gateway there are two of everything: tell them apart.
fn name_origins(limits: &mut [Limit], tags: &[Tag]) {
    if tags.iter().take(limits.len()).all(|tag| tag.origin == Origin::Sender) {
        return;
    }
    for (limit, tag) in limits.iter_mut().zip(tags) {
        let whose = if tag.origin == Origin::Upstream { "upstream" } else { "gateway" };
        limit.name = Some(match limit.name.take() {
            Some(name) => Cow::Owned(format!("{whose}:{name}")),
            None => Cow::Borrowed(whose),
        });
    }
}

/// What a call cost belongs to the limit that it was taken from.
fn attach_costs(limits: &mut [Limit]) {
    for place in 0..limits.len() {
        let alone = limits[place].cost.filter(|_| !limits[place].says_something());
        if let Some(cost) = alone {
            let kind = limits[place].kind.clone();
            let owner = limits.iter_mut().find(|limit| limit.kind == kind && limit.says_something());
            if let Some(owner) = owner {
                owner.cost = owner.cost.or(Some(cost));
            }
        }
    }
}

/// Leaves out what says nothing, and puts the limits that need no name before the pools beside them.
fn tidy(limits: &mut Vec<Limit>, tags: &mut [Tag; MAX_LIMITS]) {
    let in_order = limits.is_sorted_by_key(|limit| limit.name.is_some());
    if in_order && limits.iter().all(Limit::says_something) {
        return;
    }
    let mut both: Vec<(Limit, Tag)> = limits.drain(..).zip(*tags).collect();
    both.retain(|(limit, _)| limit.says_something());
    both.sort_by_key(|(limit, _)| limit.name.is_some());
    for (place, (limit, tag)) in both.into_iter().enumerate() {
        tags[place] = tag;
        limits.push(limit);
    }
}

/// One limit is often told twice, in two spellings; together they say more than each alone.
fn merge_twins(limits: &mut Vec<Limit>, tags: &mut [Tag; MAX_LIMITS]) {
    let mut first = 0;
    while first < limits.len() {
        let mut second = first + 1;
        while second < limits.len() {
            if tags[first] != tags[second]
                && tags[first].origin == tags[second].origin
                && are_twins(&limits[first], &limits[second])
            {
                let twin = limits.remove(second);
                tags.copy_within(second + 1.., second);
                let kept = &mut limits[first];
                kept.limit = kept.limit.or(twin.limit);
                kept.remaining = kept.remaining.or(twin.remaining);
                kept.reset_ms = kept.reset_ms.or(twin.reset_ms);
                kept.window_ms = kept.window_ms.or(twin.window_ms);
                kept.name = kept.name.take().or(twin.name);
                kept.used = kept.used.or(twin.used);
                kept.cost = kept.cost.or(twin.cost);
                kept.pk = kept.pk.take().or(twin.pk);
            } else {
                second += 1;
            }
        }
        first += 1;
    }
}

fn are_twins(a: &Limit, b: &Limit) -> bool {
    fn agree<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
        a.is_none() || b.is_none() || a == b
    }
    let shared = |a: Option<f64>, b: Option<f64>| a.is_some() && a == b;
    a.kind == b.kind
        && agree(&a.name, &b.name)
        // A name on one side only is the same limit just if all the numbers say so.
        && (a.name == b.name || (shared(a.limit, b.limit) && shared(a.remaining, b.remaining)))
        && agree(&a.limit, &b.limit)
        && agree(&a.remaining, &b.remaining)
        && agree(&a.window_ms, &b.window_ms)
        && (shared(a.limit, b.limit) || shared(a.remaining, b.remaining))
}

/// A policy without a name is the window of the limit of its size, or a limit of its own.
fn join_policies(limits: &mut Vec<Limit>, policies: &[Policy]) {
    if policies.is_empty() {
        return;
    }
    let plain = |limit: &Limit| limit.kind == Kind::Requests && limit.window_ms.is_none();
    let current = limits.iter().position(plain);
    let mut used = None;
    if let Some(place) = current {
        let limit = &mut limits[place];
        let fits = |policy: &&Policy| limit.limit.is_none_or(|most| most == policy.limit);
        used = policies
            .iter()
            .position(|policy| fits(&policy))
            .filter(|_| limit.limit.is_some() || policies.len() == 1);
        if let Some(policy) = used.map(|place| policies[place]) {
            limit.limit = Some(policy.limit);
            limit.window_ms = policy.window_ms;
            limit.remaining = limit.remaining.map(|left| left.min(policy.limit));
        }
    }
    // Beside a limit that is none of them, the others must be told apart from it.
    let name = (current.is_some() && used.is_none()).then_some(Cow::Borrowed("policy"));
    for (place, policy) in policies.iter().enumerate().take(MAX_LIMITS) {
        let known = |limit: &Limit| limit.limit == Some(policy.limit) && limit.window_ms == policy.window_ms;
        if Some(place) != used && !limits.iter().any(known) {
            limits.push(Limit {
                limit: Some(policy.limit),
                window_ms: policy.window_ms,
                name: name.clone(),
                ..Limit::default()
            });
        }
    }
}

/// A share without a window only repeats the one that is about to run out.
fn drop_summary(limits: &mut Vec<Limit>) {
    let shares = limits.iter().filter(|limit| limit.kind == Kind::Utilization).count();
    if shares > 1 {
        limits.retain(|limit| limit.kind != Kind::Utilization || limit.remaining.is_some());
    }
}

/// Names and zeroes that mean that something else than requests is counted.
fn judge_kind(limit: &mut Limit, lens: &Lens<'_>, refused: bool, zero: bool) {
    if limit.kind != Kind::Requests {
        return;
    }
    if let Some(name) = &limit.name
        && lens.vendor.quirks.points.iter().any(|part| name.contains(part))
    {
        limit.kind = Kind::Points;
    }
    if refused
        && (zero || lens.zero_limit() == ZeroLimit::Concurrency)
        && limit.limit == Some(0.0)
        && limit.remaining == Some(0.0)
    {
        limit.kind = Kind::Concurrency;
    }
}
