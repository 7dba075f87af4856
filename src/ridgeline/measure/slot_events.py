"""Events of slots, who has come, is gone, late or in the wrong place; and of the store that they need."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ridgeline.measure.events import RunEvent

_END = 70
"""Characters of an error that is longer than twice as many, at its begin and its end."""


@dataclass(frozen=True, slots=True)
class SlotJoined(RunEvent):
    """A process has joined as a slot. `containers`: how many it hosts; `again`: another was there before."""

    at: float
    slot: int
    host: str
    pid: int
    containers: int
    again: bool = False

    @property
    def text(self) -> str:
        """For people."""
        there = f"slot {self.slot} is there{' again' if self.again else ''}"
        return f"{there}: process {self.pid} on `{self.host}` hosts {self.containers} containers"


@dataclass(frozen=True, slots=True)
class SlotLost(RunEvent):
    """The process that was a slot is gone, `reason` says how that was seen. Another one will join."""

    at: float
    slot: int
    host: str
    pid: int
    reason: str

    @property
    def text(self) -> str:
        """For people."""
        return f"slot {self.slot} is lost: process {self.pid} on `{self.host}`: {self.reason}"


@dataclass(frozen=True, slots=True)
class SlotSilent(RunEvent):
    """The host of a slot has acknowledged nothing for `seconds`: windows wait for it, or no longer.

    `limit_seconds`: after so long the slot is lost. `again`: the host answers again, as before.
    """

    at: float
    slot: int
    host: str
    pid: int
    seconds: float
    limit_seconds: float
    again: bool = False

    @property
    def text(self) -> str:
        """For people."""
        where = f"slot {self.slot} (process {self.pid} on `{self.host}`)"
        if self.again:
            return f"{where} answers again after {self.seconds:.0f} s: nothing is lost, windows go on"
        cause = "the network is cut, or the host is gone or stands still"
        limit = f"windows wait for it, and after {self.limit_seconds:g} s it is lost"
        return f"{where} has not answered for {self.seconds:.0f} s: {cause}; {limit}"


@dataclass(frozen=True, slots=True)
class SlotsSized(RunEvent):
    """The containers live in `slots` slots now; `wanted`: as many as they would have if Spark had the cores.

    `before`: there were so many; 0 at the start, or with another plan.
    """

    at: float
    slots: int
    wanted: int
    before: int = 0

    @property
    def text(self) -> str:
        """For people."""
        slots = "1 slot" if self.slots == 1 else f"{self.slots} slots"
        fewer = self.slots < self.wanted
        if self.before:
            missing = f"; {self.wanted} are wanted" if fewer else ", as many as wanted"
            return f"containers are spread over {slots} now ({self.before} before){missing}"
        if fewer:
            return (
                f"containers live in {slots}, {self.wanted} are wanted: more are started once Spark has cores"
            )
        return f"containers live in {slots}, as many as wanted"


@dataclass(frozen=True, slots=True)
class SlotSpeculated(RunEvent):
    """A slot took longer for a window than its past allows: the slot `spare` runs its containers from now on.

    `host`, `pid`: the late slot's process, which is the spare once it responds. `seconds`: how long it has
    taken for the window, where `limit_seconds` are allowed.
    """

    at: float
    slot: int
    spare: int
    host: str
    pid: int
    window_id: int
    seconds: float
    limit_seconds: float

    @property
    def text(self) -> str:
        """For people."""
        took = f"took {self.seconds * 1000:.0f} ms for window {self.window_id}"
        allowed = f"its past allows {self.limit_seconds * 1000:.0f} ms"
        where = f"process {self.pid} on `{self.host}`"
        return f"slot {self.slot} ({where}) {took}, {allowed}: slot {self.spare} runs it now"


@dataclass(frozen=True, slots=True)
class SlotsReduced(RunEvent):
    """Spark has had cores for no more than `slots` slots for long: they host all containers of `before`."""

    at: float
    slots: int
    before: int

    @property
    def text(self) -> str:
        """For people."""
        slots = "1 slot" if self.slots == 1 else f"{self.slots} slots"
        return f"Spark has cores for {slots} only: all containers of {self.before} slots live there now"


@dataclass(frozen=True, slots=True)
class SlotMisplaced(RunEvent):
    """A slot is not on one of `hosts`, where a locality or a rule asks for it: Spark is asked again.

    `host`: Spark was asked often enough, and the slot stays here; "" before.
    """

    at: float
    slot: int
    hosts: tuple[str, ...]
    host: str = ""

    @property
    def text(self) -> str:
        """For people."""
        wanted = " or ".join(f"`{host}`" for host in self.hosts)
        if not self.host:
            return f"slot {self.slot} is asked for again: a locality or a rule needs it on {wanted}"
        return (
            f"slot {self.slot} stays on `{self.host}`: Spark did not start it on {wanted}, "
            "where a locality or a rule needs it; has that host a free core?"
        )


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
