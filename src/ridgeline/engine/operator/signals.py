"""Signals between operators of a container beside tuples: watermarks, control tuples, ended operators.

A container's message has those of its operators that others read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ridgeline.api.context import Control
from ridgeline.api.times import Mark

Marks: TypeAlias = dict[int, Mark]
"""The watermarks of a window so far, by the operators that pass them on (physical id)."""


Controls: TypeAlias = dict[tuple[int, str], list[Control]]
"""The control tuples of a window so far, by the output port that they left by (physical id and name)."""


class Entering(NamedTuple):
    """A stream into an operator: the output port (physical id and name) and the operator's port."""

    source: int
    source_port: str
    port: str


class EndedOperators:
    """Which operators of a container's window get no more tuples, and which of them are waited for.

    `producers`: of each operator to which that matters, the operators that it reads. `ended`: those that have
    come to their end in this window or before, of own operators and of those that send to them.
    """

    def __init__(self, producers: Mapping[int, Sequence[int]]) -> None:
        self._producers = producers
        self.ended: set[int] = set()

    def follow(self, producers: Mapping[int, Sequence[int]]) -> None:
        """The operators are others from now on."""
        self._producers = producers
        self.ended.clear()

    def mark_finished(self, operator: int) -> None:
        """An input operator has finished."""
        if operator in self._producers:
            self.ended.add(operator)

    def mark_ended(self, operator: int) -> bool:
        """Note that nothing more comes from an operator if nothing comes to it any more; True if so."""
        producers = self._producers.get(operator)
        if not producers or not self.ended.issuperset(producers):
            return False
        self.ended.add(operator)
        return True


@dataclass(frozen=True, slots=True)
class Signals:
    """Those of a container's window: operators read them and add their own."""

    marks: Marks = field(default_factory=dict)
    ends: EndedOperators = field(default_factory=lambda: EndedOperators({}))
    controls: Controls = field(default_factory=dict)

    def clear(self) -> None:
        """Another window begins."""
        self.marks.clear()
        self.ends.ended.clear()
        self.controls.clear()

    def add(
        self,
        marks: Mapping[int, Mark],
        ended: Iterable[int],
        controls: Mapping[tuple[int, str], list[Control]],
    ) -> None:
        """Add those that a message from another container has."""
        self.marks.update(marks)
        self.ends.ended.update(ended)
        self.controls.update(controls)

    def of(self, operators: AbstractSet[int]) -> tuple[Marks, set[int], Controls]:
        """Those of some operators: watermarks, which of them have ended, control tuples."""
        return (
            {operator: self.marks[operator] for operator in operators if operator in self.marks},
            self.ends.ended & operators,
            {end: some for end, some in self.controls.items() if end[0] in operators},
        )
