"""The entry of an application in a store: one small file of JSON."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

import pydantic

from ridgeline.api.errors import RidgelineError

STARTING, RUNNING, ENDED, FAILED = "starting", "running", "ended", "failed"
LIVING = frozenset({STARTING, RUNNING})
STATES = frozenset({*LIVING, ENDED, FAILED})
LONGEST = 100_000
"""Bytes of a file that may be an entry."""
_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class StoreSupervisor:
    """The process on the host of an application that starts its driver again. `process`: as of its driver.

    `attempt`: the number of the start that it waits for, 0: for none; `restart_in`: seconds until then, from
    when the entry was written.
    """

    pid: int
    process: str
    attempt: int = 0
    restart_in: float = 0.0

    def is_process(self, other: StoreSupervisor | None) -> bool:
        """Whether the other one is the same process."""
        return other is not None and (self.pid, self.process) == (other.pid, other.process)


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """An application in a store. It has no tokens.

    `application`: its author's name for it. `start`: how often the name was started, this time included.
    `state`: one of `STATES`, with the `reason` of an end. `final`: the application has ended, and no standby
    takes over; without it only this driver has. `run`, `epoch`: of its checkpoint.
    `address`: of its web service, empty for none; `certificate`: the fingerprint of its certificate.
    `process`: distinguishes the driver's process from a later one with the same `pid`. `process_space`: where
    `pid` counts, as containers of one host may have the same name.
    `started`, `heartbeat`: seconds since 1970 by the clock of its host. `cluster_id`: Spark's id of it.
    `log`: what its driver prints, a file of its host. `submission`: of the command that started it.
    `supervisor`: None for a driver that nothing starts again. `short`: its run lacks cores of its cluster.
    """

    name: str
    application: str
    start: int
    state: str
    reason: str = ""
    run: str = ""
    epoch: int = 0
    address: str = ""
    certificate: str = ""
    host: str = ""
    pid: int = 0
    process: str = ""
    user: str = ""
    started: float = 0.0
    heartbeat: float = 0.0
    master: str = ""
    deploy_mode: str = "client"
    cluster_id: str = ""
    checkpoint: str = ""
    log: str = ""
    submission: str = ""
    supervisor: StoreSupervisor | None = None
    final: bool = False
    process_space: str = ""
    short: bool = False
    format: int = _FORMAT

    @property
    def id(self) -> str:
        """The id that the application has in other places; empty while it starts."""
        return f"{self.run}-{self.epoch}" if self.run else ""

    @property
    def lives(self) -> bool:
        """Whether it starts, runs, or is started again by its supervisor, by what it says."""
        return self.state in LIVING or self.restarts

    @property
    def restarts(self) -> bool:
        """Whether its driver has ended, and its supervisor waits until it starts the next one."""
        return self.state not in LIVING and self.supervisor is not None and self.supervisor.attempt > 0


_ENTRY = pydantic.TypeAdapter(StoreEntry)


def check_name(name: str) -> str:
    """The name, if an application can have it in a store. Raises RidgelineError."""
    if not _NAME.fullmatch(name):
        raise RidgelineError(
            f"`{name}` cannot be the name of an application in a store: it has letters, digits and `._-`, "
            "200 at most, and begins with a letter or digit; give another name"
        )
    return name


def is_name(text: str) -> bool:
    """Whether an application can have this name."""
    return _NAME.fullmatch(text) is not None


def encoded(entry: StoreEntry) -> bytes:
    """The file of an entry."""
    return json.dumps(asdict(entry), indent=1).encode()


def decoded(name: str, data: bytes) -> StoreEntry:
    """The entry in a file. Fields of later versions are left out. Raises ValueError for what is none."""
    found = _ENTRY.validate_json(data, strict=True)
    if found.name != name or found.state not in STATES or found.start < 0 or found.epoch < 0:
        raise ValueError("it is an entry of another name, or has values that no entry has")
    if found.format > _FORMAT:
        raise ValueError(f"it has format {found.format}, and this version reads {_FORMAT}")
    return found
