"""Changes of an application whose windows are micro-batches of Spark."""

import threading

import pytest

from ridgeline.measure.events import ApplicationChanged
from ridgeline.plan.edits import AddOperator, AddSink, RemoveOperator, Repartition, SetProperty
from ridgeline.stram.changes import EditPlan, Pause, Resume
from support.engine.on_spark import planner_of, run_on_spark
from support.engine.spark_sources import rate_application

pytestmark = pytest.mark.spark


def test_a_plan_changes_between_micro_batches(spark_context, tmp_path):
    stop, asked = threading.Event(), []
    edits = (
        AddOperator("seen", {"class": "ridgeline.testing.CollectorSink"}),
        AddSink("numbers", "seen.input"),
    )

    def ask(run, what):
        asked.append(run.run.changes.ask(what, "test"))

    def each(run, committed):
        if committed.window_id == 1:
            ask(run, EditPlan((Repartition("numbers", 2),)))
            ask(run, EditPlan((SetProperty("numbers", "options", {"rowsPerBatch": 7}),)))
            ask(run, EditPlan((RemoveOperator("numbers"),)))
            ask(run, EditPlan(edits))
            ask(run, Pause())
        elif len(asked) == 6 and asked[3].state == "APPLIED" and committed.window_id > asked[3].window + 1:
            stop.set()

    def seen(run, event):
        if isinstance(event, ApplicationChanged) and event.what == "pause":
            ask(run, Resume())

    app = rate_application()
    run = run_on_spark(
        app,
        spark_context,
        tmp_path / "checkpoint",
        each=each,
        seen=seen,
        stop=stop,
        planner=planner_of(app),
    )

    states = [one.state for one in asked]
    assert states == ["REFUSED", "REFUSED", "REFUSED", "APPLIED", "APPLIED", "APPLIED"], asked[3].reason
    for one in asked[:2]:
        assert "`numbers` reads from Spark, whose query stays as it is" in one.reason
    first, last = asked[3].window, run.ids[-1]
    assert run.ids == list(range(last + 1))
    totals = [sum(range(1, 100 * window + 100, 2)) for window in range(last + 1)]
    assert [row[0] for row in run.collected("store")] == totals
    seen_values = sorted(row["value"] for row in run.collected("seen"))
    assert seen_values == list(range(100 * first + 1, 100 * last + 100, 2))
