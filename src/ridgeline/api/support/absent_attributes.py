"""Names that are no attributes here: what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.api.attributes import attributes_of
from ridgeline.api.errors import nearest
from ridgeline.api.support.apex_attributes import APPLICATION, OPERATOR, PORT
from ridgeline.api.support.attribute import Scope

_OWN: Mapping[str, str] = {"window": 'the application\'s: `Application(name, window="1s")`'}


def unknown_attribute(name: str, scope: Scope) -> str:
    """The remedy for a name that no attribute has: what to use instead, or a name like it."""
    instead = _instead(name, scope)
    if instead:
        nothing, _, why = instead.partition(": ")
        return f"leave it out: {why}" if nothing.startswith("nothing") else f"use instead: {instead}"
    close = nearest(name.lower(), attributes_of(scope))
    if close is not None:
        return f"did you mean `{close}`?"
    return f"`ridgeline list-attributes --scope {scope.replace(' ', '-')}` shows all"


def _instead(name: str, scope: Scope) -> str | None:
    """What stands in the place of an attribute of Apex, of this scope first."""
    first = APPLICATION if scope is Scope.APPLICATION else OPERATOR if scope is Scope.OPERATOR else PORT
    texts = (known.get(name.upper()) for known in (first, OPERATOR, APPLICATION, PORT))
    return _OWN.get(name) or next(filter(None, texts), None)
