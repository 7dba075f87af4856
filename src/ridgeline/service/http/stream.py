"""Server-sent events: the newest complete overview first, then one a window, as fast as a client reads."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.events import (
    ApplicationChanged,
    ApplicationEnded,
    ApplicationPlanned,
    RunEvent,
    WindowCommitted,
)
from ridgeline.service.http.bodies import to_json
from ridgeline.service.http.connections import most_connections

if TYPE_CHECKING:
    from ridgeline.observe.answers import Answers

KEEP_ALIVE_SECONDS = 15.0
_NEWS = (WindowCommitted, ApplicationEnded, ApplicationPlanned, ApplicationChanged)
"""The events that there is a new overview after."""
_OVER = {"FINISHED", "STOPPED", "FAILED"}
MOST_CLIENTS = 100
"""Clients at a time, where the service holds twice as many connections; each holds at most one overview."""


def most_clients() -> int:
    """How many clients may read events at a time: half of the connections at most."""
    return min(MOST_CLIENTS, most_connections() // 2)


class OverviewStream:
    """Overviews of one application for all clients of its service.

    The application's thread only sets flags. A client that is slower than the windows gets the newest
    overview when it is ready for one, and never those in between. Overviews are read under the lock of the
    watch, so none mixes two windows.
    """

    def __init__(self, watch: Answers, keep_alive_seconds: float = KEEP_ALIVE_SECONDS) -> None:
        self.ended = False
        self.closed = False
        self._watch = watch
        self._keep_alive = keep_alive_seconds
        self._lock = threading.Lock()
        self._clients: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self.clients = 0
        """How many clients have a place."""
        self._version = 0
        self._rendering = threading.Lock()
        self._rendered: tuple[int, int | None, bytes] = (-1, None, b"")
        self._unsubscribe = watch.subscribe(self._observe, _NEWS)
        self.ended |= watch.info()["state"] in _OVER  # before anybody could listen

    @contextlib.contextmanager
    def place(self) -> Iterator[bool]:
        """A place for one client, as long as the block runs. False if there is none; of one event loop."""
        free = self.clients < most_clients()
        self.clients += free
        try:
            yield free
        finally:
            self.clients -= free

    def close(self) -> None:
        """End all streams and listen no more. From any thread."""
        self._unsubscribe()
        self.closed = True
        self._wake()

    async def events(self, last_seen: int | None = None) -> AsyncIterator[bytes]:
        """The server-sent events for a client, as bytes.

        `last_seen`: the window of the last overview that it has already.
        """
        with self._client() as news:
            while True:
                news.clear()  # before the reading: a window that is committed during it counts as news
                ended = self.ended
                window_id, data = await run_in_threadpool(self._newest)
                if window_id is not None and window_id != last_seen:
                    yield b"id: %d\nevent: window\ndata: %b\n\n" % (window_id, data)
                    last_seen = window_id
                if ended:
                    state = (await run_in_threadpool(self._watch.info))["state"]
                    yield b"event: end\ndata: %b\n\n" % to_json({"state": state, "windowId": last_seen})
                while not self.closed and not ended and not news.is_set():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), self._keep_alive)
                    if not news.is_set():
                        yield b": keep-alive\n\n"
                if ended or (self.closed and not self.ended):
                    return

    @contextlib.contextmanager
    def _client(self) -> Iterator[asyncio.Event]:
        news = asyncio.Event()
        with self._lock:
            self._clients[news] = asyncio.get_running_loop()
        try:
            yield news
        finally:
            with self._lock:
                del self._clients[news]

    def _observe(self, event: RunEvent) -> None:
        """In the application's thread: nothing here waits for a client."""
        if isinstance(event, WindowCommitted):
            self._version += 1
            self._wake()
        elif isinstance(event, ApplicationEnded):
            self._version += 1
            self.ended = True
            self._wake()
        elif isinstance(event, ApplicationPlanned | ApplicationChanged):
            self._version += 1  # for who comes now; others get it with the next window

    def _wake(self) -> None:
        with self._lock:
            for news, loop in self._clients.items():
                with contextlib.suppress(RuntimeError):  # its loop is closed
                    loop.call_soon_threadsafe(news.set)

    def _newest(self) -> tuple[int | None, bytes]:
        """The newest overview's window and JSON, made once for all clients.

        The window is None before the first one of this run is committed.
        """
        with self._rendering:
            version = self._version  # before the reading: a later event makes it be done again
            if self._rendered[0] != version:
                overview = self._watch.overview()
                self._rendered = version, _number(overview), to_json(overview)
            return self._rendered[1:]


def _number(overview: OverviewAnswer) -> int | None:
    """The window of an overview; of several regions, how many they have committed. None before the first."""
    info = overview["info"]
    count = info["stats"]["windowsCommitted"] if "id" in info else 0
    if not count:
        return None
    return count if "queues" in overview["progress"] else overview["windowId"]
