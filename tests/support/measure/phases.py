"""The phases of a whole run at once."""

from ridgeline.measure.latency.window_phases import WARM_UP, WindowPhases


def phase_table(events, topology=None, warm_up=WARM_UP):
    """Where the time of a run's windows went, from all its events."""
    fold = WindowPhases(topology)
    for event in events:
        fold.apply(event)
    return fold.table(warm_up)
