"""What many changes leave: no files, and no memory of slots."""

import contextlib
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.engine.driver.execution_kind import Execution
from ridgeline.engine.driver.planning import Planner
from ridgeline.measure.events import ApplicationChanged, ContainerWindow
from ridgeline.plan.edits import Repartition
from ridgeline.plan.planner import plan_application
from ridgeline.stram.changes import PlanChange
from ridgeline.testing import CollectorSink
from support.engine.on_spark import run_on_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]
KEYS, CHANGES, SETTLED = 100_000, 20, 4
GROWTH_BYTES = 6 << 20


class Key(NamedTuple):
    key: int


class Feed(InputOperator):
    """All keys in the first window, one in each after it."""

    out = OutputPort(Key)
    began = State(0)

    def emit_tuples(self) -> None:
        for key in range(1 if self.began else KEYS):
            self.out.emit(Key(key))
        self.began = 1


class Hold(Operator):
    """Something for each key."""

    keys = InputPort(Key, key="key")
    out = OutputPort(Key)
    held = KeyedState(list, key=int)

    @keys.process
    def hold(self, key: Key) -> None:
        self.held[key.key] = [key.key, str(key.key) * 10]


def own_bytes(pid: int) -> int:
    """The memory of a process, with its share of what it shares; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def test_repartitions_leave_neither_files_nor_memory(spark_context, tmp_path):
    app = Application("soak", window="20ms")
    feed, hold = app.add_operator("feed", Feed()), app.add_operator("hold", Hold(), partitions=2)
    app.add_stream("keys", feed.out, hold.keys)
    app.add_stream("out", hold.out, app.add_operator("sink", CollectorSink(Key)).input)
    stop, asked, memory, plans = threading.Event(), [], [], []

    def ask(run):
        partitions = 1 if len(asked) % 2 == 0 else 2
        asked.append(run.run.changes.ask(PlanChange((Repartition("hold", partitions),)), "test"))

    def seen(run, event):
        if not isinstance(event, ApplicationChanged) or event.state == "QUEUED":
            return
        pids = {one.pid for one in run.of_type(ContainerWindow)}
        memory.append(sum(map(own_bytes, pids)))
        plans.append(len(list((tmp_path / "checkpoint" / "plans").iterdir())))
        if len(asked) == CHANGES:
            stop.set()
        else:
            ask(run)

    def each(run, committed):
        if committed.window_id == 1:
            ask(run)

    run_on_spark(
        app,
        spark_context,
        tmp_path / "checkpoint",
        each=each,
        seen=seen,
        stop=stop,
        planner=Planner(
            lambda values, kept, edits: plan_application(app, values, {}, kept=kept, edits=edits), {}
        ),
        execution=Execution.SLOTS,
    )

    assert [one.state for one in asked] == ["APPLIED"] * CHANGES, [one.reason for one in asked]
    # With as many partitions as at the end. Nothing collected before `gc.freeze`: 1 MB a change more.
    assert memory[-1] - memory[SETTLED - 1] < GROWTH_BYTES, memory
    assert max(plans[SETTLED:]) <= max(plans[:SETTLED]) + 2, plans
    assert max(plans) <= 16
