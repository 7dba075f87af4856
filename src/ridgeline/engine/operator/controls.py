"""Control tuples: emitted beside the tuples of a window, and delivered once to each operator downstream.

They take the same way as watermarks: a container's message has those of its operators. An operator gets each
of them once per input port, however many partitions or unifiers upstream have passed it on.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.points import OutputPoint
from ridgeline.api.support.pickling import dumps


class Control(NamedTuple):
    """A control tuple. `number`: of those that the `origin` (physical id) has emitted in the window.

    `at_end`: delivered before `end_window`, else before the tuples of the window. `value`: pickled.
    """

    origin: int
    number: int
    at_end: bool
    value: bytes


Controls: TypeAlias = dict[tuple[int, str], list[Control]]
"""The control tuples of a window so far, by the output port that they left by (physical id and name)."""


class Entering(NamedTuple):
    """A stream into an operator: the output port (physical id and name) and the operator's port."""

    source: int
    source_port: str
    port: str


class ControlTuples:
    """The control tuples of one operator, window by window.

    `shared`: those of the container's window, to which it adds what it emits and what it passes on.
    """

    def __init__(
        self, operator_id: int, operator: Operator, entering: Iterable[Entering], shared: Controls
    ) -> None:
        self._id = operator_id
        self._entering = tuple(entering)
        self._shared = shared
        declared = operator_type(type(operator))
        self._handlers: dict[str, Callable[[Any], object]] = {
            name: getattr(operator, port.control_name)
            for name, port in declared.inputs.items()
            if port.control_name is not None
        }
        self._outputs = [name for name, port in declared.outputs.items() if not port.error]
        self._delivered: set[tuple[str, int, int]] = set()
        self._passed: set[tuple[int, int]] = set()

    @property
    def handles(self) -> bool:
        """True if the operator has a method for them."""
        return bool(self._handlers)

    def begin(self, call: Callable[..., object]) -> None:
        """An attempt at a window begins: `deliver` those that come before its tuples."""
        self._delivered.clear()
        self._passed.clear()
        for end in [end for end in self._shared if end[0] == self._id]:
            del self._shared[end]
        self.deliver(call, at_end=False)

    def deliver(self, call: Callable[..., object], *, at_end: bool) -> None:
        """Call the operator's methods for those that are due, by `call(callback, method, value)`.

        What a method does not keep, by returning True, goes on to all output ports.
        """
        for source, source_port, port in self._entering if self._shared else ():
            for control in self._shared.get((source, source_port), ()):
                key = port, control.origin, control.number
                if key in self._delivered or (control.at_end and not at_end):
                    continue
                self._delivered.add(key)
                handler = self._handlers.get(port)
                kept = handler is not None and call(
                    f"control of port {port}", handler, pickle.loads(control.value)
                )
                if kept is not True and key[1:] not in self._passed:
                    self._passed.add(key[1:])
                    for name in self._outputs:
                        self._shared.setdefault((self._id, name), []).append(control)

    def emitted(self, points: Mapping[str, OutputPoint]) -> None:
        """Add what the operator has emitted. Raises what pickling raises."""
        number = 0
        for name, point in points.items():
            for at_end, value in point.controls:
                control = Control(self._id, number, at_end, dumps(value))
                self._shared.setdefault((self._id, name), []).append(control)
                number += 1


def controls_to_send(
    controls: Mapping[tuple[int, str], list[Control]], operators: Collection[int]
) -> Controls:
    """The control tuples of those operators of a container that others read."""
    return {end: some for end, some in controls.items() if end[0] in operators}
