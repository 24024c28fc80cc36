//! [`Meter`]: the requests of a holder of keys, counted against its plan.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::gcra::{Gcra, whole_seconds};
use crate::limits::plans::Plan;

/// The requests of a holder of keys, counted against its plan.
#[derive(Debug)]
pub struct Meter {
    pub plan: Arc<Plan>,
    /// By [`Period`].
    quotas: [Option<PeriodQuota>; 2],
    start: Instant,
}

/// The state of a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitStatus {
    /// The requests in a period.
    pub limit: u32,
    /// The requests that remain.
    pub remaining: u32,
    /// The seconds until all requests are available again, if none is made.
    pub reset: u32,
}

/// The period of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Period {
    Minute,
    Day,
}

impl Period {
    fn duration(self) -> Duration {
        match self {
            Self::Minute => Duration::from_secs(60),
            Self::Day => Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// The use of a limit, without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The requests in a period.
    pub limit: u32,
    /// The requests that are used and not refilled yet.
    pub used: u32,
    /// The time until the next request; zero if one is left.
    pub next_after: Duration,
    /// The time until all requests are available again, if none is made.
    pub full_after: Duration,
}

/// A request exceeded a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The limit, of which nothing remains.
    pub status: RateLimitStatus,
    /// The period of the limit.
    pub period: Period,
    /// The seconds until the next request.
    pub retry_after: u32,
}

impl Meter {
    /// A meter with full quotas.
    pub fn new(plan: Arc<Plan>) -> Self {
        let quota = |period, limit: Option<NonZeroU32>| {
            limit.map(|limit| PeriodQuota {
                period,
                limit,
                gcra: Gcra::new(limit, period.duration()),
                bucket: AtomicU64::default(),
            })
        };
        Self {
            quotas: [
                quota(Period::Minute, plan.requests_per_minute),
                quota(Period::Day, plan.requests_per_day),
            ],
            plan,
            start: Instant::now(),
        }
    }

    /// Counts a request. Returns the status of the limit, minute or day, of which fewer requests remain; `None` without
    /// limits.
    ///
    /// # Errors
    /// Returns [`Exceeded`] if nothing remains; if that is so for both limits, the one with the longer wait.
    pub fn take(&self) -> Result<Option<RateLimitStatus>, Exceeded> {
        if self.quotas.iter().all(Option::is_none) {
            return Ok(None);
        }
        self.take_at(self.start.elapsed())
    }

    /// The use of the limit of a period; `None` without a limit. Counts nothing.
    pub fn usage(&self, period: Period) -> Option<Usage> {
        let quota = self.quotas[period as usize].as_ref();
        quota.map(|quota| quota.usage(self.start.elapsed()))
    }

    /// Counts a request at a time since the start.
    fn take_at(&self, now: Duration) -> Result<Option<RateLimitStatus>, Exceeded> {
        let take = |quota: &PeriodQuota| quota.take(now);
        // A request that exceeds the minute is not counted to the day.
        let [minute, day] = self.quotas.each_ref().map(Option::as_ref);
        let minute = minute.map(take).transpose().map_err(|exceeded| {
            let of_day = day.and_then(|day| day.exceeded(now));
            let is_later = |of_day: &Exceeded| of_day.retry_after > exceeded.retry_after;
            of_day.filter(is_later).unwrap_or(exceeded)
        })?;
        let day = day.map(take).transpose()?;
        let both = minute.into_iter().chain(day);
        Ok(both.min_by_key(|status| status.remaining))
    }
}

/// The quota of a period.
#[derive(Debug)]
struct PeriodQuota {
    period: Period,
    limit: NonZeroU32,
    gcra: Gcra,
    bucket: AtomicU64,
}

impl PeriodQuota {
    fn take(&self, now: Duration) -> Result<RateLimitStatus, Exceeded> {
        let taken = self.gcra.take(&self.bucket, now);
        let taken = taken.map(|remaining| self.status(remaining));
        taken.map_err(|wait| self.exceeded_for(wait))
    }

    fn usage(&self, now: Duration) -> Usage {
        let full_after = self.gcra.full_after(&self.bucket, now);
        Usage {
            limit: self.limit.get(),
            used: self.gcra.missing(full_after).min(self.limit.get()),
            next_after: self.gcra.retry_after(&self.bucket, now),
            full_after,
        }
    }

    /// The limit, if nothing remains of it.
    fn exceeded(&self, now: Duration) -> Option<Exceeded> {
        let wait = self.gcra.retry_after(&self.bucket, now);
        (!wait.is_zero()).then(|| self.exceeded_for(wait))
    }

    fn exceeded_for(&self, wait: Duration) -> Exceeded {
        Exceeded {
            status: self.status(0),
            period: self.period,
            retry_after: whole_seconds(wait),
        }
    }

    fn status(&self, remaining: u32) -> RateLimitStatus {
        let limit = self.limit.get();
        let taken = u64::from(limit.saturating_sub(remaining));
        let reset = (taken * self.period.duration().as_secs()).div_ceil(limit.into());
        RateLimitStatus {
            limit,
            remaining,
            reset: u32::try_from(reset).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Exceeded, Meter, Period, RateLimitStatus};
    use crate::limits::plans::Plans;

    /// A meter and its time, which stands still until it is advanced.
    struct TimedMeter {
        meter: Meter,
        now: Duration,
    }

    impl TimedMeter {
        fn take(&self) -> Result<Option<RateLimitStatus>, Exceeded> {
            self.meter.take_at(self.now)
        }

        fn advance(&mut self, by: Duration) {
            self.now += by;
        }
    }

    fn meter(limits: &str) -> TimedMeter {
        let plans = format!(
            "[[plan]]\nname = \"default\"\nprice = \"\"\ndescription = \"\"\nlive_odds = false\nsign_up = false\n{limits}"
        );
        let plans = Plans::parse(&plans).expect("valid plans");
        TimedMeter {
            meter: Meter::new(Arc::clone(plans.get("default").expect("it is there"))),
            now: Duration::ZERO,
        }
    }

    fn remaining(
        limit: u32,
        remaining: u32,
        reset: u32,
    ) -> Result<Option<RateLimitStatus>, Exceeded> {
        Ok(Some(RateLimitStatus {
            limit,
            remaining,
            reset,
        }))
    }

    fn exceeded(
        period: Period,
        limit: u32,
        reset: u32,
        retry_after: u32,
    ) -> Result<Option<RateLimitStatus>, Exceeded> {
        Err(Exceeded {
            status: RateLimitStatus {
                limit,
                remaining: 0,
                reset,
            },
            period,
            retry_after,
        })
    }

    #[test]
    fn a_minute_is_full_at_first_and_refills_evenly() {
        let mut meter = meter("requests_per_minute = 3");
        assert_eq!(meter.take(), remaining(3, 2, 20));
        assert_eq!(meter.take(), remaining(3, 1, 40));
        assert_eq!(meter.take(), remaining(3, 0, 60));
        assert_eq!(meter.take(), exceeded(Period::Minute, 3, 60, 20));
        meter.advance(Duration::from_millis(19_500));
        assert_eq!(meter.take(), exceeded(Period::Minute, 3, 60, 1));
        meter.advance(Duration::from_millis(500));
        assert_eq!(meter.take(), remaining(3, 0, 60));
        meter.advance(Duration::from_secs(1_000));
        assert_eq!(
            meter.take(),
            remaining(3, 2, 20),
            "a bucket holds no more than its limit"
        );
    }

    #[test]
    fn the_limit_with_fewer_requests_remaining_is_reported() {
        let mut meter = meter("requests_per_minute = 3\nrequests_per_day = 4");
        assert_eq!(meter.take(), remaining(3, 2, 20));
        meter.advance(Duration::from_secs(60));
        assert_eq!(meter.take(), remaining(3, 2, 20));
        assert_eq!(meter.take(), remaining(3, 1, 40));
        assert_eq!(meter.take(), remaining(3, 0, 60));
        // The day's quota is used up before the minute's is full again.
        meter.advance(Duration::from_secs(60));
        let day = 24 * 60 * 60;
        assert_eq!(meter.take(), exceeded(Period::Day, 4, day, day / 4 - 120));
        // Further requests are rejected for the day, too, whether or not the minute is exceeded.
        for _ in 0..10 {
            let exceeded = meter.take().expect_err("nothing remains");
            assert_eq!(
                (exceeded.period, exceeded.retry_after),
                (Period::Day, day / 4 - 120)
            );
        }
        meter.advance(Duration::from_secs(u64::from(day) / 4));
        assert_eq!(
            meter.take().map(|status| status.map(|status| status.limit)),
            Ok(Some(4))
        );
    }

    #[test]
    fn a_request_over_the_limit_of_a_minute_is_not_counted_to_the_day() {
        let mut meter = meter("requests_per_minute = 1\nrequests_per_day = 2");
        assert!(meter.take().is_ok());
        for _ in 0..100 {
            assert_eq!(meter.take(), exceeded(Period::Minute, 1, 60, 60));
        }
        meter.advance(Duration::from_secs(60));
        assert!(meter.take().is_ok());
    }

    #[test]
    fn a_plan_without_limits_has_no_status() {
        let meter = meter("");
        assert_eq!(meter.take(), Ok(None));
    }

    #[test]
    fn the_highest_limits_can_be_counted() {
        let highest = u32::MAX;
        let meter = meter(&format!(
            "requests_per_minute = {highest}\nrequests_per_day = {highest}"
        ));
        assert_eq!(meter.take(), remaining(highest, highest - 1, 1));
    }
}
