"""Supervised drivers of this machine: a small file of each supervisor, beside the registry of applications.

A supervisor outlives its drivers, so commands find the application also between two of them.
"""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass, replace

import pydantic

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.measure.wording.units import duration
from ridgeline.service import registry

STARTING, RUNNING, RESTARTING, STANDBY = "starting", "running", "restarting", "standby"
_FOLDER = "supervisors"
_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Supervised:
    """An application, as its supervisor knows it.

    `name`: its name in the store, else its own; empty: not known yet. `pid`: of the supervisor; `process`
    distinguishes it from a later one with that id. `driver`, `driver_process`: the same of the driver, 0 for
    none. `restarts`: how often a driver was started again, and `reason`: why, the last time. `due`: when the
    next one starts, by this machine's monotonic clock. `store`: without secrets, empty for none.
    """

    pid: int
    process: str
    host: str
    user: str
    started: float
    name: str = ""
    state: str = STARTING
    restarts: int = 0
    reason: str = ""
    due: float = 0.0
    driver: int = 0
    driver_process: str = ""
    checkpoint: str = ""
    store: str = ""

    def words(self, clock: Clock = _CLOCK) -> str:
        """How it stands, in words."""
        if self.state == RESTARTING:
            return restart_words(self.due - clock.monotonic(), self.restarts + 1, self.reason)
        if self.state == RUNNING:
            return f"its driver, process {self.driver}, has no web service that answers"
        if self.state == STANDBY:
            return f"its driver, process {self.driver}, waits as a standby"
        again = f" (attempt {self.restarts}), after: {self.reason}" if self.restarts else ""
        return f"its driver, process {self.driver}, starts{again}"


_RECORD = pydantic.TypeAdapter(Supervised)


def restart_words(seconds: float, attempt: int, reason: str) -> str:
    """When a driver is started again, and why.

    >>> restart_words(12, 3, "was killed by SIGKILL")
    'restarts in 12.0 s (attempt 3), after: was killed by SIGKILL'
    """
    return f"restarts in {duration(max(0.0, seconds))} (attempt {attempt}), after: {reason}"


def own_record(user: str, clock: Clock = _CLOCK) -> Supervised:
    """The record of this process, a supervisor that has started no driver yet."""
    pid = os.getpid()
    return Supervised(
        pid, registry.process_identity(pid) or "", socket.gethostname(), user, started=clock.wall()
    )


def keep(record: Supervised) -> None:
    """Make a supervised application known to this user's other commands. Raises OSError, UntrustedError."""
    registry.write_entry(registry.folder() / _FOLDER, _file_of(record), asdict(record))


def forget(record: Supervised) -> None:
    """Remove what `keep` has written. Raises OSError."""
    (registry.folder() / _FOLDER / f"{_file_of(record)}.json").unlink(missing_ok=True)


def supervised(name: str = "") -> list[Supervised]:
    """The applications whose supervisors live, or those of that name. Files of others are removed.

    Raises UntrustedError as `registry.running`.
    """
    found = []
    for path, data in registry.read_entries(_FOLDER):
        record = _decoded(data)
        if record is not None and record.host != socket.gethostname():
            continue  # of a home that is shared: a process of another host is not known here
        if record is None or registry.process_identity(record.pid) != record.process:
            registry.remove_own(path)
        elif record.name and name in {"", record.name}:
            found.append(record)
    return sorted(found, key=lambda one: (one.started, one.pid))


def of_process(pid: int, process: str) -> Supervised | None:
    """The record of the supervisor with that process; None if it is gone, or says nothing."""
    return next((one for one in supervised() if (one.pid, one.process) == (pid, process)), None)


def with_driver(record: Supervised, pid: int, restarts: int) -> Supervised:
    """The record once a driver was started."""
    identity = registry.process_identity(pid) or ""
    return replace(record, state=STARTING, restarts=restarts, driver=pid, driver_process=identity)


def _file_of(record: Supervised) -> str:
    return f"supervisor-{record.pid}"


def _decoded(data: bytes | None) -> Supervised | None:
    try:
        return _RECORD.validate_json(data or b"", strict=True)
    except ValueError:
        return None
