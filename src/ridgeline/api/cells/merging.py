"""States that merge, for application windows that slide: `State(0, scope="window", merge=operator.add)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ridgeline.api.cells.list_state import ListState
from ridgeline.api.operator import operator_type

Merge: TypeAlias = Callable[[Any, Any], Any]
"""Makes one value of that of an older and of a newer part of the stream."""


def merges_of(kind: type) -> Mapping[str, Merge | None]:
    """The states of an operator class that live for an application window, and how each one merges.

    None for a `ListState`: lists are joined. Empty if a state does not merge, or if none says how it does.

    >>> from operator import add
    >>> from ridgeline import Operator, State
    >>> class Count(Operator):
    ...     tuples = State(0, scope="window", merge=add)
    >>> merges_of(Count)
    {'tuples': <built-in function add>}
    """
    states = {name: state for name, state in operator_type(kind).states.items() if state.scope == "window"}
    found = {name: getattr(state, "merge", None) for name, state in states.items()}
    merging = all(found[name] is not None or isinstance(states[name], ListState) for name in states)
    return found if merging and any(found.values()) else {}
