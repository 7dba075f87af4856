"""The plan changes while the application runs: metrics, service, event log and replay go on with it."""

import pytest

from ridgeline.measure.events import ApplicationEnded
from ridgeline.measure.measurement import Measurement
from ridgeline.observe.watch import Watch
from ridgeline.service.event_log import EventLogWriter, replay
from ridgeline.service.export.prometheus import Exposition
from support.measure.changing import run

NOW = 11.5


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


def told(events):
    """A watch that was told the events, by a clock that goes with them."""
    clock = Clock()
    watch = Watch(clock)
    for event in events:
        clock.seconds = max(clock.seconds, event.at)
        watch.observe(event)
    clock.seconds = max(clock.seconds, NOW)
    return watch


def test_the_text_has_each_sample_once():
    lines = Exposition(told(run())).render().decode().splitlines()
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples)) > 40


@pytest.mark.parametrize("name", ["log.jsonl", "log.json"])
def test_a_log_that_is_replayed_has_the_same_figures(tmp_path, name):
    path = str(tmp_path / name)
    events = [*run(), ApplicationEnded(NOW, "finished")]
    writer = EventLogWriter(path)
    straight = Measurement()
    for event in events:
        writer.write(event)
        straight.apply(event)
    writer.close()
    again = replay(path)
    assert again.overview(NOW) == straight.overview(NOW)
    assert again.summary() == straight.summary()
    assert again.changes.rows() == straight.changes.rows()
    assert [row["planVersion"] for row in again.changes.rows()] == [2, 3]
