"""Carry edits out: what each makes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ridgeline.api.application import Kind
from ridgeline.api.errors import did_you_mean, listed
from ridgeline.plan.change.editor import ONE_OF_TWO, Editor
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.graph import Sink, Stream
from ridgeline.plan.logical import module_of
from ridgeline.plan.validate.application import check_name

# Operators --------------------------------------------------------------------------------------------------


def _add_operator(editor: Editor, edit: AddOperator) -> None:
    if not editor.is_free(edit.name):
        return
    made = editor.made(edit.name, edit.spec)
    if made is not None:
        editor.graph = editor.graph.put(made)


def _remove_operator(editor: Editor, edit: RemoveOperator) -> None:
    """Remove an operator, or all of a module, with all that is said of it."""
    if edit.name in editor.graph.parts:
        inside = [name for name in editor.graph.nodes if name.startswith(f"{edit.name}.")]
        editor.graph = editor.graph.without(inside)
    elif editor.find(edit.name) is not None and not editor.is_end_of_delay(edit.name):
        editor.graph = editor.graph.without([edit.name])


def _replace_operator(editor: Editor, edit: ReplaceOperator) -> None:
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
    for of, port, values in made.of_ports:
        new = new.given(of, port, values)
    editor.graph = editor.graph.put(new)


def _rename_operator(editor: Editor, edit: RenameOperator) -> None:
    """Give an operator another name; all that is said of it is said of that name."""
    inside = module_of(edit.name) if edit.name in editor.graph.nodes else ""
    if inside or edit.name in editor.graph.parts:
        what = f"it is inside of module `{inside}`" if inside else "it is a module"
        remedy = "give it another name where the module is written"
        editor.faults.add(edit.name, f"{what}, whose names are its own", remedy)
        return
    if editor.find(edit.name) is not None and edit.new != edit.name and editor.is_free(edit.new):
        editor.graph = editor.graph.renamed(edit.name, edit.new)


# Streams ----------------------------------------------------------------------------------------------------


def _add_stream(editor: Editor, edit: AddStream) -> None:
    """Add a stream from a port where none begins yet."""
    check_name(editor.faults, "stream", edit.name)
    if edit.name in editor.graph.streams and editor.graph.streams[edit.name].sinks:
        remedy = "give another name, or add sinks to that stream"
        editor.faults.add(edit.name, f"there is a stream `{edit.name}` already", remedy)
        return
    source = editor.end(edit.name, edit.source, "output")
    sinks = [found for sink in edit.sinks for found in editor.end(edit.name, sink, "input") or ()]
    if not source or not sinks:
        return
    (begin,) = source
    standing = [one for one in editor.graph.streams.values() if one.sinks]
    begun = [one for one in standing if one.source == begin]
    if begun:
        what = f"stream `{begun[0].name}` begins at `{edit.source}` already"
        editor.faults.add(edit.name, what, f"add the sinks to `{begun[0].name}`")
        return
    ends = [replace(sink, through=(*begin.through, *sink.through)) for sink in sinks]
    made = Stream(edit.name, begin, dict.fromkeys(ends, Sink(edit.locality)))
    streams = {one.name: one for one in editor.graph.streams.values() if one.sinks or one.source != begin}
    streams.pop(edit.name, None)
    editor.graph = replace(editor.graph, streams={**streams, edit.name: made})


def _remove_stream(editor: Editor, edit: RemoveStream) -> None:
    if editor.stream(edit.name, edit.name) is not None:
        editor.graph = editor.graph.without_streams([edit.name])


def _add_sink(editor: Editor, edit: AddSink) -> None:
    """Add a sink to a stream. Its locality is its own; what the stream says holds for the other sinks."""
    sinks = editor.end(edit.stream, edit.sink, "input")
    looks_on = [editor.graph.nodes[end.operator].operator.leaves_with_streams for end in sinks or ()]
    if looks_on and all(looks_on) and edit.stream not in editor.graph.streams:
        return  # what was inserted to look at the stream goes with it
    stream = editor.stream(edit.stream, edit.stream)
    if stream is None or sinks is None:
        return
    for end in stream.sinks.keys() & sinks:
        editor.faults.add(edit.stream, f"`{end}` is a sink of the stream twice", "name it once")
    added = dict.fromkeys(sinks, Sink(edit.locality))
    editor.graph = editor.graph.put_stream(replace(stream, sinks={**stream.sinks, **added}))


def _remove_sink(editor: Editor, edit: RemoveSink) -> None:
    """Take a sink away. A stream that is without sinks in the end is none."""
    stream = editor.stream(edit.stream, edit.stream)
    ends = editor.end(edit.stream, edit.sink, "input")
    if stream is None or ends is None:
        return
    left = {end: sink for end, sink in stream.sinks.items() if end not in ends}
    if len(left) == len(stream.sinks):
        what = f"`{edit.sink}` is no sink of stream `{edit.stream}`"
        editor.faults.add(edit.stream, what, f"its sinks are {listed(map(str, stream.sinks))}")
        return
    editor.graph = editor.graph.put_stream(replace(stream, sinks=left))


# Values -----------------------------------------------------------------------------------------------------


def _set_property(editor: Editor, edit: SetProperty) -> None:
    """Set a property, or an entry of one."""
    node = editor.find(edit.operator, edit.property)
    if node is None:
        return
    value = editor.value(f"{edit.operator}.{edit.property}", edit.value)
    # not what was set before of it or of an entry; it is set after entries of it that were given before
    name, entries = edit.property, f"{edit.property}."
    left = {key: one for key, one in node.properties.items() if key != name and not key.startswith(entries)}
    editor.graph = editor.graph.put(replace(node, properties={**left, name: value}))


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
    if edit.attribute == "partitioner" and isinstance(value, Mapping):
        value = editor.partitioner(where, value)
    if edit.unifier and not edit.port:
        what = "an attribute of unifiers is given without the output port that they merge"
        editor.faults.add(where, what, "name the `port`")
        return
    for one, port in editor.members(edit.operator, edit.attribute, edit.port):
        changed = one
        if not port:
            changed = one.without(edit.attribute).without(ONE_OF_TWO.get(edit.attribute, ""))
        if port or value is not None:
            section: Kind = "attribute" if not port else "unifier" if edit.unifier else "port"
            changed = changed.given(section, port, {edit.attribute: value})
        editor.graph = editor.graph.put(changed)


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


def _repartition(editor: Editor, edit: Repartition) -> None:
    """Set the attributes `partitions` and `partitioner` of an operator."""
    if edit.partitions is None and edit.partitioner is None:
        what = "it is to be repartitioned, but neither `partitions` nor `partitioner` is given"
        editor.faults.add(f"{edit.operator}.partitions", what, "say how many partitions it is to have")
    given = {"partitions": edit.partitions, "partitioner": edit.partitioner}
    for name, value in given.items() if editor.members(edit.operator, "partitions") else ():
        if value is not None:
            _set_attribute(editor, SetAttribute(edit.operator, name, value))


_MAKE: Mapping[type, Callable[[Editor, Any], None]] = {
    AddOperator: _add_operator,
    RemoveOperator: _remove_operator,
    ReplaceOperator: _replace_operator,
    RenameOperator: _rename_operator,
    AddStream: _add_stream,
    RemoveStream: _remove_stream,
    AddSink: _add_sink,
    RemoveSink: _remove_sink,
    SetProperty: _set_property,
    SetAttribute: _set_attribute,
    Repartition: _repartition,
}


def make_all(editor: Editor, edits: Iterable[Edit]) -> None:
    """Make edits, in order; those that cannot be made are faults of the editor."""
    for edit in edits:
        _MAKE[type(edit)](editor, edit)
