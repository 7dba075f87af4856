"""State in segments goes through repartitions, compactions, purges and restarts of a running application."""

from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.engine.state import keyed_segments, state_files
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deeper


class Number(NamedTuple):
    key: int
    value: int


class Sums(Operator):
    """Running sums by key; keys that are divisible by 5 are forgotten at their third number."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)

    sums = KeyedState(int, ttl="1h")
    times = KeyedState(int)

    @input.process
    def add(self, number: Number) -> None:
        key = number.key
        self.sums[key] = self.sums.get(key, 0) + number.value
        self.times[key] = self.times.get(key, 0) + 1
        self.output.emit(Number(key, self.sums[key]))
        if key % 5 == 0 and self.times[key] == 3:
            del self.sums[key], self.times[key]


WINDOWS = 60
NUMBERS = [[Number((7 * n + w * w) % 90, n + w) for n in range(40)] for w in range(WINDOWS)]


def by_hand():
    sums, times, found = {}, {}, []
    for number in (number for window in NUMBERS for number in window):
        key = number.key
        sums[key], times[key] = sums.get(key, 0) + number.value, times.get(key, 0) + 1
        found.append(Number(key, sums[key]))
        if key % 5 == 0 and times[key] == 3:
            del sums[key], times[key]
    return found


def application(partitions=2):
    app = Application("sums", window="10ms", snapshot_interval=4, windows_kept=3)
    items = [item for window in NUMBERS for item in (*window, END_WINDOW)]
    numbers = app.add_operator("numbers", ListInput(Number, items))
    sums = app.add_operator("sums", Sums(), partitions=partitions)
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, sums.input)
    app.add_stream("sums", sums.output, sink.input)
    return app


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 10)


@pytest.mark.parametrize("counts", [(3,), (4, 3, 7, 1, 2), pytest.param((1, 2, 4, 2, 1), marks=deeper)])
def test_segments_are_shared_compacted_and_purged(tmp_path, counts):
    changes = {8 + 9 * number: [Repartition("sums", count)] for number, count in enumerate(counts)}
    run = run_local(application(), checkpoint=str(tmp_path), changes=changes)
    assert [(one.state, one.reason) for one in run.changes] == [("APPLIED", "")] * len(counts)
    assert sorted(run.collected("sink")) == sorted(by_hand())
    left = [one.name for one in (tmp_path / "state").iterdir()]
    windows = [state_files.window_of(name) for name in left if state_files.is_state(name)]
    assert min(windows) >= 20, "files of the partitions before were not removed"
