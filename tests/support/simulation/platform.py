"""Where slots run in a simulation: jobs whose tasks the world begins, and enough cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ridgeline.engine.driver.checkpoint import folder, journal
from ridgeline.engine.driver.run import changes
from ridgeline.engine.driver.slots import contents
from ridgeline.engine.driver.slots import group as slot_group
from ridgeline.engine.driver.slots.contents import SlotContents
from ridgeline.engine.driver.slots.jobs import JobEnded
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import Network
from ridgeline.engine.process.plan_distribution import ShippedPlan
from ridgeline.engine.process.shipped_files import place_of
from ridgeline.engine.state import state_files
from ridgeline.operators import _segments
from ridgeline.plan.execution import Plan
from ridgeline.stram import lateness
from support.simulation import ether
from support.simulation.changing import Here
from support.simulation.output_files import SimulatedOutputFiles

if TYPE_CHECKING:
    from support.simulation.driver import DriverProcess

TRIES = 4
"""So often Spark begins the task of a job."""
ATTEMPTS = slot_group._ATTEMPTS_OF_A_JOB


class Jobs:
    """The jobs of a driver's slots, as `SlotJobs`: the world says when their tasks begin."""

    def __init__(self, driver: DriverProcess) -> None:
        self._driver = driver
        self._numbers: dict[int, int] = {}
        self._ended: list[JobEnded] = []

    def node(self, slot: int, host: str) -> str:
        return ""

    def start(self, slot: int, hosts: Sequence[str] = ()) -> None:
        number = self._numbers[slot] = self._numbers.get(slot, -1) + 1
        self._driver.begin_task(slot, number * ATTEMPTS)

    def died(self, slot: int, attempt: int, *, for_good: bool) -> None:
        """The process of a task has died: Spark begins it again, some times."""
        if attempt // ATTEMPTS != self._numbers.get(slot):
            return
        if for_good or attempt % ATTEMPTS + 1 == TRIES:
            self._ended.append(JobEnded(slot, RuntimeError("Job aborted")))
        else:
            self._driver.begin_task(slot, attempt + 1)

    def left(self, slot: int, attempt: int) -> None:
        """A task has come to its end."""
        if attempt // ATTEMPTS == self._numbers.get(slot):
            self._ended.append(JobEnded(slot, None))

    def cancel(self, slot: int) -> None:
        self._driver.end_task(slot)

    def connected(self, slot: int) -> None:
        """All jobs are watched."""

    def disconnected(self, slot: int) -> None:
        """As above."""

    def take_ended(self) -> list[JobEnded]:
        ended, self._ended = self._ended, []
        return ended

    def close(self, seconds: float) -> None:
        """No job is left."""


class _NoSharing:
    """Blocks travel by value."""

    def place(self, window_id: int, attempt: int) -> None:
        """Nowhere."""

    def reported(self, window_id: int, bytes_out: int) -> None:
        """No block is there."""

    def void(self) -> None:
        """No block is there."""

    def committed(self, window_id: int) -> None:
        """No block is there."""

    def close(self) -> None:
        """Nothing is there."""


class Platform:
    """A platform, as `SparkSlots`, of a simulated driver."""

    listen = Listen()
    patience_seconds = 20.0
    silent_seconds = 15.0
    given = ()

    def check(self, need: object) -> None:
        """Nothing is needed."""

    def __init__(self, driver: DriverProcess, network: Network, slots: int) -> None:
        self._driver = driver
        self._network = network
        self._slots = slots
        self._claimed = 0

    def claim(self, containers: int, fed: int = 0) -> int:
        self._claimed = min(containers, self._slots)
        return self._claimed

    def wanted(self, containers: int) -> int:
        """As many as there were ever."""
        return min(containers, self._slots)

    def claim_more(self, places: int, without: object = ()) -> int:
        more = min(places, self._slots - self._claimed)
        self._claimed += more
        return more

    def release(self, places: int | None = None) -> None:
        self._claimed -= self._claimed if places is None else places

    def capacities(self) -> dict[str, Any]:
        return {}

    def most(self) -> int:
        return self._slots

    def present(self, without: object = ()) -> int:
        return self._slots

    def check_alive(self) -> None:
        """It lives as long as the driver."""

    def open_network(self) -> Network:
        return self._network

    def open_jobs(
        self, task: Callable[[int], str], describe: object, need: object, wake: Callable[[], None]
    ) -> Jobs:
        self._driver.jobs = Jobs(self._driver)
        return self._driver.jobs

    def open_feed(self, source: Any) -> Any:
        raise AssertionError(source)

    def open_sharing(self) -> Any:
        return _NoSharing()

    def reason(self, error: Exception) -> str:
        return str(error)


def _distribute(contents: SlotContents, plan: Plan, placement: Sequence[object]) -> list[ShippedPlan]:
    """Write a file in the place of the code: containers of a simulation are made of the plan in memory."""
    world = contents.storage._process.world  # type: ignore[attr-defined]
    name = place_of(f"{contents.run_id}-{plan.version}", contents.epoch)
    world.specs[name] = world.layout.specs if plan is world.layout.plan else world.specs_of(plan)
    contents.storage.create(name, b"plan")
    return [ShippedPlan(name)] * len(placement)


def _patches(segment_bytes: int) -> Iterator[tuple[Any, str, object]]:
    yield SlotContents, "distribute", _distribute
    yield state_files, "SMALL_BYTES", state_files.SMALL_BYTES
    yield journal, "SEGMENT_BYTES", segment_bytes
    yield journal, "PICTURES", 1
    yield journal, "PICTURE_RECORDS", 3
    yield folder, "OLD_SEGMENTS", 1
    yield changes, "ThreadPoolExecutor", Here
    yield contents, "ThreadPoolExecutor", Here
    yield _segments, "OutputFiles", SimulatedOutputFiles
    yield lateness, "LEAST_WINDOWS", 2
    yield lateness, "LEAST_SECONDS", 0.01
    yield from ether.patches()


@contextmanager
def simulated_platform(segment_bytes: int, more: Sequence[tuple[Any, str, object]] = ()) -> Iterator[None]:
    """Replace what neither disk nor network of a simulation can, and let files of the journal be small.

    `more`: what else is replaced.
    """
    given = (*_patches(segment_bytes), *more)
    patches = [(where, name, getattr(where, name), value) for where, name, value in given]
    for where, name, _, value in patches:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value, _ in patches:
            setattr(where, name, value)
