"""The one property of an operator that may be given without its name: `Filter(is_large)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def named(kind: str, name: str, unnamed: Sequence[Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties together with the one that was given by position.

    Raises TypeError if more than one was given by position, or the same one by name too.
    """
    if len(unnamed) > 1:
        message = (
            f"`{kind}` takes `{name}` and, by name, its properties; "
            f"got {len(unnamed)} values without a name; write `{kind}(name=value)`"
        )
        raise TypeError(message)
    if unnamed and name in properties:
        message = f"`{kind}` got `{name}` twice, once without its name; give it once"
        raise TypeError(message)
    return {**properties, name: unnamed[0]} if unnamed else dict(properties)
