"""Times of a driver's decisions by the number of containers and hosts, in a simulation of the real driver.

    python -m benchmarks.decisions                    # 100, 1,000 and 10,000 containers; minutes
    python -m benchmarks.decisions 1000               # so many containers, ten on each host
    python -m benchmarks.decisions 1000 --hosts 50 --windows 100 --profile

The application has pipelines of 50 readers, 30 keyed operators and 20 writers, as many as make up the number.
Every container has a slot. Its parts:

- placement: what is decided about slots before and between windows; hosts are names, nothing is started
- a run with windows of a second, heartbeats, and slots and hosts that fail and come back
- a run without failures, whose windows follow each other as fast as the driver can: where it ends
- network: what the driver's end of real sockets takes, which the simulation leaves out
- service: what the web service, the command and the page take, asked over sockets while the driver waits

Costs of containers are drawn from those that were measured (`simulated_costs.py`). Times are processor
seconds of the driver's thread, without those of the simulation.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.data import Number
from benchmarks.decision_network import microseconds
from benchmarks.decision_service import waits
from benchmarks.decision_times import Times, timed
from benchmarks.simulated_costs import MeasuredCosts
from benchmarks.simulated_run import Cluster, SimulatedRun
from benchmarks.simulated_spark import Failures
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.engine.process.garbage import short_pauses, spare_loaded
from ridgeline.measure.events import RunEvent, WindowCommitted, WindowRetried
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.service.export.prometheus import Readings, exposition
from ridgeline.service.http.bodies import to_json
from ridgeline.stram.placement import HostCapacity, PlanRules, host_preferences, place, place_spread
from ridgeline.stram.slots import Member, Slots

_T = TypeVar("_T")
_READERS, _KEYED, _WRITERS = 50, 30, 20
PIPELINE = _READERS + _KEYED + _WRITERS
SIZES = (100, 1_000, 10_000)
PER_HOST = 10
SLOT_HOURS, HOST_HOURS = 50.0, 15.0
"""Of 10,000 slots one fails every 18 s, of 1,000 hosts one every 54 s: more often than in most clusters."""
SMALL_BYTES = 500
WINDOWS = 60
_WARM, _SLOT_LOST, _HOST_LOST = 2, 4, 8
"""After so many windows one fails in any case, so that short runs have both."""
_ANSWERS_EVERY = 5
"""After so many windows the questions are asked once."""
_APART_SECONDS = 0.3
_SHOWN = 14
_PEERS = 300
"""Real connections; each takes two of the files that this process and its child may open."""


class Numbers(InputOperator):
    """It is planned, and never run."""

    output = OutputPort(Number)

    def emit_tuples(self) -> None:
        """Not called."""


class Pass(Operator):
    """An operator with a key and state."""

    data = InputPort(Number, key="key")
    output = OutputPort(Number)
    total = State(0)

    @data.process
    def add(self, tuple: Number) -> None:
        """Not called."""


class Write(Operator):
    """The end of a pipeline."""

    data = InputPort(Number, key="key")
    total = State(0)

    @data.process
    def add(self, tuple: Number) -> None:
        """Not called."""


def application(pipelines: int, window: str | int = "1s") -> Application:
    """So many pipelines of three stages; all partitions of a stage send to all of the next one."""
    app = Application("decisions", window=window)
    for number in range(pipelines):
        read = app.add_operator(f"read{number}", Numbers(), partitions=_READERS)
        keyed = app.add_operator(f"keyed{number}", Pass(), partitions=_KEYED)
        write = app.add_operator(f"write{number}", Write(), partitions=_WRITERS)
        app.add_stream(f"in{number}", read.output, keyed.data)
        app.add_stream(f"out{number}", keyed.output, write.data)
    return app


# Placement --------------------------------------------------------------------------------------------------


def _row(what: str, decide: Callable[[], _T]) -> _T:
    """Print a row: the CPU milliseconds of one decision."""
    began = time.thread_time()
    result = decide()
    print(f"| {what} | {1e3 * (time.thread_time() - began):,.1f} |", flush=True)
    return result


def placement_table(containers: int, hosts: int) -> Plan:
    """Print the decisions about slots that come before and between windows; returns the plan."""
    print(f"\n**Placement, {containers:,} containers on {hosts:,} hosts**\n")
    print("| decision | CPU ms |\n|---|---|")
    plan = _row(
        "plan the application, once at the start",
        lambda: plan_application(application(containers // PIPELINE)),
    )
    slots = len(plan.execution.containers)
    each = -(-slots // hosts)
    capacities = {f"host{number:04}": HostCapacity(each) for number in range(hosts)}
    spare_loaded()  # as a run does, the plan is left to no collection of garbage
    placement = _row("place containers in slots", lambda: place(plan, slots))
    _row("choose hosts for all slots", lambda: host_preferences(plan, placement, capacities))
    running = _row(
        "the same, with all that is kept", lambda: Slots(placement, 3, PlanRules(plan), capacities)
    )
    names = list(capacities)

    def join(which: range) -> None:
        for slot in which:
            running.joined(slot, Member("host", slot, "", names[slot // each]))

    def lose(which: range) -> None:
        for slot in which:
            running.lost(slot, "its host is gone")

    _row("all slots join", lambda: join(range(slots)))
    lost = range(each)
    _row("a host is lost", lambda: lose(lost))
    _row("its slots come back", lambda: join(lost))
    _row("a host is lost", lambda: lose(lost))
    _row("its containers move to other slots", lambda: running.shrink_to(slots - each))
    now = running.placement
    _row("containers are spread again", lambda: place_spread(plan, now, lost))
    return plan


# A run ------------------------------------------------------------------------------------------------------


class _Windows:
    """What a run has committed, and the driver's own seconds by then.

    `each(count)` is called beside the driver, once a window is committed.
    """

    def __init__(self, driven: SimulatedRun, each: Callable[[int], None]) -> None:
        self.marks: list[tuple[float, float]] = []
        """Of each window: simulated time and processor time of the driver."""
        self.retries = 0
        self._driven = driven
        self._each = each
        self._known = 0
        driven.watch.subscribe(self._take, (WindowCommitted, WindowRetried))
        driven.beside.append(self._look)

    def _take(self, event: RunEvent) -> None:
        if isinstance(event, WindowCommitted):
            self.marks.append((self._driven.clock.monotonic(), self._driven.worked()))
        elif isinstance(event, WindowRetried):
            self.retries += 1

    def _look(self) -> None:
        if self._known != len(self.marks):
            self._known = len(self.marks)
            self._each(self._known)


def run_table(containers: int, hosts: int, windows: int, *, fails: bool = True) -> None:
    """Print the times of a run with windows of a second, heartbeats and failures."""
    plan = plan_application(application(containers // PIPELINE))
    costs = MeasuredCosts.shipped()
    failures = Failures(SLOT_HOURS * containers / 10_000, HOST_HOURS * hosts / 1_000) if fails else Failures()
    cluster = Cluster(_places(plan, hosts), costs, failures, costs, small_bytes=SMALL_BYTES)
    times = Times()
    with tempfile.TemporaryDirectory() as folder:
        driven = SimulatedRun(plan, Path(folder), cluster)

        due = {_WARM: driven.trouble.begin}
        if fails:
            due |= {_SLOT_LOST: driven.trouble.lose_slot, _HOST_LOST: driven.trouble.lose_host}
        asked = [0]

        def each(count: int) -> None:
            for number in [one for one in due if one <= count]:  # several may be committed at once
                due.pop(number)()
            if count >= asked[0] + _ANSWERS_EVERY:
                asked[0] = count
                _ask(driven, readings, times)

        driven.watch.keep_figures()
        readings = Readings(driven.watch)
        seen = _Windows(driven, each)
        began = driven.worked()
        with timed(driven, times):
            ended = _driven(driven, windows)
        first, last = seen.marks[1], seen.marks[-1]
        network, trouble = driven.network, driven.trouble
        print(f"\n**Windows of 1 s, {containers:,} containers on {hosts:,} hosts**\n")
        print("| what the driver does | times | p50 ms | p99 ms | longest ms | sum s |")
        print("|---|---|---|---|---|---|")
        for kind, count, median, high, most, total in times.rows():
            figures = f"{1e3 * median:,.2f} | {1e3 * high:,.2f} | {1e3 * most:,.1f} | {total:,.2f}"
            print(f"| {kind} | {count:,} | {figures} |")
        share = (last[1] - first[1]) / (last[0] - first[0])
        failed = f"{trouble.slots} slots and {trouble.hosts} hosts failed"
        again = f"{seen.retries} attempts were begun again"
        print(
            f"\n{len(seen.marks)} windows in {last[0]:,.0f} simulated seconds; {failed}, {again}. The "
            f"driver's thread had work for {share:.0%} of it, {first[1] - began:,.1f} s for the start. "
            f"{network.sent_bytes / 1e6:,.0f} MB were sent. {_memory()}"
        )
        if ended:
            driven.close()


def _driven(driven: SimulatedRun, windows: int) -> bool:
    """Run so many windows; False if Ctrl-C ends the run before: its figures are of the windows until then."""
    try:
        driven.drive(windows)
    except KeyboardInterrupt:
        print("(interrupted)", file=sys.stderr)
        return False
    return True


def _ask(driven: SimulatedRun, readings: Readings, times: Times) -> None:
    """Ask what users and policies ask; the answers are made into JSON as for the web service, or text."""
    watch = driven.watch
    questions: dict[str, Callable[[], object]] = {
        "`/` is answered": watch.info,
        "an overview is made for the page": watch.overview,
        "`/criticalPath` is answered": watch.critical_path,
        "`/physicalPlan/containers` is answered": watch.containers,
        "`/metrics` is answered": partial(exposition, readings),
        "policies get their figures": watch.application_figures,
    }
    while watch.settle():
        pass  # what waits to be folded is not theirs
    for kind, ask in questions.items():
        driven.clock.advance(driven.clock.monotonic() + _APART_SECONDS)  # nothing is shared with the last one
        began = driven.worked()
        answer = ask()
        if not isinstance(answer, bytes) and kind != "policies get their figures":
            to_json(answer)
        times.add(f"answers: {kind}", driven.worked() - began)


def service_table(containers: int, hosts: int, windows: int) -> None:
    """Print what users wait for, after so many windows."""
    plan = plan_application(application(containers // PIPELINE))
    costs = MeasuredCosts.shipped()
    cluster = Cluster(_places(plan, hosts), costs, heartbeats=costs, small_bytes=SMALL_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        driven = SimulatedRun(plan, Path(folder), cluster)

        def each(count: int) -> None:
            if count != windows - 1:
                return
            while driven.watch.settle():
                pass
            print(f"\n**What users wait for, {containers:,} containers on {hosts:,} hosts**\n")
            print("| asked for | ms | KB |\n|---|---|---|")
            for what, spent, size in waits(driven, plan):
                print(f"| {what} | {1e3 * spent:,.0f} | {size / 1e3:,.0f} |", flush=True)

        _Windows(driven, each)
        driven.drive(windows)
        driven.close()


def limit_table(containers: int, hosts: int, windows: int, *, profiled: bool = False) -> None:
    """Print how many windows a second the driver does at most, or by a profile what it does in them."""
    plan = plan_application(application(containers // PIPELINE, window=0))
    costs = MeasuredCosts.shipped()
    cluster = Cluster(_places(plan, hosts), costs, heartbeats=costs, small_bytes=SMALL_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        driven = SimulatedRun(plan, Path(folder), cluster)
        profile = cProfile.Profile(time.thread_time)
        seen = _Windows(driven, lambda count: profile.enable() if profiled and count == 2 else None)
        driven.drive(windows)
        profile.disable()
        (began, worked), (ended, worked_then) = seen.marks[1], seen.marks[-1]
        count = len(seen.marks) - 2
        share = (worked_then - worked) / (ended - began)
        if profiled:
            driven.close()
            _profile(profile)
            return
        print(f"\n**As fast as the driver can, {containers:,} containers on {hosts:,} hosts**\n")
        each = f"{1e3 * (worked_then - worked) / count:,.0f} ms a window, heartbeats among it"
        print(
            f"{count / (ended - began):,.2f} windows a second; the driver's thread works for {share:.0%} of "
            f"the time, {each}. {_memory()}"
        )
        driven.close()


def _profile(profile: cProfile.Profile) -> None:
    """Print the functions of the driver that take the most time in themselves."""
    found = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    own = {
        place: row[2]
        for place, row in found.items()
        if "benchmarks" not in place[0] and "pstats" not in place[0]
    }
    total = sum(own.values())
    print("\n| function | own time |\n|---|---|")
    for (file, line, name), seconds in sorted(own.items(), key=lambda one: -one[1])[:_SHOWN]:
        where = file.partition("ridgeline/src/")[2] or file.rpartition("src/ridgeline/")[2] or file
        print(f"| `{name}` ({where}:{line}) | {seconds / total:.1%} |")


def _places(plan: Plan, hosts: int) -> dict[str, int]:
    each = -(-len(plan.execution.containers) // hosts)
    return {f"host{number:04}": each for number in range(hosts)}


def _memory() -> str:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return f"Peak memory of this process, the simulation among it: {peak:,} MiB."


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decisions", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "containers", nargs="*", type=int, default=SIZES, help="a multiple of 100; default: 100 1000 10000"
    )
    parser.add_argument("--hosts", type=int, help="default: one for ten containers")
    parser.add_argument("--windows", type=int, default=WINDOWS, help=f"of each run; default: {WINDOWS}")
    parser.add_argument(
        "--part", choices=("placement", "run", "limit", "network", "service"), help="one of the parts only"
    )
    parser.add_argument("--profile", action="store_true", help="name the functions that take the time")
    given = parser.parse_args(arguments)
    if given.part in (None, "network"):
        print("\n**Real sockets, which the simulation leaves out**\n")
        print("| the driver's end | microseconds |\n|---|---|")
        for what, spent in microseconds(_PEERS).items():
            print(f"| a frame {what} |" if what != "looked at" else "| a peer looked at |", f"{spent:,.1f} |")
    for containers in given.containers:
        hosts = max(2, containers // PER_HOST) if given.hosts is None else given.hosts
        if containers < PIPELINE or containers % PIPELINE or not 0 < hosts <= containers or given.windows < 4:
            wanted = f"containers are a multiple of {PIPELINE}, hosts no more than these, windows 4 at least"
            parser.error(f"{wanted}; got {containers} containers, {hosts} hosts, {given.windows} windows")
        if given.part in (None, "placement"):
            with short_pauses():
                placement_table(containers, hosts)
        if given.part in (None, "run"):
            run_table(containers, hosts, given.windows)
        if given.part == "service":
            service_table(containers, hosts, given.windows)
        if given.part in (None, "limit"):
            limit_table(containers, hosts, given.windows)
            if given.profile:
                limit_table(containers, hosts, given.windows, profiled=True)


if __name__ == "__main__":
    main()
