"""Tuples with lists of tuples: beside a plain loop, by size and by the clock, in partitions, over faults."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.operators import BatchUp
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

START = datetime(2026, 3, 29, tzinfo=UTC)


class Event(NamedTuple):
    key: str | None
    number: int
    time: datetime


def events(windows: Sequence[Sequence[str | None]]) -> list[list[Event]]:
    count = iter(range(10_000))
    return [
        [Event(key, next(count), START + timedelta(seconds=number)) for key in window]
        for number, window in enumerate(windows)
    ]


def run(windows: Any, operator: Any, partitions: int = 1, **options: Any) -> list[tuple[Any, ...]]:
    app = Application("batches", window="1s")
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source = app.read("source", ListInput(Event, items, "time", lateness="5s"))
    source.process("batches", operator, partitions=partitions).write("sink", CollectorSink())
    rows = run_local(app, **options).collected("sink")
    return [(row.get("key", ()), tuple(Event(**one) for one in row["rows"])) for row in rows]


def batches(
    windows: Any, size: int, after: int | None, *, keyed: bool
) -> list[tuple[Any, tuple[Event, ...]]]:
    """A plain loop over windows of one second by the clock."""
    held: dict[Any, list[tuple[int, Event]]] = defaultdict(list)
    found = []
    for number, window in enumerate(windows):
        for event in window:
            held[event.key if keyed else ()].append((number, event))
        for key, own in held.items():
            while len(own) >= size or (own and after is not None and number - own[0][0] >= after):
                found.append((key, tuple(event for _, event in own[:size])))
                del own[:size]
    found += [(key, tuple(event for _, event in own)) for key, own in held.items() if own]
    return found


WINDOWS = st.lists(st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=7), max_size=9)


@settings(deadline=None, max_examples=deep(8), suppress_health_check=[HealthCheck.too_slow])
@given(WINDOWS, st.integers(1, 6), st.sampled_from([None, 1, 3]))
def test_equals_a_loop(windows: Any, size: int, after: int | None) -> None:
    rows = events(windows)
    assert run(rows, BatchUp(size, after)) == batches(rows, size, after, keyed=False)
    expected = Counter(batches(rows, size, after, keyed=True))
    for partitions in (1, 2, 3, 5):
        assert Counter(run(rows, BatchUp(size, after, "key"), partitions)) == expected


def test_each_partition_has_batches_of_its_own() -> None:
    rows = events([["a"] * 10] * 5)
    found = run(rows, BatchUp(4), 3)
    assert sorted(event.number for _, own in found for event in own) == list(range(50))
    assert sum(len(own) < 4 for _, own in found) <= 3
    assert all([event.number for event in own] == sorted(event.number for event in own) for _, own in found)


MANY = events([[f"k{(n * 3 + m) % 5}" for m in range(n % 4)] for n in range(24)])


def test_partitions_change_while_it_runs() -> None:
    changes = {
        3: [Repartition("batches", 3)],
        9: [Repartition("batches", 2)],
        15: [Repartition("batches", 5)],
    }
    found = run(MANY, BatchUp(3, "4s", "key"), changes=changes)
    numbers = sorted(event.number for _, own in found for event in own)
    assert numbers == [event.number for window in MANY for event in window]
    assert all({event.key for event in own} == {key} and len(own) <= 3 for key, own in found)
