"""Measure on Spark what `simulated_costs.py` draws from, with readers, keyed operators and writers.

    python -m benchmarks.measured_costs    # writes `simulated_costs.json`; a minute

The application has the shape of `decisions.py`: 12 containers in 12 slots, windows of 0.5 s with 12,000
tuples. Some workers are killed, so that restarts and restored states are in the table. On a machine with
fewer cores than slots they wait for each other, as on a busy host.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import NUMBERS, Number, rows
from benchmarks.simulated_costs import ROLES, SHARES, TABLE, quantiles
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.measure.encoding import to_dict
from ridgeline.measure.events import (
    ApplicationPlanned,
    ContainerHeartbeat,
    RunEvent,
    WindowCommitted,
    WindowReported,
)
from ridgeline.measure.slot_events import SlotEvent

READERS, KEYED, WRITERS = 6, 4, 2
ROWS = 2_000
WINDOWS = 100
_KILLS_AT = (40, 55, 70, 85)


class Read(InputOperator):
    """Emits the same tuples in each window."""

    output = OutputPort(Number)

    def setup(self, context: Any) -> None:
        self._batch = rows(ROWS).select(NUMBERS.names)

    def emit_tuples(self) -> None:
        self.output.emit_batch(self._batch)


class Sum(Operator):
    """The sum of what came."""

    data = InputPort(Number, key="key")
    output = OutputPort(Number)
    total = State(0)

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        self.total += sum(batch.column("value").to_pylist())
        self.output.emit_batch(batch)


class Keep(Operator):
    """The end."""

    data = InputPort(Number, key="key")
    total = State(0)

    @data.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        self.total += sum(batch.column("value").to_pylist())


def application() -> Application:
    """The application that is measured."""
    app = Application("costs", window="500ms")
    read = app.add_operator("input", Read(), partitions=READERS)
    keyed = app.add_operator("keyed", Sum(), partitions=KEYED)
    write = app.add_operator("output", Keep(), partitions=WRITERS)
    app.add_stream("in", read.output, keyed.data)
    app.add_stream("out", keyed.output, write.data)
    return app


def measured(events: Sequence[RunEvent], source: str) -> Mapping[str, Any]:
    """The table of a run's events; `source` says which run."""
    plan = next(one for one in events if isinstance(one, ApplicationPlanned))
    warm = [one for one in events if getattr(one, "window_id", 99) >= 10]
    reported = [one for one in warm if isinstance(one, WindowReported)]
    operators = np.concatenate([one.operators for one in reported])
    containers = np.concatenate([one.containers for one in reported])
    beats = [one for one in events if isinstance(one, ContainerHeartbeat) and one.container < 0]
    windows = [one for one in warm if isinstance(one, WindowCommitted)]
    again = {one.window_id for one in windows if one.attempts > 1}
    role_of = {one.id: "unifier" if one.unifier else one.name for one in plan.topology.operators}
    roles = np.array([role_of[one] for one in operators["operator"].tolist()])
    return {
        "source": source,
        "shares": SHARES,
        "operators": {
            role: {
                "compute": quantiles(operators["compute_seconds"][roles == role].tolist()),
                "transfer": quantiles(operators["transfer_seconds"][roles == role].tolist()),
            }
            for role in ROLES
        },
        "restore": quantiles(
            [
                seconds
                for one in reported
                if one.window_id in again
                for seconds in (one.containers["restored"] - one.containers["began"]).tolist()
            ]
        ),
        "write": quantiles((containers["written"] - containers["ran"]).tolist()),
        "hop": quantiles(_hops(plan, reported)),
        "restart": quantiles(_restarts(events)),
        "start": quantiles(_restarts(events)),
        "sync": quantiles([one.committed - one.staged for one in windows]),
        "events": {
            role: _like(reported[-1], next(one for one, name in role_of.items() if name == role))
            for role in ROLES
        },
        "heartbeats": [
            to_dict(next(one for one in reversed(beats) if not one.lines)),
            to_dict(max((one for one in beats if one.lines), key=lambda one: len(str(one)))),
        ],
    }


def _like(event: WindowReported, operator: int) -> dict[str, Any]:
    """What an operator has reported, without its tuples."""
    written = to_dict(event)
    row = written["operators"]["operator"].index(operator)
    of_window = {"at": 0.0, "window_id": 0, "attempt": 0, "host": "", "tuples_in": {}, "tuples_out": {}}
    numbers = {name: column[row] for name, column in written["operators"].items()}
    return {**numbers, **of_window, "ages": written["ages"].get(operator, [])}


def _hops(plan: ApplicationPlanned, reported: Iterable[WindowReported]) -> list[float]:
    """From the moment when a container's slowest producer had its output until all of its input has come."""
    hops = []
    for event in reported:
        own = event.containers
        written, ready = (
            dict(zip(own["container"].tolist(), own[name].tolist(), strict=True))
            for name in ("written", "ready")
        )
        for container, producers in plan.topology.producers.items():
            if producers and written.keys() >= {container, *producers}:
                hops.append(max(0.0, ready[container] - max(map(written.__getitem__, producers))))
    return hops


def _restarts(events: Iterable[RunEvent]) -> list[float]:
    lost: dict[int, float] = {}
    found = []
    for one in events:
        if isinstance(one, SlotEvent) and one.kind == "lost":
            lost[one.slot] = one.at
        elif isinstance(one, SlotEvent) and one.kind in {"joined", "restarted"} and one.slot in lost:
            found.append(one.at - lost.pop(one.slot))
    return found


def main() -> None:
    """Run the application and write the table."""
    from ridgeline.engine.driver.run.launch import Options
    from ridgeline.plan import plan_application
    from ridgeline.service.measured import ServiceOptions, run_measured

    events: list[RunEvent] = []
    pids: dict[int, int] = {}

    def observe(event: RunEvent) -> None:
        events.append(event)
        if isinstance(event, SlotEvent) and event.kind in {"joined", "restarted"}:
            pids[event.slot] = event.pid
        elif isinstance(event, WindowCommitted) and event.window_id in _KILLS_AT:
            os.kill(pids[_KILLS_AT.index(event.window_id)], signal.SIGKILL)

    containers = READERS + KEYED + WRITERS
    with tempfile.TemporaryDirectory() as folder:
        options = Options(f"local[{containers}]", {}, f"{folder}/checkpoint", WINDOWS)
        run_measured(plan_application(application()), options, ServiceOptions(port=None), observe=observe)
    day = datetime.now(UTC).date()
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    run = f"{WINDOWS} windows of 0.5 s, {containers} containers in as many slots on `local[{containers}]`"
    load = f"{READERS * ROWS:,} tuples a window, {len(_KILLS_AT)} workers killed; {machine}"
    source = f"`python -m benchmarks.measured_costs` of {day}: {run}, {load}"
    TABLE.write_text(json.dumps(measured(events, source), indent=1) + "\n", encoding="utf-8")
    print(f"written: {TABLE}")


if __name__ == "__main__":
    main()
