"""Why a job of Spark failed, in words for users. Failures of containers are reports: not seen here."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from ridgeline.api.errors import RidgelineError, capped
from ridgeline.api.support.masking import mask_text

if TYPE_CHECKING:
    from pyspark import SparkContext

    from ridgeline.engine.spark.java_object import JavaObject

_CAUSE_LIMIT = 1_000
_END_SECONDS = 2.0
_FRAME = re.compile(r"^\s+at [\w.$/<>]+\(.*\)$|^\s+\.\.\. \d+ more$")
_JAVA = re.compile(r"(?:org|java|javax|scala|com|io|net)\.[\w.$]+(?:Exception|Error): ")
_PYTHON = re.compile(r"(?:\w+\.)*(?=[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b)")
"""The modules before an exception's name."""
_LOST_TASK = re.compile(r"Lost task [^:]*: (.*)", re.DOTALL)
_MOST_CAUSES = 5
_CAUSED = "Caused by: "
_MALFORMED = "[MALFORMED_RECORD"
_LOST_EXECUTOR = re.compile(
    r"most recent failure: Lost task [^\n]*\): ExecutorLostFailure \(executor "
    r"|has failed the maximum allowable number of times: \d+\. Most recent failure reason:"
    r"|has exceeded the maximum allowable total stage attempts: \d+\. Most recent failure reason:"
)
"""Texts with which Spark gives up: a task whose executors were lost, a stage whose input was lost."""
_QUERY = re.compile(r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_CANCELLED = "[SPARK_JOB_CANCELLED]"
_STOPPED = (
    "SparkContext was shut down",
    "stopped SparkContext",
    "SparkContext has been shutdown",
    "SparkContext is stopped",
)


class SparkGoneError(RidgelineError):
    """Spark's Java process has ended, or Spark was stopped: no window can run any more."""


def has_ended(context: SparkContext | type[SparkContext] | None) -> bool:
    """True if Spark's Java process, if this one has started it, has ended."""
    return _exit_code(context, 0.0) is not None


def is_own(context: SparkContext | None) -> bool:
    """True if this process has started Spark's Java process, so that its end is seen at once."""
    return getattr(getattr(context, "_gateway", None), "proc", None) is not None


def died(context: SparkContext | None) -> SparkGoneError | None:
    """The error to raise if Spark's Java process has ended; None if it lives, or is another program's."""
    code = _exit_code(context, 0.0)
    return None if code is None else _ended(code)


def stopped_error() -> SparkGoneError:
    """The error to raise if Spark was stopped."""
    what = "Spark was stopped while the application ran"
    return _gone(what, "somebody has called `stop()` on its context, or has ended it on the cluster")


def _ended(code: int | None) -> SparkGoneError:
    meaning = "" if code is None else f" with exit code {code}" if code >= 0 else f" by signal {-code}"
    remedy = "was it killed, or the host out of memory? (`--conf spark.driver.memory=...`)"
    return _gone(f"Spark's Java process has ended{meaning}", remedy)


def _gone(what: str, remedy: str) -> SparkGoneError:
    kept = "what is committed is kept, run again with the same `--checkpoint`"
    return SparkGoneError(f"{what}; {kept}; {remedy}")


def gone(context: SparkContext | None, error: BaseException) -> SparkGoneError | None:
    """The error to raise instead if Spark itself is no more; None if it still runs."""
    text = str(error)
    lost = isinstance(error, (Py4JNetworkError, ConnectionError))
    stopped = any(sign in text for sign in _STOPPED)
    code = _exit_code(context, _END_SECONDS if lost or stopped else 0.0)
    if code is not None or isinstance(error, Py4JNetworkError):
        return _ended(code)
    return stopped_error() if stopped else None


def _exit_code(context: SparkContext | type[SparkContext] | None, seconds: float) -> int | None:
    """The exit code of the Java process, if this process has started it and it ends within some seconds."""
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return None
    try:
        code: int = process.wait(seconds) if seconds else process.poll()
    except subprocess.TimeoutExpired:
        return None
    return code


def java_error(error: BaseException) -> JavaObject | None:
    """The Java exception behind what py4j or PySpark has raised, None if there is none."""
    found = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    return None if found is None else found.getCause() or found  # of the future that a job is to its caller


def job_text(error: BaseException) -> str:
    """The whole text of what a job failed with."""
    try:
        java = java_error(error)
        return str(error) if java is None else _with_causes(java)
    except (Py4JError, OSError):
        return str(error)


def _with_causes(java: JavaObject) -> str:
    """The message of a Java exception; of a file that cannot be read also what is wrong with a record."""
    text, left = str(java.getMessage()), _MOST_CAUSES
    while "[FAILED_READ_FILE" in text and left and (java := java.getCause()) is not None:
        left -= 1
        if _MALFORMED in (line := str(java.toString())):
            return f"{text}\n{_CAUSED}{line}"
    return text


def query_cause(error: BaseException) -> str:
    """Why a streaming query failed or could not start, without Java's stacks, plan and secrets."""
    text = re.split(r"\n\s*(?:=== |at )|JVM stacktrace", str(error), maxsplit=1)[0]
    return cause(mask_text(_QUERY.sub("", text)))


def is_clusters(text: str) -> bool:
    """True if a job failed since executors were lost, or what they had written for others: no operator did.

    `text`: the whole of it, as `job_text` gives it.
    """
    return _LOST_EXECUTOR.search(text) is not None


def is_cancelled(text: str) -> bool:
    """True if a job has failed since it was cancelled, by a user or a rule of the cluster."""
    return _CANCELLED in text


def cause(text: str) -> str:
    """The cause in a long message of Spark's: its first line without Java's stacks, or a Python exception."""
    lost = _LOST_TASK.search(text)
    lines = [
        line
        for line in (lost.group(1) if lost else text).splitlines()
        if line.strip() and not _FRAME.match(line)
    ]
    if any("Traceback (most recent call last)" in line for line in lines):
        raised = [line for line in lines if _PYTHON.match(line)]
        return capped(_PYTHON.sub("", raised[-1]) if raised else lines[-1], _CAUSE_LIMIT)
    first = (lines[0] if lines else text).strip()
    return capped(_without_classes(first) + _reason(first, lines), _CAUSE_LIMIT)


def _reason(first: str, lines: Sequence[str]) -> str:
    """Why a file cannot be read: Spark's first line says only which one."""
    causes = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    if "[FAILED_READ_FILE" not in first or not causes:
        return ""
    malformed = next((line for line in causes if _MALFORMED in line), causes[-1])
    return f"; {_without_classes(malformed.strip())}"


def _without_classes(line: str) -> str:
    """A line of Java's without the names of exceptions before it."""
    while _JAVA.match(line):
        line = _JAVA.sub("", line, count=1)
    return line
