"""Deduplication by Bloom filters: no duplicate passes, errors as rare as said, bounded, over faults."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, ValidationError
from ridgeline.operators import DeduplicateBloom
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.depth import deep
from support.testing.shares import share

START = datetime(2026, 3, 29, tzinfo=UTC)


class Event(NamedTuple):
    key: str | None
    number: int
    time: datetime


def events(windows: Sequence[Sequence[str | None]]) -> list[list[Event]]:
    count = iter(range(10**6))
    return [
        [Event(key, next(count), START + timedelta(seconds=number)) for key in window]
        for number, window in enumerate(windows)
    ]


def run(windows: Any, operator: Any, partitions: int = 1, **options: Any) -> tuple[list[Event], list[Event]]:
    app = Application("once", window="1s")
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source = app.read("source", ListInput(Event, items, "time", lateness="0s"))
    once = source.process("once", operator, partitions=partitions)
    once.output.write("sink", CollectorSink(Event))
    once.duplicates.write("duplicates", CollectorSink(Event))
    found = run_local(app, **options)
    return found.collected("sink"), found.collected("duplicates")


WINDOWS = st.lists(st.lists(st.sampled_from([None, "", *"abcdefgh"]), max_size=9), max_size=9)


@settings(deadline=None, max_examples=deep(5), suppress_health_check=[HealthCheck.too_slow])
@given(WINDOWS)
def test_equals_a_set_where_errors_are_next_to_impossible(windows: Any) -> None:
    rows = events(windows)
    every = [row for window in rows for row in window]
    seen: set[str | None] = set()
    firsts = [row for row in every if not (row.key in seen or seen.add(row.key))]  # type: ignore[func-returns-value]
    for partitions in (1, 2, 3, 5):
        found, others = run(rows, DeduplicateBloom("key", 100, 1e-9), partitions)
        numbers = {row.number for row in firsts}
        assert {row.number for row in found} == numbers
        assert len(found) == len(numbers)
        assert {row.number for row in others} == {row.number for row in every} - numbers


@pytest.mark.parametrize(
    ("capacity", "error_rate", "kind"),
    share(2, [(4000, 0.01), (20_000, 0.001), (1000, 0.1)], ["text", "number"], spread=True),
)
def test_errors_are_as_rare_as_said(capacity: int, error_rate: float, kind: str) -> None:
    count = 8 * capacity
    keys = [f"key {number}" if kind == "text" else str(number * 7) for number in range(count)]
    chance = random.Random(7)
    windows = []
    for begin in range(0, count, capacity // 2):
        window = keys[begin : begin + capacity // 2]
        # of the newest keys, each comes again
        window += chance.sample(keys[max(0, begin - capacity // 2) : begin + capacity // 2], capacity // 4)
        windows.append(window)
    rows = events(windows)
    found, _ = run(rows, DeduplicateBloom("key", capacity, error_rate))
    passed = [row.key for row in found]
    assert len(passed) == len(set(passed)), "a duplicate has passed"
    # the filters are full most of the time; the standard deviation is sqrt(n * rate)
    errors, most = count - len(passed), count * error_rate
    assert errors <= most + 4 * most**0.5
    assert errors >= most / 8, "it holds more than it must"


def test_memory_is_bounded_and_the_newest_keys_are_remembered() -> None:
    keys = [f"k{number}" for number in range(5000)]
    windows = [keys[begin : begin + 100] for begin in range(0, 5000, 100)]
    operator = DeduplicateBloom("key", 400, 1e-6)
    app = Application("once", window="1s")
    rows = events([*windows, keys[-400:], keys[:400]])
    items = [item for window in rows for item in (*window, END_WINDOW)]
    source = app.read("source", ListInput(Event, items, "time", lateness="0s"))
    source.process("once", operator).output.write("sink", CollectorSink(Event))
    passed = [row.key for row in run_local(app).collected("sink")]
    assert passed == [*keys, *keys[:400]]


@pytest.mark.parametrize(("seed", "by"), share(2, range(3), ["record", "clock"]))
def test_keys_are_forgotten_within_a_time(by: Any, seed: int) -> None:
    chance = random.Random(seed)
    rows = events([[f"k{chance.randrange(12)}" for _ in range(4)] for _ in range(120)])
    found, _ = run(rows, DeduplicateBloom("key", 100_000, 1e-9, "8s", by), 2)
    last: dict[str | None, datetime] = {}
    gaps = []
    for row in found:
        if row.key in last:
            gaps.append((row.time - last[row.key]).total_seconds())
        last[row.key] = row.time
    assert gaps
    assert min(gaps) >= 8
    # a key is passed on again soon after its time: the others come at least every few seconds
    passed = {row.number for row in found}
    when: dict[str | None, datetime] = {}
    for row in (row for window in rows for row in window):
        if row.number in passed:
            when[row.key] = row.time
        else:
            assert (row.time - when[row.key]).total_seconds() <= 8 + 2 + 2


CHANCE = random.Random(1)
MANY = events([[f"k{CHANCE.randrange(60)}" for _ in range(9)] for _ in range(40)])
FIRSTS = {key: row.number for window in reversed(MANY) for row in reversed(window) for key in [row.key]}


@pytest.mark.parametrize("seed", range(deep(2)))
def test_kills_change_nothing(seed: int) -> None:
    found, _ = run(MANY, DeduplicateBloom("key", 120, 1e-9), 2, faults=Faults(seed))
    assert {row.key: row.number for row in found} == FIRSTS
    assert len(found) == len(FIRSTS)


def test_partitions_change_while_it_runs() -> None:
    changes = {window: [Repartition("once", count)] for window, count in {4: 3, 12: 2, 20: 5, 28: 1}.items()}
    found, _ = run(MANY, DeduplicateBloom("key", 400, 1e-9), changes=changes)
    assert {row.key: row.number for row in found} == FIRSTS
    assert len(found) == len(FIRSTS)


@pytest.mark.parametrize(
    ("operator", "what"),
    [
        (lambda: DeduplicateBloom("kee", 100), "did you mean `key`"),
        (lambda: DeduplicateBloom("key", 0), "capacity"),
        (lambda: DeduplicateBloom("key", 100, 0), "error_rate"),
        (lambda: DeduplicateBloom("key", 100, 1.0), "error_rate"),
        (lambda: DeduplicateBloom("key", 100, within="soon"), "must be a number of seconds"),
        (lambda: DeduplicateBloom("key", 100, within=0), "must be more than 0"),
    ],
)
def test_what_does_not_fit_is_a_fault(operator: Any, what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        run([], operator())
