"""Attributes: their scopes, types, and the check of values."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ridgeline.api.support.duration import parse_duration

_LEAST_SECONDS = 0.001
MOST_SECONDS = 365 * 86_400.0
"""The longest duration that an attribute may have; threads and clocks cannot wait for much longer."""
_LONGEST_TEXT = 1024


class Scope(enum.StrEnum):
    """The kinds of things that an attribute can be given to.

    Example:
        >>> from ridgeline.api.attributes import ATTRIBUTES
        >>> sorted(ATTRIBUTES["partition_parallel"].scopes)
        [<Scope.INPUT_PORT: 'input port'>, <Scope.OPERATOR: 'operator'>]
    """

    APPLICATION = "application"
    OPERATOR = "operator"
    INPUT_PORT = "input port"
    OUTPUT_PORT = "output port"
    UNIFIER = "unifier"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute.

    `scopes`: what it can be given to. `kind`: its type. `minimum` and `maximum`: the numbers allowed.
    `several`: it takes one number or several, which become a tuple. `help`: what it does here.

    Attributes of kind `float` are durations in seconds, from a millisecond to a year. They are given as a
    number or a text such as "500ms". Those of kind `Real` are numbers.
    """

    name: str
    scopes: frozenset[Scope]
    kind: type
    default: Any
    help: str
    minimum: float | None
    maximum: int
    several: bool

    @property
    def takes(self) -> str:
        """The values that it takes, as text."""
        if issubclass(self.kind, enum.Enum):
            return ", ".join(member.name for member in self.kind)
        if self.kind is int:
            number = f"a whole number from {self.minimum}"
            return f"{number}, or several" if self.several else number
        if self.kind is Real:
            return f"a number from {self.minimum:g} to {self.maximum:g}"
        return {float: "a duration", bool: "true, false", str: "a text"}.get(
            self.kind, f"a {self.kind.__name__}"
        )

    @property
    def choices(self) -> list[str]:
        """All values that it takes, where these are few."""
        if issubclass(self.kind, enum.Enum):
            return [member.name for member in self.kind]
        return ["true", "false"] if self.kind is bool else []

    @property
    def default_text(self) -> str:
        """Its default as it would be given; "" for none."""
        if self.default is None:
            return ""
        if self.kind is float:
            return f"{self.default:g}s"
        return str(getattr(self.default, "name", self.default)).replace("False", "false")

    def check(self, value: object) -> tuple[object, str | None]:  # noqa: PLR0911  one for each kind
        """Return the value in the attribute's type and None, or unchanged and the rule that it breaks."""
        if value is None and self.default is None:
            return None, None
        parts = _parts(value) if self.several else None
        if parts is not None:
            checked = [self._check_number(part) for part in parts]
            rule = next((rule for _, rule in checked if rule is not None), None)
            return (tuple(part for part, _ in checked), None) if rule is None else (value, rule)
        if issubclass(self.kind, enum.Enum):
            return self._check_choice(value)
        if self.kind is bool:
            text = str(value).lower() if isinstance(value, (str, bool, np.bool_)) else ""
            return (text == "true", None) if text in ("true", "false") else (value, "must be true or false")
        if self.kind is float:
            return _check_duration(value)
        if self.kind is int:
            return self._check_number(value)
        if self.kind is Real:
            return self._check_real(value)
        if self.kind is str:
            return value, _text_rule(value)
        return value, None if isinstance(value, self.kind) else f"must be a `{self.kind.__name__}`"

    def _check_choice(self, value: object) -> tuple[object, str | None]:
        """`check` of an enum: a member, or its name in any case."""
        names: dict[str, object] = {member.name: member for member in self.kind}  # type: ignore[attr-defined]
        name = value.name if isinstance(value, enum.Enum) else value
        found = names.get(name.upper()) if isinstance(name, str) else None
        return (found, None) if found is not None else (value, f"must be one of {', '.join(names)}")

    def _check_real(self, value: Any) -> tuple[object, str | None]:
        """`check` of a number: an int or float, or a text of one."""
        number = math.nan if isinstance(value, bool) else _converted(float, value)
        least = -math.inf if self.minimum is None else self.minimum
        if number is not None and least <= number <= self.maximum:
            return number, None
        return value, f"must be a number from {least:g} to {self.maximum:g}"

    def _check_number(self, value: Any) -> tuple[object, str | None]:
        """`check` of a whole number: an int, an object that can be an index, or a text of digits."""
        number = _converted(int if isinstance(value, str) else operator.index, value)
        if number is None or isinstance(value, bool):
            return value, "must be a whole number"
        if self.minimum is not None and number < self.minimum:
            return value, f"must be at least {self.minimum}"
        if number > self.maximum:
            return value, f"must be at most {self.maximum}"
        return number, None


def _converted(function: Callable[[Any], Any], value: object) -> Any:
    """What a function makes of a value; None if it raises, whatever an object's own methods raise."""
    try:
        return function(value)
    except Exception:  # noqa: BLE001
        return None


def _check_duration(value: object) -> tuple[object, str | None]:
    """`Attribute.check` of a duration; returns seconds."""
    seconds = _converted(parse_duration, value)
    if not seconds:
        return value, 'must be a number of seconds above 0, or a text such as "500ms", "1s" or "5m"'
    if _LEAST_SECONDS <= seconds <= MOST_SECONDS:
        return seconds, None
    return value, "must be at least 1 ms and at most 8760 h, which is a year"


def _text_rule(value: object) -> str | None:
    """The rule that a text breaks; None if it breaks none."""
    if not isinstance(value, str) or not value.strip():
        return "must be a text that is not empty"
    if len(value) > _LONGEST_TEXT:
        return f"must have at most {_LONGEST_TEXT} characters"
    return None if value.isprintable() else "must have no line breaks and other control characters"


def _parts(value: object) -> Sequence[object] | None:
    """The parts of a list, a tuple, or a text such as "4,2"; None for a single value."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")] if "," in value else None
    return value if isinstance(value, (list, tuple)) and value else None
