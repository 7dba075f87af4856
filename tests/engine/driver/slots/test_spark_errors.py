"""What a failed job's text comes down to, and whether Spark still runs."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError

from ridgeline.engine.driver.slots.spark_errors import (
    cause,
    gone,
    has_ended,
    is_clusters,
    query_cause,
)

ABORTED = """Job aborted due to stage failure: Task 1 in stage 4.0 failed 4 times, most recent failure: \
Lost task 1.3 in stage 4.0 (TID 11) (127.0.0.1 executor driver): {}

Driver stacktrace:"""
DIED = """org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting X.
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anon.applyOrElse(PythonRunner.scala:624)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:398)
\t... 26 more"""
MALFORMED = "[MALFORMED_RECORD_IN_PARSING] Malformed records: [null,b]."
UNREAD = f"""org.apache.spark.SparkException: [FAILED_READ_FILE] no a.json
\tat org.apache.spark.sql.X.y(Z.scala:1)
Caused by: org.apache.spark.SparkException: {MALFORMED}
\tat org.apache.spark.sql.X.y(Z.scala:1)
Caused by: java.lang.RuntimeException: Failed to parse a value
\t... 26 more"""
PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 1, in main
    process()
ridgeline.api.errors.StateError: nothing of it is left
\tat org.apache.spark.api.python.X.read(PythonRunner.scala:1)"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ABORTED.format(DIED), "Python worker exited unexpectedly (crashed). Consider setting X."),
        (ABORTED.format(UNREAD), f"[FAILED_READ_FILE] no a.json; {MALFORMED}"),
        (ABORTED.format(PYTHON), "StateError: nothing of it is left"),
        (
            ABORTED.format("ExecutorLostFailure (executor 1 exited)"),
            "ExecutorLostFailure (executor 1 exited)",
        ),
        (
            "java.util.concurrent.ExecutionException: java.lang.RuntimeException: no\n\tat x.Y(Z.scala:1)",
            "no",
        ),
        ("", ""),
    ],
)
def test_the_cause_is_one_line_without_java(text, expected):
    assert cause(text) == expected


FETCH = """Job aborted due to stage failure: ShuffleMapStage 20 (run at X.java:1) has failed the maximum \
allowable number of times: 4. Most recent failure reason:
org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 9 partition 0
\tat org.apache.spark.MapOutputTracker$.validateStatus(MapOutputTracker.scala:1705)"""
EXITED = "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: Command exited"


@pytest.mark.parametrize("text", [FETCH, ABORTED.format(EXITED)])
def test_lost_executors_and_lost_shuffles_are_the_clusters(text):
    assert is_clusters(text)


@pytest.mark.parametrize("text", [ABORTED.format(DIED), ABORTED.format(PYTHON), PYTHON, EXITED, ""])
def test_what_operators_did_is_not_the_clusters(text):
    assert not is_clusters(text)


def test_the_cause_of_a_query_is_one_line_without_its_plan():
    text = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
Failed to create consumer for kafka://ann:geheim@host
=== Streaming Query ===
Identifier: [id = 1]"""
    assert query_cause(RuntimeError(text)) == "Failed to create consumer for kafka://ann:***@host"


def test_a_cause_is_capped():
    assert len(cause("x" * 10**7)) <= 1_000


def context_of(process):
    return SimpleNamespace(_gateway=SimpleNamespace(proc=process))


@pytest.fixture
def process():
    """Ends when its input does."""
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    yield process
    process.kill()
    process.communicate()


def test_a_java_process_that_was_killed_is_reported_whatever_failed_first(process):
    process.kill()
    process.wait()
    assert has_ended(context_of(process))
    assert str(gone(context_of(process), ValueError("what now"))) == (
        "Spark's Java process has ended by signal 9; what is committed is kept, run again "
        "with the same `--checkpoint`; "
        "was it killed, or the host out of memory? (`--conf spark.driver.memory=...`)"
    )


def test_a_java_process_that_runs_is_not_reported(process):
    assert not has_ended(context_of(process))
    assert gone(context_of(process), ValueError("no")) is None
    assert gone(context_of(process), ConnectionRefusedError("a database")) is None
    assert "Spark was stopped while the application ran" in str(
        gone(context_of(process), ValueError("SparkContext was shut down"))
    )


def test_a_java_process_of_others_is_known_by_its_silence():
    assert "Spark's Java process has ended; " in str(
        gone(context_of(None), Py4JNetworkError("Answer from Java side is empty"))
    )
    assert gone(context_of(None), ConnectionRefusedError("a database")) is None
