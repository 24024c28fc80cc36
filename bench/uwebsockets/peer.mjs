// Publishes each message of NATS to all WebSocket clients with uWebSockets, the server of Bun. The fan-out is C++: this
// program runs once for a message, not for a delivery.
//
//     bun bench/uwebsockets/peer.mjs NATS_PORT PORT

const [natsPort, port] = process.argv.slice(2).map(Number);
const LINE_END = 0x0a;
const CRLF_BYTES = 2;
const TOPIC = "odds";
// The end of the snapshots of railbird's live channel, after which a client counts messages.
const BEGIN = '{"event":"snapshot_complete","seq":0}';

let server;

function serve() {
  server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    fetch: (request, server) => (server.upgrade(request) ? undefined : new Response("", { status: 400 })),
    websocket: {
      // Without a limit, no message is dropped for a slow client.
      backpressureLimit: 0,
      perMessageDeflate: false,
      open(client) {
        client.subscribe(TOPIC);
        client.send(BEGIN);
      },
      message() {},
    },
  });
}

// Publishes the messages of these bytes. Returns the bytes of an incomplete one.
function publish(nats, bytes) {
  let at = 0;
  for (;;) {
    const end = bytes.indexOf(LINE_END, at);
    if (end < 0) break;
    const line = bytes.latin1Slice(at, end).trimEnd();
    let next = end + 1;
    if (line.startsWith("MSG ")) {
      const length = Number(line.slice(line.lastIndexOf(" ") + 1));
      next += length + CRLF_BYTES;
      if (next > bytes.length) break;
      server?.publish(TOPIC, bytes.utf8Slice(end + 1, end + 1 + length));
    } else if (line === "PING") {
      nats.write("PONG\r\n");
    } else if (line === "PONG") {
      // The answer to the PING after the subscription: no message is missed from here.
      serve();
    } else if (line.startsWith("-ERR")) {
      fail(`error from NATS: ${line}`);
    }
    at = next;
  }
  return bytes.subarray(at);
}

function fail(message) {
  console.error(message);
  process.exit(1);
}

let rest = Buffer.alloc(0);

await Bun.connect({
  hostname: "127.0.0.1",
  port: natsPort,
  socket: {
    open: (nats) => nats.write('CONNECT {"verbose":false}\r\nSUB odds.* 1\r\nPING\r\n'),
    data(nats, bytes) {
      rest = publish(nats, rest.length ? Buffer.concat([rest, bytes]) : bytes);
    },
    close: () => fail("NATS closed the connection"),
  },
});
