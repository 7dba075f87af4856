"""What all operators of the library promise, a case each: results of a plain loop, however they are divided.

Results do not depend on partitions nor on who gets which tuples, also where these change meanwhile.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import ridgeline.operators as lib
from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    ListState,
    Operator,
    OperatorError,
    OutputPort,
    Partition,
    Partitioner,
    PortInfo,
    RoundRobinPartitioner,
    State,
    Unifier,
)
from ridgeline.api.errors import StateError
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import assign_keys
from ridgeline.connectors.models import ModelOperator
from ridgeline.operators import Windowed, aggregate, rolling, session, sliding, tumbling
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep
from support.paths import ROOT
from support.testing.shares import share


class Pair(NamedTuple):
    key: str
    value: int


class Range(NamedTuple):
    key: str
    high: int
    low: int


class Average(NamedTuple):
    key: str
    average: float


class Record(NamedTuple):
    key: str
    country: str
    value: int
    time: datetime


class Positive(BaseModel):
    value: int = Field(ge=-9)


START = datetime(2026, 3, 29, tzinfo=UTC)
NUMBER = 24
WINDOWS = [
    [
        (f"k{(number * 7 + place * 3) % 11}", (number * 13 + place * 5) % 29 - 9)
        for place in range(number % 5 + 1)
    ]
    for number in range(NUMBER)
]
"""Key and value of the tuples that plain loops take, by window."""
Rows = list[tuple[Any, ...]]


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


# Plain loops ------------------------------------------------------------------------------------------------


def each_row(of: Callable[[str, int], Sequence[Any]]) -> Callable[[], Rows]:
    return lambda: [made for rows in WINDOWS for row in rows for made in of(*row)]


def each_window(of: Callable[[Any], Rows], slides: int = 1) -> Callable[[], Rows]:
    """Of the rows of so many windows, once for each window that ends them."""

    def expected() -> Rows:
        spans = [WINDOWS[end - slides : end] for end in range(slides, NUMBER + 1)]
        return [row for span in spans for row in of(list(chain(*span)))]

    return expected


def by_key(rows: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return found


def sums(rows: Any) -> Rows:
    return [(key, sum(values)) for key, values in by_key(rows).items()]


def ranges(rows: Any) -> Rows:
    return [(key, max(values), min(values)) for key, values in by_key(rows).items()]


def best(rows: Any) -> Rows:
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:3]


def summed(windows: Any) -> Rows:
    totals: Counter[str] = Counter()
    found: Rows = []
    for rows in windows:
        for key, value in rows:
            totals[key] += value
        found += [(key, totals[key]) for key in dict(rows)]
    return found


def averages() -> Rows:
    spans = [WINDOWS[max(0, number - 2) : number + 1] for number in range(NUMBER)]
    averaged = [by_key(chain(*span)) for span in spans]
    return [(key, sum(values) / len(values)) for own in averaged for key, values in own.items()]


def tops(*, keyed: bool) -> Rows:
    found, seen = [], []
    for rows in WINDOWS:
        seen += rows
        found += best(dict(seen).items() if keyed else seen)
    return found


def tops_of_keys() -> Rows:
    held: dict[str, list[int]] = defaultdict(list)
    found = []
    for rows in WINDOWS:
        before = {key: list(values) for key, values in held.items()}
        for key, value in rows:
            held[key] = sorted([*held[key], value], reverse=True)[:2]
        changed = [key for key, values in held.items() if values != before.get(key)]
        found += [(key, value, rank) for key in changed for rank, value in enumerate(held[key], 1)]
    return found


def in_windows(size: int, slide: int, columns: int = 1) -> Callable[[], Rows]:
    def expected() -> Rows:
        found: dict[Any, list[int]] = defaultdict(list)
        for number, rows in enumerate(WINDOWS):
            for key, value in rows:
                name = (key, f"c{value % 3}")[:columns]
                for start in range(number - size + 1, number + 1):
                    if start % slide == 0:
                        found[(start, *name)].append(value)
        return [
            (*name, at(start), len(values), sum(values), max(values))
            for (start, *name), values in found.items()
        ]

    return expected


def in_sessions(gap: int) -> Callable[[], Rows]:
    def expected() -> Rows:
        spans: dict[str, list[list[tuple[int, int]]]] = defaultdict(list)
        for number, rows in enumerate(WINDOWS):
            for key, value in rows:
                own = spans[key]
                if not own or number - own[-1][-1][0] >= gap:
                    own.append([])
                own[-1].append((number, value))
        found = [
            (key, span[0][0], [value for _, value in span]) for key, own in spans.items() for span in own
        ]
        return [(key, at(begin), len(values), sum(values), max(values)) for key, begin, values in found]

    return expected


def running(*, each: bool = False) -> Rows:
    seen: dict[str, list[int]] = defaultdict(list)
    found: Rows = []
    for rows in WINDOWS:
        for key, value in rows:
            seen[key].append(value)
            if each:
                found.append((key, len(seen[key]), sum(seen[key]), value))
        if not each:
            found += [(key, len(seen[key]), sum(seen[key]), seen[key][-1]) for key in dict(rows)]
    return found


def by_record(members: Any) -> Callable[[], Rows]:
    """For each record the window that `members` chooses of those of its key until it, and of all of them."""

    def expected() -> Rows:
        every = [(key, number, value) for number, rows in enumerate(WINDOWS) for key, value in rows]
        found = []
        for place, (key, number, _) in enumerate(every):
            own = [one for one in every if one[0] == key]
            seen = [one for one in every[: place + 1] if one[0] == key]
            start, chosen = members(own, number, seen)
            if chosen:
                values = [value for _, _, value in chosen]
                found.append((key, at(start), len(values), sum(values), max(values)))
        return found

    return expected


def last_seconds(own: Any, number: int, _: Any) -> Any:
    return number - 3, [one for one in own if number - 3 < one[1] <= number]


def last_records(_own: Any, _number: int, seen: Any) -> Any:
    return seen[-3:][0][1], seen[-3:]


def every_third(own: Any, _: int, seen: Any) -> Any:
    begin = (len(seen) - 1) // 3 * 3
    whole = len(seen) % 3 == 0 or len(seen) == len(own)
    return seen[begin][1], seen[begin:] if whole else []


def consolidated() -> Rows:
    newest: dict[str, int] = {}
    found = []
    for rows in WINDOWS:
        newest |= dict(rows)
        found += [(key, newest[key]) for key in dict(rows)]
    return found


def firsts() -> Rows:
    found: dict[str, int] = {}
    for key, value in chain(*WINDOWS):
        found.setdefault(key, value)
    return list(found.items())


def firsts_within(seconds: int) -> Rows:
    last: dict[str, int] = {}
    found = []
    for number, row in timed_rows():
        if number - last.get(row[0], -seconds) >= seconds:
            last[row[0]] = number
            found.append(row)
    return found


def changes_of_a_table() -> Rows:
    table: dict[str, int] = {}
    found = []
    for key, value in chain(*WINDOWS):
        if table.get(key) != value:
            table[key] = value
            found.append((key, value))
    return found


def joined_rows() -> Rows:
    table: dict[str, int] = {}
    found = []
    for rows in WINDOWS:
        table |= dict(rows)
        found += [(*row, table[row[0]]) for row in rows]
    return found


def timed_rows() -> list[tuple[int, tuple[Any, ...]]]:
    return [
        (number, (key, f"c{value % 3}", value, at(number)))
        for number, rows in enumerate(WINDOWS)
        for key, value in rows
    ]


def pairs_where(meet: Callable[[int, int], bool]) -> Callable[[], Rows]:
    return lambda: [
        (*one, *other[1:])
        for number, one in timed_rows()
        for near, other in timed_rows()
        if one[0] == other[0] and meet(number, near)
    ]


def pairs_as_of() -> Rows:
    last = {(number, row[0]): row for number, row in timed_rows()}
    return [(*row, *last[number, row[0]][1:]) for number, row in timed_rows()]


def crossings() -> Rows:
    high: set[str] = set()
    found = []
    for _, (key, _, value, time) in timed_rows():
        if value > 10 and key not in high:
            high.add(key)
            found.append((key, "above", time))
        elif value < 0:
            high.discard(key)
    return found


# Cases ------------------------------------------------------------------------------------------------------


class Sums(Operator):
    """Sums by key of an application window."""

    input = InputPort(Pair, key="key")
    output = OutputPort(Pair)
    sums = KeyedState(int, default=0, scope="window")
    rows = ListState(str, scope="window", moves_by=str)
    count = State(0, scope="window", moves="sum")

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


@dataclass(frozen=True)
class Case:
    """An operator, its ports, and the loop that gives its rows.

    `of_parts`: its unifier makes results of parts, so that round robin is right too. `timed`: it needs the
    times of records. `slides`: the windows of a sliding application window. `also`: ports that read the same.
    """

    make: Callable[[], Any]
    expected: Callable[[], Rows] | None = None
    entry: str = "input"
    leaving: str = "output"
    of_parts: bool = False
    timed: bool = False
    slides: int = 0
    also: tuple[str, ...] = ()


def plain(make: Callable[[], Any], of: Any = lambda *row: [row], **ports: str) -> Case:
    """A case that makes of each tuple what it makes of it alone."""
    return Case(make, each_row(of), of_parts=True, **ports)


def keyed(make: Callable[[], Any], expected: Any, leaving: str, **more: Any) -> Case:
    return Case(make, expected, "data", leaving, **more)


def windowed(windows: Any, expected: Any, key: Any = "key") -> Case:
    return Case(lambda: Windowed(windows, key=key, values=COUNTS), expected, timed=True)


def paired(make: Callable[[], Any], expected: Any) -> Case:
    """A stream joined with itself."""
    return Case(make, expected, "left", timed=True, also=("right",))


async def same(pair: Pair) -> Pair:
    return pair


COUNTS = {
    "begin": aggregate.window_start(),
    "count": aggregate.count(),
    "sum": aggregate.sum("value"),
    "most": aggregate.max("value"),
}
TOTALS = {"n": aggregate.count(), "sum": aggregate.sum("value"), "last": aggregate.last("value")}
MODEL = Path(__file__).parent / "models" / "twice.onnx"
"""Twice the value."""
SCRIPT = "def process(row):\n    return [row] * (row['value'] % 3)"
CASES = {
    "sum": keyed(lib.SumKeyVal, each_window(sums), "sum", of_parts=True),
    "sliding_sum": keyed(lib.SumKeyVal, each_window(sums, 2), "sum", of_parts=True, slides=2),
    "cumulative_sum": keyed(lambda: lib.SumKeyVal(cumulative=True), lambda: summed(WINDOWS), "sum"),
    "restarted_sum": keyed(
        lambda: lib.SumKeyVal(cumulative=True, restart_every=2),
        lambda: [row for begin in range(0, NUMBER, 2) for row in summed(WINDOWS[begin : begin + 2])],
        "sum",
    ),
    "range": keyed(lambda: lib.RangeKeyVal(schema=Range), each_window(ranges), "range", of_parts=True),
    "sliding_range": keyed(
        lambda: lib.RangeKeyVal(schema=Range), each_window(ranges, 3), "range", of_parts=True, slides=3
    ),
    "average": keyed(lambda: lib.SimpleMovingAverage(schema=Average, window_size=3), averages, "average"),
    "top": keyed(lambda: lib.TopN(by="value", size=3), each_window(best), "top", of_parts=True),
    "sliding_top": keyed(
        lambda: lib.TopN(by="value", size=3), each_window(best, 2), "top", of_parts=True, slides=2
    ),
    "top_by_key": keyed(
        lambda: lib.TopN(by="value", size=3, keyed=True),
        each_window(lambda rows: best(dict(rows).items())),
        "top",
    ),
    "cumulative_top": keyed(
        lambda: lib.TopN(by="value", size=3, cumulative=True), lambda: tops(keyed=False), "top", of_parts=True
    ),
    "cumulative_top_by_key": keyed(
        lambda: lib.TopN(by="value", size=3, keyed=True, cumulative=True), lambda: tops(keyed=True), "top"
    ),
    "top_of_each_key": Case(lambda: lib.TopByKey("key", by="value", size=2), tops_of_keys),
    "consolidated": Case(lambda: lib.ConsolidatorKeyVal(schema=Pair), consolidated, "in1", "out"),
    "filtered": plain(
        lambda: lib.Filter(predicate=lambda pair: pair.value > 0),
        lambda key, value: [(key, value)] * (value > 0),
        entry="data",
    ),
    "flat_mapped": plain(
        lambda: lib.FlatMap(function=lambda pair: [pair] * (pair.value % 3), schema=Pair),
        lambda key, value: [(key, value)] * (value % 3),
        entry="data",
    ),
    "mapped": plain(
        lambda: lib.Map(function=lambda pair: Pair(pair.key, -pair.value), schema=Pair),
        lambda key, value: [(key, -value)],
        entry="data",
    ),
    "awaited": plain(lambda: lib.AsyncMap(same, schema=Pair), entry="data"),
    "filtered_rows": plain(
        lambda: lib.FilterRows("value > 0"), lambda key, value: [(key, value)] * (value > 0)
    ),
    "selected": plain(
        lambda: lib.Select(["key"], {"twice": "value * 2"}), lambda key, value: [(key, value * 2)]
    ),
    "with_columns": plain(
        lambda: lib.WithColumns(named={"value": "value + 1"}), lambda key, value: [(key, value + 1)]
    ),
    "renamed": plain(lambda: lib.Rename({"value": "amount"})),
    "dropped": plain(lambda: lib.Drop(["value"]), lambda key, _: [(key,)]),
    "cast": plain(lambda: lib.Cast({"value": "double"}), lambda key, value: [(key, float(value))]),
    "branched": plain(
        lambda: lib.Branch({"a": "value > 5", "b": "value > 0"}),
        lambda key, value: [(key, value)] * (0 < value <= 5),
        leaving="b",
    ),
    "transformed": plain(lambda: lib.Transform(lambda frame: frame.head(99))),
    "united": plain(lambda: lib.Union(1), entry="input_1"),
    "validated": plain(lambda: lib.Validate(Positive)),
    "predicted": plain(
        lambda: ModelOperator(str(MODEL), ["value"]), lambda key, value: [(key, value, 2.0 * value)]
    ),
    "scripted": plain(lambda: lib.ScriptOperator(SCRIPT), lambda key, value: [(key, value)] * (value % 3)),
    "timed": Case(lambda: lib.WithTimes("time", "3s"), of_parts=True, timed=True),
    "limited": Case(lambda: lib.LimitRate(1000), of_parts=True),
    "sampled": Case(lambda: lib.Sampler(share=0.5), entry="data", of_parts=True),
    "sampled_by_key": Case(lambda: lib.Sampler(share=0.5, key="key", seed=3), entry="data", of_parts=True),
    "formatted": Case(lambda: lib.Format("key_value"), of_parts=True),
    "filled": Case(lambda: lib.FillForward("value", "key")),
    "deduplicated": Case(lambda: lib.Deduplicate("key"), firsts),
    "deduplicated_within": Case(
        lambda: lib.Deduplicate("key", within="3s"), lambda: firsts_within(3), timed=True
    ),
    "latest": Case(lambda: lib.LatestByKey("key"), changes_of_a_table),
    "table_join": Case(lambda: lib.TableJoin("key"), joined_rows, also=("table",)),
    "broadcast_join": Case(lambda: lib.TableJoin("key", broadcast=True), joined_rows, also=("table",)),
    "within_join": paired(
        lambda: lib.WithinJoin("key", "1s", how="left"), pairs_where(lambda one, other: abs(one - other) <= 1)
    ),
    "window_join": paired(
        lambda: lib.WindowJoin("key", tumbling("3s"), how="full"),
        pairs_where(lambda one, other: one // 3 == other // 3),
    ),
    "as_of_join": paired(lambda: lib.AsOfJoin("key", "2s"), pairs_as_of),
    "detected": Case(
        lambda: lib.Detect(lib.hysteresis("value", above=10, below=0), "key"), crossings, timed=True
    ),
    "absent": Case(lambda: lib.Detect(lib.absence("2s"), "key"), timed=True),
    "sorted": Case(lambda: lib.Sort("key"), lambda: [row for _, row in timed_rows()], timed=True),
    "running": Case(lambda: lib.Running("key", values=TOTALS), running),
    "running_by_record": Case(
        lambda: lib.Running("key", values=TOTALS, emit="records"), lambda: running(each=True)
    ),
    "running_with_ttl": Case(
        lambda: lib.Running("key", values=TOTALS, ttl="2s", ttl_by="record"), timed=True
    ),
    "tumbling": windowed(tumbling("4s"), in_windows(4, 4)),
    "by_two_columns": windowed(tumbling("4s"), in_windows(4, 4, 2), ("key", "country")),
    "sliding": windowed(sliding("6s", "2s"), in_windows(6, 2)),
    "session": windowed(session("2s"), in_sessions(2)),
    "rolling": windowed(rolling("3s"), by_record(last_seconds)),
    "rolling_by_count": windowed(rolling(count=3), by_record(last_records)),
    "counted": windowed(tumbling(count=3), by_record(every_third)),
    "global": windowed(lib.global_window(), in_sessions(NUMBER)),
    "window_states": Case(Sums, each_window(sums)),
    "joined_table": Case(Table, lambda: list(chain(*WINDOWS)), also=("table",)),
    "kept_items": Case(Kept, lambda: list(chain(*WINDOWS[:-2]))),
}
COMPARED = [name for name, case in CASES.items() if case.expected]
ELSEWHERE = {
    "Sql": "operators/test_sql.py::test_results_equal_duckdb_window_by_window",
    "Parse": "operators/test_shaping.py::test_each_format",
    "ConsoleOutput": "operators/test_console_output.py::test_no_more_than_the_limit_a_window_and_partition",
    "EventGenerator": "operators/test_event_generator.py::test_records_are_the_same_for_any_number_of_"
    "partitions",
    "FileInput": "operators/test_file_input.py::test_each_file_once_with_kills",
    "FileOutput": "operators/test_contract.py::test_written_rows_do_not_depend_on_partitions",
    "FileReplayInput": "operators/test_file_replay_input.py::test_any_split_into_windows_and_partitions_"
    "gives_all_rows_once_and_in_order",
    "IterableInput": "operators/test_iterables.py::test_each_item_once_and_in_order",
    "SocketInput": "operators/test_iterables.py::test_lines_of_those_that_connect",
    "StdinInput": "operators/test_iterables.py::test_standard_input",
    "QueueInput": "operators/test_queue.py::test_every_tuple_once_and_in_the_order_of_its_key",
    "QueueOutput": "operators/test_queue.py::test_every_tuple_once_and_in_the_order_of_its_key",
    "RandomEventGenerator": "operators/test_event_generator.py::test_the_sequence_is_the_same_for_any_"
    "number_of_partitions",
    "RoundRobinHashMap": "operators/test_round_robin_hash_map.py::test_each_partition_groups_the_values_that_"
    "it_gets",
    "SparkInput": "engine/exchange/test_spark_blocks.py::test_order_per_key_from_spark_to_the_sink",
    "SqlQuery": "operators/test_sql_query.py::test_random_sql_equals_duckdb_over_the_recorded_tuples",
    "SparkOutput": "operators/test_spark_output.py::test_spark_writes_windows_into_folders_of_their_own",
}
"""Inputs, outputs, and what groups the tuples of each partition: the tests that show what partitions do."""
MOVES_NOTHING = {"FillForward", "LimitRate"}
"""What they hold may be lost where partitions change: the next tuples bring it again."""


def test_each_operator_of_the_library_has_a_case() -> None:
    kinds = {
        name: one
        for name, one in vars(lib).items()
        if isinstance(one, type) and issubclass(one, Operator) and not issubclass(one, Unifier)
    }
    made = {type(case.make()).__name__: case for case in CASES.values()}
    own = {"Sums", "Table", "Kept", "ModelOperator"}
    assert kinds.keys() == made.keys() - own | ELSEWHERE.keys(), "an operator without a case, or the reverse"
    assert not made.keys() & ELSEWHERE.keys()
    compared = {type(CASES[name].make()).__name__ for name in COMPARED}
    for name, kind in kinds.items():
        if name in ELSEWHERE:
            grouping = ("Parse", "RoundRobinHashMap", "Sql")
            assert issubclass(kind, InputOperator) or not operator_type(kind).outputs or name in grouping
        elif set(operator_type(kind).states) - {"_waiting"}:
            assert name in compared | MOVES_NOTHING, f"no case compares {name}, which has state, with a loop"


def test_the_tests_of_those_without_a_case_are_there() -> None:
    for file, _, test in (named.partition("::") for named in ELSEWHERE.values()):
        assert f"def {test}(" in (ROOT / "tests" / file).read_text()


@pytest.mark.parametrize("dealt", [False, True])
def test_written_rows_do_not_depend_on_partitions(dealt: bool, tmp_path: Path) -> None:
    app = Application("rows", window="1s")
    items = [item for window in WINDOWS[:4] for item in (*(Pair(*row) for row in window), END_WINDOW)]
    source = app.add_operator("source", ListInput(Pair, items))
    folders = []
    for count, partitions in product((1, 3), (1, 2, 3, 5)):
        name = f"{count}x{partitions}"
        folders.append(tmp_path / name)
        output = lib.FileOutput(path=str(folders[-1]), format="jsonl", roll_seconds=0)
        attributes = {"partitions": partitions, "application_window_count": count}
        divided = {"partitioner": RoundRobinPartitioner()} if dealt else {}
        app.add_operator(f"output{name}", output, **attributes, **divided)
    app.add_stream("in", source.output, *(added.operator.input for added in app.operators[1:]))
    run_local(app)
    for folder in folders:
        rows = [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().split()]
        assert sorted((row["key"], row["value"]) for row in rows) == sorted(chain(*WINDOWS[:4]))


# However it is divided --------------------------------------------------------------------------------------
Random = Sequence[Sequence[tuple[str, int, int]]]
ROWS = st.tuples(st.sampled_from("abcde"), st.integers(-9, 9), st.integers(0, 3))
"""Key, value, and how many seconds the time lies back."""


def source_of(case: Case, windows: Random) -> ListInput[Any]:
    """Records whose times go on by a second a window, up to three seconds in disorder."""
    found: list[Any] = []
    for number, window in enumerate(windows):
        for key, value, back in window:
            timed = Record(key, f"c{value % 3}", value, at(number - back))
            found.append(timed if case.timed else Pair(key, value))
        found.append(END_WINDOW)
    return ListInput(Record, found, "time", lateness="3s") if case.timed else ListInput(Pair, found)


def application(case: Case, windows: Random, variants: Sequence[Mapping[str, Any]]) -> Application:
    """`one0`, `one1` ... read one source, each with attributes of its own, and lead to `sink0` ..."""
    app = Application("contract", window="1s")
    source = app.add_operator("source", source_of(case, windows))
    entries = []
    for number, attributes in enumerate(variants):
        one = app.add_operator(f"one{number}", case.make(), **attributes)
        sink = app.add_operator(f"sink{number}", CollectorSink())
        app.add_stream(f"out{number}", getattr(one, case.leaving), sink.input)
        entries += [getattr(one, port) for port in (case.entry, *case.also)]
    app.add_stream("in", source.output, *entries)
    return app


def attributes_of(case: Case, partitions: int, count: int = 1, *, dealt: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"application_window_count": count, "partitions": partitions}
    if case.slides:
        found |= {"application_window_count": count * case.slides, "slide_by_window_count": count}
    if dealt:
        found |= {"partitioner": RoundRobinPartitioner(), "unifier_limit": 2}
    return found


def rows_of(run: Any, number: int = 0, window: int | None = None) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in run.collected(f"sink{number}", window))


@pytest.mark.guide("002", "Partitioning")
@pytest.mark.parametrize("name", CASES)
def test_results_do_not_depend_on_partitions(name: str) -> None:
    case = CASES[name]
    variants = [
        (count, partitions, dealt)
        for count in (1, 3)
        for partitions in (1, 2, 3, 5)
        for dealt in (False, True)
        if not dealt or (case.of_parts and partitions > 1)
    ]
    attributes = [
        attributes_of(case, partitions, count, dealt=dealt) for count, partitions, dealt in variants
    ]

    @settings(deadline=None, max_examples=deep(1), suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.lists(ROWS, max_size=8), min_size=1, max_size=7))
    def check(windows: Random) -> None:
        run = run_local(application(case, windows, attributes))
        found = [[rows_of(run, number, id_) for id_ in run.window_ids] for number in range(len(variants))]
        for variant, own in zip(variants, found, strict=True):
            assert own == found[variants.index((variant[0], 1, False))], variant

    check()


DEALT = [[("a", 1, 0), ("a", 2, 0), ("b", 3, 0), ("b", 5, 0)], [("a", 4, 1), ("b", 1, 0), ("b", 2, 0)]] * 3
TOGETHER = [
    name
    for name, case in CASES.items()
    if not case.of_parts and name not in ("broadcast_join", "window_states", "joined_table", "kept_items")
]


@pytest.mark.parametrize(("name", "partitions"), share(2, TOGETHER, [2, 3, 5]))
def test_what_needs_its_keys_together_refuses_round_robin(name: str, partitions: int) -> None:
    case = CASES[name]
    with pytest.raises(OperatorError, match="partition"):
        run_local(application(case, DEALT, [attributes_of(case, partitions, dealt=True)]))


# Partitions that change -------------------------------------------------------------------------------------
STEPS = {6: 3, 11: 2, 17: 5}
"""From one partition; by the window that begins with them."""
CHANGES = {window: [Repartition("one0", count)] for window, count in STEPS.items()}


def compared(name: str, partitions: int) -> Application:
    case = CASES[name]
    windows = [[(key, value, 0) for key, value in rows] for rows in WINDOWS]
    return application(case, windows, [attributes_of(case, partitions)])


def expected(name: str) -> Counter[tuple[Any, ...]]:
    rows = CASES[name].expected
    assert rows is not None
    return Counter(rows())


@pytest.mark.parametrize("name", COMPARED)
def test_partitions_change_while_it_runs(name: str) -> None:
    run = run_local(compared(name, 1), changes=CHANGES)
    assert [change.state for change in run.changes] == ["APPLIED"] * len(STEPS)
    assert rows_of(run) == expected(name)


@pytest.mark.parametrize("name", share(2, COMPARED))
def test_partitions_change_at_a_restart(name: str, tmp_path: Path) -> None:
    found: Counter[tuple[Any, ...]] = Counter()
    begin = 0
    for end, partitions in zip((*STEPS, None), (1, *STEPS.values()), strict=True):
        windows = None if end is None else end - begin
        found += rows_of(run_local(compared(name, partitions), windows=windows, checkpoint=tmp_path))
        begin = end or 0
    assert found == expected(name)


class Backwards(Partitioner):
    """By key, but the first partition has what the last one has by default; without keys round robin."""

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> list[Partition]:
        names = [port.name for port in ports if port.keyed and port.connected]
        rest = frozenset() if names else frozenset(port.name for port in ports if port.connected)
        return [Partition(dict.fromkeys(names, keys), rest) for keys in reversed(assign_keys(count))]


@pytest.mark.parametrize("name", share(2, [name for name in COMPARED if name != "broadcast_join"]))
def test_partitions_that_a_partitioner_divides_change_while_it_runs(name: str) -> None:
    run = run_local(compared(name, 2), attributes={"one0.partitioner": Backwards()}, changes=CHANGES)
    assert [change.state for change in run.changes] == ["APPLIED"] * len(STEPS)
    assert rows_of(run) == expected(name)


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
