"""Control tuples: emitted beside the tuples of a window, and delivered once to each operator downstream.

They take the same way as watermarks: a container's message has those of its operators. An operator gets each
of them once per input port, however many partitions or unifiers upstream have passed it on.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

from ridgeline.api.context import Control
from ridgeline.api.operator import operator_type
from ridgeline.api.support.pickling import dumps
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Turn, TurnPart
from ridgeline.engine.operator.signals import Entering


def control_handlers(instance: Instance) -> dict[str, Callable[[Any], object]]:
    """The operator's methods for control tuples, by input port."""
    return {
        name: getattr(instance.operator, port.control_name)
        for name, port in operator_type(type(instance.operator)).inputs.items()
        if port.control_name is not None
    }


class ControlTuples(TurnPart):
    """Delivers control tuples, and passes on what no method keeps."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._id = instance.spec.id
        self._entering: tuple[Entering, ...] = ()
        self._shared = instance.signals.controls
        self._handlers = control_handlers(instance)
        declared = operator_type(type(instance.operator))
        self._outputs = [name for name, port in declared.outputs.items() if not port.error]
        self._delivered: set[tuple[str, int, int]] = set()
        self._passed: set[tuple[int, int]] = set()

    def connect(self, entering: Iterable[Entering]) -> None:
        """These streams come in from now on."""
        self._entering = tuple(entering)

    def before_tuples(self, turn: Turn) -> None:
        """Deliver those that come before the tuples of the window."""
        self._delivered.clear()
        self._passed.clear()
        for end in [end for end in self._shared if end[0] == self._id]:
            del self._shared[end]
        self._deliver(at_end=False)

    def after_tuples(self, turn: Turn) -> None:
        """Deliver those that come at the window's end."""
        self._deliver(at_end=True)

    def _deliver(self, *, at_end: bool) -> None:
        """Call the operator's methods for those that are due.

        A control tuple is emitted on all output ports, unless the method keeps it by returning True.
        """
        for source, source_port, port in self._entering if self._shared else ():
            for control in self._shared.get((source, source_port), ()):
                key = port, control.origin, control.number
                if key in self._delivered or (control.at_end and not at_end):
                    continue
                self._delivered.add(key)
                if (on_control := self.instance.context.engine.on_control) is not None:
                    self.instance.call(f"control of port {port}", on_control, control)
                    continue
                handler = self._handlers.get(port)
                kept = handler is not None and self.instance.timed(
                    f"control of port {port}", handler, pickle.loads(control.value)
                )
                if kept is not True and key[1:] not in self._passed:
                    self._passed.add(key[1:])
                    for name in self._outputs:
                        self._shared.setdefault((self._id, name), []).append(control)


class EmittedControls(TurnPart):
    """Adds what the operator has emitted to the control tuples of the container's window."""

    def end(self, turn: Turn) -> None:
        """All callbacks are done. Raises what pickling raises, as OperatorError."""
        self.instance.call("emit_control", self._add)

    def _add(self) -> None:
        """Called by `end`, which names errors. Control tuples of others keep their origin and number."""
        operator, shared = self.instance.spec.id, self.instance.signals.controls
        number = 0
        for name, point in self.instance.outputs.items():
            for emitted in point.controls:
                if isinstance(emitted, Control):
                    control = emitted
                else:
                    at_end, value = emitted
                    control = Control(operator, number, at_end, dumps(value))
                    number += 1
                shared.setdefault((operator, name), []).append(control)
