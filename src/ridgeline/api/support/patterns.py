"""Regular expressions from outside: of a configuration, a specification, an affinity rule.

They run in Rust's engine, which pydantic brings: its time is linear in the text, whatever the expression is.
It has neither look-around nor references back to a group.
"""

from __future__ import annotations

from typing import Annotated

import pydantic
import pydantic_core

_LONGEST = 1_000
"""Characters of an expression."""
_LONGEST_TEXT = 10_000
"""Characters of a text; longer ones match nothing."""


class Pattern:
    """A regular expression that cannot hang; it must match the whole text.

    Raises ValueError, with the reason, for what is no regular expression, or one that would take too much.

    >>> Pattern("sum.*").matches("sum_of_trades"), Pattern("sum").matches("sum_of_trades")
    (True, False)
    >>> Pattern("(a+)+b").matches("a" * 10_000)
    False
    """

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise ValueError(
                f"a regular expression of {len(text):,} characters; at most {_LONGEST:,} are allowed"
            )
        self.text = text
        try:
            self._matcher = pydantic.TypeAdapter(Annotated[str, pydantic.Field(pattern=f"^(?:{text})$")])
        except pydantic_core.SchemaError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = lines[-1].removeprefix("error: ")
            raise ValueError(f"`{text}` is no regular expression that is supported: {reason}") from None

    def matches(self, text: str) -> bool:
        """True if the whole text fits."""
        if len(text) > _LONGEST_TEXT:
            return False
        try:
            self._matcher.validate_python(text, strict=True)
        except pydantic.ValidationError:
            return False
        return True

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"
