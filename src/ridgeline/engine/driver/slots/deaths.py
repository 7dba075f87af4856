"""Why a slot is lost: the operator in turn in its process, or what is known of the process."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from ridgeline.api.errors import Failure
from ridgeline.engine.process import stacks
from ridgeline.engine.process.black_box import Death, death_of, turn_of
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.stram.slots import Member

_HOST = socket.gethostname()
_KEPT = 8
_ENDED = "ZXx"
"""The states of processes that have ended, as Linux writes them."""
_EXITING = 0x4
"""The flag of a process that is ending: what it had is closed, as its children notice sooner than we."""


class Lineage(NamedTuple):
    """The processes of this host that a worker lives by: its daemon, and the daemon's own parent, Spark."""

    daemon: int
    executor: int

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """That of a worker that is there; None if the operating system does not say."""
        daemon = _parent(pid)
        executor = None if daemon is None else _parent(daemon)
        return None if daemon is None or executor is None else cls(daemon, executor)

    def lost(self) -> str:
        """Which of both has ended, for people; "" if none has."""
        if _parent(self.executor) is None:
            return f"its executor, process {self.executor}, has died"
        if _parent(self.daemon) != self.executor:  # that number may be another process's by now
            return f"its daemon of Python, process {self.daemon}, has died"
        return ""


def _parent(pid: int) -> int | None:
    """The parent of a process that runs; None if it does not, or if this is not Linux."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ends = fields[0] in _ENDED or int(fields[6]) & _EXITING
    return None if ends else int(fields[1])


class Deaths:
    """The last deaths of processes on this host, with the operators in whose turns they died.

    A worker that dies with its executor or daemon has not died of its operator.
    """

    def __init__(self, application: str, run_id: str) -> None:
        self._application = application
        self._run_id = run_id
        self._deaths: deque[Death] = deque(maxlen=_KEPT)
        self._lineages: dict[int, Lineage | None] = {}

    def came(self, member: Member) -> None:
        """A process is a slot from now on."""
        if member.host == _HOST:
            self._lineages[member.pid] = Lineage.of(member.pid)

    def left(self, member: Member) -> None:
        """A slot that hosts nothing any more has ended, for no matter what reason."""
        self._lineages.pop(member.pid, None)

    def why(
        self,
        member: Member,
        reason: str,
        where: str,
        operators: Mapping[int, PhysicalOperator],
        runs: Callable[[int, int], bool],
        *,
        ended: bool,
    ) -> Failure:
        """Why a slot is lost. `ended`: its process died. `runs(window, attempt)`: this one is in flight."""
        lineage = self._lineages.pop(member.pid, None)
        lost = lineage.lost() if ended and lineage is not None else ""
        turn = turn_of(member.pid) if ended and member.host == _HOST else None
        if turn is not None and not lost and turn.run_id == self._run_id and runs(*turn[1:3]):
            self._deaths.append(Death(member.pid, turn, stacks.last_words(member.pid)))
            place = turn.window_id, turn.operator
            alike = [death for death in self._deaths if (death.turn.window_id, death.turn.operator) == place]
            failure = death_of(self._application, operators[turn.operator], turn.window_id, alike)
            return replace(failure, raised=False)  # what it held is gone: no other window can go on
        process = f"its process {member.pid} on `{member.host}`"
        how = "killed (is the host out of memory?), or ended by `os._exit` or a crash in native code"
        how = lost or f"it was {how}"
        what = f"{process} died: {how}; {reason}" if ended else f"{process} was given up: {reason}"
        return Failure(self._application, "", 0, -1, where, what, cluster=True)
