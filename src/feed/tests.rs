//! The feed compared with a plain list of everything that was ever published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use events::{Moment, RaceKey, RacingDate, VenueCode};
use jiff::ToSpan;
use projections::{
    Checkpoint, Digest, LiveBoard, LiveKind, LiveMessage, LiveQuote, LiveUpdate, LogClock,
    LogHistory, LogIdentity, MarketKey, PriceLine, Projection, SourceRankings, Store,
    StoredMessage, open_races,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::frame::Frame;
use super::race::RaceFeed;
use super::{
    BOUNDS, Bounds, ConflatedBy, Content, EventTime, Feed, NotRecovered, Replayed, Snapshots,
    Topic, epoch,
};

const SMALL: Bounds = Bounds {
    messages: 12,
    bytes: 1_200,
    events: 20,
    facts: 5,
    open_races: 5,
    open_races_of_meeting: 7,
    closed_races: 2,
    conflatable: 12,
    prices: 100,
};

fn key(race_number: u16) -> RaceKey {
    RaceKey {
        date: events::RacingDate::parse("2026-10-03").expect("a date"),
        venue: events::VenueCode::parse("ST").expect("a code"),
        race_number: events::RaceNumber::parse(&race_number.to_string()).expect("a number"),
    }
}

fn log(created: &str) -> LogIdentity {
    LogIdentity {
        name: "RACING".to_owned(),
        created: created.to_owned(),
    }
}

fn checkpoint(created: &str, seq: u64) -> Checkpoint {
    Checkpoint {
        log: log(created),
        seq,
        recorded_at: None,
        history: LogHistory::default(),
        clock: LogClock::default(),
        rankings: SourceRankings::default(),
        digest: Digest::default(),
    }
}

/// When the log recorded the event at a sequence.
fn recorded_at(seq: u64) -> Moment {
    let second = i64::try_from(seq).expect("small");
    Moment::from(jiff::Timestamp::from_second(second).expect("in range"))
}

/// Noon of a date in UTC: races of the date before are over everywhere.
fn noon(date: &str) -> Option<Moment> {
    Moment::parse(&format!("{date}T12:00:00Z")).ok()
}

/// The events of the log up to a sequence.
fn events(seq: u64) -> Vec<EventTime> {
    let event = |seq| EventTime {
        seq,
        recorded_at: recorded_at(seq),
    };
    (1..=seq).map(event).collect()
}

fn decode(frame: &Frame) -> Value {
    serde_json::from_slice(frame.json()).expect("JSON")
}

#[derive(Debug, Clone, Copy)]
enum Fact {
    Quote,
    /// A quote, also for those who chose `win_place`.
    QuoteOfSource,
    /// A quote of another market.
    QuoteOfMarket,
    Withdrawal,
    Status,
    End,
    Result,
    /// One without live messages.
    Other,
}

impl Fact {
    /// The kinds of messages for it; `None` if it is not live.
    fn kinds(self, has_board: bool) -> Option<&'static [LiveKind]> {
        Some(match self {
            Self::Quote | Self::QuoteOfSource => &[LiveKind::OddsUpdate],
            Self::QuoteOfMarket => &[],
            Self::Withdrawal if has_board => &[LiveKind::RunnerUpdate, LiveKind::OddsUpdate],
            Self::Withdrawal => &[LiveKind::RunnerUpdate],
            Self::Status | Self::End => &[LiveKind::StatusUpdate],
            Self::Result => &[LiveKind::ResultUpdate, LiveKind::StatusUpdate],
            Self::Other => return None,
        })
    }
}

fn fact() -> impl Strategy<Value = (u16, Fact)> {
    let fact = prop_oneof![
        4 => Just(Fact::Quote),
        3 => Just(Fact::QuoteOfSource),
        2 => Just(Fact::QuoteOfMarket),
        2 => Just(Fact::Withdrawal),
        1 => Just(Fact::Status),
        1 => Just(Fact::End),
        1 => Just(Fact::Result),
        1 => Just(Fact::Other),
    ];
    (1..=5_u16, fact)
}

/// A message that was published.
#[derive(Debug, Clone)]
struct Published {
    seq: u64,
    prev_seq: u64,
    content: Content,
    race: u16,
    json: Value,
    bytes: usize,
    /// Whether it is kept as it is: prices of a market are not known before the race is open.
    is_fact: bool,
}

/// A race after the events so far.
#[derive(Debug, Clone, Default)]
struct Race {
    last: BTreeMap<LiveKind, u64>,
    /// The latest quote of each market, with all prices.
    markets: BTreeMap<MarketKey, Value>,
    board: Option<Value>,
    over: bool,
    has_prices: bool,
    status: u64,
}

/// Makes updates as the projection does, and keeps everything.
#[derive(Debug, Default)]
struct Model {
    seq: u64,
    published: Vec<Published>,
    races: BTreeMap<u16, Race>,
    /// How often a race came to an end.
    ends: usize,
}

impl Model {
    fn update(&mut self, race_number: u16, fact: Fact) -> Option<LiveUpdate> {
        self.seq += 1;
        let seq = self.seq;
        let race = self.races.entry(race_number).or_default();
        let was_open = race.board.is_some() && !race.over;
        let kinds = fact.kinds(race.board.is_some())?;
        race.over = match fact {
            Fact::Status => false,
            Fact::End | Fact::Result => true,
            _ => race.over,
        };
        let mut messages = Vec::new();
        for kind in kinds {
            let prev_seq = race.last.insert(*kind, seq).unwrap_or(0);
            messages.push((*kind, prev_seq));
        }
        race.status += u64::from(kinds.contains(&LiveKind::StatusUpdate));
        let odds = messages
            .iter()
            .find(|(kind, _)| *kind == LiveKind::OddsUpdate);
        if let Some((_, prev_seq)) = odds {
            // A name that looks like the field, and prices of different length.
            race.board = Some(json!({
                "a_venue": "\"prev_seq\":7,", "race_number": race_number, "prev_seq": prev_seq, "seq": seq,
                "runners": ["x".repeat(usize::try_from(seq % 17).expect("small"))],
            }));
        }
        if let Some(board) = &mut race.board {
            board["a_status"] = json!(race.status);
        }
        let board = race.board.clone().map(|board| LiveBoard {
            seq: race.last[&LiveKind::OddsUpdate],
            json: board.to_string().into_bytes(),
        });
        let open = race.board.is_some() && !race.over;
        race.has_prices |= open;
        self.ends += usize::from(!open && (was_open || race.board.is_none()));
        let messages = messages.into_iter();
        let messages = messages.map(|(kind, prev_seq)| self.message(race_number, kind, prev_seq));
        let messages = messages.collect();
        let quote = self.quote(race_number, fact);
        let opens = !was_open && open;
        Some(LiveUpdate {
            seq,
            race: key(race_number),
            venue: "Sha Tin".to_owned(),
            messages,
            board,
            quote,
            markets: opens.then(|| self.markets(race_number)),
            open,
            on_card: false,
            off_time: None,
            runners: Vec::new(),
        })
    }

    /// Publishes a message that is no quote.
    fn message(&mut self, race_number: u16, kind: LiveKind, prev_seq: u64) -> LiveMessage {
        let seq = self.seq;
        let mut json = match (kind, &self.races[&race_number].board) {
            (LiveKind::OddsUpdate, Some(board)) => board.clone(),
            _ => json!({ "race_number": race_number, "seq": seq, "prev_seq": prev_seq }),
        };
        json["event"] = json!(kind.as_str());
        let text = json.to_string().into_bytes();
        self.published.push(Published {
            seq,
            prev_seq,
            content: Content::Kind(kind),
            race: race_number,
            json,
            bytes: text.len(),
            is_fact: !Content::Kind(kind).is_conflated(),
        });
        LiveMessage {
            kind,
            prev_seq,
            json: text,
        }
    }

    /// Quotes a few prices of a market.
    fn quote(&mut self, race_number: u16, fact: Fact) -> Option<LiveQuote> {
        let seq = self.seq;
        let market = match fact {
            Fact::QuoteOfSource => "win_place",
            Fact::QuoteOfMarket => "quinella",
            _ => return None,
        };
        let market = MarketKey {
            market: events::PoolCode::parse(market).expect("a pool"),
            source: "tote".to_owned(),
        };
        let race = self.races.get_mut(&race_number).expect("a race");
        let latest =
            (race.markets.entry(market.clone())).or_insert_with(|| json!({ "seq": 0, "all": {} }));
        let prev_seq = latest["seq"].as_u64().expect("a number");
        let head = json!({ "event": "quote", "a_market": market.market.as_str(), "race_number": race_number,
            "seq": seq, "prev_seq": prev_seq });
        let mut prices = Vec::new();
        for of in [seq % 3, 5 + seq % 2] {
            let price = json!({ "of": of, "odds": seq });
            latest["all"][of.to_string()] = price.clone();
            prices.push(price);
        }
        let mut json = head.clone();
        json["prices"] = json!(prices);
        let mut image = head.clone();
        image["all"] = latest["all"].take();
        *latest = image;
        let bytes = json.to_string().len();
        self.published.push(Published {
            seq,
            prev_seq,
            content: Content::Quote(market.clone()),
            race: race_number,
            json,
            bytes,
            is_fact: !race.has_prices,
        });
        let head = head.to_string();
        let line = |price: Value| PriceLine {
            of: price["of"].to_string().into_bytes(),
            json: price.to_string().into_bytes(),
        };
        Some(LiveQuote {
            market,
            prev_seq,
            head: [head.trim_end_matches('}'), r#","prices":["#]
                .concat()
                .into_bytes(),
            prices: prices.into_iter().map(line).collect(),
        })
    }

    /// All prices of the markets of a race.
    fn markets(&self, race: u16) -> Vec<LiveQuote> {
        let markets = self.races[&race].markets.keys();
        let all = markets.map(|market| {
            let mut image = self.image(race, market);
            let image = image.as_object_mut().expect("an object");
            image.remove("snapshot");
            let prices = image.remove("prices").expect("prices");
            live_quote(
                market.clone(),
                &json!(image),
                prices.as_array().expect("a list"),
            )
        });
        all.collect()
    }

    /// The image of a market.
    fn image(&self, race: u16, market: &MarketKey) -> Value {
        let mut image = self.races[&race].markets[market].clone();
        let all = image.as_object_mut().and_then(|image| image.remove("all"));
        let all = all
            .and_then(|all| all.as_object().cloned())
            .unwrap_or_default();
        image["prices"] = all.into_iter().map(|(_, price)| price).collect();
        image["snapshot"] = json!(true);
        image
    }

    /// The index of the first message that is kept, and the log sequence from which on all messages are.
    fn kept(&self, bounds: Bounds) -> (usize, u64) {
        let mut first = 0;
        let mut complete_from = 1;
        for end in 1..=self.published.len() {
            // The messages of an event are published together.
            if self
                .published
                .get(end)
                .is_some_and(|next| next.seq == self.published[end - 1].seq)
            {
                continue;
            }
            let bytes = |first: usize| -> usize {
                let header = |bytes: usize| if bytes < 126 { 2 } else { 4 };
                self.published[first..end]
                    .iter()
                    .map(|message| message.bytes + header(message.bytes))
                    .sum()
            };
            while end - first > bounds.messages || bytes(first) > bounds.bytes {
                let seq = self.published[first].seq;
                complete_from = seq + 1;
                first += self.published[first..end]
                    .iter()
                    .take_while(|message| message.seq == seq)
                    .count();
            }
        }
        (first, complete_from)
    }
}

fn live_quote(market: MarketKey, head: &Value, prices: &[Value]) -> LiveQuote {
    let line = |price: &Value| PriceLine {
        of: price["of"].to_string().into_bytes(),
        json: price.to_string().into_bytes(),
    };
    LiveQuote {
        market,
        prev_seq: head["prev_seq"].as_u64().expect("a number"),
        head: [head.to_string().trim_end_matches('}'), r#","prices":["#]
            .concat()
            .into_bytes(),
        prices: prices.iter().map(line).collect(),
    }
}

fn check_tail(feed: &Feed, model: &Model, first: usize) {
    for from in 0..=model.published.len() {
        for max in [1, 3, usize::MAX] {
            let tail = feed.tail(from as u64, max);
            if from < first {
                assert!(tail.is_none(), "{from} is before {first}");
                continue;
            }
            let tail = tail.expect("it is kept");
            let expected: Vec<&Published> = model.published[from..].iter().take(max).collect();
            assert_eq!(tail.messages.len(), expected.len(), "from {from}");
            for ((message, published), index) in tail.messages.iter().zip(expected).zip(from..) {
                assert_eq!(
                    (
                        message.index,
                        message.seq,
                        message.prev_seq,
                        &message.content
                    ),
                    (
                        index as u64,
                        published.seq,
                        published.prev_seq,
                        &published.content
                    )
                );
                assert_eq!(decode(&message.frame), published.json);
            }
        }
    }
}

fn check_resume(feed: &Feed, model: &Model, complete_from: u64, bounds: Bounds) {
    let events_from = (model.seq + 1).saturating_sub(bounds.events as u64);
    for since in 0..=model.seq + 2 {
        let proof = Some(recorded_at(since));
        let resumed = feed.resume(since, Some(&feed.position().epoch), proof);
        assert_eq!(resumed, feed.resume(since, None, proof));
        assert_eq!(
            feed.resume(since, Some("another"), proof),
            Err(NotRecovered::OtherEpoch)
        );
        if since > model.seq {
            assert_eq!(resumed, Err(NotRecovered::Ahead));
        } else if since + u64::from(since == 0) < complete_from || (1..events_from).contains(&since)
        {
            assert_eq!(resumed, Err(NotRecovered::TooFarBehind), "since {since}");
        } else {
            let without_proof = |proof, reason| match since {
                0 => assert_eq!(resumed, feed.resume(since, None, proof)),
                _ => assert_eq!(feed.resume(since, None, proof), Err(reason)),
            };
            without_proof(None, NotRecovered::Unproven);
            without_proof(Some(recorded_at(since + 1)), NotRecovered::OtherHistory);
            let after = model
                .published
                .iter()
                .position(|message| message.seq > since)
                .unwrap_or(model.published.len());
            let same = model
                .published
                .iter()
                .filter(|message| message.seq == since)
                .count();
            let again = same.saturating_sub(1);
            assert_eq!(
                resumed,
                Ok((after - again) as u64),
                "all but the first of {same} are sent again"
            );
        }
    }
}

/// Checks that all messages but the last have `more`, and removes it.
fn take_more(messages: &mut [Value]) {
    let last = messages.len();
    for (message, n) in messages.iter_mut().zip(1..) {
        let message = message.as_object_mut().expect("an object");
        let more = message.remove("more");
        assert_eq!(more, (n < last).then_some(json!(true)));
    }
}

/// Compares the conflated messages from an index on with all messages from there.
fn check_conflated(
    feed: &Feed,
    model: &Model,
    bounds: Bounds,
    wants: impl Fn(u16, &Content) -> bool,
) {
    for from in 0..=model.published.len() {
        let (by, word) = match from % 2 {
            0 => (ConflatedBy::Client, "client"),
            _ => (ConflatedBy::Backpressure, "backpressure"),
        };
        let passes =
            |topic: &Topic, content: &Content| wants(topic.race.race_number.get(), content);
        let missed = &model.published[from..];
        let facts = missed.iter().filter(|message| message.is_fact).count();
        let Some((frames, position)) = feed.conflated(from as u64, by, passes) else {
            assert!(
                facts > bounds.facts
                    || missed.len() > bounds.messages
                    || model.ends > bounds.closed_races,
                "the messages from {from} on should be kept"
            );
            continue;
        };
        assert_eq!(position, feed.position());
        let mut expected = Vec::new();
        for (at, message) in missed
            .iter()
            .enumerate()
            .filter(|(_, message)| wants(message.race, &message.content))
        {
            if !message.content.is_conflated() {
                expected.push(message.json.clone());
                continue;
            }
            let same =
                |other: &&Published| other.content == message.content && other.race == message.race;
            if missed[at + 1..].iter().any(|later| same(&later)) {
                continue;
            }
            if matches!(message.content, Content::Quote(_)) {
                continue;
            }
            let merged: Vec<&Published> = missed.iter().filter(same).collect();
            let mut image = model.races[&message.race].board.clone().expect("a board");
            image["event"] = json!("odds_update");
            image["prev_seq"] = json!(merged[0].prev_seq);
            if merged.len() > 1 {
                image["conflated"] = json!(merged.len());
                image["conflated_by"] = json!(word);
            }
            expected.push(image);
        }
        let mut frames: Vec<Value> = frames.iter().map(decode).collect();
        take_more(&mut frames);
        let quotes: Vec<Value> = frames
            .extract_if(.., |message| message["event"] == "quote")
            .collect();
        assert_eq!(frames, expected, "from {from}");
        check_quotes(&quotes, model, missed, &wants);
    }
}

/// Each quote that was missed is sent, or all prices of its market: those of races that were not open are not kept.
fn check_quotes(
    sent: &[Value],
    model: &Model,
    missed: &[Published],
    wants: impl Fn(u16, &Content) -> bool,
) {
    let mut expected = Vec::new();
    for message in missed {
        let Content::Quote(market) = &message.content else {
            continue;
        };
        if wants(message.race, &message.content) {
            let image = model.image(message.race, market);
            let is_sent = [&message.json, &image].map(|json| sent.contains(json));
            assert_ne!(is_sent, [false; 2], "{} of {sent:?}", message.json);
            expected.extend([message.json.clone(), image]);
        }
    }
    let other = sent.iter().find(|quote| !expected.contains(quote));
    assert_eq!(other, None);
}

fn check_snapshots(feed: &Feed, model: &Model, wants: impl Fn(u16, &Content) -> bool) {
    let passes = |topic: &Topic, content: &Content| wants(topic.race.race_number.get(), content);
    let Snapshots { images, position } = feed.snapshots(passes);
    assert_eq!(position, feed.position());
    let mut expected = Vec::new();
    for (n, race) in model.races.iter().filter(|(_, race)| !race.over) {
        let Some(mut image) = race.board.clone() else {
            continue;
        };
        image["event"] = json!("odds_update");
        image["snapshot"] = json!(true);
        expected.extend(wants(*n, &Content::ODDS).then_some(image));
        let markets = race.markets.keys();
        let wanted = markets.filter(|market| wants(*n, &Content::Quote((*market).clone())));
        expected.extend(wanted.map(|market| model.image(*n, market)));
    }
    let images: Vec<Value> = images.iter().map(decode).collect();
    assert_eq!(images, expected);
}

fn check_published(facts: &[(u16, Fact)], batch: usize, bounds: Bounds) {
    let feed = Feed::bounded(bounds);
    let mut model = Model::default();
    let mut before = Vec::new();
    for facts in facts.chunks(batch) {
        let updates: Vec<LiveUpdate> = facts
            .iter()
            .filter_map(|(race, fact)| model.update(*race, *fact))
            .collect();
        feed.publish(updates.clone(), &events(model.seq), None);
        // While views are rebuilt, two projections pass the same events.
        feed.publish(
            std::mem::replace(&mut before, updates),
            &events(model.seq),
            None,
        );
    }
    check_all(&feed, &model, bounds);
}

fn check_all(feed: &Feed, model: &Model, bounds: Bounds) {
    let position = feed.position();
    assert_eq!(
        (position.seq, position.head),
        (model.seq, model.published.len() as u64)
    );
    let (first, complete_from) = model.kept(bounds);
    check_tail(feed, model, first);
    check_resume(feed, model, complete_from, bounds);
    assert!(feed.state.lock().events.len() <= bounds.events);
    for seq in (model.seq + 1).saturating_sub(bounds.events as u64)..=model.seq {
        let expected = (seq > 0).then(|| recorded_at(seq));
        assert_eq!(feed.recorded_at(position.generation, seq), expected);
        assert_eq!(feed.recorded_at(position.generation + 1, seq), None);
    }
    check_conflated(feed, model, bounds, |_, _| true);
    check_conflated(feed, model, bounds, |race, content| {
        race != 2 && *content != Content::Kind(LiveKind::RunnerUpdate)
    });
    check_conflated(feed, model, bounds, |race, content| {
        race == 1 && *content == Content::ODDS
    });
    check_snapshots(feed, model, |_, _| true);
    check_snapshots(feed, model, |race, content| {
        race % 2 == 0 && *content != Content::ODDS
    });
}

#[test]
fn quotes_of_a_race_that_is_over_are_kept_as_they_are() {
    let facts = [
        (5, Fact::Result),
        (5, Fact::QuoteOfSource),
        (1, Fact::Quote),
        (1, Fact::Result),
        (1, Fact::Withdrawal),
    ];
    check_published(&facts, 1, SMALL);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_feed_equals_a_list_of_all_messages(
        facts in prop::collection::vec(fact(), 0..60),
        batch in 1..7_usize,
        small: bool,
    ) {
        check_published(&facts, batch, if small { SMALL } else { BOUNDS });
    }

    #[test]
    fn replayed_messages_equal_published_ones(facts in prop::collection::vec(fact(), 1..60), at in 0..60_usize) {
        let feed = Feed::default();
        let mut model = Model::default();
        let updates: Vec<LiveUpdate> = facts.iter().filter_map(|(race, fact)| model.update(*race, *fact)).collect();
        let at = at.min(updates.len());
        let seq = updates.get(at).map_or(model.seq, |next| next.seq - 1);
        let replayed = Replayed { events: events(seq), complete_from: 1, updates: updates[..at].to_vec() };
        feed.reset(&checkpoint("now", seq), Vec::new(), replayed);
        feed.publish(updates[at..].to_vec(), &events(model.seq), None);
        prop_assert_eq!(feed.position().generation, 1);
        check_all(&feed, &model, BOUNDS);
    }
}

fn publish(feed: &Feed, model: &mut Model, race: u16, fact: Fact) {
    let update = model.update(race, fact);
    feed.publish(update.into_iter().collect(), &events(model.seq), None);
}

#[test]
fn a_reset_starts_again_with_other_views() {
    let feed = Feed::default();
    let mut model = Model::default();
    for _ in 0..5 {
        publish(&feed, &mut model, 1, Fact::Quote);
    }
    let before = feed.position();
    // Views of another log at a lower sequence; only one open race can be sent again.
    let mut other = Model::default();
    let mut image = other.update(2, Fact::Quote).expect("an update");
    image.messages.clear();
    let replayed = Replayed {
        events: events(3),
        complete_from: 4,
        updates: Vec::new(),
    };
    feed.reset(&checkpoint("another", 3), vec![image], replayed);
    let position = feed.position();
    assert_eq!(
        (position.generation, position.seq, position.head),
        (before.generation + 1, 3, before.head)
    );
    assert_eq!(
        (&*position.epoch, position.epoch.len()),
        (&*epoch(&log("another")), 16)
    );
    assert_ne!(position.epoch, before.epoch);
    assert_eq!(
        feed.snapshots(|_, _| true).images.len(),
        1,
        "the races before the reset are dropped"
    );
    assert!(feed.tail(before.head - 1, 9).is_none() && feed.tail(before.head, 9).is_some());
    assert!(
        feed.conflated(before.head - 1, ConflatedBy::Client, |_, _| true)
            .is_none()
    );
    assert!(
        feed.conflated(before.head, ConflatedBy::Client, |_, _| true)
            .expect("nothing")
            .0
            .is_empty()
    );
    let epoch = &*position.epoch;
    for (since, resumed) in [
        (0, Err(NotRecovered::TooFarBehind)),
        (2, Err(NotRecovered::TooFarBehind)),
        (3, Err(NotRecovered::TooFarBehind)),
        (4, Err(NotRecovered::Ahead)),
    ] {
        let found = feed.resume(since, Some(epoch), Some(recorded_at(since)));
        assert_eq!(found, resumed, "since {since}");
    }
    // Messages of the other log are published at sequences that the first had passed.
    other.seq = 3;
    publish(&feed, &mut other, 2, Fact::Quote);
    assert_eq!(
        feed.resume(4, Some(epoch), Some(recorded_at(4))),
        Ok(before.head + 1)
    );
    let published = feed.tail(before.head, 9).expect("kept").messages;
    assert_eq!(
        published
            .iter()
            .map(|message| message.seq)
            .collect::<Vec<_>>(),
        [4]
    );
}

#[test]
fn a_sequence_without_an_event_is_proved_by_the_event_before_it() {
    let feed = Feed::default();
    let events = events(9);
    feed.publish(Vec::new(), &[&events[..3], &events[6..]].concat(), None);
    for (since, at) in [(3, 3), (4, 3), (6, 3), (7, 7)] {
        let resumed = feed.resume(since, None, Some(recorded_at(at)));
        assert_eq!(resumed, Ok(0), "since {since}");
        assert_eq!(feed.recorded_at(0, since), Some(recorded_at(at)));
    }
    let other = feed.resume(7, None, Some(recorded_at(3)));
    assert_eq!(other, Err(NotRecovered::OtherHistory));
}

#[test]
fn events_without_messages_are_bounded_too() {
    let feed = Feed::default();
    let count = BOUNDS.events as u64 + 10;
    feed.publish(Vec::new(), &events(count), None);
    let resumed = |seq| feed.resume(seq, None, Some(recorded_at(seq)));
    assert_eq!(resumed(10), Err(NotRecovered::TooFarBehind));
    assert_eq!((resumed(11), resumed(0)), (Ok(0), Ok(0)));
}

#[test]
fn closed_races_are_dropped_oldest_first_and_open_ones_never() {
    let feed = Feed::bounded(SMALL);
    let mut model = Model::default();
    publish(&feed, &mut model, 9, Fact::Quote);
    for race in 1..=4 {
        publish(&feed, &mut model, race, Fact::Quote);
        publish(&feed, &mut model, race, Fact::End);
    }
    // The first of them is open again.
    publish(&feed, &mut model, 1, Fact::Status);
    let known: BTreeSet<u16> = feed
        .state
        .lock()
        .races
        .keys()
        .map(|race| race.race_number.get())
        .collect();
    assert_eq!(known, BTreeSet::from([1, 3, 4, 9]));
    assert!(
        feed.conflated(1, ConflatedBy::Client, |_, _| true)
            .is_none(),
        "odds of race 1 are dropped"
    );
    check_conflated(&feed, &model, SMALL, |_, _| true);
}

/// A quote of a race, such as `2026-10-03 ST 1`, which may be on a card.
fn opened(model: &mut Model, race: &str, on_card: bool) -> LiveUpdate {
    let [date, venue, number] = race.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{race}");
    };
    let number: u16 = number.parse().expect("a number");
    let mut update = model.update(number, Fact::Quote).expect("an update");
    update.race.date = RacingDate::parse(date).expect("a date");
    update.race.venue = VenueCode::parse(venue).expect("a code");
    update.on_card = on_card;
    update
}

/// The open races, such as `2026-10-03 ST 1`.
fn open_now(feed: &Feed) -> Vec<String> {
    let state = feed.state.lock();
    let texts = (state.open.iter())
        .map(|race| format!("{} {} {}", race.date, race.venue, race.race_number));
    texts.collect()
}

#[test]
fn races_on_a_card_are_open_before_all_others_and_those_near_today_before_later_ones() {
    let on_card = ["2026-10-03 ST 1", "2026-10-03 ST 2", "2026-10-05 HV 1"];
    let quoted = [
        "2026-10-02 AA 1",
        "2026-10-03 ST 3",
        "2026-10-03 ZZ 1",
        "2026-10-04 AA 1",
        "2026-10-04 AA 2",
        "2300-01-01 XX 1",
    ];
    let nearest = [
        "2026-10-03 ST 1",
        "2026-10-03 ST 2",
        "2026-10-03 ST 3",
        "2026-10-03 ZZ 1",
        "2026-10-05 HV 1",
    ];
    // Races of the day before are not over everywhere yet.
    let morning = Moment::parse("2026-10-03T11:59:59Z").ok();
    let mut model = Model::default();
    let on_card = on_card.map(|race| opened(&mut model, race, true));
    let quoted = quoted.map(|race| opened(&mut model, race, false));
    let mut orders = vec![
        [&on_card[..], &quoted].concat(),
        [&quoted[..], &on_card].concat(),
    ];
    orders.push(orders[0].iter().rev().cloned().collect());
    orders.push(orders[1].iter().rev().cloned().collect());
    for updates in orders {
        let feed = Feed::bounded(SMALL);
        let mut seq = 0;
        feed.publish(Vec::new(), &[], morning);
        for update in updates {
            seq += 1;
            feed.publish(vec![LiveUpdate { seq, ..update }], &events(seq), morning);
        }
        assert_eq!(open_now(&feed), nearest);
        assert_eq!(feed.state.lock().left_out, 4);
    }
}

#[test]
fn quotes_of_a_meeting_take_no_room_from_its_card() {
    let bounds = Bounds {
        open_races_of_meeting: 3,
        ..SMALL
    };
    let feed = Feed::bounded(bounds);
    let mut model = Model::default();
    let mut open = |race: &str, on_card: bool| {
        let update = opened(&mut model, race, on_card);
        feed.publish(vec![update], &events(model.seq), noon("2026-10-03"));
        open_now(&feed).join(", ")
    };
    open("2026-10-03 ST 7", false);
    open("2026-10-03 ST 8", false);
    open("2026-10-03 ST 9", false);
    open("2026-10-03 ST 1", true);
    assert_eq!(
        open("2026-10-03 ST 2", true),
        "2026-10-03 ST 1, 2026-10-03 ST 2, 2026-10-03 ST 7"
    );
    // A card for a race that was left out.
    assert_eq!(
        open("2026-10-03 ST 9", true),
        "2026-10-03 ST 1, 2026-10-03 ST 2, 2026-10-03 ST 9"
    );
    assert_eq!(
        open("2026-10-03 ST 7", false),
        "2026-10-03 ST 1, 2026-10-03 ST 2, 2026-10-03 ST 9"
    );
    assert_eq!(feed.state.lock().left_out, 4);
}

#[test]
fn a_race_more_than_a_year_ahead_of_the_log_is_published_and_has_no_image() {
    let feed = Feed::bounded(SMALL);
    let mut model = Model::default();
    let log_time = noon("2026-10-03");
    feed.publish(Vec::new(), &[], log_time);
    for (date, images) in [("2027-10-05", 0), ("2027-10-04", 1)] {
        let mut update = model.update(1, Fact::Quote).expect("an update");
        update.race.date = RacingDate::parse(date).expect("a date");
        feed.publish(vec![update], &events(model.seq), log_time);
        assert_eq!(feed.snapshots(|_, _| true).images.len(), images);
    }
    assert_eq!(feed.state.lock().left_out, 1);
    assert_eq!(feed.position().head, 2);
}

#[test]
fn races_that_nobody_closes_are_closed_by_their_date_and_bounded_in_number() {
    let feed = Feed::bounded(SMALL);
    let mut model = Model::default();
    for race in 1..=7 {
        publish(&feed, &mut model, race, Fact::Quote);
    }
    let open = || feed.snapshots(|_, _| true).images.len();
    assert_eq!(open(), SMALL.open_races);
    feed.publish(Vec::new(), &events(model.seq), noon("2026-10-03"));
    assert_eq!(open(), SMALL.open_races);
    feed.publish(Vec::new(), &events(model.seq), noon("2026-10-04"));
    assert_eq!(open(), 0);
    // A late quote is published, but opens no race.
    let late = model.update(7, Fact::Quote).expect("an update");
    feed.publish(vec![late.clone()], &events(model.seq), noon("2026-10-04"));
    assert_eq!((open(), feed.position().head), (0, 8));
    assert_eq!(feed.state.lock().races.len(), SMALL.closed_races);
    // The clock that closed them is corrected.
    let image = LiveUpdate {
        messages: Vec::new(),
        ..late
    };
    feed.publish(Vec::new(), &events(model.seq), noon("2026-10-03"));
    feed.reopen(vec![image]);
    assert_eq!((open(), feed.position().head), (1, 8));
}

#[test]
fn a_race_whose_markets_have_too_many_prices_has_no_images_of_them_and_its_quotes_are_sent() {
    let bounds = Bounds { prices: 7, ..SMALL };
    let feed = Feed::bounded(bounds);
    let mut model = Model::default();
    let markets = |feed: &Feed| {
        let images = feed
            .snapshots(|_, content| *content != Content::ODDS)
            .images;
        images
            .iter()
            .map(|image| decode(image)["race_number"].clone())
            .collect::<Vec<_>>()
    };
    for race in [1, 2] {
        publish(&feed, &mut model, race, Fact::QuoteOfSource);
        publish(&feed, &mut model, race, Fact::QuoteOfMarket);
    }
    assert_eq!(markets(&feed), [1, 1], "four prices of each race");
    publish(&feed, &mut model, 2, Fact::QuoteOfMarket);
    assert_eq!(feed.position().head, 7);
    publish(&feed, &mut model, 1, Fact::End);
    assert_eq!(markets(&feed), [0; 0]);
    // Races that are over are kept for clients that are behind, until there are too many.
    for race in [3, 4] {
        publish(&feed, &mut model, race, Fact::QuoteOfSource);
        publish(&feed, &mut model, race, Fact::End);
    }
    publish(&feed, &mut model, 5, Fact::QuoteOfSource);
    assert_eq!(markets(&feed), [5]);
}

#[test]
fn many_or_large_messages_stay_within_the_bounds() {
    let feed = Feed::default();
    let large = |seq: u64, bytes: usize| LiveUpdate {
        seq,
        race: key(1),
        venue: String::new(),
        messages: vec![LiveMessage {
            kind: LiveKind::OddsUpdate,
            prev_seq: seq - 1,
            json: vec![b' '; bytes],
        }],
        board: None,
        quote: None,
        markets: None,
        open: true,
        on_card: false,
        off_time: None,
        runners: Vec::new(),
    };
    let count = BOUNDS.messages as u64 + 10;
    feed.publish(
        (1..=count).map(|seq| large(seq, 10)).collect(),
        &events(count),
        None,
    );
    assert_eq!(feed.state.lock().ring.len(), BOUNDS.messages);
    let resumed = |seq| feed.resume(seq, None, Some(recorded_at(seq)));
    assert_eq!(resumed(10), Err(NotRecovered::TooFarBehind));
    assert_eq!(resumed(11), Ok(11));
    feed.publish(
        (1..=70).map(|n| large(count + n, 1 << 20)).collect(),
        &events(count + 70),
        None,
    );
    let state = feed.state.lock();
    assert!(
        state.ring_bytes <= BOUNDS.bytes && state.ring.len() >= 60,
        "{}",
        state.ring.len()
    );
    assert_eq!(
        state.ring_bytes,
        state
            .ring
            .iter()
            .map(|message| message.frame.len())
            .sum::<usize>()
    );
}

/// The races of the synthetic year: each day six, which nobody closes.
const RACES_PER_DAY: u16 = 6;
const QUOTES_PER_RACE: u64 = 8;

/// Publishes a day of quotes at `seq` and after. Returns the last sequence.
fn a_day(projection: &mut Projection, feed: &Feed, day: jiff::civil::Date, mut seq: u64) -> u64 {
    let mut messages = Vec::new();
    for race in 1..=RACES_PER_DAY {
        for quote in 0..QUOTES_PER_RACE {
            seq += 1;
            let time = format!("{day}T0{race}:0{quote}:00Z");
            let runners = json!([{ "horse_no": format!("H{race}"), "win": 2 + quote }]);
            let event = json!({
                "specversion": "1.0", "id": seq.to_string(), "source": "test", "time": time,
                "type": "racing.odds.quoted.v1",
                "data": { "date": day.to_string(), "venue": "ST", "race_number": race, "runners": runners },
            });
            let recorded_at = Moment::parse(&time).expect("a time");
            let subject = format!("racing.odds.{day}.ST.{race}");
            messages.push((seq, recorded_at, subject, event.to_string()));
        }
    }
    let stored = messages
        .iter()
        .map(|(seq, recorded_at, subject, payload)| StoredMessage {
            seq: *seq,
            recorded_at: *recorded_at,
            subject,
            payload: payload.as_bytes(),
        });
    let event_times: Vec<EventTime> = messages
        .iter()
        .map(|(seq, recorded_at, ..)| EventTime {
            seq: *seq,
            recorded_at: *recorded_at,
        })
        .collect();
    let step = projection.step(stored, true).expect("a healthy store");
    let log_time = projection.checkpoint().clock.latest_time();
    feed.publish(step.updates, &event_times, log_time);
    seq
}

#[test]
fn a_year_of_racing_that_nobody_closes_stays_within_the_bounds() {
    let bounds = Bounds {
        messages: 500,
        bytes: 200_000,
        events: 1_000,
        facts: 50,
        open_races: 100,
        open_races_of_meeting: 100,
        closed_races: 10,
        conflatable: 1_000,
        prices: 1_000,
    };
    let feed = Feed::bounded(bounds);
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(Store::open(folder.path()).expect("a folder"));
    let mut projection = Projection::new(Arc::clone(&store), log("now"));
    let mut seq = 0;
    let mut in_memory = 0;
    let days = jiff::civil::date(2026, 1, 1).series(1.day());
    for day in days.take(365) {
        seq = a_day(&mut projection, &feed, day, seq);
        in_memory = in_memory.max(projection.in_memory());
        // On the morning of a day, only that day and the one before are not over everywhere.
        let open = 2 * usize::from(RACES_PER_DAY);
        let marks = open_races(&store).expect("a healthy store").len();
        let state = feed.state.lock();
        assert!(
            marks <= open && state.races.len() <= open + bounds.closed_races,
            "{day}"
        );
        assert!(state.ring.len() <= bounds.messages && state.ring_bytes <= bounds.bytes);
        assert!(state.events.len() <= bounds.events);
        let prices: usize = state.races.values().map(RaceFeed::prices).sum();
        assert_eq!((state.prices, prices <= bounds.prices), (prices, true));
        let marks: usize = state.races.values().map(|race| race.marks.len()).sum();
        assert!(
            marks <= bounds.conflatable + bounds.conflatable / 8 + 1,
            "{day}"
        );
    }
    assert_eq!(seq, 365 * u64::from(RACES_PER_DAY) * QUOTES_PER_RACE);
    let recent = feed.position().head - 40;
    assert!(
        feed.conflated(recent, ConflatedBy::Client, |_, _| true)
            .is_some()
    );
    // The fold drops races and horses from memory at 1,000 and 10,000.
    assert!((900..=11_000).contains(&in_memory), "{in_memory}");
}
