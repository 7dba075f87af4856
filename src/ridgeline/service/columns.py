"""A column of a table: which field of an answer, its title, and how its values are written and told apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ridgeline.measure.wording.units import UNKNOWN


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of answers.

    `read`: a field of a row, or one within another (`("oldest", "value")`), or a function of the row, which
    the terminal alone knows. `form`: writes a value; that of a field that is null is `unknown`. `whole`: it
    writes the row instead, at a time. `style`: of all cells in the terminal, or by value.

    `levels`: how good what is written is, the worst first: `bad`, `behind`, `muted`, `ok`. `left`: the side
    to which it is aligned. `keep`: in a narrow terminal columns with the least are left out first, None:
    never. In the page those with 1 are left out beside the details of a row. `optional`: it is shown only if
    a row has a value. `estimates`: its values are estimates where the row says so.
    """

    title: str
    read: str | tuple[str, ...] | Callable[[Any], Any]
    form: Callable[..., str] = str
    style: str | Callable[[Any], str] = ""
    left: bool = False
    keep: int | None = None
    optional: bool = False
    estimates: bool = False
    unknown: str = UNKNOWN
    whole: bool = False
    levels: Mapping[str, str] = field(default_factory=dict)

    def value(self, row: Any) -> Any:
        """The value of a row."""
        if isinstance(self.read, str):
            return row.get(self.read)
        if not isinstance(self.read, tuple):
            return self.read(row)
        for name in self.read:
            row = None if row is None else row.get(name)
        return row

    def written(self, row: Any, at: float | None = None) -> str:
        """The value of a row as text."""
        if self.whole:
            return self.form(row, at)
        value = self.value(row)
        return self.unknown if value is None else self.form(value)

    def told(self) -> dict[str, Any]:
        """The column as the page gets it."""
        return {
            "path": (self.read,) if isinstance(self.read, str) else self.read,
            "title": self.title if self.title[1:2].isdigit() else self.title[:1].upper() + self.title[1:],
            "form": self.form.__name__,
            "number": not self.left,
            "extra": self.keep == 1,
            "optional": self.optional,
            "estimates": self.estimates,
            "unknown": self.unknown,
            "whole": self.whole,
            "levels": self.levels,
        }


words = partial(Column, left=True)
"""A column of texts."""
noted = partial(words, unknown="")
"""A column of texts that may be missing."""
