"""Kill or overtake drivers of a `FileOutput` at every single step: readers see each row once."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.api.errors import FencedError
from ridgeline.operators import FileOutput
from support.operators.publishing import (
    Driver,
    KilledError,
    Life,
    Steps,
    Store,
    die_at_any_step,
    read,
    visible,
)

pytestmark = pytest.mark.slow
WINDOWS = 4


def run(store: Store, output: FileOutput, steps: Steps) -> None:
    """A driver's whole life: windows, a pause in which no window runs, and an orderly end."""
    driver = Driver(store, output, steps)
    while len(store.manifests) < WINDOWS:
        driver.window()
        if len(store.manifests) == WINDOWS - 1:
            store.clock.seconds += 5
            driver.publisher.idle()
    driver.publisher.close()


class Reader:
    """Looks at the folder at every step; `takes` files away that the marker covers."""

    def __init__(self, store: Store, *, takes: bool) -> None:
        self.store, self.takes = store, takes
        self.taken: list[int] = []
        self.read_before: dict[tuple[str, int], list[int]] = {}

    def look(self) -> None:
        folder = self.store.folder
        seen = visible(folder, self.read_before)
        assert len(set(seen + self.taken)) == len(seen + self.taken)
        assert set(seen) <= set(self.store.committed)
        marked = max(
            (int(path.name.removeprefix("published-")) for path in folder.rglob("published-*")), default=-1
        )
        for file in folder.glob("out-*") if self.takes else ():
            if int(file.stem.rpartition("-")[2]) <= marked:
                self.taken += read(file)
                file.unlink()

    def finish(self) -> None:
        self.look()
        assert sorted(self.taken + visible(self.store.folder)) == list(range(WINDOWS * self.store.partitions))


@pytest.mark.guide("004", "Exactly-Once")
@pytest.mark.parametrize(
    ("format", "partitions", "roll", "copying", "takes"),
    [
        ("parquet", 1, 1, False, False),
        ("jsonl", 2, 1, False, True),
        ("jsonl", 1, 0, False, True),
        ("jsonl", 1, 2, True, False),
        ("jsonl", 2, 0, True, False),
    ],
)
def test_a_driver_that_dies_at_any_step_loses_nothing_and_shows_nothing_twice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: Literal["parquet", "jsonl"],
    partitions: int,
    roll: float,
    copying: bool,
    takes: bool,
) -> None:
    steps = Steps(monkeypatch, copying=copying)

    def make(survive: int) -> Life:
        store = Store(tmp_path / str(survive), partitions)
        output = FileOutput(path=store.folder, format=format, roll_seconds=roll)
        reader = Reader(store, takes=takes)
        return partial(run, store, output, steps), reader.look, reader.finish

    die_at_any_step(steps, make)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    gaps=st.lists(st.integers(0, 25), min_size=2, max_size=8),
    partitions=st.sampled_from([1, 2, 3]),
    copying=st.booleans(),
)
def test_drivers_that_die_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], partitions: int, copying: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        steps = Steps(patch, copying=copying)
        store = Store(tmp_path_factory.mktemp("out") / "out", partitions)
        output = FileOutput(path=store.folder, format="jsonl", roll_seconds=2)
        reader = Reader(store, takes=False)
        for gap in gaps:

            def each(number: int, what: str, gap: int = gap) -> None:
                reader.look()
                if number == gap:
                    raise KilledError(what)

            steps.number, steps.each = 0, each
            try:
                run(store, output, steps)
            except KilledError:
                continue
            break
        steps.each = lambda _number, _what: reader.look()
        run(store, output, steps)
        reader.finish()


@pytest.mark.parametrize(
    ("partitions", "roll", "copying", "takes"),
    [(2, 1, False, True), (1, 0, False, True), (2, 1, True, False), (1, 0, True, False)],
)
@pytest.mark.parametrize("second_life", ["start", "window", "whole"])
def test_a_driver_that_is_overtaken_at_any_step_changes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
    roll: float,
    copying: bool,
    takes: bool,
    second_life: str,
) -> None:
    """Start a second driver right before a step of the first, let it work, then let the first continue."""
    steps = Steps(monkeypatch, copying=copying)
    for moment in range(1000):
        store = Store(tmp_path / str(moment), partitions)
        output = FileOutput(path=store.folder, format="jsonl", roll_seconds=roll)
        reader = Reader(store, takes=takes)

        def each(
            number: int, _what: str, moment: int = moment, store: Store = store, output=output, reader=reader
        ) -> None:
            reader.look()
            if number != moment:
                return
            if second_life == "whole":
                run(store, output, steps)
                return
            second = Driver(store, output, steps)
            if second_life == "window" and len(store.manifests) < WINDOWS:
                second.window()

        steps.number, steps.each = 0, each
        with contextlib.suppress(FencedError):
            run(store, output, steps)
        overtaken = store.epoch > 1
        run(store, output, steps)
        reader.finish()
        if not overtaken:
            break
    assert 20 < moment < 999


@pytest.mark.parametrize("before", ["writing merged", "move merged", "commit", "touch rolling"])
def test_a_driver_that_is_overtaken_by_one_that_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """Stop the first driver before a step, kill the second at each of its steps, let the first continue."""
    steps = Steps(monkeypatch)
    for survive in range(1000):
        store = Store(tmp_path / str(survive), 2)
        output = FileOutput(path=store.folder, format="jsonl", roll_seconds=1)
        reader = Reader(store, takes=True)
        died = False

        def second_life(number: int, what: str, survive: int = survive, reader: Reader = reader) -> None:
            reader.look()
            if number == survive:
                raise KilledError(what)

        def each(
            _number: int,
            what: str,
            store: Store = store,
            output=output,
            reader=reader,
            second_life=second_life,
        ) -> None:
            nonlocal died
            reader.look()
            if not what.startswith(before) or len(store.manifests) < 1 or store.epoch > 1:
                return
            steps.number, steps.each = 0, second_life
            try:
                run(store, output, steps)
            except KilledError:
                died = True
            steps.each = lambda _number, _what: reader.look()

        steps.number, steps.each = 0, each
        with contextlib.suppress(FencedError):
            run(store, output, steps)
        assert store.epoch > 1
        run(store, output, steps)
        reader.finish()
        if not died:
            break
    assert 10 < survive < 999
