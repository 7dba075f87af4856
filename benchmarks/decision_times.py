"""Processor seconds of what a driver does, by kind: its methods are timed while it runs."""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.simulated_run import SimulatedRun
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.driver.slots.contents import SlotChanging, SlotContents
from ridgeline.engine.driver.slots.executor import SlotExecutor
from ridgeline.engine.driver.slots.group import Reach, SlotCame, SlotGone, SlotGroup
from ridgeline.engine.driver.slots.health import Hangs
from ridgeline.engine.slot.messages import Reported
from ridgeline.observe.watch import Watch
from ridgeline.stram.control import Commit, Publish
from ridgeline.stram.master import Master
from ridgeline.stram.slots import Slots

_Name = str | Callable[[tuple[Any, ...], Any], str]
_ORDER = ("host lost", "slot lost", "unreachable", "prepared", "joined", "ended", "report", "heartbeat")
_REACTIONS = "all that follows: "


class Times:
    """Samples in seconds, by kind."""

    def __init__(self) -> None:
        self.samples: dict[str, list[float]] = {}

    def add(self, kind: str, seconds: float) -> None:
        """One more."""
        self.samples.setdefault(kind, []).append(seconds)

    def rows(self) -> list[tuple[str, int, float, float, float, float]]:
        """By kind: how many, p50, p99, the longest, and the sum."""
        return [
            (kind, len(values), _at(values, 0.5), _at(values, 0.99), max(values), math.fsum(values))
            for kind, values in sorted(self.samples.items())
        ]


def _at(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1 if share else 0)]


def _event_of_master(values: tuple[Any, ...], result: Any) -> str:
    kind = type(values[1]).__name__
    commits = kind == "ContainerReported" and any(isinstance(one, Commit) for one in result)
    return f"STRAM: {kind}{', the last one: `Commit`' if commits else ''}"


def _message(values: tuple[Any, ...], _result: object) -> str:
    return "a report is taken in" if isinstance(values[3], Reported) else ""


def _group_event(values: tuple[Any, ...], _result: object) -> str:
    event = values[2]
    if isinstance(event, SlotGone):
        return "a slot is lost: what follows for windows"
    return "a slot has joined" if isinstance(event, SlotCame) else ""


def _carried_out(values: tuple[Any, ...], _result: object) -> str:
    return "a window is published: its events are reported" if isinstance(values[1], Publish) else ""


_TIMED: Sequence[tuple[type, str, _Name]] = (
    (Master, "handle", _event_of_master),
    (SlotExecutor, "begin", "a window begins: it is sent to all slots"),
    (SlotExecutor, "_take_message", _message),
    (SlotExecutor, "_take", _group_event),
    (ApplicationRun, "_commit", "a commit: outputs, manifest, record"),
    (Checkpoint, "commit", "of that the record, which a thread of its own writes on Spark"),
    (ApplicationRun, "_carry_out", _carried_out),
    (Watch, "settle", "figures: a piece of a window is folded"),
    (Heartbeats, "take", "a heartbeat is taken in"),
    (Hangs, "look", "the watchdog looks for hangs"),
    (Reach, "look", "silent hosts are looked for"),
    (SlotGroup, "_lost", "a slot is lost: what follows for slots"),
    (SlotGroup, "_send_assignments", "all slots are there: each gets its containers"),
    (Slots, "shrink_to", "containers move to the slots that are left"),
    (SlotChanging, "spread", "containers are spread again, with plan files"),
)


@contextmanager
def timed(driven: SimulatedRun, times: Times) -> Iterator[None]:
    """Time what the driver does within the block."""
    driver = threading.get_ident()
    clock, network = driven.clock, driven.network

    def worked() -> float:
        apart = clock.apart_seconds if threading.get_ident() == driver else 0.0
        return time.thread_time() - apart

    def timing(method: Callable[..., Any], name: _Name) -> Callable[..., Any]:
        def call(*values: Any, **named: Any) -> Any:
            began = worked()
            result = method(*values, **named)
            seconds = worked() - began
            kind = name if isinstance(name, str) else name(values, result)
            if kind:
                times.add(kind, seconds)
            return result

        return call

    mark: list[tuple[float, str]] = []

    def returned() -> None:
        label = next((one for one in _ORDER if one in network.labels), "nothing")
        mark.append((clock.monotonic(), label))

    def called() -> None:
        if mark:
            began, label = mark.pop()
            mark.clear()
            times.add(f"{_REACTIONS}{label}", clock.monotonic() - began)

    began_garbage = [0.0]

    def garbage(phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            began_garbage[0] = time.perf_counter()
        else:
            seconds = time.perf_counter() - began_garbage[0]
            times.add(f"garbage is collected, generation {info['generation']}", seconds)

    distribute = SlotContents.distribute

    def distributing(*values: Any) -> Any:
        began = time.process_time()
        files = distribute(*values)
        times.add("plan files of slots are written, in threads", time.process_time() - began)
        return files

    with ExitStack() as undo:
        SlotContents.distribute = distributing  # type: ignore[method-assign]
        undo.callback(setattr, SlotContents, "distribute", distribute)
        for owner, attribute, name in _TIMED:
            usual = getattr(owner, attribute)
            setattr(owner, attribute, timing(usual, name))
            undo.callback(setattr, owner, attribute, usual)
        network.on_return = returned
        driven.beside.insert(0, called)
        gc.callbacks.append(garbage)
        undo.callback(gc.callbacks.remove, garbage)
        yield
    network.on_return = bool
    driven.beside.remove(called)
