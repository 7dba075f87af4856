"""The one property of an operator that may be given without its name: `Filter(is_large)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def named(kind: str, name: str, unnamed: Sequence[Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties, with the one that came without its name.

    Raises TypeError for more than one, or one that is there already.
    """
    if len(unnamed) > 1:
        message = f"`{kind}` takes `{name}` and, by name, its properties; got {len(unnamed)} values without a name; write `{kind}(name=value)`"
        raise TypeError(message)
    if unnamed and name in properties:
        message = f"`{kind}` got `{name}` twice, once without its name; give it once"
        raise TypeError(message)
    return {**properties, name: unnamed[0]} if unnamed else dict(properties)
