"""Library operators move their state: partitions change live and at a restart, results stay the same."""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ridgeline.operators
from ridgeline import (
    Application,
    InputPort,
    KeyedState,
    ListState,
    Operator,
    OutputPort,
    Partition,
    Partitioner,
    PortInfo,
    State,
)
from ridgeline.api.errors import StateError
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import assign_keys
from ridgeline.operators import (
    AsOfJoin,
    ConsolidatorKeyVal,
    Deduplicate,
    Detect,
    LatestByKey,
    ModelOperator,
    RangeKeyVal,
    Running,
    SimpleMovingAverage,
    Sort,
    Sql,
    SumKeyVal,
    TableJoin,
    TopByKey,
    TopN,
    Windowed,
    WindowJoin,
    WithinJoin,
    aggregate,
    global_window,
    hysteresis,
    rolling,
    session,
    sliding,
    tumbling,
)
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.operators.by_key import Average, Pair, Range
from support.testing.shares import share


class Record(NamedTuple):
    key: str
    country: str
    value: int
    time: datetime


START = datetime(2026, 3, 1, tzinfo=UTC)
NUMBER = 24
WINDOWS = [
    [
        (f"k{(number * 7 + place * 3) % 11}", (number * 13 + place * 5) % 29 - 9)
        for place in range(number % 5 + 1)
    ]
    for number in range(NUMBER)
]
STEPS = {6: 3, 11: 2, 17: 5}
"""From one partition; by the window that begins with them."""


def pairs() -> ListInput:
    return ListInput(Pair, [item for rows in WINDOWS for item in (*(Pair(*row) for row in rows), END_WINDOW)])


def records() -> ListInput:
    found: list[Any] = []
    for number, rows in enumerate(WINDOWS):
        at = START + timedelta(seconds=number)
        found += [Record(key, f"c{value % 3}", value, at) for key, value in rows]
        found.append(END_WINDOW)
    return ListInput(Record, found, "time", lateness="3s")


def summed(seen: list[list[tuple[str, int]]]) -> list[tuple[Any, ...]]:
    totals: Counter[str] = Counter()
    found: list[tuple[Any, ...]] = []
    for rows in seen:
        for key, value in rows:
            totals[key] += value
        found += [(key, totals[key]) for key in {key for key, _ in rows}]
    return found


def each_window(of: Any) -> Any:
    return lambda: [row for rows in WINDOWS for row in of(rows)]


def sums(rows: list[tuple[str, int]]) -> list[tuple[Any, ...]]:
    totals: Counter[str] = Counter()
    for key, value in rows:
        totals[key] += value
    return [(key, totals[key]) for key, _ in dict(rows).items()]


def ranges(rows: list[tuple[str, int]]) -> list[tuple[Any, ...]]:
    return [
        (key, max(own), min(own))
        for key in dict(rows)
        if (own := [value for other, value in rows if other == key])
    ]


def averages() -> list[tuple[Any, ...]]:
    found = []
    for number in range(NUMBER):
        own: dict[str, list[int]] = defaultdict(list)
        for rows in WINDOWS[max(0, number - 2) : number + 1]:
            for key, value in rows:
                own[key].append(value)
        found += [(key, sum(values) / len(values)) for key, values in own.items()]
    return found


def best(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:3]


def tops(*, keyed: bool) -> list[tuple[Any, ...]]:
    found, seen = [], []
    for rows in WINDOWS:
        seen += rows
        found += best(dict(seen).items() if keyed else seen)
    return found


def tops_of_keys() -> list[tuple[Any, ...]]:
    held: dict[str, list[int]] = defaultdict(list)
    found = []
    for rows in WINDOWS:
        before = {key: list(values) for key, values in held.items()}
        for key, value in rows:
            held[key] = sorted([*held[key], value], reverse=True)[:2]
        changed = [key for key, values in held.items() if values != before.get(key)]
        found += [(key, value, rank) for key in changed for rank, value in enumerate(held[key], 1)]
    return found


def slid(of: Any, slides: int) -> Any:
    def expected() -> list[tuple[Any, ...]]:
        found = []
        for number in range(slides - 1, NUMBER):
            found += of([row for rows in WINDOWS[number - slides + 1 : number + 1] for row in rows])
        return found

    return expected


def in_windows(size: int, slide: int, columns: int) -> Any:
    def expected() -> list[tuple[Any, ...]]:
        found: dict[Any, list[int]] = defaultdict(list)
        for number, rows in enumerate(WINDOWS):
            for key, value in rows:
                name = (key, f"c{value % 3}")[:columns]
                for start in range(number - size + 1, number + 1):
                    if start % slide == 0:
                        found[(start, *name)].append(value)
        return [
            (*name, START + timedelta(seconds=start), len(values), sum(values), max(values))
            for (start, *name), values in found.items()
        ]

    return expected


def in_sessions(gap: int) -> Any:
    def expected() -> list[tuple[Any, ...]]:
        found = []
        for key in {key for rows in WINDOWS for key, _ in rows}:
            open_now: list[tuple[int, int]] = []
            for number, rows in enumerate(WINDOWS):
                for value in [value for other, value in rows if other == key]:
                    if open_now and number - open_now[-1][0] >= gap:
                        found.append((key, open_now))
                        open_now = []
                    open_now.append((number, value))
            found.append((key, open_now))
        return [
            (
                key,
                START + timedelta(seconds=own[0][0]),
                len(own),
                sum(v for _, v in own),
                max(v for _, v in own),
            )
            for key, own in found
        ]

    return expected


TOTALS = {"n": aggregate.count(), "sum": aggregate.sum("value"), "last": aggregate.last("value")}


def running(*, each: bool = False) -> list[tuple[Any, ...]]:
    seen: dict[str, list[int]] = defaultdict(list)
    found: list[tuple[Any, ...]] = []
    for rows in WINDOWS:
        for key, value in rows:
            seen[key].append(value)
            if each:
                found.append((key, len(seen[key]), sum(seen[key]), value))
        if not each:
            found += [(key, len(seen[key]), sum(seen[key]), seen[key][-1]) for key in dict(rows)]
    return found


def by_record(members: Any) -> Any:
    """For each record the window of the records of its key that `members` chooses of those until it."""

    def expected() -> list[tuple[Any, ...]]:
        every = [(key, number, value) for number, rows in enumerate(WINDOWS) for key, value in rows]
        found = []
        for place, (key, number, _) in enumerate(every):
            start, own = members([one for one in every if one[0] == key], number, every[: place + 1])
            if own:
                values = [value for _, _, value in own]
                found.append((key, START + timedelta(seconds=start), len(values), sum(values), max(values)))
        return found

    return expected


def last_seconds(own: Any, number: int, _: Any) -> Any:
    return number - 3, [one for one in own if number - 3 < one[1] <= number]


def last_records(own: Any, number: int, seen: Any) -> Any:
    found = [one for one in seen if one[0] == own[0][0]][-3:]
    return found[0][1], found


def every_third(own: Any, number: int, seen: Any) -> Any:
    found = [one for one in seen if one[0] == own[0][0]]
    begin = (len(found) - 1) // 3 * 3
    whole = len(found) % 3 == 0 or len(found) == len(own)
    return found[begin][1], found[begin:] if whole else []


SLIDING = {"application_window_count": 4, "slide_by_window_count": 1}


class Sums(Operator):
    """Sums by key of an application window that slides by its states."""

    input = InputPort(Pair, key="key")
    output = OutputPort(Pair)
    sums = KeyedState(int, default=0, scope="window", merge=operator.add)
    rows = ListState(str, scope="window", moves_by=str)
    count = State(0, scope="window", merge=operator.add, moves="sum")

    @input.process
    def add(self, pair: Pair) -> None:
        self.sums[pair.key] += pair.value
        self.rows.append(pair.key)
        self.count += 1

    def end_window(self) -> None:
        assert self.context.partitions > 1 or self.count == len(self.rows)
        assert set(self.rows) == set(self.sums)
        for key, total in self.sums.items():
            self.output.emit(Pair(key, total))


class Table(Operator):
    """Sees in each partition a table that goes to all, and counts what it has seen."""

    input = InputPort(Pair, key="key")
    table = InputPort(Pair)
    output = OutputPort(Pair)
    known = State({}, moves="same")
    seen = State(0, moves="sum")

    def begin_window(self, window_id: int) -> None:
        self.waiting: list[Pair] = []

    @table.process
    def note(self, pair: Pair) -> None:
        self.known[pair.key] = pair.value

    @input.process
    def wait(self, pair: Pair) -> None:
        self.waiting.append(pair)
        self.seen += 1

    def end_window(self) -> None:
        for pair in self.waiting:
            assert pair.key in self.known
            self.output.emit(pair)


class Kept(Operator):
    """Holds tuples for two windows, in order."""

    input = InputPort(Pair, key="key")
    output = OutputPort(Pair)
    held = ListState(tuple, moves_by=lambda item: item[1])

    @input.process
    def hold(self, pair: Pair) -> None:
        self.held.append((self.context.window_id, *pair))

    def end_window(self) -> None:
        due = [item for item in self.held if item[0] <= self.context.window_id - 2]
        for _, key, value in due:
            self.output.emit(Pair(key, value))
        self.held[:] = [item for item in self.held if item not in due]


COUNTS = {
    "begin": aggregate.window_start(),
    "count": aggregate.count(),
    "sum": aggregate.sum("value"),
    "most": aggregate.max("value"),
}


def windowed(windows: Any, key: Any = "key") -> Any:
    return lambda: Windowed(windows, key=key, values=COUNTS)


def joined() -> list[tuple[Any, ...]]:
    newest: dict[str, int] = {}
    found = []
    for rows in WINDOWS:
        newest |= dict(rows)
        found += [(key, newest[key]) for key in dict(rows)]
    return found


def firsts() -> list[tuple[Any, ...]]:
    found: dict[str, int] = {}
    for rows in WINDOWS:
        found = dict(rows[::-1]) | found
    return list(found.items())


def firsts_within(seconds: int) -> Any:
    def expected() -> list[tuple[Any, ...]]:
        last: dict[str, int] = {}
        found = []
        for number, rows in enumerate(WINDOWS):
            for key, value in rows:
                if number - last.get(key, -seconds) >= seconds:
                    last[key] = number
                    found.append((key, f"c{value % 3}", value, START + timedelta(seconds=number)))
        return found

    return expected


def changes_of_a_table() -> list[tuple[Any, ...]]:
    table: dict[str, int] = {}
    found = []
    for key, value in (row for rows in WINDOWS for row in rows):
        if table.get(key) != value:
            table[key] = value
            found.append((key, value))
    return found


def joined_rows() -> list[tuple[Any, ...]]:
    table: dict[str, int] = {}
    found = []
    for rows in WINDOWS:
        table |= dict(rows)
        found += [(*row, table[row[0]]) for row in rows]
    return found


def pairs_within(seconds: int) -> Any:
    return lambda: pairs_where(lambda one, other: abs(one - other) <= seconds)


def pairs_in_windows(seconds: int) -> Any:
    return lambda: pairs_where(lambda one, other: one // seconds == other // seconds)


def pairs_where(meet: Any) -> list[tuple[Any, ...]]:
    every = timed_rows()
    return [
        (*one, *other[1:])
        for number, one in every
        for near, other in every
        if one[0] == other[0] and meet(number, near)
    ]


def pairs_as_of() -> list[tuple[Any, ...]]:
    last = {(number, row[0]): row for number, row in timed_rows()}
    return [(*row, *last[number, row[0]][1:]) for number, row in timed_rows()]


def timed_rows() -> list[tuple[int, tuple[Any, ...]]]:
    return [
        (number, (key, f"c{value % 3}", value, START + timedelta(seconds=number)))
        for number, rows in enumerate(WINDOWS)
        for key, value in rows
    ]


def crossings() -> list[tuple[Any, ...]]:
    high: set[str] = set()
    found = []
    for _, (key, _, value, time) in timed_rows():
        if value > 10 and key not in high:
            high.add(key)
            found.append((key, "above", time))
        elif value < 0:
            high.discard(key)
    return found


MODEL = Path(__file__).parent / "models" / "twice.onnx"
"""Twice the value."""
SQL = """select key, window_start, count(*) as n, sum(value) as sum, max(value) as most
from input group by key, window_start"""
CASES: dict[str, tuple[Any, str, str, dict[str, Any], Any]] = {
    "sum": (SumKeyVal, "data", "sum", {}, each_window(sums)),
    "cumulative_sum": (lambda: SumKeyVal(cumulative=True), "data", "sum", {}, lambda: summed(WINDOWS)),
    "restarted_sum": (
        lambda: SumKeyVal(cumulative=True, restart_every=4),
        "data",
        "sum",
        {},
        lambda: [row for begin in range(0, NUMBER, 4) for row in summed(WINDOWS[begin : begin + 4])],
    ),
    "range": (lambda: RangeKeyVal(schema=Range), "data", "range", {}, each_window(ranges)),
    "average": (lambda: SimpleMovingAverage(schema=Average, window_size=3), "data", "average", {}, averages),
    "top": (lambda: TopN(by="value", size=3), "data", "top", {}, each_window(best)),
    "cumulative_top": (
        lambda: TopN(by="value", size=3, cumulative=True),
        "data",
        "top",
        {},
        lambda: tops(keyed=False),
    ),
    "cumulative_top_by_key": (
        lambda: TopN(by="value", size=3, keyed=True, cumulative=True),
        "data",
        "top",
        {},
        lambda: tops(keyed=True),
    ),
    "tops_by_key": (lambda: TopByKey("key", by="value", size=2), "input", "output", {}, tops_of_keys),
    "consolidated": (lambda: ConsolidatorKeyVal(schema=Pair), "in1", "out", {}, joined),
    "tumbling": (windowed(tumbling("4s")), "input", "output", {}, in_windows(4, 4, 1)),
    "sliding": (windowed(sliding("6s", "2s")), "input", "output", {}, in_windows(6, 2, 1)),
    "sql": (
        lambda: Sql(SQL, key="key", windows=sliding("6s", "2s")),
        "input_1",
        "output",
        {},
        in_windows(6, 2, 1),
    ),
    "session": (windowed(session("2s")), "input", "output", {}, in_sessions(2)),
    "deduplicated": (lambda: Deduplicate("key"), "input", "output", {}, firsts),
    "deduplicated_within": (
        lambda: Deduplicate("key", within="3s"),
        "input",
        "output",
        {},
        firsts_within(3),
    ),
    "global": (windowed(global_window()), "input", "output", {}, in_sessions(NUMBER)),
    "running": (lambda: Running("key", values=TOTALS), "input", "output", {}, running),
    "running_by_record": (
        lambda: Running("key", values=TOTALS, emit="records"),
        "input",
        "output",
        {},
        lambda: running(each=True),
    ),
    "rolling": (windowed(rolling("3s")), "input", "output", {}, by_record(last_seconds)),
    "rolling_by_count": (windowed(rolling(count=3)), "input", "output", {}, by_record(last_records)),
    "counted": (windowed(tumbling(count=3)), "input", "output", {}, by_record(every_third)),
    "latest": (lambda: LatestByKey("key"), "input", "output", {}, changes_of_a_table),
    "table_join": (lambda: TableJoin("key"), "input", "output", {}, joined_rows),
    "broadcast_join": (lambda: TableJoin("key", broadcast=True), "input", "output", {}, joined_rows),
    "within_join": (lambda: WithinJoin("key", "1s"), "left", "output", {}, pairs_within(1)),
    "window_join": (lambda: WindowJoin("key", tumbling("3s")), "left", "output", {}, pairs_in_windows(3)),
    "as_of_join": (lambda: AsOfJoin("key", "0s", how="inner"), "left", "output", {}, pairs_as_of),
    "detected": (
        lambda: Detect(hysteresis("value", above=10, below=0), "key"),
        "input",
        "output",
        {},
        crossings,
    ),
    "sorted": (lambda: Sort("key"), "input", "output", {}, lambda: [row for _, row in timed_rows()]),
    "predicted": (
        lambda: ModelOperator(str(MODEL), ["value"]),
        "input",
        "output",
        {},
        lambda: [(key, value, 2.0 * value) for _, (key, _, value, _) in timed_rows()],
    ),
    "sliding_sum": (SumKeyVal, "data", "sum", SLIDING, slid(sums, 4)),
    "sliding_range": (lambda: RangeKeyVal(schema=Range), "data", "range", SLIDING, slid(ranges, 4)),
    "sliding_top": (lambda: TopN(by="value", size=3), "data", "top", SLIDING, slid(best, 4)),
    "sliding_states": (Sums, "input", "output", SLIDING, slid(sums, 4)),
    "joined_table": (Table, "input", "output", {}, lambda: [row for rows in WINDOWS for row in rows]),
    "kept_items": (Kept, "input", "output", {}, lambda: [row for rows in WINDOWS[:-2] for row in rows]),
    "by_two_columns": (
        windowed(tumbling("4s"), ("key", "country")),
        "input",
        "output",
        {},
        in_windows(4, 4, 2),
    ),
}


def application(name: str, partitions: int) -> Application:
    make, entry, leaving, attributes, _ = CASES[name]
    app = Application("moved", window="1s")
    made = make()
    timed = isinstance(made, (Windowed, AsOfJoin, Detect, Sort, Sql, WindowJoin, WithinJoin)) or vars(
        made
    ).get("within")
    source = app.add_operator("source", records() if timed else pairs())
    one = app.add_operator("one", made, partitions=partitions, **attributes)
    sink = app.add_operator("sink", CollectorSink())
    others = [getattr(one, port) for port in operator_type(type(made)).inputs if port in ("table", "right")]
    app.add_stream("in", source.output, getattr(one, entry), *others)
    app.add_stream("out", getattr(one, leaving), sink.input)
    return app


def rows_of(run: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in run.collected("sink"))


@pytest.mark.parametrize("name", CASES)
def test_partitions_change_while_it_runs(name: str) -> None:
    changes = {window: [Repartition("one", count)] for window, count in STEPS.items()}
    run = run_local(application(name, 1), changes=changes)
    assert [change.state for change in run.changes] == ["APPLIED"] * len(STEPS)
    assert rows_of(run) == Counter(CASES[name][4]())


@pytest.mark.parametrize("name", share(2, CASES))
def test_partitions_change_at_a_restart(name: str, tmp_path: Path) -> None:
    found: Counter[tuple[Any, ...]] = Counter()
    begin = 0
    for end, partitions in zip((*STEPS, None), (1, *STEPS.values()), strict=True):
        windows = None if end is None else end - begin
        found += rows_of(run_local(application(name, partitions), windows=windows, checkpoint=tmp_path))
        begin = end or 0
    assert found == Counter(CASES[name][4]())


class Backwards(Partitioner):
    """By key, but the first partition has what the last one has by default; without keys round robin."""

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> list[Partition]:
        names = [port.name for port in ports if port.keyed and port.connected]
        rest = frozenset() if names else frozenset(port.name for port in ports if port.connected)
        return [Partition(dict.fromkeys(names, keys), rest) for keys in reversed(assign_keys(count))]


@pytest.mark.parametrize("name", share(2, [name for name in CASES if name != "broadcast_join"]))
def test_partitions_that_a_partitioner_divides_change_while_it_runs(name: str) -> None:
    changes = {window: [Repartition("one", count)] for window, count in STEPS.items()}
    app = application(name, 2)
    run = run_local(app, attributes={"one.partitioner": Backwards()}, changes=changes)
    assert [change.state for change in run.changes] == ["APPLIED"] * len(STEPS)
    assert rows_of(run) == Counter(CASES[name][4]())


INPUTS = {
    "EventGenerator",
    "FileReplayInput",
    "RandomEventGenerator",
    "SparkInput",
}  # what they hold is the same in all
ELSEWHERE = {
    "BatchUp",
    "Delay",
    "FileInput",
    "FillForward",
    "IterableInput",
    "LimitRate",
    "SocketInput",
    "StdinInput",
    "RoundRobinHashMap",
    "Sampler",
}
ALONE = {"SqlQuery"}  # has one partition only
AT_BORDERS = {"FileOutput", "QueueOutput", "SparkOutput"}  # nothing is held between application windows


def test_each_operator_of_the_library_that_holds_state_has_a_case() -> None:
    cases = {type(make()).__name__ for make, *_ in CASES.values()}
    for name in ridgeline.operators.__all__:
        kind = getattr(ridgeline.operators, name)
        if isinstance(kind, type) and issubclass(kind, Operator) and operator_type(kind).states:
            states = set(operator_type(kind).states) - {"_waiting"}
            assert not states or name in cases | INPUTS | ELSEWHERE | ALONE | AT_BORDERS, name


@pytest.mark.parametrize(
    ("declare", "what"),
    [
        (lambda: State(0, moves="some"), "`moves` says what becomes of a state .*; got 'some'; give"),
        (lambda: ListState(int, moves_by="key"), "`moves_by` gives the key of the input port"),
        (lambda: KeyedState(int, moves_by=3), "`moves_by` gives the key of the input port"),
    ],
)
def test_declarations_that_do_not_fit_are_refused(declare: Any, what: str) -> None:
    with pytest.raises(StateError, match=what):
        declare()
