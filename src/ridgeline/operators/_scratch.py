"""Scratch places of outputs of the library: a copy of the operator that writes elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.api.operator import operator_type
from ridgeline.operators._divided import undivided

POISON_TEXT = "poison"
POISON = (10**6, 99, POISON_TEXT, 1001.0)
"""The row that scratch places refuse, where they can."""


def copied(operator: Any, **changed: Any) -> Any:
    """A new operator of the same class, with other values of some properties."""
    kind: Any = undivided(type(operator))
    names = [name for name in operator_type(kind).properties if name != "context"]
    return kind(**{**{name: getattr(operator, name) for name in names}, **changed})


def left_out(operator: Any, defaults: Mapping[str, Any]) -> Sequence[str]:
    """A note on the properties that have other values than these, with which the scratch place is written."""
    names = [f"`{name}`" for name, value in defaults.items() if getattr(operator, name) != value]
    if not names:
        return ()
    return (f"proved without {', '.join(names)}: the rows of the proof have other columns",)
