"""The metrics that an operator declares: all are read, and fields set back, as application windows end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ridgeline.api.errors import RidgelineError
from ridgeline.api.metric import checked_value
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.points import OutputPoint
from ridgeline.api.state import ValueCell

_PLAIN = 2**31
Call = Callable[[str, Callable[[], object]], Any]
"""Calls a callback of this name."""


class OwnMetrics:
    """The declared metrics of one operator.

    In an application window of several streaming windows the fields go from one to the next by a state of
    their own, `cell`. So they are as exact as state is.
    """

    def __init__(self, operator: Operator, window_count: int) -> None:
        declared = operator_type(type(operator)).metrics
        self._operator = operator
        self._fields = {name: one.default for name, one in declared.items() if not one.method}
        self._counters = {name for name, one in declared.items() if one.kind == "counter"}
        self._methods = [name for name, one in declared.items() if one.method]
        self.cell = ValueCell(None) if self._fields and window_count > 1 else None

    def start(self) -> None:
        """Give the fields their defaults: what `setup` makes of them is what windows begin with."""
        vars(self._operator).update(self._fields)

    def begin(self) -> None:
        """A streaming window begins: go on where the one before it ended."""
        if self.cell is not None and (kept := self.cell.get()) is not None:
            vars(self._operator).update(zip(self._fields, kept, strict=True))

    def keep(self) -> None:
        """A streaming window ends within an application window."""
        if self.cell is not None:
            values = tuple(getattr(self._operator, name) for name in self._fields)
            if values != self.cell.get():
                self.cell.set(values)

    def end(self) -> None:
        """The application window has ended."""
        if self.cell is not None and self.cell.get() is not None:
            self.cell.set(None)

    def read(self, call: Call, outputs: Iterable[OutputPoint]) -> Mapping[str, float]:
        """The values at the end of an application window, but for those that there are none of.

        Raises OperatorError naming the metric if it is no finite number, or if its method raises or emits.
        """
        if not self._fields and not self._methods:
            return {}
        found: dict[str, float | None] = {}
        values = vars(self._operator)
        for name in self._fields:
            value = values.get(name)
            if type(value) is int and 0 <= value <= _PLAIN:
                found[name] = value  # as most are: nothing needs to be checked
            else:
                found[name] = call(f"metric `{name}`", partial(self._field, name))
        for name in self._methods:
            found[name] = call(f"metric `{name}`", partial(self._method, name, outputs))
        return {name: value for name, value in found.items() if value is not None}

    def _field(self, name: str) -> float | None:
        return self._checked(name, getattr(self._operator, name))

    def _method(self, name: str, outputs: Iterable[OutputPoint]) -> float | None:
        before = [point.pending for point in outputs]
        value = self._checked(name, getattr(self._operator, name)())
        if before != [point.pending for point in outputs]:
            msg = f"the method of the metric `{name}` has emitted; emit in `end_window`"
            raise RidgelineError(msg)
        return value

    def _checked(self, name: str, value: object) -> float | None:
        number = checked_value(value)
        if number is not None and number < 0 and name in self._counters:
            msg = f"a counter never falls; got {number}; declare it as a `gauge`"
            raise RidgelineError(msg)
        return number
