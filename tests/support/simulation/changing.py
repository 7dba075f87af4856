"""Changes of the plan in a simulation: what somebody asks for, and which plan windows are committed under."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from ridgeline.engine.driver.checkpoint.compactions import AtOnce
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.run.changes import APPLIED, ENDED, REFUSED, Asked
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    Edit,
    RemoveOperator,
    Repartition,
    SetAttribute,
    edit_of,
)
from ridgeline.plan.execution import Plan
from ridgeline.stram.changes import EditPlan

if TYPE_CHECKING:
    from support.simulation.driver import DriverProcess

CHANGE = "change"
"""The kind of a fault that asks for a change."""
_TAP = "support.simulation.model.Tap"
_MOST_SUMS, _MOST_OUTPUTS = 4, 3


@dataclass(frozen=True)
class Shape:
    """What changes make of the plan. `tap`: "" for none, "sound", or "fails"; `tries`: an attribute."""

    sums: int
    output: int = 1
    tap: str = ""
    tries: int = 1000

    def after(self, edits: Iterable[Edit]) -> Shape:
        """With these edits."""
        shape = self
        for edit in edits:
            match edit:
                case Repartition("sums", int(count)):
                    shape = replace(shape, sums=count)
                case Repartition("output", int(count)):
                    shape = replace(shape, output=count)
                case AddOperator("tap", spec):
                    shape = replace(shape, tap="fails" if spec.get("properties") else "sound")
                case RemoveOperator("tap"):
                    shape = replace(shape, tap="")
                case SetAttribute("sums", _, value):
                    shape = replace(shape, tries=value)
                case AddSink():
                    pass
                case _:
                    raise AssertionError(edit)
        return shape


def shape_of(plan: Plan) -> Shape:
    """What a plan looks like."""
    found = {one.name: one for one in plan.logical.operators}
    parts = {one.name: one.partitions for one in plan.physical.operators if not one.unifier}
    tap = "" if "tap" not in found else "fails" if found["tap"].operator.fails else "sound"
    return Shape(parts["sums"], parts["output"], tap, found["sums"].attributes["recovery_attempts"])


def edits_of(number: int, shape: Shape) -> tuple[Edit, ...]:
    """What a number asks for, where the plan looks like this."""
    number, kind = divmod(number, 8)
    match kind:
        case 0 | 1 | 2 | 3:
            return (Repartition("sums", 1 + number % _MOST_SUMS),)
        case 4:
            output = Repartition("output", 1 + number // 8 % _MOST_OUTPUTS)
            return Repartition("sums", 1 + number % _MOST_SUMS), output
        case 5:
            return (SetAttribute("sums", "recovery_attempts", 1000 + number % 8),)
        case 6 if not shape.tap:
            spec = {"class": _TAP, "properties": {"fails": True}, "attributes": {"recovery_attempts": 1}}
            return AddOperator("tap", spec), AddSink("sums", "tap.numbers")
        case _ if shape.tap:
            return (RemoveOperator("tap"),)
        case _:
            spec = {"class": _TAP, "attributes": {"recovery_attempts": 1000}}
            return AddOperator("tap", spec), AddSink("sums", "tap.numbers")


class Plans:
    """Which plan windows are committed under: that of before, or with one change more that was asked for."""

    def __init__(self, partitions: int, violate: Callable[[str], NoReturn]) -> None:
        self._first = self.now = Shape(partitions)
        self.applied = self.refused = 0
        self._violate = violate
        self._open: list[tuple[Asked, tuple[Edit, ...]]] = []
        """What was asked for and is in no window yet, the oldest first."""
        self._of: dict[int, Shape] = {}
        """Those of committed windows."""
        self._settled: list[Asked] = []
        """What windows have."""

    def ask(self, driver: DriverProcess, number: int) -> None:
        """Somebody asks a driver for a change."""
        assert driver.run is not None
        edits = edits_of(number, self.now)
        self._open.append((driver.run.changes.ask(EditPlan(edits), "somebody"), edits))

    def begins(self, plan: Plan, last: Manifest | None) -> None:
        """A driver begins with this plan after this window; another driver may have gone on."""
        shape, wanted = shape_of(plan), self._first if last is None else self._of[last.window_id]
        if shape != wanted:
            self._violate(f"a driver begins with {shape}, the last window had {wanted}")

    def committed(self, manifest: Manifest) -> None:
        """A driver takes a window for committed."""
        shape = self._first.after(map(edit_of, manifest.edits))
        if self._of.setdefault(manifest.window_id, shape) != shape:
            self._violate(f"window {manifest.window_id} had {self._of[manifest.window_id]}, has {shape} now")
        if manifest.window_id < max(self._of):
            return
        if shape != self.now:
            for asked, edits in self._open:
                if self.now.after(edits) == shape:
                    self._settled.append(asked)
                    self._open.remove((asked, edits))
                    break
            else:
                self._violate(
                    f"window {manifest.window_id} has {shape} after {self.now}: nobody asked for it"
                )
            self.now = shape
        if shape.tap == "fails":
            self._violate(f"window {manifest.window_id} has an operator that always fails")
        self._check_keys(manifest.states)

    def _check_keys(self, states: Mapping[str, Any]) -> None:
        """States are those of the partitions of now."""
        wanted = {"sums": self.now.sums, "tap": int(bool(self.now.tap)), "source": None}
        for key in states:
            name, _, count = key.split("/")
            if wanted.get(name, 0) not in {None, int(count)}:
                self._violate(f"a window has the state `{key}`, the plan is {self.now}")

    def check(self) -> None:
        """What drivers have said of changes is true."""
        for asked in self._settled:
            if asked.state == REFUSED and not asked.reason.startswith(ENDED):
                self._violate(f"{asked.text} was refused, a window has it: {asked.reason}")
        self.applied += sum(asked.state == APPLIED for asked in self._settled)
        self._settled = [asked for asked in self._settled if not asked.done.is_set()]
        for asked, edits in list(self._open):
            if asked.done.is_set():
                self._open.remove((asked, edits))
                self.refused += asked.state == REFUSED
                if asked.state == APPLIED and self.now.after(edits) != self.now:
                    self._violate(f"{asked.text} was applied, no window has it")


class Here(AtOnce):
    """In the place of threads that plan changes and write their files: all is done at once."""

    def __init__(self, *_arguments: object) -> None:
        pass


def changes_of(luck: Any, last: int) -> Sequence[tuple[int, int]]:
    """Moments and numbers of some changes."""
    count = luck.choice((1, 2, 3, 5))
    return sorted((luck.randint(20, last), luck.randrange(1 << 12)) for _ in range(count))
