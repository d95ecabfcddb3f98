//! Until when calls wait.
//!
//! Most calls wait for the same time at most, so their deadlines come in the order of the calls. Those stand in
//! a list, which costs the same however long it is; the rest, whose deadline is before that of a call that came
//! earlier, stand in a sorted set.

use crate::model::Id;
use crate::model::WaiterId;
use crate::model::time::Nanos;
use std::collections::BTreeSet;

/// The deadlines of the calls that wait, each known by a small number of its own.
#[derive(Debug)]
pub(crate) struct Deadlines {
    places: Vec<Place>,
    /// The ends of the list.
    first: WaiterId,
    last: WaiterId,
    rest: BTreeSet<(Nanos, WaiterId)>,
}

#[derive(Clone, Debug)]
struct Place {
    /// Never, if the call does not wait or waits for ever.
    at: Nanos,
    /// Its neighbours, if it stands in the list.
    sooner: WaiterId,
    later: WaiterId,
    listed: bool,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines { places: Vec::new(), first: WaiterId::NIL, last: WaiterId::NIL, rest: BTreeSet::new() }
    }
}

impl Deadlines {
    /// From now on `call`, which has no deadline, waits until `at`.
    pub fn insert(&mut self, call: WaiterId, at: Nanos) {
        if self.places.len() <= call.index() {
            let none = Place { at: Nanos::NEVER, sooner: WaiterId::NIL, later: WaiterId::NIL, listed: false };
            self.places.resize(call.index() + 1, none);
        }
        let last = self.last;
        let listed = !at.is_never() && (last.is_nil() || self.places[last.index()].at <= at);
        self.places[call.index()] = Place { at, sooner: last, later: WaiterId::NIL, listed };
        if listed {
            match last {
                WaiterId::NIL => self.first = call,
                last => self.places[last.index()].later = call,
            }
            self.last = call;
        } else if !at.is_never() {
            self.rest.insert((at, call));
        }
    }

    /// `call` waits no longer.
    pub fn remove(&mut self, call: WaiterId) {
        let Place { at, sooner, later, listed } = self.places[call.index()];
        self.places[call.index()].at = Nanos::NEVER;
        if !listed {
            if !at.is_never() {
                self.rest.remove(&(at, call));
            }
            return;
        }
        match sooner {
            WaiterId::NIL => self.first = later,
            sooner => self.places[sooner.index()].later = later,
        }
        match later {
            WaiterId::NIL => self.last = sooner,
            later => self.places[later.index()].sooner = sooner,
        }
        self.places[call.index()].listed = false;
    }

    /// Until when a call waits.
    pub fn of(&self, call: WaiterId) -> Nanos {
        self.places[call.index()].at
    }

    /// The first deadline, and whose it is.
    pub fn first(&self) -> Option<(Nanos, WaiterId)> {
        let listed = (!self.first.is_nil()).then(|| (self.places[self.first.index()].at, self.first));
        let other = self.rest.first().copied();
        match (listed, other) {
            (Some(listed), Some(other)) => Some(listed.min(other)),
            (listed, other) => listed.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_is_the_first_of_a_sorted_map(steps in prop::collection::vec((0u32..12, 0u64..9), 1..200)) {
            let mut deadlines = Deadlines::default();
            let mut model = BTreeMap::new();
            for (call, at) in steps {
                let call = WaiterId::from_number(call);
                let at = if at == 8 { Nanos::NEVER } else { Nanos(at) };
                match model.remove(&call) {
                    Some(known) => {
                        prop_assert_eq!(deadlines.of(call), known);
                        deadlines.remove(call);
                    }
                    None => {
                        model.insert(call, at);
                        deadlines.insert(call, at);
                    }
                }
                let first = model.values().min().copied().filter(|at| !at.is_never());
                prop_assert_eq!(deadlines.first().map(|(at, _)| at), first);
                if let Some((at, call)) = deadlines.first() {
                    prop_assert_eq!(model.get(&call), Some(&at));
                }
            }
        }
    }
}
