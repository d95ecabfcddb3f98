//! What the engine learned from replies, for those who watch it: definitions that changed, and units that others took.

use tidegate_core::Engine;
use tidegate_core::engine::Lesson;

use super::{Stop, World};
use crate::check::Broken;

impl World<'_> {
    /// Follows what the engine has learned since; says whether anything was.
    pub(super) fn learn(&mut self) -> Result<bool, Stop> {
        let lessons = self.engine.as_mut().map(Engine::lessons).unwrap_or_default();
        for lesson in &lessons {
            self.story.digest.add_lesson(lesson);
            self.follow(lesson).map_err(|broken| self.broken_by(broken))?;
        }
        Ok(!lessons.is_empty())
    }

    /// Before a call comes: what it reserves depends on what was learned by now.
    pub(super) fn catch_up(&mut self) -> Result<(), Stop> {
        match &self.engine {
            Some(engine) if engine.is_lesson_due(self.now) => self.let_go_what_is_due(),
            _ => Ok(()),
        }
    }

    fn follow(&mut self, lesson: &Lesson) -> Result<(), Broken> {
        let World { engine: Some(engine), judge, routes, tally, now, .. } = self else { return Ok(()) };
        match lesson {
            Lesson::Charged { limit, units } => {
                if let (Some(judge), Some(limit)) = (judge, routes.find(limit)) {
                    judge.charged(limit, *units, engine, routes, *now)?;
                }
            }
            Lesson::Refunded { limit, units, charged } => {
                if let (Some(judge), Some(limit)) = (judge, routes.find(limit)) {
                    judge.refunded(limit, *units, *charged);
                }
            }
            _ => {
                tally.supply_until(routes, *now);
                routes.refresh(engine, *now);
                if let Some(judge) = judge {
                    judge.redefined(routes, *now);
                }
                tally.limits_are(routes, *now);
            }
        }
        Ok(())
    }
}
