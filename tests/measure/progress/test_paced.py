"""A replay of old data with a pace: what is not due yet is no backlog, in an application that ran."""

import pytest

from ridgeline import Application
from ridgeline.measure.events import WindowCommitted
from ridgeline.measure.measurement import Measurement
from ridgeline.operators import FileReplayInput
from ridgeline.testing import CollectorSink, run_local
from support.engine.applications import Number


def verdicts(tmp_path, **pace):
    """The verdict and the source's, after each of twelve windows."""
    path = tmp_path / "numbers.csv"
    path.write_text("value\n" + "".join(f"{number}\n" for number in range(100_000)))
    app = Application("replay", window="1s")
    source = app.add_operator("source", FileReplayInput(path=str(path), schema=Number, format="csv", **pace))
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", source.output, sink.input)
    measurement, found = Measurement(), []
    for event in run_local(app, windows=12).events:
        measurement.apply(event)
        if isinstance(event, WindowCommitted):
            progress = measurement.progress(event.at)
            found.append((progress["application"]["verdict"], progress["sources"][0]["backlog"]["value"]))
    return found


@pytest.mark.parametrize("pace", [{"rows_per_window": 100}, {"rows_per_second": 50.0}])
def test_what_a_paced_replay_holds_back_is_no_backlog(tmp_path, pace):
    found = verdicts(tmp_path, **pace)
    assert [verdict for verdict, _ in found] == ["paced"] * 12
    left = [left for _, left in found]  # it is told all the same
    assert left == sorted(left, reverse=True)
    assert left[-1] > 400_000
