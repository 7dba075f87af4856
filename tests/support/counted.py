"""An application of all that counts windows, and what it puts out: told by plain loops over the windows.

Each result is (name of the operator, row). Rows of one window are in no order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, ListState, Operator, OutputPort, State, Unifier
from ridgeline.operators import ConsolidatorKeyVal, RangeKeyVal, SimpleMovingAverage, SumKeyVal, TopN
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput

WINDOWS = 17
STOPPED = 11
"""So many windows have run before the run is rewound."""
AVERAGED = 2
"""So many application windows `averages` looks back."""
TOLD: list[tuple[int, dict[int, int]]] = []
"""What `told` has noted: a window that is committed, and the keys that were changed by then."""
Row = tuple[object, ...]


class Pair(NamedTuple):
    key: int
    value: int


class Average(NamedTuple):
    key: int
    value: float


class Range(NamedTuple):
    key: int
    high: int
    low: int


ROWS = {"ranges": Range, "averages": Average}
"""The rows of an operator that are no pairs."""


def pairs_of(window: int) -> list[Pair]:
    """What comes in a window; nothing in some."""
    if window % 5 == 3:
        return []
    return [Pair((window + place * place) % 4, 10 * (7 * window % WINDOWS) + place) for place in range(3)]


class Kept(Operator):
    """Has states of each kind that last for an application window."""

    pairs = InputPort(Pair, key="key")
    found = OutputPort(Pair)
    sums = KeyedState(int, key=int, default=0, scope="window")
    most = State(-1, scope="window")
    values = ListState(int, scope="window")

    @pairs.process
    def take(self, pair: Pair) -> None:
        self.sums[pair.key] += pair.value
        self.most = max(self.most, pair.value)
        self.values.append(pair.value)

    def end_window(self) -> None:
        for key, value in self.sums.items():
            self.found.emit(Pair(key, value))
        for value in self.values:
            self.found.emit(Pair(-1, value))
        assert self.most == max(self.values, default=-1)


class TotalUnifier(Unifier):
    """Works at the borders of application windows."""

    input = InputPort(Pair)
    output = OutputPort(Pair)

    def begin_window(self, window_id: int) -> None:
        self.total = 0

    @input.process
    def take(self, pair: Pair) -> None:
        self.total += pair.value

    def end_window(self) -> None:
        self.output.emit(Pair(0, self.total))


class Passed(Operator):
    """Passes tuples on as they come: its unifier waits for the end of the application window."""

    pairs = InputPort(Pair)
    found = OutputPort(Pair, unifier=TotalUnifier)

    @pairs.process
    def take(self, pair: Pair) -> None:
        self.found.emit(pair)


class Told(Operator):
    """Notes after each commit which keys its application window has changed by then."""

    pairs = InputPort(Pair, key="key")
    newest = KeyedState(int, key=int)

    @pairs.process
    def take(self, pair: Pair) -> None:
        self.newest[pair.key] = pair.value

    def committed(self, window_id: int) -> None:
        TOLD.append((window_id, dict(self.newest.changed())))


def application(count: int, slide: int | None, partitions: int) -> Application:
    """All operators have application windows of `count`; those that can slide do so by `slide`."""
    app = Application("counted", window="1s", windows_kept=100, snapshot_interval=3)
    items = [item for window in range(WINDOWS) for item in (*pairs_of(window), END_WINDOW)][:-1]
    source = app.add_operator("source", ListInput(Pair, items))
    lasting = {"partitions": partitions, "application_window_count": count}
    sliding = {**lasting, "slide_by_window_count": slide}
    lossy = {"processing_mode": "AT_MOST_ONCE"}
    made: Mapping[str, tuple[Operator, str, str, dict[str, object]]] = {
        "sums": (SumKeyVal(), "data", "sum", sliding),
        "tops": (TopN(size=2, by="value"), "data", "top", sliding),
        "ranges": (RangeKeyVal(schema=Range), "data", "range", sliding),
        "kept": (Kept(), "pairs", "found", lasting),
        "totals": (SumKeyVal(cumulative=True), "data", "sum", lasting),
        "averages": (SimpleMovingAverage(schema=Average, window_size=AVERAGED), "data", "average", lasting),
        "newest": (ConsolidatorKeyVal(schema=Pair), "in1", "out", lasting),
        "passed": (Passed(), "pairs", "found", {**lasting, **lossy}),
    }
    inputs = [app.add_operator("told", Told(), application_window_count=count).pairs]
    for name, (operator, taken, emitted, attributes) in made.items():
        one = app.add_operator(name, operator, **attributes)
        mode = lossy if name == "passed" else {}
        sink = app.add_operator(f"{name}_sink", CollectorSink(ROWS.get(name, Pair)), **mode)
        inputs.append(getattr(one, taken))
        app.add_stream(name, getattr(one, emitted), sink.input)
    app.add_stream("source", source.output, *inputs)
    return app


def expected(count: int, slide: int | None, partitions: int) -> dict[str, list[list[Row]]]:
    """What each operator puts out in each window, in order of its rows."""
    windows = [pairs_of(window) for window in range(WINDOWS)]
    found = {name: [[] for _ in windows] for name in ("sums", "tops", "ranges", *_LASTING)}
    for first, last in _application_windows(count, slide):
        pairs = [pair for window in windows[max(0, first) : last + 1] for pair in window]
        by_key = _by_key(pairs)
        found["sums"][last] += [(key, sum(values)) for key, values in by_key.items()]
        found["ranges"][last] += [(key, max(values), min(values)) for key, values in by_key.items()]
        found["tops"][last] += sorted(pairs, key=lambda pair: -pair.value)[:2]
    for first, last in _application_windows(count, None):
        pairs = [pair for window in windows[first : last + 1] for pair in window]
        before = _by_key(pair for window in windows[: last + 1] for pair in window)
        recent = windows[max(0, first - (AVERAGED - 1) * count) : last + 1]
        found["kept"][last] += [(key, sum(values)) for key, values in _by_key(pairs).items()]
        found["kept"][last] += [(-1, pair.value) for pair in pairs]
        found["totals"][last] += [(key, sum(before[key])) for key in _by_key(pairs)]
        found["newest"][last] += [(key, values[-1]) for key, values in _by_key(pairs).items()]
        found["averages"][last] += [
            (key, sum(values) / len(values))
            for key, values in _by_key(pair for window in recent for pair in window).items()
        ]
        if partitions > 1:
            found["passed"][last] += [(0, sum(pair.value for pair in pairs))]
    if partitions == 1:
        found["passed"] = [list(window) for window in windows]
    return {name: [sorted(map(tuple, rows)) for rows in by_window] for name, by_window in found.items()}


_LASTING = ("kept", "totals", "averages", "newest", "passed")


def told(count: int) -> list[dict[int, int]]:
    """The newest values of the keys that the application window has changed by each window."""
    found = []
    for window in range(WINDOWS):
        since = range(window - window % count, window + 1)
        found.append({pair.key: pair.value for one in since for pair in pairs_of(one)})
    return found


def _application_windows(count: int, slide: int | None) -> Iterator[tuple[int, int]]:
    """The first and the last window of each application window; the last one may be cut off."""
    for end in range(slide or count, WINDOWS + count, slide or count):
        over = end >= WINDOWS
        if end >= count or over:
            yield end - count, min(end, WINDOWS) - 1
        if over:
            return


def _by_key(pairs: Iterable[Pair]) -> dict[int, Sequence[int]]:
    found: dict[int, list[int]] = {}
    for pair in pairs:
        found.setdefault(pair.key, []).append(pair.value)
    return found
