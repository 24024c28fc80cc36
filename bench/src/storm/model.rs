//! [`Storm`]: all clients lose their connections at once and come back, simulated. The same seed gives the same storm.
//!
//! A client waits as the packages in `clients/` do, connects to a random server, and gives up after a time. A server
//! accepts what waits in its listen queue, and works through its jobs one by one, first come, first served: the first
//! half of a handshake, then the second half behind the jobs that came meanwhile. It does not know who has given up, so
//! the first half is done for them as well. A full listen queue drops a client's SYN, which the system sends again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use crate::conformance::rng::Rng;

/// `BACKOFF_MS_MIN` and `BACKOFF_MS_MAX` of both clients.
pub(super) const BACKOFF_MIN: Duration = Duration::from_secs(1);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Two silent heartbeats of the default of 5 s: the time that both clients give a connection attempt.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After which Linux sends a SYN again for the first time; then the time doubles.
const SYN_RETRY: Duration = Duration::from_secs(1);

/// A storm that lasts longer never ends: servers that work only for clients that have given up.
const STORM_MAX: Duration = Duration::from_secs(1_800);

/// How a client waits before an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Waiting {
    /// A random time up to a bound that doubles with each failure: the packages in `clients/`.
    Random,
    /// The bound itself: no jitter.
    Bound,
    /// A second each time: neither jitter nor back-off.
    Second,
    /// The first time a random one within the spread that the service asks for in `closing`, then as `Random`.
    Closing,
}

/// Who reconnects, and to what.
#[derive(Debug, Clone)]
pub(super) struct Storm {
    pub(super) clients: u32,
    pub(super) servers: u32,
    /// Of one server.
    pub(super) handshakes_per_second: f64,
    /// Connections that wait to be accepted by one server.
    pub(super) listen_queue: u32,
    /// How long nothing listens, from the loss of the connections on. An attempt is refused at once.
    pub(super) down: Duration,
    pub(super) waiting: Waiting,
    /// Of `closing`, from its lowest to its highest `retry_after_ms`.
    pub(super) spread: (Duration, Duration),
    pub(super) seed: u64,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    clients: u32,
    /// When each client was back, ascending. Those that are missing were not within [`STORM_MAX`].
    back: Vec<Duration>,
    pub(super) attempts: u64,
    pub(super) refused: u64,
    pub(super) timed_out: u64,
    /// SYNs that a full listen queue dropped.
    pub(super) dropped: u64,
    /// The largest number of attempts that began within a second.
    pub(super) attempts_per_second_max: u64,
    /// Work of all servers.
    busy: Duration,
    handshake: Duration,
}

impl Outcome {
    /// When this part of all clients was back; `None` if it never was.
    pub(super) fn back(&self, share: f64) -> Option<Duration> {
        let rank = (f64::from(self.clients) * share).ceil() as usize;
        self.back.get(rank.max(1) - 1).copied()
    }

    /// The part of the servers' work that was for clients that had given up.
    pub(super) fn wasted(&self) -> f64 {
        let useful = self.handshake.as_secs_f64() * self.back.len() as f64;
        (1.0 - useful / self.busy.as_secs_f64()).max(0.0)
    }

    pub(super) fn figures(&self) -> Value {
        json!({
            "back_50_s": self.back(0.5).map(|at| at.as_secs_f64()),
            "back_99_s": self.back(0.99).map(|at| at.as_secs_f64()),
            "back_all_s": self.back(1.0).map(|at| at.as_secs_f64()),
            "attempts": self.attempts,
            "failed": self.refused + self.timed_out,
            "refused": self.refused,
            "timed_out": self.timed_out,
            "syns_dropped": self.dropped,
            "attempts_per_second_max": self.attempts_per_second_max,
            "wasted": self.wasted(),
        })
    }
}

/// A step that is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Connect(u32),
    /// The SYN of an attempt arrives, for the nth time.
    Syn(Attempt, u32),
    GiveUp(Attempt),
    /// The server ends its job.
    JobDone(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    client: u32,
    number: u32,
    server: u32,
}

#[derive(Debug, Clone, Copy)]
enum Job {
    Accept(Attempt),
    FirstHalf(Attempt),
    SecondHalf(Attempt),
}

#[derive(Debug, Clone, Default)]
struct Client {
    /// Of the attempt that runs, or of the last one.
    number: u32,
    failures: u32,
    is_connecting: bool,
}

#[derive(Debug, Default)]
struct Server {
    jobs: VecDeque<Job>,
    running: Option<Job>,
    unaccepted: u32,
}

struct Run<'a> {
    storm: &'a Storm,
    random: Rng,
    now: Duration,
    /// The number keeps steps of one time in the order in which they were planned.
    steps: BinaryHeap<Reverse<(Duration, u64, Step)>>,
    planned: u64,
    clients: Vec<Client>,
    servers: Vec<Server>,
    /// Attempts that began in each second.
    attempts: Vec<u64>,
    outcome: Outcome,
}

impl Storm {
    pub(super) fn run(&self) -> Outcome {
        let mut run = Run {
            storm: self,
            random: Rng::new(self.seed),
            now: Duration::ZERO,
            steps: BinaryHeap::new(),
            planned: 0,
            clients: vec![Client::default(); self.clients as usize],
            servers: (0..self.servers).map(|_| Server::default()).collect(),
            attempts: Vec::new(),
            outcome: Outcome {
                clients: self.clients,
                back: Vec::new(),
                attempts: 0,
                refused: 0,
                timed_out: 0,
                dropped: 0,
                attempts_per_second_max: 0,
                busy: Duration::ZERO,
                handshake: 2 * self.half(),
            },
        };
        for client in 0..self.clients {
            run.wait(client);
        }
        while let Some(Reverse((at, _, step))) = run.steps.pop()
            && at <= STORM_MAX
        {
            run.now = at;
            run.step(step);
        }
        run.outcome.attempts = run.attempts.iter().sum();
        run.outcome.attempts_per_second_max = run.attempts.iter().copied().max().unwrap_or(0);
        run.outcome
    }

    fn half(&self) -> Duration {
        Duration::from_secs_f64(0.5 / self.handshakes_per_second)
    }
}

impl Run<'_> {
    fn plan(&mut self, after: Duration, step: Step) {
        self.planned += 1;
        let step = (self.now + after, self.planned, step);
        self.steps.push(Reverse(step));
    }

    /// Plans the next attempt of a client.
    fn wait(&mut self, client: u32) {
        let failures = self.clients[client as usize].failures;
        let bound = BACKOFF_MAX.min(BACKOFF_MIN * 2_u32.saturating_pow(failures));
        let pause = match self.storm.waiting {
            Waiting::Bound => bound,
            Waiting::Second => BACKOFF_MIN,
            Waiting::Closing if failures == 0 => {
                let (from, to) = self.storm.spread;
                from + self.random_up_to(to - from)
            }
            Waiting::Random | Waiting::Closing => self.random_up_to(bound),
        };
        self.plan(pause, Step::Connect(client));
    }

    fn random_up_to(&mut self, bound: Duration) -> Duration {
        let micros = u64::try_from(bound.as_micros()).expect("at most minutes");
        Duration::from_micros(self.random.below(micros + 1))
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Connect(client) => self.connect(client),
            Step::Syn(attempt, tries) => self.syn(attempt, tries),
            Step::GiveUp(attempt) if self.is_waiting(attempt) => {
                self.outcome.timed_out += 1;
                self.fail(attempt.client);
            }
            Step::GiveUp(_) => {}
            Step::JobDone(server) => self.job_done(server),
        }
    }

    fn connect(&mut self, client: u32) {
        let second = self.now.as_secs() as usize;
        self.attempts.resize(self.attempts.len().max(second + 1), 0);
        self.attempts[second] += 1;
        if self.now < self.storm.down {
            self.outcome.refused += 1;
            return self.fail(client);
        }
        let of_client = &mut self.clients[client as usize];
        of_client.number += 1;
        of_client.is_connecting = true;
        let attempt = Attempt {
            client,
            number: of_client.number,
            server: self.random.below(self.storm.servers.into()) as u32,
        };
        self.plan(CONNECT_TIMEOUT, Step::GiveUp(attempt));
        self.syn(attempt, 0);
    }

    fn fail(&mut self, client: u32) {
        let of_client = &mut self.clients[client as usize];
        of_client.is_connecting = false;
        of_client.failures += 1;
        self.wait(client);
    }

    /// Whether the client still waits for this attempt.
    fn is_waiting(&self, attempt: Attempt) -> bool {
        let client = &self.clients[attempt.client as usize];
        client.is_connecting && client.number == attempt.number
    }

    fn syn(&mut self, attempt: Attempt, tries: u32) {
        if !self.is_waiting(attempt) {
            return;
        }
        let server = &mut self.servers[attempt.server as usize];
        if server.unaccepted >= self.storm.listen_queue {
            self.outcome.dropped += 1;
            self.plan(SYN_RETRY * 2_u32.pow(tries), Step::Syn(attempt, tries + 1));
            return;
        }
        server.unaccepted += 1;
        self.queue(Job::Accept(attempt), attempt.server);
    }

    fn queue(&mut self, job: Job, server: u32) {
        self.servers[server as usize].jobs.push_back(job);
        self.begin(server);
    }

    /// Begins the next job of an idle server. To accept takes no time.
    fn begin(&mut self, server: u32) {
        let half = self.storm.half();
        while self.servers[server as usize].running.is_none() {
            let of_server = &mut self.servers[server as usize];
            let job = match of_server.jobs.pop_front() {
                Some(Job::Accept(attempt)) => {
                    of_server.unaccepted -= 1;
                    of_server.jobs.push_back(Job::FirstHalf(attempt));
                    continue;
                }
                // The connection is closed, which the server reads in place of the second half.
                Some(Job::SecondHalf(attempt)) if !self.is_waiting(attempt) => continue,
                Some(job) => job,
                None => return,
            };
            self.servers[server as usize].running = Some(job);
            self.outcome.busy += half;
            self.plan(half, Step::JobDone(server));
        }
    }

    fn job_done(&mut self, server: u32) {
        match self.servers[server as usize].running.take() {
            Some(Job::FirstHalf(attempt)) => {
                self.servers[server as usize]
                    .jobs
                    .push_back(Job::SecondHalf(attempt));
            }
            Some(Job::SecondHalf(attempt)) if self.is_waiting(attempt) => {
                self.clients[attempt.client as usize].is_connecting = false;
                self.outcome.back.push(self.now);
            }
            _ => {}
        }
        self.begin(server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storm(clients: u32, waiting: Waiting) -> Storm {
        Storm {
            clients,
            servers: 4,
            handshakes_per_second: 1_000.0,
            listen_queue: 1_024,
            down: Duration::ZERO,
            waiting,
            spread: (Duration::from_millis(500), Duration::from_secs(5)),
            seed: 7,
        }
    }

    #[test]
    fn every_client_comes_back_and_every_attempt_ends_once() {
        for waiting in [
            Waiting::Random,
            Waiting::Bound,
            Waiting::Second,
            Waiting::Closing,
        ] {
            let mut storm = storm(60_000, waiting);
            storm.down = Duration::from_secs(3);
            let outcome = storm.run();
            assert_eq!(outcome.back.len(), 60_000, "{waiting:?}");
            let failed = outcome.refused + outcome.timed_out;
            assert_eq!(outcome.attempts, 60_000 + failed, "{waiting:?}");
            // Nobody is served faster than the servers work.
            let fastest = storm.down + Duration::from_secs(60_000 / 4 / 1_000);
            assert!(
                outcome.back(1.0).unwrap() >= fastest,
                "{waiting:?}: {outcome:?}"
            );
            assert!((0.0..1.0).contains(&outcome.wasted()), "{waiting:?}");
        }
    }

    #[test]
    fn without_jitter_the_last_client_is_back_when_one_server_has_done_all_handshakes() {
        let storm = Storm {
            servers: 1,
            listen_queue: u32::MAX,
            ..storm(5_000, Waiting::Bound)
        };
        let outcome = storm.run();
        // All connect after one second.
        assert_eq!(outcome.back(1.0), Some(Duration::from_secs(1 + 5)));
        // The first meets an idle server. The second is back after the first halves of all.
        let halves = |count: u64| Duration::from_micros(1_000_000 + count * 500);
        assert_eq!(outcome.back(1.0 / 5_000.0), Some(halves(2)));
        assert_eq!(outcome.back(2.0 / 5_000.0), Some(halves(2 + 4_999 + 1)));
        assert_eq!((outcome.attempts, outcome.timed_out), (5_000, 0));
        assert_eq!(outcome.attempts_per_second_max, 5_000);
        assert!(outcome.wasted().abs() < 1e-9);
    }

    #[test]
    fn servers_with_time_to_spare_leave_only_the_clients_own_pause() {
        let storm = Storm {
            handshakes_per_second: 1e6,
            ..storm(10_000, Waiting::Random)
        };
        let outcome = storm.run();
        let median = outcome.back(0.5).unwrap().as_secs_f64();
        assert!(
            (0.48..0.52).contains(&median),
            "of a random time up to 1 s: {median}"
        );
        assert!(outcome.back(1.0) <= Some(Duration::from_millis(1_010)));
        assert_eq!(outcome.attempts, 10_000);
    }

    #[test]
    fn an_attempt_that_nothing_listens_to_is_refused_and_a_full_queue_drops_it() {
        let mut down = storm(100, Waiting::Second);
        down.down = Duration::from_millis(2_500);
        assert_eq!(down.run().refused, 200);
        let mut full = storm(100, Waiting::Second);
        (full.servers, full.listen_queue) = (1, 10);
        let outcome = full.run();
        // One is accepted at once, and ten wait. The others send their SYN again a second later.
        assert!(outcome.dropped >= 89, "{outcome:?}");
        assert_eq!(outcome.back.len(), 100);
        assert!(outcome.back(1.0) >= Some(Duration::from_secs(2)));
    }

    #[test]
    fn one_seed_gives_one_storm() {
        let storm = storm(5_000, Waiting::Random);
        assert_eq!(storm.run(), storm.run());
        let other = Storm {
            seed: 8,
            ..storm.clone()
        };
        assert_ne!(storm.run(), other.run());
    }
}
