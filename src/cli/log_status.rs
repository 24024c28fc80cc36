//! `railbird log status`.

use indicatif::DecimalBytes;
use serde_json::{Value, json};

use super::report::{line, result, table};
use crate::log::{JetStreamServer, Log, NatsServers, StreamFollower, StreamOverview};

/// Prints the nats-servers and the streams.
pub(super) async fn print_log_status(log: &Log, as_json: bool) -> anyhow::Result<()> {
    let servers = log.servers().await?;
    if !as_json {
        print_servers(&servers);
    }
    let (mut streams, mut unknown) = (Vec::new(), Vec::new());
    for stream in log.stream_names().await? {
        match log.overview(&stream).await {
            Ok(overview) => streams.push(overview),
            Err(error) => unknown.push((stream, error)),
        }
    }
    if as_json {
        result(json!({
            "servers_expected": servers.expected,
            "leader": servers.leader,
            "servers": servers.answering,
            "streams": streams,
        }));
    } else {
        print_streams(&streams);
    }
    let Some((stream, error)) = unknown.pop() else {
        return Ok(());
    };
    for (stream, error) in unknown {
        line(format_args!("the stream {stream} is unknown: {error}"));
    }
    Err(anyhow::Error::new(error).context(format!("the stream {stream} is unknown")))
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
