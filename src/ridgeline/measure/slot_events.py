"""What happens to slots and to the store that they need, as events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ridgeline.measure.events import RunEvent

_END = 70
"""Characters of an error that is longer than twice as many, at its begin and its end."""


SlotKind = Literal[
    "joined",
    "restarted",
    "lost",
    "silent",
    "answers",
    "speculated",
    "reduced",
    "moved",
    "misplaced",
    "sized",
    "spread",
]


@dataclass(frozen=True, slots=True)
class SlotEvent(RunEvent):
    """Something has happened to a slot, or to all of them; `text` says it to people.

    - `joined`, `restarted`: a process has joined as a slot, `restarted` if another was there before
    - `lost`: the process that was a slot is gone; another one will join
    - `silent`, `answers`: the host of a slot has not answered for long, so windows wait; or answers again
    - `speculated`: a slot was late with `window_id`: the slot `spare` runs its containers from now
      on. `pid` is the late process, which is the spare once it responds
    - `reduced`: Spark has had cores for no more than `slots` slots for long: they host all containers
    - `moved`: Spark is asked for a slot again, since a locality or a rule wants it on another host
    - `misplaced`: it was asked often enough, and the slot stays where it is
    - `sized`, `spread`: containers live in `slots` slots, where `wanted` are wanted: from the start of a plan
      on, or since there are more cores

    `slot`: -1 of all of them. `containers`: how many the slot hosts that has joined.
    """

    at: float
    kind: SlotKind
    text: str
    slot: int = -1
    host: str = ""
    pid: int = 0
    containers: int = 0
    spare: int = -1
    window_id: int | None = None
    slots: int = 0
    wanted: int = 0


@dataclass(frozen=True, slots=True)
class StoreSilent(RunEvent):
    """A store has not answered for `seconds`: nothing is committed or published meanwhile.

    `place`: the checkpoint, or the files of `output`, an operator; "" where that is not known. `host`: the
    host whose slot cannot reach it; "" for the driver. `tries`: attempts so far. `error`: the last one, "" if
    nothing came back at all. `again`: it answers again.
    """

    at: float
    place: str
    seconds: float
    tries: int = 0
    error: str = ""
    host: str = ""
    again: bool = False
    output: str = ""

    @property
    def text(self) -> str:
        """For people."""
        seconds = f"{self.seconds:.0f} s"
        if self.again and self.output:
            return f"{self._who} has {self._files} again after {seconds}: nothing is lost"
        if self.again:
            return f"{self._who} answers again after {seconds}: nothing is lost, windows go on"
        what, end = "nothing is committed and nothing is lost", "answers"
        if self.output:
            what, end = "nothing is lost", "succeeds"
        return f"{self._waits} for {seconds}{self._cause}; {what} meanwhile, it is tried until it {end}"

    @property
    def problem(self) -> str:
        """The store and since when it does not answer, and why; for answers, which outlast the moment."""
        since = datetime.fromtimestamp(self.at - self.seconds, UTC).isoformat(timespec="seconds")
        return f"{self._waits} since {since}{self._cause}"

    @property
    def _waits(self) -> str:
        return f"{self._who} has {f'waited for {self._files}' if self.output else 'not answered'}"

    @property
    def _files(self) -> str:
        return f"`{self.place}`" if self.place else "its files"

    @property
    def _who(self) -> str:
        if self.output:
            return f"`{self.output}` on `{self.host}`" if self.host else f"`{self.output}`"
        from_here = f" cannot be reached from `{self.host}`: it" if self.host else ""
        return f"the checkpoint's store (`{self.place}`){from_here}"

    @property
    def _cause(self) -> str:
        if not self.error:
            return ""
        attempts = "1 attempt" if self.tries == 1 else f"{self.tries} attempts"
        tried = f"{attempts}, last error: " if self.tries else ""
        error = self.error  # a client's text names all that it has called: where and why stand at its ends
        if len(error) > 2 * _END:
            error = f"{error[:_END].rstrip()} ... {error[-_END:].lstrip()}"
        return f" ({tried}{error})"
