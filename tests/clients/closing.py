"""Closes clients at awkward moments, and starts some with wrong values."""

import asyncio
import os
import time
from contextlib import suppress

from railbird import LiveOdds, LiveOddsClosed
from railbird.messages import Message
from websockets.asyncio.server import ServerConnection, serve

URL, KEY = os.environ["RAILBIRD_URL"], os.environ["RAILBIRD_API_KEY"]
CLOSED = ("closed", "closed by this client")


async def read(odds: LiveOdds) -> list[Message]:
    return [message async for message in odds]


async def close_in_the_loop() -> None:
    async with LiveOdds(URL, api_key=KEY) as odds:
        async for message in odds:
            assert odds.state.phase != "closed", f"closed, but received {message}"
            # Snapshots have arrived by now.
            await asyncio.sleep(0.1)
            await odds.close()
        assert (odds.state.phase, odds.state.reason) == CLOSED
        assert await read(odds) == []


async def close_beside_the_loop() -> None:
    odds = LiveOdds(URL, api_key=KEY, heartbeat_ms=1000)
    reading = asyncio.create_task(read(odds))
    while odds.state.phase != "live":
        await asyncio.sleep(0.01)
    # A heartbeat arrives before the connection is closed, and is read after that.
    time.sleep(1.5)
    await odds.close()
    assert (await reading)[-1]["event"] != "closing"
    assert (odds.state.phase, odds.state.reason) == CLOSED


async def close_while_connecting() -> None:
    ended = asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while await reader.read(1024):
                pass
        writer.close()
        ended.set()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    odds = LiveOdds(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", api_key=KEY, heartbeat_ms=1000)
    reading = asyncio.create_task(read(odds))
    while odds.state.phase != "connecting":
        await asyncio.sleep(0.01)
    await odds.close()
    assert await reading == []
    assert (odds.state.phase, odds.state.reason) == CLOSED
    await ended.wait()
    server.close()


async def close_an_open_connection() -> None:
    opened, ended = asyncio.Event(), asyncio.Event()

    async def never_send(socket: ServerConnection) -> None:
        opened.set()
        await socket.wait_closed()
        ended.set()

    async with serve(never_send, "127.0.0.1", 0) as server:
        [listener] = server.sockets
        odds = LiveOdds(f"ws://127.0.0.1:{listener.getsockname()[1]}", api_key=KEY, heartbeat_ms=1000)
        reading = asyncio.create_task(read(odds))
        await opened.wait()
        # It is silent: another one replaces it.
        await ended.wait()
        opened.clear()
        await opened.wait()
        ended.clear()
        await odds.close()
        await ended.wait()
        assert await reading == []


async def fail(url: str) -> int | None:
    try:
        # The parameter is the key, not the one in the address.
        await anext(LiveOdds(url, api_key=KEY))
    except LiveOddsClosed as closed:
        code: int | None = closed.args[1]
        return code
    raise AssertionError(url)


async def main() -> None:
    await close_in_the_loop()
    await close_beside_the_loop()
    await close_while_connecting()
    await close_an_open_connection()
    mistyped = {"venue": ["ST"]}
    for known in ["api_key, dates, venues, races, horses, events,", "dates, venues, races, horses, events,"]:
        try:
            _ = LiveOdds(URL, **mistyped) if "api_key" in known else await LiveOdds(URL).subscribe(**mistyped)
            raise AssertionError("a mistyped filter is accepted")
        except TypeError as error:
            assert str(error).startswith(f"there is no option 'venue'; there are {known}"), error
    # An empty list is not left out.
    assert await fail(f"{URL}?race=&api_key=rb_wrong") == 400
    assert await fail("ftp://127.0.0.1/ws/live/odds") is None
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


asyncio.run(main())
