//! What the engine learned from replies, for the judge and the report: definitions that changed, and units that others
//! took.

use tidegate_core::Engine;
use tidegate_core::engine::Lesson;

use super::process::Process;
use super::state::{Stop, World};
use crate::check::Broken;

/// Follows what the engine has learned since. Returns whether anything was.
pub(super) fn learn(world: &mut World<'_>) -> Result<bool, Stop> {
    let lessons = world.process.engine.as_mut().map(Engine::lessons).unwrap_or_default();
    for lesson in &lessons {
        world.story.digest.add_lesson(lesson);
        let kept = follow(world, lesson);
        world.keeps(kept)?;
    }
    Ok(!lessons.is_empty())
}

fn follow(world: &mut World<'_>, lesson: &Lesson) -> Result<(), Broken> {
    let now = world.now();
    let World { process: Process { engine: Some(engine), judge, .. }, routes, .. } = world else {
        return Ok(());
    };
    match lesson {
        Lesson::Charged { limit, units } => {
            if let (Some(judge), Some(limit)) = (judge, routes.find(limit)) {
                judge.charged(limit, *units, engine, routes, now)?;
            }
        }
        Lesson::Refunded { limit, units, charged } => {
            if let (Some(judge), Some(limit)) = (judge, routes.find(limit)) {
                judge.refunded(limit, *units, *charged);
            }
        }
        _ => world.limits_changed(),
    }
    Ok(())
}
