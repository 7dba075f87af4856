"""A durable queue without room: a full disk, files that may not grow, readers that are gone for an hour."""

import resource
import signal
from contextlib import contextmanager
from random import Random

import pytest

from ridgeline import RidgelineError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.testing import run_local
from support.crash.disks import full, small_disk
from support.depth import deep
from support.operators.queues import orders, read_all, reader, writer


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
