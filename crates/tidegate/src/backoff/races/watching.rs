//! Watching a window while others set and clear it.
//!
//! A watcher keeps its own idea of how long the window is open. Whatever order things happened in, when all is
//! quiet that idea must be the truth.

use super::*;
use crate::backoff::watchers::{Followed, Watch};

/// Follows a window, as a dispatch does.
struct Follower {
    world: Arc<World<Checked>>,
    seen: Mutex<(Followed, Nanos)>,
}

impl Watch for Follower {
    fn changed(&self) {
        let (followed, open_until) = &mut *self.seen.lock().unwrap();
        let now = self.world.now();
        let news = self.world.window.follow(followed, || now);
        if news.cleared {
            *open_until = now;
        }
        if let Some(left) = news.extended {
            *open_until = now.after(left).max(*open_until);
        }
    }
}

/// Begins to watch while each of `work` goes on in a thread of its own.
fn watched(watch: fn(&std::sync::Arc<Follower>), work: &[Work<Checked>]) {
    let world = Arc::new(World::new());
    let follower = Follower { world: Arc::clone(&world), seen: Mutex::new((Followed::default(), START)) };
    let follower = std::sync::Arc::new(follower);
    let threads = work.iter().map(|&work| {
        let world = Arc::clone(&world);
        thread::spawn(move || work(&world))
    });
    let threads: Vec<_> = threads.collect();
    watch(&follower);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let (_, open_until) = *follower.seen.lock().unwrap();
    assert_eq!(open_until, world.window.deadline().max(START), "it missed something");
}

fn enter_and_look(follower: &std::sync::Arc<Follower>) {
    enter(follower);
    follower.changed();
}

fn look_and_enter(follower: &std::sync::Arc<Follower>) {
    follower.changed();
    enter(follower);
}

fn enter(follower: &std::sync::Arc<Follower>) {
    let watcher = std::sync::Arc::downgrade(follower);
    follower.world.window.watch(watcher);
}

#[test]
fn no_window_is_missed_by_one_who_begins_to_watch_and_then_looks() {
    shuttle::check_dfs(|| watched(enter_and_look, &[open]), None);
    shuttle::check_random(|| watched(enter_and_look, &[open, extend]), 5_000);
    shuttle::check_pct(|| watched(enter_and_look, &[open, extend]), 5_000, 3);
}

#[test]
#[should_panic(expected = "it missed something")]
fn one_who_looks_before_it_watches_is_caught() {
    shuttle::check_dfs(|| watched(look_and_enter, &[open]), None);
}

#[test]
fn windows_and_clears_told_in_any_order_leave_the_truth() {
    let work: [Work<Checked>; 3] = [open_and_clear, extend, clear];
    shuttle::check_random(move || watched(enter_and_look, &work), 10_000);
    shuttle::check_pct(move || watched(enter_and_look, &work), 10_000, 3);
}
