"""The kit for connectors: bases of operators that read from and write to other systems."""

from ridgeline.connect.partitioned_output import PartitionedOutput
from ridgeline.connect.secrets import Secret, secret_value
from ridgeline.connect.sink import (
    Batch,
    Mark,
    Sink,
    SinkContext,
    SinkUnavailableError,
    UnwritableError,
)

__all__ = [
    "Batch",
    "Mark",
    "PartitionedOutput",
    "Secret",
    "Sink",
    "SinkContext",
    "SinkUnavailableError",
    "UnwritableError",
    "secret_value",
]
