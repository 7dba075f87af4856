"""Edits of values: properties, attributes, and the number of partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from ridgeline.api.errors import ChangeError, did_you_mean
from ridgeline.api.support.masking import MASK, mask
from ridgeline.api.support.secrets.providers import named_by_command
from ridgeline.plan.change.editor import ONE_OF_TWO, Editor
from ridgeline.plan.change.kind import (
    EditKind,
    IsSecret,
    Word,
    class_text,
    masked_spec,
    value_text,
)
from ridgeline.plan.edits import Repartition, SetAttribute, SetProperty
from ridgeline.plan.graph import Kind

_Operator = Annotated[str, Word("Name of an operator, as in the plan.", "OPERATOR")]

# Properties -------------------------------------------------------------------------------------------------


def set_operator_property(
    operator: _Operator,
    name: Annotated[str, Word("Its property; `options.topic` for an entry of one.", "PROPERTY")],
    value: Annotated[str, Word("Its value, as `-D` takes it.", "VALUE", dashed=True)],
) -> SetProperty:
    """Give a property of an operator a value.

    In all partitions, from one window on. The instances stay: what they have cached and connected stays too.

    Example: `ridgeline set-operator-property payments payments per_window 500`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    return SetProperty(operator, name, value)


def _masked_property(edit: SetProperty, is_secret: IsSecret) -> SetProperty:
    secret = is_secret(f"{edit.operator}.{edit.property}", edit.value)
    return replace(edit, value=MASK if secret else mask(edit.property, edit.value))


def _set_property(editor: Editor, edit: SetProperty) -> None:
    """Set a property, or an entry of one. Raises ChangeError for a value that would run as code."""
    node = editor.find(edit.operator, edit.property)
    if node is None:
        return
    if named_by_command(edit.value):
        raise ChangeError(
            f"property `{edit.property}` of `{edit.operator}` names a command, which a change may not: it "
            "would run as code; give it at the start (`-D`, a configuration file), or name `env:` or `file:`"
        )
    value = editor.value(f"{edit.operator}.{edit.property}", edit.value)
    # not what was set before of it or of an entry; it is set after entries of it that were given before
    name, entries = edit.property, f"{edit.property}."
    left = {key: one for key, one in node.properties.items() if key != name and not key.startswith(entries)}
    editor.graph = editor.graph.put(replace(node, properties={**left, name: value}))


SET_PROPERTY = EditKind(
    edit=SetProperty,
    text=lambda edit: f"set `{edit.operator}.{edit.property}` to {value_text(edit.property, edit.value)}",
    make=_set_property,
    masked=_masked_property,
    command=set_operator_property,
)

# Attributes -------------------------------------------------------------------------------------------------


def set_operator_attribute(
    operator: _Operator,
    name: Annotated[str, Word("The attribute; `ridgeline library --attributes` has all.", "ATTRIBUTE")],
    value: Annotated[str, Word("Its value, as `--attribute` takes it.", "VALUE", dashed=True)],
    port: Annotated[str, Word("It is one of this port of the operator.", "PORT", option=True)] = "",
    *,
    unifier: Annotated[bool, Word("It is one of the unifiers of `--port`.", option=True)] = False,
) -> SetAttribute:
    """Give an attribute of an operator or a port a value.

    The operator's instances are made anew, over their state.

    Example: `ridgeline set-operator-attribute payments balances memory_mb 512`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    return SetAttribute(operator, name, value, port, unifier)


def _attribute_text(edit: SetAttribute) -> str:
    port = f"{'unifier' if edit.unifier else 'port'}.{edit.port}" if edit.port else ""
    path = ".".join(part for part in (edit.operator, port, edit.attribute) if part)
    return f"set the attribute `{path}` to {value_text(edit.attribute, edit.value)}"


def _set_attribute(editor: Editor, edit: SetAttribute) -> None:
    """Set an attribute of the application, an operator, a port, unifiers, or a stream."""
    where = ".".join(part for part in (edit.operator, edit.port, edit.attribute) if part)
    value = editor.value(where, edit.value)
    if not edit.operator:
        given = {**editor.graph.attributes, edit.attribute: value}
        editor.graph = replace(editor.graph, attributes=given)
        return
    kind, _, stream = edit.operator.partition(".")
    if kind == "stream" and stream and kind not in editor.graph.nodes:
        _set_of_stream(editor, stream, edit.attribute, value)
        return
    node = editor.find(edit.operator, edit.attribute)
    if node is None:
        return
    if edit.attribute == "partitioner" and isinstance(value, Mapping):
        value = editor.partitioner(where, value)
    if edit.unifier and not edit.port:
        what = "an attribute of unifiers is given without the output port that they merge"
        editor.faults.add(where, what, "name the `port`")
        return
    if not edit.port:
        node = node.without(edit.attribute).without(ONE_OF_TWO.get(edit.attribute, ""))
    if edit.port or value is not None:
        section: Kind = "attribute" if not edit.port else "unifier" if edit.unifier else "port"
        node = node.given(section, edit.port, {edit.attribute: value})
    editor.graph = editor.graph.put(node)


def _set_of_stream(editor: Editor, name: str, attribute: str, value: Any) -> None:
    """Set an attribute of a stream, `stream.NAME`."""
    where = f"stream.{name}.{attribute}"
    found = editor.stream(where, name)
    if found is None:
        return
    if attribute != "locality":
        what = f"there is no attribute `{attribute}` of streams"
        editor.faults.add(where, what, did_you_mean(attribute, ["locality"]))
        return
    editor.graph = editor.graph.put_stream(found.placed(value))


SET_ATTRIBUTE = EditKind(
    edit=SetAttribute,
    text=_attribute_text,
    make=_set_attribute,
    command=set_operator_attribute,
)

# Partitions -------------------------------------------------------------------------------------------------


def repartition(
    operator: _Operator,
    partitions: Annotated[int | None, Word("How many partitions it is to have.", "[N]", minimum=1)] = None,
    partitioner: Annotated[
        str | None,
        Word(
            "What divides it from now on: an import path, or JSON with `class`, `arguments` and "
            "`properties`. Default: what divides it now.",
            "CLASS",
            option=True,
        ),
    ] = None,
) -> Repartition:
    """Give an operator another number of partitions.

    Its keyed state moves with its keys. Operators that the change does not touch go on without a pause.

    Example: `ridgeline repartition payments balances 4`

    Exit codes: 0 committed, 1 not made in time, 2 refused: nothing is changed.
    """
    return Repartition(operator, partitions, None if partitioner is None else partitioner_of(partitioner))


def partitioner_of(text: str) -> dict[str, Any]:
    """The partitioner that a text names: an import path, or JSON. Raises ChangeError.

    >>> partitioner_of("payments.ByRegion")
    {'class': 'payments.ByRegion'}
    """
    if not text.lstrip().startswith("{"):
        return {"class": text}
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ChangeError(f"`--partitioner` is no JSON: {error}; write it as JSON") from None
    return found


def _repartition_text(edit: Repartition) -> str:
    count = f" to {edit.partitions}" if edit.partitions is not None else ""
    by = f" by {class_text(edit.partitioner)}" if edit.partitioner else ""
    return f"repartition `{edit.operator}`{count}{by}"


def _repartition(editor: Editor, edit: Repartition) -> None:
    """Set the attributes `partitions` and `partitioner` of an operator."""
    node = editor.find(edit.operator, "partitions")
    if node is None:
        return
    given: dict[str, Any] = {}
    if edit.partitions is None and edit.partitioner is None:
        what = "it is to be repartitioned, but neither `partitions` nor `partitioner` is given"
        editor.faults.add(f"{edit.operator}.partitions", what, "say how many partitions it is to have")
    if edit.partitions is not None:
        given["partitions"] = edit.partitions
    if edit.partitioner is not None:
        made = editor.partitioner(f"{edit.operator}.partitioner", edit.partitioner)
        if made is not None:
            given["partitioner"] = made
    editor.graph = editor.graph.put(node.given("attribute", "", given))


REPARTITION = EditKind(
    edit=Repartition,
    text=_repartition_text,
    make=_repartition,
    masked=lambda edit, _: (
        edit if edit.partitioner is None else replace(edit, partitioner=masked_spec(edit.partitioner))
    ),
    command=repartition,
)
