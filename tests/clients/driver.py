"""Prints what the client reports, a JSON object a line, and takes commands."""

import asyncio
import json
import logging
import os
import random
import sys
import time
from dataclasses import asdict

from railbird import LiveOdds, LiveOddsClosed, State


def report(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def report_state(state: State) -> None:
    report({"event": "state", **asdict(state)})


async def take_commands(odds: LiveOdds, connect: asyncio.Event) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        [(name, value)] = json.loads(line).items()
        if name == "subscribe":
            await odds.subscribe(**value)
        elif name == "unsubscribe":
            await odds.unsubscribe(**value)
        elif name == "resync":
            await odds.resync()
        elif name == "close":
            await odds.close()
        elif name == "connect":
            odds.api_key = value
            connect.set()
        elif name == "random":
            random.uniform = lambda low, high, part=value: low + part * (high - low)
        elif name == "block":
            time.sleep(value / 1000)


async def main() -> None:
    # The key must be in no log line.
    logging.basicConfig(level=logging.DEBUG)
    connect = asyncio.Event()
    odds = LiveOdds(os.environ["RAILBIRD_URL"], api_key=os.environ["RAILBIRD_API_KEY"], heartbeat_ms=1000)
    odds.on_state = report_state
    commands = asyncio.create_task(take_commands(odds, connect))
    while odds.state.reason != "closed by this client":
        try:
            async for message in odds:
                report(message)
        except LiveOddsClosed:
            await connect.wait()
    commands.cancel()


asyncio.run(main())
