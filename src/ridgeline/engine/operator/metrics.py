"""The metrics that an operator declares: all are read, and fields set back, as application windows end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ridgeline.api.errors import RidgelineError
from ridgeline.api.metric import checked_value
from ridgeline.api.operator import operator_type
from ridgeline.api.state import METRICS, ValueCell
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Turn, TurnPart

_PLAIN = 2**31


class DeclaredMetrics(TurnPart):
    """The declared metrics of one operator.

    In an application window of several streaming windows the fields go from one to the next by a state of
    their own. So they are as exact as state is.
    """

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        declared = operator_type(type(instance.operator)).metrics
        self._fields = {name: one.default for name, one in declared.items() if not one.method}
        self._counters = {name for name, one in declared.items() if one.kind == "counter"}
        self._methods = [name for name, one in declared.items() if one.method]
        self._cell: ValueCell | None = None
        if self._fields and instance.window_count > 1:
            self._cell = instance.cells[METRICS] = ValueCell(None)

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if the operator declares none."""
        return cls(instance) if operator_type(type(instance.operator)).metrics else None

    def start(self) -> None:
        """Give the fields their defaults: what `setup` makes of them is what windows begin with."""
        vars(self.instance.operator).update(self._fields)

    def begin(self, turn: Turn) -> None:
        """Give the fields the values of the streaming window before."""
        if self._cell is not None and (kept := self._cell.get()) is not None:
            vars(self.instance.operator).update(zip(self._fields, kept, strict=True))

    def end(self, turn: Turn) -> None:
        """Read the values if the application window ends, else keep the fields for the next window.

        Raises OperatorError naming the metric if it is no finite number, or if its method raises or emits.
        """
        if turn.ends:
            turn.report.metrics = self._read()
            if self._cell is not None and self._cell.get() is not None:
                self._cell.set(None)
        elif self._cell is not None:
            values = tuple(getattr(self.instance.operator, name) for name in self._fields)
            if values != self._cell.get():
                self._cell.set(values)

    def _read(self) -> Mapping[str, float]:
        """The values at the end of an application window, but for those that there are none of."""
        found: dict[str, float | None] = {}
        values = vars(self.instance.operator)
        for name in self._fields:
            value = values.get(name)
            if type(value) is int and 0 <= value <= _PLAIN:
                found[name] = value  # as most are: nothing needs to be checked
            else:
                found[name] = self.instance.timed(f"metric `{name}`", partial(self._field, name))
        for name in self._methods:
            found[name] = self.instance.timed(f"metric `{name}`", partial(self._method, name))
        return {name: value for name, value in found.items() if value is not None}

    def _field(self, name: str) -> float | None:
        return self._checked(name, getattr(self.instance.operator, name))

    def _method(self, name: str) -> float | None:
        outputs = self.instance.outputs.values()
        before = [point.pending for point in outputs]
        value = self._checked(name, getattr(self.instance.operator, name)())
        if before != [point.pending for point in outputs]:
            raise RidgelineError(f"the method of the metric `{name}` has emitted; emit in `end_window`")
        return value

    def _checked(self, name: str, value: object) -> float | None:
        number = checked_value(value)
        if number is not None and number < 0 and name in self._counters:
            raise RidgelineError(f"a counter never falls; got {number}; declare it as a `gauge`")
        return number
