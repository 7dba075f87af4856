"""What runs are compared by: equal tuples in any order, numbers that are near enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application, InputPort, Module, Operator, OutputPort, RidgelineError
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import Filter, Map, RandomEventGenerator, RandomInteger
from ridgeline.service.recorded import begins, rows
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, compare_runs, recorded, run_local
from ridgeline.testing.matching import match, row_of
from support.rows import in_a_row


class Pair(NamedTuple):
    key: str
    value: float


@dataclass
class Point:
    x: float
    y: float


class Plain:
    def __init__(self, value: object) -> None:
        self.value = value


pairs = st.builds(Pair, st.sampled_from("ab"), st.sampled_from([0.0, 1.0, 1.05, 1.1, math.nan, math.inf]))


def unmatched(a: Sequence[Pair], b: Sequence[Pair]) -> int:
    """How many of A find no equal one in B: by trying all ways."""
    if not a:
        return 0
    best = 1 + unmatched(a[1:], b)
    for place, other in enumerate(b):
        if a[0].key == other.key and repr(a[0].value) == repr(other.value):
            best = min(best, unmatched(a[1:], [*b[:place], *b[place + 1 :]]))
    return best


@settings(max_examples=100, deadline=None)
@given(a=st.lists(pairs, max_size=5), b=st.lists(pairs, max_size=5))
def test_as_many_as_can_be_are_matched(a: list[Pair], b: list[Pair]):
    left, right, moved = match([*map(row_of, a)], [*map(row_of, b)], 0.0, ordered=False)
    assert len(left) == unmatched(a, b)
    assert len(a) - len(left) == len(b) - len(right)
    assert moved is None


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.builds(Pair, st.sampled_from("ab"), st.floats(-1e6, 1e6)), max_size=30),
    factor=st.floats(-9e-10, 9e-10),
    order=st.randoms(),
)
def test_numbers_within_the_tolerance_are_equal_in_any_order(rows: list[Pair], factor: float, order: Any):
    other = [pair._replace(value=pair.value * (1 + factor)) for pair in rows]
    order.shuffle(other)
    sides = [*map(row_of, rows)], [*map(row_of, other)]
    assert match(*sides, 1e-9, ordered=False) == ([], [], None)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1, True),
        (1, True, False),
        (math.nan, math.nan, True),
        (-0.0, 0.0, True),
        ("a", b"a", False),
        ([1.0, {"x": 2.0}], [1.0, {"x": 2.0}], True),
        ({"b", "a"}, {"a", "b"}, True),
        (Point(1.0, 2.0), Point(2.0, 1.0), False),
        (Plain([1]), Plain([1]), True),
        (Plain([1]), Plain([2]), False),
    ],
)
def test_values_of_all_kinds(one, other, equal):
    left, right, _ = match([row_of(one)], [row_of(other)], 0.0, ordered=True)
    assert (not left and not right) is equal


def test_order_counts_where_it_is_promised():
    def version(reverse: bool, partitions: int = 1) -> Application:
        return in_a_row(
            Application("pairs"),
            source=ListInput(Pair, [("a", 1.0), ("b", 2.0)]),
            back=(Back(reverse=reverse), {"partitions": partitions}),
            sink=CollectorSink(Pair),
        )

    result = compare_runs(version(False), version(True))
    assert [one.moved for one in result.differences] == [True]
    assert "the same tuples in another order" in str(result)
    assert "first A has key='a', value=1.0" in str(result)
    assert compare_runs(version(False), version(True), ordered=False).equal
    assert compare_runs(version(False, 2), version(True, 2)).equal


class Back(Operator):
    pairs = InputPort(Pair)
    back = OutputPort(Pair)

    reverse: bool = False

    def begin_window(self, window_id: int) -> None:
        self.kept: list[Pair] = []

    @pairs.process
    def keep(self, pair: Pair) -> None:
        self.kept.append(pair)

    def end_window(self) -> None:
        for pair in reversed(self.kept) if self.reverse else self.kept:
            self.back.emit(pair)


class Cheap(Module):
    pairs = InputPort(Pair)
    cheap = OutputPort(Pair)

    limit: float = 10.0

    def populate(self, app: Application) -> None:
        limit = self.limit
        kept = app.add_operator("kept", Filter[Pair](lambda pair: pair.value < limit))
        self.pairs.connect(kept.data)
        self.cheap.connect(kept.output)


def in_module(limit: float, *, doubled: bool = False) -> Application:
    app = Application("pairs")
    source = app.add_operator("source", ListInput(Pair, [("a", 1.0), END_WINDOW, ("a", 5.0), ("b", 2.0)]))
    cheap = app.add_module("cheap", Cheap(limit=limit))
    sink = app.add_operator("sink", CollectorSink(Pair))
    app.add_stream("pairs", source.output, cheap.pairs, locality="CONTAINER_LOCAL")
    if doubled:
        double = app.add_operator("double", Map(lambda pair: pair, schema=Pair))
        app.add_stream("cheap", cheap.cheap, double.data)
        app.add_stream("doubled", double.output, sink.input)
    else:
        app.add_stream("cheap", cheap.cheap, sink.input)
    return app


def test_a_list_plays_an_input_inside_of_a_module_whose_properties_are_kept():
    class Dice(Module):
        output = OutputPort(RandomInteger)

        def populate(self, app: Application) -> None:
            self.output.connect(app.add_operator("src", RandomEventGenerator()).integer_data)

    app, storage = Application("inside"), MemoryStorage()
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("rolls", app.add_module("m", Dice()).output, sink.input)
    run_local(app, checkpoint=storage, windows=1, properties={"m.src.tuples_per_window": 2})
    assert run_local(app, checkpoint=storage, inputs={"m.src": [(7,)] * 3}).collected("sink") == [
        {"value": 7}
    ]


def test_names_that_nobody_has_are_refused():
    with pytest.raises(RidgelineError, match=r"no stream begins at `cheap.keptt`.*did you mean `cheap.kept`"):
        compare_runs(in_module(1.0), in_module(1.0), only=["cheap.keptt"])


def test_two_versions_are_compared_over_a_recording(tmp_path, monkeypatch):
    take, runs = ApplicationRun.take_changes, list[ApplicationRun]()

    def recording(run: ApplicationRun, **more: Any) -> None:
        if not runs:
            runs.append(run)
            run.changes.ask(begins(run, ("source", None), {}, "test"), "test")
        take(run, **more)

    with monkeypatch.context() as patched:
        patched.setattr(ApplicationRun, "take_changes", recording)
        run_local(in_module(10.0), checkpoint=tmp_path)
    [row] = rows(runs[0])
    assert (row["state"], row["ports"], row["firstWindow"], row["reason"]) == ("RECORDING", ["output"], 0, "")
    [folder] = tmp_path.glob("recordings/*/output")
    items = recorded(folder, Pair)
    assert items == in_module(10.0).operators[0].operator.items
    result = compare_runs(in_module(10.0), in_module(3.0), inputs={"source": items})
    assert [(one.window, one.operator) for one in result.differences] == [(1, "cheap.kept")]
    with pytest.raises(RidgelineError, match="no recorded tuples"):
        recorded(tmp_path, Pair)
    with pytest.raises(RidgelineError, match="no column `count`"):
        recorded(folder, pa.schema([("count", pa.int64())]))
