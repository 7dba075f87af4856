"""Queues whose folder is away for a while: calls are made again, and readers get each row once, in order."""

from __future__ import annotations

import base64
import errno
import json
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Self

import pyarrow as pa
import pytest
from rich.console import Console

from ridgeline.api import EnumeratorContext, PublisherContext
from ridgeline.api.errors import OperatorError, RidgelineError
from ridgeline.api.support.files import waiting_for_store
from ridgeline.engine.driver.outputs import OutputStores
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import (
    QueueInput,
    QueueOutput,
    _queue_enumerator,
    _queue_files,
    _queue_log,
    _queue_publisher,
)
from ridgeline.operators._queue_files import ObjectFolder, QueueFolder, ReaderPosition
from ridgeline.operators._queue_log import LogReader
from ridgeline.operators._queue_publisher import QueuePublisher, Written
from ridgeline.testing import run_local
from support.crash.disks import full, small_disk
from support.depth import deep
from support.operators.harness import HandClock
from support.operators.queues import Order, orders, read_all, reader, writer

WINDOWS = 5
AWAY = [
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.ESTALE, "Stale file handle"),
    OSError(errno.ENOTCONN, "Transport endpoint is not connected"),
]


class Half:
    """A file that is written: an error comes after the first half of it."""

    def __init__(self, file: Any, steps: Steps) -> None:
        self._file, self._steps = file, steps

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> None:
        self._file.write(data[: len(data) // 2])
        self._file.flush()
        self._steps("append")
        self._file.write(data[len(data) // 2 :])


class Steps:
    """Calls `each(number, what)` before each operation on the files of a queue."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self.each: Callable[[int, str], None] = lambda _number, _what: None
        patch.setattr(os, "fsync", lambda _file: self("fsync"))
        for owner, name in (
            (_queue_files, "sync_folder"),
            (_queue_log, "sync_folder"),
            (_queue_files, "sync_above"),
            (_queue_files, "replace_file"),
            (Path, "read_bytes"),
            (Path, "unlink"),
        ):
            patch.setattr(owner, name, self._counted(name, getattr(owner, name)))
        for name in ("get", "put", "names", "_remove"):
            patch.setattr(ObjectFolder, name, self._counted(name, getattr(ObjectFolder, name)))
        opens = Path.open

        def open_file(path: Path, mode: str = "r", *given: Any, **more: Any) -> Any:
            file = opens(path, mode, *given, **more)
            return Half(file, self) if mode == "wb" else file

        patch.setattr(Path, "open", open_file)

    def __call__(self, what: str) -> None:
        number, self.number = self.number, self.number + 1
        self.each(number, what)

    def _counted(self, what: str, function: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            self(what)
            return function(*given, **more)

        return call


class Driver:
    """A writer of a queue, whose calls are made as those of a run on Spark: one partition, a row a window."""

    def __init__(self, folder: Path, keep_bytes: int = 2**30, kind: type[QueueFolder] = QueueFolder) -> None:
        self.path, self.clock = str(folder / "queue"), HandClock()
        self.folder = kind(self.path)
        self.output = QueueOutput(self.path, 3600.0, keep_bytes)
        self.stores = OutputStores(self.clock)
        self.stores.be_patient(lambda: False)
        self.segments = self.folder.segment_writer(0)
        self.window, self.states = 0, list[str]()
        self.begin()

    def begin(self) -> None:
        """Another driver opens the queue, as after a restart."""
        self.publisher = QueuePublisher(self.output)
        context = PublisherContext(
            "shop", "queue", "run1", self.clock, Console(), "staging", lambda: None, 1, lambda: None
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_queue_publisher, "folder_of", lambda _path: self.folder)
            self._call(self.publisher.open, context, json.loads(self.states[-1]) if self.states else None)

    def _call(self, function: Callable[..., Any], *given: Any) -> Any:
        return self.stores.call(
            partial(function, *given), output="queue", place="place", silent=True, new=False
        )

    def run(self) -> None:
        """Write a window, commit and publish it."""
        batch = pa.RecordBatch.from_pydict({"n": [self.window]})
        part = waiting_for_store(lambda: self.segments.write([batch]), self.clock)
        schema = base64.b64encode(batch.schema.serialize()).decode()
        written = Written((0, 1), part=part, schema=schema)
        self.states.append(json.dumps(self._call(self.publisher.stage, self.window, [written])))
        self._call(self.publisher.publish, self.window)
        self._call(self.publisher.idle)
        self.window += 1
        self.clock.seconds += 0.6  # a sync is due in every second window


def read(folder: QueueFolder, first: int = 0) -> list[int]:
    """The rows of a queue from an entry on."""
    entries = chain.from_iterable(iter(LogReader(folder, first).read, []))
    parts = [part for entry in entries for part in entry.parts]
    batches = (batch for part in parts for batch in folder.read(part))
    return [number for batch in batches for number in batch["n"].to_pylist()]


def away(steps: Steps, numbers: set[int], error: OSError) -> None:
    """Let these operations fail."""

    def each(number: int, _what: str) -> None:
        if number in numbers:
            raise error

    steps.number, steps.each = 0, each


@pytest.mark.parametrize(
    ("kind", "error"), [(QueueFolder, AWAY[0]), (QueueFolder, AWAY[1]), (ObjectFolder, AWAY[2])]
)
def test_a_folder_that_is_away_at_any_step_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[QueueFolder], error: OSError
) -> None:
    steps = Steps(monkeypatch)
    for first in range(300):
        steps.each = lambda _number, _what: None
        driver = Driver(tmp_path / str(first), kind=kind)
        away(steps, {first, first + 1, first + 3}, error)
        while driver.window < WINDOWS:
            driver.run()
        driver._call(driver.publisher.close)
        if isinstance(driver.folder, ObjectFolder):
            driver.folder.pool.shutdown()
        ends = steps.number <= first
        steps.each = lambda _number, _what: None
        driver.folder = kind(driver.path)
        assert read(driver.folder) == list(range(WINDOWS)), first
        driver.begin()  # the state fits to what is there
        if ends:
            break
    assert 20 < first < 299


def test_lines_whose_sync_has_failed_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports such an error once: the next sync alone says nothing of pages that are lost."""
    driver = Driver(tmp_path)
    failing, synced = [True], list[int]()

    def sync(file: int) -> None:
        if failing.pop() if failing else False:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        synced.append(os.fstat(file).st_size)

    for _ in range(2):
        driver.run()
    monkeypatch.setattr(os, "fsync", sync)
    driver._call(driver.publisher.close)
    [log] = driver.publisher._folder.log.iterdir()
    assert log.stat().st_size in synced
    assert read(driver.folder) == [0, 1]


def test_a_queue_whose_folder_loses_its_mount_is_waited_for(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.run()
    root = Path(driver.path)
    hidden = root.rename(tmp_path / "unmounted")
    tries = 0

    def wait(seconds: float, *_: object) -> None:
        nonlocal tries
        driver.clock.seconds += seconds
        tries += 1
        trouble = driver.stores.trouble(0)
        assert trouble is not None
        assert trouble.error == "its folder is not there any more: is it mounted?"
        assert trouble.place == driver.path
        if tries == 3:
            if root.exists():
                root.rmdir()
            hidden.rename(root)

    driver.clock.wait = wait  # type: ignore[method-assign]
    root.mkdir()  # the empty folder below the mount
    for _ in range(2):
        driver._call(driver.publisher.publish, driver.window)
        driver._call(driver.publisher.idle)
    assert tries == 3
    driver.run()
    assert read(driver.folder) == [0, 1]


def test_a_queue_that_is_not_there_at_the_start_is_an_error(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.run()
    Path(driver.path, "queue.json").unlink()
    _queue_files_opened(driver.path)
    with pytest.raises(RidgelineError, match=r"cannot write to .*queue.json.* is not there any more"):
        driver.begin()


def _queue_files_opened(path: str) -> None:
    """Forget that this process has had the queue open."""
    _queue_publisher._OPENED.discard(path)


def test_a_reader_waits_for_a_queue_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = orders(6)
    run_local(writer(tmp_path / "queue", rows, 2))
    reads, maps = Path.read_bytes, pa.memory_map
    left = {"log": 4, "segments": 3}

    def fails(kind: str) -> None:
        if left[kind] > 0:
            left[kind] -= 1
            raise OSError(errno.ESTALE, "Stale file handle")

    def read_bytes(path: Path) -> bytes:
        if path.parent.name == "log":
            fails("log")
        return reads(path)

    def memory_map(path: str, *given: Any) -> Any:
        fails("segments")
        return maps(path, *given)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    monkeypatch.setattr(pa, "memory_map", memory_map)
    found = run_local(reader(tmp_path / "queue", 2)).collected("sink")
    assert sorted(found) == sorted(rows)
    assert left == {"log": 0, "segments": 0}


def test_a_reader_whose_position_cannot_be_registered_reads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path)
    driver.run()
    monkeypatch.setattr(_queue_enumerator, "_REGISTER_LOOKS", 0)
    context = EnumeratorContext(
        "board", "queue", "run1", driver.clock, lambda: None, lambda: None, lambda _text: None, lambda: 1, ""
    )
    enumerator = QueueInput(driver.path, schema=Order).enumerator()
    enumerator.open(context, None)

    def full(_folder: QueueFolder, _position: ReaderPosition) -> None:
        raise AWAY[0]

    monkeypatch.setattr(QueueFolder, "register", full)
    began, offset = time.monotonic(), enumerator.advance(0, None)
    for window in range(1, 11):
        enumerator.committed(window - 1, offset)
        driver.run()
        while offset["rows"] <= window:
            offset = enumerator.advance(window, offset)
            time.sleep(0.001)
    assert time.monotonic() - began < 5.0, "it does not rest after each try"
    assert enumerator.problem == ""
    enumerator.close()


def test_a_log_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_local(writer(tmp_path / "queue", orders(1)))

    def refused(_self: LogReader, _limit: int = 0) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(LogReader, "read", refused)
    with pytest.raises(OperatorError, match=r"in `advance`: PermissionError: .*Permission denied"):
        run_local(reader(tmp_path / "queue"))


def test_entries_that_were_read_before_an_error_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path)
    for _ in range(WINDOWS):
        driver.run()
    log, get, numbers = LogReader(driver.folder, 0), QueueFolder.get, list[int]()
    errors = [OSError(errno.ESTALE, "Stale file handle")]

    def failing(self: QueueFolder, name: str) -> bytes | None:
        if log.next and errors:
            raise errors.pop()
        return get(self, name)

    monkeypatch.setattr(QueueFolder, "get", failing)
    while len(numbers) < WINDOWS:
        with suppress(OSError):
            numbers += [entry.number for entry in log.read()]
    assert numbers == list(range(WINDOWS))


@contextmanager
def files_of(size):
    """No file of this process may get larger."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("seed", range(deep(2)))
def test_files_that_may_not_grow_end_the_run_and_lose_nothing(tmp_path, seed):
    random = Random(seed)
    rows, path, checkpoint = orders(40, a_window=20), tmp_path / "queue", MemoryStorage()
    texts = []
    for windows in range(1, 20):
        with files_of(random.randrange(20, 3000)):
            try:
                run_local(writer(path, rows, random.choice([1, 2])), checkpoint=checkpoint, windows=3)
            except RidgelineError as error:
                texts.append(str(error))
        if windows % 3 == 0:
            run_local(writer(path, rows, random.choice([1, 2])), checkpoint=checkpoint, windows=2)
    run_local(writer(path, rows), checkpoint=checkpoint)

    assert texts
    assert all("File too large" in text and "nothing that was committed is lost" in text for text in texts)
    assert sorted(read_all(path, tmp_path / "reader", 2)) == sorted(rows)


def test_a_full_disk_ends_the_run_which_goes_on_once_there_is_room(tmp_path):
    rows, checkpoint = orders(40), MemoryStorage()
    with small_disk(tmp_path / "disk", 1) as disk:
        path = disk / "queue"
        run_local(writer(path, rows, 2), checkpoint=checkpoint, windows=3)
        first = run_local(reader(path), checkpoint=tmp_path / "reader", windows=1).collected("sink")
        for _ in range(2):
            with full(disk), pytest.raises(RidgelineError, match=r"cannot write to .*: no space is left on"):
                run_local(writer(path, rows, 2), checkpoint=checkpoint)
            run_local(writer(path, rows, 2), checkpoint=checkpoint, windows=3)
        with full(disk):  # a reader needs no room but for its registration
            second = run_local(reader(path), checkpoint=tmp_path / "reader", windows=2).collected("sink")
        run_local(writer(path, rows, 2), checkpoint=checkpoint)
        last = read_all(path, tmp_path / "reader", 2)

    assert sorted(first + second + last) == sorted(rows)
