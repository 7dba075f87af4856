"""How a handle shows itself in a notebook, and how it is awaited."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator
from html import escape
from typing import TYPE_CHECKING, Any, Self

from ridgeline.measure.answers.application import OverviewAnswer, SentenceAnswer
from ridgeline.measure.answers.windows import WindowSummaryAnswer
from ridgeline.measure.events import ApplicationEnded, RunEvent, WindowCommitted
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.times import step_owner
from ridgeline.measure.wording.units import milliseconds
from ridgeline.observe.watch import Watch
from ridgeline.plan.execution import Plan
from ridgeline.streams.preview import html_table

if TYPE_CHECKING:
    from ridgeline.engine.driver.run.options import Outcome

_LOOK_SECONDS = 0.5
_FEW = 16


class Showing(ABC):
    """The forms of a handle for notebooks and for asyncio."""

    name: str

    @property
    @abstractmethod
    def watch(self) -> Watch:
        """The figures as plain data."""

    @property
    @abstractmethod
    def url(self) -> str | None:
        """Where its web service answers."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """True until the run has ended."""

    @abstractmethod
    def wait(self, timeout: float | None = None) -> Outcome:
        """Block until the application has ended."""

    @abstractmethod
    def _present_plan(self) -> Plan:
        """The plan that runs."""

    def _repr_html_(self) -> str:
        """The sentence, and the operators with the critical path."""
        return handle_html(self.name, self.url, self._present_plan(), self.watch)

    def __await__(self) -> Generator[Any, None, Outcome]:
        """`await handle`: its outcome, once it has ended. Raises as `wait`; cancelled, the run continues."""
        return self._ended().__await__()

    async def _ended(self) -> Outcome:
        async with _News(self.watch) as news:
            while self.is_running:
                await news.wait(_LOOK_SECONDS)
        return self.wait()

    async def __aiter__(self) -> AsyncIterator[WindowSummaryAnswer]:
        """`async for window in handle`: the summary of each window committed from now on, until the end.

        Who is slower than 1,000 windows misses those that are not kept. Raises as `wait` at the end.
        """
        async with _News(self.watch) as news:
            newest: dict[str, int] = {}
            _fresh(self.watch, newest)
            over = False
            while not over:
                over = not self.is_running
                for row in _fresh(self.watch, newest):
                    yield row
                if not over:
                    await news.wait(_LOOK_SECONDS)
        self.wait()


def _fresh(watch: Watch, newest: dict[str, int]) -> list[WindowSummaryAnswer]:
    """The windows above the newest one of each region, which are the newest ones from then on.

    A few are read first. If these are all fresh, or of several regions, all that are kept are read: there may
    be more.
    """
    fresh: list[WindowSummaryAnswer] = []
    for limit in (_FEW, None):
        rows = watch.windows(limit)
        fresh = [row for row in rows if row["windowId"] > newest.get(row.get("region", ""), -1)]
        if len(fresh) < len(rows) and "region" not in rows[0]:
            break
    newest.update((row.get("region", ""), row["windowId"]) for row in fresh)
    return fresh


class _News:
    """Wakes a task of asyncio with each committed window, and at the end of the run."""

    def __init__(self, watch: Watch) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._unsubscribe = watch.subscribe(self._observe)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
        self._unsubscribe()

    def _observe(self, event: RunEvent) -> None:
        if isinstance(event, (WindowCommitted, ApplicationEnded)):
            with self._lock:
                if not self._closed and not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> None:
        """Wait for a window or the end; at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()


_STATES = {
    "starting": "#868e96",
    "ok": "#2f9e44",
    "behind": "#f08c00",
    "stuck": "#e03131",
    "failed": "#e03131",
    "ended": "#868e96",
}


def handle_html(name: str, url: str | None, plan: Plan, watch: Watch) -> str:
    """The view of an application in a notebook: its name, the sentence, its operators. It has no secrets."""
    overview = watch.overview()
    sentence = sentence_of(overview)
    colour = _STATES[sentence["state"]]
    link = f' · <a href="{escape(url)}" target="_blank" rel="noopener">{escape(url)}</a>' if url else ""
    dot = f'<span style="color:{colour}">●</span>'
    head = f"<div>{dot} <b>{escape(name)}</b>{link}</div><div>{_sentence_html(sentence)}</div>"
    return f'<div class="ridgeline">{head}{_operators_html(plan, overview)}</div>'


def _operators_html(plan: Plan, overview: OverviewAnswer) -> str:
    """The logical operators with their latencies in the last window, and who is on the critical path."""
    latencies = {row["operator"]: row["latencyMs"] for row in overview["latency"]["logical"]}
    path = {step_owner(overview, step) for step in overview["criticalPath"]["path"]}
    rows = [
        [
            one.name,
            str(len(one.divided)),
            "" if latencies.get(one.name) is None else milliseconds(latencies[one.name]),
            "yes" if one.name in path else "",
        ]
        for one in plan.logical.operators
    ]
    return html_table(["operator", "partitions", "latency", "on the critical path"], rows)


def _sentence_html(sentence: SentenceAnswer) -> str:
    return "".join(
        escape(part["text"]) if part["about"] is None else f"<b>{escape(part['text'])}</b>"
        for part in sentence["parts"]
    )
