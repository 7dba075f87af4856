"""Planted: state that is read and written as another type than it was declared with."""

from __future__ import annotations

from ridgeline import Cache, KeyedState, ListState, Operator, State


class Keeps(Operator):
    position = State(0)
    totals = KeyedState(int, key=str, default=0)
    recent = ListState(float)
    known = Cache(dict[str, int])

    def end_window(self) -> None:
        self.position += 1
        text: str = self.position  # error: a number
        self.totals[text] += self.position
        self.totals["a"] = 0.5  # error: a value of another type
        self.totals[1] = 1  # error: a key of another type
        self.recent.append(0.5)
        self.recent.append("0.5")  # error: text
        self.known["a"] = 1
        self.known["a"] = "1"  # error: text


class Assigns(Operator):
    """What pyright does not see: it adds up all types that are assigned to a name without an annotation."""

    position = State(0)
    totals = KeyedState(int, default="0")  # mypy error: a default of another type

    def end_window(self) -> None:
        self.position = "1"  # mypy error: text
