"""Spark's own account of windows that are micro-batches: its phases."""

from datetime import UTC, datetime

import pytest

from ridgeline.measure.events import SparkTrigger, WindowCommitted, WindowPlanned
from support.engine.on_spark import run_on_spark
from support.engine.spark_sources import rate_application

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_each_window_has_sparks_phases(spark_context, tmp_path):
    before = datetime.now(UTC).timestamp()
    run = run_on_spark(rate_application(partitions=2), spark_context, tmp_path / "checkpoint", windows=3)

    triggers = run.of_type(SparkTrigger)
    assert [event.window_id for event in triggers] == run.ids == [0, 1, 2]
    planned = {event.window_id: event.at for event in run.of_type(WindowPlanned)}
    committed = {event.window_id: event for event in run.of_type(WindowCommitted)}
    for event in triggers:
        phases = dict(event.phases)
        whole = phases.pop("triggerExecution")
        assert phases.keys() >= {"latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch"}
        assert (
            0.5 * whole <= sum(phases.values()) <= whole + 0.02
        )  # Spark names no phase for some of it, and rounds each
        assert before <= event.triggered <= planned[event.window_id] <= event.triggered + whole
        assert (
            phases["addBatch"]
            >= committed[event.window_id].published - committed[event.window_id].began - 0.002
        )
        assert run.events.index(event) > run.events.index(committed[event.window_id])
