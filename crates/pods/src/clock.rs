//! One moment on both clocks: the one that counts, and the one of the calendar, which annotations carry.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A year, in seconds.
const YEAR: i64 = 365 * 24 * 3600;

/// One moment, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    /// Seconds since 1970.
    pub(crate) unix: i64,
}

impl Now {
    pub(crate) fn read() -> Self {
        Self { instant: Instant::now(), unix: unix_now() }
    }

    /// A time of the calendar on the clock that counts. More than a year from now is the mistake of some clock.
    pub(crate) fn instant_at(self, unix: i64) -> Instant {
        let ahead = unix.saturating_sub(self.unix).clamp(0, YEAR);
        let behind = self.unix.saturating_sub(unix).clamp(0, YEAR);
        let at = self.instant + Duration::from_secs(ahead.unsigned_abs());
        at.checked_sub(Duration::from_secs(behind.unsigned_abs())).unwrap_or(at)
    }

    /// A time that is still to come, in seconds since 1970.
    pub(crate) fn unix_at(self, instant: Instant) -> i64 {
        let ahead = instant.saturating_duration_since(self.instant).as_secs();
        self.unix + i64::try_from(ahead).unwrap_or_default()
    }
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
