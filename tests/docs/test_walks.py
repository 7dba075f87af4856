"""The walks of docs/architecture.md are those of the code: a window in process calls their files in order."""

import re
import sys
from collections import defaultdict
from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import FileOutput
from ridgeline.testing import END_WINDOW, ListInput, run_local
from support.paths import ROOT

SOURCE = f"{ROOT / 'src' / 'ridgeline'}/"
MAIN = {
    "engine/driver/run/run.py": "begin",
    "engine/container/container.py": "run",
    "engine/state/versions.py": "restore",
    "engine/operator/runtime.py": "run",
    "api/points.py": "emit",
    "engine/exchange/outgoing.py": "route",
    "engine/exchange/routing.py": "split",
    "engine/state/state_files.py": "encode",
    "engine/driver/outputs.py": "stage",
    "engine/driver/checkpoint/manifest.py": "digest",
    "engine/driver/checkpoint/journal.py": "append",
    "stram/compaction.py": "decide",
    "engine/driver/checkpoint/compactions.py": "start",
    "engine/operator/progress.py": "report",
    "observe/reporting.py": "report_events",
    "observe/watch.py": "observe",
    "measure/measurement.py": "apply",
    "measure/latency/window.py": "assemble",
    "measure/latency/fold.py": "add",
    "measure/latency/operator_latency.py": "latencies",
    "measure/answers/windows.py": "",
}
"""The function by which a step opens its file, in process."""
ELSEWHERE = {
    *("engine/driver/run/triggers.py", "engine/driver/slots/executor.py"),
    *("engine/slot/task.py", "engine/slot/slot.py"),
    *("service/http/endpoints.py", "cli/remote/commands.py", "service/tables.py"),
}
"""Steps that a run in process does not take."""
CALLED_ALL_ALONG = {"stram/master.py", "plan/protocol.py", "measure/events.py", "measure/answers/windows.py"}
"""What decides about all steps, and data."""


class Word(NamedTuple):
    word: str
    count: int


class Count(Operator):
    """A running count of each word."""

    input = InputPort(Word, key="word")
    output = OutputPort(Word)

    counts = KeyedState(int, default=0)

    @input.process
    def count(self, word: Word) -> None:
        self.counts[word.word] += word.count
        self.output.emit(Word(word.word, self.counts[word.word]))


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """By window: the calls of the functions of `MAIN`, as files, in order."""
    app = Application("walk", snapshot_interval=2)
    words = app.add_operator("words", ListInput(Word, [*(Word(text, 1) for text in "abca"), END_WINDOW] * 6))
    count = app.add_operator("count", Count(), partitions=2)
    sink = app.add_operator("sink", FileOutput(str(tmp_path_factory.mktemp("results"))))
    app.add_stream("words", words.output, count.input)
    app.add_stream("counts", count.output, sink.input)
    found, window = defaultdict(list), [-1]

    def note(frame, event, _argument):
        code = frame.f_code
        path = code.co_filename.removeprefix(SOURCE)
        if event == "call" and MAIN.get(path) == code.co_name:
            window[0] += path == "engine/driver/run/run.py"
            found[window[0]].append(path)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run_local(app).watch.latency()  # windows are folded once something is asked
    finally:
        sys.setprofile(before)
    return found


def steps(title):
    text = (ROOT / "docs" / "architecture.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [
        step
        for step in re.findall(r"^\d+\. `([\w/]+\.py)`: ", text, re.MULTILINE)
        if step not in ELSEWHERE | CALLED_ALL_ALONG
    ]


def test_a_latency_opens_the_files_in_the_order_of_its_walk(calls):
    walk = steps("The walk of a metric")
    assert set(walk) <= MAIN.keys()
    found = [step for each in calls.values() for step in each]
    reported = found.index("observe/reporting.py")
    assert "engine/operator/progress.py" in found[:reported]
    shared = walk[walk.index("observe/reporting.py") :]
    assert list(dict.fromkeys(step for step in found[reported:] if step in shared)) == shared
