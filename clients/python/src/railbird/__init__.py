"""Follows the live odds channel of railbird, as docs/live-odds.md describes it, and proves that nothing is missing."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI, WebSocketException

from .messages import FilterRace, Message, RaceEvent, RaceMessage

if TYPE_CHECKING:
    from typing_extensions import Unpack

HEARTBEAT_MS_DEFAULT = 5_000  # Until the service has sent its own value.
SILENT_HEARTBEATS_MAX = 2  # A connection that is silent for longer is dead, also if the system calls it open.
BACKOFF_MS_MIN, BACKOFF_MS_MAX = 1_000, 30_000  # Bounds of the random pause, which doubles with each failure.
CLOSE_SECONDS_MAX = 1  # For the service to answer a close frame.
LAST_SEQS_MAX = 100_000  # Kinds of messages times races: more than a year of racing.
FINAL_CODES = (1002, 1003, 1007, 1009, 4401, 4403, 400, 401, 403, 404)  # The same request would fail again.

_Json = dict[str, Any]

# At DEBUG, websockets logs the headers of the handshake, and the key is one of them.
_transport_log = logging.getLogger("railbird.transport")
_transport_log.setLevel(logging.INFO)


class FilterOptions(TypedDict, total=False):  # A race is followed if it matches at least one value of each list given.
    dates: Sequence[str]
    venues: Sequence[str]
    races: Sequence[FilterRace | int]
    horses: Sequence[str]
    events: Sequence[RaceEvent]
    markets: Sequence[str]
    conflate_ms: int
    heartbeat_ms: int


@dataclass(frozen=True)
class State:
    # connecting: no connection, or snapshots or missed messages still arrive. live, stale, down: everything was
    # received; the service's state of its feed. waiting: for the next attempt. closed: by `close`, or for good.
    phase: Literal["connecting", "live", "stale", "down", "waiting", "closed"] = "closed"
    reason: str = ""  # Why, for people.
    code: int | None = None  # The close code, or the HTTP status of a rejected handshake.
    retry_in_ms: int | None = None  # The pause before the next attempt.
    recovered: bool | None = None  # Whether the last reconnect resumed without a loss; None before the first.
    gaps: int = 0  # Gaps found since the start. There must be none.
    last_gap: tuple[int, RaceMessage] | None = None  # A `seq`, and the first message after those that are missing.
    seq: int | None = None  # Everything was received up to this log sequence.
    last_message_at: float | None = None  # As `time.time()`.


class LiveOddsClosed(Exception):
    """The same request would fail again, for example with a revoked key: set ``api_key`` and iterate again."""


class LiveOdds(AsyncIterator[Message], AbstractAsyncContextManager["LiveOdds"]):
    """Iterating connects, and returns each message of the service once, in order. After a ``welcome`` without
    ``"recovered": true`` and after a ``resync``, discard every board. The iteration ends after ``close``, and raises
    `LiveOddsClosed` if the same request would fail again.
    """

    def __init__(self, url: str, *, api_key: str | None = None, **filter: Unpack[FilterOptions]) -> None:
        parts = urlsplit(url)
        path = parts.path.rstrip("/") or "/ws/live/odds"
        self._url = parts._replace(scheme=parts.scheme.replace("http", "ws"), path=path, query="").geturl()
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        key_of_url = query.pop("api_key", None)
        self.api_key = key_of_url if api_key is None else api_key
        self.on_state: Callable[[State], object] | None = None  # Not for `seq` and `last_message_at` alone.
        self.state = State()
        self._socket: ClientConnection | None = None
        self._attempt: asyncio.Task[ClientConnection] | None = None  # To connect. It outlives a cancelled iteration.
        self._ended = asyncio.Event()
        request = _to_request(filter, ["api_key", *FilterOptions.__annotations__])
        self._query = query | _to_query(request)  # The subscription in force.
        self._silence_max = SILENT_HEARTBEATS_MAX * request.get("heartbeat_ms", HEARTBEAT_MS_DEFAULT) / 1000
        self._retry_at, self._silent_at = 0.0, 0.0  # When to connect again, and when this connection is dead.
        self._epoch, self._feed = "", "live"  # As the service last sent them.
        self._closing: _Json = {}  # The `closing` message of this connection.
        self._position: _Json = {}  # The latest message that counts, as the parameters of a resume.
        self._last: dict[tuple[str, ...], int] = {}  # The last `seq` of each kind of message about each race.
        self._filter_seq, self._failures, self._request_count = 0, 0, 0  # The filter is the same since that `seq`.
        self._requests: dict[str, _Json] = {}  # Not completed, by their id. They are sent again after a reconnect.
        self._acks: dict[str, _Json] = {}  # The answers to them.
        self._unsent: list[_Json] = []  # Those that this connection has not sent.

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __anext__(self) -> Message:
        while self._socket or await self._pause():
            try:
                socket = self._socket or await self._connect()
                await self._send()
                # It is one silence, also if the iteration is cancelled meanwhile.
                self._silent_at = self._silent_at or time.monotonic() + self._silence_max
                message: _Json = json.loads(await asyncio.wait_for(socket.recv(), self._silent_at - time.monotonic()))
                event = message["event"]
            except (OSError, WebSocketException, asyncio.TimeoutError, ValueError, LookupError, TypeError) as error:
                if not self._ended.is_set():
                    self._schedule_reconnect(error)
                continue
            # Nothing is awaited from here on: if the iteration is cancelled, no message is lost.
            self.state, self._silent_at = replace(self.state, last_message_at=time.time()), 0.0
            if not self._ended.is_set() and ("prev_seq" not in message or self._is_new(message)):
                self._handle(message, event)
                return cast(Message, message)
        raise StopAsyncIteration

    async def close(self) -> None:
        """Closes the connection and ends the iteration."""
        self._ended.set()
        if self.state.phase != "closed":
            self._change(phase="closed", reason="closed by this client", code=None, retry_in_ms=None)
        socket, self._socket = self._socket, None
        if socket:
            await socket.close()

    async def subscribe(self, **filter: Unpack[FilterOptions]) -> str:
        """Replaces the lists in force; without a list, everything is followed. Returns the ``id`` of the answers."""
        return await self._request("subscribe", filter)

    async def unsubscribe(self, **filter: Unpack[FilterOptions]) -> str:
        """Removes values from the lists in force; without a list, all races. Returns the ``id`` of the answer."""
        return await self._request("unsubscribe", filter)

    async def resync(self) -> str:
        """Requests a snapshot of each open race that is followed. Returns the ``id`` of the answers."""
        return await self._request("resync", {})

    async def _request(self, op: str, filter: FilterOptions) -> str:
        self._request_count += 1
        id = str(self._request_count)
        self._unsent.append(self._requests.setdefault(id, {"op": op, "id": id, **_to_request(filter)}))
        await self._send()
        return id

    async def _send(self) -> None:
        with suppress(ConnectionClosed):  # The requests are sent again after the reconnect.
            while self._socket and self._unsent:
                await self._socket.send(json.dumps(self._unsent.pop(0)))

    async def _pause(self) -> bool:
        """Waits until the next attempt is due. Returns False if the client was closed."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ended.wait(), self._retry_at - time.monotonic())
        if not self._ended.is_set():
            self._change(phase="connecting", retry_in_ms=None)
        return not self._ended.is_set()

    async def _connect(self) -> ClientConnection:
        attempt = self._attempt = self._attempt or asyncio.create_task(self._open())
        await asyncio.wait([attempt])
        self._attempt = None
        self._socket = None if self._ended.is_set() else attempt.result()
        return attempt.result()

    async def _open(self) -> ClientConnection:
        self._closing, self._unsent, self._silent_at = {}, list(self._requests.values()), 0.0
        socket = await _Connect(
            f"{self._url}?{urlencode(self._query | self._position)}",
            additional_headers={"X-API-Key": self.api_key} if self.api_key else None,
            open_timeout=self._silence_max,
            ping_interval=None,  # The heartbeats of the service are enough.
            close_timeout=CLOSE_SECONDS_MAX,
            logger=_transport_log,
        )
        if self._ended.is_set():
            await socket.close()
        return socket

    def _is_new(self, message: _Json) -> bool:
        """Whether a message about a race was not received before. Notes a gap."""
        of_quote = ("source", "market") if message["event"] == "quote" else ()
        key = tuple(str(message[name]) for name in ("event", "date", "venue_code", "race_number", *of_quote))
        last = 0 if message.get("snapshot") else self._last.get(key, 0)
        seq, prev_seq = message["seq"], message["prev_seq"]
        if seq <= last:
            return False
        # A race that was not followed for a while has changed unseen: no gap.
        if last > 0 and prev_seq != last and prev_seq > self._filter_seq:
            self._change(gaps=self.state.gaps + 1, last_gap=(last, message))
        self._last[key] = seq
        if len(self._last) > LAST_SEQS_MAX:
            del self._last[next(iter(self._last))]
        return True

    def _handle(self, message: _Json, event: str) -> None:
        is_complete = event == "snapshot_complete"
        self._closing = message if event == "closing" else self._closing
        self._feed = message["feed"]["state"] if "feed" in message else self._feed
        self._answer(message, event)
        # After a `subscribe` or `resync`, only its `snapshot_complete` counts.
        is_pending = any(request["op"] != "unsubscribe" for request in self._requests.values())
        counts = self._position and "recorded_at" in message and "more" not in message and not is_pending
        if is_complete or counts:
            self._position = {"since": message["seq"], "recorded_at": message["recorded_at"], "epoch": self._epoch}
            self.state, self._failures = replace(self.state, seq=message["seq"]), 0
        if event == "resync" or (event == "welcome" and not message.get("recovered")):
            # Earlier messages no longer hold; snapshots follow.
            self._epoch, self._position, self._filter_seq = message["epoch"], {}, 0
            self._last.clear()
            self._change(phase="connecting", reason=message.get("reason", ""), seq=None)
        if event == "welcome":
            self._set_in_force(message)
            self._change(recovered=message.get("recovered"), reason=message.get("reason", ""))
        if is_complete or (event == "heartbeat" and self.state.phase != "connecting"):
            self._change(phase=self._feed, reason="", code=None)

    def _answer(self, message: _Json, event: str) -> None:
        id, op = str(message.get("id")), message.get("op")
        if event == "ack":
            self._acks[id] = message
            self._filter_seq = self._filter_seq if op == "resync" else message["seq"]
        if event in ("error", "snapshot_complete") or op == "unsubscribe":
            self._requests.pop(id, None)
            self._set_in_force(self._acks.pop(id, {}))

    def _set_in_force(self, values: _Json) -> None:
        """Takes the values with which to connect again."""
        if values:
            self._silence_max = SILENT_HEARTBEATS_MAX * values["heartbeat_ms"] / 1000
            self._query = _to_query(values | values["filter"])
            # The path may name one race. The values in force name it too, and may have changed since.
            self._url = re.sub("(/live/odds)/.*", r"\1", self._url)

    def _schedule_reconnect(self, error: Exception) -> None:
        if self._socket:
            self._socket.transport.abort()
        self._socket = None
        reason, code, wait_ms = _explain(error)
        values = {"reason": self._closing.get("reason", reason), "code": self._closing.get("code", code)}
        after = self._closing.get("retry_after_ms")
        if after == 0 or values["code"] in FINAL_CODES or isinstance(error, InvalidURI):
            self._change(phase="closed", retry_in_ms=None, **values)
            raise LiveOddsClosed(values["reason"], values["code"]) from None
        pause_max = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2**self._failures)
        retry_in_ms = round(wait_ms + random.uniform(0, pause_max) if after is None else after)
        self._failures, self._retry_at = self._failures + 1, time.monotonic() + retry_in_ms / 1000
        self._change(phase="waiting", retry_in_ms=retry_in_ms, **values)

    def _change(self, **values: Any) -> None:
        before, self.state = self.state, replace(self.state, **values)
        if self.on_state and replace(before, seq=self.state.seq) != self.state:
            try:
                self.on_state(self.state)
            except Exception:  # It must not cost a message.
                logging.getLogger("railbird").exception("on_state failed")


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception:
        return exc  # The key is for this address only.


def _explain(error: Exception) -> tuple[str, int | None, int]:
    """The reason, the close code or HTTP status, and the milliseconds for which the service asks."""
    if isinstance(error, InvalidStatus):
        status, after = error.response.status_code, error.response.headers.get("Retry-After", "")
        reason = f"HTTP {status}"
        with suppress(ValueError, LookupError, TypeError):
            reason = str(json.loads(error.response.body)["message"])
        return reason, status, 1000 * int(after) if after.isdecimal() else 0
    if isinstance(error, ConnectionClosed):
        code, reason = (error.rcvd.code, error.rcvd.reason) if error.rcvd else (None, "")
        return reason or "the connection was lost", code, 0
    if isinstance(error, ValueError | LookupError | TypeError):
        return "a message of another protocol", None, 0
    is_silent = isinstance(error, asyncio.TimeoutError) and not error.args
    return "no heartbeat" if is_silent else f"no connection: {error}", None, 0


def _to_request(filter: FilterOptions, known: Sequence[str] = tuple(FilterOptions.__annotations__)) -> _Json:
    for name in filter.keys() - set(known):  # A list that nobody reads would select everything.
        raise TypeError(f"there is no option {name!r}; there are {', '.join(known)}")
    races = [{"race_number": race} if isinstance(race, int) else race for race in filter.get("races", [])]
    return {**filter, "races": races} if "races" in filter else {**filter}


def _to_query(values: _Json) -> dict[str, str]:
    names = {"dates": "date", "venues": "venue", "races": "race", "horses": "horse"}
    lists = {names.get(name, name): values[name] for name in (*names, "events", "markets") if name in values}
    if "race" in lists:
        parts = ("date", "venue", "race_number")
        lists["race"] = ["/".join(str(race[part]) for part in parts if part in race) for race in values["races"]]
    numbers = {name: str(values[name]) for name in ("conflate_ms", "heartbeat_ms") if name in values}
    return numbers | {name: ",".join(items) or "none" for name, items in lists.items()}
