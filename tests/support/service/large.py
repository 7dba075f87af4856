"""A run of 500 operators and any number of windows: one real window, replayed with other durations."""

import random
from dataclasses import fields, replace

from ridgeline.measure.events import WindowPlanned, WindowReported
from ridgeline.observe.watch import Watch
from support.service.watched import Now, events_of, feed

TIMES = {"at", "due", "began", "ended", "task_began", "restored", "ran", "written", "received"}
TIMES |= {"planned", "launched", "returned", "staged", "committed", "published"}


def template(app):
    """The plan of an application, the event that its run begins with, and the events of its first window."""
    plan, (begin, *events) = events_of(app, windows=1)
    first = next(number for number, event in enumerate(events) if isinstance(event, WindowPlanned))
    return plan, begin, events[first:]


def window(events, window_id, rng):
    """The template's events as of another window; who computes for how long is drawn anew."""
    for event in events:
        if getattr(event, "window_id", None) is None:
            continue
        shifted = {
            field.name: getattr(event, field.name) + window_id
            for field in fields(event)
            if field.name in TIMES
        }
        if isinstance(event, WindowReported):
            shifted |= {name: _later(getattr(event, name), window_id) for name in ("containers", "operators")}
            own = shifted["operators"]
            own["compute_seconds"] = [rng.random() / 100 for _ in own]
            own["ended"] += own["compute_seconds"]
        yield replace(event, window_id=window_id, **shifted)


def _later(table, seconds):
    """What containers or operators reported, so much later."""
    found = table.copy()
    for name in TIMES & set(found.dtype.names):
        found[name] += seconds
    return found


def fed(app, windows, every=None):
    """A watch that has seen so many windows; `every(watch, number)` is called after each."""
    plan, begin, events = template(app)
    now, rng = Now(), random.Random(7)
    watch = Watch(now)
    feed(watch, now, begin)
    for window_id in range(windows):
        feed(watch, now, *window(events, window_id, rng))
        if every is not None:
            every(watch, window_id + 1)
    return watch, plan, now, events
