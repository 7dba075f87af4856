"""What a docstring says of arguments: the help of options, and the descriptions of parameters.

Its section `Args` has them as usual, `name (MARK): text`. So a command and a question are plain functions,
whose signature and docstring are all that there is to say.
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

_SECTION = "\n\nArgs:\n"
_ENTRY = re.compile(r"^    (\w+)(?: \(([^)]*)\))?: (.*(?:\n {8}.*)*)", re.MULTILINE)


class Described(NamedTuple):
    """The text about an argument, and what stands in brackets behind its name."""

    text: str = ""
    mark: str = ""


def documented(thing: object) -> tuple[str, dict[str, Described]]:
    """The text of a docstring before its arguments, and what it says of each.

    >>> def last(limit, only=""):
    ...     '''List the last ones.
    ...
    ...     Args:
    ...         limit (N): How many.
    ...         only: What
    ...             they are called.
    ...     '''
    >>> documented(last)[1]
    {'limit': Described(text='How many.', mark='N'), 'only': Described(text='What they are called.', mark='')}
    """
    text, _, section = inspect.cleandoc(thing.__doc__ or "").partition(_SECTION)
    found = {
        name: Described(" ".join(said.split()), mark or "") for name, mark, said in _ENTRY.findall(section)
    }
    return text, found
