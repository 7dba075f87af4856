"""Spark's own account of windows that are micro-batches: its phases and its sources."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ridgeline import Application
from ridgeline.measure.events import SourceProgress, SparkTrigger, WindowCommitted, WindowPlanned
from ridgeline.measure.latency.window_phases import phase_table
from ridgeline.observe.plan_topology import topology_of
from ridgeline.operators import SparkInput
from support.engine.applications import Number, Sum, sink
from support.engine.on_spark import run_on_spark
from support.engine.spark_sources import rate_application

pytestmark = pytest.mark.spark


def sources(run, operator):
    """What was reported of a Spark source, window by window."""
    first = next(physical.id for physical in run.plan.physical.operators if physical.name == operator)
    found = [event for event in run.of_type(SourceProgress) if event.operator == first]
    assert all(event.whole and event.unit == "records" for event in found)
    assert [event.window_id for event in found] == run.ids
    return found


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

    table = phase_table(run.events, topology_of(run.plan))
    assert table.explained >= 0.95
    assert {phase.phase for phase in table.phases} >= {
        "trigger",
        "offset log",
        "planning",
        "job launch",
        "commit log",
    }


def files():
    """Ten files of four numbers each, two a batch. A local class, so that workers get it by value."""

    class FilesReader(DataSourceStreamReader):
        def initialOffset(self):  # noqa: N802  Spark's
            return {"file": 0}

        def getDefaultReadLimit(self):  # noqa: N802  Spark's
            return ReadMaxRows(8)

        def latestOffset(self, start, limit):  # noqa: N802  Spark's
            return (
                {"file": 10} if isinstance(limit, ReadAllAvailable) else {"file": min(10, start["file"] + 2)}
            )

        def reportLatestOffset(self):  # noqa: N802  Spark's
            return {"file": 10}

        def partitions(self, start, end):
            return [InputPartition((start["file"], end["file"]))]

        def read(self, partition):
            for file in range(*partition.value):
                for row in range(4):
                    yield (4 * file + row,)

    class Files(DataSource):
        @classmethod
        def name(cls):
            return "ridgeline_test_files"

        def schema(self):
            return "value bigint"

        def streamReader(self, schema):  # noqa: N802  Spark's
            return FilesReader()

    return Files


@pytest.mark.slow
def test_backlog_of_a_source_that_reports_its_latest_offset(spark_context, tmp_path):
    from pyspark.sql import SparkSession

    SparkSession(spark_context).dataSource.register(files())
    app = Application("files", window="1ms")
    numbers = app.add_operator(
        "numbers", SparkInput(format="ridgeline_test_files", schema=Number), partitions=2
    )
    total = app.add_operator("total", Sum())
    app.add_stream("numbers", numbers.output, total.numbers)
    app.add_stream("sums", total.sums, sink(app, "store", Number))
    run = run_on_spark(app, spark_context, tmp_path / "checkpoint", windows=5)

    reported = [(event.consumed, event.remaining) for event in sources(run, "numbers")]
    assert [consumed for consumed, _ in reported] == [8.0, 16.0, 24.0, 32.0, 40.0]
    assert [remaining for _, remaining in reported][1:] == [24.0, 16.0, 8.0, 0.0]
    assert [number.value for number in run.collected("store")][-1] == sum(range(40))
