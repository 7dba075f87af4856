"""The plan changes while the application runs: metrics, service, event log and replay go on with it."""

from ridgeline.observe.watch import Watch
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
