"""Joins of streams by key: the same results with any number of partitions."""

from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.api import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import SumUnifier
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep


class Row(NamedTuple):
    key: str
    value: int


class Pairing(Operator):
    """Sum the newest values of each key that came in the application window; order does not matter."""

    one = InputPort(Row, key="key")
    two = InputPort(Row, key="key", optional=True)
    three = InputPort(Row, key=lambda row: row.key, optional=True)
    all = InputPort(Row, optional=True)
    joined = OutputPort(Row, unifier=SumUnifier)

    greatest = KeyedState(dict, default=dict)

    @one.process
    def on_one(self, row: Row) -> None:
        self.note(1, row)

    @two.process
    def on_two(self, row: Row) -> None:
        self.note(2, row)

    @three.process
    def on_three(self, row: Row) -> None:
        self.note(3, row)

    @all.process
    def on_all(self, row: Row) -> None:
        if row.key in self.greatest:
            self.note(4, row)

    def note(self, port: int, row: Row) -> None:
        known = self.greatest[row.key]
        self.greatest[row.key] = {**known, port: max(row.value, known.get(port, -99))}

    def end_window(self) -> None:
        for key, values in self.greatest.changed():
            self.joined.emit(Row(key, sum(values.values())))


ROWS = st.lists(
    st.lists(st.builds(Row, st.sampled_from("abcdefg"), st.integers(-9, 9)), max_size=6),
    min_size=1,
    max_size=4,
)
COUNTS = st.sampled_from([1, 2, 3, 5])


class Wiring(NamedTuple):
    """The streams to a join's ports (the first two are inputs), its partitions and application window."""

    ports: tuple[int, int, int]
    partitions: int
    window_count: int
    unifier_limit: int | None


JOINS = st.lists(
    st.builds(
        Wiring,
        st.tuples(st.integers(0, 4), st.integers(-1, 4), st.integers(-1, 4)),
        COUNTS,
        st.sampled_from([1, 2]),
        st.sampled_from([None, 2]),
    ),
    min_size=1,
    max_size=3,
)


def wired(
    left: list[list[Row]], right: list[list[Row]], joins: list[Wiring], sources: int, *, single: bool
) -> list[Counter[Row]]:
    """What the last join emits in each window. `single`: all of it in one partition."""
    app = Application("joins", window="1s")
    outputs: list[Any] = []
    for name, windows in (("left", left), ("right", right)):
        items = [item for window in windows for item in (*window, END_WINDOW)]
        source = app.add_operator(name, ListInput(Row, items), partitions=1 if single else sources)
        outputs.append(source.output)
    entering: list[list[Any]] = [[], []]
    for number, wiring in enumerate(joins):
        attributes: dict[str, Any] = (
            {} if single else {"partitions": wiring.partitions, "unifier_limit": wiring.unifier_limit}
        )
        join = app.add_operator(
            f"join{number}", Pairing(), application_window_count=wiring.window_count, **attributes
        )
        for port, stream in zip(("one", "two", "three"), wiring.ports, strict=True):
            if stream >= 0:
                entering[stream % len(outputs)].append(getattr(join, port))
        outputs.append(join.joined)
        entering.append([])
    entering[-1].append(app.add_operator("sink", CollectorSink(Row)).input)
    for number, (output, ports) in enumerate(zip(outputs, entering, strict=True)):
        if ports:
            app.add_stream(f"stream{number}", output, *ports)
        elif number > 1:
            app.add_stream(
                f"stream{number}", output, app.add_operator(f"sink{number}", CollectorSink(Row)).input
            )
        else:
            app.add_stream(
                f"stream{number}", output, app.add_operator(f"unused{number}", CollectorSink(Row)).input
            )
    run = run_local(app)
    return [Counter(run.collected("sink", window)) for window in run.window_ids]


@pytest.mark.guide("002", "Single vs Multi-Input Operator")
@pytest.mark.guide("004", "Single vs Multiple Inputs")
@pytest.mark.guide("004", "Joins")
@settings(deadline=None, max_examples=deep(10), suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, ROWS, JOINS, COUNTS)
def test_joins_of_joins_give_the_same_with_any_partitions(
    left: list[list[Row]], right: list[list[Row]], joins: list[Wiring], sources: int
) -> None:
    assert wired(left, right, joins, sources, single=False) == wired(left, right, joins, sources, single=True)
