"""What a run adds up to, as `Measurement` answers it."""

from dataclasses import replace

import pytest

from ridgeline.measure.events import SourceProgress, WindowReported
from ridgeline.measure.measurement import Measurement
from support.cli.windows import make_plan, planned, run_window, window
from support.measure.reports import changed

PLAN = make_plan()


@pytest.fixture
def run():
    return begun(Measurement())


def begun(measurement, **attributes):
    measurement.apply(planned(PLAN, **attributes))
    return measurement


def rows(run):
    return {row["operator"]: row for row in run.summary()["operators"]}


def test_tuples_are_summed_over_partitions_and_time_is_the_slowest(run):
    run_window(run, PLAN, 0, 100)
    run_window(run, PLAN, 1, 60)
    double = rows(run)["double"]
    assert (double["partitions"], double["tuplesIn"], double["tuplesOut"]) == (2, 160, 160)
    assert double["seconds"] == pytest.approx(0.016)
    assert double["windows"] == 2


def test_a_windows_tuples_go_in_at_the_inputs_and_out_at_the_leaves(run):
    found = run_window(run, PLAN, 7, 100, seconds=0.04)
    assert {**found, "seconds": round(found["seconds"], 6)} == {
        "windowId": 7,
        "tuplesIn": 100,
        "tuplesOut": 100,
        "seconds": 0.04,
    }


def test_the_first_window_is_kept_apart(run):
    run_window(run, PLAN, 0, at=5.0, seconds=3.0)
    run_window(run, PLAN, 1, at=8.0, seconds=0.1)
    summary = run.summary()
    assert summary["firstSeconds"] == pytest.approx(3.0)
    assert summary["medianSeconds"] == summary["p90Seconds"] == pytest.approx(0.1)
    assert (summary["startedAt"], summary["committedAt"]) == (5.0, pytest.approx(8.1))


def test_progress_needs_to_be_known_of_all_inputs(run):
    run_window(run, PLAN, 0)
    assert run.run()["fractionDone"] is None
    run_window(run, PLAN, 1, progress=(10.0, None))
    assert run.run()["fractionDone"] is None
    run_window(run, PLAN, 2, at=2.0, progress=(10.0, 90.0))
    assert run.run()["fractionDone"] == pytest.approx(0.1)
    assert run.run()["remainingSeconds"] is None
    run_window(run, PLAN, 3, at=6.0, progress=(20.0, 80.0))
    assert run.run()["remainingSeconds"] == pytest.approx(32)


def test_an_input_that_has_finished_has_nothing_left(run):
    def ended(own):
        return own if own.tuples_in else replace(own, finished=True)

    for event in window(PLAN, 0, progress=(10.0, 90.0)):
        run.apply(changed(event, ended) if isinstance(event, WindowReported) else event)
    assert run.run()["fractionDone"] == 1.0


def test_what_a_spark_source_has_left_is_no_end(run):
    run.apply(SourceProgress(0.0, 0, 1, 10.0, 90.0, whole=True))
    run_window(run, PLAN, 0)
    assert run.run()["fractionDone"] is None


def test_errors_and_drops_are_kept_in_part(run):
    for window_id in range(20):
        run_window(run, PLAN, window_id, errors=["Number(value=1)"], dropped=True)
    double, summary = rows(run)["double"], run.summary()
    assert (double["errors"], double["windowsDropped"]) == (20, 20)
    assert len(summary["errorTuples"]) == 10
    assert summary["errorTuples"][-1] == {"operator": "double", "windowId": 19, "text": "Number(value=1)"}
    assert len(summary["drops"]) == 5


def test_it_is_counted_where_nothing_else_is_recorded():
    run = begun(Measurement(), metrics_recording_level="OFF")
    assert run_window(run, PLAN)["tuplesIn"] == 100
    assert run.windows() == []
