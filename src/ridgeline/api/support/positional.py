"""Properties given by position: `Filter(is_large)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ridgeline.api.errors import shorten


def named_properties(
    kind: str, names: Sequence[str], values: Sequence[Any], properties: Mapping[str, object]
) -> dict[str, object]:
    """Return all properties by name.

    `values` were given by position, for the first of `names`; `properties` were given by name. `kind` is the
    operator class, for errors. Raises TypeError for more values than names, and for a property that is given
    twice.

    >>> named_properties("Filter", ["predicate", "batch_predicate"], [callable], {})
    {'predicate': <built-in function callable>}
    """
    if len(values) > len(names):
        surplus = shorten(values[len(names)])
        if not names:
            message = f"`{kind}` takes no properties by position; got {surplus}; leave it out"
            raise TypeError(message)
        listed = ", ".join(f"`{name}`" for name in names)
        by_position = f"at most {len(names)} by position, {listed}"
        message = f"`{kind}` takes {by_position}; got {len(values)}, then {surplus}; leave it out"
        raise TypeError(message)
    for name in names[: len(values)]:
        if name in properties:
            message = f"`{kind}` got `{name}` twice, by position and by name; give it once"
            raise TypeError(message)
    return {**dict(zip(names, values, strict=False)), **properties}
