"""Sinks say what came in committed windows, whatever failed meanwhile."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.operators import Filter
from ridgeline.testing import (
    END_WINDOW,
    CountSink,
    Faults,
    FirstLastSink,
    HashSink,
    ListInput,
    NullSink,
    run_local,
)
from support.rows import in_a_row


class Sold(NamedTuple):
    shop: str
    amount: float


SOLD = [Sold("a", 1.0), Sold("b", 2.5), Sold("a", 1.0), Sold("c", float("nan"))]


def run(sink: Any, sold: list[Any], partitions: int = 1, faults: Faults | None = None) -> Any:
    app = in_a_row(
        Application("sold"),
        source=ListInput(Sold, sold),
        every=(Filter[Sold](lambda _sold: True), {"partitions": partitions}),
        sink=(sink, {"partitions": partitions if isinstance(sink, (CountSink, HashSink)) else 1}),
    )
    return run_local(app, faults=faults)


@settings(max_examples=8, deadline=None)
@given(
    order=st.permutations([*SOLD, END_WINDOW, END_WINDOW]),
    partitions=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_hashes_and_counts_depend_on_nothing_but_the_tuples(order: list[Any], partitions: int, seed: int):
    faults = Faults(seed, rate=0.3, quiet=True)
    assert run(CountSink(), order, partitions, faults).result("sink") == len(SOLD)
    assert run(HashSink(), order, partitions, faults).result("sink") == run(HashSink(), SOLD).result("sink")


def test_first_and_last_over_windows_and_drivers():
    sold = [item for one in SOLD[:3] for item in (one, END_WINDOW)]
    faults = Faults(only=["restart w1", "kill w2 sink end"], quiet=True)
    assert run(FirstLastSink(Sold), [END_WINDOW, *sold], faults=faults).result("sink") == (SOLD[0], SOLD[2])
    assert run(FirstLastSink(Sold), []).result("sink") is None
    assert run(NullSink(), SOLD).tuples_in("sink") == len(SOLD)


def test_a_sink_without_a_result_is_named():
    with pytest.raises(KeyError, match="`sinks` has no result; did you mean `sink`"):
        run(CountSink(), SOLD).result("sinks")
