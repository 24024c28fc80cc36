//! [`Machine`]: a computer of the model, with a clock of its own, that may be suspended. The code that ships asks here
//! for the time and for chance, and starts its tasks here.
//!
//! tokio wakes the tasks that wait for one channel in an order by chance. So what is woken waits in [`READY`], and runs
//! in the order in which it was started.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::chance::Chance;

/// The wall clock at the start of a simulation: an evening in Hong Kong, some of them just before midnight there, in
/// Greenwich or in the last time zone.
const STARTS: [&str; 6] = [
    "2026-11-21T14:00:00Z",
    "2026-11-21T14:00:00Z",
    "2026-11-21T15:59:30Z",
    "2026-11-21T15:58:50Z",
    "2026-11-21T23:59:20Z",
    "2026-11-22T11:59:20Z",
];

/// The clock that goes on while a machine sleeps is ahead of tokio's by this part of the sleep, because tokio's does
/// not stop here. It is no more, so that a lease does not end earlier than that of another machine.
const SLEEP_PART: u32 = 5;

thread_local! {
    static START: Cell<Timestamp> = const { Cell::new(Timestamp::UNIX_EPOCH) };
    /// What has panicked.
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    static CURRENT: RefCell<Option<Machine>> = const { RefCell::new(None) };
    static CHANCE: RefCell<Chance> = RefCell::new(Chance::new(0));
    /// The tasks that were woken, by their number.
    static READY: RefCell<BTreeMap<u64, Waker>> = const { RefCell::new(BTreeMap::new()) };
    /// Wakes what passes them on to tokio.
    static PASS_ON: RefCell<Option<Waker>> = const { RefCell::new(None) };
    static TASKS: Cell<u64> = const { Cell::new(0) };
}

#[derive(Clone)]
pub(crate) struct Machine(Arc<Mutex<State>>);

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}

#[derive(Default)]
struct State {
    /// How far the wall clock is ahead.
    ahead: SignedDuration,
    /// Since when it is suspended.
    suspended_at: Option<Instant>,
    /// How far the clock that goes on is ahead of tokio's.
    asleep: Duration,
    /// So often it runs a task before it crashes.
    crashes_after: Option<u64>,
    has_crashed: bool,
    waiting: Vec<Waker>,
    has_slow_disk: bool,
}

/// What unwinds a task in which its machine crashes.
struct Crash;

/// A simulation on this thread, until dropped.
pub(super) struct Running;

impl Running {
    pub(super) fn begin(seed: u64) -> Self {
        BEGAN.set(Some(Instant::now()));
        START.set(
            Chance::new(seed ^ 0xDA7E)
                .pick(&STARTS)
                .parse()
                .expect("a time"),
        );
        PANICKED.take();
        CHANCE.set(Chance::new(seed ^ 0x5EED));
        TASKS.set(0);
        tokio::spawn(poll_fn(|context| {
            PASS_ON.set(Some(context.waker().clone()));
            for waker in READY.take().into_values() {
                waker.wake();
            }
            Poll::<()>::Pending
        }));
        Self
    }
}

/// Passes a task on to tokio in its order.
struct InOrder {
    number: u64,
    waker: Waker,
}

impl Wake for InOrder {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        READY.with_borrow_mut(|ready| ready.insert(self.number, self.waker.clone()));
        PASS_ON.with_borrow(|pass_on| {
            if let Some(waker) = pass_on {
                waker.wake_by_ref();
            }
        });
    }
}

/// Starts a task that is of no machine.
pub(super) fn spawn_outside<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(OnMachine::new(None, task))
}

impl Drop for Running {
    fn drop(&mut self) {
        BEGAN.set(None);
        CURRENT.set(None);
        PASS_ON.set(None);
        READY.take();
    }
}

/// The time since the simulation began; `None` outside of one.
pub(crate) fn uptime() -> Option<Duration> {
    BEGAN.get().map(|began| began.elapsed())
}

/// The clock of the machine whose code runs that goes on while it sleeps.
pub(crate) fn boot_time() -> Option<Duration> {
    let asleep = CURRENT.with_borrow(|machine| {
        let machine = machine.as_ref();
        machine.map_or(Duration::ZERO, |machine| machine.0.lock().asleep)
    });
    Some(uptime()? + asleep)
}

/// What has panicked in a task, if anything has.
pub(super) fn panicked() -> Option<String> {
    PANICKED.with_borrow(Clone::clone)
}

/// The text of a panic.
pub(super) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

/// The wall clock of the machine whose code runs.
pub(crate) fn wall_clock() -> Option<Timestamp> {
    let ahead = CURRENT.with_borrow(|machine| {
        let machine = machine.as_ref();
        machine.map_or(SignedDuration::ZERO, |machine| machine.0.lock().ahead)
    });
    Some(true_time(uptime()?) + ahead)
}

pub(super) fn true_time(uptime: Duration) -> Timestamp {
    START.get() + SignedDuration::try_from(uptime).expect("a short time")
}

/// A random number for the code that ships.
pub(crate) fn random() -> Option<u32> {
    uptime()?;
    Some(CHANCE.with_borrow_mut(|chance| chance.next() as u32))
}

pub(crate) fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    match CURRENT.with_borrow(Clone::clone) {
        Some(machine) => machine.spawn(task),
        None => spawn_outside(task),
    }
}

pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    if uptime().is_some() {
        let pause = disk_pause();
        spawn(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            work()
        })
    } else {
        tokio::task::spawn_blocking(work)
    }
}

/// How long work with the disk of the machine takes whose code runs.
fn disk_pause() -> Duration {
    let machine = CURRENT.with_borrow(Clone::clone);
    let is_slow = machine.is_some_and(|machine| machine.0.lock().has_slow_disk);
    let ms = CHANCE.with_borrow_mut(|chance| match chance.below(4) {
        _ if is_slow => chance.between(20, 400),
        0 => chance.between(1, 20),
        _ => 0,
    });
    Duration::from_millis(ms)
}

impl Machine {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        tokio::spawn(self.run(task))
    }

    /// The task, as it runs on this machine.
    pub(super) fn run<F: Future>(&self, task: F) -> OnMachine<F> {
        OnMachine::new(Some(self.clone()), task)
    }

    /// Runs code as that of this machine.
    pub(super) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some(self.clone()));
        let _restore = Restore(before);
        work()
    }

    pub(super) fn move_clock(&self, by: SignedDuration) {
        self.0.lock().ahead += by;
    }

    pub(super) fn slow_disk(&self, is_slow: bool) {
        self.0.lock().has_slow_disk = is_slow;
    }

    pub(super) fn suspend(&self) {
        self.0.lock().suspended_at.get_or_insert_with(Instant::now);
    }

    /// Ends a suspend. Returns how long it was by the clock that goes on.
    pub(super) fn resume(&self) -> Duration {
        let mut state = self.0.lock();
        let since = state.suspended_at.take();
        let elapsed = since.map_or(Duration::ZERO, |since| since.elapsed());
        state.asleep += elapsed / SLEEP_PART;
        state.waiting.drain(..).for_each(Waker::wake);
        elapsed + elapsed / SLEEP_PART
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.0.lock().suspended_at.is_some()
    }

    /// Has the machine crash after it has run tasks so often.
    pub(super) fn crash_after(&self, polls: u64) {
        self.0.lock().crashes_after = Some(polls);
    }

    pub(super) fn cancel_crash(&self) {
        self.0.lock().crashes_after = None;
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.0.lock().has_crashed
    }

    /// Ends the machine within the task that runs.
    pub(super) fn crash_now(&self) -> ! {
        self.0.lock().has_crashed = true;
        resume_unwind(Box::new(Crash))
    }

    /// The machine with the same clocks, without the tasks of before.
    pub(super) fn reboot(&self) -> Self {
        let mut state = self.0.lock();
        state.has_crashed = true;
        Self(Arc::new(Mutex::new(State {
            ahead: state.ahead,
            asleep: state.asleep,
            suspended_at: state.suspended_at,
            has_slow_disk: state.has_slow_disk,
            ..State::default()
        })))
    }
}

struct Restore(Option<Machine>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

pub(super) struct OnMachine<F> {
    number: u64,
    machine: Option<Machine>,
    task: Pin<Box<F>>,
}

impl<F> OnMachine<F> {
    fn new(machine: Option<Machine>, task: F) -> Self {
        let number = TASKS.get();
        TASKS.set(number + 1);
        Self {
            number,
            machine,
            task: Box::pin(task),
        }
    }
}

impl<F: Future> Future for OnMachine<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::new(InOrder {
            number: self.number,
            waker: context.waker().clone(),
        }));
        let context = &mut Context::from_waker(&waker);
        let Some(machine) = self.machine.clone() else {
            return self.task.as_mut().poll(context);
        };
        {
            let mut state = machine.0.lock();
            if state.suspended_at.is_some() {
                state.waiting.push(waker.clone());
                return Poll::Pending;
            }
            match &mut state.crashes_after {
                Some(0) => state.has_crashed = true,
                Some(polls) => *polls -= 1,
                None => {}
            }
            if state.has_crashed {
                return Poll::Pending;
            }
        }
        let poll = || self.task.as_mut().poll(context);
        match catch_unwind(AssertUnwindSafe(|| machine.enter(poll))) {
            Ok(polled) => polled,
            Err(panic) => {
                if !panic.is::<Crash>() {
                    PANICKED.set(Some(text_of(&*panic)));
                }
                resume_unwind(panic)
            }
        }
    }
}
