"""The kinds of edits: all that asks for, shows or makes edits goes through these rows, and what finds them.

Those of operators are here, too: add, remove, replace and rename one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ridgeline.plan.change.editor import ONE_OF_TWO, Editor
from ridgeline.plan.change.kind import (
    EditKind,
    class_text,
    masked_spec,
)
from ridgeline.plan.change.streams import (
    ADD_SINK,
    ADD_STREAM,
    REMOVE_SINK,
    REMOVE_STREAM,
)
from ridgeline.plan.change.values import (
    REPARTITION,
    SET_ATTRIBUTE,
    SET_PROPERTY,
)
from ridgeline.plan.edits import (
    AddOperator,
    Edit,
    RemoveOperator,
    RenameOperator,
    ReplaceOperator,
)
from ridgeline.plan.graph import Kind
from ridgeline.plan.logical import module_of


def _add(editor: Editor, edit: AddOperator) -> None:
    if not editor.is_free(edit.name):
        return
    made = editor.made(edit.name, edit.spec)
    if made is not None:
        editor.graph = editor.graph.put(made)


ADD_OPERATOR = EditKind(
    edit=AddOperator,
    text=lambda edit: f"add the operator `{edit.name}`, {class_text(edit.spec)}",
    make=_add,
    masked=lambda edit, _: replace(edit, spec=masked_spec(edit.spec)),
)


def _remove(editor: Editor, edit: RemoveOperator) -> None:
    """Remove an operator, or all of a module, with all that is said of it."""
    if edit.name in editor.graph.parts:
        editor.forget([name for name in editor.graph.nodes if name.startswith(f"{edit.name}.")])
    elif editor.find(edit.name) is not None and not editor.is_end_of_delay(edit.name):
        editor.forget([edit.name])


REMOVE_OPERATOR = EditKind(
    edit=RemoveOperator,
    text=lambda edit: f"remove the operator `{edit.name}`",
    make=_remove,
)


def _replace(editor: Editor, edit: ReplaceOperator) -> None:
    """Put another operator in the place of one, with the attributes that are not given again."""
    node = editor.find(edit.name)
    if node is not None and editor.is_end_of_delay(edit.name):
        return
    made = None if node is None else editor.made(edit.name, edit.spec)
    if made is None:
        editor.spoilt.discard(edit.name)
        return
    editor.graph, lost = editor.graph.replaced(edit.name, made.operator)
    for stream, port in lost:
        kind = type(made.operator).__name__
        what = f"`{kind}` has no port `{port}`, where stream `{stream}` {'ends or begins'}"
        remedy = "remove the stream, or this sink of it, in the same change"
        editor.faults.add(f"{edit.name}.{port}", what, remedy)
    new = replace(editor.graph.nodes[edit.name], properties={})
    for name in made.attributes:
        new = new.without(ONE_OF_TWO.get(name, ""))
    new = new.given("attribute", "", made.attributes)
    sections: tuple[tuple[Kind, Mapping[str, Any]], ...] = (("port", made.ports), ("unifier", made.unifiers))
    for of, ports in sections:
        for port, values in ports.items():
            new = new.given(of, port, values)
    editor.graph = editor.graph.put(new)


REPLACE_OPERATOR = EditKind(
    edit=ReplaceOperator,
    text=lambda edit: f"replace the operator `{edit.name}` by {class_text(edit.spec)}",
    make=_replace,
    masked=lambda edit, _: replace(edit, spec=masked_spec(edit.spec)),
)


def _rename(editor: Editor, edit: RenameOperator) -> None:
    """Give an operator another name; all that is said of it is said of that name."""
    inside = module_of(edit.name) if edit.name in editor.graph.nodes else ""
    if inside or edit.name in editor.graph.parts:
        what = f"it is inside of module `{inside}`" if inside else "it is a module"
        remedy = "give it another name where the module is written"
        editor.faults.add(edit.name, f"{what}, whose names are its own", remedy)
        return
    if editor.find(edit.name) is not None and edit.new != edit.name and editor.is_free(edit.new):
        editor.graph = editor.graph.renamed(edit.name, edit.new)


RENAME_OPERATOR = EditKind(
    edit=RenameOperator,
    text=lambda edit: f"rename the operator `{edit.name}` to `{edit.new}`",
    make=_rename,
)
"""No difference has it: an operator of another name is another one there."""


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
_KIND_OF = {kind.edit: kind for kind in KINDS}


def kind_of(edit: Edit) -> EditKind[Any]:
    """The row of an edit."""
    return _KIND_OF[type(edit)]


def make_all(editor: Editor, edits: Iterable[Edit]) -> None:
    """Make edits, in order; those that cannot be made are faults of the editor's draft."""
    for edit in edits:
        kind_of(edit).make(editor, edit)
