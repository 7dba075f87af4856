"""Events of slots: who has come, is gone, is late, or is in the wrong place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotJoined:
    """A process has joined as a slot. `containers`: how many it hosts; `again`: another was there before."""

    at: float
    slot: int
    host: str
    pid: int
    containers: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class SlotLost:
    """The process that was a slot is gone, `reason` says how that was seen. Another one will join."""

    at: float
    slot: int
    host: str
    pid: int
    reason: str


@dataclass(frozen=True, slots=True)
class SlotSpeculated:
    """A slot took longer for a window than its past allows: the slot `spare` runs its containers from now on.

    `host`, `pid`: the late slot's process, which is the spare once it goes on. `seconds`: so long it has
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
class SlotsReduced:
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
class SlotMisplaced:
    """A slot is not on one of `hosts`, where a locality or a rule asks for it: Spark is asked again.

    `host`: Spark was asked often enough, and the slot goes on here; "" before.
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
