import pytest

from ridgeline.cli.running.statistics import RunStatistics
from ridgeline.measure.events import SourceProgress, WindowRetried
from ridgeline.stram.topology import planned_event, topology_of
from support.cli.windows import make_plan, run_window

PLAN = make_plan()


@pytest.fixture
def run():
    return RunStatistics(topology_of(PLAN))


def test_tuples_are_summed_over_partitions_and_time_is_the_slowest(run):
    run_window(run, PLAN, 0, 100)
    run_window(run, PLAN, 1, 60)
    double = run.rows["double"]
    assert (double.partitions, double.tuples_in, double.tuples_out) == (2, 160, 160)
    assert double.seconds == pytest.approx(0.016)


def test_unifiers_have_a_row_of_their_own(run):
    assert list(run.rows) == ["source", "double", "double.output#unifier", "sink"]


def test_it_may_begin_with_the_event_that_brings_the_plan():
    run = RunStatistics()
    for _ in range(2):  # told again, as after a restart
        run.apply(planned_event(PLAN, at=1.0, application_id="x"))
    assert [(row.title, row.partitions) for row in run.rows.values()][:2] == [("source", 1), ("double", 2)]
    assert run_window(run, PLAN).tuples_in == 100


def test_a_windows_tuples_go_in_at_the_inputs_and_out_at_the_leaves(run):
    window = run_window(run, PLAN, 7, 100, seconds=0.04)
    assert (window.window_id, window.tuples_in, window.tuples_out, round(window.seconds, 6)) == (
        7,
        100,
        100,
        0.04,
    )


def test_the_first_window_is_told_apart(run):
    run_window(run, PLAN, 0, at=5.0, seconds=3.0)
    run_window(run, PLAN, 1, at=8.0, seconds=0.1)
    assert run.first_seconds == pytest.approx(3.0)
    assert list(run.seconds) == [pytest.approx(0.1)]
    assert (run.started, run.committed) == (5.0, pytest.approx(8.1))


def test_failed_attempts_are_counted_but_not_the_last_window_run_again(run):
    run.apply(WindowRetried(0.0, 3, 1, "a worker died"))
    run.apply(WindowRetried(0.0, 4, 1, "", final=True))
    assert run.retries == 1


def test_progress_needs_to_be_known_of_all_inputs(run):
    run_window(run, PLAN, 0)
    assert run.fraction is None
    run_window(run, PLAN, 1, progress=(10.0, None))
    assert run.fraction is None
    run_window(run, PLAN, 2, at=2.0, progress=(10.0, 90.0))
    assert run.fraction == pytest.approx(0.1)
    assert run.remaining_seconds is None
    run_window(run, PLAN, 3, at=6.0, progress=(20.0, 80.0))
    assert run.remaining_seconds == pytest.approx(32)


def test_what_a_spark_source_has_left_is_no_end(run):
    run.apply(SourceProgress(0.0, 0, 1, 10.0, 90.0, whole=True))
    run_window(run, PLAN, 0)
    assert run.fraction is None


def test_errors_and_drops_are_kept_in_part(run):
    for window_id in range(20):
        run_window(run, PLAN, window_id, errors=["Number(value=1)"], dropped=True)
    double = run.rows["double"]
    assert (double.errors, double.windows_dropped) == (20, 20)
    assert len(run.error_tuples) == 10
    assert run.error_tuples[-1] == ("double", 19, "Number(value=1)")
    assert len(run.drops) == 5
