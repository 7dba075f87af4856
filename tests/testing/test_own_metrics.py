"""Metrics that operators declare: exact, over partitions, application windows, kills and restarts."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application, InputPort, Metric, Operator, OperatorError, OutputPort, State, metric
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, run_local
from support.engine.containers import ByHand
from support.plan.faulty import are

NOTHING = 1_000


def spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


class Measured(Operator):
    numbers = InputPort(object)
    out = OutputPort(object)

    count = Metric(0, kind="counter", help="Numbers.", unit="records")
    greatest = Metric(-1, aggregate="max")
    least = Metric(NOTHING, aggregate="min")
    constant = Metric(2.5, aggregate="mean")
    spread = Metric(1, aggregate=spread)
    ever = State(0)
    here = State(0, scope="window")

    @numbers.process
    def add(self, number: int) -> None:
        self.count += 1
        self.ever += 1
        self.here += number
        self.greatest = max(self.greatest, number)
        self.least = min(self.least, number)
        self.out.emit(number)

    @metric(kind="counter", cumulative=True)
    def seen(self) -> int:
        return self.ever

    @metric()
    def in_window(self) -> int | None:
        return self.here or None


def application(windows: list[list[Any]], operator: Operator | None = None, **attributes: Any) -> Application:
    app = Application("measured", window="500ms")
    items = [item for window in windows for item in (*window, END_WINDOW)][:-1]
    source = app.add_operator("source", ListInput(object, items))
    step = app.add_operator("step", operator or Measured(), **attributes)
    app.add_stream("numbers", source.output, step.numbers)
    app.add_stream("out", step.out, app.add_operator("sink", CollectorSink(object)).input)
    return app


def by_hand(windows: list[list[int]], width: int) -> dict[str, list[float]]:
    """The values of all metrics in each application window."""
    groups = [list(chain(*windows[first : first + width])) for first in range(0, len(windows), width)]
    so_far = [sum(map(len, groups[: number + 1])) for number in range(len(groups))]
    return {
        "count": list(map(len, groups)),
        "greatest": [max([-1, *group]) for group in groups],
        "least": [min([NOTHING, *group]) for group in groups],
        "constant": [2.5] * len(groups),
        "spread": [0] * len(groups),
        "seen": list(so_far),
        "in_window": [sum(group) for group in groups if sum(group)],
    }


def values(run: Any, name: str) -> list[float]:
    return run.metric_history("step", name)["value"].to_pylist()  # type: ignore[no-any-return]


@given(
    windows=st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=1, max_size=7),
    partitions=st.integers(1, 3),
    width=st.integers(1, 3),
    killed=st.sets(st.integers(0, 6)),
    seed=st.none() | st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_all_values_are_those_by_hand_whatever_the_partitions_and_kills(
    windows: list[list[int]], partitions: int, width: int, killed: set[int], seed: int | None
) -> None:
    windows = [*windows, [50]]
    given_windows = [[*one, ABORT] if number in killed else one for number, one in enumerate(windows)]
    app = application(given_windows, partitions=partitions, application_window_count=width)
    run = run_local(app, interleave=seed)
    expected = by_hand(windows, width)
    assert {name: values(run, name) for name in expected} == expected
    rows = {row["metric"]: row for row in run.metrics().to_pylist()}
    assert rows["count"]["total"] == rows["seen"]["total"] == sum(map(len, windows))
    assert all(len(row["partitions"]) == partitions for row in rows.values())


class Declares(Operator):
    numbers = InputPort(object)
    out = OutputPort(object)
    kind = "none"
    field = Metric(0)
    counter = Metric(0, kind="counter")

    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.wrong = wrong

    @numbers.process
    def take(self, number: int) -> None:
        if self.wrong == "nan":
            self.field = math.nan
        elif self.wrong == "text":
            self.field = "5"  # type: ignore[assignment]
        elif self.wrong == "wide":
            self.field = 2**63
        elif self.wrong == "falls":
            self.counter -= 1

    @metric()
    def method(self) -> float:
        if self.wrong == "emits":
            self.out.emit(1)
        return 1 / 0 if self.wrong == "raises" else 1


@pytest.mark.parametrize(
    ("wrong", "name", "text"),
    [
        ("nan", "field", "finite number; got nan"),
        ("text", "field", "got '5', a `str`"),
        ("wide", "field", "at most 64 bits"),
        ("falls", "counter", "never falls; got -1"),
        ("emits", "method", "has emitted; emit in `end_window`"),
        ("raises", "method", "ZeroDivisionError"),
    ],
)
def test_what_is_no_value_names_operator_window_and_metric(wrong: str, name: str, text: str) -> None:
    with pytest.raises(OperatorError) as raised:
        run_local(application([[1]], Declares(wrong)))
    failure = raised.value.failure
    assert (failure.operator, failure.window_id, failure.callback) == ("step", 0, f"metric `{name}`")
    assert text in failure.error


def test_an_aggregate_that_raises_costs_its_value_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_values: Sequence[float]) -> float:
        raise ValueError("no")

    class Fails(Measured):
        spread = Metric(0, aggregate=fails)

    run = run_local(application([[1], [2]], Fails()))
    rows = {row["metric"]: row for row in run.metrics().to_pylist()}
    assert rows["spread"]["value"] is None
    assert rows["spread"]["problem"] == "its aggregate `fails` has failed: ValueError: no"
    assert rows["count"]["total"] == 2
    assert are(
        [line for line in caplog.messages if "step.spread" in line],
        ["metric `step.spread` has no value for window 0: ... has failed: ValueError: no"],
    )


def test_what_a_tuple_that_is_skipped_did_to_a_metric_is_taken_back() -> None:
    class Fussy(Measured):
        @Measured.numbers.process
        def add(self, number: int) -> None:
            super().add(number)
            if number % 2:
                raise ValueError("odd")

    run = run_local(application([[1, 2, 3], [4, 5]], Fussy(), on_error="SKIP"))
    assert values(run, "count") == [1, 1]
    assert values(run, "greatest") == [2, 4]


def test_an_unknown_metric_is_named() -> None:
    run = run_local(application([[1]]))
    with pytest.raises(KeyError, match=r"did you mean `step\.greatest`"):
        run.metric_history("step", "greates")
    with pytest.raises(KeyError, match="declares no metrics"):
        run.metrics("source")


def test_fields_within_an_application_window_survive_compactions_and_new_processes() -> None:
    containers = ByHand(application([[1, 2], [3], [4], [5]], application_window_count=3))
    found = []
    for window in range(4):
        reports = containers.attempt()
        containers.keep(reports)
        found.append(dict(containers.report(reports, "step").metrics))
        containers.merge("step")
        if window % 2:
            containers.die()
    assert [values.get("count") for values in found] == [None, None, 4, None]
    assert (found[2]["greatest"], found[2]["least"], found[2]["in_window"], found[2]["seen"]) == (4, 1, 10, 4)
