"""The base of patterns: from the records of one key, in the order in which they come, to findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic_core.core_schema import (
    CoreSchema,
    no_info_plain_validator_function,
    plain_serializer_function_ser_schema,
)

from ridgeline.api import SchemaError
from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.api.support.duration import parse_duration


class Found(NamedTuple):
    """A finding: its name, since when it holds (microseconds since 1970), and the value that showed it."""

    what: str
    since: int
    value: float | None = None


class Deadline(NamedTuple):
    """When a key is looked at again although no record came.

    `record`: once the watermark has reached it, in microseconds since 1970. `clock`: so many microseconds of
    the clock from now on. None: never.
    """

    record: int | None = None
    clock: int | None = None


NO_DEADLINE = Deadline()


@dataclass(frozen=True)
class Pattern:
    """The base of what `Detect` looks for. The memory of a key is a tuple of plain values; None: nothing."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """A pattern as it is, or as a specification has it: its `kind` and its fields."""
        return no_info_plain_validator_function(
            _read, serialization=plain_serializer_function_ser_schema(_written)
        )

    def names(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return ()

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a stream that it cannot read."""
        for name in self.names():
            if name not in schema.names:
                hint = did_you_mean(name, schema.names)
                raise SchemaError(
                    f"`{type(self).__name__}` reads the column `{name}`, which the stream lacks; {hint}"
                )

    def items(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """For each record what `step` gets of it; None for one that says nothing. Here each record counts."""
        return [True] * len(batch)

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """Take one record of a key; returns the memory after it, and adds to `found`."""
        raise NotImplementedError

    def deadline(self, memory: Any) -> Deadline:
        """When to look at a key again."""
        return NO_DEADLINE

    def expired(self, memory: Any, found: list[Found]) -> Any:
        """The deadline is over: returns the memory after it, and adds to `found`."""
        return memory

    def expired_by_clock(self, memory: Any, found: list[Found]) -> Any:
        """As `expired`, by the clock."""
        return self.expired(memory, found)

    def ended(self, memory: Any, found: list[Found]) -> Any:
        """The input has ended before the deadline: returns the memory after it, and adds to `found`."""
        return memory


def _kinds(kind: type[Pattern] = Pattern) -> dict[str, type[Pattern]]:
    """All patterns by name."""
    found: dict[str, type[Pattern]] = {}
    for one in kind.__subclasses__():
        found |= {one.__name__: one} | _kinds(one)
    return found


def _written(pattern: Pattern) -> dict[str, Any]:
    """The kind of a pattern and its fields."""
    return {"kind": type(pattern).__name__} | {
        one.name: getattr(pattern, one.name) for one in fields(pattern)
    }


def _read(value: object) -> Pattern:
    """A pattern, also from what `_written` gives. Raises ValueError for anything else."""
    if isinstance(value, Pattern):
        return value
    own = dict(value) if isinstance(value, Mapping) else {}
    kind = _kinds().get(str(own.pop("kind", "")))
    if kind is None:
        raise ValueError(f"a pattern such as `hysteresis(...)`; got {shorten(value)}")
    try:
        return kind(**{name: tuple(one) if isinstance(one, list) else one for name, one in own.items()})
    except TypeError as error:
        raise ValueError(f"fields of `{kind.__name__}`: {error}") from None


@dataclass(frozen=True)
class NumberPattern(Pattern):
    """A pattern over the numbers of a column; null and NaN say nothing."""

    column: str

    def names(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a column that has no numbers."""
        super().check(schema)
        kind = schema.field(self.column).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise SchemaError(
                f"`{type(self).__name__}` reads numbers, but `{self.column}` is {kind}; convert it before"
            )

    def items(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """The numbers."""
        values = batch.column(self.column).cast(pa.float64(), safe=False).to_pylist()
        return [None if value is None or math.isnan(value) else value for value in values]


def microseconds(value: float | str, what: str) -> int:
    """A duration in microseconds. Raises ValueError for what is none, or not more than 0."""
    found = round(parse_duration(value) * 1_000_000)
    if found <= 0:
        raise ValueError(f"`{what}` must be more than 0; got {value!r}")
    return found


def at_least(value: float, least: float, what: str) -> None:
    """Raise ValueError for a number less than `least`, or a NaN."""
    if not value >= least:
        raise ValueError(f"`{what}` must be at least {least}; got {value!r}")
