"""Sliding application windows, `slide_by_window_count`: tables by hand, partitions, kills and restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ridgeline import (
    Application,
    InputPort,
    Operator,
    OutputPort,
    RoundRobinPartitioner,
    State,
    Unifier,
    ValidationError,
)
from ridgeline.engine.container.samples import ports_of_stream
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import Filter, SumKeyVal, TopN
from ridgeline.plan import plan_application
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.engine.on_spark import run_on_spark
from support.rows import in_a_row
from support.testing.shares import share


class Pair(NamedTuple):
    key: str
    value: int


class Total(NamedTuple):
    value: int


class Add(Unifier):
    """Emits in each application window, be there tuples in it or not."""

    input = InputPort(Total)
    output = OutputPort(Total)

    total = State(0, scope="window")

    @input.process
    def add(self, part: Total) -> None:
        self.total += part.value

    def end_window(self) -> None:
        self.output.emit(Total(self.total))


class Sum(Operator):
    """The sum of the window's numbers; with `early`, each number by itself."""

    numbers = InputPort(Total)
    sums = OutputPort(Total, unifier=Add)
    negative = OutputPort(Total, error=True, optional=True)

    early: bool = False

    total = State(0, scope="window")

    @numbers.process
    def add(self, number: Total) -> None:
        if number.value < 0:
            self.negative.emit(number)
        elif self.early:
            self.sums.emit(number)
        else:
            self.total += number.value

    def end_window(self) -> None:
        if not self.early:
            self.sums.emit(Total(self.total))


def by_window(windows: list[list[Any]], *, kills: bool = False) -> list[Any]:
    return [item for window in windows for item in (*window, *[ABORT] * kills, END_WINDOW)][:-1]


def sliding(
    windows: list[list[int]], operator: Any = None, kills: bool = False, **attributes: Any
) -> Application:
    numbers = [[Total(number) for number in window] for window in windows]
    if "partitions" in attributes:
        attributes["partitioner"] = RoundRobinPartitioner()
    return in_a_row(
        Application("sliding", window="1s"),
        source=ListInput(Total, by_window(numbers, kills=kills)),
        sum=(operator or Sum(), attributes),
        sink=CollectorSink(Total),
    )


def sums(run: LocalRun) -> dict[int, list[int]]:
    """What the sink got, by window; windows without tuples are left out."""
    found = {window: [total.value for total in run.collected("sink", window)] for window in run.window_ids}
    return {window: values for window, values in found.items() if values}


SIX_BY_TWO = {"application_window_count": 6, "slide_by_window_count": 2}
COUNTING = [[number] for number in range(1, 13)]
BY_HAND = [
    (5, 1, {4: [15], 5: [20], 6: [25], 7: [30], 8: [35], 9: [40], 10: [45], 11: [50]}),
    (4, 2, {3: [10], 5: [18], 7: [26], 9: [34], 11: [42]}),
    (6, 3, {5: [21], 8: [39], 11: [57]}),
    (6, 2, {5: [21], 7: [33], 9: [45], 11: [57]}),
]


@pytest.mark.guide("002", "Sliding Application Window")
@pytest.mark.parametrize(("case", "interleave", "partitions"), share(3, BY_HAND[1:4], [None, 7], [1, 2, 3]))
def test_slides_survive_kills_in_every_window(case: Any, interleave: int | None, partitions: int) -> None:
    count, slide, expected = case
    slides = {"application_window_count": count, "slide_by_window_count": slide, "partitions": partitions}
    app = sliding(COUNTING, Sum(early=True), kills=True, **slides)
    run = run_local(app, interleave=interleave)
    assert sums(run) == expected
    assert run.retries


@pytest.mark.parametrize(("case", "windows"), share(2, BY_HAND[:4], [1, 5]))
def test_slides_survive_the_driver_in_every_window(case: Any, windows: int) -> None:
    count, slide, expected = case
    storage, found = MemoryStorage(), {}
    slides = {"application_window_count": count, "slide_by_window_count": slide, "partitions": 2}
    while len(found) < len(expected):
        app = sliding(COUNTING, Sum(early=True), **slides)
        found |= sums(run_local(app, checkpoint=storage, windows=windows))
    assert found == expected


@pytest.mark.guide("004", "Streaming Window vs Application Window")
@pytest.mark.parametrize("count", [2, 3, 4])
def test_tuples_that_wait_in_a_unifier_survive_the_death_of_containers(count: int) -> None:
    shape = {"application_window_count": count, "partitions": 3}
    killed = run_local(sliding(COUNTING, Sum(early=True), kills=True, **shape))
    assert len(killed.retries) == len(COUNTING)
    assert sums(killed) == {
        end: [sum(range(end - count + 2, end + 2))] for end in range(count - 1, len(COUNTING), count)
    }


@pytest.mark.spark
def test_it_slides_on_spark(spark_context: Any, tmp_path: Path) -> None:
    app = sliding(COUNTING, **SIX_BY_TWO, partitions=2)
    run = run_on_spark(app, spark_context, tmp_path / "checkpoint")
    assert [total.value for total in run.collected("sink")] == [21, 33, 45, 57]
    own = [node for node in run.run.plan.physical.operators if node.slider]
    assert [node.title for node in own] == ["sum.sums#slider[0]", "sum.sums#slider[1]"]


class Keeps(Add):
    total = State(0)


class SumKeeping(Sum):
    sums = OutputPort(Total, unifier=Keeps)


class SumBare(Sum):
    sums = OutputPort(Total)


@pytest.mark.parametrize(
    ("operator", "attributes", "fault"),
    [
        (Sum(), {**SIX_BY_TWO, "slide_by_window_count": 4}, "6 windows; got 4; give one of 1, 2, 3"),
        (Sum(), {**SIX_BY_TWO, "slide_by_window_count": 6}, "6 windows; got 6; give one of 1, 2, 3"),
        (Sum(), {"application_window": "5s", "slide_by_window_count": 2}, "5 windows; got 2; give 1"),
        (Sum(), {"slide_by_window_count": 1}, "1 windows; got 1; give an `application_window_count`"),
        (Sum(), {"slide_by_window_count": 0}, "must be at least 1; got 0"),
        (SumBare(), SIX_BY_TWO, "nothing merges the results of several windows of `SumBare`; give the port"),
        (SumKeeping(), SIX_BY_TWO, "`Keeps` keeps `total` over windows, but gets tuples in several; declare"),
    ],
)
def test_what_cannot_slide_is_a_fault(operator: Any, attributes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError) as error:
        plan_application(sliding([], operator, **attributes))
    assert fault in str(error.value)


@pytest.mark.parametrize(
    "operator", [SumKeyVal(cumulative=True), TopN(by="value", keyed=True), Filter(predicate=bool)]
)
def test_library_operators_without_results_of_windows_do_not_slide(operator: Any) -> None:
    app = in_a_row(
        Application("slides"),
        source=ListInput(Pair, []),
        operator=(operator, SIX_BY_TWO),
        sink=CollectorSink(),
    )
    with pytest.raises(ValidationError, match="nothing merges the results of several windows"):
        plan_application(app)


class Fails(Sum):
    """Fails at the end of the window with 4."""

    def end_window(self) -> None:
        if self.total == 4:
            raise ValueError("four")
        super().end_window()


class AddOrFail(Add):
    """Fails at the end of the window with 4."""

    def end_window(self) -> None:
        if self.total == 4 + 5 + 6:
            raise ValueError("four")
        super().end_window()


class SumOrFail(Sum):
    sums = OutputPort(Total, unifier=AddOrFail)


SLIDES = {2: [6], 3: [5], 4: [8], 5: [11], 6: [18], 7: [21], 8: [24]}


@pytest.mark.parametrize(
    ("operator", "shape", "expected"),
    [
        (Fails(), {"slide_by_window_count": 1}, SLIDES),
        (Fails(), {"slide_by_window_count": 1, "partitions": 2}, SLIDES),
        (SumOrFail(early=True), {"partitions": 2}, {2: [6], 8: [24]}),
    ],
)
def test_a_window_that_is_lost_is_missing_where_it_belongs_only(
    operator: Sum, shape: dict[str, Any], expected: dict[int, list[int]]
) -> None:
    app = sliding(COUNTING[:9], operator, application_window_count=3, **shape)
    assert sums(run_local(app, attributes={"processing_mode": "AT_MOST_ONCE"})) == expected


def test_a_stream_of_slides_is_what_sliders_emit() -> None:
    plan = plan_application(sliding(COUNTING, partitions=2, **SIX_BY_TWO))
    ports, _ = ports_of_stream(plan, "sum")
    assert [(plan.physical.operator(one).title, port) for one, port in ports] == [
        ("sum.sums#slider[0]", "output"),
        ("sum.sums#slider[1]", "output"),
    ]
