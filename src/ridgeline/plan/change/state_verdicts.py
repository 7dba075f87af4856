"""The fate of each state when an application continues with other code, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from ridgeline.api.errors import Fault
from ridgeline.plan.change.state_shapes import Shape


class Outcome(StrEnum):
    """The fate of a state."""

    KEPT = "kept"
    CONVERTED = "converted"
    MOVED = "moved"
    DROPPED = "dropped"
    ENDED = "ended"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StateVerdict:
    """The fate of one state, or of all of an operator. `where`: as `operator.state`, or the operator."""

    where: str
    outcome: Outcome
    why: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        text = "; ".join(part for part in (self.why, self.remedy) if part)
        return f"{self.outcome:9}  {self.where}{f': {text}' if text else ''}"


def refused(fault: Fault) -> StateVerdict:
    """The fate of a state that a start would refuse."""
    return StateVerdict(fault.where, Outcome.REFUSED, fault.what, fault.remedy)


class Stands(Protocol):
    """How a class was, and what is done with its fields: see `Replacement`."""

    @property
    def old(self) -> Shape:
        """The class as it was."""

    @property
    def fields(self) -> Mapping[str, str]:
        """New names by old ones."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The functions of fields."""


def shape_changes(name: str, now: str, stands: Stands, new: Shape) -> str:
    """How a class differs from what it was, in words. `name`, `now`: under which it was and is known."""
    old, fields = stands.old, stands.fields
    parts = [] if name == now else [f"`{_dotted(name)}` is `{_dotted(now)}` now"]
    own = f"`{now.rpartition(':')[2]}`"
    parts += [
        f"`{one}` of {own} is `{other}` now" if other else f"field `{one}` of {own} is dropped"
        for one, other in fields.items()
        if one != other
    ]
    if "members" in old and "members" in new:
        now_values = dict(new["members"])
        if any(now_values.get(fields.get(member, member)) != value for member, value in old["members"]):
            parts.append(f"members of {own} have other values")
        return ", ".join(parts) or f"{own} has other members"
    before = [known for one in _fields(old) if (known := fields.get(one, one))]
    after = _fields(new)
    parts += [f"field `{one}` of {own} is new, and gets its default" for one in after if one not in before]
    parts += [f"field `{one}` of {own} is converted" for one in stands.values]
    common = [one for one in before if one in after]
    if common != [one for one in after if one in before]:
        parts.append(f"fields of {own} have changed places")
    if old.get("form") != new.get("form"):
        parts.append(f"instances of {own} are written otherwise")
    return ", ".join(parts) or f"{own} is another class of the same fields"


def _fields(shape: Shape) -> Sequence[str]:
    return [name for name, *_ in shape.get("fields", ())]


def _dotted(name: str) -> str:
    return name.replace(":", ".")


__all__ = ["Outcome", "StateVerdict", "refused", "shape_changes"]
