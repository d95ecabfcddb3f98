//! Who waits: by lane (route, loop and priority), and by route and priority. A model that has a window of its own has a
//! lane of its own as well; until then its calls stand among the others. So lanes are kept by model too.

use std::collections::{BTreeSet, HashMap};

use tidegate_core::Priority;

use crate::routes::Kind;

/// A waiting call: the number of its arrival, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiting {
    pub no: u64,
    pub call: u32,
}

/// The lanes of a route, loop and priority.
type ByModel = Vec<(Option<String>, usize)>;

/// All who wait.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    lanes: Vec<BTreeSet<Waiting>>,
    lane_index: HashMap<(u32, u32, Priority), ByModel>,
    /// Lanes in which somebody waits, and each lane's place among them.
    busy: Vec<usize>,
    place: Vec<usize>,
    hand: usize,
    classes: HashMap<(u32, Priority), BTreeSet<Waiting>>,
    /// The first of each lane, by route and priority.
    firsts: HashMap<(u32, Priority), BTreeSet<Waiting>>,
    by_class: [usize; 4],
    by_service: HashMap<(usize, Priority), usize>,
    len: usize,
}

impl Roll {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Enters a call.
    pub fn join(&mut self, kind: &Kind, waiting: Waiting) {
        let alike = self.lane_index.entry((kind.group, kind.loop_, kind.class)).or_default();
        let lane = match alike.iter().find(|(model, _)| *model == kind.after.model) {
            Some((_, lane)) => *lane,
            None => {
                self.lanes.push(BTreeSet::new());
                self.place.push(usize::MAX);
                alike.push((kind.after.model.clone(), self.lanes.len() - 1));
                self.lanes.len() - 1
            }
        };
        let was_empty = self.lanes[lane].is_empty();
        self.in_lane(lane, (kind.group, kind.class), |calls| {
            calls.insert(waiting);
        });
        if was_empty {
            self.place[lane] = self.busy.len();
            self.busy.push(lane);
        }
        self.classes.entry((kind.group, kind.class)).or_default().insert(waiting);
        self.by_class[kind.class as usize] += 1;
        *self.by_service.entry((kind.service, kind.class)).or_default() += 1;
        self.len += 1;
    }

    /// Strikes a call off; says whether nobody of its route, loop and priority waits any more.
    pub fn leave(&mut self, kind: &Kind, waiting: Waiting) -> bool {
        let mut alike = self.alike(kind);
        let Some(lane) = alike.find(|lane| self.lanes[*lane].contains(&waiting)) else { return false };
        drop(alike);
        self.in_lane(lane, (kind.group, kind.class), |calls| {
            calls.remove(&waiting);
        });
        if let Some(class) = self.classes.get_mut(&(kind.group, kind.class)) {
            class.remove(&waiting);
        }
        self.by_class[kind.class as usize] -= 1;
        if let Some(count) = self.by_service.get_mut(&(kind.service, kind.class)) {
            *count -= 1;
        }
        self.len -= 1;
        let empty = self.lanes[lane].is_empty();
        if empty {
            let place = self.place[lane];
            self.busy.swap_remove(place);
            if let Some(moved) = self.busy.get(place) {
                self.place[*moved] = place;
            }
        }
        self.oldest_in_lane(kind).is_none()
    }

    fn alike(&self, kind: &Kind) -> impl Iterator<Item = usize> {
        let lanes = self.lane_index.get(&(kind.group, kind.loop_, kind.class));
        lanes.into_iter().flatten().map(|(_, lane)| *lane)
    }

    /// Changes a lane and keeps the list of firsts.
    fn in_lane(&mut self, lane: usize, class: (u32, Priority), change: impl FnOnce(&mut BTreeSet<Waiting>)) {
        let before = self.lanes[lane].first().copied();
        change(&mut self.lanes[lane]);
        let after = self.lanes[lane].first().copied();
        if before != after {
            let firsts = self.firsts.entry(class).or_default();
            before.map(|first| firsts.remove(&first));
            after.map(|first| firsts.insert(first));
        }
    }

    /// The one that came last among the firsts of all lanes of a route and priority.
    pub fn youngest_first(&self, group: u32, class: Priority) -> Option<Waiting> {
        self.firsts.get(&(group, class))?.last().copied()
    }

    pub fn oldest_in_lane(&self, kind: &Kind) -> Option<Waiting> {
        self.alike(kind).filter_map(|lane| self.lanes[lane].first()).min().copied()
    }

    pub fn oldest_in_class(&self, group: u32, class: Priority) -> Option<Waiting> {
        self.classes.get(&(group, class))?.first().copied()
    }

    /// Whether something is true of the oldest of any route and lower priority.
    pub fn any_oldest_below(&self, class: Priority, is: impl Fn(Waiting) -> bool) -> bool {
        let lower = self.classes.iter().filter(|((_, known), _)| *known < class);
        lower.filter_map(|(_, calls)| calls.first()).any(|oldest| is(*oldest))
    }

    /// The highest priority that waits anywhere.
    pub fn highest(&self) -> Option<Priority> {
        Priority::ALL.into_iter().rev().find(|class| self.by_class[*class as usize] > 0)
    }

    /// The lowest priority that waits for a service.
    pub fn lowest(&self, service: usize) -> Option<Priority> {
        let waits =
            |class: &Priority| self.by_service.get(&(service, *class)).is_some_and(|count| *count > 0);
        // Nobody is lower than those who are not there.
        Priority::ALL.into_iter().find(waits).or(Some(Priority::Critical))
    }

    /// The first of another lane each time, round and round.
    pub fn next_lane(&mut self) -> Option<Waiting> {
        if self.busy.is_empty() {
            return None;
        }
        self.hand = (self.hand + 1) % self.busy.len();
        self.lanes[self.busy[self.hand]].first().copied()
    }

    /// The first of every lane.
    pub fn firsts_of_lanes(&self) -> Vec<Waiting> {
        self.busy.iter().filter_map(|lane| self.lanes[*lane].first()).copied().collect()
    }
}
