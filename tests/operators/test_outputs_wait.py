"""Publishers whose files are away for a while: calls are made again, and each row is seen once."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ridgeline.api.errors import FencedError, RidgelineError
from ridgeline.api.support.files import StoreAwayError, is_of_store
from ridgeline.engine.driver.checkpoint.store_watch import OUTPUT_SILENT_SECONDS, StoreWatch
from ridgeline.engine.driver.outputs import OutputStores
from ridgeline.measure.slot_events import StoreSilent
from ridgeline.operators import FileOutput
from ridgeline.testing import SteppingClock
from support.operators.publishing import Driver, Steps, Store

WINDOWS = 4
AWAY = [
    OSError("When reading: AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 7"),
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.ESTALE, "Stale file handle"),
]


class Waiting(Driver):
    """A driver whose publisher's calls are made as those of a run on Spark."""

    def __init__(self, store: Store, output: FileOutput, steps: Steps) -> None:
        super().__init__(store, output, steps)
        stores = OutputStores(store.clock)
        stores.be_patient(lambda: False)
        for name in ("stage", "publish", "idle", "close"):
            setattr(self.publisher, name, self._patient(stores, getattr(self.publisher, name)))

    @staticmethod
    def _patient(stores: OutputStores, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: stores.call(
            partial(function, *given), output="out", place="place", silent=True, new=False
        )


class Divided(Waiting):
    """The same with a row for each of two folders."""

    def columns(self, row: int) -> dict[str, list[int]]:
        return {"n": [row, row], "half": [0, 1]}


def seen(folder: Path) -> list[int]:
    files = [path for path in folder.rglob("*.jsonl") if ".ridgeline" not in path.parts]
    return sorted(json.loads(line)["n"] for path in files for line in path.read_text().splitlines())


@pytest.mark.parametrize(("error", "partitions"), [(AWAY[0], 1), (AWAY[1], 2), (AWAY[2], 1)])
def test_a_store_that_is_away_at_any_step_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, partitions: int
) -> None:
    steps = Steps(monkeypatch)
    for first in range(300):
        store = Store(tmp_path / str(first), partitions)
        output = FileOutput(path=str(store.folder / "rows"), format="jsonl", roll_seconds=1.5)
        driver = Waiting(store, output, steps)
        gone = {first, first + 1, first + 2}  # also the first that it does when it tries again

        def each(number: int, what: str, gone: set[int] = gone) -> None:
            if number in gone and not what.startswith("commit"):
                raise error

        steps.number, steps.each = 0, each
        while len(store.manifests) < WINDOWS:
            driver.window()
            driver.publisher.idle()
        driver.publisher.close()
        assert seen(store.folder / "rows") == store.committed, first
        if steps.number <= first:
            break
        steps.each = lambda _number, _what: None
    assert 10 < first < 299


def test_folders_wait_for_a_store_that_is_away_between_two_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    for first in range(0, 300, 2):
        store = Store(tmp_path / str(first), 2)
        path = store.folder / "rows"
        output = FileOutput(path=str(path), format="jsonl", roll_seconds=1.5, partition_by="half")
        driver = Divided(store, output, steps)

        def each(number: int, what: str, gone: tuple[int, int] = (first, first + 3)) -> None:
            if number in gone and not what.startswith("commit"):
                raise AWAY[2]

        steps.number, steps.each = 0, each
        while len(store.manifests) < WINDOWS:
            driver.window()
            driver.publisher.idle()
        driver.publisher.close()
        assert seen(path) == sorted(2 * store.committed), first
        if steps.number <= first:
            break
        steps.each = lambda _number, _what: None
    assert 50 < first < 298


def test_a_file_that_was_published_before_the_store_went_away_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    store = Store(tmp_path, 2)
    output = FileOutput(path=str(store.folder / "rows"), format="jsonl", roll_seconds=0)
    driver = Waiting(store, output, steps)
    taken: list[int] = []

    def each(_number: int, what: str) -> None:
        if what.startswith("move published") and len(taken) < 2:  # the marker: the file is there
            taken.extend(seen(store.folder / "rows"))
            for path in (store.folder / "rows").glob("*.jsonl"):
                path.unlink()
            raise AWAY[0]

    steps.each = each
    driver.window()
    driver.publisher.close()
    assert taken == store.committed
    assert seen(store.folder / "rows") == []


class Calls:
    """A call that fails so often."""

    def __init__(self, failures: float) -> None:
        self.failures = failures

    def __call__(self, *_: object) -> str:
        if self.failures > 0:
            self.failures -= 1
            raise StoreAwayError(
                "`out` cannot write to `s3://rows`: the file system refused (no)", "s3://rows", "no"
            )
        return "done"


def test_a_call_is_made_until_it_succeeds_and_after_a_stop_some_seconds_more() -> None:
    clock = SteppingClock()
    stores, ends = OutputStores(clock), [False]
    with pytest.raises(StoreAwayError):  # at the start
        stores.call(Calls(1e9), output="out", place="rows", silent=True, new=False)
    assert clock.monotonic() < 13
    stores.be_patient(lambda: ends[0])
    began = clock.monotonic()
    assert stores.call(Calls(10_000), output="out", place="rows", silent=True, new=False) == "done"
    assert clock.monotonic() - began > 10_000
    with pytest.raises(StoreAwayError):
        stores.call(Calls(1e9), output="out", place="rows", silent=True, new=True)
    ends[0], began = True, clock.monotonic()
    with pytest.raises(StoreAwayError, match="cannot write to `s3://rows`"):
        stores.call(Calls(1e9), output="out", place="rows", silent=True, new=False)
    assert 10 <= clock.monotonic() - began < 13
    assert stores.gave_up


def test_other_errors_are_raised_at_once() -> None:
    stores = OutputStores(SteppingClock())
    stores.be_patient(lambda: False)
    for error in (FencedError("another driver"), RidgelineError("damaged"), OSError("any")):

        def fail(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)):
            stores.call(fail, output="out", place="rows", silent=True, new=False)


def test_what_an_output_waits_for_is_said_with_since_when_and_why() -> None:
    clock = SteppingClock()
    stores = OutputStores(clock)
    stores.be_patient(lambda: False)
    found: list[StoreSilent] = []
    watch = StoreWatch(stores, clock, found.append)

    class Looked(Calls):
        def __call__(self, *given: object) -> str:
            clock.wait(1)
            watch.look()
            return super().__call__(*given)

    stores.call(Looked(100), output="out", place="rows", silent=True, new=False)
    watch.look()
    assert [one.output for one in found] == ["out"] * len(found)
    assert found[0].text.startswith("`out` has waited for `s3://rows` for ")
    assert "last error: no); nothing is lost meanwhile, it is tried until it succeeds" in found[0].text
    assert 3 <= len(found) <= 6  # one a minute
    assert found[-1].again
    assert found[-1].text.endswith(" s: nothing is lost")
    assert "`out` has waited for `s3://rows` since 20" in found[0].problem


def test_an_output_that_is_refused_leaves_no_word_and_others_are_spoken_of_as_before() -> None:
    clock = SteppingClock()
    stores = OutputStores(clock)
    stores.be_patient(lambda: False)
    found: list[StoreSilent] = []
    watch = StoreWatch(stores, clock, found.append, OUTPUT_SILENT_SECONDS)

    class Looked(Calls):
        def __call__(self, *given: object) -> str:
            clock.wait(1)
            watch.look()
            return super().__call__(*given)

    with pytest.raises(StoreAwayError):
        stores.call(Looked(1e9), output="added", place="rows", silent=True, new=True)
    watch.look()
    assert found == []  # its refusal says it
    stores.call(Looked(10), output="out", place="rows", silent=True, new=False)
    watch.look()
    assert [(one.output, one.again) for one in found] == [("out", False), ("out", True)]


def test_a_container_whose_disk_is_full_is_not_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    store = Store(tmp_path, 1)
    driver = Driver(store, FileOutput(path=str(tmp_path / "rows"), format="jsonl"), steps)

    def each(_number: int, what: str) -> None:
        if what.startswith("writing w"):
            raise AWAY[1]

    steps.each = each
    with pytest.raises(RidgelineError, match="no space is left on the device") as raised:
        driver.window()
    assert is_of_store(raised.value)
