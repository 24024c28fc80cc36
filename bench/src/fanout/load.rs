//! [`Load`]: all clients and the publisher, in one thread, around one epoll.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use super::client::{BUFFER_BYTES, Client, Server};
use super::publisher::{Publisher, Texts};
use super::tally::Tally;
use super::{Following, RACES};

/// Sockets that are read before the publisher has its turn.
const EVENTS_PER_TURN: usize = 256;
/// A server that has not delivered everything within this time has failed.
const DELIVERED_WITHIN: Duration = Duration::from_secs(120);
const ATTENTIVE: Duration = Duration::from_millis(1);
/// The epoll token of the publisher's socket.
const PUBLISHER: u64 = u64::MAX;

pub(super) struct Load {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    clients: Vec<Client>,
    publisher: Option<Publisher>,
    pub(super) tally: Tally,
}

impl Load {
    pub(super) fn connect(
        server: Server,
        url: &str,
        clients: usize,
        one_race: bool,
        deflate: bool,
    ) -> anyhow::Result<Self> {
        let followers = if one_race { clients / RACES } else { clients };
        let mut load = Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS_PER_TURN),
            buffer: vec![0; BUFFER_BYTES],
            clients: Vec::with_capacity(clients),
            publisher: None,
            tally: Tally::new(followers as u32),
        };
        for index in 0..clients {
            let following = if one_race {
                Following::Race(index % RACES)
            } else {
                Following::All
            };
            let mut client = Client::connect(server, url, following, deflate)
                .with_context(|| format!("client {index} of {clients} cannot connect"))?;
            client.read(&mut load.buffer, &mut load.tally)?;
            let id = epoll::EventData::new_u64(index as u64);
            epoll::add(&load.epoll, &client.socket, id, epoll::EventFlags::IN)?;
            load.clients.push(client);
        }
        load.within(DELIVERED_WITHIN, |load| {
            load.clients.iter().all(|client| client.base.is_some())
        })?;
        Ok(load)
    }

    /// Connects the publisher. `sample` is a message for a server that relays messages.
    pub(super) fn begin(&mut self, nats: &str, server: Server, sample: &str) -> anyhow::Result<()> {
        let base = self.clients[0].base.context("the clients are ready")?;
        ensure!(
            self.clients.iter().all(|client| client.base == Some(base)),
            "the log is not at rest"
        );
        let texts = match server {
            Server::Railbird => Texts::Quotes { base },
            Server::Nats | Server::Loop => Texts::like(sample)?,
        };
        let publisher = Publisher::connect(nats, texts)?;
        let id = epoll::EventData::new_u64(PUBLISHER);
        epoll::add(&self.epoll, &publisher.socket, id, epoll::EventFlags::IN)?;
        self.publisher = Some(publisher);
        Ok(())
    }

    /// Publishes nothing.
    pub(super) fn idle(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn(end - Instant::now())?;
        }
        Ok(())
    }

    /// Publishes at a fixed rate, whether messages are delivered or not.
    pub(super) fn at_rate(&mut self, per_second: u32, time: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        for message in 0..time.as_secs() as u32 * per_second {
            let due = begun + Duration::from_secs(1) * message / per_second;
            while let Some(left) = due.checked_duration_since(Instant::now()) {
                self.turn(left)?;
            }
            self.publish()?;
        }
        Ok(())
    }

    /// Publishes so that `window` messages are in flight: published, and not received by every client.
    pub(super) fn in_window(&mut self, messages: u64, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            while self.tally.outstanding() < messages {
                self.publish()?;
            }
            self.turn(ATTENTIVE)?;
        }
        Ok(())
    }

    /// Waits until every client has received every message.
    pub(super) fn drain(&mut self) -> anyhow::Result<()> {
        self.within(DELIVERED_WITHIN, |load| load.tally.outstanding() == 0)
    }

    /// A message as it was received.
    pub(super) fn sample(&self) -> String {
        String::from_utf8_lossy(&self.tally.sample).into_owned()
    }

    fn within(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !done(self) {
            ensure!(
                begun.elapsed() < limit,
                "not everything was delivered within {} s",
                limit.as_secs()
            );
            self.turn(ATTENTIVE)?;
        }
        Ok(())
    }

    fn publish(&mut self) -> anyhow::Result<()> {
        let publisher = self
            .publisher
            .as_mut()
            .context("a publisher is connected")?;
        publisher.publish(self.tally.publish())
    }

    /// Sends what is queued, waits for sockets at most this long, and reads them.
    fn turn(&mut self, wait: Duration) -> anyhow::Result<()> {
        let flushed = self.publisher.as_mut().map_or(Ok(true), Publisher::flush)?;
        let wait = if flushed { wait } else { wait.min(ATTENTIVE) };
        self.events.clear();
        let wait = Timespec::try_from(wait).context("a wait is short")?;
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &self.events {
            match (event.data.u64(), &mut self.publisher) {
                (PUBLISHER, Some(publisher)) => publisher.read(&mut self.buffer)?,
                (index, _) => {
                    self.clients[index as usize].read(&mut self.buffer, &mut self.tally)?
                }
            }
        }
        Ok(())
    }
}
