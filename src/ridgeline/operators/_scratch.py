"""Scratch places of outputs of the library: a copy of the operator that writes elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ridgeline.api.operator import operator_type
from ridgeline.operators._divided import undivided

WHO = "prove"
"""Who connects, for texts of errors."""
KEY = "key"
COLUMNS = ("id", KEY, "text", "value")
TYPES = pa.schema([("id", pa.int64()), (KEY, pa.int64()), ("text", pa.string()), ("value", pa.float64())])
"""The columns of `ridgeline.testing.ConnectorRow`."""
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


def divided(operator: Any) -> Sequence[str]:
    """A note on `partition_by`, if the operator has it: scratch places are divided by `KEY`."""
    if not operator.partition_by:
        return ()
    return (f"`partition_by` is `{KEY}`: the rows of the proof have other columns",)


def rows_of(table: pa.Table) -> Sequence[tuple[Any, ...]]:
    """The rows of a scratch place that was read as a table."""
    return list(zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True))
