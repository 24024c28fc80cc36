//! [`Served`]: what GETs answered, each with the event that the answer was as of, to be asked for again.

use std::net::SocketAddr;
use std::time::Instant;

use crate::conformance::rng::Rng;
use crate::support::*;

/// What a GET answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    seq: String,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self {
            status: reply.status,
            body: reply.text(),
            seq: reply.header("railbird-seq").to_owned(),
        }
    }
}

/// The answer to a path, which ends with `?` or `&`, as of an event. Links to further pages keep the event.
pub(crate) async fn answer_as_of(http: SocketAddr, key: &str, path: &str, as_of: &str) -> Answer {
    let path = format!("{path}as_of={as_of}");
    let reply = request(http, "GET", &path, &[("x-api-key", key)]).await;
    // A time may be too new for that.
    if reply.status == 200 && !as_of.contains('T') {
        let cached = "private, max-age=31536000, immutable";
        assert_eq!(reply.header("cache-control"), cached, "{path}");
    }
    let mut answer = Answer::from(reply);
    answer.body = answer.body.replace(&format!("&as_of={as_of}"), "");
    answer
}

#[derive(Debug, Default)]
pub(crate) struct Served {
    key: String,
    answers: Vec<(u64, String, Answer)>,
}

impl Served {
    pub(crate) fn to(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            answers: Vec::new(),
        }
    }

    /// Asks for paths, which end with `?` or `&`, of a service whose views are as of an event.
    pub(crate) async fn record(&mut self, http: SocketAddr, seq: u64, paths: &[String]) {
        for path in paths {
            let now = path.trim_end_matches(['?', '&']);
            let reply = request(http, "GET", now, &[("x-api-key", &self.key)]).await;
            assert_ne!(reply.status, 400, "{now}: {}", reply.text());
            self.answers.push((seq, path.clone(), reply.into()));
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.answers.len() as u64
    }

    /// The events, each with the body that the path had as of it, in the order of recording.
    pub(crate) fn bodies<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (u64, &'a str)> {
        let of_path = self.answers.iter().filter(move |(_, of, _)| of == path);
        of_path.map(|(seq, _, answer)| (*seq, &*answer.body))
    }

    /// Asks for all again, as of their events.
    pub(crate) async fn check(&self, http: SocketAddr) {
        for (seq, path, then) in &self.answers {
            let place = seq.to_string();
            let mut now = answer_as_of(http, &self.key, path, &place).await;
            // On a busy machine, the log may not answer in the time for a request.
            let until = Instant::now() + PATIENCE;
            while now.status == 503 && now.status != then.status && Instant::now() < until {
                now = answer_as_of(http, &self.key, path, &place).await;
            }
            if then.status != 200 {
                now.seq.clone_from(&then.seq);
            }
            assert_eq!(now, *then, "{path} as of {seq}");
        }
    }
}

/// A date with races, and the venues that have some.
#[derive(Debug)]
pub(crate) struct Day<'a> {
    pub(crate) date: &'a str,
    pub(crate) venues: &'a [&'a str],
    pub(crate) races: u16,
}

impl Day<'_> {
    /// Paths of each GET about races that has a past.
    pub(crate) fn paths(&self) -> Vec<String> {
        let (date, venues) = (self.date, self.venues);
        let mut paths = vec![
            format!("results/{date}?"),
            format!("racecards/{date}?"),
            format!("racecards/{date}?lang=zh-Hant&"),
            "meetings?".to_owned(),
            format!("meetings?from={date}&limit=1&"),
            format!("results?from={date}&to={date}&limit=2&"),
            format!("racecards?from={date}&to={date}&"),
        ];
        for venue in venues {
            paths.push(format!("racecards/{date}?venue={venue}&"));
            for race in (1..=self.races).map(|race| format!("{date}/{race}")) {
                paths.extend([
                    format!("results/{race}?venue={venue}&"),
                    format!("results/{race}/revisions?venue={venue}&"),
                    format!("results/{race}/dividends?venue={venue}&"),
                    format!("odds/{race}?venue={venue}&"),
                    format!("odds/{race}?venue={venue}&source=test&"),
                    format!("odds/{race}/history?venue={venue}&limit=3&"),
                    format!("odds/{race}/history?venue={venue}&every=1m&"),
                    format!("odds/{race}/sources?venue={venue}&"),
                ]);
            }
        }
        paths.iter().map(|path| format!("/api/v1/{path}")).collect()
    }
}

/// Paths of each GET about a horse that has a past.
pub(crate) fn paths_of_horse(horse_no: &str) -> [String; 2] {
    ["?", "/form?"].map(|rest| format!("/api/v1/horses/{horse_no}{rest}"))
}

/// Some paths, of all kinds.
pub(crate) fn some(paths: &[String], count: usize, rng: &mut Rng) -> Vec<String> {
    (0..count).map(|_| rng.of(paths).clone()).collect()
}
