"""The kit for connectors: bases of operators that read from and write to other systems."""

from ridgeline.connect.extras import Secret, secret_value
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.connect.partitioned_output import PartitionedOutput
from ridgeline.connect.reader import ReaderContext, Records, SourceRange, SourceReader
from ridgeline.connect.sink import (
    Batch,
    Mark,
    Sink,
    SinkContext,
    SinkUnavailableError,
    UnwritableError,
)
from ridgeline.connect.source import Amount, Source, SourceContext, SourceUnavailableError

__all__ = [
    "Amount",
    "Batch",
    "Mark",
    "PartitionedInput",
    "PartitionedOutput",
    "ReaderContext",
    "Records",
    "Secret",
    "Sink",
    "SinkContext",
    "SinkUnavailableError",
    "Source",
    "SourceContext",
    "SourceRange",
    "SourceReader",
    "SourceUnavailableError",
    "UnwritableError",
    "secret_value",
]
