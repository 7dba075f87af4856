"""Workers hold any version while others are compacted: state is that of one worker without compactions."""

from functools import cache
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import StateError
from ridgeline.engine.state import keyed_segments, state_files
from ridgeline.engine.state.compaction import CompactionTask, StateCompactor
from ridgeline.engine.state.segment_files import SegmentFiles
from support.depth import deep
from support.engine.containers import ByHand, CountingStorage
from support.engine.ledger import application

WINDOWS = 40
LEDGER = 2
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("window"), st.integers(0, 2), st.integers(0, 1)
        ),  # worker, attempts that do not count
        st.tuples(st.just("die"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("merge"), st.just(0), st.just(0)),
        st.tuples(st.just("adopt"), st.just(0), st.just(0)),
    ),
    min_size=10,
    max_size=WINDOWS,
)


@cache
def expected():
    hand = ByHand(application())
    return [hand.window() for _ in range(WINDOWS)]


class Workers(ByHand):
    """Three workers that take turns, and a merge that takes its time."""

    def __init__(self):
        super().__init__(application())
        self.workers = []
        for _ in range(3):
            self.die()
            self.workers.append(self.containers)
        self.compactor = StateCompactor(SegmentFiles(self.storage, "run"), self.plan.physical.operators)
        self.merged = None

    def step(self, what, worker, failures):
        match what:
            case "window":
                self.containers = self.workers[worker]
                for attempt in range(failures):
                    self.attempt(attempt)
                return [self.window(failures)]
            case "die":
                self.die()
                self.workers[worker] = self.containers
            case "merge" if self.merged is None and LEDGER in self.states:
                version = self.states[LEDGER]
                stem = state_files.compacted_stem(version, LEDGER, 1, self.window_id)
                self.merged = version, self.compactor.compact(CompactionTask(LEDGER, version, stem)).names
            case "adopt" if self.merged is not None:
                (replaced, names), self.merged = self.merged, None
                assert self.states[LEDGER][: len(replaced)] == replaced
                self.states[LEDGER] = (*names, *self.states[LEDGER][len(replaced) :])
        return []


@settings(max_examples=deep(16), deadline=None)
@given(STEPS)
def test_whoever_runs_a_window_and_whatever_is_merged(steps):
    with patch.object(keyed_segments, "SEGMENT_KEYS", 20):
        workers = Workers()
        got = [collected for step in steps for collected in workers.step(*step)]
    assert got == expected()[: len(got)]


def test_a_worker_lets_go_of_what_was_merged_into_runs():
    with patch.object(keyed_segments, "SEGMENT_KEYS", 20):
        workers = Workers()
        for _ in range(5):
            workers.step("window", 0, 0)
        for step in ("merge", "adopt"):
            workers.step(step, 0, 0)
        workers.step("window", 0, 0)
    held = workers.operator("ledger").counts.held()
    assert held.base is not None
    assert len(held.values) < 41 < len(held.base)


def test_runs_that_are_open_are_not_read_again(monkeypatch):
    opened = []
    storage = CountingStorage()
    read = storage.map
    monkeypatch.setattr(storage, "map", lambda name: opened.append(name) or read(name))
    with patch.object(keyed_segments, "SEGMENT_KEYS", 20):
        workers = ByHand(application(), storage)
        for windows in (15, 2):
            for _ in range(windows):
                workers.window()
            workers.merge("ledger")
            opened.clear()
        workers.window()
    runs = [f"state/{name}" for name in state_files.segments_of(workers.states[LEDGER])]
    assert (opened, len(runs)) == (runs[-1:], 2)


def test_a_run_is_read_as_a_whole_unless_this_driver_had_it_written():
    with patch.object(keyed_segments, "SEGMENT_KEYS", 20):
        workers = ByHand(application())
        for _ in range(3):
            workers.window()
        workers.merge("ledger")
    [run] = state_files.segments_of(workers.states[LEDGER])
    data = workers.storage.read(f"state/{run}")
    files = SegmentFiles(workers.storage, "run")
    workers.storage.write(f"state/{run}", data[:100] + b"?" + data[101:])
    assert files.open(run, state_files.compaction_epoch(run)).size_bytes == len(data)
    with pytest.raises(StateError, match=r"is corrupt \(\d+ bytes, checksum differs\)"):
        files.open(run, 2)
    workers.storage.write(f"state/{run}", data[:-1])
    with pytest.raises(StateError, match="its end is missing"):
        files.open(run, state_files.compaction_epoch(run))
