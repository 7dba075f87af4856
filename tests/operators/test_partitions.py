"""Library operators: results do not depend on the number of partitions, nor on who gets which tuples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import ridgeline.operators
from ridgeline import (
    Application,
    InputOperator,
    Operator,
    OperatorError,
    RoundRobinPartitioner,
    Unifier,
)
from ridgeline.api.operator import operator_type
from ridgeline.operators import (
    AsOfJoin,
    AsyncMap,
    Branch,
    Cast,
    ConsolidatorKeyVal,
    Deduplicate,
    Detect,
    Drop,
    FileOutput,
    FillForward,
    Filter,
    FilterRows,
    FlatMap,
    Flatten,
    Format,
    LatestByKey,
    LimitRate,
    Map,
    ModelOperator,
    RangeKeyVal,
    Rename,
    Running,
    Sampler,
    ScriptOperator,
    Select,
    SimpleMovingAverage,
    Sort,
    Split,
    SplitByShare,
    Sql,
    SumKeyVal,
    TableJoin,
    TopByKey,
    TopN,
    Transform,
    Union,
    Validate,
    Windowed,
    WindowJoin,
    WithColumns,
    WithinJoin,
    WithTimes,
    absence,
    aggregate,
    global_window,
    hysteresis,
    rolling,
    session,
    sliding,
    tumbling,
)
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep
from support.operators.by_key import Average, Pair, Range
from support.paths import ROOT
from support.testing.shares import share


class Record(NamedTuple):
    key: str
    value: int
    time: datetime


class Positive(BaseModel):
    value: int = Field(ge=-9)


@dataclass(frozen=True)
class Case:
    """An operator, its ports, and attributes beside the application window.

    `of_parts`: its unifier makes results of parts, so that round robin is right too. `timed`: it needs the
    times of records.
    """

    make: Callable[[], Any]
    leaving: str
    entry: str = "data"
    of_parts: bool = False
    timed: bool = False
    slides: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    """Further ports that read the same stream."""


START = datetime(2026, 3, 29, tzinfo=UTC)
COUNTS = {"count": aggregate.count(), "sum": aggregate.sum("value"), "most": aggregate.max("value")}


async def same(pair: Pair) -> Pair:
    return pair


def windowed(windows: Any) -> Case:
    return Case(lambda: Windowed(windows, key="key", values=COUNTS), "output", "input", timed=True)


def paired(make: Callable[[], Any]) -> Case:
    """A stream joined with itself."""
    return Case(make, "output", "left", timed=True, also=("right",))


CASES = {
    "sum": Case(SumKeyVal, "sum", of_parts=True),
    "cumulative_sum": Case(lambda: SumKeyVal(cumulative=True), "sum"),
    "restarted_sum": Case(lambda: SumKeyVal(cumulative=True, restart_every=2), "sum"),
    "sliding_sum": Case(SumKeyVal, "sum", of_parts=True, slides=2),
    "range": Case(lambda: RangeKeyVal(schema=Range), "range", of_parts=True),
    "sliding_range": Case(lambda: RangeKeyVal(schema=Range), "range", of_parts=True, slides=3),
    "average": Case(lambda: SimpleMovingAverage(schema=Average, window_size=2), "average"),
    "top": Case(lambda: TopN(by="value", size=2), "top", of_parts=True),
    "top_by_key": Case(lambda: TopN(by="value", size=2, keyed=True), "top"),
    "top_of_each_key": Case(lambda: TopByKey("key", by="value", size=2), "output", "input"),
    "cumulative_top": Case(lambda: TopN(by="value", size=2, cumulative=True), "top", of_parts=True),
    "cumulative_top_by_key": Case(lambda: TopN(by="value", size=2, keyed=True, cumulative=True), "top"),
    "sliding_top": Case(lambda: TopN(by="value", size=2), "top", of_parts=True, slides=2),
    "consolidated": Case(lambda: ConsolidatorKeyVal(schema=Pair), "out", "in1"),
    "filtered": Case(lambda: Filter(predicate=lambda pair: pair.value > 0), "output", of_parts=True),
    "flat_mapped": Case(
        lambda: FlatMap(function=lambda pair: [pair] * (pair.value % 3), schema=Pair), "output", of_parts=True
    ),
    "filtered_rows": Case(lambda: FilterRows("value > 0"), "output", "input", of_parts=True),
    "selected": Case(lambda: Select(["key"], {"twice": "value * 2"}), "output", "input", of_parts=True),
    "with_columns": Case(lambda: WithColumns(named={"value": "value + 1"}), "output", "input", of_parts=True),
    "renamed": Case(lambda: Rename({"value": "amount"}), "output", "input", of_parts=True),
    "dropped": Case(lambda: Drop(["value"]), "output", "input", of_parts=True),
    "cast": Case(lambda: Cast({"value": "double"}), "output", "input", of_parts=True),
    "split": Case(lambda: Split("value > 0"), "others", "input", of_parts=True),
    "branched": Case(lambda: Branch({"a": "value > 5", "b": "value > 0"}), "b", "input", of_parts=True),
    "transformed": Case(lambda: Transform(lambda frame: frame.head(99)), "output", "input", of_parts=True),
    "awaited": Case(lambda: AsyncMap(same, schema=Pair), "output", of_parts=True),
    "timed": Case(lambda: WithTimes("time", "3s"), "output", "input", of_parts=True, timed=True),
    "limited": Case(lambda: LimitRate(1000), "output", "input", of_parts=True),
    "united": Case(lambda: Union(1), "output", "input_1", of_parts=True),
    "mapped": Case(
        lambda: Map(function=lambda pair: Pair(pair.key, -pair.value), schema=Pair), "output", of_parts=True
    ),
    "predicted": Case(
        lambda: ModelOperator(lambda rows: rows["value"], ["value"]), "output", "input", of_parts=True
    ),
    "scripted": Case(
        lambda: ScriptOperator("def process(row):\n    return [row] * (row['value'] % 3)"),
        "output",
        "input",
        of_parts=True,
    ),
    "sampled": Case(lambda: Sampler(share=0.5), "output", of_parts=True),
    "sampled_by_key": Case(lambda: Sampler(share=0.5, key="key", seed=3), "output", of_parts=True),
    "deduplicated": Case(lambda: Deduplicate("key"), "output", "input"),
    "deduplicated_within": Case(lambda: Deduplicate("key", within="2s"), "output", "input", timed=True),
    "latest": Case(lambda: LatestByKey("key"), "output", "input"),
    "table_join": Case(lambda: TableJoin("key"), "output", "input", also=("table",)),
    "versions_join": Case(
        lambda: TableJoin("key", versions="2s"), "output", "input", timed=True, also=("table",)
    ),
    "within_join": paired(lambda: WithinJoin("key", "1s", how="left")),
    "window_join": paired(lambda: WindowJoin("key", tumbling("3s"), how="full")),
    "as_of_join": paired(lambda: AsOfJoin("key", "2s")),
    "detected": Case(
        lambda: Detect(hysteresis("value", above=4, below=-4), "key", value="much"),
        "output",
        "input",
        timed=True,
    ),
    "absent": Case(lambda: Detect(absence("2s"), "key"), "output", "input", timed=True),
    "filled": Case(lambda: FillForward("value", "key"), "output", "input"),
    "formatted": Case(lambda: Format("key_value"), "output", "input", of_parts=True),
    "shared": Case(lambda: SplitByShare({"a": 0.6, "b": 0.4}), "a", "input", of_parts=True),
    "flattened": Case(Flatten, "output", "input", of_parts=True),
    "validated": Case(lambda: Validate(Positive), "output", "input", of_parts=True),
    "sql": Case(
        lambda: Sql("select key, sum(value) as sum from input group by key", key="key"), "output", "input_1"
    ),
    "sql_in_windows": Case(
        lambda: Sql(
            "select key, window_end, sum(value) as sum from input group by all",
            key="key",
            windows=sliding("4s", "2s"),
        ),
        "output",
        "input_1",
        timed=True,
    ),
    "sorted": Case(lambda: Sort("key"), "output", "input", timed=True),
    "tumbling": windowed(tumbling("4s")),
    "sliding": windowed(sliding("6s", "2s")),
    "session": windowed(session("2s")),
    "running": Case(lambda: Running("key", values=COUNTS), "output", "input"),
    "running_by_record": Case(lambda: Running("key", values=COUNTS, emit="records"), "output", "input"),
    "running_with_ttl": Case(
        lambda: Running("key", values=COUNTS, ttl="2s", ttl_by="record"), "output", "input", timed=True
    ),
    "rolling": windowed(rolling("3s")),
    "rolling_by_count": windowed(rolling(count=3)),
    "counted": windowed(tumbling(count=3)),
    "global": windowed(global_window()),
}
ELSEWHERE = {
    "BatchUp": "operators/shaping/test_batch_up.py::test_equals_a_loop",
    "Explode": "operators/test_shaping.py::test_explode_equals_polars",
    "Parse": "operators/test_shaping.py::test_each_format",
    "ConsoleOutput": "operators/test_console_output.py::test_no_more_than_the_limit_a_window_and_partition",
    "EventGenerator": "operators/test_event_generator.py::test_records_are_the_same_for_any_number_of_"
    "partitions",
    "FileInput": "operators/test_file_input.py::test_each_file_once_with_kills",
    "FileOutput": "operators/test_partitions.py::test_written_rows_do_not_depend_on_partitions",
    "FileReplayInput": "operators/test_file_replay_input.py::test_any_split_into_windows_and_partitions_"
    "gives_all_rows_once_and_in_order",
    "IterableInput": "operators/test_iterables.py::test_each_item_once_and_in_order",
    "SocketInput": "operators/test_iterables.py::test_lines_of_those_that_connect",
    "StdinInput": "operators/test_iterables.py::test_standard_input",
    "QueueInput": "operators/test_queue.py::test_every_tuple_once_and_in_the_order_of_its_key",
    "QueueOutput": "operators/test_queue.py::test_every_tuple_once_and_in_the_order_of_its_key",
    "RandomEventGenerator": "operators/test_random_event_generator.py::test_the_sequence_is_the_same_for_any_"
    "number_of_partitions",
    "RoundRobinHashMap": "operators/test_round_robin_hash_map.py::test_each_partition_groups_the_values_that_"
    "it_gets",
    "SparkInput": "engine/exchange/test_spark_partitions.py::test_order_per_key_from_spark_to_the_sink",
    "SqlQuery": "operators/test_sql_query.py::test_random_sql_equals_duckdb_over_the_recorded_tuples",
    "SparkOutput": "operators/test_spark_output.py::test_spark_writes_windows_into_folders_of_their_own",
}
"""Inputs, outputs, and what groups the tuples of each partition: the tests that show what partitions do."""


def test_each_operator_of_the_library_has_a_case() -> None:
    found = {
        name
        for name, one in vars(ridgeline.operators).items()
        if isinstance(one, type) and issubclass(one, Operator) and not issubclass(one, Unifier)
    }
    made = {type(case.make()).__name__ for case in CASES.values()}
    assert found == made | ELSEWHERE.keys(), "an operator without a case, or a case without an operator"
    assert not made & ELSEWHERE.keys()
    for name in ELSEWHERE:
        kind = getattr(ridgeline.operators, name)
        assert (
            issubclass(kind, InputOperator)
            or not operator_type(kind).outputs
            or name in ("BatchUp", "Explode", "Parse", "RoundRobinHashMap")
        )


def test_the_tests_of_those_without_a_case_are_there() -> None:
    for file, _, test in (named.partition("::") for named in ELSEWHERE.values()):
        assert f"def {test}(" in (ROOT / "tests" / file).read_text()


@pytest.mark.parametrize("dealt", [False, True])
def test_written_rows_do_not_depend_on_partitions(dealt: bool, tmp_path: Path) -> None:
    pairs = [[Pair("ab"[row % 2], window * 9 + row) for row in range(5)] for window in range(4)]
    app = Application("rows", window="1s")
    source = app.add_operator(
        "source", ListInput(Pair, [item for window in pairs for item in (*window, END_WINDOW)])
    )
    folders = []
    for count, partitions in product((1, 3), (1, 2, 3, 5)):
        name = f"{count}x{partitions}"
        folders.append(tmp_path / name)
        output = FileOutput(path=str(folders[-1]), format="jsonl", roll_seconds=0)
        attributes = {"partitions": partitions, "application_window_count": count}
        divided = {"partitioner": RoundRobinPartitioner()} if dealt else {}
        app.add_operator(f"output{name}", output, **attributes, **divided)
    app.add_stream("in", source.output, *(added.operator.input for added in app.operators[1:]))
    run_local(app)
    for folder in folders:
        rows = [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().split()]
        assert sorted((row["key"], row["value"]) for row in rows) == sorted(chain(*pairs))


PAIRS = st.tuples(st.sampled_from("abcde"), st.integers(-9, 9), st.integers(0, 3))
WINDOWS = st.lists(st.lists(PAIRS, max_size=8), min_size=1, max_size=7)
Rows = Sequence[Sequence[tuple[str, int, int]]]


def source_of(case: Case, windows: Rows) -> ListInput:
    """Records whose times go on by a second a window, up to three seconds in disorder."""
    if not case.timed:
        pairs = [[Pair(key, value) for key, value, _ in window] for window in windows]
        return ListInput(Pair, [item for window in pairs for item in (*window, END_WINDOW)])
    records = [
        [Record(key, value, START + timedelta(seconds=number - back)) for key, value, back in window]
        for number, window in enumerate(windows)
    ]
    items = [item for window in records for item in (*window, END_WINDOW)]
    return ListInput(Record, items, "time", lateness="3s")


def results(
    case: Case, windows: Rows, variants: Mapping[Any, Mapping[str, Any]]
) -> dict[Any, list[Counter[Any]]]:
    """What the operator emits in each window in each of its variants, which run side by side."""
    app = Application("variants", window="1s")
    source = app.add_operator("source", source_of(case, windows))
    operators, names = [], {}
    for number, (variant, attributes) in enumerate(variants.items()):
        names[variant] = f"sink{number}"
        operators.append(app.add_operator(f"operator{number}", case.make(), **attributes))
        sink = app.add_operator(names[variant], CollectorSink())
        app.add_stream(f"out{number}", getattr(operators[-1], case.leaving), sink.input)
    app.add_stream(
        "in", source.output, *(getattr(*pair) for pair in product(operators, (case.entry, *case.also)))
    )
    run = run_local(app)
    return {
        variant: [Counter(tuple(row.values()) for row in run.collected(name, id_)) for id_ in run.window_ids]
        for variant, name in names.items()
    }


def attributes_of(case: Case, partitions: int, count: int, *, dealt: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"application_window_count": count, "partitions": partitions}
    if case.slides:
        found |= {"application_window_count": count * case.slides, "slide_by_window_count": count}
    if dealt:
        found |= {"partitioner": RoundRobinPartitioner(), "unifier_limit": 2}
    return found


@pytest.mark.guide("002", "Partitioning")
@pytest.mark.parametrize("name", CASES)
def test_results_do_not_depend_on_partitions(name: str) -> None:
    case = CASES[name]
    variants = {
        (count, partitions, dealt): attributes_of(case, partitions, count, dealt=dealt)
        for count in (1, 3)
        for partitions in (1, 2, 3, 5)
        for dealt in (False, True)
        if not dealt or (case.of_parts and partitions > 1)
    }

    @settings(deadline=None, max_examples=deep(1), suppress_health_check=[HealthCheck.too_slow])
    @given(WINDOWS)
    def check(windows: Rows) -> None:
        found = results(case, windows, variants)
        assert found == {variant: found[variant[0], 1, False] for variant in variants}

    check()


DEALT = [[("a", 1, 0), ("a", 2, 0), ("b", 3, 0), ("b", 5, 0)], [("a", 4, 1), ("b", 1, 0), ("b", 2, 0)]] * 3


@pytest.mark.parametrize(
    ("name", "partitions"), share(2, [name for name, case in CASES.items() if not case.of_parts], [2, 3, 5])
)
def test_what_needs_its_keys_together_refuses_round_robin(name: str, partitions: int) -> None:
    case = CASES[name]
    with pytest.raises(OperatorError, match="partition"):
        results(case, DEALT, {0: attributes_of(case, partitions, 1, dealt=True)})
