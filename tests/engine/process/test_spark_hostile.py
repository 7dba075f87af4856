"""Operators that fail in every way Python has: a clear failure that names the operator; no code from data."""

import os

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import OperatorError
from ridgeline.engine.driver.heartbeats import Heartbeats
from support.engine.hostile import hostile_application, notes
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark

WHERE = (
    "operator `total` (partition 0) of application `sums` failed in window 1 in `process of port numbers`: "
)
RAISED = {
    "exit": "SystemExit: 3",
    "leave": "Leave: as it likes",
    "interrupt": "KeyboardInterrupt",
    "mute": "MuteError: <its text cannot be had: RuntimeError>",
    "nameless": "NamelessError: <its text cannot be had: TypeError>",
    "recursion": "RecursionError: maximum recursion depth exceeded",
    "surrogate": "ValueError: half a pair: \\ud800",
}


def fail(kind, context, folder, **options):
    """How a run ends whose operator fails so."""
    return run_on_spark(
        hostile_application(kind, folder), context, folder / "checkpoint", expect=OperatorError, **options
    )


@pytest.mark.parametrize("kind", RAISED)
def test_whatever_is_raised_is_told_once_and_tried_twice(spark_context, tmp_path, capfd, kind):
    run, error = fail(kind, spark_context, tmp_path)

    assert str(error).startswith(WHERE + RAISED[kind])
    assert str(error).endswith("; the tuple was Number(value=13)")
    assert len(notes(tmp_path)) == 2
    assert [(retry.window_id, retry.attempt) for retry in run.retries] == [(1, 1)]
    assert run.ids == [0]
    assert capfd.readouterr().err == ""


def test_a_text_of_50_mb_is_cut_where_it_is_raised(spark_context, tmp_path):
    run, error = fail("huge", spark_context, tmp_path)

    assert str(error).startswith(WHERE + "ValueError: xxx")
    assert "characters left out" in str(error)
    assert max(len(str(error)), len(error.failure.traceback), len(run.retries[0].reason)) < 20_000


def test_no_code_is_run_out_of_an_error_s_text(spark_context, tmp_path):
    _, error = fail("pickle", spark_context, tmp_path)

    assert str(error).startswith(WHERE + "ValueError: ridgeline-failure:")
    assert not (tmp_path / "code-was-run").exists()


@pytest.fixture
def heartbeats():
    """What takes the heartbeats of workers."""
    return Heartbeats(lambda _event: None, SystemClock())


DIES = {
    "_exit": "was killed (is the host out of memory?), or ended by `os._exit`",
    "killed": "was killed (is the host out of memory?), or ended by `os._exit`",
    "segfault": "crashed in native code: Segmentation fault",
}


@pytest.mark.parametrize("kind", DIES)
def test_the_operator_is_named_in_whose_turn_workers_die(spark_context, heartbeats, tmp_path, capfd, kind):
    run, error = fail(kind, spark_context, tmp_path, heartbeats=heartbeats)

    where = "operator `total` (partition 0) of application `sums` failed in window 1 in `its turn`: "
    assert str(error) == f"{where}its worker process died twice: it {DIES[kind]}"
    assert len(set(notes(tmp_path))) == 4  # twice by Spark, twice by STRAM
    assert ("in meet" in error.failure.traceback) == (kind == "segfault")
    assert run.ids == [0]
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stopped", "frozen"])
def test_a_silent_worker_is_ended_and_its_window_run_again(spark_context, heartbeats, tmp_path, kind):
    app = hostile_application(kind, tmp_path, failures=1)
    limits = {"heartbeat_timeout": "6s", "heartbeat_interval": "200ms"}

    run = run_on_spark(app, spark_context, tmp_path / "checkpoint", attributes=limits, heartbeats=heartbeats)

    assert run.ids == [0, 1, 2]
    retry, *others = run.retries
    assert all(other.window_id > 1 for other in others)  # in flight behind it
    assert retry.reason.startswith(
        "operator `total` (partition 0) of application `sums` failed in window 1 in `its turn`: its "
        "worker process "
    )
    assert "raise the attribute `heartbeat_timeout`" in retry.reason
    first, *others = notes(tmp_path)  # Spark may have begun the task again before its job was cancelled
    assert others
    assert first not in others
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


@pytest.mark.slow
def test_a_callback_that_is_stuck_is_ended_if_the_operator_has_a_timeout(spark_context, heartbeats, tmp_path):
    limits = {"total.callback_timeout": "2s", "total.recovery_attempts": "1", "heartbeat_interval": "200ms"}

    run, error = fail("endless", spark_context, tmp_path, attributes=limits, heartbeats=heartbeats)

    assert "failed in window 1 in `its turn`: a callback has taken in no tuple and emitted none for" in str(
        error
    )
    assert "the attribute `callback_timeout` allows 2 s" in str(error)
    assert "in meet" in error.failure.traceback
    assert len(notes(tmp_path)) == 2
    assert run.ids == [0]
