//! Marks of calls in flight: what had been counted at a limit when the call went.

use crate::model::CallId;
use crate::model::Id;
use crate::upstream::state::{Marked, Upstream};

pub(crate) fn marks_of(u: &mut Upstream, index: CallId) -> &mut Vec<Marked> {
    let marks = &mut u.learning.marks;
    if marks.len() <= index.index() {
        marks.resize_with(index.index() + 1, Vec::new);
    }
    &mut marks[index.index()]
}

/// A call ended of which no reply told.
#[inline]
pub(crate) fn unmark(u: &mut Upstream, index: CallId) {
    if is_marked(u, index) {
        take_marks(u, index);
    }
}

#[inline]
fn is_marked(u: &Upstream, index: CallId) -> bool {
    u.learning.marks.get(index.index()).is_some_and(|marks| !marks.is_empty())
}

pub(crate) fn take_marks(u: &mut Upstream, index: CallId) -> Vec<Marked> {
    let marks = std::mem::take(marks_of(u, index));
    for marked in &marks {
        if let Some(mirror) = u.learning.mirrors.get_mut(&marked.limit) {
            mirror.ends(marked.cost);
        }
    }
    marks
}
