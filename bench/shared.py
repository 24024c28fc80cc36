"""A decision about a limit that replicas share through NATS: the round trip that each request would wait for."""

import json
import socket
import threading
import time

from common import BenchError, Figures, nats_server, start_nats, version

FULL = {"decisions": 5_000}
SMALL = {"decisions": 250}

# Of nats.conf: a counter that outlives the machine.
SYNCED = "jetstream { sync_interval: always }"
COUNTER = {"name": "LIMITS", "subjects": ["limits.>"], "storage": "file", "allow_msg_counter": True, "allow_direct": True}


class Client:
    """One connection, in the text protocol of NATS: the client library of a service would add its own cost."""

    def __init__(self, address):
        host, port = address.removeprefix("nats://").rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb")
        self.input.readline()
        self.send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nPING\r\n')
        while self.input.readline() != b"PONG\r\n":
            pass

    def send(self, data):
        self.socket.sendall(data)

    def subscribe(self, subject):
        self.send(f"SUB {subject} 1\r\nPING\r\n".encode())
        while self.input.readline() != b"PONG\r\n":
            pass

    def message(self):
        """The reply subject, if there is one, and the payload of the next message."""
        while True:
            words = self.input.readline().split()
            if words[0] == b"PING":
                self.send(b"PONG\r\n")
            if words[0] in (b"MSG", b"HMSG"):
                payload = self.input.read(int(words[-1]) + 2)[:-2]
                has_reply = len(words) == (6 if words[0] == b"HMSG" else 5)
                return (words[3] if has_reply else None), payload

    def request(self, subject, payload=b"", headers=b""):
        if headers:
            headers = b"NATS/1.0\r\n" + headers + b"\r\n\r\n"
            self.send(b"HPUB %s inbox %d %d\r\n%s%s\r\n" % (subject, len(headers), len(headers + payload), headers, payload))
        else:
            self.send(b"PUB %s inbox %d\r\n%s\r\n" % (subject, len(payload), payload))
        return self.message()[1]


def percentiles(decide, count):
    """p50 and p99 of a closed loop, in us."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        decide()
        times.append((time.perf_counter() - started) * 1e6)
    times.sort()
    return times[count // 2], times[count * 99 // 100]


def counter(address, count, run):
    client, subject = Client(address), b"limits.holder-%d" % run
    client.subscribe("inbox")
    created = json.loads(client.request(b"$JS.API.STREAM.CREATE.LIMITS", json.dumps(COUNTER).encode()))
    if "error" in created:
        raise BenchError(f"the counter: {created['error']}")
    found = percentiles(lambda: client.request(subject, headers=b"Nats-Incr: +1"), count)
    last = json.loads(client.request(subject, headers=b"Nats-Incr: +1"))
    if last.get("val") != str(count + 1):
        raise BenchError(f"the counter has not counted: {last}")
    return found


def core(address, count, run):
    """Another process would count and answer: here a thread does."""
    client, responder, subject = Client(address), Client(address), f"decide-{run}"
    client.subscribe("inbox")
    responder.subscribe(subject)

    def answer():
        try:
            while True:
                reply, _ = responder.message()
                responder.send(b"PUB %s 1\r\n1\r\n" % reply)
        except (OSError, IndexError, ValueError):
            return

    threading.Thread(target=answer, daemon=True).start()
    return percentiles(lambda: client.request(subject.encode()), count)


def measure(bench, size, runs, _folder):
    server, figures = nats_server(), Figures()
    _, addresses = start_nats(bench, server, options=SYNCED)
    for run in range(runs):
        for name, decide in (("counter", counter), ("core", core)):
            p50, p99 = decide(addresses["nats"], size["decisions"], run)
            figures.add(f"{name}_p50_us", p50)
            figures.add(f"{name}_p99_us", p99)
    figures.facts.update(size, nats=version([server, "--version"]))
    return figures
