//! The pool's background task: what is due by the clock, and changes of settings and template.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until};

use super::WeakPool;
use crate::functions::Functions;
use crate::template::Template;

/// How long calls are held back for the first list of pods and Services, so that no instance is started that exists.
pub(super) const SYNC_TIME: Duration = Duration::from_secs(3);

/// Ticks a pool until its last handle is gone.
pub(super) struct Ticker {
    pub(super) pool: WeakPool,
    pub(super) reschedules: watch::Receiver<()>,
    pub(super) functions: watch::Receiver<Arc<Functions>>,
    pub(super) template: watch::Receiver<Option<Arc<Template>>>,
    pub(super) scan_interval: Option<Duration>,
}

impl Ticker {
    pub(super) async fn run(mut self) {
        let mut scan = interval(self.scan_interval.unwrap_or(Duration::MAX / 4));
        scan.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sync_timeout = pin!(sleep(SYNC_TIME));
        let mut syncing = true;
        loop {
            let Some(next) = self.pool.upgrade().map(|pool| pool.lock().next_tick()) else { return };
            let due = async {
                match next {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let reach = |work: fn(&super::Pool)| {
                if let Some(pool) = self.pool.upgrade() {
                    work(&pool);
                }
            };
            tokio::select! {
                alive = self.reschedules.changed() => if alive.is_err() { return },
                () = due => reach(super::Pool::tick),
                _ = scan.tick(), if self.scan_interval.is_some() => reach(super::Pool::scan),
                () = sync_timeout.as_mut(), if syncing => {
                    syncing = false;
                    reach(super::Pool::sync_timed_out);
                }
                Ok(()) = self.functions.changed() => reach(super::Pool::functions_changed),
                Ok(()) = self.template.changed() => reach(super::Pool::judge_all),
            }
        }
    }
}
