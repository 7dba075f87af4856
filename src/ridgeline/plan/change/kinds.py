"""The kinds of edits: all that asks for, shows, makes or finds edits goes through these rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ridgeline.plan.change.editor import Editor
from ridgeline.plan.change.kind import Difference, EditKind, OperatorDifference, Verb
from ridgeline.plan.change.operators import ADD_OPERATOR, REMOVE_OPERATOR, RENAME_OPERATOR, REPLACE_OPERATOR
from ridgeline.plan.change.plan_pair import PlanPair
from ridgeline.plan.change.streams import ADD_SINK, ADD_STREAM, REMOVE_SINK, REMOVE_STREAM
from ridgeline.plan.change.values import REPARTITION, SET_ATTRIBUTE, SET_PROPERTY
from ridgeline.plan.edits import Edit

KINDS: tuple[EditKind[Any], ...] = (
    ADD_OPERATOR,
    ADD_STREAM,
    ADD_SINK,
    REMOVE_SINK,
    REMOVE_OPERATOR,
    REPLACE_OPERATOR,
    RENAME_OPERATOR,
    REMOVE_STREAM,
    REPARTITION,
    SET_PROPERTY,
    SET_ATTRIBUTE,
)
"""In the order in which a session's `help` lists their verbs."""
VERBS: Mapping[str, Verb] = {verb.name: verb for kind in KINDS for verb in kind.verbs}
_KIND_OF = {kind.edit: kind for kind in KINDS}


def kind_of(edit: Edit) -> EditKind[Any]:
    """The row of an edit."""
    return _KIND_OF[type(edit)]


def make_all(editor: Editor, edits: Iterable[Edit]) -> None:
    """Make edits, in order; those that cannot be made are faults of the editor's draft."""
    for edit in edits:
        kind_of(edit).make(editor, edit)


def find_edits(pair: PlanPair) -> Iterator[Edit]:
    """The edits that make the new plan of the old one; differences that no edit can make are faults."""
    differences = sorted((one for kind in KINDS for one in kind.differences), key=lambda one: one.step)
    for one in differences:
        if isinstance(one, Difference):
            yield from one.find(pair)
    of_operator = [one for one in differences if isinstance(one, OperatorDifference)]
    for before, after in pair.both:
        for each in of_operator:
            yield from each.find(pair, before, after)
