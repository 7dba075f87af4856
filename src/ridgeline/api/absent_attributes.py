"""Names that are no attributes here: what to use instead."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ridgeline.api.attribute import Scope
from ridgeline.api.attributes import attributes_of

INSTEAD: Mapping[str, str] = {
    "checkpoint_window_count": "every window is a checkpoint here; leave it out",
    "stateless": "an operator without declared state is stateless; leave it out",
    "window": 'the streaming window is the application\'s: `Application(name, window="1s")`',
}
"""The remedy for each such name."""


def unknown_attribute(name: str, scope: Scope) -> str:
    """The remedy for a name that no attribute has."""
    lower = name.lower()
    if lower in INSTEAD:
        return INSTEAD[lower]
    close = difflib.get_close_matches(lower, attributes_of(scope), n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"`ridgeline list-attributes --scope {scope.replace(' ', '-')}` shows all"
