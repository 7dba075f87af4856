"""Keyed state with a time to live, beside a naive model: over kills, restarts, compaction and partitions."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.engine.state import keyed_segments
from ridgeline.testing import ABORT, END_WINDOW, EOF, CollectorSink, ListInput, SteppingClock, run_local
from support.depth import deep
from support.rows import in_a_row

START = datetime(2026, 1, 1, tzinfo=UTC)
TTL = 3


class Event(NamedTuple):
    key: int
    what: str
    time: datetime


class Held(NamedTuple):
    partition: int
    keys: str


class Remember(Operator):
    """Lists of what came by key, which live for three seconds; what is there when the window ends."""

    events = InputPort(Event, key="key")
    held = OutputPort(Held)

    def end_window(self) -> None:
        state = self.state
        assert len(state) == len(list(state)) == len(state.items())
        found = ",".join(f"{key}:{'.'.join(values)}" for key, values in sorted(state.items()))
        self.held.emit(Held(self.context.partition, found))

    @events.process
    def take(self, event: Event) -> None:
        match event.what:
            case "remove":
                self.state.pop(event.key, None)
            case "read":
                self.state.get(event.key)
            case "many":
                self.state.put_many([event.key], [[event.what]])
            case _:
                self.state.setdefault(event.key, []).append(event.what)


class ByClock(Remember):
    state = KeyedState(list[str], key=int, ttl=TTL)


class ByRecord(Remember):
    state = KeyedState(list[str], key=int, ttl=timedelta(seconds=TTL), ttl_by="record")


class OfWindow(Remember):
    state = KeyedState(list[str], key=int, ttl="3s", scope="window")


def remembering(kind: type[Remember], items: list[Any], partitions: int, **attributes: Any) -> Application:
    return in_a_row(
        Application("remembering", window="1s"),
        source=ListInput(Event, items, timestamp="time", lateness=0),
        step=(kind(), {"partitions": partitions, **attributes}),
        sink=CollectorSink(Held),
    )


def naive(windows: list[list[Event]], by: str, count: int) -> list[dict[int, list[str]]]:
    """What is held after each window of a second. `count`: of streaming windows in an application window."""
    held: dict[int, list[str]] = {}
    written: dict[int, float | None] = {}
    newest: float | None = None
    found = []
    for window, events in enumerate(windows):
        now = window if by == "clock" else newest
        for key in list(held):
            if now is not None and written[key] is not None and written[key] + TTL <= now:  # type: ignore[operator]
                del held[key]
            elif now is not None and written[key] is None:
                written[key] = now
        touched = set()
        for key, what, time in events:
            second = (time - START).total_seconds()
            newest = second if newest is None else max(newest, second)
            if what == "remove":
                held.pop(key, None)
            elif what == "many":
                held[key] = [what]
                touched.add(key)
            elif what != "read":
                held.setdefault(key, []).append(what)
                touched.add(key)
        now = window if by == "clock" else newest
        written |= dict.fromkeys(touched, now)
        if (window + 1) % count == 0 or window == len(windows) - 1:
            found.append({key: list(values) for key, values in held.items()})
            if count > 1:
                held.clear()
    return found


EVENTS = st.builds(
    lambda key, what, second: Event(key, what, START + timedelta(seconds=second)),
    st.integers(0, 5),
    st.sampled_from(["a", "b", "many", "read", "remove"]),
    st.integers(0, 12),
)


@settings(max_examples=deep(8), deadline=None)
@given(
    kind=st.sampled_from([ByClock, ByRecord, OfWindow]),
    windows=st.lists(st.lists(EVENTS, max_size=3), min_size=2, max_size=10),
    kills=st.sets(st.integers(0, 9), max_size=2),
    partitions=st.integers(1, 3),
    stop=st.one_of(st.none(), st.integers(1, 6)),
    interval=st.sampled_from([1, 256]),
    segments=st.booleans(),
    interleave=st.one_of(st.none(), st.integers(0, 5)),
)
def test_keys_live_as_a_naive_model_says(
    kind: type[Remember],
    windows: list[list[Event]],
    kills: set[int],
    partitions: int,
    stop: int | None,
    interval: int,
    segments: bool,
    interleave: int | None,
) -> None:
    count = 4 if kind is OfWindow else 1
    items: list[Any] = []
    for number, events in enumerate(windows):
        items += [*events, *([ABORT] if number in kills else []), END_WINDOW]
    app = remembering(kind, [*items[:-1], EOF], partitions, application_window_count=count)
    storage, clock = MemoryStorage(), SteppingClock()
    got: list[dict[int, list[str]]] = []
    for most in [stop, None] if stop is not None and stop < len(windows) else [None]:
        with pytest.MonkeyPatch.context() as patch:
            if segments:  # states of a few keys as those of many
                patch.setattr(keyed_segments, "SEGMENT_KEYS", 2)
            run = run_local(
                app,
                windows=most,
                checkpoint=storage,
                clock=clock,
                interleave=interleave,
                attributes={"snapshot_interval": str(interval)},
            )
        clock.advance(1)
        for window in run.window_ids:
            if said := run.collected("sink", window):
                assert len(said) == partitions
                parts = [part for one in said for part in one.keys.split(",") if part]
                got.append({int(part.split(":")[0]): part.split(":")[1].split(".") for part in parts})
    assert got == naive(windows, "record" if kind is ByRecord else "clock", count)
