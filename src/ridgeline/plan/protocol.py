"""What STRAM asks of a container and what the container answers: the whole contract between the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.errors import Failure
from ridgeline.measure.events import AgeSample

StateVersion = tuple[str, ...]
"""Names of state files that make up an operator's state: runs and a snapshot (or nothing) and the deltas since, in order."""


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """Run this window.

    `attempt` counts the tries of the window from 0, `epoch` the drivers that have owned the checkpoint.

    `final`: all inputs will have finished with this window, so open application windows end. `finished`: ids
    of input operators that have finished before. `states`: the version after window `window_id - 1` of every
    operator (by physical id) that has state. `tails`: of which output ports (physical id and name) the report
    is to hold the last tuples, and how many.
    """

    window_id: int
    attempt: int
    epoch: int
    final: bool = False
    finished: frozenset[int] = frozenset()
    states: Mapping[int, StateVersion] = field(default_factory=dict)
    tails: Mapping[tuple[int, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class OperatorReport:
    """What one physical operator did in one window.

    `began` (its turn came) and `ended` (its output had been routed: the end-window timestamp) are its
    container's wall clock. `compute_seconds` is time in its own callbacks, `encode_seconds` in encoding its
    output, `state_seconds` in collecting what changed of its state. `queue`: tuples that waited when its turn
    came. `ages`: of its records, see `AgeSample`.
    """

    id: int
    began: float = 0.0
    ended: float = 0.0
    compute_seconds: float = 0.0
    queue: int = 0
    ages: list[AgeSample] = field(default_factory=list)
    tuples_in: dict[str, int] = field(default_factory=dict)
    tuples_out: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    error_tuples: list[str] = field(default_factory=list)
    finished: bool = False
    dropped: Failure | None = None
    state_version: StateVersion = ()
    state_bytes: int = 0
    handed_over: list[Any] = field(default_factory=list)
    tails: dict[str, bytes] = field(default_factory=dict)
    progress: tuple[float, float | None] | None = None
    progress_unit: str = "units"
    end_seconds: float = 0.0
    encode_seconds: float = 0.0
    state_seconds: float = 0.0


@dataclass(slots=True)
class WindowReport:
    """What one container did in one window.

    `tag` names the attempt, `seen` the attempt of every container whose blocks it got. Times are the
    container's wall clock: its task entered Python, its own turn began, state was restored, operators had
    run, state was written, messages were handed over. `worker_began` and `daemon_began`: its process, and the
    one that forked it, began to run (0: it is no Spark worker). `received` is STRAM's: it had the report.
    `task_attempt`: how often Spark had begun its task before.
    """

    container: int
    window_id: int
    attempt: int
    tag: str
    seen: dict[int, str]
    operators: list[OperatorReport]
    host: str = ""
    pid: int = 0
    task_began: float = 0.0
    began: float = 0.0
    restored: float = 0.0
    ran: float = 0.0
    written: float = 0.0
    received: float = 0.0
    bytes_out: int = 0
    sent: float = 0.0
    worker_began: float = 0.0
    daemon_began: float = 0.0
    task_attempt: int = 0
