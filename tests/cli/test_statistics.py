import pytest

from cli.windows import make_plan, run_window
from ridgeline.cli.statistics import RunStatistics
from ridgeline.testing import SteppingClock


@pytest.fixture
def clock():
    return SteppingClock()


@pytest.fixture
def run(clock):
    return RunStatistics(make_plan(), clock)


def test_tuples_are_summed_over_partitions_and_time_is_the_slowest(run):
    run_window(run, 0, 100)
    run_window(run, 1, 60)
    double = run.rows["double", None]
    assert (double.partitions, double.tuples_in, double.tuples_out, double.last_in) == (2, 160, 160, 60)
    assert double.last_seconds == 0.008
    assert double.seconds == pytest.approx(0.016)


def test_unifiers_have_a_row_of_their_own(run):
    assert [row.title for row in run.rows.values()] == ["source", "double", "double.output#unifier", "sink"]


def test_a_windows_tuples_go_in_at_the_inputs_and_out_at_the_leaves(run):
    window = run_window(run, 7, 100, seconds=0.04)
    assert (window.window_id, window.tuples_in, window.tuples_out, round(window.seconds, 6)) == (7, 100, 100, 0.04)


def test_the_first_window_is_told_apart(run):
    run_window(run, 0, seconds=3.0)
    run_window(run, 1, seconds=0.1)
    assert run.first_seconds == pytest.approx(3.0)
    assert list(run.seconds) == [pytest.approx(0.1)]


def test_phases_add_up_to_the_window(run):
    run_window(run, 0)
    run_window(run, 1, seconds=0.1)
    phases = run.phases.seconds
    stages = len(run.plan.execution.stages)
    assert sum(phases.values()) == pytest.approx(0.1)
    assert phases["write"] == pytest.approx(stages * 0.002)
    assert phases["Spark"] == pytest.approx(0.08 - stages * 0.008)


def test_tuples_per_second_over_the_last_ten_seconds(run, clock):
    run_window(run, 0, 1000)
    assert run.tuples_per_second == 0
    for window_id in range(1, 30):
        clock.advance(0.5)
        run_window(run, window_id, 100)
    assert run.tuples_per_second == pytest.approx(200)


def test_progress_needs_to_be_known_of_all_inputs(run, clock):
    run_window(run, 0)
    assert run.fraction is None
    run_window(run, 1, progress=(10.0, None))
    assert run.fraction is None
    run_window(run, 2, progress=(10.0, 90.0))
    assert run.fraction == pytest.approx(0.1)
    assert run.remaining_seconds is None
    clock.advance(4)
    run_window(run, 3, progress=(20.0, 80.0))
    assert run.remaining_seconds == pytest.approx(32)


def test_errors_and_drops_are_kept_in_part(run):
    for window_id in range(20):
        run_window(run, window_id, errors=["Number(value=1)"], dropped=True)
    double = run.rows["double", None]
    assert (double.errors, double.windows_dropped) == (20, 20)
    assert len(run.error_tuples) == 10
    assert run.error_tuples[-1] == ("double", 19, "Number(value=1)")
    assert len(run.drops) == 5
