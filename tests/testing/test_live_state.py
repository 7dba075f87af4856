"""State in segments goes through repartitions, compactions, purges and restarts of a running application."""

from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.engine.state import keyed_segments, state_files
from ridgeline.operators import FileReplayInput, RandomEventGenerator
from ridgeline.plan.edits import Repartition
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deeper


class Number(NamedTuple):
    key: int
    value: int


class Line(NamedTuple):
    text: str


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


def test_a_checkpoint_with_shared_segments_goes_on(tmp_path):
    found = []
    for number, count in enumerate((2, 3, 4, 1, 5)):
        run = run_local(application(count), checkpoint=str(tmp_path), windows=12 if number < 4 else None)
        found += run.collected("sink")
    assert sorted(found) == sorted(by_hand())


@pytest.mark.parametrize("counts", [pytest.param((2,), marks=deeper), (3, 1, 4)])
def test_inputs_go_on_where_they_are(tmp_path, counts):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"line {number}\n" for number in range(200)))
    app = Application("inputs", window="10ms")
    items = [item for w in range(20) for item in (*[Number(w, n) for n in range(10)], END_WINDOW)]
    ports = {
        "list": app.add_operator("list", ListInput(Number, items)).output,
        "random": app.add_operator(
            "random", RandomEventGenerator(tuples_per_window=10, count=200)
        ).integer_data,
        "file": app.add_operator("file", FileReplayInput(path=path, schema=Line, rows_per_window=10)).output,
    }
    for name, port in ports.items():
        app.add_stream(name, port, app.add_operator(f"{name}_sink", CollectorSink()).input)
    sinks = [f"{name}_sink" for name in ("list", "random", "file")]
    wanted = {name: sorted(map(str, run_local(app).collected(name))) for name in sinks}
    changes = {
        3 + 4 * number: [Repartition(name, count) for name in ("list", "random", "file")]
        for number, count in enumerate(counts)
    }
    run = run_local(app, changes=changes)
    assert [(one.state, one.reason) for one in run.changes] == [("APPLIED", "")] * len(counts)
    assert {name: sorted(map(str, run.collected(name))) for name in sinks} == wanted
    assert [len(found) for found in wanted.values()] == [200] * 3
