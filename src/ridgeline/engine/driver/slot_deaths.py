"""Why a slot is lost: whose turn it was in its process, or what is known of that."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from ridgeline.api.errors import Failure
from ridgeline.engine.worker import stacks
from ridgeline.engine.worker.black_box import Death, death_of, turn_of
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.stram.slots import Member

_HOST = socket.gethostname()
_KEPT = 8


class Deaths:
    """The last deaths of processes on this host, with the operators in whose turns they died."""

    def __init__(self, application: str, run_id: str) -> None:
        self._application = application
        self._run_id = run_id
        self._deaths: deque[Death] = deque(maxlen=_KEPT)

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
        turn = turn_of(member.pid) if ended and member.host == _HOST else None
        if turn is not None and turn.run_id == self._run_id and runs(*turn[1:3]):
            self._deaths.append(Death(member.pid, turn, stacks.last_words(member.pid)))
            place = turn.window_id, turn.operator
            alike = [death for death in self._deaths if (death.turn.window_id, death.turn.operator) == place]
            failure = death_of(self._application, operators[turn.operator], turn.window_id, alike)
            return replace(failure, raised=False)  # what it held is gone: no other window can go on
        process = f"its process {member.pid} on `{member.host}`"
        how = "killed (is the host out of memory?), or ended by `os._exit` or a crash in native code"
        what = f"{process} died: it was {how}; {reason}" if ended else f"{process} was given up: {reason}"
        return Failure(self._application, "", 0, -1, where, what, cluster=True)
