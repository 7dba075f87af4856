"""Edits of values: properties, attributes, and the number of partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from ridgeline.api.errors import ChangeError, did_you_mean
from ridgeline.api.operator import operator_type
from ridgeline.api.support.masking import MASK, mask
from ridgeline.api.support.properties import property_types
from ridgeline.api.support.secrets.providers import named_by_command
from ridgeline.plan.build.port_attributes import (
    inherited_by_operator,
    inherited_by_port,
    inherited_by_unifier,
)
from ridgeline.plan.change.editor import ONE_OF_TWO, Editor
from ridgeline.plan.change.kind import (
    EditKind,
    IsSecret,
    ModuleOption,
    Verb,
    Word,
    class_text,
    masked_spec,
    value_text,
)
from ridgeline.plan.change.plan_pair import PlanPair
from ridgeline.plan.edits import Edit, Repartition, SetAttribute, SetProperty
from ridgeline.plan.graph import Kind
from ridgeline.plan.logical import LogicalOperator
from ridgeline.plan.same_values import altered_properties, same_value

_APART = ("partitions", "partitioner", "application_window")
"""Attributes of operators that other edits set, or that follow from others."""
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


def property_differences(pair: PlanPair, old: LogicalOperator, new: LogicalOperator) -> Iterator[Edit]:
    """The properties of an operator that differ; a replaced one has those of its new class."""
    if new.name in pair.replaced:
        return
    kinds = property_types(type(new.operator))
    for name in altered_properties(old.operator, new.operator):
        value = vars(new.operator)[name]
        yield SetProperty(new.name, name, pair.plain(f"{new.name}.{name}", name, value, kinds.get(name)))


SET_PROPERTY = EditKind(
    edit=SetProperty,
    text=lambda edit: f"set `{edit.operator}.{edit.property}` to {value_text(edit.property, edit.value)}",
    make=_set_property,
    masked=_masked_property,
    verbs=(
        Verb(
            "set-operator-property",
            "OPERATOR PROPERTY VALUE",
            "give a property a value",
            SetProperty,
        ),
    ),
    command=set_operator_property,
    target=lambda edit: ("property", edit.operator, edit.property),
    keeps_all=True,
    of_module=lambda edit: ModuleOption(edit.operator, edit.property, edit.value, is_property=True),
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


def application_differences(pair: PlanPair) -> Iterator[Edit]:
    """The attributes of the application that differ."""
    if pair.old.window_seconds != pair.new.window_seconds:
        yield SetAttribute("", "window", pair.new.window_seconds)
    for name, value in pair.new.attributes.items():
        if not same_value(pair.old.attributes[name], value):
            yield SetAttribute("", name, pair.plain(name, name, value))


def attribute_differences(pair: PlanPair, old: LogicalOperator, new: LogicalOperator) -> Iterator[Edit]:
    """The attributes that differ: of an operator, its ports and unifiers, if they follow no others."""
    name = new.name
    follow = [inherited_by_operator(plan.attributes) for plan in (pair.old, pair.new)]
    for key, value in _differ(old.attributes, new.attributes, follow):
        if key not in _APART:
            yield SetAttribute(name, key, pair.plain(f"{name}.{key}", key, value))
    declared = operator_type(type(new.operator))
    for port, values in new.ports.items():
        if port in old.ports:
            follow = [inherited_by_port(declared, port, one.attributes) for one in (old, new)]
            for key, value in _differ(old.ports[port], values, follow):
                yield SetAttribute(name, key, pair.plain(f"{name}.{port}.{key}", key, value), port)
    for port, values in new.unifier_attributes.items():
        if port in old.unifier_attributes:
            plans = ((old, pair.old), (new, pair.new))
            follow = [inherited_by_unifier(one.attributes, plan.attributes) for one, plan in plans]
            for key, value in _differ(old.unifier_attributes[port], values, follow):
                if key not in _APART:
                    plain = pair.plain(f"{name}.{port}.{key}", key, value)
                    yield SetAttribute(name, key, plain, port, unifier=True)


def _differ(
    old: Mapping[str, Any], new: Mapping[str, Any], follow: list[dict[str, Any]]
) -> list[tuple[str, Any]]:
    """The attributes that differ, without those that follow from others before and after."""
    found = []
    for name, value in new.items():
        if name not in old or same_value(old[name], value):
            continue
        follows = name in follow[1] and all(
            same_value(one.get(name), own) for one, own in zip(follow, (old[name], value), strict=True)
        )
        if not follows:
            found.append((name, value))
    return found


def _option_of_module(edit: SetAttribute) -> ModuleOption:
    path = f"{'unifier' if edit.unifier else 'port'}.{edit.port}." if edit.port else ""
    return ModuleOption(edit.operator, f"{path}{edit.attribute}", edit.value)


SET_ATTRIBUTE = EditKind(
    edit=SetAttribute,
    text=_attribute_text,
    make=_set_attribute,
    verbs=(
        Verb(
            "set-operator-attribute",
            "OPERATOR ATTRIBUTE VALUE",
            "give an attribute of an operator a value",
            SetAttribute,
        ),
        Verb(
            "set-port-attribute",
            "OPERATOR PORT ATTRIBUTE VALUE",
            "give an attribute of a port a value",
            lambda operator, port, name, value: SetAttribute(operator, name, value, port),
        ),
        Verb(
            "set-stream-attribute",
            "STREAM ATTRIBUTE VALUE",
            "give an attribute of a stream a value: `locality`",
            lambda stream, name, value: SetAttribute(f"stream.{stream}", name, value),
        ),
    ),
    command=set_operator_attribute,
    target=lambda edit: ("attribute", edit.operator, edit.attribute, edit.port, edit.unifier),
    keeps_all=True,
    of_module=_option_of_module,
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


def _repartition_verb(operator: str, partitions: str, partitioner: str = "") -> Repartition:
    if not partitions.isdecimal():
        raise ChangeError(f"`{partitions}` is no number of partitions; give a whole number")
    return Repartition(operator, int(partitions), partitioner_of(partitioner) if partitioner else None)


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


def partition_differences(pair: PlanPair, old: LogicalOperator, new: LogicalOperator) -> Iterator[Edit]:
    """The number of partitions, and what divides them."""
    count = new.attributes["partitions"]
    changes = count != old.attributes["partitions"] or (old.followed and not new.followed)
    other = count if changes and not new.followed else None
    if new.followed and not old.followed:
        yield SetAttribute(new.name, "partitions", None)
    partitioner = new.attributes["partitioner"]
    if same_value(old.attributes["partitioner"], partitioner):
        if other is not None:
            yield Repartition(new.name, other)
    elif partitioner is None:
        yield SetAttribute(new.name, "partitioner", None)
        if other is not None:
            yield Repartition(new.name, other)
    else:
        yield Repartition(new.name, other, pair.partitioner(new.name, partitioner))


REPARTITION = EditKind(
    edit=Repartition,
    text=_repartition_text,
    make=_repartition,
    masked=lambda edit, _: (
        edit if edit.partitioner is None else replace(edit, partitioner=masked_spec(edit.partitioner))
    ),
    verbs=(
        Verb(
            "repartition",
            "OPERATOR N [PARTITIONER]",
            "give an operator another number of partitions",
            _repartition_verb,
        ),
    ),
    command=repartition,
    target=lambda edit: (
        ("partitions", edit.operator) if edit.partitions is not None and not edit.partitioner else None
    ),
    keeps_all=True,
    of_module=lambda edit: (
        None if edit.partitioner is not None else ModuleOption(edit.operator, "partitions", edit.partitions)
    ),
)
