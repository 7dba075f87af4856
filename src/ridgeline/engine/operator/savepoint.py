"""What an operator holds in the middle of a window, to go back to if the next tuple fails."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import numpy as np

from ridgeline.api.cells.cell import is_mutable
from ridgeline.api.cells.keyed_overlay import Overlay
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.keyed_table import NumberTable
from ridgeline.api.state import ValueCell
from ridgeline.engine.operator.instance import Instance

_CONTAINERS = frozenset({dict, list, set, OrderedDict})
_PARTS = frozenset({Overlay, NumberTable})


class Savepoint:
    """The states of an operator, and the attributes that the window has set.

    To take it costs about as much as to copy what a state holds in memory, without its values. Values that
    can change in place are copied when the next tuple first reads them. Use it once: `roll_back` or
    `release`.
    Raises whatever copying an attribute raises.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._late = instance.context.engine.take_late()
        instance.context.count_late(self._late)
        names = instance.undeclared.set_in_window()
        values = vars(instance.operator)
        self._attributes = {name: _owned(values[name]) for name in names}
        memo: dict[int, Any] = {}
        self._cells = [(cell, _fields(cell, memo)) for cell in instance.cells.values()]
        self._keyed = [cell for cell in instance.cells.values() if isinstance(cell, KeyedCell)]
        for cell in self._keyed:
            cell.begin_trial()

    def release(self) -> None:
        """The tuple did not fail."""
        for cell in self._keyed:
            cell.end_trial()

    def roll_back(self) -> None:
        """The tuple failed: all is as before."""
        self._instance.context.engine.take_late()
        self._instance.context.count_late(self._late)
        values = vars(self._instance.operator)
        for name in self._instance.undeclared.set_in_window():
            if name not in self._attributes:
                del values[name]
        values.update(self._attributes)
        read = [cell.end_trial() for cell in self._keyed]
        for cell, fields in self._cells:
            for name, value in fields.items():
                setattr(cell, name, value)
        for keyed, before in zip(self._keyed, read, strict=True):
            keyed.put_back(before)


def _fields(one: Any, memo: dict[int, Any]) -> dict[str, Any]:
    """The fields of a cell, or of a part of it: those that change are copied."""
    names = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    found = {name: getattr(one, name) for name in names if hasattr(one, name)} | getattr(one, "__dict__", {})
    if isinstance(one, ValueCell):
        return {name: _owned(value) for name, value in found.items()}
    return {name: _copied(value, memo) for name, value in found.items()}


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A copy of what changes in place; the same one for the same object."""
    if id(value) in memo:
        return memo[id(value)]
    kind = type(value)
    if kind in _CONTAINERS or kind is np.ndarray:
        made = value.copy()
    elif kind in _PARTS:
        made = copy.copy(value)
        memo[id(value)] = made
        for name, part in _fields(value, memo).items():
            setattr(made, name, part)
    else:
        return value
    memo[id(value)] = made
    return made


def _owned(value: Any) -> Any:
    """A deep copy; quick for plain containers of what cannot change."""
    if not is_mutable(value):
        return value
    kind = type(value)
    if kind is list:
        return [_owned(item) for item in value]
    if kind is dict:
        return {key: _owned(item) for key, item in value.items()}
    return copy.deepcopy(value)
