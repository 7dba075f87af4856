"""Cost of pages that are open: how long windows take with ten of them, and with none, in turn in one run.

One application of eight operators and four containers runs with windows of 25 ms. Every 4 s ten clients of
the live stream come or go, as those of ten browsers would. So what else the machine does meanwhile falls on
both sides alike. The first second after a turn is left out, in which ten clients connect at once, or leave,
and each gets the whole state: it is noted apart.

Browsers run on other machines. So the clients have a process of their own that gets only what the windows
leave of the processors (`SCHED_IDLE`). All that the application does for them counts: states, differences,
their bytes, and the sockets. A client that would not keep up would get fewer events, at less cost: how many
each has got is noted beside how many there are at most.

The bounds of a ratio are the 2.5th and 97.5th percentile of 2,000 draws of pairs of turns.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import selectors
import socket
from multiprocessing.connection import Connection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from benchmarks.frame import Benchmark, Figures, Goal, Round
from benchmarks.spark import MASTER
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State

PAGES = 10
WINDOW_SECONDS = 0.025
EVERY_MS = 250
"""Milliseconds between two events of a page."""
TURN = 160
"""Windows between two turns."""
LEFT_OUT = 40
"""Windows after a turn: clients connect, and get all there is once."""
TURNS = 54
DRAWS = 2_000
ROWS = 500
KEYS = 100
MOST = 1.03


class Row(NamedTuple):
    key: int
    value: int


class Source(InputOperator):
    """The same rows in each window."""

    output = OutputPort(Row)
    count = State(0)

    def emit_tuples(self) -> None:
        """A window's rows."""
        for number in range(ROWS):
            self.output.emit(Row(number % KEYS, number))
        self.count += ROWS


class Sum(Operator):
    """A running sum of each key."""

    input = InputPort(Row, key="key")
    output = OutputPort(Row)
    sums = KeyedState(int, key=int, default=0)

    @input.process
    def add(self, row: Row) -> None:
        """Add one row."""
        self.sums[row.key] += row.value
        self.output.emit(Row(row.key, self.sums[row.key]))


class End(Operator):
    """Takes the sums."""

    input = InputPort(Row)

    @input.process
    def take(self, row: Row) -> None:
        """Look at one row."""


def application() -> Application:
    """A source, two sums in two partitions each, and two ends."""
    app = Application("pages", window=f"{WINDOW_SECONDS}s")
    source = app.add_operator("source", Source())
    first = app.add_operator("first", Sum(), partitions=2)
    second = app.add_operator("second", Sum(), partitions=2)
    end, other = app.add_operator("end", End()), app.add_operator("other", End())
    app.add_stream("rows", source.output, first.input)
    app.add_stream("sums", first.output, second.input, other.input)
    app.add_stream("sums-of-sums", second.output, end.input)
    return app


def browse(orders: Connection) -> None:
    """Keep as many live streams open as the last order says: `(url, pages)`; None: end.

    At the end it answers with the bytes and the events that all of them have got.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    selector, taken, events = selectors.DefaultSelector(), 0, 0
    streams: list[socket.socket] = []
    while True:
        if orders.poll(0 if streams else None):
            order = orders.recv()
            if order is None:
                orders.send((taken, events))
                return
            url, pages = order
            while len(streams) > pages:
                selector.unregister(streams[-1])
                streams.pop().close()
            while len(streams) < pages:
                streams.append(_open(url))
                selector.register(streams[-1], selectors.EVENT_READ)
        for key, _ in selector.select(0.2) if streams else ():
            found = key.fileobj.recv(1_000_000)  # type: ignore[union-attr]
            taken, events = taken + len(found), events + found.count(b"event: ")


def _open(url: str) -> socket.socket:
    place = urlsplit(url)
    stream = socket.create_connection((place.hostname, place.port))
    stream.sendall(
        f"GET /ws/v2/stram/live?every={EVERY_MS} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
    )
    return stream


@contextlib.contextmanager
def browsing() -> Any:
    """The process of the pages; yields the end to which orders are sent."""
    spawn = multiprocessing.get_context("spawn")
    orders, theirs = spawn.Pipe()
    process = spawn.Process(target=browse, args=(theirs,), daemon=True)
    process.start()
    try:
        yield orders
    finally:
        process.terminate()
        process.join()


def turns(of_round: Round) -> Figures:
    """Latencies of windows, with pages and without, in turn."""
    from ridgeline.engine.driver.run.options import Options
    from ridgeline.measure.events import RunEvent, WindowCommitted
    from ridgeline.plan import plan_application
    from ridgeline.service.measured import run_measured
    from ridgeline.service.options import ServiceOptions

    count = 4 if of_round.quick else TURNS
    found: list[list[float]] = [[] for _ in range(count + 1)]
    first: list[list[float]] = [[], []]
    seen = 0
    address: list[str] = []
    last: list[Any] = []

    with browsing() as orders:

        def observe(event: RunEvent) -> None:
            """Note a window, and let pages come or go after every `TURN` of them."""
            nonlocal seen
            if not isinstance(event, WindowCommitted):
                return
            turn, place = divmod(seen, TURN)
            seconds = last[0].windows(1)[-1]["latencyMs"] / 1000
            (found[turn] if place >= LEFT_OUT else first[turn % 2]).append(seconds)
            seen += 1
            if place == TURN - 1:
                orders.send((address[0], 0 if turn % 2 else PAGES))

        def started(_run: Any, watch: Any, web: Any) -> None:
            address.append(web.url)
            last.append(watch)

        plan = plan_application(application(), {}, {})
        options = Options(MASTER, windows=TURN * (count + 1))
        run_measured(plan, options, ServiceOptions(port=0), observe=observe, started=started)
        orders.send((address[0], 0))
        orders.send(None)
        taken, events = orders.recv()
    due = TURN * WINDOW_SECONDS * 1000 / EVERY_MS * count / 2
    each = f"{events / PAGES:.0f} events each, of {due:.0f} at most"
    of_round.note(f"{PAGES} pages have taken {taken / 1e6:.1f} MB in {each}")
    for turn, what in enumerate(("leave", "come")):
        p50, p99 = np.percentile(first[turn], (50, 99)) * 1000
        of_round.note(f"the second in which they {what}: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    return _compared(found[1:], of_round)


def _compared(found: list[list[float]], of_round: Round) -> Figures:
    """Percentiles of turns with pages, the first of each two, and without. The bounds of ratios are noted."""
    with_pages, without = ([np.array(turn) for turn in found[first::2]] for first in (0, 1))
    pairs = min(len(with_pages), len(without))
    draw = np.random.default_rng(7)
    figures: dict[str, list[float]] = {}
    for percent in (50, 99):

        def of(side: list[Any], chosen: Any, percent: int = percent) -> float:
            return float(np.percentile(np.concatenate([side[pair] for pair in chosen]), percent))

        ours, theirs = of(with_pages, range(pairs)), of(without, range(pairs))
        figures[f"{PAGES} pages: p{percent} seconds"] = [ours]
        figures[f"none: p{percent} seconds"] = [theirs]
        draws = [draw.integers(0, pairs, pairs) for _ in range(DRAWS)]
        drawn = [of(with_pages, chosen) / of(without, chosen) for chosen in draws]
        low, high = np.percentile(drawn, (2.5, 97.5))
        of_round.note(f"p{percent}: {ours / theirs:.3f} times that without pages, {low:.3f} to {high:.3f}")
    of_round.note(f"{sum(map(len, with_pages))} windows with pages, {sum(map(len, without))} without")
    return figures


BENCHMARKS = (
    Benchmark(
        name="pages",
        title=f"what open pages cost: windows with {PAGES} clients of the live stream and with none, in turn",
        contestants={"ours": turns},
        goals=[
            Goal(
                figure=f"{PAGES} pages: {figure} seconds",
                against="ours",
                against_figure=f"none: {figure} seconds",
                at_most=MOST,
            )
            for figure in ("p50", "p99")
        ],
        budget_seconds=290,
        part_of_all=False,
    ),
)
