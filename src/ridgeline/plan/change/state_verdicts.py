"""The fate of each state when an application continues with other code, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

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


def shape_changes(name: str, now: str, old: Shape, new: Shape) -> str:
    """How a class differs from what it was, in words. `name`, `now`: under which it was and is known."""
    parts = [] if name == now else [f"`{_dotted(name)}` is `{_dotted(now)}` now"]
    own = f"`{now.rpartition(':')[2]}`"
    if "members" in old and "members" in new:
        now_values = dict(new["members"])
        if any(now_values.get(member) != value for member, value in old["members"]):
            parts.append(f"members of {own} have other values")
        return ", ".join(parts) or f"{own} has other members"
    before, after = _fields(old), _fields(new)
    parts += [f"field `{one}` of {own} is new, and gets its default" for one in after if one not in before]
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


__all__ = ["Outcome", "StateVerdict", "shape_changes"]
