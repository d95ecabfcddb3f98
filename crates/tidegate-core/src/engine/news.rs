//! What happens to windows, breakers and limits, told as it happens.
//!
//! Told are the changes that somebody or something makes: a window opens, is extended or is cleared, a breaker opens or
//! closes. What time alone does (a window runs out, a breaker is due for a probe) follows from what was told before, and
//! whoever listens has a clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::breaker::Effect;
use crate::model::LimitId;
use crate::model::time::Nanos;

/// So many are kept for whoever asks; then the oldest go.
const KEPT: usize = 1024;

/// Something happened to a window, a breaker or a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// A window opened, or was extended.
    WindowOpened {
        /// Whose it is.
        key: Arc<str>,
        /// How long it lasts, unless it is extended or cleared.
        until: Nanos,
    },
    /// A window was ended before its time.
    WindowCleared {
        /// Whose it is.
        key: Arc<str>,
    },
    /// A breaker opened.
    BreakerOpened {
        /// Its name.
        name: Arc<str>,
        /// When the next probe may go.
        until: Nanos,
    },
    /// A breaker closed.
    BreakerClosed {
        /// Its name.
        name: Arc<str>,
    },
    /// A reply or a report asked for a longer wait than its service allows, and got the longest one.
    WaitCut {
        /// Which service.
        service: Arc<str>,
        /// What it asked for.
        asked: Duration,
        /// What it got.
        allowed: Duration,
    },
    /// A call cost more than the bound on debt lets a limit count: the rest was dropped.
    DebtDropped {
        /// Which limit.
        limit: Arc<str>,
        /// How many units were dropped.
        units: u64,
    },
    /// A limit begins unspent, by an operator's request.
    LimitReset {
        /// Which limit.
        limit: Arc<str>,
        /// Units that counted before.
        used: u64,
    },
}

/// News for whoever asks.
#[derive(Debug, Default)]
pub(super) struct Bulletin {
    news: VecDeque<News>,
    /// Something came since somebody last took notice.
    noticed: bool,
}

impl Engine {
    /// What happened since this was last asked, oldest first.
    pub fn news(&mut self) -> Vec<News> {
        self.upstream.bulletin.news.drain(..).collect()
    }

    /// Whether there are news or lessons that came since this was last asked.
    #[inline]
    pub fn take_notice(&mut self) -> bool {
        std::mem::take(&mut self.upstream.bulletin.noticed)
    }

    /// Somebody may want to know.
    pub(super) fn notice(&mut self) {
        self.upstream.bulletin.noticed = true;
    }

    pub(super) fn announce(&mut self, news: News) {
        if self.upstream.bulletin.news.len() >= KEPT {
            self.upstream.bulletin.news.pop_front();
        }
        self.upstream.bulletin.news.push_back(news);
        self.notice();
    }

    /// What a report changed about a breaker.
    pub(super) fn announce_breaker(&mut self, breaker: LimitId, effect: Effect) {
        match effect {
            Effect::None | Effect::ProbeFreed => {}
            Effect::Opened { until } => {
                let name = self.limit_name(breaker);
                self.announce(News::BreakerOpened { name, until });
            }
            Effect::Closed => {
                let name = self.limit_name(breaker);
                self.announce(News::BreakerClosed { name });
            }
        }
    }
}
