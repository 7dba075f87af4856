"""The live stream of the page: the whole state once, then what has changed, one rendering for all."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from ridgeline.api.clock import SystemClock
from ridgeline.measure.events import (
    ApplicationChanged,
    ApplicationEnded,
    ApplicationPlanned,
    RunEvent,
    WindowCommitted,
)
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.service.http import apex
from ridgeline.service.http.apex import KeptPlan
from ridgeline.service.http.bodies import to_json
from ridgeline.service.http.connections import most_connections

if TYPE_CHECKING:
    from ridgeline.observe.watch import Watch
    from ridgeline.plan.execution import Plan
    from ridgeline.service.http.answers import LogicalPlanAnswer


class PageState:
    """Makes the state of the page: `plan`, `sentence`, and `overview`, where rows are found by id or name.

    A plan is made once for as long as it does not change.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._planned: tuple[Plan | KeptPlan | None, object, dict[str, Any]] = (None, None, {})

    def of(self, plan: Plan | KeptPlan) -> dict[str, Any]:
        """The state as of now."""
        overview = self._watch.overview()
        version = overview["info"].get("planVersion")
        if self._planned[0] is not plan or self._planned[1] != version:
            queues = [
                {"name": row["stream"], "from": row["writer"], "to": row["reader"]}
                for row in overview["progress"].get("queues", [])
            ]
            self._planned = plan, version, shown_plan(*apex.named_plan(plan), self._watch.streams(), queues)
        latency, progress = overview["latency"], overview["progress"]
        return {
            "plan": self._planned[2],
            "sentence": sentence_of(overview),
            "overview": {
                **overview,
                "operators": _by(overview["operators"], "id"),
                "latency": {
                    **latency,
                    "operators": _by(latency["operators"], "id"),
                    "logical": _by(latency["logical"], "operator"),
                },
                "progress": {
                    **progress,
                    "operators": _by(progress["operators"], "id"),
                    "sources": _by(progress["sources"], "operator"),
                },
            },
        }


def shown_plan(
    application: str,
    logical: LogicalPlanAnswer,
    physical: Sequence[Mapping[str, Any]],
    queues: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """A plan as views draw it, without values of properties and attributes; `hash` is of all of it."""
    kept = ("name", "type", "connected")
    shown = {
        "application": application,
        "operators": [
            {
                "name": operator["name"],
                "module": operator["module"],
                "class": operator["class"],
                "ports": [{name: port[name] for name in kept} for port in operator["ports"]],  # type: ignore[literal-required]
            }
            for operator in logical["operators"]
        ],
        "streams": [
            {name: value for name, value in stream.items() if name != "schema"}
            for stream in logical["streams"]
        ],
        "modules": [
            {name: value for name, value in module.items() if name != "properties"}
            for module in logical["modules"]
        ],
        "physical": physical,
        "queues": queues,
    }
    return {**shown, "hash": hashlib.sha256(to_json(shown)).hexdigest()[:16]}


def _by(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    return {str(row[name]): row for row in rows}


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7396) that makes `after` of `before`; lists are replaced as a whole.

    A member that is null in `after` is removed: to who reads it, both are the same.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 2, "d": 4}, "e": None})
    {'a': None, 'b': {'d': 4}}
    """
    patch: dict[str, Any] = dict.fromkeys(name for name in before if name not in after)
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):  # as all answers are: Mapping takes long to ask
            if old is not value and (inner := merge_patch(old, value)):
                patch[name] = inner
        elif value != old or type(value) is not type(old):
            patch[name] = value
    return {name: value for name, value in patch.items() if value is not None or before.get(name) is not None}


EVERY_MS = 250
"""Milliseconds between two events, if a client does not say."""
IDLE_SECONDS = 1.0
"""Without a new window, figures that move by themselves are sent this often."""
KEEP_ALIVE_SECONDS = 2.0
"""A page takes its line for cut after 5 s without a word, and rendering a large plan rests longer."""
WINDOWS = 1000
"""Windows that the page has."""
_KEPT = 16
"""Differences that are kept for clients that are slower than the stream."""
_SHARE = 0.05
"""Of one core, how much rendering may take: it rests the longer, the longer it took."""
_NEW = 16
_WAKING = (WindowCommitted, ApplicationEnded, ApplicationPlanned, ApplicationChanged)
"""The events that there is something new to show after."""
_OVER = {"FINISHED", "STOPPED", "FAILED"}
MOST_CLIENTS = 100
"""Clients at a time, where the service holds twice as many connections."""


def most_clients() -> int:
    """How many clients may read events at a time: half of the connections at most."""
    return min(MOST_CLIENTS, most_connections() // 2)


class LiveStream:
    """The streams of one application for all pages that are open.

    The application's thread only sets flags, and nothing is rendered where no page is open. Clients that want
    an event as often share a `Feed`. A client holds nothing but the number of the last event that it has.
    """

    def __init__(self, watch: Watch, plan: Callable[[], Plan | KeptPlan]) -> None:
        self.closed = False
        self.ended = False
        self.clients = 0
        """How many clients have a place."""
        self.watch = watch
        self.plan = plan
        self._lock = threading.Lock()
        self._feeds: dict[int, Feed] = {}
        self._unsubscribe = watch.subscribe(self._observe, _WAKING)
        self.ended |= watch.info()["state"] in _OVER  # before a client could listen

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
        """End all streams, after the last state if the application has ended. From any thread."""
        self._unsubscribe()
        self.closed = True
        self._wake()

    def rest(self, took: float) -> float:
        """The seconds that a feed rests after a rendering: all feeds together have `_SHARE` of a core."""
        return took * (max(1, len(self._feeds)) / _SHARE - 1)

    async def events(self, every: int = EVERY_MS) -> AsyncIterator[bytes]:
        """The server-sent events for a client, as bytes; at most one in `every` milliseconds."""
        with self._feed(every) as feed:
            have = 0
            while self.ended or not self.closed:  # who is there at the end gets it
                turn = feed.turn
                if feed.version != have:
                    have, chunk = feed.since(have) or await run_in_threadpool(feed.whole, feed.newest)
                    yield chunk
                elif feed.failed:
                    return
                elif feed.over:
                    yield b"event: end\ndata: {}\n\n"
                    return
                else:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(turn.wait(), KEEP_ALIVE_SECONDS)
                    if not turn.is_set():
                        yield b": keep-alive\n\n"

    @contextlib.contextmanager
    def _feed(self, every: int) -> Any:
        """The feed of all clients that want an event as often; it ends with the last of them."""
        feed = self._feeds.get(every)
        if feed is None:
            feed = Feed(self, every / 1000)
            with self._lock:
                self._feeds[every] = feed
        feed.clients += 1
        try:
            yield feed
        finally:
            feed.clients -= 1
            if not feed.clients:
                with self._lock:
                    del self._feeds[every]
                feed.task.cancel()

    def _observe(self, event: RunEvent) -> None:
        """In the application's thread: nothing here waits for a client."""
        if isinstance(event, ApplicationEnded):
            self.ended = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            for feed in self._feeds.values():
                with contextlib.suppress(RuntimeError):  # its loop is closed
                    feed.loop.call_soon_threadsafe(feed.wake)


class Shown(NamedTuple):
    """A state of the page, and its windows. It is not changed any more."""

    version: int
    state: dict[str, Any]
    windows: Sequence[Any]


class Feed:
    """The states of an application, one after the other; of one event loop.

    `newest` is the last one, `version` its number. `turn` is set once there is a newer one, and replaced by
    another.
    """

    def __init__(self, stream: LiveStream, every: float) -> None:
        self.clients = 0
        self.newest = Shown(0, {}, [])
        self.over = False
        self.failed = False
        self.turn = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._stream = stream
        self._every = every
        self._news = asyncio.Event()
        self._last = asyncio.Event()
        self._maker = PageState(stream.watch)
        self._patches: deque[bytes] = deque(maxlen=_KEPT)
        self._whole: tuple[int, bytes] = (0, b"")
        self._rendering = threading.Lock()
        self._clock = SystemClock()
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(self._done)

    @property
    def version(self) -> int:
        """The number of the newest state; 0 before the first."""
        return self.newest.version

    def wake(self) -> None:
        """Something has happened, or the stream is closed."""
        self._news.set()
        if self._stream.ended:
            self._last.set()
        if self._stream.closed:
            self._turn()

    def since(self, have: int) -> tuple[int, bytes] | None:
        """The newest version, and the differences that lead to it from `have`; None if they are not kept.

        Of the event loop: to hand this to a thread, for each client, took longer than all that is in it.
        """
        missing = self.version - have
        if not have or missing > len(self._patches):
            return None
        return self.version, b"".join(islice(self._patches, len(self._patches) - missing, None))

    def whole(self, shown: Shown) -> tuple[int, bytes]:
        """A version, and the event with all of its state; a newer one if that is made already. Any thread."""
        with self._rendering:
            if self._whole[0] < shown.version:
                whole = to_json({**shown.state, "windows": shown.windows})
                self._whole = shown.version, b"event: whole\ndata: %b\n\n" % whole
            return self._whole

    async def _run(self) -> None:
        """Render as long as there are clients, at most once in `every` seconds, and at once at the end."""
        while True:
            self._news.clear()  # before the reading: what happens during it counts as news
            ended = self._stream.ended
            self.newest, event, took = await run_in_threadpool(self._render, self.newest)
            self._patches.append(event)
            self.over = ended
            self._turn()
            if ended:
                return
            await _waited(self._last, max(self._every, self._stream.rest(took)))
            if self._news.is_set() and not self._last.is_set():
                # Right after a commit the driver has least to do: rendering at another time slows a window.
                self._news.clear()
                await _waited(self._news, self._every)
            else:
                await _waited(self._news, IDLE_SECONDS)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failed = True  # its clients come again
        self._turn()

    def _turn(self) -> None:
        turn, self.turn = self.turn, asyncio.Event()
        turn.set()

    def _render(self, before: Shown) -> tuple[Shown, bytes, float]:
        """The next state, the difference to it as an event, and the processor seconds that both took."""
        begun = self._clock.cpu()
        state = self._maker.of(self._stream.plan())
        added, changed = self._news_of_windows(before.windows)
        patch = {"patch": merge_patch(before.state, state), "added": added}
        if changed:
            patch["changed"] = list(changed.values())
        event = b"event: delta\ndata: %b\n\n" % to_json(patch) if before.version else b""
        windows = [*before.windows, *added]
        for at, window in changed.items():
            windows[at] = window
        shown = Shown(before.version + 1, state, windows[-WINDOWS:])
        return shown, event, self._clock.cpu() - begun

    def _news_of_windows(self, windows: Sequence[Any]) -> tuple[Sequence[Any], Mapping[int, Any]]:
        """Windows that were committed since the last time, and by place those of which more is known now.

        Spark's own account of a window comes after its commit, and makes it longer.
        """
        known = {_key(window): at for at, window in enumerate(windows)}
        rows = self._stream.watch.windows(_NEW if known else None)
        if known and rows and _key(rows[0]) not in known:
            rows = self._stream.watch.windows(None)
        places = {known[_key(row)]: row for row in rows if _key(row) in known}
        changed = {at: row for at, row in places.items() if row != windows[at]}
        if len(known) == WINDOWS:  # what comes before them in time has left them already
            first = next((at for at, row in enumerate(rows) if _key(row) in known), 0)
            rows = rows[first:]
        return [row for row in rows if _key(row) not in known][-WINDOWS:], changed


async def _waited(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, for so long at most."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def _key(window: Any) -> tuple[str, int]:
    return window.get("region", ""), window["windowId"]
