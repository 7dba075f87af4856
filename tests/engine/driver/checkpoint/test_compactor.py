"""The compactor as the process that it is."""

import fcntl
import os
import signal
import sys
import termios
from pathlib import Path

import pytest

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.checkpoint.compactor import Compactor
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.state import state_files
from ridgeline.engine.state.compaction import CompactionTask
from support.engine.containers import ByHand
from support.engine.ledger import application

LEDGER = 2


@pytest.fixture
def hand(tmp_path):
    """Ten windows on a local disk."""
    hand = ByHand(application(), LocalStorage(str(tmp_path)))
    for _ in range(10):
        hand.window()
    return hand


@pytest.fixture
def compactor(hand):
    compactor = Compactor(
        hand.storage.uri, lambda: plan_distribution.distribute(hand.storage, hand.specs), "run"
    )
    yield compactor
    compactor.close()


def merge(hand, number=1):
    version = hand.states[LEDGER]
    return CompactionTask(LEDGER, version, state_files.compacted_stem(version, LEDGER, 1, number))


def stopped(pid):
    """True once a signal has stopped a process with all its threads: one could still read what comes."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def unread(pid):
    """How many bytes of its standard input a process has not read."""
    with Path(f"/proc/{pid}/fd/0").open("rb", buffering=0) as pipe:
        return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_killed_in_a_merge_it_says_so(hand, compactor, wait_until):
    from concurrent.futures import ThreadPoolExecutor

    compactor.compact(merge(hand))
    pid = compactor.pid
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: stopped(pid), "the compactor to stop")
    with ThreadPoolExecutor(1) as pool:
        merging = pool.submit(compactor.compact, merge(hand, 2))
        try:
            wait_until(lambda: unread(pid), "the request to be in its pipe")
        finally:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(RidgelineError, match=r"^the compactor process ended with signal 9$"):
            merging.result()
