"""Instructions of a request and of a frame, counted by valgrind, compared with those of bench/instructions.json."""

import asyncio
import re
import subprocess

from common import POLL, BenchError, Figures, get, issue_key, nats_server, programs, run_json, script
from common import start_nats, start_railbird
from instructions import callgrind, compare, total

FULL = {"requests": 2_000, "clients": 1_000, "updates": 40}
SMALL = {"requests": 200, "clients": 100, "updates": 10}

HORSES = 1_000
PROFILE = "/api/v1/horses/HK_2020_000500"


class Counted:
    """A service under valgrind, whose instructions are counted on request."""

    def __init__(self, bench, valgrind, vgdb, railbird, url):
        self.out, self.vgdb, self.dumps = bench.folder / "serve.out", vgdb, 0
        under = callgrind(valgrind, self.out, "--instr-atstart=no", "--fair-sched=yes")
        self.process, self.port, *_ = start_railbird(bench, railbird, url, bench.folder / "data", under=under)

    def control(self, *command):
        subprocess.run([self.vgdb, f"--pid={self.process.pid}", *command], check=True, capture_output=True)

    def begin(self):
        self.control("instrumentation", "on")
        self.control("zero")

    def end(self):
        self.control("dump")
        self.control("instrumentation", "off")
        self.dumps += 1
        return total(self.out.with_name(f"{self.out.name}.{self.dumps}"))


def requests(service, key, count, more=()):
    """Instructions of a request, sent one after the other on one connection."""
    head = f"GET {PROFILE} HTTP/1.1\r\nHost: bench\r\nX-API-Key: {key}\r\n{''.join(more)}\r\n".encode()

    async def send(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        for _ in range(count):
            writer.write(head)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer)
            await reader.readexactly(int(length.group(1)) if length else 0)
        writer.close()

    asyncio.run(send(count // 10))
    service.begin()
    asyncio.run(send(count))
    return service.end() / count


class Client:
    """A WebSocket that counts the updates of odds."""

    async def open(self, port, key):
        self.updates, self.is_complete = 0, asyncio.Event()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET /ws/live/odds HTTP/1.1\r\nHost: bench\r\nX-API-Key: {key}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.writer.write(f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n".encode())
        answer = await self.reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in answer.split(b"\r\n", 1)[0]:
            raise BenchError(f"a client was refused:\n{answer.decode()}")
        self.reading = asyncio.create_task(self.read())
        await self.is_complete.wait()
        return self

    async def read(self):
        while True:
            length = (await self.reader.readexactly(2))[1]
            if length > 125:
                length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8))
            text = await self.reader.readexactly(length)
            self.updates += b'"odds_update"' in text
            if b'"snapshot_complete"' in text:
                self.is_complete.set()
                self.updates = 0


async def frames(service, key, publish, size):
    """Instructions of a frame to each client, from the log to its socket. Each update is awaited by all."""
    clients = [await Client().open(service.port, key) for _ in range(size["clients"])]
    counts = []
    for update in range(-1, size["updates"]):
        if update == 0:
            service.begin()
        await publish()
        while any(client.updates < update + 2 for client in clients):
            for client in clients:
                if client.reading.done():
                    client.reading.result()
            await asyncio.sleep(POLL)
        counts.append(min(client.updates for client in clients))
    if counts[-1] != size["updates"] + 1:
        raise BenchError(f"a client received {counts[-1]} updates")
    count = service.end() / size["clients"] / size["updates"]
    for client in clients:
        client.reading.cancel()
        client.writer.close()
    return count


def measure(bench, size, runs, folder):
    valgrind, vgdb = script("program", "valgrind"), script("program", "vgdb")
    railbird, load = programs(folder)
    _, addresses = start_nats(bench, nats_server())
    url = addresses["nats"]
    run_json([load, "--nats", url, "horses", "--count", HORSES])
    key = issue_key(railbird, url)
    file = bench.folder / "quotes.ndjson"
    run_json([load, "quotes", "--count", 10 * size["updates"], "--file", file])
    quotes = iter(file.read_text().splitlines())

    async def publish():
        one = bench.folder / "quote.ndjson"
        one.write_text(next(quotes) + "\n")
        done = await asyncio.create_subprocess_exec(railbird, "publish", one, "--nats", url, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if await done.wait():
            raise BenchError("a quote was not published")

    service = Counted(bench, valgrind, vgdb, railbird, url)
    status, headers, _ = get(service.port, PROFILE, {"X-API-Key": key})
    if status != 200:
        raise BenchError(f"{PROFILE} answers {status}")
    tag = dict((name.lower(), value) for name, value in headers)["etag"]
    figures = Figures()
    for _ in range(runs):
        figures.add("get", requests(service, key, size["requests"]))
        figures.add("not_modified", requests(service, key, size["requests"], [f"If-None-Match: {tag}\r\n"]))
        figures.add("frame", asyncio.run(frames(service, key, publish, size)))
    compare(figures)
    return figures
