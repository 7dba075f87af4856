"""A kind of edit as one row, from which command line, REST and texts follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ridgeline.api.support.masking import mask, shown
from ridgeline.plan.change.editor import Editor
from ridgeline.plan.edits import Edit

E = TypeVar("E")
IsSecret = Callable[[str, object], bool]
"""Whether a value given to `operator.property` is a secret, by the type of the property."""
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Word:
    """How the command line shows a parameter of a row's `command`: by its place, or (`option`) as `--name`.

    `dashed`: it may begin with a dash, as `-5` does.
    """

    help: str
    metavar: str | None = None
    minimum: int | None = None
    option: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EditKind(Generic[E]):
    """A kind of edit. Its JSON follows from the fields of its class (`ridgeline.plan.edits`).

    Attributes:
        edit: Its class.
        text: It in one line, after `masked`.
        make: Carries it out; what cannot be made is a fault of the editor's draft.
        masked: It without secrets, for people.
        command: A command of its own: a function of annotated parameters (`Word`), whose docstring is the
            help. Raises ChangeError for words that make no edit.
    """

    edit: type[E]
    text: Callable[[E], str]
    make: Callable[[Editor, E], None]
    masked: Callable[[E, IsSecret], E] = lambda edit, _: edit
    command: Callable[..., Edit] | None = None


def value_text(name: str, value: object) -> str:
    """A value as a user would type it; a secret, by its name or form, is masked."""
    text = mask(name, value)
    return _short(text if isinstance(text, str) and text.strip() else shown(name, value))


def class_text(spec: Mapping[str, Any]) -> str:
    """The class that the specification of an operator or a partitioner names."""
    return f"`{_short(str(spec.get('class', '?')))}`"


def masked_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification of an operator or a partitioner with its secrets masked."""
    return {str(name): mask(str(name), value) for name, value in spec.items()}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
