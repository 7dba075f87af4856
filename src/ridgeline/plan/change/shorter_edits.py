"""Makes a list of edits shorter, so that it does not grow with each change of an application that runs on."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    Repartition,
    SetAttribute,
    SetProperty,
    edit_to_json,
)

_KEEPING = (AddOperator, AddStream, AddSink, SetProperty, SetAttribute, Repartition)
"""With these edits all that was there stays, under the same names."""


def shortened(edits: Sequence[Edit]) -> list[Edit]:
    """Edits that make the same application, without those that later ones make superfluous.

    So are all edits of an operator that was added and removed, as queries are.

    >>> query = AddOperator("query", {}), AddSink("prices", "query.first")
    >>> shortened([Repartition("a", 2), *query, RemoveOperator("query"), Repartition("a", 3)])
    [Repartition(operator='a', partitions=3, partitioner=None)]
    """
    left, place = list(edits), 0
    while place < len(left):
        own = _undone(left, place)
        left = [edit for number, edit in enumerate(left) if number not in own]
        place += 1 - len(own)
    return _without_older(left)


def _without_older(edits: Sequence[Edit]) -> list[Edit]:
    """The edits without those that a later one makes superfluous, as far as only values are set between."""
    left: list[Edit] = []
    later: set[object] = set()
    for edit in reversed(edits):
        of = _target(edit)
        if of is None:
            later.clear()
        elif of in later:
            continue
        else:
            later.add(of)
        left.append(edit)
    return left[::-1]


def _target(edit: Edit) -> object:
    """What an edit gives a value to, so that a later one makes it superfluous; None if it does more."""
    match edit:
        case SetProperty(operator, name):
            return "property", operator, name
        case SetAttribute(operator, name, _, port, unifier):
            return "attribute", operator, name, port, unifier
        case Repartition(operator, int(), None):
            return "partitions", operator
    return None


def _undone(edits: Sequence[Edit], end: int) -> Collection[int]:
    """If an edit takes away an operator that one before it added: the numbers of all edits about that.

    None if others need them, as a stream does that begins there.
    """
    edit = edits[end]
    if not isinstance(edit, RemoveOperator):
        return ()
    name = edit.name
    added = [at for at, one in enumerate(edits[:end]) if isinstance(one, AddOperator) and one.name == name]
    if not added:
        return ()
    own = [at for at in range(added[-1], end + 1) if _owner(edits[at]) == name]
    others = [edits[at] for at in range(added[-1], end) if at not in own]
    return own if all(isinstance(one, _KEEPING) and not _names(one, name) for one in others) else ()


def _owner(edit: Edit) -> str:
    """The operator that an edit is about; "" if it is about more."""
    match edit:
        case AddOperator(name) | RemoveOperator(name):
            return name
        case SetProperty(operator) | SetAttribute(operator) | Repartition(operator):
            return operator
        case AddSink(_, sink) | RemoveSink(_, sink):
            return sink.rpartition(".")[0]
    return ""


def _names(edit: Edit, operator: str) -> bool:
    """Whether an edit names an operator, or a part of it, anywhere."""
    text = json.dumps(edit_to_json(edit), default=str, ensure_ascii=False, skipkeys=True)
    return f'"{operator}"' in text or f'"{operator}.' in text
