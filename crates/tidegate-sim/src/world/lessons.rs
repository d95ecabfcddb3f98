//! What the engine learned from replies, for those who watch it: definitions that changed, and units that others took.

use tidegate_core::engine::Lesson;

use super::World;

impl World<'_> {
    /// Follows what the engine has learned since; says whether anything was.
    pub(super) fn learn(&mut self) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let lessons = engine.lessons();
        for lesson in &lessons {
            match lesson {
                Lesson::Charged { limit, units } => {
                    if let (Some(judge), Some(limit)) = (&mut self.judge, self.routes.find(limit)) {
                        judge.charged(limit, *units, self.now);
                    }
                }
                Lesson::Refunded { limit, units, charged } => {
                    if let (Some(judge), Some(limit)) = (&mut self.judge, self.routes.find(limit)) {
                        judge.refunded(limit, *units, *charged);
                    }
                }
                _ => {
                    self.tally.supply_until(&self.routes, self.now);
                    self.routes.refresh(engine, self.now);
                    if let Some(judge) = &mut self.judge {
                        judge.redefined(&self.routes, self.now);
                    }
                    self.tally.limits_are(&self.routes, self.now);
                }
            }
        }
        !lessons.is_empty()
    }
}
