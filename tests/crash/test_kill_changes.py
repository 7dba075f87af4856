"""Change an application hundreds of times while its slots and its driver are killed: nothing is lost."""

import contextlib
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ridgeline.cli.load import load_application
from ridgeline.engine.driver.changes import APPLIED
from ridgeline.engine.driver.execution_kind import Execution
from ridgeline.engine.driver.planning import Planner
from ridgeline.measure.events import SlotJoined, WindowCommitted
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    RemoveOperator,
    Repartition,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.planner import plan_application
from ridgeline.stram.changes import PlanChange
from ridgeline.testing import run_local
from support.crash.processes import committed
from support.crash.rows import Reader, multisets
from support.engine.on_spark import run_on_spark
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "changing.py"
AUDIT = {"class": "changing.Audit"}
CHANGES = 300
OFTEN = {f"{operator}.recovery_attempts": "1000" for operator in ("numbers", "same", "sums", "store")}


class Wanted:
    """What the plan should be, change by change."""

    def __init__(self, chance):
        self._chance = chance
        self.sums, self.same, self.audit = 2, 2, False

    def next(self):
        """The edits of another change, and what they make of the plan."""
        sums, same, audit = self.sums, self.same, self.audit
        kind = self._chance.randrange(5)
        if kind == 0:
            sums = self._chance.choice([one for one in (1, 2, 3, 4) if one != sums])
            edits = [Repartition("sums", sums)]
        elif kind == 1:
            same = self._chance.choice([one for one in (1, 2, 3) if one != same])
            edits = [Repartition("same", same)]
        elif kind == 2:
            edits = [SetProperty("numbers", "name", str(self._chance.random()))]
        elif kind == 3:
            edits = [SetAttribute("sums", "recovery_attempts", self._chance.randint(900, 1000))]
        else:
            audit = not audit
            added = [AddOperator("audit", AUDIT), AddSink("numbers", "audit.input")]
            edits = added if audit else [RemoveOperator("audit")]
        return tuple(edits), (sums, same, audit)

    def made(self, plan):
        self.sums, self.same, self.audit = plan


def partitions(plan, name):
    return sum(one.name == name and not one.unifier for one in plan.physical.operators)


def seen(plan):
    """What `Wanted` says of a plan."""
    return partitions(plan, "sums"), partitions(plan, "same"), bool(partitions(plan, "audit"))


def planner(output):
    app = load_application(str(APPLICATION), ["--output", str(output)])
    made = Planner(
        lambda values, kept, edits: plan_application(app, values, OFTEN, kept=kept, edits=edits), {}
    )
    return app, made


def test_three_hundred_changes_while_slots_are_killed(spark_context, wait_until, tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    pids, stop = {}, threading.Event()
    ran = []

    def see(run, event):
        if isinstance(event, SlotJoined):
            pids[event.slot] = event.pid
        if not ran and isinstance(event, WindowCommitted):
            ran.append(run)

    reader = Reader(output, checkpoint)
    reader.start()
    app, made = planner(output)
    wanted, applied, kills = Wanted(chance), 0, 0
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(
            run_on_spark,
            app,
            spark_context,
            checkpoint,
            seen=see,
            stop=stop,
            execution=Execution.SLOTS,
            planner=made,
        )

        def wait(condition, what):
            wait_until(lambda: condition() or running.done(), what)
            assert not running.done(), running.result()

        try:
            wait(lambda: ran, "the first window")
            run = ran[0].run
            while applied < CHANGES:
                edits, plan = wanted.next()
                asked = run.changes.ask(PlanChange(edits), "test")
                if chance.random() < 0.15:
                    time.sleep(chance.uniform(0.0, 0.12))  # somewhere around the boundary
                    victim = chance.choice(list(pids))
                    with contextlib.suppress(ProcessLookupError):  # it was given back
                        os.kill(pids[victim], signal.SIGKILL)
                        kills += 1
                wait(asked.done.is_set, f"an end of {asked.change.what}")
                assert asked.state == APPLIED, asked.reason
                applied += 1
                wanted.made(plan)
                assert seen(run.plan) == plan
            last = committed(checkpoint)
            wait(lambda: committed(checkpoint) > last, "a window after all")
        finally:
            stop.set()
        result = running.result()
    reader.finish()
    windows = committed(checkpoint) + 1
    print(f"{applied} changes and {kills} kills in {windows} windows, {len(result.retries)} retries")
    assert result.ids == list(range(windows))
    assert multisets(output) == by_hand(tmp_path, windows)


def by_hand(tmp_path, windows):
    """What the application gives without any change."""
    whole = tmp_path / "whole"
    app = load_application(str(APPLICATION), ["--output", str(whole)])
    run_local(app, windows=windows)
    return multisets(whole)
