"""A small job at an application's start checks that executors can run Ridgeline, and starts their Python."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.checkpoint import run_description
from ridgeline.engine.spark.cluster import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

PACKED = "`pip install venv-pack && venv-pack -o env.tar.gz`, then `ridgeline run ... --archives env.tar.gz`"
_REMEDY = (
    f"give the workers the environment of the driver: {PACKED}; "
    f"or install the same in all of them and name its Python in "
    f"PYSPARK_PYTHON (docs/clusters.md)"
)
_LOCAL_REMEDY = "unset PYSPARK_PYTHON, or let it name the Python that runs this command"
_MOST_TASKS = 512
_PATIENCE_SECONDS = 20.0


class WorkerError(RidgelineError):
    """The workers cannot run Ridgeline in any window: a retry is useless."""


class Environment(NamedTuple):
    """A Python process: where it runs, and the versions that must be equal on the driver and all workers.

    `sees`: whether it sees the file asked for.
    """

    host: str
    executable: str
    python: str
    pyspark: str
    ridgeline: int
    sees: bool = True


def looker(file: str | None) -> Callable[[int, Iterable[int]], Iterator[tuple[Any, ...]]]:
    """A function for workers: the fields of what they are; `file`: whether they see it.

    It travels as a whole and names nothing of this module, since a worker may have another version of it or
    none.
    """

    def look(_index: int, _records: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        import os
        import socket
        import sys
        import zlib
        from pathlib import Path

        import pyspark

        import ridgeline

        root = Path(ridgeline.__file__).parent
        checksum = 0
        for path in sorted(root.rglob("*.py")):
            checksum = zlib.crc32(
                path.read_bytes(), zlib.crc32(path.relative_to(root).as_posix().encode(), checksum)
            )
        python = ".".join(map(str, sys.version_info[:2]))
        sees = file is None or os.path.isfile(file)  # noqa: PTH113  as short as can be
        yield socket.gethostname(), sys.executable, python, pyspark.__version__, checksum, sees

    return look


@cache
def own_environment() -> Environment:
    """That of this process; `ridgeline` is a checksum of its source, 0 if there is none."""
    return Environment(*next(looker(None)(0, ())))


class WorkerCheck:
    """A job that asks the executors, beside what the driver does at its start.

    `checkpoint`: the folder that they must see, None if it is no folder. `report` is called with a line of
    text, once, if no executor has answered for a while.
    """

    def __init__(self, context: SparkContext, checkpoint: str | None, report: Callable[[str], None]) -> None:
        self._context = context
        self._checkpoint = checkpoint
        self._report = report
        self._found: list[Environment] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._check, name="ridgeline-worker-check", daemon=True)
        self._thread.start()

    def _check(self) -> None:
        tasks = max(1, min(_MOST_TASKS, self._context.defaultParallelism))
        try:
            asked = looker(None if self._checkpoint is None else f"{self._checkpoint}/{run_description.NAME}")
            found = self._context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(asked).collect()
            self._found = [Environment(*fields) for fields in found]
        except Exception as error:  # noqa: BLE001  raised in the thread that waits
            self._error = error

    def wait(self, stop: threading.Event) -> None:
        """Until the executors have answered, or `stop` is set.

        Raises WorkerError; an error of another kind is left to the first window.
        """
        waited = 0.0
        while self._thread.is_alive() and not stop.is_set():
            self._thread.join(0.2)
            waited += 0.2
            if waited >= _PATIENCE_SECONDS and self._thread.is_alive():
                waited = float("-inf")
                self._report(self._waiting())
        if self._error is not None and (cause := explain(str(self._error), str(self._context.master))):
            raise WorkerError(cause) from None
        fault = difference(own_environment(), self._found)
        if fault:
            raise WorkerError(fault)
        blind = [worker.host for worker in self._found if not worker.sees]
        if blind:
            remedy = "give `--checkpoint` a folder that all hosts share, or a URI that all of them reach "
            remedy += "(`s3a://...`, `hdfs://...`)"
            found = f"host `{blind[0]}` has no `{self._checkpoint}`"
            raise WorkerError(f"workers do not see the checkpoint folder: {found}; {remedy}")

    def _waiting(self) -> str:
        executors = len(self._context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # noqa: SLF001  the driver is one of them
        if executors > 0:
            return f"waiting for the executors to start Python; {executors} joined"
        resources = "`spark.executor.memory`, `spark.executor.cores`, `spark.cores.max`"
        what = f"waiting for `{self._context.master}`: no executor has joined yet"
        return f"{what}; see whether it has cores and memory to spare ({resources})"


def difference(driver: Environment, workers: Iterable[Environment]) -> str:
    """The fault of the first worker that differs from the driver; "" if all are alike."""
    for worker in workers:
        where = f"host `{worker.host}` runs `{worker.executable}`"
        if worker.python != driver.python:
            what = f"{where}, Python {worker.python}; the driver has {driver.python}"
            return f"the workers have another Python than the driver: {what}; {_REMEDY}"
        if worker.pyspark != driver.pyspark:
            what = f"{where} with pyspark {worker.pyspark}, the driver has {driver.pyspark}"
            return f"the workers have another pyspark than the driver: {what}; {_REMEDY}"
        if worker.ridgeline and driver.ridgeline and worker.ridgeline != driver.ridgeline:
            return f"the workers have another version of ridgeline than the driver: {where}; {_REMEDY}"
    return ""


def explain(text: str, master: str) -> str:
    """The fault of the workers' Python, by Spark's error; "" if it is something else."""
    what = _explain(text)
    return f"{what}; {_LOCAL_REMEDY if is_local(master) else _REMEDY}" if what else ""


def _explain(text: str) -> str:
    """Name what Spark's error means for the user, with the remedy."""
    host = re.search(r"\(TID \d+\) \((\S+) executor", text)
    where = f"host `{host.group(1)}`" if host else "a worker"
    python = re.search(
        r'Cannot run program "([^"]+)"[^\n]*error=(?:2|8|13),', text
    )  # not there, no program, not allowed
    if python:
        return f"the workers have no Python: {where} has no `{python.group(1)}` that it can run"
    module = re.search(
        r"Error from python worker:.*?ModuleNotFoundError: No module named '([\w.]+)'", text, re.DOTALL
    )
    module = module or re.search(r"ModuleNotFoundError: No module named '(ridgeline[\w.]*)'", text)
    if module:
        executable = re.search(r"Error from python worker:\s+(\S+): Error while finding", text)
        whose = f"its Python, `{executable.group(1)}`," if executable else "its Python"
        version = ", or has another version of it" if "." in module.group(1) else ""
        return (
            f"the workers cannot run Ridgeline: {where}: {whose} has no module `{module.group(1)}`{version}"
        )
    versions = re.search(
        r"Python in worker has different version: ([\d.]+) than that in driver: ([\d.]+)", text
    )
    if versions:
        own, theirs = versions.group(2), versions.group(1)
        return (
            f"the workers have another Python than the driver: {where} has Python {theirs}, the driver {own}"
        )
    died = re.search(r"Error from python worker:\s*\n(.*?)(?:\n\s*PYTHONPATH was:|\Z)", text, re.DOTALL)
    if died and died.group(1).strip():
        last = died.group(1).strip().splitlines()[-1].strip()
        return f"the workers cannot run Ridgeline: {where}: its Python ended at its start: {last}"
    if "EOFException occurred while reading the port number" in text:
        return f"the workers cannot run Ridgeline: {where}: its Python ended at its start and did not say why"
    return ""
