"""The forms of a document: which there are, their limits, and what is wrong with a text."""

from __future__ import annotations

import enum
import math
from pathlib import PurePath
from typing import Any, TypeAlias

from ridgeline.api.errors import FaultError

LARGEST_BYTES = 2**20
"""The largest file that is read as a specification or configuration."""
DEEPEST = 64
"""How many lists and mappings may be inside each other."""
MOST_VALUES = 200_000
"""How many values a document may have, with YAML's aliases written out."""
Document: TypeAlias = dict[str, Any]


class Form(enum.StrEnum):
    """The form of a document, by the suffix of its file."""

    JSON = "json"
    YAML = "yaml"
    PROPERTIES = "properties"


WRITTEN = (Form.JSON, Form.YAML)
"""The forms in which specifications are written, too."""


def form_of(path: str) -> Form | None:
    """The form of a file by its suffix; None for other files."""
    suffix = PurePath(path).suffix.lower().removeprefix(".")
    if suffix == "yml":
        return Form.YAML
    return Form(suffix) if suffix in {form.value for form in Form} else None


class FormError(FaultError):
    """A text is no document of its form; the line, if it is known."""

    def __init__(self, what: str, remedy: str, line: int | None = None) -> None:
        super().__init__(what, remedy)
        self.line = line


def too_deep() -> FormError:
    """The error for a document with too many levels."""
    return FormError(f"more than {DEEPEST} levels are inside each other", "write it flatter")


def check_tree(document: object) -> None:
    """Check a document's depth, number of values and numbers. Raises FormError naming the path."""
    waiting: list[tuple[object, str, int]] = [(document, "", 0)]
    count = 0
    while waiting:
        value, path, depth = waiting.pop()
        count += 1
        if depth > DEEPEST:
            raise too_deep()
        if count > MOST_VALUES:
            what = f"the document has more than {MOST_VALUES:,} values, with aliases written out"
            raise FormError(what, "split the application, or make it in Python")
        if isinstance(value, dict):
            waiting.extend(
                (part, f"{path}.{key}" if path else str(key), depth + 1) for key, part in value.items()
            )
        elif isinstance(value, list):
            waiting.extend((part, f"{path}.{index}", depth + 1) for index, part in enumerate(value))
        elif isinstance(value, float) and not math.isfinite(value):
            raise FormError(f"`{path}` is {value}, which is no number", "give a finite number, or a text")
