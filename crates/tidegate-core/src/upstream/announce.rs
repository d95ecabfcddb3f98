//! Announces events to observers.

use crate::funding::book;
use crate::limits::breaker::Effect;
use crate::model::LimitId;
use crate::routing::names;
use crate::routing::state::Base;
use crate::upstream::event::KEPT;
use crate::upstream::event::{Lesson, News};
use crate::upstream::state::Upstream;

pub(crate) fn tell(u: &mut Upstream, base: &mut Base, lesson: Lesson) {
    book::facts_changed(&mut base.funding);
    notice(u);
    let lessons = &mut u.learning.lessons;
    if lessons.len() >= KEPT && !u.learning.keeps_books {
        lessons.pop_front();
    }
    lessons.push_back(lesson);
}

/// Notes that observers have something to read.
fn notice(u: &mut Upstream) {
    u.bulletin.noticed = true;
}

pub(crate) fn announce(u: &mut Upstream, news: News) {
    if u.bulletin.news.len() >= KEPT {
        u.bulletin.news.pop_front();
    }
    u.bulletin.news.push_back(news);
    notice(u);
}

/// What a report changed about a breaker.
pub(crate) fn announce_breaker(u: &mut Upstream, base: &mut Base, breaker: LimitId, effect: Effect) {
    match effect {
        Effect::None | Effect::ProbeFreed => {}
        Effect::Opened { until } => {
            let name = names::limit_name(base, breaker);
            announce(u, News::BreakerOpened { name, until });
        }
        Effect::Closed => {
            let name = names::limit_name(base, breaker);
            announce(u, News::BreakerClosed { name });
        }
    }
}
