//! [`Meter`]: what somebody has asked for, held against the plan.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::RateLimiter;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed, StateStore};

use super::{quota, seconds};
use crate::limits::plans::Plan;

/// What somebody has asked for, held against the plan.
#[derive(Debug)]
pub struct Meter<C: Clock = DefaultClock> {
    plan: Arc<Plan>,
    minute: Option<Window<C>>,
    day: Option<Window<C>>,
}

/// What is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitStatus {
    /// Requests when it is full.
    pub limit: u32,
    /// Those that are left.
    pub remaining: u32,
    /// Seconds until it is full, if nothing more is asked for.
    pub reset: u32,
}

/// What a limit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// A minute.
    Minute,
    /// A day.
    Day,
}

impl Period {
    /// As people say it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Day => "day",
        }
    }

    fn duration(self) -> Duration {
        match self {
            Self::Minute => Duration::from_secs(60),
            Self::Day => Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// Too much was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// What is left: nothing.
    pub allowance: RateLimitStatus,
    /// Of what.
    pub period: Period,
    /// Seconds until the next request.
    pub retry_after: u32,
}

impl Meter {
    /// A full allowance.
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        Self::with_clock(plan, &DefaultClock::default())
    }
}

impl<C: Clock + Clone> Meter<C> {
    fn with_clock(plan: Arc<Plan>, clock: &C) -> Self {
        let window = |period, limit: Option<NonZeroU32>| {
            limit.map(|limit| Window::new(period, limit, clock.clone()))
        };
        Self {
            minute: window(Period::Minute, plan.requests_per_minute),
            day: window(Period::Day, plan.requests_per_day),
            plan,
        }
    }
}

impl<C: Clock> Meter<C> {
    /// What it is held against.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Counts a request, and says what is left: of the minute or of the day, of which there is less. `None` if there are no limits.
    ///
    /// # Errors
    /// Nothing was left.
    pub fn take(&self) -> Result<Option<RateLimitStatus>, Exceeded> {
        let (minute, day) = (self.minute.as_ref(), self.day.as_ref());
        match minute.map(|minute| minute.ask(Ask::Take)).transpose() {
            Ok(left) => {
                let of_day = day.map(|day| day.ask(Ask::Take)).transpose()?;
                let both = minute.zip(left).into_iter().chain(day.zip(of_day));
                let tighter = both.min_by_key(|(_, remaining)| *remaining);
                Ok(tighter.map(|(window, remaining)| window.allowance(remaining)))
            }
            // What is refused is not counted to the day; but it may be over, too, and then takes longer.
            Err(exceeded) => {
                let of_day = day.and_then(|day| day.ask(Ask::Look).err());
                let longer = of_day.filter(|day| day.retry_after > exceeded.retry_after);
                Err(longer.unwrap_or(exceeded))
            }
        }
    }
}

/// An allowance for a period.
#[derive(Debug)]
struct Window<C: Clock> {
    period: Period,
    limit: NonZeroU32,
    limiter: RateLimiter<Ask, State, C, StateInformationMiddleware>,
}

impl<C: Clock> Window<C> {
    fn new(period: Period, limit: NonZeroU32, clock: C) -> Self {
        let quota = quota(limit, period.duration());
        Self {
            period,
            limit,
            limiter: RateLimiter::new(quota, State::default(), clock),
        }
    }

    /// How many are left then.
    fn ask(&self, ask: Ask) -> Result<u32, Exceeded> {
        match self.limiter.check_key(&ask) {
            Ok(state) => Ok(state.remaining_burst_capacity()),
            Err(until) => Err(Exceeded {
                allowance: self.allowance(0),
                period: self.period,
                retry_after: seconds(until.wait_time_from(self.limiter.clock().now())),
            }),
        }
    }

    fn allowance(&self, remaining: u32) -> RateLimitStatus {
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

/// What is asked of a window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Ask {
    /// To let one more through.
    Take,
    /// Whether it would.
    Look,
}

/// Where a window stands. It can be looked at without taking anything.
#[derive(Debug, Default)]
struct State(InMemoryState);

impl StateStore for State {
    type Key = Ask;

    fn measure_and_replace<T, F, E>(&self, ask: &Ask, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let state = &self.0;
        match ask {
            Ask::Take => state.measure_and_replace(&NotKeyed::NonKey, measure),
            Ask::Look => {
                // What is refused replaces nothing.
                let look = |was| Err::<(T, Nanos), _>(measure(was));
                match state.measure_and_replace(&NotKeyed::NonKey, look) {
                    Ok(taken) => Ok(taken),
                    Err(seen) => seen.map(|(outcome, _)| outcome),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::{Exceeded, Meter, Period, RateLimitStatus};
    use crate::limits::plans::Plans;

    fn meter(limits: &str) -> (Meter<FakeRelativeClock>, FakeRelativeClock) {
        let plans = format!(
            "[[plan]]\nname = \"default\"\nprice = \"\"\ndescription = \"\"\nlive_odds = false\nsign_up = false\n{limits}"
        );
        let plans = Plans::parse(&plans).expect("right");
        let clock = FakeRelativeClock::default();
        let plan = Arc::clone(plans.default_plan());
        (Meter::with_clock(plan, &clock), clock)
    }

    fn left(limit: u32, remaining: u32, reset: u32) -> Result<Option<RateLimitStatus>, Exceeded> {
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
            allowance: RateLimitStatus {
                limit,
                remaining: 0,
                reset,
            },
            period,
            retry_after,
        })
    }

    #[test]
    fn a_minute_is_full_at_first_and_comes_back_evenly() {
        let (meter, clock) = meter("requests_per_minute = 3");
        assert_eq!(meter.take(), left(3, 2, 20));
        assert_eq!(meter.take(), left(3, 1, 40));
        assert_eq!(meter.take(), left(3, 0, 60));
        assert_eq!(meter.take(), exceeded(Period::Minute, 3, 60, 20));
        clock.advance(Duration::from_millis(19_500));
        assert_eq!(meter.take(), exceeded(Period::Minute, 3, 60, 1));
        clock.advance(Duration::from_millis(500));
        assert_eq!(meter.take(), left(3, 0, 60));
        clock.advance(Duration::from_secs(1_000));
        assert_eq!(
            meter.take(),
            left(3, 2, 20),
            "no more than that is saved up"
        );
    }

    #[test]
    fn the_tighter_of_minute_and_day_is_told() {
        let (meter, clock) = meter("requests_per_minute = 3\nrequests_per_day = 4");
        assert_eq!(meter.take(), left(3, 2, 20));
        clock.advance(Duration::from_secs(60));
        assert_eq!(meter.take(), left(3, 2, 20));
        assert_eq!(meter.take(), left(3, 1, 40));
        assert_eq!(meter.take(), left(3, 0, 60));
        // The day is over before the minute is full again.
        clock.advance(Duration::from_secs(60));
        let day = 24 * 60 * 60;
        assert_eq!(meter.take(), exceeded(Period::Day, 4, day, day / 4 - 120));
        // However long somebody goes on, it is the day that is told.
        for _ in 0..10 {
            let told = meter.take().expect_err("nothing is left");
            assert_eq!(
                (told.period, told.retry_after),
                (Period::Day, day / 4 - 120)
            );
        }
        clock.advance(Duration::from_secs(u64::from(day) / 4));
        assert_eq!(
            meter.take().map(|left| left.map(|left| left.limit)),
            Ok(Some(4))
        );
    }

    #[test]
    fn what_the_minute_refuses_is_not_counted_to_the_day() {
        let (meter, clock) = meter("requests_per_minute = 1\nrequests_per_day = 2");
        assert!(meter.take().is_ok());
        for _ in 0..100 {
            assert_eq!(meter.take(), exceeded(Period::Minute, 1, 60, 60));
        }
        clock.advance(Duration::from_secs(60));
        assert!(meter.take().is_ok());
    }

    #[test]
    fn without_limits_there_is_nothing_to_tell() {
        let (meter, _) = meter("");
        assert_eq!(meter.take(), Ok(None));
    }

    #[test]
    fn the_highest_limits_can_be_counted() {
        let highest = u32::MAX;
        let (meter, _) = meter(&format!(
            "requests_per_minute = {highest}\nrequests_per_day = {highest}"
        ));
        assert_eq!(meter.take(), left(highest, highest - 1, 1));
    }
}
