"""What an operator author touches."""

from ridgeline.api.application import Application
from ridgeline.api.attributes import Locality, ProcessingMode, RecordingLevel
from ridgeline.api.cache import Cache
from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.codec import StreamCodec, stable_hash
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import (
    CheckpointError,
    Fault,
    OperatorError,
    RidgelineError,
    SchemaError,
    StateError,
    ValidationError,
)
from ridgeline.api.operator import InputOperator, Operator, Unifier
from ridgeline.api.partitioner import (
    KeyedPartitioner,
    Partition,
    Partitioner,
    PartitionKeys,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from ridgeline.api.ports import InputPort, OutputPort
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.state import KeyedState, ListState, State

__all__ = [
    "Application",
    "Cache",
    "CheckpointError",
    "Clock",
    "Fault",
    "InputOperator",
    "InputPort",
    "KeyedPartitioner",
    "KeyedState",
    "ListState",
    "Locality",
    "Operator",
    "OperatorContext",
    "OperatorError",
    "OutputPort",
    "Partition",
    "PartitionKeys",
    "Partitioner",
    "ProcessingMode",
    "Publisher",
    "PublisherContext",
    "RecordingLevel",
    "RidgelineError",
    "RoundRobinPartitioner",
    "SchemaError",
    "State",
    "StateError",
    "StickyPartitioner",
    "StreamCodec",
    "SystemClock",
    "Unifier",
    "ValidationError",
    "stable_hash",
]
