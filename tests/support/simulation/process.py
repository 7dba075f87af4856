"""Processes of a simulated world: each can die or be stopped wherever it touches the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ridgeline.api.clock import Clock

if TYPE_CHECKING:
    import threading

    from ridgeline.engine.exchange.network import Peer
    from support.simulation.world import World


class Killed(BaseException):
    """The process is gone: raised by whatever it does next, so that nothing of it goes on."""


class ViolationError(BaseException):
    """An invariant does not hold. No `except Exception` of the engine may take it."""


class Process:
    """Someone who can be killed. All that it does to the world goes through `point`."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.stopped = 0
        """How many faults hold it; it has no turn then."""

    def point(self, what: str) -> None:
        """The process is about to do something, or has just done it: faults strike here. Raises Killed."""
        if not self.alive:
            raise Killed
        self.world.moment(self, what)
        if not self.alive:
            raise Killed

    def syncs(self) -> None:
        """It waits for a disk, in the midst of a sync."""

    def hangs_up(self, peer: Peer) -> None:
        """It ends a connection in order."""

    def check(self) -> None:
        """Raises Killed if it is gone."""
        if not self.alive:
            raise Killed


class SimulatedClock(Clock):
    """The world's time, which only its scheduler moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wall(self) -> float:
        return 1e9 + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Nothing in a simulation may wait by itself."""
        raise AssertionError("the simulated clock does not wait")


class WaitingClock(Clock):
    """The time in a container: while its operator waits for a disk, its process does, and others go on."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._clock: SimulatedClock = process.world.clock

    def wall(self) -> float:
        return self._clock.wall()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Raises Killed if the process is gone by then."""
        self._process.world.wait_for(self._process, lambda: False, seconds)
        self._process.check()
        return stop is not None and stop.is_set()
