"""Sliding application windows over states that merge: `State(..., scope="window", merge=...)`."""

from __future__ import annotations

from collections import Counter
from operator import add
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import (
    Application,
    InputPort,
    KeyedState,
    ListState,
    Operator,
    OutputPort,
    State,
    StateError,
    ValidationError,
)
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.testing import ABORT, END_WINDOW, CollectorSink, ListInput, LocalRun, run_local
from support.depth import deep
from support.rows import in_a_row


class Pair(NamedTuple):
    key: str
    value: int


class Seen(NamedTuple):
    key: str
    value: int
    first: int
    names: str


def joined(older: set[str], newer: set[str]) -> set[str]:
    """Changes the older one in place, as authors do."""
    older |= newer
    return older


class Totals(Operator):
    """Sums by key; the first value and all keys of the window with each."""

    pairs = InputPort(Pair, key="key")
    totals = OutputPort(Seen)

    sums = KeyedState(int, key=str, default=0, scope="window", merge=add)
    names = State(set(), scope="window", merge=joined)
    values = ListState(int, scope="window")

    @pairs.process
    def add(self, pair: Pair) -> None:
        self.sums[pair.key] += pair.value
        self.names.add(pair.key)
        self.values.append(pair.value)

    def end_window(self) -> None:
        for key, total in self.sums.items():
            self.totals.emit(Seen(key, total, self.values[0], "".join(sorted(self.names))))
        self.sums.clear()
        self.names = {"gone with the slide"}


def application(windows: list[list[Pair]], *, kills: bool = False, **attributes: Any) -> Application:
    app = Application("merging", window="1s")
    items = [item for window in windows for item in (*window, *[ABORT] * kills, END_WINDOW)][:-1]
    source = app.add_operator("source", ListInput(Pair, items))
    totals = app.add_operator("totals", Totals(), **attributes)
    app.add_stream("pairs", source.output, totals.pairs)
    app.add_stream("totals", totals.totals, app.add_operator("sink", CollectorSink(Seen)).input)
    return app


def found(run: LocalRun) -> dict[int, Counter[Seen]]:
    return {window: Counter(run.collected("sink", window)) for window in run.window_ids}


def by_hand(windows: list[list[Pair]], count: int, slide: int) -> dict[int, Counter[Seen]]:
    """With one partition."""
    results: dict[int, Counter[Seen]] = {window: Counter() for window in range(len(windows))}
    last = len(windows) - 1
    for end in range(len(windows)):
        closes = (end + 1) % slide == 0
        if not (closes and end + 1 >= count) and end != last:
            continue
        slide_end = end - end % slide + slide
        pairs = [pair for window in windows[max(0, slide_end - count) : end + 1] for pair in window]
        sums: Counter[str] = Counter()
        for key, value in pairs:
            sums[key] += value
        names = "".join(sorted(sums))
        results[end] = Counter(Seen(key, total, pairs[0].value, names) for key, total in sums.items())
    return results


WINDOWS = st.lists(
    st.lists(st.builds(Pair, st.sampled_from("abc"), st.integers(-9, 9)), max_size=6), min_size=1, max_size=9
)
SHAPES = st.sampled_from([(2, 1), (3, 1), (4, 2), (6, 3), (6, 2), (9, 3)])


@pytest.mark.guide("002", "Sliding Application Window")
@settings(max_examples=deep(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(WINDOWS, SHAPES, st.booleans(), st.integers(1, 3))
def test_states_of_all_slides_are_merged(
    windows: list[list[Pair]], shape: tuple[int, int], kills: bool, in_flight: int
) -> None:
    count, slide = shape
    windows = [*windows, [Pair("z", 1)]]
    app = application(windows, kills=kills, application_window_count=count, slide_by_window_count=slide)
    run = run_local(app, attributes={"windows_in_flight": str(in_flight)})
    assert found(run) == by_hand(windows, count, slide)


def test_an_application_that_slides_otherwise_begins_anew() -> None:
    pairs = [[Pair("a", 1)]] * 24
    storage = MemoryStorage()
    run_local(
        application(pairs, application_window_count=6, slide_by_window_count=2), checkpoint=storage, windows=8
    )
    other = run_local(
        application(pairs, application_window_count=8, slide_by_window_count=4), checkpoint=storage
    )
    results = {end: row.value for end, rows in found(other).items() for row in rows}
    assert results == {19: 8, 23: 8}  # of slides that it has seen as a whole
    plain = application(pairs, application_window_count=6)
    assert found(run_local(plain, checkpoint=MemoryStorage()))[5] == Counter([Seen("a", 6, 1, "a")])


def test_what_cannot_merge_is_refused() -> None:
    class Lasting(Totals):
        more = State(0, scope="window")

    app = Application("merging")
    source = app.add_operator("source", ListInput(Pair, []))
    slides = {"application_window_count": 6, "slide_by_window_count": 2}
    lasting = app.add_operator("totals", Lasting(), **slides)
    app.add_stream("pairs", source.output, lasting.pairs)
    app.add_stream("totals", lasting.totals, app.add_operator("sink", CollectorSink(Seen)).input)
    with pytest.raises(
        ValidationError, match=r"say how its states merge, `State\(..., scope=\"window\", merge="
    ):
        run_local(app)
    with pytest.raises(StateError, match=r"give a function of two values, and `scope=\"window\"`"):
        State(0, merge=add)
    with pytest.raises(StateError, match="leave `ttl` out"):
        KeyedState(int, scope="window", ttl="1s", merge=add)


def test_a_merge_that_forgets_to_return_says_so() -> None:
    class Forgets(Totals):
        names = State(set(), scope="window", merge=lambda older, newer: older.update(newer))

    app = in_a_row(
        Application("merging"),
        source=ListInput(Pair, [Pair("a", 1), END_WINDOW, Pair("b", 1)]),
        totals=(Forgets(), {"application_window_count": 2, "slide_by_window_count": 1}),
        sink=CollectorSink(Seen),
    )
    with pytest.raises(Exception, match="`merge` of the state `names` has returned None"):
        run_local(app)
