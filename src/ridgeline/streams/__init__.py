"""Streams as values: the short way to write an application, on top of `add_operator` and `add_stream`."""

from ridgeline.streams.connecting import Outputs
from ridgeline.streams.grouped import GroupedStream, WindowedStream
from ridgeline.streams.preview import Preview
from ridgeline.streams.stream import Stream
from ridgeline.streams.tables import StreamTable

__all__ = [
    "GroupedStream",
    "Outputs",
    "Preview",
    "Stream",
    "StreamTable",
    "WindowedStream",
]
