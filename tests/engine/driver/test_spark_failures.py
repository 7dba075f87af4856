"""Operators that fail on Spark: what is reported, retried and dropped. No committed window is lost."""

import threading

import pytest

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.api.errors import CheckpointError, OperatorError, RidgelineError
from ridgeline.engine.state import state_files
from ridgeline.testing import CollectorSink
from support.engine.applications import FailingSum, Number, Sum, payments_application, sum_application
from support.engine.on_spark import run_on_spark
from support.manifests import newest_file

pytestmark = pytest.mark.spark

SUMS = [sum(range(10 * window + 10)) for window in range(10)]


def sums(run):
    return [number.value for number in run.collected("store")]


@pytest.mark.guide("002", "Run Time")
def test_error_names_application_operator_partition_window_and_tuple(spark_context, tmp_path):
    app = sum_application(FailingSum(bad=47), recovery_attempts=1)

    run, error = run_on_spark(app, spark_context, tmp_path / "checkpoint", expect=OperatorError)

    expected = (
        "operator `total` (partition 0) of application `sums` failed in window 4 in "
        "`process of port numbers`: "
        "ValueError: cannot add 47; the tuple was Number(value=47)"
    )
    assert str(error) == expected
    assert "add_or_fail" in error.failure.traceback
    assert [(retry.window_id, retry.attempt) for retry in run.retries] == [(4, 1)]
    assert run.retries[0].reason == expected
    assert run.ids == [0, 1, 2, 3]


def test_goes_on_once_the_fault_is_mended(spark_context, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    first, _ = run_on_spark(
        sum_application(FailingSum(bad=47), recovery_attempts=0),
        spark_context,
        checkpoint,
        expect=OperatorError,
    )

    second = run_on_spark(sum_application(FailingSum(bad=-1)), spark_context, checkpoint)

    assert first.ids + second.ids == list(range(10))
    assert sums(first) + sums(second) == SUMS


@pytest.mark.parametrize(("failures", "on_error"), [(1, "STOP"), (3, "RETRY")])
def test_window_that_fails_for_a_while_is_committed_once(spark_context, tmp_path, failures, on_error):
    notes = tmp_path / "notes"
    notes.mkdir()
    app = sum_application(FailingSum(bad=35, failures=failures, folder=str(notes)), on_error=on_error)

    run = run_on_spark(app, spark_context, tmp_path / "checkpoint")

    assert len(list(notes.iterdir())) == failures  # Spark tries nothing again by itself
    attempts = [retry.attempt for retry in run.retries if retry.window_id == 3]
    assert attempts == [attempt + 1 for attempt in range(failures)]
    assert min(retry.window_id for retry in run.retries) == 3  # in slots, later ones in flight run again too
    assert run.ids == list(range(10))
    assert sums(run) == SUMS


def test_at_most_once_drops_the_window(spark_context, tmp_path):
    app = sum_application(FailingSum(bad=35))
    at_most_once = {"total.processing_mode": "AT_MOST_ONCE", "store.processing_mode": "AT_MOST_ONCE"}

    run = run_on_spark(app, spark_context, tmp_path / "checkpoint", attributes=at_most_once)

    lost = sum(range(30, 40))
    assert sums(run) == [*SUMS[:3], *(total - lost for total in SUMS[4:])]
    begun_again = {(retry.window_id, retry.attempt) for retry in run.retries}  # with states, if in slots
    assert begun_again <= {(window, 1) for window in range(3, 3 + run.most_in_flight)}
    assert bool(begun_again) == (run.most_in_flight > 1)
    [report] = run.reports("total", 3)
    assert "ValueError: cannot add 35" in report.dropped
    assert report.tuples_in == {"numbers": 10}
    assert all(run.reports("total", window)[0].dropped == "" for window in run.ids if window != 3)


class FailingSource(InputOperator):
    numbers = OutputPort(Number)

    def emit_tuples(self):
        raise OSError(5, "the disk is broken")


def test_failing_input_is_named(spark_context, tmp_path):
    app = Application("broken", window="1ms")
    source = app.add_operator("source", FailingSource(), recovery_attempts=0)
    app.add_stream("numbers", source.numbers, app.add_operator("store", CollectorSink(Number)).input)

    _, error = run_on_spark(app, spark_context, tmp_path / "checkpoint", expect=OperatorError)

    assert str(error) == (
        "operator `source` (partition 0) of application `broken` failed in window 0 in "
        "`emit_tuples`: OSError: [Errno 5] the disk is broken"
    )


class Forgetful(Sum):
    """Keeps something that it does not declare."""

    def end_window(self):
        self.windows = 1 if self.context.window_id == 0 else self.windows + 1
        self.sums.emit(Number(self.windows))


def test_undeclared_state_is_missed_at_once(spark_context, tmp_path):
    _, error = run_on_spark(
        sum_application(Forgetful(), recovery_attempts=0),
        spark_context,
        tmp_path / "checkpoint",
        expect=OperatorError,
    )

    assert "failed in window 1 in `end_window`: StateError: `Forgetful.windows` " in str(error)
    assert "declare it, `windows = State(...)`" in str(error)


class Holder(Sum):
    """Holds what cannot travel to a worker."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_operator_that_cannot_be_pickled_is_named(spark_context, tmp_path):
    _, error = run_on_spark(
        sum_application(Holder()), spark_context, tmp_path / "checkpoint", expect=RidgelineError
    )

    assert str(error).startswith(
        "operator `total` cannot be sent to the workers: its `lock` is <unlocked _thread.lock object at "
    )
    assert str(error).endswith("(cannot pickle '_thread.lock' object); make it in `setup`")


class StatefulHolder(Sum):
    """Keeps what cannot be written to a state file."""

    kept = State(None)

    def end_window(self):
        self.kept = threading.Lock()


def test_state_that_cannot_be_pickled_is_named(spark_context, tmp_path):
    app = sum_application(StatefulHolder(), recovery_attempts=0)

    _, error = run_on_spark(app, spark_context, tmp_path / "checkpoint", expect=OperatorError)

    assert str(error) == (
        "operator `total` (partition 0) of application `sums` failed in window 0 in "
        "`checkpoint`: state `kept` cannot be written: "
        "cannot pickle '_thread.lock' object; keep plain values in state, make connections "
        "and the like in `setup`"
    )


class Wrong(Operator):
    numbers = InputPort(Number)
    sums = OutputPort(Number)

    @numbers.process
    def add(self, number):
        self.sums.emit(Number("seven" if number.value == 7 else number.value))


def test_value_that_does_not_fit_its_schema_is_named(spark_context, tmp_path):
    app = sum_application(Wrong(), recovery_attempts=0)

    _, error = run_on_spark(app, spark_context, tmp_path / "checkpoint", expect=OperatorError)

    assert "operator `total` (partition 0) of application `sums` failed in window 0" in str(error)
    assert "seven" in str(error)
    assert "value" in str(error)


# The checkpoint folder --------------------------------------------------------------------------------------


def test_second_run_on_a_checkpoint_is_refused_while_the_first_runs(spark_context, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    refused = []

    def start_another(run, summary):
        if summary.window_id == 1:
            refused.append(
                run_on_spark(sum_application(), spark_context, checkpoint, expect=CheckpointError)[1]
            )

    first = run_on_spark(sum_application(), spark_context, checkpoint, each=start_another)

    assert f"checkpoint folder `{checkpoint}` is in use by process " in str(refused[0])
    assert "stop it first, or give another `--checkpoint`" in str(refused[0])
    assert sums(first) == SUMS


def test_checkpoint_of_another_application_is_refused(spark_context, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    run_on_spark(sum_application(), spark_context, checkpoint, windows=1)

    _, error = run_on_spark(payments_application(), spark_context, checkpoint, expect=CheckpointError)

    assert str(error) == (
        f"checkpoint folder `{checkpoint}` belongs to application `sums`; this is "
        f"`payments`; give another `--checkpoint`"
    )


def test_other_partitions_of_operators_take_their_states_over(spark_context, tmp_path):
    checkpoint, whole = tmp_path / "checkpoint", tmp_path / "whole"
    app = payments_application()
    first = run_on_spark(app, spark_context, checkpoint, windows=2)
    attributes = {"balances.partitions": "2", "check.partitions": "2"}
    going_on = run_on_spark(
        payments_application(), spark_context, checkpoint, attributes=attributes, windows=2
    )
    undisturbed = run_on_spark(payments_application(), spark_context, whole, windows=4)

    assert going_on.ids == [2, 3]
    assert sorted([*first.collected("balance_store"), *going_on.collected("balance_store")]) == sorted(
        undisturbed.collected("balance_store")
    )


class LargeSum(Sum):
    """Its state is too large for the journal."""

    ballast = State("")

    def end_window(self):
        self.ballast = f"{self.context.window_id}" * (state_files.SMALL_BYTES + 1)
        super().end_window()


def test_corrupt_state_file_is_named(spark_context, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    run_on_spark(sum_application(LargeSum()), spark_context, checkpoint, windows=2)
    [*_, state] = sorted((checkpoint / "state").glob("*-c1-*"))
    state.write_bytes(state.read_bytes()[:-1])

    run, error = run_on_spark(sum_application(LargeSum()), spark_context, checkpoint, expect=RidgelineError)

    assert f"state file `{state}` is corrupt" in str(error)
    assert "restore it from a copy" in str(error)
    assert run.ids == []


def test_corrupt_journal_is_named(spark_context, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    run_on_spark(sum_application(), spark_context, checkpoint, windows=2)
    path = newest_file(checkpoint)
    path.write_bytes(path.read_bytes().replace(b'"window_id":{"is":1}', b'"window_id":{"is":7}'))

    _, error = run_on_spark(sum_application(), spark_context, checkpoint, expect=CheckpointError)

    remedy = "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"
    assert str(error).startswith(f"`{path}` is corrupt at byte ")
    assert str(error).endswith(f": a record is damaged, or a copy from another place; {remedy}")
