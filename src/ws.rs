//! `/ws/live/odds`: the image of every open race, then every change in the order of the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use events::RaceKey;
use futures::SinkExt;
use projections::{StoreError, keys};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::feed::{News, odds_update};
use crate::http::{ApiError, Args, api_key};
use crate::metrics::Held;
use crate::projector::Phase;
use crate::shutdown::Shutdown;
use crate::state::App;

/// What clients say is short.
const INBOUND_BYTES_MAX: usize = 16 * 1024;
/// An idle connection costs little more than this.
const READ_BUFFER_BYTES: usize = 1024;
/// Frames are gathered so far before they are written, and never held beyond the next flush.
const WRITE_BUFFER_BYTES: usize = 8 * 1024;
const WRITE_BUFFER_BYTES_MAX: usize = 1024 * 1024;
/// Updates that are gathered for one write.
const UPDATES_PER_FLUSH: usize = 64;
/// A client that takes nothing for so long is closed.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// How often a client is told that it is connected to a living feed.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How often a client is pinged; an answer keeps the connection from being idle.
const PING_EVERY_HEARTBEATS: u64 = 6;

/// Checks the key, and upgrades.
pub(crate) async fn live_odds(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    args: Args,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let key = args.get("api_key").or_else(|| api_key(&headers));
    app.authorize(key)?;
    app.ready_store()?;
    let upgrade = upgrade.map_err(|rejection| ApiError::UpgradeRequired(rejection.body_text()))?;
    let place = Arc::clone(&app.sockets).try_acquire_owned();
    let place =
        place.map_err(|_| ApiError::NotReady("There are too many WebSocket connections"))?;
    let upgrade = upgrade
        .max_message_size(INBOUND_BYTES_MAX)
        .max_frame_size(INBOUND_BYTES_MAX)
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let session = Session::new(socket, app, place);
        if let Err(ended) = session.run().await {
            tracing::debug!(%ended, "a socket ended");
        }
    }))
}

/// Why a session is over.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the connection failed: {0}")]
    Connection(#[from] axum::Error),
    #[error("the client took nothing for {} s", STALLED_AFTER.as_secs())]
    Stalled,
    #[error("the client left")]
    Left,
    #[error(transparent)]
    Store(#[from] StoreError),
}

struct Session {
    socket: WebSocket,
    app: Arc<App>,
    news: Receiver<Arc<News>>,
    /// The last `seq` sent of each race.
    sent: HashMap<RaceKey, u64>,
    shutdown: Shutdown,
    _held: (Held, OwnedSemaphorePermit),
}

impl Session {
    fn new(socket: WebSocket, app: Arc<App>, place: OwnedSemaphorePermit) -> Self {
        // Listening comes before the snapshot: what happens between the two is in both, and is sent once.
        let (news, shutdown) = (app.feed.listen(), app.shutdown.clone());
        let held = (Held::new(&app.metrics.sockets), place);
        Self {
            socket,
            app,
            news,
            sent: HashMap::new(),
            shutdown,
            _held: held,
        }
    }

    async fn run(mut self) -> Result<(), Ended> {
        let seq = self.app.views.current().seq();
        self.send_json(&json!({ "event": "welcome", "seq": seq, "server_time": now() }))
            .await?;
        self.send_snapshots().await?;
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        for beats in 1.. {
            while let Some(event) = self.next(&mut heartbeat).await? {
                match event {
                    Event::News(news) => self.send_news(news).await?,
                    Event::Lagged(missed) => self.heal(missed).await?,
                    Event::Heard(message) => self.answer(&message).await?,
                    Event::Ending => return self.close().await,
                }
            }
            self.send_heartbeat().await?;
            if beats % PING_EVERY_HEARTBEATS == 0 {
                self.send(Message::Ping(Bytes::new())).await?;
            }
        }
        Ok(())
    }

    /// The next thing to do before the next heartbeat; `None` when that is due.
    async fn next(
        &mut self,
        heartbeat: &mut tokio::time::Interval,
    ) -> Result<Option<Event>, Ended> {
        loop {
            return tokio::select! {
                news = self.news.recv() => match news {
                    Ok(news) => Ok(Some(Event::News(news))),
                    Err(RecvError::Lagged(missed)) => Ok(Some(Event::Lagged(missed))),
                    Err(RecvError::Closed) => Ok(Some(Event::Ending)),
                },
                heard = self.socket.recv() => match heard {
                    Some(Ok(Message::Text(text))) => Ok(Some(Event::Heard(text))),
                    Some(Ok(Message::Close(_))) | None => Err(Ended::Left),
                    Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Err(error)) => Err(error.into()),
                },
                _ = heartbeat.tick() => Ok(None),
                () = self.shutdown.begun() => Ok(Some(Event::Ending)),
            };
        }
    }

    /// Sends the image of every open race.
    async fn send_snapshots(&mut self) -> Result<(), Ended> {
        let store = self.app.views.current();
        let mut races = 0;
        for open in store.scan(keys::OPEN_RACES) {
            let (key, _) = open?;
            let Some(race) = keys::parse_race(&key) else {
                continue;
            };
            let Some(board) = store.get(&keys::board(&race))? else {
                continue;
            };
            self.sent.insert(race, seq_of(&board));
            self.send(text(odds_update(&board, true))).await?;
            races += 1;
        }
        self.send_json(&json!({ "event": "snapshot_complete", "seq": store.seq(), "races": races }))
            .await
    }

    /// Sends what is new and what else is waiting, in one write.
    async fn send_news(&mut self, first: Arc<News>) -> Result<(), Ended> {
        self.feed(&first).await?;
        let mut lagged = None;
        for _ in 1..UPDATES_PER_FLUSH {
            match self.news.try_recv() {
                Ok(news) => self.feed(&news).await?,
                Err(TryRecvError::Lagged(missed)) => {
                    lagged = Some(missed);
                    break;
                }
                // When the feed is gone, the next turn finds out.
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        timeout(STALLED_AFTER, self.socket.flush())
            .await
            .map_err(|_| Ended::Stalled)??;
        match lagged {
            Some(missed) => self.heal(missed).await,
            None => Ok(()),
        }
    }

    async fn feed(&mut self, news: &News) -> Result<(), Ended> {
        let News::Update(update) = news else {
            return self.begin_anew().await;
        };
        let sent = self.sent.entry(update.race.clone()).or_default();
        if update.seq > *sent {
            *sent = update.seq;
            self.app.metrics.messages.increment(1);
            timeout(STALLED_AFTER, self.socket.feed(text(update.text.clone())))
                .await
                .map_err(|_| Ended::Stalled)??;
        }
        Ok(())
    }

    /// What was sent is of views that are no more: the client is told so, and given the images anew.
    async fn begin_anew(&mut self) -> Result<(), Ended> {
        self.sent.clear();
        self.send_json(&json!({ "event": "resync", "reason": "the views were begun anew" }))
            .await?;
        self.send_snapshots().await
    }

    /// The client was too slow for some updates: it is told so, and moved on to the current images.
    async fn heal(&mut self, missed: u64) -> Result<(), Ended> {
        self.app.metrics.lagged.increment(1);
        self.send_json(&json!({ "event": "lagged", "missed": missed, "reason": "backpressure" }))
            .await?;
        self.send_snapshots().await
    }

    async fn send_heartbeat(&mut self) -> Result<(), Ended> {
        let status = self.app.projector.status.borrow().clone();
        let state = match status.phase {
            _ if !self.app.connection.borrow().up => "down",
            Phase::Live if !status.is_stalled() => "live",
            _ => "stale",
        };
        let beat = json!({ "event": "heartbeat", "seq": status.seq, "server_time": now(), "feed": { "state": state } });
        self.send_json(&beat).await
    }

    async fn answer(&mut self, message: &str) -> Result<(), Ended> {
        let id = serde_json::from_str::<serde_json::Value>(message)
            .ok()
            .and_then(|m| m.get("id").cloned());
        let error = json!({ "event": "error", "error": "unknown_op", "id": id, "message": "This channel needs no messages: it sends everything" });
        self.send_json(&error).await
    }

    async fn close(mut self) -> Result<(), Ended> {
        self.send_json(&json!({ "event": "closing", "reason": "the service is stopping" }))
            .await?;
        let reason = Utf8Bytes::from_static("the service is stopping");
        self.send(Message::Close(Some(CloseFrame {
            code: close_code::AWAY,
            reason,
        })))
        .await
    }

    async fn send_json(&mut self, value: &serde_json::Value) -> Result<(), Ended> {
        self.send(Message::Text(value.to_string().into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Ended> {
        self.app.metrics.messages.increment(1);
        timeout(STALLED_AFTER, self.socket.send(message))
            .await
            .map_err(|_| Ended::Stalled)??;
        Ok(())
    }
}

enum Event {
    News(Arc<News>),
    /// So many updates were missed.
    Lagged(u64),
    Heard(Utf8Bytes),
    Ending,
}

fn text(json: Bytes) -> Message {
    Message::Text(Utf8Bytes::try_from(json).unwrap_or_default())
}

fn seq_of(board: &[u8]) -> u64 {
    #[derive(serde::Deserialize)]
    struct Seq {
        seq: u64,
    }
    serde_json::from_slice::<Seq>(board).map_or(0, |board| board.seq)
}

fn now() -> String {
    events::Moment::from(jiff::Timestamp::now()).to_string()
}
