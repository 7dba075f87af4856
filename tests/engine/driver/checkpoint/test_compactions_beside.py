"""Compaction beside the windows: its files survive purges, and are installed once it has ended."""

import fcntl
import os
import signal
import sys
import termios
import threading
from pathlib import Path

import pytest
from rich.console import Console

from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.driver.checkpoint import compactions
from ridgeline.engine.driver.checkpoint.compactions import Compactions
from ridgeline.engine.driver.checkpoint.compactor import Compactor
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.state import keyed_segments, state_files
from ridgeline.engine.state.compaction import CompactionTask, StateCompactor
from ridgeline.plan.planner import plan_application
from ridgeline.testing import SteppingClock, run_local
from ridgeline.testing.local_executor import LocalExecutor
from support.engine.containers import ByHand
from support.engine.ledger import application
from support.waiting import PATIENCE_SECONDS

LEDGER = 2


@pytest.fixture(scope="module")
def expected():
    return run_local(application(), windows=60).collected("sink")


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """`begin(**attributes)` opens a run whose compactions run in the background."""
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 100)
    opened = []

    def run(**attributes):
        plan = plan_application(application(**attributes))
        checkpoint = Checkpoint(LocalStorage(str(tmp_path)), "ledger")
        clock = SteppingClock()
        executor = LocalExecutor(plan, checkpoint.storage, clock, checkpoint.run_id)

        def context(name):
            return PublisherContext(
                "ledger",
                name,
                checkpoint.run_id,
                clock,
                Console(),
                f"{tmp_path}/staging",
                lambda: None,
                1,
                checkpoint.check_owner,
            )

        opened.append(
            ApplicationRun(plan, checkpoint, executor, clock, context, None, Compactions.in_background)
        )
        return opened[-1]

    yield run
    for each in opened:
        each.close(orderly=False)


def windows(run, count):
    for _ in range(count):
        run.window(run.next_window)


def merged(run):
    return state_files.base_of(run.master.states[LEDGER])


def test_windows_go_on_while_a_version_is_compacted(begin, monkeypatch, wait_until, expected):
    written, go_on = threading.Event(), threading.Event()
    merge = StateCompactor.compact

    def slow(self, job):
        outcome = merge(self, job)
        written.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return outcome

    monkeypatch.setattr(StateCompactor, "compact", slow)
    run = begin(snapshot_interval=5, windows_kept=1)
    windows(run, 5)
    assert written.wait(PATIENCE_SECONDS)
    windows(run, 25)  # purged over and over
    assert (len(run.master.states[LEDGER]), merged(run)) == (30, ())
    go_on.set()
    outcome = run.compactions._jobs[LEDGER].future
    wait_until(outcome.done, "the compaction")
    windows(run, 1)
    names = outcome.result().names
    assert run.master.states[LEDGER][: len(names)] == names
    windows(run, 20)
    assert run.publishers["sink"].tuples(None) == expected[: run.next_window]
    wait_until(
        lambda: (windows(run, 1), len(run.checkpoint.storage.names("state")) < 25)[1],
        "old files to be purged",
    )


def test_a_run_that_ends_in_a_compaction_leaves_it(begin, monkeypatch, expected):
    monkeypatch.setattr(compactions, "SMALL_BYTES", 0)
    run = begin(snapshot_interval=5)
    windows(run, 5)
    outcome = run.compactions._jobs[LEDGER].future
    run.close(orderly=True)
    assert outcome.done()
    again = begin(snapshot_interval=5)
    windows(again, 10)
    assert again.publishers["sink"].tuples(None) == expected[5:15]


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
    pid = compactor._process.pid
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
