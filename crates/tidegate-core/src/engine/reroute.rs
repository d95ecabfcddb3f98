//! Other limits on the way of calls that wait, while the config stays as it is.

use std::collections::BTreeSet;

use super::Engine;
use crate::time::Nanos;

impl Engine {
    /// Finds the limits of these routes anew, and has their lanes wait there.
    pub(super) fn reroute(&mut self, skeletons: &BTreeSet<u32>, now: Nanos) {
        if skeletons.is_empty() {
            return;
        }
        let lanes = self.lanes_of(skeletons);
        for &lane in &lanes {
            self.unbind(lane);
            self.count_passing(lane, -1);
        }
        for &skeleton in skeletons {
            self.route_skeleton(skeleton, now);
        }
        for &lane in &lanes {
            let held = &self.lanes[lane as usize];
            let route = self.route_of(held.skeleton, held.loop_);
            let first = route.first().map(|(limit, _)| *limit);
            self.lanes[lane as usize].route = route.into();
            self.count_passing(lane, 1);
            if let Some(first) = first {
                self.bind(lane, first);
            }
        }
        // One whose every limit is gone has nothing to wait for.
        self.let_free_lanes_go(now);
    }

    /// The lanes of these routes, in an order of their own: a hash map's differs from run to run.
    pub(super) fn lanes_of(&self, skeletons: &BTreeSet<u32>) -> BTreeSet<u32> {
        let is_theirs = |lane: &u32| skeletons.contains(&self.lanes[*lane as usize].skeleton);
        self.lane_index.values().copied().filter(is_theirs).collect()
    }
}
