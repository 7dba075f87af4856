"""Seconds of STRAM's decisions about slots, by the number of containers and hosts.

    python -m benchmarks.decisions            # 10,000 containers, a slot each, on 1,000 hosts; a minute
    python -m benchmarks.decisions 1000 100   # other numbers of containers and hosts

The application has pipelines of 50 readers, 30 keyed operators and 20 writers, as many as make up the number.
The code is STRAM's own (`ridgeline.stram`): hosts and slots are names and numbers, nothing is started. Times
are CPU seconds of one run each.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from benchmarks.data import Number
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort
from ridgeline.plan.planner import plan_application
from ridgeline.stram.following import place_spread
from ridgeline.stram.placement import HostCapacity, host_preferences, place
from ridgeline.stram.rules import PlanRules
from ridgeline.stram.slots import Member, Slots

_T = TypeVar("_T")
_READERS, _KEYED, _WRITERS = 50, 30, 20
PIPELINE = _READERS + _KEYED + _WRITERS


class Numbers(InputOperator):
    """It is planned, and never run."""

    output = OutputPort(Number)

    def emit_tuples(self) -> None:
        """Not called."""


class Pass(Operator):
    """An operator with a key."""

    data = InputPort(Number, key="key")
    output = OutputPort(Number)

    @data.process
    def add(self, tuple: Number) -> None:
        """Not called."""


class Write(Operator):
    """The end of a pipeline."""

    data = InputPort(Number, key="key")

    @data.process
    def add(self, tuple: Number) -> None:
        """Not called."""


def application(pipelines: int) -> Application:
    """So many pipelines of three stages; all partitions of a stage send to all of the next one."""
    app = Application("decisions", window="1s")
    for number in range(pipelines):
        read = app.add_operator(f"read{number}", Numbers(), partitions=_READERS)
        keyed = app.add_operator(f"keyed{number}", Pass(), partitions=_KEYED)
        write = app.add_operator(f"write{number}", Write(), partitions=_WRITERS)
        app.add_stream(f"in{number}", read.output, keyed.data)
        app.add_stream(f"out{number}", keyed.output, write.data)
    return app


def timed(what: str, decide: Callable[[], _T]) -> _T:
    """Print a row: the CPU seconds of one decision."""
    began = time.thread_time()
    result = decide()
    print(f"| {what} | {time.thread_time() - began:.3f} |", flush=True)
    return result


def main(containers: int = 10_000, hosts: int = 1_000) -> None:
    """Print the table."""
    print("| decision | CPU seconds |\n|---|---|")
    plan = timed("plan the application", lambda: plan_application(application(containers // PIPELINE)))
    slots = len(plan.execution.containers)
    each = -(-slots // hosts)
    capacities = {f"host{number:04}": HostCapacity(each) for number in range(hosts)}
    placement = timed("place containers in slots", lambda: place(plan, slots))
    timed("choose hosts for all slots", lambda: host_preferences(plan, placement, capacities))
    running = timed(
        "the same, with all that is kept", lambda: Slots(placement, 3, PlanRules(plan), capacities)
    )
    names = list(capacities)

    def join(which: range) -> None:
        for slot in which:
            running.joined(slot, Member("host", slot, "", names[slot // each]))

    def lose(which: range) -> None:
        for slot in which:
            running.lost(slot, "its host is gone")

    timed("all slots join", lambda: join(range(slots)))
    lost = range(each)
    timed("a host is lost", lambda: lose(lost))
    timed("its slots come back", lambda: join(lost))
    timed("a host is lost", lambda: lose(lost))
    timed("its containers move to other slots", lambda: running.shrink_to(slots - each))
    now = running.placement
    timed("containers are spread again", lambda: place_spread(plan, now, lost))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"\n{slots:,} containers, {hosts:,} hosts; peak memory {peak:,} MiB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
