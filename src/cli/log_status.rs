//! `railbird log status`.

use clap::Args;
use indicatif::DecimalBytes;
use serde_json::{Value, json};

use super::Nats;
use super::report::{line, result, table};
use crate::log::{JetStreamServer, NatsServers, StreamFollower, StreamOverview};

#[derive(Debug, Args)]
pub(super) struct LogStatus {
    #[command(flatten)]
    nats: Nats,
    /// Print all of it as a JSON object.
    #[arg(long)]
    json: bool,
}

impl LogStatus {
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        let log = self.nats.connect().await?;
        let servers = log.servers().await?;
        if !self.json {
            print_servers(&servers);
        }
        let (mut streams, mut unknown) = (Vec::new(), Vec::new());
        for stream in log.stream_names().await? {
            match log.overview(&stream).await {
                Ok(overview) => streams.push(overview),
                Err(error) => unknown.push((stream, error)),
            }
        }
        if self.json {
            result(json!({
                "servers_expected": servers.expected,
                "leader": servers.leader,
                "servers": servers.answering,
                "streams": streams,
            }));
        } else {
            print_streams(&streams);
        }
        match unknown.pop() {
            Some((stream, error)) => {
                for (stream, error) in unknown {
                    line(format_args!("the stream {stream} is unknown: {error}"));
                }
                Err(anyhow::Error::new(error).context(format!("the stream {stream} is unknown")))
            }
            None => Ok(()),
        }
    }
}

fn print_servers(servers: &NatsServers) {
    let (expected, answering) = (servers.expected, &servers.answering);
    let count = answering.len();
    result(format_args!("{count} of {expected} nats-servers answer"));
    let row = |(name, server): (&String, &JetStreamServer)| {
        json!({
            "server": name,
            "leads": if servers.leader.as_ref() == Some(name) { "JetStream" } else { "-" },
            "syncs": if server.syncs_always { "always" } else { "late" },
            "used": size(server.storage),
            "max": size(server.storage_max),
        })
    };
    table(answering.iter().map(row), "server leads syncs used max");
}

fn print_streams(streams: &[StreamOverview]) {
    result("");
    let row = |stream: &StreamOverview| {
        let followers: Vec<String> = stream.followers.iter().map(follower).collect();
        let followers = Some(followers.join(", ")).filter(|text| !text.is_empty());
        json!({
            "stream": stream.name,
            "leader": stream.leader.as_deref().unwrap_or("none"),
            "followers": followers,
            "messages": stream.messages,
            "last_seq": stream.last_seq,
            "used": size(stream.bytes),
            "max": stream.bytes_max.map(size),
            "consumers": stream.consumers.len(),
        })
    };
    let columns = "stream leader followers messages last_seq used max consumers";
    table(streams.iter().map(row), columns);
    result("");
    let consumers = streams.iter().flat_map(|stream| {
        stream.consumers.iter().map(|consumer| {
            json!({
                "consumer": consumer.name,
                "stream": stream.name,
                "leader": consumer.leader,
                "last_seq": consumer.last_seq,
                "pending": consumer.pending,
            })
        })
    });
    table(consumers, "consumer stream leader last_seq pending");
}

fn follower(follower: &StreamFollower) -> String {
    let (name, lag) = (&follower.name, follower.lag);
    if follower.follows {
        name.clone()
    } else {
        let silent = follower.silent_ms / 1000;
        format!("{name} (silent for {silent} s, lacks {lag})")
    }
}

fn size(bytes: u64) -> Value {
    DecimalBytes(bytes).to_string().into()
}
