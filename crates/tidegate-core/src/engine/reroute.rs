//! Other limits on the way of calls that wait, while the config stays as it is.

use std::collections::BTreeSet;

use super::Engine;
use crate::time::Nanos;
use crate::tree::NIL;

impl Engine {
    /// Finds the limits of these routes anew, and has their lanes wait there.
    pub(super) fn reroute(&mut self, skeletons: &BTreeSet<u32>, now: Nanos) {
        if skeletons.is_empty() {
            return;
        }
        let lanes = self.lanes_of(skeletons);
        let bounds: Vec<u32> = lanes.iter().map(|lane| self.lanes[*lane as usize].bound).collect();
        // A queue that is empty for a moment must not forget whom it served.
        let queues: BTreeSet<u32> = bounds.iter().copied().filter(|bound| *bound != NIL).collect();
        for &queue in &queues {
            self.contention(queue).bound += 1;
        }
        for &lane in &lanes {
            self.unbind(lane);
            self.count_passing(lane, -1);
        }
        for &skeleton in skeletons {
            self.route_skeleton(skeleton, now);
        }
        for (&lane, before) in lanes.iter().zip(bounds) {
            let held = &self.lanes[lane as usize];
            let route = self.route_of(held.skeleton, held.loop_);
            let limits = || route.iter().map(|(limit, _)| *limit);
            // Where it stood, if that is still on its way; else anywhere, it is looked at in any case.
            let bound = limits().find(|limit| *limit == before).or_else(|| limits().next());
            self.lanes[lane as usize].route = route.into();
            self.count_passing(lane, 1);
            if let Some(bound) = bound {
                self.bind(lane, bound);
            }
        }
        for queue in queues {
            let contention = self.contention(queue);
            contention.bound -= 1;
            if contention.bound == 0 {
                self.forget_served(queue);
            }
            self.tidy(queue);
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
