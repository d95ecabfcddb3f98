//! Who waits in one service and priority, to find whom to shed from a queue that is full.

use crate::model::Id;
use crate::model::{LaneId, LoopId, ServiceId};
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// Who waits in one service and priority.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShedOrder {
    pub waiting: u32,
    flows: Vec<ShedFlow>,
    free: Vec<u32>,
    /// Where each loop's count is.
    index: HashMap<LoopId, u32>,
    /// The counts by how much waits for its weight. A queue that is not full sheds nobody: those that changed
    /// since this was last asked are put in order when it is asked again.
    order: BTreeSet<Place>,
    changed: Vec<u32>,
}

/// How much waits for its weight, whose loop's it is, and where the count is.
type Place = (u128, LoopId, u32);

/// What one loop has waiting.
#[derive(Clone, Debug, Default)]
struct ShedFlow {
    loop_: LoopId,
    waiting: u32,
    /// 2³² divided by the weight that the latest of its calls named.
    inverse: u64,
    /// Its place in the order, if it has one.
    place: Option<Place>,
    /// It is among those that changed.
    changed: bool,
    lanes: Vec<LaneId>,
}

/// The rosters of all services, one for each priority.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShedOrders(Vec<[ShedOrder; 4]>);

impl ShedOrders {
    /// Returns the rosters of a service.
    pub fn of(&mut self, service: ServiceId) -> &mut [ShedOrder; 4] {
        if self.0.len() <= service.index() {
            self.0.resize_with(service.index() + 1, Default::default);
        }
        &mut self.0[service.index()]
    }
}

impl ShedOrder {
    /// Returns how many calls of a service wait.
    pub fn waiting(shed_orders: &[ShedOrder; 4]) -> usize {
        shed_orders.iter().map(|roster| roster.waiting as usize).sum()
    }

    /// A lane of a loop begins to wait. The answer is what [`ShedOrder::count`] wants to know it by.
    pub fn add_lane(&mut self, loop_: LoopId, lane: LaneId) -> u32 {
        let flow = *self.index.entry(loop_).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.flows.push(ShedFlow::default());
                (self.flows.len() - 1) as u32
            })
        });
        let held = &mut self.flows[flow as usize];
        held.loop_ = loop_;
        held.lanes.push(lane);
        flow
    }

    pub fn remove_lane(&mut self, loop_: LoopId, lane: LaneId) {
        let Some(&flow) = self.index.get(&loop_) else { return };
        let held = &mut self.flows[flow as usize];
        held.lanes.retain(|known| *known != lane);
        if held.lanes.is_empty() {
            self.index.remove(&loop_);
            self.free.push(flow);
        }
    }

    /// A call of a loop came or went.
    pub fn count(&mut self, flow: u32, inverse: u64, by: i32) {
        self.waiting = self.waiting.saturating_add_signed(by);
        let held = &mut self.flows[flow as usize];
        held.waiting = held.waiting.saturating_add_signed(by);
        held.inverse = inverse;
        if !std::mem::replace(&mut held.changed, true) {
            self.changed.push(flow);
        }
    }

    /// The lanes of the loop with the most waiting for its weight.
    pub fn largest(&mut self) -> Option<&[LaneId]> {
        for flow in self.changed.drain(..) {
            let held = &mut self.flows[flow as usize];
            held.changed = false;
            let amount = u128::from(held.waiting) * u128::from(held.inverse);
            let place = (held.waiting > 0).then_some((amount, held.loop_, flow));
            if let Some(before) = std::mem::replace(&mut held.place, place) {
                self.order.remove(&before);
            }
            self.order.extend(place);
        }
        let (_, _, flow) = self.order.last()?;
        Some(&self.flows[*flow as usize].lanes)
    }
}
