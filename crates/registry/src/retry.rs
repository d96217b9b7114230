//! Which requests are sent again, and after how long.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::Retries;

/// Whether the same request may succeed later.
pub(crate) fn is_retryable(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// The pause in `Retry-After`, which is in seconds or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => date(text)?.duration_since(now).ok().or(Some(Duration::ZERO)),
    }
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that servers may send (RFC 9110, 5.6.7).
fn date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(", ")?.1.strip_suffix(" GMT")?.split(' ');
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = words.next()?.splitn(3, ':').map(str::parse::<u64>);
    let mut next = || clock.next()?.ok().filter(|part| *part <= 60);
    let seconds = next()? * 3600 + next()? * 60 + next()?;
    // Days since 1970, counted in years that begin in March, so that a leap day comes last.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs((days.checked_sub(719_468)?) * 86_400 + seconds))
}

// === impl Retries ===

impl Retries {
    /// The pause before retry `number`, counted from zero.
    pub(crate) fn pause(&self, number: u32, retry_after: Option<Duration>) -> Duration {
        let full = self.first_pause.saturating_mul(1 << number.min(16));
        // Half of it is random, so that requests that failed together are not sent again together.
        let jitter = loggia_go::random_id() as f64 / u64::MAX as f64;
        full.mul_f64(0.5 + jitter / 2.0).max(retry_after.unwrap_or_default()).min(self.longest_pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_vary_and_end() {
        let retries = Retries {
            count: 9,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(1),
        };
        for (number, least, most) in
            [(0, 50, 100), (1, 100, 200), (2, 200, 400), (9, 1000, 1000), (99, 1000, 1000)]
        {
            for _ in 0..100 {
                let pause = retries.pause(number, None);
                assert!((least..=most).contains(&(pause.as_millis() as u64)), "{number}: {pause:?}");
            }
        }
        assert_eq!(retries.pause(0, Some(Duration::from_millis(700))), Duration::from_millis(700));
        assert_eq!(retries.pause(0, Some(Duration::from_secs(700))), Duration::from_secs(1));
    }

    #[test]
    fn a_registry_asks_for_a_pause_in_seconds_or_by_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let pause = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, now).map(|pause| pause.as_secs())
        };
        assert_eq!(pause("7"), Some(7));
        assert_eq!(pause("Sun, 06 Nov 1994 08:49:40 GMT"), Some(3));
        assert_eq!(pause("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(pause("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800 - 784_111_777));
        for nonsense in
            ["", "soon", "-1", "Sun, 06 Nov 0000 08:49:40 GMT", "Sun, 99999999999999999999 Nov 1994"]
        {
            assert_eq!(pause(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn only_passing_failures_are_retried() {
        for code in [408, 429, 500, 502, 503, 504] {
            assert!(is_retryable(StatusCode::from_u16(code).unwrap()), "{code}");
        }
        for code in [200, 301, 400, 401, 403, 404, 501] {
            assert!(!is_retryable(StatusCode::from_u16(code).unwrap()), "{code}");
        }
    }
}
