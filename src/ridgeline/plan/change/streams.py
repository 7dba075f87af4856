"""Edits of streams: add and remove one, or a sink of one."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.api.errors import listed
from ridgeline.plan.change.editor import Editor
from ridgeline.plan.change.kind import EditKind
from ridgeline.plan.edits import AddSink, AddStream, RemoveSink, RemoveStream
from ridgeline.plan.graph import Sink, Stream
from ridgeline.plan.validate.application import check_name


def _add(editor: Editor, edit: AddStream) -> None:
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


ADD_STREAM = EditKind(
    edit=AddStream,
    text=lambda edit: (
        f"add the stream `{edit.name}` from `{edit.source}` to {', '.join(f'`{one}`' for one in edit.sinks)}"
    ),
    make=_add,
)


def _remove(editor: Editor, edit: RemoveStream) -> None:
    if editor.stream(edit.name, edit.name) is not None:
        editor.graph = editor.graph.without_streams([edit.name])


REMOVE_STREAM = EditKind(
    edit=RemoveStream,
    text=lambda edit: f"remove the stream `{edit.name}`",
    make=_remove,
)


def _add_sink(editor: Editor, edit: AddSink) -> None:
    """Add a sink to a stream. Its locality is its own; what the stream says holds for the other sinks."""
    stream = editor.stream(edit.stream, edit.stream)
    sinks = editor.end(edit.stream, edit.sink, "input")
    if stream is None or sinks is None:
        return
    for end in stream.sinks.keys() & sinks:
        editor.faults.add(edit.stream, f"`{end}` is a sink of the stream twice", "name it once")
    added = dict.fromkeys(sinks, Sink(edit.locality))
    editor.graph = editor.graph.put_stream(replace(stream, sinks={**stream.sinks, **added}))


ADD_SINK = EditKind(
    edit=AddSink,
    text=lambda edit: f"add the sink `{edit.sink}` to the stream `{edit.stream}`",
    make=_add_sink,
)


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


REMOVE_SINK = EditKind(
    edit=RemoveSink,
    text=lambda edit: f"remove the sink `{edit.sink}` from the stream `{edit.stream}`",
    make=_remove_sink,
)
