"""The compactor: a process on the driver's host that compacts large states beside the windows.

`python -m ridgeline.engine.driver.checkpoint.compactor` reads pickled objects from its standard input: where
the checkpoint and the plan are, then one `CompactionTask` after another. It answers each on its standard
output with a `CompactionResult` or an error. It ends with its input, so with the driver, however that dies.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ridgeline
from ridgeline.api.errors import RidgelineError, StateError
from ridgeline.api.support import files
from ridgeline.api.support.files import is_of_store
from ridgeline.engine.files.local_tier import folder_of
from ridgeline.engine.files.patience import open_patient
from ridgeline.engine.files.storage import explain
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.state.compaction import CompactionResult, CompactionTask, StateCompactor
from ridgeline.engine.state.segment_files import SegmentFiles

_NICENESS = 5
"""Windows take precedence where cores are few."""
_AGAIN_SECONDS = 1.0


class Compactor:
    """The driver's side: starts the process at the first compaction, and again if it died. Thread-safe."""

    def __init__(self, uri: str, plan: Callable[[], plan_distribution.ShippedPlan], run_id: str) -> None:
        """`uri`: of the checkpoint. `plan` packs the plan; it is called when the process starts."""
        self._uri = uri
        self._plan = plan
        self._run_id = run_id
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._stale = False
        self._busy = threading.Lock()

    def compact(self, job: CompactionTask) -> CompactionResult:
        """Compact a version in the process; blocks.

        Raises StateError as `StateCompactor.compact` does, RidgelineError if the process dies or fails.
        """
        with self._busy:
            process = self._running()
            try:
                _send(process.stdin, job)
                answer = pickle.load(process.stdout)  # type: ignore[arg-type]
            except (OSError, EOFError, pickle.UnpicklingError):
                code = self._end(process)
                raise RidgelineError(f"the compactor process ended with {_meaning(code)}") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def begin_again(self) -> None:
        """The plan is another one: the next compaction starts another process."""
        self._stale = True

    def close(self) -> None:
        """End the process, also during a compaction. The files that it has written count for nothing."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()
        with self._busy:
            if self._process is not None:
                self._end(self._process)
        shutil.rmtree(folder_of(self._run_id), ignore_errors=True)

    def _running(self) -> subprocess.Popen[bytes]:
        """The process, started if none runs. `compact` calls it under the lock.

        Raises RidgelineError once closed.
        """
        if self._closed:
            raise RidgelineError("the run is over")
        if self._process is not None and (self._stale or self._process.poll() is not None):
            self._end(self._process)
        self._stale = False
        if self._process is None:
            home = str(Path(ridgeline.__file__).parent.parent)
            paths = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ridgeline.engine.driver.checkpoint.compactor"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": paths},
                process_group=0,  # Ctrl-C is the driver's
            )
            with contextlib.suppress(OSError):  # it died at once: the answer is missing
                _send(self._process.stdin, (self._uri, self._plan(), self._run_id, files.s3_settings()))
            # `close` has found no process to kill if it was called during the start.
            if self._closed:
                self._process.kill()
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        process.kill()
        code = process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        self._process = None
        return code


def _meaning(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _send(stream: Any, value: object) -> None:
    pickle.dump(value, stream, 5)
    stream.flush()


def serve() -> None:
    """The process's side: compact and answer until the input ends. `__main__` calls it, once a process."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the application's modules print does not go between the answers
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    threading.Thread(
        target=_read, args=(sys.stdin.buffer, requests), name="ridgeline-requests", daemon=True
    ).start()
    uri, plan, run_id, s3 = requests.get()
    files.use_s3(s3)
    compactor: StateCompactor | None = None
    while True:
        job = requests.get()
        try:
            if compactor is None:
                storage = open_patient(uri)
                specs = plan_distribution.receive(storage, plan)
                compactor = StateCompactor(
                    SegmentFiles(storage, run_id), [operator for spec in specs for operator in spec.operators]
                )
            _send(answers, compactor.compact(job))
        except Exception as error:  # noqa: BLE001  the driver reports it
            if is_of_store(error):  # the driver waits for it, too, and says so
                requests.put(job)
                select.select([], [], [], _AGAIN_SECONDS)
            elif isinstance(error, StateError):
                _send(answers, error)
            elif isinstance(error, OSError):
                _send(answers, RidgelineError(explain(uri, error)))
            else:
                _send(answers, RidgelineError(f"{type(error).__name__}: {error}"))


def _read(stream: Any, requests: queue.SimpleQueue[Any]) -> None:
    """Pass requests on. At the end of the input end the process, also during a compaction."""
    while True:
        try:
            requests.put(pickle.load(stream))
        except (EOFError, pickle.UnpicklingError, OSError):
            os._exit(0)


if __name__ == "__main__":
    serve()
