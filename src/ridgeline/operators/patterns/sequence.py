"""Records that follow one another: a, then b, within a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api import SchemaError
from ridgeline.api.errors import shorten
from ridgeline.api.support.results import names_call
from ridgeline.operators.frames._expressions import first_line, imported
from ridgeline.operators.patterns.pattern import NO_DEADLINE, Deadline, Found, Pattern, microseconds

Condition = Any
"""Values by column, SQL text, a polars expression, or a function of a record as a dictionary."""
_MOST_STEPS = 62
_NONE = -(2**63)


@dataclass(frozen=True)
class Sequence_(Pattern):  # noqa: N801  `Sequence` is a type of Python
    """See `sequence`. `within` is in microseconds."""

    conditions: tuple[Condition, ...]
    within: int

    def names(self) -> tuple[str, ...]:
        """The columns of conditions that are values by column."""
        return tuple(name for one in self.conditions for name in condition_columns(one))

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a condition that the stream cannot answer."""
        super().check(schema)
        for one in self.conditions:
            check_condition(one, schema)

    def items(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """For each record the conditions that are true, as bits; None for no bit."""
        bits = np.zeros(len(batch), np.int64)
        for number, condition in enumerate(self.conditions):
            bits |= holds(condition, batch).astype(np.int64) << number
        return [found or None for found in bits.tolist()]

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory has for each step but the last when the newest run that got there began.

        The newest start is the best one: if any run is in time, that is.
        """
        starts = list(memory) if memory is not None else [_NONE] * (len(self.conditions) - 1)
        last = len(starts)
        for number in range(last, 0, -1):
            start = starts[number - 1]
            if item >> number & 1 and start != _NONE and 0 <= time - start <= self.within:
                if number == last:
                    found.append(Found("sequence", start))
                    return None
                starts[number] = max(starts[number], start)
        if item & 1:
            starts[0] = max(starts[0], time)
        return tuple(starts) if any(start != _NONE for start in starts) else None

    def deadline(self, memory: Any) -> Deadline:
        """Once no run can be completed any more, it is forgotten."""
        return NO_DEADLINE if memory is None else Deadline(max(memory) + self.within + 1)

    def expired(self, memory: Any, found: list[Found]) -> Any:
        """No run can be completed."""
        return None


@names_call
def sequence(*conditions: Condition, within: float | str) -> Sequence_:
    """Records of a key that fulfil conditions one after the other, all of them within a time.

    Records between them do not matter, and one record fulfils one condition only. A run that is complete is
    reported, since its first record; then the key begins again. Of several possible starts the newest
    counts. A condition is one of these:

    - values by column: `{"page": "/cart"}`;
    - SQL text or a polars expression: `"cents > 100"`, `pl.col("cents") > 100`;
    - a function of a record, which is a dictionary.

    Raises ValueError for fewer than two conditions, and for what is none.

    >>> sequence({"page": "/cart"}, {"page": "/paid"}, within="10m").within
    600000000
    """
    if not 2 <= len(conditions) <= _MOST_STEPS:  # noqa: PLR2004  a sequence
        raise ValueError(f"a sequence has 2 to {_MOST_STEPS} conditions; got {len(conditions)}")
    return Sequence_(tuple(own_condition(one) for one in conditions), microseconds(within, "within"))


def own_condition(condition: Condition) -> Condition:
    """The condition, of a mapping a copy. Raises ValueError for what is none."""
    if not (isinstance(condition, (Mapping, str)) or callable(condition) or is_expression(condition)):
        raise ValueError(
            f"a condition is values by column, SQL, an expression or a function; got {shorten(condition)}"
        )
    return dict(condition) if isinstance(condition, Mapping) else condition


def condition_columns(condition: Condition) -> tuple[str, ...]:
    """The columns of a condition that is values by column."""
    return tuple(condition) if isinstance(condition, Mapping) else ()


def check_condition(condition: Condition, schema: pa.Schema) -> None:
    """Raise SchemaError for SQL or an expression that a stream cannot answer, and without polars."""
    if not isinstance(condition, str) and not is_expression(condition):
        return
    try:
        holds(condition, pa.RecordBatch.from_pylist([], schema))
    except SchemaError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith("polars"):
            raise
        what = f"the condition {shorten(condition)} does not fit the stream {schema.names}"
        raise SchemaError(f"{what}: {first_line(error)}") from None


def is_expression(condition: object) -> bool:
    """True for an expression of polars, which need not be installed."""
    return type(condition).__module__.startswith("polars.")


def holds(condition: Condition, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """For each record whether a condition is true; null is not. Raises SchemaError without polars."""
    if isinstance(condition, Mapping):
        found = np.ones(len(batch), np.bool_)
        for name, value in condition.items():
            found &= np.array([one == value for one in batch.column(name).to_pylist()], np.bool_)
        return found
    if isinstance(condition, str) or is_expression(condition):
        pl = imported()
        expression = pl.sql_expr(condition) if isinstance(condition, str) else condition
        frame: Any = pl.from_arrow(batch)
        mask = frame.select(expression.alias("mask")).to_series().fill_null(value=False)
        return np.broadcast_to(mask.to_numpy().astype(np.bool_), len(batch))
    function: Callable[[dict[str, Any]], object] = condition
    return np.array([bool(function(row)) for row in batch.to_pylist()], np.bool_)
