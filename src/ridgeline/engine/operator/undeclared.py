"""The attributes of an operator that it does not declare: what a window sets is dropped at its end."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.api.cells.per_instance import OWN
from ridgeline.api.operator import HIDDEN, Operator


def is_hidden(name: str) -> bool:
    """True for what the platform keeps on an operator."""
    return name in HIDDEN or name.startswith(OWN)


class Undeclared:
    """The undeclared attributes of an operator, and which of them are kept."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._kept: dict[str, object] = {}

    def keep(self) -> None:
        """What there is now, made by `__init__`, `setup` and `activate`, is there in each window."""
        self._kept = {name: value for name, value in vars(self._operator).items() if not is_hidden(name)}

    def set_in_window(self) -> list[str]:
        """The attributes that the window has set."""
        values: Mapping[str, object] = vars(self._operator)
        return [
            name
            for name, value in values.items()
            if not is_hidden(name) and self._kept.get(name, values) is not value
        ]

    def forget(self, window_id: int) -> None:
        """Remove attributes that the window set without declaring them, also those of `__init__` or `setup`.

        Properties and metrics, which the class has values for, get back the value that they had.
        """
        values = vars(self._operator)
        for name in self.set_in_window():
            del values[name]
            if name in self._kept and hasattr(type(self._operator), name):
                values[name] = self._kept[name]
                continue
            self._kept.pop(name, None)
            values.setdefault("_forgotten", {})[name] = window_id
