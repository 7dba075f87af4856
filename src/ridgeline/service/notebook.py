"""How a handle shows itself in a notebook, its plots, and how it is awaited."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Self

from ridgeline.measure.answers.application import OverviewAnswer, SentenceAnswer
from ridgeline.measure.answers.windows import WindowSummaryAnswer
from ridgeline.measure.drawing import COLOURS, Picture, dag_svg, line_chart, named_bars, stacked_bars
from ridgeline.measure.events import ApplicationEnded, RunEvent, WindowCommitted
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.times import STEPS, place_order, step_owner
from ridgeline.measure.wording.units import milliseconds
from ridgeline.observe.answers import Answers
from ridgeline.plan.execution import Plan

if TYPE_CHECKING:
    from ridgeline.engine.driver.run.options import Outcome

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

    def _repr_html_(self) -> str:
        """The sentence, and the DAG with the critical path."""
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


_STATES = {
    "starting": "#868e96",
    "ok": "#2f9e44",
    "behind": "#f08c00",
    "stuck": "#e03131",
    "failed": "#e03131",
    "ended": "#868e96",
}


def handle_html(name: str, url: str | None, plan: Plan, watch: Answers) -> str:
    """The view of an application in a notebook: its name, the sentence, the DAG. Secrets are not in it."""
    overview = watch.overview()
    sentence = sentence_of(overview)
    colour = _STATES[sentence["state"]]
    link = f' · <a href="{escape(url)}" target="_blank" rel="noopener">{escape(url)}</a>' if url else ""
    dot = f'<span style="color:{colour}">●</span>'
    head = f"<div>{dot} <b>{escape(name)}</b>{link}</div><div>{_sentence_html(sentence)}</div>"
    return f'<div class="ridgeline">{head}{plan_svg(plan, overview)}</div>'


def plan_svg(plan: Plan, overview: OverviewAnswer) -> str:
    """The logical operators with their latencies in the last window, and the critical path."""
    logical = plan.logical
    latencies: dict[str, float | None] = {
        row["operator"]: row["latencyMs"] for row in overview["latency"]["logical"]
    }
    nodes = {one.name: _second(len(one.divided), latencies.get(one.name)) for one in logical.operators}
    edges = {
        (stream.source.operator, sink.operator): None for stream in logical.streams for sink in stream.sinks
    }
    known = [pair for pair in edges if pair[0] in nodes and pair[1] in nodes]
    path = {step_owner(overview, step) for step in overview["criticalPath"]["path"]}
    return dag_svg(nodes, known, path)


def _second(partitions: int, latency: float | None) -> str:
    parts = [] if latency is None else [milliseconds(latency)]
    if partitions > 1:
        parts.append(f"{partitions} partitions")
    return " · ".join(parts)


def _sentence_html(sentence: SentenceAnswer) -> str:
    return "".join(
        escape(part["text"]) if part["about"] is None else f"<b>{escape(part['text'])}</b>"
        for part in sentence["parts"]
    )


_SHOWN = 7


class Plots:
    """The plots of a handle: each method returns a picture that a notebook shows.

    Example:
        >>> from ridgeline.observe.watch import Watch
        >>> Plots(Watch(lambda: 0.0)).windows().svg.startswith("<svg")
        True
    """

    def __init__(self, watch: Answers) -> None:
        self._watch = watch

    def latency(self, windows: int = 100) -> Picture:
        """The latency of the slowest operators over the last windows, and that of the windows.

        Of several regions the windows are in the order of their commits. A line keeps its height until the
        next window of its region.
        """
        rows = self._watch.windows(windows)
        lines: dict[str, _Line] = {}
        for row in rows:
            region = row.get("region", "")
            title = f"window of {region}" if region else "window"
            lines.setdefault(title, _Line(region)).values[row["windowId"]] = row["latencyMs"]
        operators: dict[str, _Line] = {}
        for answer in self._watch.latencies(windows):
            for one in answer["logical"]:
                line = operators.setdefault(one["operator"], _Line(one.get("region", "")))
                line.values[answer["windowId"]] = one["latencyMs"]
        slowest = sorted(operators, key=lambda name: -operators[name].sum)
        lines |= {name: operators[name] for name in slowest[: max(1, len(COLOURS) - len(lines))]}
        chart = {name: line.over(rows) for name, line in lines.items()}
        return Picture(line_chart("latency", [row["windowId"] for row in rows], chart))

    def windows(self, windows: int = 100) -> Picture:
        """The phases of the last windows, a bar each."""
        rows = self._watch.windows(windows)
        sums: dict[str, float] = {}
        for row in rows:
            for what, ms in row["phases"].items():
                sums[what] = sums.get(what, 0.0) + ms
        largest = sorted(sums, key=lambda what: -sums[what])[:_SHOWN]
        found = {STEPS.get(what, what): [row["phases"].get(what, 0.0) for row in rows] for what in largest}
        rest = [sum(ms for what, ms in row["phases"].items() if what not in largest) for row in rows]
        if any(rest):
            found["the rest"] = rest
        return Picture(stacked_bars("time of windows", [row["windowId"] for row in rows], found))

    def ages(self) -> Picture:
        """The 99th percentile of the age of records in the last minute, by operator and place."""
        rows = [row for row in self._watch.record_age()["operators"] if row["p99Ms"] is not None]
        rows.sort(key=lambda row: place_order(row["at"]))
        found = {f"{row['operator']}, {row['at']}": row["p99Ms"] or 0.0 for row in rows}
        return Picture(named_bars("record age, 99th percentile of the last minute", found))


@dataclass(frozen=True, slots=True)
class _Line:
    """A latency in milliseconds by window, of one region."""

    region: str
    values: dict[int | None, float | None] = field(default_factory=dict)

    @property
    def sum(self) -> float:
        return sum(value or 0.0 for value in self.values.values())

    def over(self, rows: Sequence[WindowSummaryAnswer]) -> list[float | None]:
        """A value for each window; at those of other regions that of the last window of its own."""
        found: list[float | None] = []
        for row in rows:
            own = row.get("region", "") == self.region
            found.append(self.values.get(row["windowId"]) if own else found[-1] if found else None)
        return found
