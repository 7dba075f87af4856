"""Operators that fail in every way that Python has: one clear failure, which names the operator, and no code from data."""

import pytest

from engine.hostile import hostile_application, notes
from engine.on_spark import run_on_spark
from ridgeline.api.errors import OperatorError

pytestmark = pytest.mark.spark

WHERE = "operator `total` (partition 0) of application `sums` failed in window 1 in `process of port numbers`: "
RAISED = {
    "exit": "SystemExit: 3",
    "leave": "Leave: as it likes",
    "interrupt": "KeyboardInterrupt",
    "mute": "MuteError: <its text cannot be had: RuntimeError>",
    "nameless": "NamelessError: <its text cannot be had: TypeError>",
    "recursion": "RecursionError: maximum recursion depth exceeded",
    "surrogate": "ValueError: half a pair: \\ud800",
}


def fail(kind, context, folder, **attributes):
    """How a run ends whose operator fails so."""
    return run_on_spark(hostile_application(kind, folder, **attributes), context, folder / "checkpoint", expect=OperatorError)


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
