"""Apply edits to an application by name: the graph is as if its author had written it so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ridgeline.api.errors import Faults
from ridgeline.plan.change.applying import make_all
from ridgeline.plan.change.editor import Editor
from ridgeline.plan.edits import (
    AddOperator,
    Edit,
    Given,
    RemoveOperator,
    RenameOperator,
)
from ridgeline.plan.graph import Graph
from ridgeline.plan.overrides import Overrides


def names_made(edits: Iterable[Edit]) -> set[str]:
    """The names that edits give to operators."""
    made = {edit.name for edit in edits if isinstance(edit, AddOperator)}
    return made | {edit.new for edit in edits if isinstance(edit, RenameOperator)}


def edited(faults: Faults, graph: Graph, given: Given, options: Overrides) -> Graph:
    """A graph with all edits made, and with what is given from outside set; adds faults.

    Options name operators as they are called before or after the kept edits, or after all edits.
    """
    if not given.edits and not given.kept:
        return options.set(faults, graph)
    editor = Editor(faults, graph)
    make_all(editor, given.kept)
    renamed, _ = names_after(given.kept)
    for name in graph.nodes.keys() - editor.graph.nodes.keys():
        options.move(name, renamed.get(name))  # what is given to one that kept edits remove is dropped
    late = options.taken(names_made(given.edits) - editor.graph.nodes.keys())
    editor.graph = options.set(faults, editor.graph)
    make_all(editor, given.edits)
    return late.set(faults, editor.finished())


def names_after(edits: Sequence[Edit]) -> tuple[dict[str, str], set[str]]:
    """What edits make of the operators before all of them: new names by old ones, and those removed.

    >>> names_after([RenameOperator("a", "b"), RenameOperator("b", "c"), AddOperator("a", {})])
    ({'a': 'c'}, set())
    >>> names_after([RenameOperator("a", "b"), RemoveOperator("b")])
    ({}, {'a'})
    """
    origins: dict[str, str] = {}
    """By the name of now, that of before all edits; "" for one that was added."""
    gone: set[str] = set()
    for edit in edits:
        if isinstance(edit, RenameOperator):
            origins[edit.new] = origins.pop(edit.name, edit.name)
        elif isinstance(edit, AddOperator):
            origins[edit.name] = ""
        elif isinstance(edit, RemoveOperator):
            gone.add(origins.pop(edit.name, edit.name))
    return {before: now for now, before in origins.items() if before and before != now}, gone - {""}
