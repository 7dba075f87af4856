"""The logical plan as an author writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from ridgeline.api.attributes import Locality
from ridgeline.api.operator import Operator

Op = TypeVar("Op", bound=Operator)


@dataclass
class AddedOperator:
    """One call of `add_operator`, as it was made."""

    name: str
    operator: Any
    attributes: dict[str, Any]


@dataclass
class AddedStream:
    """One call of `add_stream`, as it was made."""

    name: str
    source: Any
    sinks: tuple[Any, ...]
    locality: Locality | str | None = None


class Application:
    """Operators and streams under one name: `Application("payments", window="200ms")`.

    `window` is the width of a streaming window: a number of seconds or a text such as `"200ms"`, `"1s"`, `"5m"`; `0` runs windows as fast
    as they get. Further keyword arguments are application attributes. Nothing is checked here: `ridgeline.plan.validate` finds all
    faults at once, and every way to run an application calls it first.
    """

    def __init__(self, name: str, window: str | float = "500ms", **attributes: Any) -> None:
        self.name = name
        self.window = window
        self.operators: list[AddedOperator] = []
        self.streams: list[AddedStream] = []
        self.attributes = attributes

    def add_operator(self, name: str, operator: Op, **attributes: Any) -> Op:
        """Add an operator under a unique name, with attributes such as `partitions=2`. Returns the operator, for its ports."""
        self.operators.append(AddedOperator(name, operator, attributes))
        return operator

    def add_stream(self, name: str, source: Any, *sinks: Any, locality: Locality | str | None = None) -> None:
        """Join one output port to one or more input ports: `add_stream("words", split.words, count.words)`."""
        self.streams.append(AddedStream(name, source, sinks, locality))
