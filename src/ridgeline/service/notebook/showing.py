"""How a handle shows itself in a notebook, and how it is awaited."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from ridgeline.measure.answers.windows import WindowSummaryAnswer
from ridgeline.measure.events import ApplicationEnded, RunEvent, WindowCommitted
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.service.notebook import widget
from ridgeline.service.notebook.plots import Plots
from ridgeline.service.notebook.shown import HtmlView, handle_html
from ridgeline.service.notebook.widget import Follower

if TYPE_CHECKING:
    from ridgeline.engine.driver.run.options import Outcome
    from ridgeline.observe.answers import Answers
    from ridgeline.plan.execution import Plan

_LOOK_SECONDS = 0.5
_FEW = 16


class Showing(ABC):
    """The forms of a handle for notebooks and for asyncio."""

    name: str

    @property
    @abstractmethod
    def watch(self) -> Answers:
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

    @property
    def plot(self) -> Plots:
        """Pictures: `plot.latency()`, `plot.ages()`, `plot.windows()`, as SVG, without a library."""
        return Plots(self.watch)

    @property
    def widget(self) -> Any:
        """The view of a cell as a widget of `anywidget`, which moves until the run has ended.

        It is the same one until it is closed. Raises RidgelineError without the extra `ridgeline[notebook]`.
        """
        return self._follower.newest()

    @cached_property
    def _follower(self) -> Follower:
        from ridgeline.service.notebook.figures import CellFigures

        return Follower(CellFigures(self, self._present_plan))

    def _display_(self) -> Any:
        """The view of a cell in marimo, which ends a widget with the cell that made it: each has its own."""
        return self._follower.new() if widget.is_installed() else HtmlView(self._repr_html_())

    def _repr_html_(self) -> str:
        """The sentence, and the DAG with the critical path."""
        return handle_html(self.name, self.url, self._present_plan(), self.watch)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The view of a cell: the widget where it is installed, the same as HTML, and a text of two lines."""
        bundle: dict[str, Any] = {}
        if widget.is_installed():
            shown = self.widget._repr_mimebundle_()
            bundle.update(shown[0] if isinstance(shown, tuple) else shown)
        text = f"{self!r}\n{sentence_of(self.watch.overview())['text']}"
        bundle |= {"text/html": self._repr_html_(), "text/plain": text}
        kept = bundle if include is None else {kind: bundle[kind] for kind in bundle if kind in include}
        return {kind: data for kind, data in kept.items() if kind not in (exclude or ())}

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


def _fresh(watch: Answers, newest: dict[str, int]) -> list[WindowSummaryAnswer]:
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

    def __init__(self, watch: Answers) -> None:
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
